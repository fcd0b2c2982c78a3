/* Walks over a query and re-encodes it on the fly. Nothing here allocates: a signature is computed
 * for every request, and what a request may hold is decided by whoever sent it. */
#include "auth/query.h"

#include <assert.h>

#include "base/encode.h"

bool query_next(struct slice *query, struct parameter *parameter) {
    while (query->size > 0 && query->data[0] == '&') {
        query->data++;
        query->size--;
    }
    if (query->size == 0) return false;

    const char *end = memchr(query->data, '&', query->size);
    size_t size = end ? (size_t)(end - query->data) : query->size;
    const char *equals = memchr(query->data, '=', size);
    size_t name_size = equals ? (size_t)(equals - query->data) : size;
    parameter->name = (struct slice){query->data, name_size};
    parameter->value = equals ? (struct slice){equals + 1, size - name_size - 1}
                              : (struct slice){query->data + size, 0};
    query->data += size;
    query->size -= size;
    return true;
}

bool escapes_valid(struct slice text) {
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] != '%') continue;
        if (text.size - i < 3) return false;
        if (hex_digit(text.data[i + 1]) < 0 || hex_digit(text.data[i + 2]) < 0) return false;
        i += 2;
    }
    return true;
}

struct encoder encoder_of_path(struct slice path) {
    return (struct encoder){.rest = path, .keep_slash = true};
}

struct encoder encoder_of_query(struct slice part) {
    return (struct encoder){.rest = part, .plus_is_space = true};
}

/* The next byte that the text means, or -1. */
static int decode_next(struct slice *rest, bool plus_is_space) {
    if (rest->size == 0) return -1;
    int c = (unsigned char)rest->data[0];
    size_t used = 1;
    if (c == '%') {
        assert(rest->size >= 3); /* escapes_valid() came first */
        c = hex_digit(rest->data[1]) << 4 | hex_digit(rest->data[2]);
        used = 3;
    } else if (c == '+' && plus_is_space) {
        c = ' ';
    }
    rest->data += used;
    rest->size -= used;
    return c;
}

int encoder_next(struct encoder *encoder) {
    static const char digits[] = "0123456789ABCDEF";
    if (encoder->pending_count) return encoder->pending[--encoder->pending_count];
    int c = decode_next(&encoder->rest, encoder->plus_is_space);
    if (c < 0 || uri_is_unreserved((char)c) || (c == '/' && encoder->keep_slash)) return c;
    encoder->pending[1] = digits[c >> 4];
    encoder->pending[0] = digits[c & 15];
    encoder->pending_count = 2;
    return '%';
}

bool encoded_is(struct slice encoded, const char *text) {
    for (; *text; text++)
        if (decode_next(&encoded, true) != *text) return false;
    return encoded.size == 0;
}

int encoded_compare(struct slice a, struct slice b) {
    struct encoder left = encoder_of_query(a), right = encoder_of_query(b);
    for (;;) {
        int x = encoder_next(&left), y = encoder_next(&right);
        if (x != y) return x < y ? -1 : 1;
        if (x < 0) return 0;
    }
}
