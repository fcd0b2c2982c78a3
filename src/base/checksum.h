/* Checksums and digests: CRC32C and CRC32 by ISA-L, CRC64NVME by carry-less multiply (ISA-L 2.30
 * has no such variant) with a table fallback, MD5/SHA-1/SHA-256 and HMAC by OpenSSL.
 *
 * CRC functions take and return finished values, so crc(b, crc(a, 0)) == crc(a+b, 0). */
#ifndef PENSTOCK_BASE_CHECKSUM_H
#define PENSTOCK_BASE_CHECKSUM_H

#include <stdint.h>

#include "base/slice.h"

uint32_t checksum_crc32(uint32_t crc, const void *data, size_t size);  /* zlib's polynomial */
uint32_t checksum_crc32c(uint32_t crc, const void *data, size_t size); /* Castagnoli */
uint64_t checksum_crc64nvme(uint64_t crc, const void *data, size_t size);

/* CRC64NVME of a+b from the values of a and b and the size of b (for FULL_OBJECT multipart). */
uint64_t checksum_crc64nvme_combine(uint64_t a, uint64_t b, uint64_t size_b);

#define MD5_SIZE    16
#define SHA1_SIZE   20
#define SHA256_SIZE 32

/* The S3 checksum algorithms, and the two digests that requests carry. A bit mask. */
enum digest_kind {
    DIGEST_MD5 = 1,
    DIGEST_SHA256 = 2,
    DIGEST_SHA1 = 4,
    DIGEST_CRC32 = 8,
    DIGEST_CRC32C = 16,
    DIGEST_CRC64NVME = 32,
};
#define DIGEST_MAX_SIZE SHA256_SIZE

/* Several digests over one stream. Not thread-safe; may be used from one thread at a time. */
struct digest;
int digest_create(unsigned kinds, struct digest **digest); /* kinds: mask of digest_kind */
void digest_update(struct digest *digest, const void *data, size_t size);
/* Big-endian for CRCs, as S3 writes them. Returns the size written. Ends that kind. */
size_t digest_final(struct digest *digest, enum digest_kind kind, uint8_t out[DIGEST_MAX_SIZE]);
void digest_destroy(struct digest **digest);
size_t digest_size(enum digest_kind kind);

void sha256(const void *data, size_t size, uint8_t out[SHA256_SIZE]);

/* SHA-256 in pieces, in the caller's memory; it may be copied. */
struct sha256_stream {
    uint64_t state[16]; /* private */
};
void sha256_init(struct sha256_stream *stream);
void sha256_update(struct sha256_stream *stream, const void *data, size_t size);
void sha256_final(struct sha256_stream *stream, uint8_t out[SHA256_SIZE]);

/* HMAC-SHA256 with a key whose two inner states are prepared once: a signature with a cached key
 * costs two short hashes. */
struct hmac_key {
    uint32_t inner[8], outer[8];
};
void hmac_key_init(struct hmac_key *key, const void *secret, size_t size);
void hmac_sha256(const struct hmac_key *key, const void *data, size_t size,
                 uint8_t out[SHA256_SIZE]);

bool constant_time_equal(const void *a, const void *b, size_t size);
void random_bytes(void *out, size_t size); /* getrandom; aborts if the kernel cannot */

#endif
