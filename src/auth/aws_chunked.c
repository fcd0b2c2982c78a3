/* The decoder of aws-chunked bodies: a state machine over lines. Between two lines there may be
 * payload, which never passes through here: the caller receives it where it belongs and shows it
 * for hashing.
 *
 *   SIZE[;chunk-signature=HEX] CRLF payload CRLF ... 0[;chunk-signature=HEX] CRLF
 *   [name:value CRLF ...] [x-amz-trailer-signature:HEX CRLF] CRLF
 *
 * Signatures form a chain that begins with the request's: a chunk that was dropped, repeated or
 * moved breaks it. The caller must not believe the payload before `finished`. */
#include <assert.h>
#include <stdio.h>

#include "auth/auth.h"
#include "auth/signature.h"
#include "base/encode.h"
#include "base/error.h"

#define CHUNK_SIZE_MAX  (1ull << 40) /* far beyond an object; keeps sums from overflowing */
#define DECODED_MAX     (1ull << 60)
#define CHECKSUM_PREFIX "x-amz-checksum-"
#define TRAILERS_MAX    16

enum state {
    CHUNK_LINE,   /* the size of the next chunk */
    PAYLOAD,      /* the caller receives */
    PAYLOAD_END,  /* the CRLF after the payload */
    TRAILER_LINE, /* a trailer, or the empty line that ends the body */
    LAST_LINE,    /* the empty line, where no trailer may come */
    FINISHED,
    BROKEN,
};

static char lower(char c) {
    return (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

void aws_chunked_init(struct aws_chunked *d, const struct auth_result *auth,
                      struct slice expected_trailer) {
    memset(d, 0, sizeof(*d));
    d->auth = auth;
    d->is_signed = auth->payload != PAYLOAD_CHUNKED_UNSIGNED_TRAILER;
    d->has_trailer = auth->payload != PAYLOAD_CHUNKED_SIGNED;
    d->state = CHUNK_LINE;
    if (d->is_signed) memcpy(d->previous_signature, auth->seed_signature, SIGNATURE_SIZE);
    sha256_init(&d->trailer_hash);
    /* A list that does not fit announces nothing, so that its trailers are refused. */
    if (expected_trailer.size < sizeof(d->expected))
        for (size_t i = 0; i < expected_trailer.size; i++)
            d->expected[i] = lower(expected_trailer.data[i]);
}

/* ---- signatures */

/* Compares, and makes the signature the one that the next begins with. */
static int chain(struct aws_chunked *d, const char *algorithm, struct slice rest,
                 const char sent[SIGNATURE_SIZE]) {
    char signature[SIGNATURE_SIZE + 1];
    signature_of(&d->auth->signing_key, algorithm, d->auth->date, d->auth->scope, rest, signature);
    if (!constant_time_equal(signature, sent, SIGNATURE_SIZE)) return ERR_SIGNATURE_MISMATCH;
    memcpy(d->previous_signature, signature, SIGNATURE_SIZE);
    return 0;
}

static int verify_chunk(struct aws_chunked *d) {
    uint8_t hash[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1], rest[3 * SIGNATURE_SIZE + 3];
    if (!d->is_signed) return 0;
    sha256_final(&d->chunk_hash, hash);
    hex_encode(hash, sizeof(hash), hex);
    int size = snprintf(rest, sizeof(rest), "%s\n" EMPTY_SHA256 "\n%s", d->previous_signature, hex);
    return chain(d, "AWS4-HMAC-SHA256-PAYLOAD", (struct slice){rest, (size_t)size},
                 d->chunk_signature);
}

static int verify_trailers(struct aws_chunked *d, struct slice sent) {
    uint8_t hash[SHA256_SIZE];
    char hex[2 * SHA256_SIZE + 1], rest[2 * SIGNATURE_SIZE + 2];
    if (sent.size != SIGNATURE_SIZE) return ERR_SIGNATURE_MISMATCH;
    sha256_final(&d->trailer_hash, hash);
    hex_encode(hash, sizeof(hash), hex);
    int size = snprintf(rest, sizeof(rest), "%s\n%s", d->previous_signature, hex);
    return chain(d, "AWS4-HMAC-SHA256-TRAILER", (struct slice){rest, (size_t)size}, sent.data);
}

/* ---- lines */

/* SIZE, and what the form of the body asks for after it. */
static int parse_chunk_line(struct aws_chunked *d, struct slice line, uint64_t *size) {
    const struct slice name = SLICE_LITERAL(";chunk-signature=");
    const char *semicolon = line.size ? memchr(line.data, ';', line.size) : NULL;
    size_t digits = semicolon ? (size_t)(semicolon - line.data) : line.size;
    struct slice extension = {line.data + digits, line.size - digits};
    if (!hex_to_u64((struct slice){line.data, digits}, size)) return ERR_INVALID_REQUEST;
    if (*size > CHUNK_SIZE_MAX || d->decoded_bytes > DECODED_MAX) return ERR_INVALID_REQUEST;
    if (!d->is_signed) return extension.size ? ERR_INVALID_REQUEST : 0;

    if (!slice_starts_with(extension, name)) return ERR_INVALID_REQUEST;
    if (extension.size != name.size + SIGNATURE_SIZE) return ERR_SIGNATURE_MISMATCH;
    memcpy(d->chunk_signature, extension.data + name.size, SIGNATURE_SIZE);
    sha256_init(&d->chunk_hash);
    return 0;
}

static int chunk_line(struct aws_chunked *d, struct slice line) {
    uint64_t size = 0;
    int err = parse_chunk_line(d, line, &size);
    if (err) return err;
    if (size > 0) {
        d->payload_remaining = size;
        d->state = PAYLOAD;
        return 0;
    }
    d->state = d->has_trailer ? TRAILER_LINE : LAST_LINE;
    return verify_chunk(d);
}

static int payload_end(struct aws_chunked *d, struct slice line) {
    d->state = CHUNK_LINE;
    return line.size ? ERR_INVALID_REQUEST : verify_chunk(d);
}

static bool is_announced(const struct aws_chunked *d, struct slice name) {
    struct slice list = slice_of(d->expected);
    if (name.size == 0) return false;
    while (list.size > 0) {
        const char *comma = memchr(list.data, ',', list.size);
        size_t size = comma ? (size_t)(comma - list.data) : list.size;
        if (slice_equal(slice_trim((struct slice){list.data, size}), name)) return true;
        size += comma != NULL;
        list.data += size;
        list.size -= size;
    }
    return false;
}

static bool is_checksum(struct slice name) {
    return slice_starts_with(name, SLICE_LITERAL(CHECKSUM_PREFIX));
}

/* Remembers the checksum; other trailers count for the signature only. */
static int keep_trailer(struct aws_chunked *d, struct slice name, struct slice value) {
    if (!is_checksum(name)) return 0;
    if (d->trailer_name[0]) return ERR_INVALID_REQUEST; /* two checksums */
    if (name.size >= sizeof(d->trailer_name) || value.size >= sizeof(d->trailer_value))
        return ERR_INVALID_REQUEST;
    memcpy(d->trailer_name, name.data, name.size);
    memcpy(d->trailer_value, value.data, value.size);
    return 0;
}

static int trailer(struct aws_chunked *d, struct slice line) {
    const char *colon = memchr(line.data, ':', line.size);
    if (!colon) return ERR_INVALID_REQUEST;
    char *lowered = d->line; /* the line lives there */
    struct slice name = {lowered, (size_t)(colon - line.data)};
    for (size_t i = 0; i < name.size; i++) lowered[i] = lower(lowered[i]);
    struct slice value = slice_trim((struct slice){colon + 1, line.size - name.size - 1});

    if (d->is_signed && slice_is(name, "x-amz-trailer-signature")) {
        d->state = LAST_LINE;
        return verify_trailers(d, value);
    }
    if (!is_announced(d, name)) return ERR_INVALID_ARGUMENT;
    if (d->trailer_count++ == TRAILERS_MAX) return ERR_INVALID_REQUEST;
    sha256_update(&d->trailer_hash, name.data, name.size);
    sha256_update(&d->trailer_hash, ":", 1);
    sha256_update(&d->trailer_hash, value.data, value.size);
    sha256_update(&d->trailer_hash, "\n", 1);
    return keep_trailer(d, name, value);
}

/* A body that promised a checksum must bring it, or a cut stream could pass for a whole one. */
static int finish(struct aws_chunked *d) {
    bool promised = d->has_trailer && strstr(d->expected, CHECKSUM_PREFIX);
    if (promised && !d->trailer_name[0]) return ERR_INVALID_REQUEST;
    d->state = FINISHED;
    d->finished = true;
    return 0;
}

static int trailer_line(struct aws_chunked *d, struct slice line, bool bare) {
    bool after_bare = d->line_is_bare;
    d->line_is_bare = bare;
    if (line.size > 0) return trailer(d, line);
    /* minio-go ends a trailer with LF CRLF: the empty line belongs to the trailer. */
    if (after_bare) return 0;
    return d->is_signed ? ERR_SIGNATURE_MISMATCH : finish(d); /* signed trailers end otherwise */
}

/* bare: ended in LF alone, which only a trailer may. */
static int take_line(struct aws_chunked *d, struct slice line, bool bare) {
    if (d->state == TRAILER_LINE) return trailer_line(d, line, bare);
    if (bare) return ERR_INVALID_REQUEST;
    switch (d->state) {
    case CHUNK_LINE: return chunk_line(d, line);
    case PAYLOAD_END: return payload_end(d, line);
    case LAST_LINE: return line.size ? ERR_INVALID_REQUEST : finish(d);
    default: return ERR_INVALID_REQUEST;
    }
}

/* Moves bytes into d->line up to and including a LF. Returns how many, or an error. */
static ssize_t gather_line(struct aws_chunked *d, struct slice bytes, bool *complete) {
    const char *end = memchr(bytes.data, '\n', bytes.size);
    size_t size = end ? (size_t)(end - bytes.data) + 1 : bytes.size;
    if (size > sizeof(d->line) - d->line_size) return ERR_INVALID_REQUEST;
    memcpy(d->line + d->line_size, bytes.data, size); /* framing, not payload */
    d->line_size += (unsigned)size;
    *complete = end != NULL;
    return (ssize_t)size;
}

static int end_line(struct aws_chunked *d) {
    assert(d->line_size > 0 && d->line[d->line_size - 1] == '\n');
    size_t size = d->line_size - 1;
    bool bare = size == 0 || d->line[size - 1] != '\r';
    d->line_size = 0;
    return take_line(d, (struct slice){d->line, bare ? size : size - 1}, bare);
}

ssize_t aws_chunked_feed(struct aws_chunked *d, struct slice framing) {
    size_t used = 0;
    if (d->state == BROKEN) return ERR_INVALID_REQUEST;
    while (used < framing.size && d->state != PAYLOAD && d->state != FINISHED) {
        bool complete = false;
        struct slice rest = {framing.data + used, framing.size - used};
        ssize_t taken = gather_line(d, rest, &complete);
        int err = taken < 0 ? (int)taken : complete ? end_line(d) : 0;
        if (err) {
            d->state = BROKEN;
            return err;
        }
        used += (size_t)taken;
    }
    return (ssize_t)used;
}

void aws_chunked_payload(struct aws_chunked *d, const void *data, size_t size) {
    assert(d->state == PAYLOAD || size == 0);
    assert(size <= d->payload_remaining);
    if (d->is_signed) sha256_update(&d->chunk_hash, data, size);
    d->payload_remaining -= size;
    d->decoded_bytes += size;
    if (d->state == PAYLOAD && d->payload_remaining == 0) d->state = PAYLOAD_END;
}
