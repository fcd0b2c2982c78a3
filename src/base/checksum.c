/* CRC32 and CRC32C by ISA-L, and the two small helpers of security: comparison in constant time
 * and random bytes. CRC64NVME has a file of its own, digests have digest.c. */
#include "base/checksum.h"

#include <assert.h>
#include <errno.h>
#include <isa-l/crc.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <sys/random.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* ISA-L's vector routines return with dirty upper register halves, which slows down the SSE code
 * that comes next: OpenSSL's SHA, when a stream carries several digests. */
__attribute__((target("avx"))) static void clean_avx(void) {
    _mm256_zeroupper();
}

static void clean_registers(void) {
    if (__builtin_cpu_supports("avx")) clean_avx();
}
#else
static void clean_registers(void) {
}
#endif

uint32_t checksum_crc32(uint32_t crc, const void *data, size_t size) {
    if (size == 0) return crc;
    crc = crc32_gzip_refl(crc, data, size);
    clean_registers();
    return crc;
}

uint32_t checksum_crc32c(uint32_t crc, const void *data, size_t size) {
    const size_t most = 1u << 30;                            /* ISA-L takes an int */
    unsigned char *bytes = (unsigned char *)(uintptr_t)data; /* it does not write, but asks so */
    uint32_t inverted = ~crc;
    while (size > 0) {
        size_t step = size < most ? size : most;
        inverted = crc32_iscsi(bytes, (int)step, inverted);
        bytes += step;
        size -= step;
    }
    clean_registers();
    return ~inverted;
}

bool constant_time_equal(const void *a, const void *b, size_t size) {
    return CRYPTO_memcmp(a, b, size) == 0;
}

void random_bytes(void *out, size_t size) {
    uint8_t *bytes = out;
    while (size > 0) {
        ssize_t got = getrandom(bytes, size, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) abort(); /* going on with predictable secrets would be worse */
        bytes += got;
        size -= (size_t)got;
    }
}
