/* From a whole head to method, path, query and headers, by http-parser; then the rules about
 * framing that keep two servers from disagreeing on where a request ends. */
#include "net/head.h"

#include <assert.h>
#include <http_parser.h>

struct collector {
    struct head *head;
    struct slice target;
    bool in_value; /* the last callback was a value */
    bool whole;
    int status;
};

static void extend(struct slice *slice, const char *at, size_t size) {
    if (!slice->size) slice->data = at;
    slice->size = (size_t)(at + size - slice->data);
}

static int on_url(http_parser *parser, const char *at, size_t size) {
    struct collector *c = parser->data;
    extend(&c->target, at, size);
    return 0;
}

static int on_name(http_parser *parser, const char *at, size_t size) {
    struct collector *c = parser->data;
    struct head *head = c->head;
    if (c->in_value || head->header_count == 0) {
        if (head->header_count == HTTP_HEADERS_MAX) {
            c->status = 431;
            return 1;
        }
        head->headers[head->header_count++] = (struct http_header){0};
        c->in_value = false;
    }
    extend(&head->headers[head->header_count - 1].name, at, size);
    return 0;
}

static int on_value(http_parser *parser, const char *at, size_t size) {
    struct collector *c = parser->data;
    assert(c->head->header_count > 0);
    extend(&c->head->headers[c->head->header_count - 1].value, at, size);
    c->in_value = true;
    return 0;
}

/* The body is decoded elsewhere: 2 tells the parser that none follows. */
static int on_whole(http_parser *parser) {
    ((struct collector *)parser->data)->whole = true;
    return 2;
}

static const http_parser_settings settings = {.on_url = on_url,
                                              .on_header_field = on_name,
                                              .on_header_value = on_value,
                                              .on_headers_complete = on_whole};

/* ---- the rules */

static bool lower_names(char *data, struct head *head) {
    for (unsigned i = 0; i < head->header_count; i++) {
        struct http_header *h = &head->headers[i];
        if (!h->name.size) return false;
        char *name = data + (h->name.data - data);
        for (size_t k = 0; k < h->name.size; k++) {
            if (name[k] >= 'A' && name[k] <= 'Z') name[k] = (char)(name[k] - 'A' + 'a');
        }
        h->value = h->value.size ? slice_trim(h->value) : SLICE_LITERAL("");
    }
    return true;
}

/* The single header of that name; *count says how many there are. */
static struct slice find(const struct head *head, const char *name, unsigned *count) {
    struct slice value = {0};
    *count = 0;
    for (unsigned i = 0; i < head->header_count; i++) {
        if (!slice_is(head->headers[i].name, name)) continue;
        if (!(*count)++) value = head->headers[i].value;
    }
    return value;
}

static bool host_is_sound(struct slice host) {
    for (size_t i = 0; i < host.size; i++) {
        if (host.data[i] <= ' ' || strchr(",/\\@?#", host.data[i])) return false;
    }
    return true;
}

static int check_host(const struct head *head, struct slice *host) {
    unsigned count;
    *host = find(head, "host", &count);
    if (count > 1 || (count == 0 && !head->http_1_0)) return 400;
    return host_is_sound(*host) ? 0 : 400;
}

static int check_length(struct head *head) {
    unsigned lengths, encodings;
    struct slice length = find(head, "content-length", &lengths);
    struct slice encoding = find(head, "transfer-encoding", &encodings);
    if (lengths > 1 || encodings > 1 || (lengths && encodings)) return 400;
    if (lengths) {
        unsigned long long value;
        if (!length.size || !slice_to_u64(length, &value) || value > INT64_MAX) return 400;
        head->has_content_length = true;
        head->content_length = value;
    }
    if (encodings) {
        if (head->http_1_0) return 400;
        if (!slice_equal_nocase(encoding, SLICE_LITERAL("chunked"))) return 501;
        head->chunked = true;
    }
    return 0;
}

static int check_expect(struct head *head) {
    unsigned count;
    struct slice expect = find(head, "expect", &count);
    if (!count || head->http_1_0) return 0;
    if (count > 1 || !slice_equal_nocase(expect, SLICE_LITERAL("100-continue"))) return 417;
    head->expect_continue = true;
    return 0;
}

static bool list_has(struct slice list, struct slice wanted) {
    while (list.size) {
        const char *comma = memchr(list.data, ',', list.size);
        size_t size = comma ? (size_t)(comma - list.data) : list.size;
        if (slice_equal_nocase(slice_trim((struct slice){list.data, size}), wanted)) return true;
        size_t step = comma ? size + 1 : size;
        list = (struct slice){list.data + step, list.size - step};
    }
    return false;
}

static void read_connection(struct head *head) {
    head->close = head->http_1_0;
    for (unsigned i = 0; i < head->header_count; i++) {
        const struct http_header *h = &head->headers[i];
        if (slice_is(h->name, "connection") && list_has(h->value, SLICE_LITERAL("close")))
            head->close = true;
    }
}

/* http://authority/path is allowed when it names the same host as the Host header. */
static int strip_authority(struct slice *target, struct slice host) {
    struct slice scheme = SLICE_LITERAL("http://");
    if (target->size <= scheme.size ||
        !slice_equal_nocase((struct slice){target->data, scheme.size}, scheme))
        return 400;
    struct slice rest = {target->data + scheme.size, target->size - scheme.size};
    const char *slash = memchr(rest.data, '/', rest.size);
    if (!slash) return 400;
    struct slice authority = {rest.data, (size_t)(slash - rest.data)};
    if (!slice_equal_nocase(authority, host)) return 400;
    *target = (struct slice){slash, rest.size - authority.size};
    return 0;
}

static int split_target(struct head *head, struct slice target, struct slice host) {
    if (!target.size || memchr(target.data, '#', target.size)) return 400;
    if (target.data[0] != '/' && !(slice_is(target, "*") && slice_is(head->method, "OPTIONS"))) {
        int status = strip_authority(&target, host);
        if (status) return status;
    }
    const char *mark = memchr(target.data, '?', target.size);
    size_t path_size = mark ? (size_t)(mark - target.data) : target.size;
    head->path = (struct slice){target.data, path_size};
    head->query = mark ? (struct slice){mark + 1, target.size - path_size - 1} : SLICE_LITERAL("");
    return 0;
}

static int status_of(const http_parser *parser, const struct collector *c) {
    if (c->status) return c->status;
    switch (HTTP_PARSER_ERRNO(parser)) {
    case HPE_OK: return c->whole ? 0 : 400;
    case HPE_INVALID_METHOD: return 501;
    case HPE_INVALID_VERSION: return 505;
    case HPE_HEADER_OVERFLOW: return 431;
    default: return 400;
    }
}

int head_parse(char *data, size_t size, struct http_header *headers, struct head *head) {
    *head = (struct head){.headers = headers};
    const char *space = memchr(data, ' ', size);
    if (!space) return 400;
    head->method = (struct slice){data, (size_t)(space - data)};

    struct collector collector = {.head = head};
    http_parser parser;
    http_parser_init(&parser, HTTP_REQUEST);
    parser.data = &collector;
    http_parser_execute(&parser, &settings, data, size);
    int status = status_of(&parser, &collector);
    if (status) return status;
    if (parser.method == HTTP_CONNECT) return 501;
    head->http_1_0 = parser.http_minor == 0;
    if (!lower_names(data, head)) return 400;

    struct slice host;
    status = check_host(head, &host);
    if (!status) status = check_length(head);
    if (!status) status = check_expect(head);
    if (!status) status = split_target(head, collector.target, host);
    read_connection(head);
    return status;
}
