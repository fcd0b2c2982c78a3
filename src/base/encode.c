/* Hexadecimal, base64, percent encoding and the UTF-8 check. Decoders are strict: one form of each
 * value is accepted (but both cases of hexadecimal), so that what was compared is what was meant.
 */
#include "base/encode.h"

int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

void hex_encode(const void *data, size_t size, char *out) {
    static const char digits[] = "0123456789abcdef";
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
    *out = '\0';
}

ssize_t hex_decode(struct slice hex, void *out, size_t capacity) {
    uint8_t *bytes = out;
    if (hex.size % 2 != 0 || hex.size / 2 > capacity) return -1;
    for (size_t i = 0; i < hex.size; i += 2) {
        int high = hex_digit(hex.data[i]), low = hex_digit(hex.data[i + 1]);
        if (high < 0 || low < 0) return -1;
        *bytes++ = (uint8_t)(high << 4 | low);
    }
    return (ssize_t)(hex.size / 2);
}

bool hex_to_u64(struct slice hex, uint64_t *value) {
    uint64_t sum = 0;
    if (hex.size == 0 || hex.size > 16) return false;
    for (size_t i = 0; i < hex.size; i++) {
        int digit = hex_digit(hex.data[i]);
        if (digit < 0) return false;
        sum = sum << 4 | (unsigned)digit;
    }
    *value = sum;
    return true;
}

void base64_encode(const void *data, size_t size, char *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *bytes = data;
    for (; size >= 3; size -= 3, bytes += 3) {
        uint32_t group = (uint32_t)bytes[0] << 16 | (uint32_t)bytes[1] << 8 | bytes[2];
        for (int shift = 18; shift >= 0; shift -= 6) *out++ = digits[group >> shift & 63];
    }
    if (size) {
        uint32_t group = (uint32_t)bytes[0] << 16 | (size == 2 ? (uint32_t)bytes[1] << 8 : 0);
        *out++ = digits[group >> 18];
        *out++ = digits[group >> 12 & 63];
        *out++ = size == 2 ? digits[group >> 6 & 63] : '=';
        *out++ = '=';
    }
    *out = '\0';
}

static int base64_digit(char c) {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
}

ssize_t base64_decode(struct slice text, void *out, size_t capacity) {
    uint8_t *bytes = out;
    if (text.size % 4 != 0) return -1;
    if (text.size == 0) return 0;

    size_t padding = (size_t)(text.data[text.size - 1] == '=') +
                     (size_t)(text.data[text.size - 1] == '=' && text.data[text.size - 2] == '=');
    size_t digits = text.size - padding, size = text.size / 4 * 3 - padding;
    if (size > capacity) return -1;

    uint32_t group = 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = base64_digit(text.data[i]);
        if (digit < 0) return -1;
        group = group << 6 | (unsigned)digit;
        if (i % 4 != 3) continue;
        *bytes++ = (uint8_t)(group >> 16);
        *bytes++ = (uint8_t)(group >> 8);
        *bytes++ = (uint8_t)group;
        group = 0;
    }
    /* The bits past the last byte must be zero, or several texts would mean the same bytes. */
    if (padding == 1) {
        if (group & 3) return -1;
        *bytes++ = (uint8_t)(group >> 10);
        *bytes++ = (uint8_t)(group >> 2);
    } else if (padding == 2) {
        if (group & 15) return -1;
        *bytes++ = (uint8_t)(group >> 4);
    }
    return (ssize_t)size;
}

bool uri_is_unreserved(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

ssize_t uri_decode(char *data, size_t size, bool plus_is_space) {
    size_t written = 0;
    for (size_t i = 0; i < size; i++) {
        char c = data[i];
        if (c == '%') {
            if (size - i < 3) return -1;
            int high = hex_digit(data[i + 1]), low = hex_digit(data[i + 2]);
            if (high < 0 || low < 0) return -1;
            c = (char)(high << 4 | low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        data[written++] = c;
    }
    return (ssize_t)written;
}

/* The size of the well-formed sequence that begins at `bytes`, or 0 (table 3-7 of Unicode). */
static size_t utf8_sequence(const uint8_t *bytes, size_t available) {
    uint8_t first = bytes[0], low = 0x80, high = 0xbf;
    size_t size;
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf)
        size = 2;
    else if (first >= 0xe0 && first <= 0xef)
        size = 3;
    else if (first >= 0xf0 && first <= 0xf4)
        size = 4;
    else
        return 0;
    if (size > available) return 0;

    if (first == 0xe0) low = 0xa0;  /* else overlong */
    if (first == 0xed) high = 0x9f; /* else a surrogate */
    if (first == 0xf0) low = 0x90;  /* else overlong */
    if (first == 0xf4) high = 0x8f; /* else past U+10FFFF */
    if (bytes[1] < low || bytes[1] > high) return 0;
    for (size_t i = 2; i < size; i++)
        if ((bytes[i] & 0xc0) != 0x80) return 0;
    return size;
}

bool utf8_valid(struct slice text) {
    const uint8_t *bytes = (const uint8_t *)text.data;
    size_t at = 0;
    while (at < text.size) {
        /* Most keys are ASCII: pass over eight such bytes at a time. */
        uint64_t word;
        if (text.size - at >= sizeof(word)) {
            memcpy(&word, bytes + at, sizeof(word));
            if (!(word & 0x8080808080808080ull)) {
                at += sizeof(word);
                continue;
            }
        }
        size_t size = utf8_sequence(bytes + at, text.size - at);
        if (size == 0) return false;
        at += size;
    }
    return true;
}
