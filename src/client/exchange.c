/* The parser is http-parser; payload of a declared length goes around it. */
#include "client/exchange.h"

#include <errno.h>
#include <http_parser.h>
#include <string.h>
#include <strings.h>

#define NAME_MAX_SIZE  128
#define VALUE_MAX_SIZE 2048
/* Received in one call: the kernel waits for it in one go, and the timeout is for this much. */
#define RECEIVE_STEP (4u << 20)

struct exchange {
    http_parser parser;
    struct call *call;
    int err; /* of a callback, which can only say that there was one */
    bool head_done, done, good;
    /* The field under way; what does not fit is cut off: no field of interest is as long. */
    char name[NAME_MAX_SIZE], value[VALUE_MAX_SIZE];
    size_t name_size, value_size;
};

static struct exchange *exchange_of(http_parser *parser) {
    return parser->data;
}

/* ---- the head */

static void add(char *field, size_t *size, size_t capacity, const char *data, size_t more) {
    if (more > capacity - *size) more = capacity - *size;
    memcpy(field + *size, data, more);
    *size += more;
}

static void end_field(struct exchange *x) {
    if (x->name_size)
        call_read_header(x->call, (struct slice){x->name, x->name_size},
                         slice_trim((struct slice){x->value, x->value_size}));
    x->name_size = x->value_size = 0;
}

static int on_name(http_parser *parser, const char *data, size_t size) {
    struct exchange *x = exchange_of(parser);
    if (x->value_size) end_field(x);
    add(x->name, &x->name_size, sizeof(x->name), data, size);
    return 0;
}

static int on_value(http_parser *parser, const char *data, size_t size) {
    struct exchange *x = exchange_of(parser);
    add(x->value, &x->value_size, sizeof(x->value), data, size);
    return 0;
}

/* 1 tells the parser that no body follows. */
static int on_head(http_parser *parser) {
    struct exchange *x = exchange_of(parser);
    end_field(x);
    if (parser->status_code < 200) return 0;
    x->call->status = (int)parser->status_code;
    x->good = http_should_keep_alive(parser);
    x->head_done = true;
    return !strcmp(x->call->method, "HEAD");
}

/* ---- the body */

static bool goes_into_memory(const struct call *call) {
    return call->into && call->status >= 200 && call->status <= 299;
}

static int on_body(http_parser *parser, const char *data, size_t size) {
    struct exchange *x = exchange_of(parser);
    struct call *call = x->call;
    if (goes_into_memory(call)) {
        if (size > call->into_size - call->received) return x->err = -EOVERFLOW;
        /* payload: what came with the head in one receive, or in chunks */
        memcpy(call->into + call->received, data, size);
        call->received += size;
        return 0;
    }
    if (size > CALL_TEXT_MAX - call->text.size) return x->err = -EMSGSIZE;
    text_append(&call->text, data, size);
    return call->text.failed ? x->err = -ENOMEM : 0;
}

static int on_end(http_parser *parser) {
    struct exchange *x = exchange_of(parser);
    x->done = x->head_done; /* an interim answer ends too */
    return 0;
}

static const http_parser_settings settings = {
    .on_header_field = on_name,
    .on_header_value = on_value,
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_message_complete = on_end,
};

/* Size 0 is the end of the connection. */
static int parse(struct exchange *x, const char *data, size_t size) {
    size_t eaten = http_parser_execute(&x->parser, &settings, data, size);
    if (x->err) return x->err;
    if (HTTP_PARSER_ERRNO(&x->parser) != HPE_OK) return size ? -EPROTO : -ENODATA;
    /* Bytes after the answer belong to no request of ours. */
    if (x->done && eaten < size) x->good = false;
    return 0;
}

/* The length that is still to come when it is declared, else 0. */
static uint64_t declared_rest(const struct exchange *x) {
    bool plain = x->head_done && !(x->parser.flags & F_CHUNKED) && goes_into_memory(x->call);
    return plain && x->parser.content_length != UINT64_MAX ? x->parser.content_length : 0;
}

static int receive_straight(struct exchange *x, struct connection *connection, uint64_t rest) {
    struct call *call = x->call;
    if (rest > call->into_size - call->received) return -EOVERFLOW;
    while (rest) {
        size_t step = rest < RECEIVE_STEP ? (size_t)rest : RECEIVE_STEP;
        ssize_t got = connection_receive(connection, call->into + call->received, step, true);
        if (got <= 0) return got ? (int)got : -ENODATA;
        call->received += (uint64_t)got;
        rest -= (uint64_t)got;
    }
    x->done = true;
    return 0;
}

static int receive_answer(struct exchange *x, struct connection *connection) {
    while (!x->done) {
        ssize_t got =
            connection_receive(connection, connection->buffer, sizeof(connection->buffer), false);
        if (got < 0) return (int)got;
        int err = parse(x, connection->buffer, (size_t)got);
        if (err) return err;
        if (!got && !x->done) return -ENODATA;
        uint64_t rest = x->done ? 0 : declared_rest(x);
        err = rest ? receive_straight(x, connection, rest) : 0;
        if (err) return err;
    }
    return 0;
}

int exchange_run(struct connection *connection, struct call *call, bool *good) {
    struct exchange x = {.call = call};
    http_parser_init(&x.parser, HTTP_RESPONSE);
    x.parser.data = &x;
    struct iovec parts[2] = {{connection->head.data, connection->head.size},
                             {(void *)call->body, call->body_size}};
    int sent = connection_send(connection, parts, 2);
    if (sent == -ETIMEDOUT) return sent;
    /* A server that refuses may close before it has read everything: its answer says why. */
    int err = receive_answer(&x, connection);
    *good = !err && !sent && x.good;
    return err && sent && sent != -ECANCELED ? sent : err;
}
