/* Parsing of every token form that clients are known to send. Nothing here touches memory but the
 * text itself: a token that parses is well-formed, not trusted. */
#include "transfer/token.h"

#include <assert.h>

#include "base/encode.h"
#include "base/error.h"

/* A cursor over the text: fields are taken from the front. */
struct cursor {
    struct slice rest;
    const char *wrong; /* the first field that was not as it must be */
};

static void fail(struct cursor *c, const char *detail) {
    if (!c->wrong) c->wrong = detail;
}

static bool is_lower_hex(struct slice s) {
    for (size_t i = 0; i < s.size; i++) {
        char ch = s.data[i];
        if (!((ch >= '0' && ch <= '9') || (ch >= 'a' && ch <= 'f'))) return false;
    }
    return s.size > 0;
}

static struct slice take(struct cursor *c, size_t size, const char *detail) {
    if (c->wrong || c->rest.size < size) {
        fail(c, detail);
        return (struct slice){0};
    }
    struct slice field = {c->rest.data, size};
    c->rest = (struct slice){c->rest.data + size, c->rest.size - size};
    return field;
}

static void take_colon(struct cursor *c, const char *detail) {
    struct slice colon = take(c, 1, detail);
    if (!c->wrong && colon.data[0] != ':') fail(c, detail);
}

/* Exactly `digits` lower-case hexadecimal digits. */
static uint64_t take_hex(struct cursor *c, size_t digits, const char *detail) {
    assert(digits <= 16);
    struct slice field = take(c, digits, detail);
    uint64_t value = 0;
    if (!c->wrong && (!is_lower_hex(field) || !hex_to_u64(field, &value))) fail(c, detail);
    return c->wrong ? 0 : value;
}

/* What stands before the next colon, or all that is left: 1 to `limit` characters. */
static struct slice take_until_colon(struct cursor *c, size_t limit, const char *detail) {
    const char *colon = c->rest.size ? memchr(c->rest.data, ':', c->rest.size) : NULL;
    size_t size = colon ? (size_t)(colon - c->rest.data) : c->rest.size;
    if (size == 0 || size > limit) fail(c, detail);
    return take(c, size, detail);
}

static uint64_t take_number(struct cursor *c, size_t digits, const char *detail) {
    struct slice field = take_until_colon(c, digits, detail);
    uint64_t value = 0;
    if (!c->wrong && !hex_to_u64(field, &value)) fail(c, detail);
    return c->wrong ? 0 : value;
}

static void check_span(struct cursor *c, uint64_t address, uint64_t size) {
    if (c->wrong) return;
    if (size == 0) fail(c, "length: it must not be zero");
    uint64_t end;
    if (__builtin_add_overflow(address, size, &end)) fail(c, "length: address and length overflow");
}

static void check_end(struct cursor *c) {
    if (!c->wrong && c->rest.size) fail(c, "form: there are characters after the last field");
}

static void parse_shm(struct cursor *c, struct token *token) {
    take(c, sizeof("shm1") - 1, "form: shm1 was expected");
    take_colon(c, "session: a colon was expected before it");
    token->session = take_hex(c, 16, "session: 16 lower-case hexadecimal digits were expected");
    take_colon(c, "region: a colon was expected before it");
    token->region = take_hex(c, 16, "region: 16 lower-case hexadecimal digits were expected");
    take_colon(c, "offset: a colon was expected before it");
    token->address = take_hex(c, 16, "offset: 16 lower-case hexadecimal digits were expected");
    take_colon(c, "length: a colon was expected before it");
    token->size = take_hex(c, 16, "length: 16 lower-case hexadecimal digits were expected");
    check_end(c);
    check_span(c, token->address, token->size);
}

/* Older clients repeat address and size, at full width, behind the descriptor. */
static void parse_dc_suffix(struct cursor *c, const struct token *token) {
    take_colon(c, "suffix: a colon was expected before it");
    uint64_t address = take_hex(c, 16, "suffix address: 16 hexadecimal digits were expected");
    take_colon(c, "suffix size: a colon was expected before it");
    uint64_t size = take_hex(c, 16, "suffix size: 16 hexadecimal digits were expected");
    if (c->wrong) return;
    if (address != token->address) fail(c, "suffix address: it differs from the descriptor's");
    if (size != token->size) fail(c, "suffix size: it differs from the descriptor's");
    if (c->rest.size == 1 && c->rest.data[0] == ';') take(c, 1, "");
}

static void parse_dc(struct cursor *c, struct token *token) {
    token->address = take_hex(c, 16, "address: 16 lower-case hexadecimal digits were expected");
    take_colon(c, "size: a colon was expected before it");
    token->size = take_hex(c, 8, "size: 8 lower-case hexadecimal digits were expected");
    take_colon(c, "rkey: a colon was expected before it");
    token->rkey = (uint32_t)take_hex(c, 8, "rkey: 8 lower-case hexadecimal digits were expected");
    take_colon(c, "lid: a colon was expected before it");
    token->lid = (uint16_t)take_hex(c, 4, "lid: 4 lower-case hexadecimal digits were expected");
    take_colon(c, "dctn: a colon was expected before it");
    token->queue = (uint32_t)take_hex(c, 6, "dctn: 6 lower-case hexadecimal digits were expected");
    take_colon(c, "gid flag: a colon was expected before it");
    uint64_t flag = take_hex(c, 1, "gid flag: 0 or 1 was expected");
    if (flag > 1) fail(c, "gid flag: 0 or 1 was expected");
    token->has_gid = flag == 1;
    take_colon(c, "gid: a colon was expected before it");
    struct slice gid = take(c, 32, "gid: 32 lower-case hexadecimal digits were expected");
    if (!c->wrong && (!is_lower_hex(gid) || hex_decode(gid, token->gid, sizeof(token->gid)) != 16))
        fail(c, "gid: 32 lower-case hexadecimal digits were expected");
    check_span(c, token->address, token->size);
    if (!c->wrong && c->rest.size) parse_dc_suffix(c, token);
    check_end(c);
}

static uint64_t little_endian(const uint8_t *data, unsigned size) {
    uint64_t value = 0;
    for (unsigned i = size; i-- > 0;) value = value << 8 | data[i];
    return value;
}

#define HIP_BYTES 44

static void parse_hip(struct cursor *c, struct token *token) {
    uint8_t raw[HIP_BYTES];
    struct slice digits = take(c, 2 * HIP_BYTES, "descriptor: 88 hexadecimal digits were expected");
    if (!c->wrong && hex_decode(digits, raw, sizeof(raw)) != HIP_BYTES)
        fail(c, "descriptor: 88 hexadecimal digits were expected");
    if (c->wrong) return;
    if (raw[0] > 1) fail(c, "transport: 0 (DC) or 1 (RC) was expected");
    token->connected = raw[0] == 1;
    token->queue = (uint32_t)little_endian(raw + 1, 4);
    memcpy(token->gid, raw + 5, sizeof(token->gid));
    token->has_gid = true;
    token->rkey = (uint32_t)little_endian(raw + 21, 4);
    token->address = little_endian(raw + 25, 8);
    token->size = little_endian(raw + 33, 8);
    token->port = raw[41];
    token->lid = (uint16_t)little_endian(raw + 42, 2);
    if (token->queue > 0xffffff) fail(c, "qpn: it has more than 24 bits");
    check_span(c, token->address, token->size);
    if (c->wrong || c->rest.size == 0) return;

    take_colon(c, "override: a colon was expected before it");
    uint64_t address = take_hex(c, 16, "override address: 16 hexadecimal digits were expected");
    take_colon(c, "override length: a colon was expected before it");
    uint64_t size = take_hex(c, 16, "override length: 16 hexadecimal digits were expected");
    check_end(c);
    if (address) token->address = address;
    if (size) token->size = size;
    check_span(c, token->address, token->size);
}

static bool is_name(struct slice s) {
    for (size_t i = 0; i < s.size; i++) {
        char ch = s.data[i];
        bool letter = (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z');
        if (!letter && !(ch >= '0' && ch <= '9') && !strchr("-_.;", ch)) return false;
        if (ch == '\0') return false;
    }
    return s.size > 0;
}

static void parse_rc_shim(struct cursor *c, struct token *token) {
    take(c, sizeof("rc:") - 1, "form: rc: was expected");
    if (!is_name(take_until_colon(c, 64, "connection: 1 to 64 characters were expected")))
        fail(c, "connection: it has characters that do not belong there");
    take_colon(c, "address: a colon was expected before it");
    token->address = take_number(c, 16, "address: 1 to 16 hexadecimal digits were expected");
    take_colon(c, "size: a colon was expected before it");
    token->size = take_number(c, 16, "size: 1 to 16 hexadecimal digits were expected");
    take_colon(c, "rkey: a colon was expected before it");
    token->rkey = (uint32_t)take_number(c, 8, "rkey: 1 to 8 hexadecimal digits were expected");
    token->connected = true;
    check_end(c);
    check_span(c, token->address, token->size);
}

static bool is_hex_bytes(struct slice s) {
    for (size_t i = 0; i < s.size; i++) {
        uint64_t digit;
        if (!hex_to_u64((struct slice){s.data + i, 1}, &digit)) return false;
    }
    return s.size > 0 && s.size % 2 == 0;
}

static void parse_libfabric(struct cursor *c, struct token *token) {
    token->address = take_number(c, 16, "base: 1 to 16 hexadecimal digits were expected");
    take_colon(c, "size: a colon was expected before it");
    token->size = take_number(c, 16, "size: 1 to 16 hexadecimal digits were expected");
    take(c, sizeof(":ofi1:") - 1, "form: :ofi1: was expected");
    if (!is_name(take_until_colon(c, 64, "provider: 1 to 64 characters were expected")))
        fail(c, "provider: it has characters that do not belong there");
    take_colon(c, "endpoint: a colon was expected before it");
    if (!is_hex_bytes(take_until_colon(c, 1024, "endpoint: 2 to 1024 digits were expected")))
        fail(c, "endpoint: whole bytes in hexadecimal were expected");
    take_colon(c, "key: a colon was expected before it");
    if (!is_hex_bytes(take_until_colon(c, 256, "key: 2 to 256 digits were expected")))
        fail(c, "key: whole bytes in hexadecimal were expected");
    check_end(c);
    check_span(c, token->address, token->size);
}

typedef void parse_fn(struct cursor *c, struct token *token);

/* The form is told from marks that no two forms share; a text that has the mark of one is held to
 * all of that one's rules. */
static parse_fn *recognise(struct slice text, enum token_form *form) {
    if (slice_starts_with(text, SLICE_LITERAL("shm1"))) return *form = TOKEN_SHM, parse_shm;
    if (slice_starts_with(text, SLICE_LITERAL("rc:"))) return *form = TOKEN_RC_SHIM, parse_rc_shim;
    if (memmem(text.data, text.size, ":ofi1:", 6)) return *form = TOKEN_LIBFABRIC, parse_libfabric;
    if (text.size > 16 && text.data[16] == ':') return *form = TOKEN_DC, parse_dc;
    if (text.size >= 2 * HIP_BYTES && !memchr(text.data, ':', 2 * HIP_BYTES))
        return *form = TOKEN_HIP, parse_hip;
    return NULL;
}

int token_parse(struct slice text, struct token *token, const char **detail) {
    *token = (struct token){0};
    *detail = NULL;
    struct cursor c = {.rest = text};
    parse_fn *parse = NULL;
    if (text.size > TOKEN_SIZE_MAX)
        fail(&c, "form: the token is too long");
    else if (text.size == 0)
        fail(&c, "form: the token is empty");
    else if (!(parse = recognise(text, &token->form)))
        fail(&c, "form: this is none of the known ones");
    if (parse) parse(&c, token);
    *detail = c.wrong;
    return c.wrong ? ERR_INVALID_RDMA_TOKEN : 0;
}
