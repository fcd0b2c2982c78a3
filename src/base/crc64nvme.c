/* CRC64NVME (the CRC of NVMe's protection information, S3's default checksum): reflected, init and
 * final XOR of all ones.
 *
 * Three ways to the same value: a table of eight slices, which every machine has; carry-less
 * multiplication of 16-byte blocks (PCLMULQDQ); the same on 64-byte vectors (VPCLMULQDQ). The
 * machine's best is chosen once. Tables and folding constants are computed from the polynomial
 * before main(), so that no number here needs to be taken on trust.
 *
 * Notation: in a reflected word bit 0 is the coefficient of the highest power. A 128-bit block with
 * low half L (the earlier bytes) and high half H is L*x^64 + H. */
#include "base/crc64nvme.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "base/checksum.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define POLYNOMIAL 0x9A6C9329AC4BC9B5ull
#define ONE        (1ull << 63) /* the polynomial 1, reflected */

static uint64_t slices[8][256];
static uint64_t byte_powers[64]; /* x^(8 * 2^i) mod P: moves a value over 2^i bytes */

static uint64_t times_x(uint64_t a) {
    return a >> 1 ^ (a & 1 ? POLYNOMIAL : 0);
}

static uint64_t multiply(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    for (uint64_t bit = ONE; bit; bit >>= 1) {
        if (a & bit) product ^= b;
        b = times_x(b);
    }
    return product;
}

static void tables_init(void) {
    for (unsigned i = 0; i < 256; i++) {
        uint64_t crc = i;
        for (int bit = 0; bit < 8; bit++) crc = times_x(crc);
        slices[0][i] = crc;
    }
    for (unsigned s = 1; s < 8; s++)
        for (unsigned i = 0; i < 256; i++)
            slices[s][i] = slices[0][slices[s - 1][i] & 0xff] ^ slices[s - 1][i] >> 8;

    byte_powers[0] = ONE >> 8;
    for (unsigned i = 1; i < 64; i++)
        byte_powers[i] = multiply(byte_powers[i - 1], byte_powers[i - 1]);
}

static uint64_t load64(const uint8_t *bytes) {
    uint64_t word;
    memcpy(&word, bytes, sizeof(word)); /* unaligned load; the compiler makes it one instruction */
    return le64toh(word);
}

/* Over the bare register, without the inversions. */
static uint64_t table_update(uint64_t crc, const uint8_t *bytes, size_t size) {
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t word = load64(bytes) ^ crc;
        crc = slices[7][word & 0xff] ^ slices[6][word >> 8 & 0xff] ^ slices[5][word >> 16 & 0xff] ^
              slices[4][word >> 24 & 0xff] ^ slices[3][word >> 32 & 0xff] ^
              slices[2][word >> 40 & 0xff] ^ slices[1][word >> 48 & 0xff] ^ slices[0][word >> 56];
    }
    for (; size > 0; size--) crc = slices[0][(crc ^ *bytes++) & 0xff] ^ crc >> 8;
    return crc;
}

uint64_t crc64nvme_table(uint64_t crc, const void *data, size_t size) {
    return ~table_update(~crc, data, size);
}

#if defined(__x86_64__)
/* To move a block over D bits, L is multiplied by x^(D+64) and H by x^D, mod P. The product of two
 * reflected words comes out one place short (127 bits in 128), which is a factor of x: the
 * constants are one power lower to make up for it. */
struct fold {
    uint64_t low, high;
};
static struct fold fold_128, fold_512, fold_2048;

static uint64_t power_of_x(unsigned n) {
    uint64_t power = ONE;
    while (n--) power = times_x(power);
    return power;
}

static struct fold fold_over(unsigned bits) {
    return (struct fold){.low = power_of_x(bits + 63), .high = power_of_x(bits - 1)};
}

#define PCLMUL  __attribute__((target("pclmul,sse4.1")))
#define VPCLMUL __attribute__((target("vpclmulqdq,pclmul,avx512f,avx512dq,avx512vl")))

PCLMUL static inline __m128i load_fold(const struct fold *fold) {
    return _mm_set_epi64x((long long)fold->high, (long long)fold->low);
}

PCLMUL static inline __m128i fold_block(__m128i block, __m128i fold, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(block, fold, 0x00);
    __m128i high = _mm_clmulepi64_si128(block, fold, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

PCLMUL static inline __m128i load_block(const uint8_t *bytes) {
    return _mm_loadu_si128((const __m128i *)(const void *)bytes);
}

/* What is left is one block congruent to everything before it: the table finishes it, and the
 * bytes that fill no block. */
PCLMUL static uint64_t finish(__m128i block, const uint8_t *bytes, size_t size) {
    const __m128i fold = load_fold(&fold_128);
    for (; size >= 16; size -= 16, bytes += 16) block = fold_block(block, fold, load_block(bytes));
    uint8_t last[16];
    _mm_storeu_si128((__m128i *)(void *)last, block);
    return table_update(table_update(0, last, sizeof(last)), bytes, size);
}

PCLMUL static uint64_t pclmul_update(uint64_t crc, const uint8_t *bytes, size_t size) {
    const __m128i far = load_fold(&fold_512), near = load_fold(&fold_128);
    if (size < 64) return table_update(crc, bytes, size);

    __m128i b0 = _mm_xor_si128(load_block(bytes), _mm_cvtsi64_si128((long long)crc));
    __m128i b1 = load_block(bytes + 16), b2 = load_block(bytes + 32), b3 = load_block(bytes + 48);
    for (bytes += 64, size -= 64; size >= 64; bytes += 64, size -= 64) {
        b0 = fold_block(b0, far, load_block(bytes));
        b1 = fold_block(b1, far, load_block(bytes + 16));
        b2 = fold_block(b2, far, load_block(bytes + 32));
        b3 = fold_block(b3, far, load_block(bytes + 48));
    }
    b1 = fold_block(b0, near, b1);
    b2 = fold_block(b1, near, b2);
    b3 = fold_block(b2, near, b3);
    return finish(b3, bytes, size);
}

VPCLMUL static inline __m512i fold_vector(__m512i vector, __m512i fold, __m512i next) {
    __m512i low = _mm512_clmulepi64_epi128(vector, fold, 0x00);
    __m512i high = _mm512_clmulepi64_epi128(vector, fold, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* XOR of the three */
}

VPCLMUL static uint64_t vpclmul_update(uint64_t crc, const uint8_t *bytes, size_t size) {
    if (size < 512) return pclmul_update(crc, bytes, size);
    const __m512i far = _mm512_broadcast_i32x4(load_fold(&fold_2048));
    const __m512i near = _mm512_broadcast_i32x4(load_fold(&fold_512));

    __m512i first = _mm512_zextsi128_si512(_mm_cvtsi64_si128((long long)crc));
    __m512i v0 = _mm512_xor_si512(_mm512_loadu_si512(bytes), first);
    __m512i v1 = _mm512_loadu_si512(bytes + 64), v2 = _mm512_loadu_si512(bytes + 128);
    __m512i v3 = _mm512_loadu_si512(bytes + 192);
    for (bytes += 256, size -= 256; size >= 256; bytes += 256, size -= 256) {
        v0 = fold_vector(v0, far, _mm512_loadu_si512(bytes));
        v1 = fold_vector(v1, far, _mm512_loadu_si512(bytes + 64));
        v2 = fold_vector(v2, far, _mm512_loadu_si512(bytes + 128));
        v3 = fold_vector(v3, far, _mm512_loadu_si512(bytes + 192));
    }
    v1 = fold_vector(v0, near, v1);
    v2 = fold_vector(v1, near, v2);
    v3 = fold_vector(v2, near, v3);

    const __m128i step = load_fold(&fold_128);
    __m128i block = _mm512_extracti64x2_epi64(v3, 0);
    block = fold_block(block, step, _mm512_extracti64x2_epi64(v3, 1));
    block = fold_block(block, step, _mm512_extracti64x2_epi64(v3, 2));
    block = fold_block(block, step, _mm512_extracti64x2_epi64(v3, 3));
    /* Dirty upper halves of the registers slow down SSE code that comes after, OpenSSL's SHA. */
    _mm256_zeroupper();
    return finish(block, bytes, size);
}

uint64_t crc64nvme_pclmul(uint64_t crc, const void *data, size_t size) {
    assert(crc64nvme_has_pclmul());
    return ~pclmul_update(~crc, data, size);
}

uint64_t crc64nvme_vpclmul(uint64_t crc, const void *data, size_t size) {
    assert(crc64nvme_has_vpclmul());
    return ~vpclmul_update(~crc, data, size);
}

bool crc64nvme_has_pclmul(void) {
    return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
}

bool crc64nvme_has_vpclmul(void) {
    return crc64nvme_has_pclmul() && __builtin_cpu_supports("vpclmulqdq") &&
           __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static void folds_init(void) {
    fold_128 = fold_over(128);
    fold_512 = fold_over(512);
    fold_2048 = fold_over(2048);
}
#else
bool crc64nvme_has_pclmul(void) {
    return false;
}

bool crc64nvme_has_vpclmul(void) {
    return false;
}

uint64_t crc64nvme_pclmul(uint64_t crc, const void *data, size_t size) {
    return crc64nvme_table(crc, data, size);
}

uint64_t crc64nvme_vpclmul(uint64_t crc, const void *data, size_t size) {
    return crc64nvme_table(crc, data, size);
}

static void folds_init(void) {
}
#endif

static uint64_t (*best)(uint64_t crc, const void *data, size_t size) = crc64nvme_table;

__attribute__((constructor)) static void crc64nvme_init(void) {
    __builtin_cpu_init();
    tables_init();
    folds_init();
    if (crc64nvme_has_vpclmul())
        best = crc64nvme_vpclmul;
    else if (crc64nvme_has_pclmul())
        best = crc64nvme_pclmul;
}

uint64_t checksum_crc64nvme(uint64_t crc, const void *data, size_t size) {
    return best(crc, data, size);
}

uint64_t checksum_crc64nvme_combine(uint64_t a, uint64_t b, uint64_t size_b) {
    /* Appending size_b bytes multiplies a's register by x^(8 * size_b); the inversions cancel. */
    for (unsigned i = 0; size_b; i++, size_b >>= 1)
        if (size_b & 1) a = multiply(a, byte_powers[i]);
    return a ^ b;
}
