/* Authentication: AWS Signature Version 4, in the Authorization header or the query (presigned),
 * and the payload forms that go with it.
 *
 * This layer sees bytes and keys, no sockets: s3/ shows it the request and pulls the body through
 * the decoder below. It answers who signed (a struct identity), or the error AWS gives. Nothing is
 * anonymous. Signatures are compared in constant time; the signing key of (secret, day, region,
 * service) is cached. */
#ifndef PENSTOCK_AUTH_AUTH_H
#define PENSTOCK_AUTH_AUTH_H

#include <stdint.h>
#include <sys/types.h>

#include "base/checksum.h"
#include "base/slice.h"

/* ---- keys */
#define ACCESS_KEY_MAX 128
#define SECRET_KEY_MAX 128

struct identity {
    char access_key[ACCESS_KEY_MAX + 1];
    char secret_key[SECRET_KEY_MAX + 1];
};

struct keyring; /* immutable after start; thread-safe */
int keyring_create(struct keyring **keyring);
int keyring_add(struct keyring *keyring, const char *access_key,
                const char *secret_key); /* -EINVAL */
const struct identity *keyring_find(const struct keyring *keyring, struct slice access_key);
void keyring_destroy(struct keyring **keyring);

/* ---- what is signed */
struct auth_header {
    struct slice name;  /* lower case */
    struct slice value; /* trimmed */
};
#define AUTH_PARAMETERS_MAX 128 /* in a query */
struct auth_request {
    struct slice method;
    struct slice path;  /* percent-encoded, as sent */
    struct slice query; /* as sent, without '?' */
    const struct auth_header *headers;
    unsigned header_count;
    int64_t now_ms;      /* wall clock */
    struct slice region; /* the server's; a scope with another is AuthorizationHeaderMalformed */
};

/* How the body is framed and verified: the value of x-amz-content-sha256. */
enum payload_kind {
    PAYLOAD_UNSIGNED,                /* UNSIGNED-PAYLOAD, or presigned and nothing else said */
    PAYLOAD_HASH,                    /* hexadecimal SHA-256 of the whole body; in an Authorization
                                        header's request without the value: of an empty body */
    PAYLOAD_CHUNKED_SIGNED,          /* STREAMING-AWS4-HMAC-SHA256-PAYLOAD */
    PAYLOAD_CHUNKED_SIGNED_TRAILER,  /* ...-PAYLOAD-TRAILER */
    PAYLOAD_CHUNKED_UNSIGNED_TRAILER /* STREAMING-UNSIGNED-PAYLOAD-TRAILER */
};

struct auth_result {
    const struct identity *identity;
    bool presigned;
    enum payload_kind payload;
    uint8_t payload_sha256[SHA256_SIZE]; /* PAYLOAD_HASH */
    struct hmac_key signing_key;         /* for chunk signatures */
    char seed_signature[65];
    char date[17];             /* 20261201T063000Z */
    char scope[128];           /* 20261201/us-east-1/s3/aws4_request */
    char service[16];          /* s3 or s3express */
    char signed_headers[2048]; /* the list as sent: auth_header_is_signed() looks into it */
};

/* Verify. Errors: ERR_ACCESS_DENIED (no authentication at all, or SigV2), ERR_INVALID_ACCESS_KEY,
 * ERR_SIGNATURE_MISMATCH, ERR_REQUEST_TIME_SKEWED (15 minutes), ERR_EXPIRED_TOKEN (presigned past
 * its X-Amz-Expires; at most 604,800 s), ERR_AUTH_HEADER_MALFORMED, ERR_AUTH_QUERY_MALFORMED,
 * ERR_MISSING_SECURITY_HEADER (no host or date), ERR_INVALID_ARGUMENT (both forms at once, unknown
 * payload form), ERR_INVALID_URI (a broken escape, or more than AUTH_PARAMETERS_MAX parameters).
 * Every x-amz-* header and host must be among the signed ones (AWS: AccessDenied "There were
 * headers present in the request which were not signed"). *detail is a sentence for the answer,
 * or NULL; it points to static text. */
int auth_verify(const struct keyring *keyring, const struct auth_request *request,
                struct auth_result *result, const char **detail);
bool auth_header_is_signed(const struct auth_result *result, const char *name);

/* ---- signing, for the client: produces the value of the Authorization header. The headers given
 * must include host, x-amz-date and x-amz-content-sha256; all of them are signed. out needs
 * AUTH_HEADER_MAX bytes. */
#define AUTH_HEADER_MAX 4096
int auth_sign(const struct identity *identity, const struct auth_request *request,
              struct slice service, struct slice payload_hash, char *out);

/* ---- aws-chunked: a decoder for the payload framing, pulled by whoever receives the body.
 *
 * It is a state machine over framing bytes only. Payload bytes never pass through it by copy: it
 * says how many payload bytes come next, the caller receives them straight into a pool block and
 * shows them for hashing. Usage, in a loop: aws_chunked_feed() answers how many framing bytes it
 * consumed, and then one of these holds:
 *
 * - payload_remaining > 0: receive up to that many payload bytes and show them to
 *   aws_chunked_payload();
 * - finished: the body is whole; a checksum trailer, if any, stands in trailer_name and _value;
 * - neither: it consumed everything and needs more. A body that ends here is ERR_INCOMPLETE_BODY.
 */
struct aws_chunked {
    uint64_t payload_remaining; /* of the chunk that is open */
    bool finished;
    char trailer_name[64];   /* e.g. x-amz-checksum-crc32, lower case; "" when none came */
    char trailer_value[128]; /* base64 */
    /* private */
    const struct auth_result *auth;
    bool is_signed, has_trailer;
    int state;
    uint64_t decoded_bytes;
    char line[1024];
    unsigned line_size;
    char previous_signature[65], chunk_signature[65];
    bool line_is_bare; /* the last trailer ended in LF alone */
    struct sha256_stream chunk_hash, trailer_hash;
    unsigned trailer_count;
    char expected[128]; /* announced trailers, lower case, separated by commas */
};
/* decoder memory is the caller's; auth must outlive it. expected_trailer: value of x-amz-trailer
 * (lower-cased by the decoder), or an empty slice. */
void aws_chunked_init(struct aws_chunked *d, const struct auth_result *auth,
                      struct slice expected_trailer);
/* Errors: ERR_SIGNATURE_MISMATCH, ERR_INVALID_REQUEST (broken framing, or an announced checksum
 * that did not come), ERR_INVALID_ARGUMENT (a trailer that was not announced). Returns bytes
 * consumed (>= 0). After an error the body is lost: every later call answers ERR_INVALID_REQUEST.
 */
ssize_t aws_chunked_feed(struct aws_chunked *d, struct slice framing);
/* Account for and hash payload bytes just received; size <= payload_remaining. */
void aws_chunked_payload(struct aws_chunked *d, const void *data, size_t size);

#endif
