/* Digests and checksums of a payload: claimed, computed, compared. */
#include "s3/integrity.h"

#include <stdio.h>

#include "base/encode.h"
#include "base/error.h"

#define CHECKSUM_PREFIX "x-amz-checksum-"

static const struct checksum_name names[] = {
    {DIGEST_CRC32, CHECKSUM_PREFIX "crc32", "CRC32", "ChecksumCRC32"},
    {DIGEST_CRC32C, CHECKSUM_PREFIX "crc32c", "CRC32C", "ChecksumCRC32C"},
    {DIGEST_CRC64NVME, CHECKSUM_PREFIX "crc64nvme", "CRC64NVME", "ChecksumCRC64NVME"},
    {DIGEST_SHA1, CHECKSUM_PREFIX "sha1", "SHA1", "ChecksumSHA1"},
    {DIGEST_SHA256, CHECKSUM_PREFIX "sha256", "SHA256", "ChecksumSHA256"},
};
#define NAMES (sizeof names / sizeof names[0])

const struct checksum_name *checksum_by_kind(enum digest_kind kind) {
    for (size_t i = 0; i < NAMES; i++)
        if (names[i].kind == kind) return &names[i];
    return NULL;
}

const struct checksum_name *checksum_by_header(struct slice name) {
    for (size_t i = 0; i < NAMES; i++)
        if (slice_equal_nocase(name, slice_of(names[i].header))) return &names[i];
    return NULL;
}

const struct checksum_name *checksum_by_algorithm(struct slice name) {
    for (size_t i = 0; i < NAMES; i++)
        if (slice_equal_nocase(name, slice_of(names[i].algorithm))) return &names[i];
    return NULL;
}

const struct checksum_name *checksum_by_element(const char *name) {
    for (size_t i = 0; i < NAMES; i++)
        if (!strcmp(name, names[i].element)) return &names[i];
    return NULL;
}

void checksum_format(const struct object_checksum *checksum, unsigned part_count,
                     char out[CHECKSUM_TEXT_SIZE]) {
    base64_encode(checksum->value, digest_size(checksum->kind), out);
    size_t size = strlen(out);
    if (checksum->composite) snprintf(out + size, CHECKSUM_TEXT_SIZE - size, "-%u", part_count);
}

int checksum_parse(const struct checksum_name *name, struct slice text,
                   struct object_checksum *checksum) {
    const char *dash = text.size ? memchr(text.data, '-', text.size) : NULL;
    struct slice value = {text.data, dash ? (size_t)(dash - text.data) : text.size};
    *checksum = (struct object_checksum){.kind = name->kind, .composite = dash};
    ssize_t size = base64_decode(value, checksum->value, sizeof checksum->value);
    return size >= 0 && (size_t)size == digest_size(name->kind) ? 0 : ERR_INVALID_REQUEST;
}

static int parse_md5(struct s3_request *req, struct integrity *integrity) {
    struct slice text = request_header(req, "content-md5");
    if (!text.data) return 0;
    uint8_t value[DIGEST_MAX_SIZE];
    if (base64_decode(text, value, sizeof value) != MD5_SIZE) {
        request_add_extra(req, "Content-MD5", text);
        return ERR_INVALID_DIGEST;
    }
    memcpy(integrity->md5, value, MD5_SIZE);
    integrity->has_md5 = true;
    integrity->kinds |= DIGEST_MD5;
    return 0;
}

static bool describes_checksum(struct slice name) {
    return slice_is(name, CHECKSUM_PREFIX "algorithm") || slice_is(name, CHECKSUM_PREFIX "type") ||
           slice_is(name, CHECKSUM_PREFIX "mode");
}

static int unknown_algorithm(struct s3_request *req, struct slice name) {
    return request_fail(req, ERR_NOT_IMPLEMENTED,
                        "The checksum algorithm of %.*s is not implemented.", (int)name.size,
                        name.data);
}

static int parse_value(struct s3_request *req, struct integrity *integrity,
                       const struct checksum_name *known, struct slice value) {
    if (integrity->given.kind || integrity->trailer)
        return request_fail(req, ERR_INVALID_REQUEST, "Expecting a single x-amz-checksum- header.");
    int err = checksum_parse(known, value, &integrity->given);
    if (err || integrity->given.composite)
        return request_fail(req, ERR_INVALID_REQUEST, "Value for %s header is invalid.",
                            known->header);
    integrity->kinds |= known->kind;
    return 0;
}

static int parse_checksums(struct s3_request *req, struct integrity *integrity) {
    const struct http_request *http = &req->x->request;
    for (unsigned i = 0; i < http->header_count; i++) {
        struct slice name = http->headers[i].name;
        if (!slice_starts_with(name, SLICE_LITERAL(CHECKSUM_PREFIX)) || describes_checksum(name))
            continue;
        const struct checksum_name *known = checksum_by_header(name);
        if (!known) return unknown_algorithm(req, name);
        int err = parse_value(req, integrity, known, http->headers[i].value);
        if (err) return err;
    }
    return 0;
}

static int parse_trailer(struct s3_request *req, struct integrity *integrity) {
    struct slice name = request_header(req, "x-amz-trailer");
    if (!name.size) return 0;
    integrity->trailer = checksum_by_header(name);
    if (!integrity->trailer)
        return request_fail(req, ERR_INVALID_REQUEST,
                            "The value specified in the x-amz-trailer header is not supported");
    integrity->kinds |= integrity->trailer->kind;
    return 0;
}

int integrity_parse_digests(struct s3_request *req, struct integrity *integrity) {
    memset(integrity, 0, sizeof *integrity);
    if (req->auth.payload == PAYLOAD_HASH) {
        integrity->has_sha256 = true;
        integrity->kinds |= DIGEST_SHA256;
        memcpy(integrity->sha256, req->auth.payload_sha256, SHA256_SIZE);
    }
    return parse_md5(req, integrity);
}

int integrity_parse(struct s3_request *req, struct integrity *integrity) {
    int err = integrity_parse_digests(req, integrity);
    if (!err) err = parse_trailer(req, integrity);
    return err ? err : parse_checksums(req, integrity);
}

int integrity_trailer(struct s3_request *req, struct integrity *integrity, const char *name,
                      const char *value) {
    const struct checksum_name *expected = integrity->trailer;
    if (!expected) return 0;
    if (!slice_equal_nocase(slice_of(name), slice_of(expected->header)))
        return request_fail(req, ERR_INVALID_REQUEST,
                            "The trailer %s was announced but did not come.", expected->header);
    if (checksum_parse(expected, slice_of(value), &integrity->given))
        return request_fail(req, ERR_INVALID_REQUEST, "Value for %s trailing header is invalid.",
                            expected->header);
    return 0;
}

int integrity_verify(struct s3_request *req, const struct integrity *integrity,
                     struct digest *digest, enum digest_kind keep,
                     struct integrity_result *result) {
    memset(result, 0, sizeof *result);
    for (unsigned kind = DIGEST_MD5; kind <= DIGEST_CRC64NVME; kind <<= 1) {
        if (!(integrity->kinds & kind)) continue;
        uint8_t value[DIGEST_MAX_SIZE] = {0};
        size_t size = digest_final(digest, kind, value);
        if (kind == DIGEST_MD5) {
            hex_encode(value, size, result->md5);
            if (integrity->has_md5 && memcmp(value, integrity->md5, size)) return ERR_BAD_DIGEST;
        }
        if (kind == DIGEST_SHA256 && integrity->has_sha256 &&
            memcmp(value, integrity->sha256, size))
            return ERR_CONTENT_SHA256_MISMATCH;
        if (kind == integrity->given.kind && memcmp(value, integrity->given.value, size))
            return request_fail(req, ERR_BAD_DIGEST,
                                "The %s you specified did not match the calculated checksum.",
                                checksum_by_kind(kind)->algorithm);
        if (kind == keep) {
            result->checksum.kind = keep;
            memcpy(result->checksum.value, value, size);
        }
    }
    return 0;
}

int integrity_verify_document(struct s3_request *req, const struct integrity *integrity,
                              struct slice document) {
    if (!integrity->kinds) return 0;
    struct digest *digest = NULL;
    int err = digest_create(integrity->kinds, &digest);
    if (err) return err;
    digest_update(digest, document.data, document.size);
    struct integrity_result ignored;
    err = integrity_verify(req, integrity, digest, 0, &ignored);
    digest_destroy(&digest);
    return err;
}

void integrity_respond_checksum(struct s3_request *req, const struct object_checksum *checksum,
                                unsigned part_count) {
    const struct checksum_name *name = checksum_by_kind(checksum->kind);
    if (!name) return;
    char text[CHECKSUM_TEXT_SIZE];
    checksum_format(checksum, part_count, text);
    http_respond_header_slice(req->x, name->header, slice_of(text));
    http_respond_header_slice(req->x, "x-amz-checksum-type",
                              slice_of(checksum->composite ? "COMPOSITE" : "FULL_OBJECT"));
}
