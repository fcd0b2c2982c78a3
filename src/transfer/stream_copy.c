/* Non-temporal copies: the destination goes past the caches, so that a large push neither reads the
 * destination's lines first nor throws everybody else's out. */
#include "transfer/stream_copy.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>

/* The loops copy whole lines to an aligned destination; the caller does the ends. */
__attribute__((target("avx512f"))) static void lines_avx512(uint8_t *to, const uint8_t *from,
                                                            size_t lines) {
    for (; lines >= 4; lines -= 4, to += 256, from += 256) {
        __m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + 64);
        __m512i c = _mm512_loadu_si512(from + 128), d = _mm512_loadu_si512(from + 192);
        _mm512_stream_si512((__m512i *)to, a);
        _mm512_stream_si512((__m512i *)(to + 64), b);
        _mm512_stream_si512((__m512i *)(to + 128), c);
        _mm512_stream_si512((__m512i *)(to + 192), d);
    }
    for (; lines > 0; lines--, to += 64, from += 64)
        _mm512_stream_si512((__m512i *)to, _mm512_loadu_si512(from));
    _mm_sfence();
}

__attribute__((target("avx2"))) static void lines_avx2(uint8_t *to, const uint8_t *from,
                                                       size_t lines) {
    for (; lines > 0; lines--, to += 64, from += 64) {
        __m256i a = _mm256_loadu_si256((const __m256i *)from);
        __m256i b = _mm256_loadu_si256((const __m256i *)(from + 32));
        _mm256_stream_si256((__m256i *)to, a);
        _mm256_stream_si256((__m256i *)(to + 32), b);
    }
    _mm_sfence();
}

void stream_copy(void *to, const void *from, size_t size) {
    bool avx512 = __builtin_cpu_supports("avx512f"), avx2 = __builtin_cpu_supports("avx2");
    if (size < STREAM_COPY_MIN || (!avx512 && !avx2)) {
        memcpy(to, from, size); /* payload: the one copy of a same-host transfer */
        return;
    }
    uint8_t *out = to;
    const uint8_t *in = from;
    size_t head = -(uintptr_t)out & 63, lines = (size - head) / 64;
    memcpy(out, in, head);
    if (avx512)
        lines_avx512(out + head, in + head, lines);
    else
        lines_avx2(out + head, in + head, lines);
    size_t done = head + lines * 64;
    memcpy(out + done, in + done, size - done);
}
#else
void stream_copy(void *to, const void *from, size_t size) {
    memcpy(to, from, size); /* payload: the one copy of a same-host transfer */
}
#endif
