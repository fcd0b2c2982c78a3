/* MD5, SHA-1, SHA-256 and HMAC-SHA256 by OpenSSL, and struct digest, which runs any set of the S3
 * checksums over one stream.
 *
 * This file uses OpenSSL's low-level functions, although version 3 marks them deprecated: they work
 * in the caller's memory and can start from a saved state. An EVP context allocates, and fetching
 * its algorithm takes locks and costs more than a short hash, of which a signature needs several.
 */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

#include "base/checksum.h"

#include <assert.h>
#include <endian.h>
#include <openssl/md5.h>
#include <openssl/sha.h>
#include <stdlib.h>

#include "base/error.h"

#define ALL_KINDS                                                                                  \
    (DIGEST_MD5 | DIGEST_SHA256 | DIGEST_SHA1 | DIGEST_CRC32 | DIGEST_CRC32C | DIGEST_CRC64NVME)

/* ---- SHA-256 in the caller's memory */

static_assert(sizeof(struct sha256_stream) >= sizeof(SHA256_CTX), "room for OpenSSL's state");
static_assert(_Alignof(struct sha256_stream) >= _Alignof(SHA256_CTX), "aligned for it");

static SHA256_CTX *context_of(struct sha256_stream *stream) {
    return (SHA256_CTX *)(void *)stream;
}

void sha256_init(struct sha256_stream *stream) {
    SHA256_Init(context_of(stream));
}

void sha256_update(struct sha256_stream *stream, const void *data, size_t size) {
    SHA256_Update(context_of(stream), data, size);
}

void sha256_final(struct sha256_stream *stream, uint8_t out[SHA256_SIZE]) {
    SHA256_Final(out, context_of(stream));
}

void sha256(const void *data, size_t size, uint8_t out[SHA256_SIZE]) {
    SHA256_CTX context;
    SHA256_Init(&context);
    SHA256_Update(&context, data, size);
    SHA256_Final(out, &context);
}

/* ---- HMAC (RFC 2104) from two saved states */

static void hmac_state(const uint8_t block[SHA256_CBLOCK], uint8_t pad, uint32_t state[8]) {
    SHA256_CTX context;
    uint8_t padded[SHA256_CBLOCK];
    for (size_t i = 0; i < sizeof(padded); i++) padded[i] = block[i] ^ pad;
    SHA256_Init(&context);
    SHA256_Update(&context, padded, sizeof(padded));
    for (int i = 0; i < 8; i++) state[i] = context.h[i];
    explicit_bzero(padded, sizeof(padded));
}

void hmac_key_init(struct hmac_key *key, const void *secret, size_t size) {
    uint8_t block[SHA256_CBLOCK] = {0};
    if (size > sizeof(block))
        sha256(secret, size, block);
    else if (size)
        memcpy(block, secret, size);
    hmac_state(block, 0x36, key->inner);
    hmac_state(block, 0x5c, key->outer);
    explicit_bzero(block, sizeof(block));
}

/* A context that has already taken in one block. */
static void hmac_resume(SHA256_CTX *context, const uint32_t state[8]) {
    SHA256_Init(context);
    for (int i = 0; i < 8; i++) context->h[i] = state[i];
    context->Nl = SHA256_CBLOCK * 8;
}

void hmac_sha256(const struct hmac_key *key, const void *data, size_t size,
                 uint8_t out[SHA256_SIZE]) {
    SHA256_CTX context;
    hmac_resume(&context, key->inner);
    SHA256_Update(&context, data, size);
    SHA256_Final(out, &context);
    hmac_resume(&context, key->outer);
    SHA256_Update(&context, out, SHA256_SIZE);
    SHA256_Final(out, &context);
}

/* ---- several digests over one stream */

struct digest {
    unsigned kinds; /* still running */
    MD5_CTX md5;
    SHA_CTX sha1;
    SHA256_CTX sha256;
    uint32_t crc32, crc32c;
    uint64_t crc64nvme;
};

int digest_create(unsigned kinds, struct digest **digest) {
    assert((kinds & ~(unsigned)ALL_KINDS) == 0);
    struct digest *d = calloc(1, sizeof(*d));
    if (!d) return -ENOMEM;
    d->kinds = kinds;
    if (kinds & DIGEST_MD5) MD5_Init(&d->md5);
    if (kinds & DIGEST_SHA1) SHA1_Init(&d->sha1);
    if (kinds & DIGEST_SHA256) SHA256_Init(&d->sha256);
    *digest = d;
    return 0;
}

static void digest_update_piece(struct digest *d, const void *data, size_t size) {
    if (d->kinds & DIGEST_CRC32) d->crc32 = checksum_crc32(d->crc32, data, size);
    if (d->kinds & DIGEST_CRC32C) d->crc32c = checksum_crc32c(d->crc32c, data, size);
    if (d->kinds & DIGEST_CRC64NVME) d->crc64nvme = checksum_crc64nvme(d->crc64nvme, data, size);
    if (d->kinds & DIGEST_MD5) MD5_Update(&d->md5, data, size);
    if (d->kinds & DIGEST_SHA1) SHA1_Update(&d->sha1, data, size);
    if (d->kinds & DIGEST_SHA256) SHA256_Update(&d->sha256, data, size);
}

void digest_update(struct digest *digest, const void *data, size_t size) {
    /* In pieces that stay in the second-level cache, so that memory is read once for all kinds. */
    const size_t piece = 64 * 1024;
    const uint8_t *bytes = data;
    while (size > 0) {
        size_t step = size < piece ? size : piece;
        digest_update_piece(digest, bytes, step);
        bytes += step;
        size -= step;
    }
}

static size_t put_u32(uint32_t value, uint8_t *out) {
    value = htobe32(value);
    memcpy(out, &value, sizeof(value));
    return sizeof(value);
}

static size_t put_u64(uint64_t value, uint8_t *out) {
    value = htobe64(value);
    memcpy(out, &value, sizeof(value));
    return sizeof(value);
}

size_t digest_final(struct digest *digest, enum digest_kind kind, uint8_t out[DIGEST_MAX_SIZE]) {
    assert(digest->kinds & kind);
    digest->kinds &= ~(unsigned)kind;
    switch (kind) {
    case DIGEST_MD5: MD5_Final(out, &digest->md5); return MD5_SIZE;
    case DIGEST_SHA1: SHA1_Final(out, &digest->sha1); return SHA1_SIZE;
    case DIGEST_SHA256: SHA256_Final(out, &digest->sha256); return SHA256_SIZE;
    case DIGEST_CRC32: return put_u32(digest->crc32, out);
    case DIGEST_CRC32C: return put_u32(digest->crc32c, out);
    case DIGEST_CRC64NVME: return put_u64(digest->crc64nvme, out);
    }
    abort();
}

void digest_destroy(struct digest **digest) {
    free(*digest);
    *digest = NULL;
}

size_t digest_size(enum digest_kind kind) {
    switch (kind) {
    case DIGEST_MD5: return MD5_SIZE;
    case DIGEST_SHA1: return SHA1_SIZE;
    case DIGEST_SHA256: return SHA256_SIZE;
    case DIGEST_CRC32:
    case DIGEST_CRC32C: return 4;
    case DIGEST_CRC64NVME: return 8;
    }
    return 0;
}
