/* The scene of the HTTP server's tests: two reactors, a pool, a server, and a handler whose paths
 * are the ways that a handler can behave. */
#ifndef PENSTOCK_TESTS_HTTP_WORLD_H
#define PENSTOCK_TESTS_HTTP_WORLD_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/error.h"
#include "http_client.h"
#include "net/http.h"

#define MIB (1024u * 1024)

static struct runtime *runtime;
static struct pool *pool;
static struct http_server *server; /* with the default limits */

/* What handlers saw, for the tests. */
static atomic_int entered, finished, last_error;
static atomic_bool gate_open;

/* ---- the handler */

static inline void answer_text(struct http_exchange *x, int status, const char *text) {
    http_respond(x, status);
    http_respond_header(x, "Content-Type", "text/plain");
    http_respond_body_await(x, text, strlen(text));
}

static inline void handle_echo(struct http_exchange *x) {
    char *data = malloc(4 * MIB);
    ssize_t size = http_body_read_full_await(x, data, 4 * MIB);
    last_error = size < 0 ? (int)size : 0;
    if (size < 0) {
        answer_text(x, 400, error_name((int)size));
    } else {
        http_respond(x, 200);
        http_respond_header(x, "X-Query", "%.*s", (int)x->request.query.size,
                            x->request.query.data);
        http_respond_body_await(x, data, (size_t)size);
    }
    free(data);
}

/* Like aws-chunked decoding does: looks at what is there, takes some of it. */
static inline void handle_peek(struct http_exchange *x) {
    char text[4096];
    size_t used = 0;
    struct slice view;
    int more;
    while ((more = http_body_peek_await(x, &view)) > 0) {
        size_t take = view.size > 3 ? 3 : view.size;
        assert_true(used + take < sizeof text);
        memcpy(text + used, view.data, take);
        used += take;
        http_body_consume(x, take);
    }
    text[used] = 0;
    answer_text(x, more ? 400 : 200, text);
}

static inline void fill_pattern(struct block *block) {
    for (uint32_t i = 0; i < block->capacity; i++) block->data[i] = (uint8_t)(i % 251);
    block->size = block->capacity;
}

/* ?N: N blocks of 256 KiB without the first 100 bytes, in calls of up to 8 blocks. */
static inline void handle_stream(struct http_exchange *x) {
    unsigned count = (unsigned)strtoul(x->request.query.data, NULL, 10);
    struct block *blocks[8];
    last_error = pool_take_await(pool, BLOCK_256K, 8, blocks, clock_deadline_ms(10000));
    if (last_error) return;
    for (unsigned i = 0; i < 8; i++) fill_pattern(blocks[i]);
    uint64_t left = (uint64_t)count * BLOCK_MAX_SIZE - 100;
    uint32_t offset = 100;
    http_respond(x, 206);
    http_respond_stream(x, left);
    int err = 0;
    while (left && !err && x->request.method != HTTP_HEAD) {
        uint64_t step = 8u * BLOCK_MAX_SIZE - offset;
        if (step > left) step = left;
        err = http_send_blocks_await(x, blocks, 8, offset, step);
        left -= step;
        offset = 0;
    }
    last_error = err;
    for (unsigned i = 0; i < 8; i++) block_unref(&blocks[i]);
}

static inline void handle_gate(struct http_exchange *x) {
    int err = 0;
    while (!gate_open && !err) err = fiber_sleep_await(1);
    last_error = err;
    answer_text(x, 200, "through");
}

static inline void handle_watch(struct http_exchange *x) {
    http_watch_client_begin(x);
    last_error = fiber_sleep_await(10000);
    http_watch_client_end_await(x);
}

static inline void handle_odd(struct http_exchange *x, struct slice path) {
    if (slice_is(path, "/silent")) return;
    http_respond(x, 200);
    if (slice_is(path, "/inject"))
        http_respond_header(x, "X-Value", "%s", "a\r\nSet-Cookie: b\r\n\r\n<html>");
    for (unsigned i = 0; slice_is(path, "/long-head") && i < 100; i++)
        http_respond_header(x, "X-Long", "%01000d", i);
    for (unsigned i = 0; slice_is(path, "/longer-head") && i < 10; i++)
        http_respond_header(x, "X-Long", "%0600d", i);
    if (slice_is(path, "/short")) {
        http_respond_stream(x, 100); /* and never a byte of it */
        return;
    }
    http_respond_body_await(x, "odd", 3);
}

static inline void handler(struct http_exchange *x, void *ctx) {
    struct slice path = x->request.path;
    entered++;
    if (slice_is(path, "/echo"))
        handle_echo(x);
    else if (slice_is(path, "/peek"))
        handle_peek(x);
    else if (slice_is(path, "/stream"))
        handle_stream(x);
    else if (slice_is(path, "/ignore"))
        answer_text(x, 200, "ignored");
    else if (slice_is(path, "/gate"))
        handle_gate(x);
    else if (slice_is(path, "/watch"))
        handle_watch(x);
    else if (slice_is(path, "/no-content"))
        answer_text(x, 204, "never sent");
    else if (slice_is(path, "/not-modified"))
        answer_text(x, 304, "never sent");
    else if (slice_is(path, "/token")) {
        http_body_expect_none(x);
        answer_text(x, 200, "done");
    } else
        handle_odd(x, path);
    finished++;
}

/* ---- helpers */

static inline struct http_server *start_server(struct runtime *on,
                                               struct http_server_options options) {
    struct http_server *s;
    options.host = "127.0.0.1";
    options.handler = handler;
    assert_int_equal(http_server_start(on, &options, &s), 0);
    return s;
}

static inline uint64_t open_connections(struct http_server *s) {
    struct http_stats stats;
    http_server_stats(s, &stats);
    return stats.connections;
}

static inline void wait_for_connections(struct http_server *s, uint64_t count) {
    for (unsigned i = 0; i < 20000 && open_connections(s) != count; i++) usleep(1000);
    assert_int_equal(open_connections(s), count);
}

static inline void wait_for(atomic_int *value, int at_least) {
    for (unsigned i = 0; i < 20000 && *value < at_least; i++) usleep(1000);
    assert_true(*value >= at_least);
}

/* A client may have its answer before the handler of its request has returned. */
static inline void reset_marks(void) {
    wait_for(&finished, entered);
    entered = finished = last_error = 0;
    gate_open = false;
}

static inline void open_default(struct client *c) {
    reset_marks();
    client_open(c, http_server_port(server));
}

static inline void expect_answer(struct client *c, int status, const char *body) {
    struct answer a;
    client_read(c, &a, false);
    assert_int_equal(a.status, status);
    if (body) assert_string_equal(a.body, body);
    answer_end(&a);
}

#define ECHO(body_size, body)                                                                      \
    "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: " #body_size "\r\n\r\n" body

static inline struct runtime *start_runtime(unsigned reactors) {
    struct runtime_options options = {.reactors = reactors, .workers = 1};
    struct runtime *started;
    assert_int_equal(runtime_start(&options, &started), 0);
    return started;
}

static inline int world_begin(void **state) {
    runtime = start_runtime(2);
    assert_int_equal(pool_create(32 * MIB, &pool), 0);
    server = start_server(runtime, (struct http_server_options){0});
    return 0;
}

static inline int world_end(void **state) {
    http_server_stop(&server, 1000);
    runtime_stop(&runtime);
    pool_destroy(&pool);
    return 0;
}

#endif
