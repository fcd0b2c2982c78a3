/* What a client says about the bytes it sends, and whether they are those: Content-MD5,
 * x-amz-content-sha256, x-amz-checksum-*, and the trailer that may come after the body. */
#ifndef PENSTOCK_S3_INTEGRITY_H
#define PENSTOCK_S3_INTEGRITY_H

#include "s3/request.h"

/* The algorithms by their names in headers, parameters and XML. */
struct checksum_name {
    enum digest_kind kind;
    const char *header;    /* x-amz-checksum-crc32 */
    const char *algorithm; /* CRC32 */
    const char *element;   /* ChecksumCRC32 */
};
const struct checksum_name *checksum_by_kind(enum digest_kind kind); /* NULL for 0 and MD5 */
const struct checksum_name *checksum_by_header(struct slice name);
const struct checksum_name *checksum_by_algorithm(struct slice name); /* any case */
const struct checksum_name *checksum_by_element(const char *name);

/* BASE64 of the longest digest, "-10000" and NUL. */
#define CHECKSUM_TEXT_SIZE 64
/* "value" or "value-N", as S3 shows it. */
void checksum_format(const struct object_checksum *checksum, unsigned part_count,
                     char out[CHECKSUM_TEXT_SIZE]);
/* The reverse; a part count is accepted and ignored. ERR_INVALID_REQUEST. */
int checksum_parse(const struct checksum_name *name, struct slice text,
                   struct object_checksum *checksum);

struct integrity {
    unsigned kinds; /* mask of digests to compute over the payload */
    bool has_md5, has_sha256;
    uint8_t md5[MD5_SIZE], sha256[SHA256_SIZE];
    struct object_checksum given;        /* kind 0: none */
    const struct checksum_name *trailer; /* announced by x-amz-trailer, or NULL */
};

/* From the headers. ERR_INVALID_DIGEST for a Content-MD5 that is none, ERR_INVALID_REQUEST for
 * several or malformed checksums, ERR_NOT_IMPLEMENTED for an algorithm not known here. */
int integrity_parse(struct s3_request *req, struct integrity *integrity);
/* Without the checksums: for a request whose x-amz-checksum-* speak of something else. */
int integrity_parse_digests(struct s3_request *req, struct integrity *integrity);
/* The value of the trailer, once it has come: it counts as given. */
int integrity_trailer(struct s3_request *req, struct integrity *integrity, const char *name,
                      const char *value);

struct integrity_result {
    char md5[2 * MD5_SIZE + 1];      /* hexadecimal; "" unless DIGEST_MD5 was asked for */
    struct object_checksum checksum; /* of `keep`; kind 0 for none */
};
/* Compare what was computed. keep: the kind whose value is wanted, or 0. ERR_BAD_DIGEST,
 * ERR_CONTENT_SHA256_MISMATCH. */
int integrity_verify(struct s3_request *req, const struct integrity *integrity,
                     struct digest *digest, enum digest_kind keep, struct integrity_result *result);
/* parse and verify for a body that is all here. */
int integrity_verify_document(struct s3_request *req, const struct integrity *integrity,
                              struct slice document);

/* x-amz-checksum-NAME and x-amz-checksum-type. */
void integrity_respond_checksum(struct s3_request *req, const struct object_checksum *checksum,
                                unsigned part_count);

#endif
