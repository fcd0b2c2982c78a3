/* CRCs are remainders of polynomials over GF(2): the CRC of a+b is crc(a) * x^(8 * size of b) plus
 * crc(b). The power is found by squaring, so that a part of any size costs at most 43 steps. The
 * 64-bit case is base/'s. */
#include "object/checksum_combine.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

/* Reversed polynomials: bit 31 is x^0. */
#define POLYNOMIAL_CRC32  0xedb88320u
#define POLYNOMIAL_CRC32C 0x82f63b78u
#define X_POWER_0         0x80000000u
#define X_POWER_8         0x00800000u

static uint32_t multiply(uint32_t a, uint32_t b, uint32_t polynomial) {
    uint32_t product = 0;
    for (uint32_t bit = X_POWER_0; bit; bit >>= 1) {
        if (a & bit) product ^= b;
        b = (b >> 1) ^ (b & 1 ? polynomial : 0);
    }
    return product;
}

static uint32_t shift_by_bytes(uint64_t size, uint32_t polynomial) {
    uint32_t power = X_POWER_0;
    for (uint32_t square = X_POWER_8; size; size >>= 1) {
        if (size & 1) power = multiply(power, square, polynomial);
        square = multiply(square, square, polynomial);
    }
    return power;
}

static void combine_32(uint32_t polynomial, uint8_t *value, const uint8_t *value_b,
                       uint64_t size_b) {
    uint32_t a, b;
    memcpy(&a, value, sizeof(a));
    memcpy(&b, value_b, sizeof(b));
    a = multiply(shift_by_bytes(size_b, polynomial), be32toh(a), polynomial) ^ be32toh(b);
    a = htobe32(a);
    memcpy(value, &a, sizeof(a));
}

static void combine_64(uint8_t *value, const uint8_t *value_b, uint64_t size_b) {
    uint64_t a, b;
    memcpy(&a, value, sizeof(a));
    memcpy(&b, value_b, sizeof(b));
    a = htobe64(checksum_crc64nvme_combine(be64toh(a), be64toh(b), size_b));
    memcpy(value, &a, sizeof(a));
}

bool checksum_can_combine(enum digest_kind kind) {
    return kind == DIGEST_CRC32 || kind == DIGEST_CRC32C || kind == DIGEST_CRC64NVME;
}

void checksum_combine(enum digest_kind kind, uint8_t *value, const uint8_t *value_b,
                      uint64_t size_b) {
    assert(checksum_can_combine(kind));
    if (kind == DIGEST_CRC64NVME)
        combine_64(value, value_b, size_b);
    else
        combine_32(kind == DIGEST_CRC32 ? POLYNOMIAL_CRC32 : POLYNOMIAL_CRC32C, value, value_b,
                   size_b);
}
