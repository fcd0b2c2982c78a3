/* The chunked decoder. Strict: CRLF only, hexadecimal digits only, nothing between size and ';'. */
#include "net/chunk.h"

#include <assert.h>
#include <stdbool.h>

#include "net/limits.h"

enum chunk_state {
    SIZE,
    EXTENSION,
    SIZE_LF,
    PAYLOAD,
    PAYLOAD_CR,
    PAYLOAD_LF,
    TRAILER_START,
    TRAILER,
    TRAILER_LF,
    LAST_LF,
    END,
    BAD
};

void chunk_init(struct chunk_decoder *d) {
    *d = (struct chunk_decoder){.state = SIZE};
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

static bool is_text(char c) {
    unsigned char u = (unsigned char)c;
    return u == '\t' || (u >= 0x20 && u != 0x7f);
}

static enum chunk_state after_size_line(struct chunk_decoder *d) {
    d->line = d->digits = 0;
    return d->remaining ? PAYLOAD : TRAILER_START;
}

static enum chunk_state size_byte(struct chunk_decoder *d, char c) {
    int digit = hex_digit(c);
    if (digit >= 0) {
        /* 15 digits are 2^60 bytes; more zeros in front of them serve nobody. */
        if (++d->digits > 15) return BAD;
        d->remaining = d->remaining * 16 + (unsigned)digit;
        return SIZE;
    }
    if (!d->digits) return BAD;
    return c == '\r' ? SIZE_LF : c == ';' ? EXTENSION : BAD;
}

static enum chunk_state next_state(struct chunk_decoder *d, char c) {
    switch ((enum chunk_state)d->state) {
    case SIZE: return size_byte(d, c);
    case EXTENSION: return c == '\r' ? SIZE_LF : is_text(c) ? EXTENSION : BAD;
    case SIZE_LF: return c == '\n' ? after_size_line(d) : BAD;
    case PAYLOAD_CR: return c == '\r' ? PAYLOAD_LF : BAD;
    case PAYLOAD_LF: return c == '\n' ? SIZE : BAD;
    case TRAILER_START: return c == '\r' ? LAST_LF : is_text(c) && c > ' ' ? TRAILER : BAD;
    case TRAILER: return c == '\r' ? TRAILER_LF : is_text(c) ? TRAILER : BAD;
    case TRAILER_LF: return c == '\n' ? TRAILER_START : BAD;
    case LAST_LF: return c == '\n' ? END : BAD;
    case PAYLOAD:
    case END:
    case BAD: break;
    }
    return BAD;
}

static bool over_limit(struct chunk_decoder *d) {
    bool trailers = d->state >= TRAILER_START && d->state <= LAST_LF;
    return d->line > (trailers ? CHUNK_TRAILER_MAX : CHUNK_LINE_MAX);
}

enum chunk_result chunk_decode(struct chunk_decoder *d, const char *data, size_t size,
                               size_t *eaten) {
    size_t at = 0;
    while (at < size && d->state != PAYLOAD && d->state != END && d->state != BAD) {
        d->line++;
        d->state = (uint8_t)next_state(d, data[at++]);
        if (over_limit(d)) d->state = BAD;
    }
    *eaten = at;
    if (d->state == BAD) return CHUNK_BAD;
    if (d->state == END) return CHUNK_END;
    return d->state == PAYLOAD ? CHUNK_PAYLOAD : CHUNK_MORE;
}

void chunk_skip(struct chunk_decoder *d, uint64_t size) {
    assert(d->state == PAYLOAD && size <= d->remaining);
    d->remaining -= size;
    if (!d->remaining) {
        d->state = PAYLOAD_CR;
        d->line = 0;
    }
}
