/* The scene of the S3 service's tests: a whole server below HTTP with a store in a temporary
 * directory, and a client that signs what it sends. The memory that one-sided transfers reach is
 * the test's own: it stands in for transfer/, so that every outcome of a transfer can be had.
 *
 *   token "mem:SIZE"  the first SIZE bytes of `memory`
 *   token "gone:SIZE" memory whose client went away: every transfer fails
 *   token "far:SIZE"  memory that cannot be reached one-sidedly: declined
 *   any other         not a token */
#ifndef PENSTOCK_TESTS_S3_WORLD_H
#define PENSTOCK_TESTS_S3_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <ftw.h>

#include "base/clock.h"
#include "base/encode.h"
#include "base/error.h"
#include "base/log.h"
#include "http_client.h"
#include "s3/s3.h"

#define MIB          (1024ull * 1024)
#define ACCESS_KEY   "TESTKEY"
#define SECRET_KEY   "test/secret"
#define MEMORY_SIZE  (4 * MIB)
#define CALL_HEADERS 16

static struct {
    char directory[64];
    struct pool *pool;
    struct cache *cache;
    struct runtime *runtime;
    struct meta *meta;
    struct blob_store *blobs;
    struct store *store;
    struct keyring *keyring;
    struct s3_service *service;
    struct http_server *server;
    struct client client;
} world;

/* ---- transfers over the test's memory */

static uint8_t memory[MEMORY_SIZE];

struct transfer_target {
    uint64_t size;
    bool gone;
};

int transfer_open(struct transfer_service *service, struct slice token, const char *identity,
                  struct transfer_target **target, const char **detail) {
    unsigned long long size;
    const char *colon = memchr(token.data, ':', token.size);
    size_t name = colon ? (size_t)(colon - token.data) : token.size;
    struct slice kind = {token.data, name};
    *target = NULL;
    assert_string_equal(identity, ACCESS_KEY);
    if (!colon || !slice_to_u64((struct slice){colon + 1, token.size - name - 1}, &size)) {
        *detail = "size";
        return ERR_INVALID_RDMA_TOKEN;
    }
    if (slice_is(kind, "far")) return ERR_RDMA_NOT_SUPPORTED;
    *target = malloc(sizeof **target);
    **target = (struct transfer_target){size, slice_is(kind, "gone")};
    return 0;
}

uint64_t transfer_size(const struct transfer_target *target) {
    return target->size;
}

const char *transfer_name(const struct transfer_target *target) {
    return "test";
}

void transfer_close(struct transfer_target **target) {
    free(*target);
    *target = NULL;
}

int transfer_push_await(struct transfer_target *target, uint64_t offset,
                        struct block *const *blocks, unsigned count, uint32_t block_offset,
                        uint64_t size) {
    if (target->gone) return ERR_RDMA_TRANSFER_FAILED;
    for (unsigned i = 0; i < count && size; i++, block_offset = 0) {
        uint64_t piece = blocks[i]->size - block_offset;
        if (piece > size) piece = size;
        memcpy(memory + offset, blocks[i]->data + block_offset, piece);
        offset += piece;
        size -= piece;
    }
    return size ? ERR_INTERNAL : 0;
}

int transfer_pull_await(struct transfer_target *target, uint64_t offset, struct block *block,
                        uint32_t size) {
    if (target->gone) return ERR_RDMA_TRANSFER_FAILED;
    memcpy(block->data, memory + offset, size);
    return 0;
}

int transfer_introduce(struct transfer_service *service, const char *identity, struct text *out) {
    text_append_format(out, "{\"ticket\":\"for %s\"}", identity);
    return 0;
}

/* ---- the world */

static inline int test_admin(void *ctx, enum http_method method, struct slice name,
                             const struct identity *identity, struct text *out) {
    if (!slice_is(name, "stats")) return ERR_NOT_FOUND;
    text_append_string(out, "{}");
    return 0;
}

static inline void open_service(void) {
    assert_int_equal(keyring_create(&world.keyring), 0);
    assert_int_equal(keyring_add(world.keyring, ACCESS_KEY, SECRET_KEY), 0);
    struct s3_options options = {
        .store = world.store,
        .pool = world.pool,
        .keyring = world.keyring,
        .transfers = (struct transfer_service *)memory, /* only passed on, to the above */
        .region = "us-east-1",
        .domain = "s3.example",
        .admin = test_admin,
    };
    assert_int_equal(s3_create(&options, &world.service), 0);
    struct http_server_options http = {
        .host = "127.0.0.1", .handler = s3_handle, .ctx = world.service};
    assert_int_equal(http_server_start(world.runtime, &http, &world.server), 0);
}

static inline int world_begin(void **state) {
    log_set_level(LOG_ERROR);
    strcpy(world.directory, "/tmp/penstock-s3-XXXXXX");
    assert_non_null(mkdtemp(world.directory));
    char path[96];
    snprintf(path, sizeof path, "%s/meta", world.directory);
    assert_int_equal(pool_create(64 * MIB, &world.pool), 0);
    assert_int_equal(cache_create(world.pool, &world.cache), 0);
    struct pool_region region = pool_region(world.pool);
    struct runtime_options runtime = {
        .reactors = 2, .workers = 2, .fixed_base = region.base, .fixed_size = region.size};
    assert_int_equal(runtime_start(&runtime, &world.runtime), 0);
    assert_int_equal(meta_rocksdb_open(path, 8 * MIB, &world.meta), 0);
    struct blob_options blobs = {
        .path = world.directory, .capacity_bytes = 256 * MIB, .durability = META_DURABLE};
    assert_int_equal(blob_store_open(&blobs, world.meta, world.pool, world.cache, &world.blobs), 0);
    assert_int_equal(store_open(world.meta, world.blobs, META_DURABLE, &world.store), 0);
    open_service();
    client_open(&world.client, http_server_port(world.server));
    return 0;
}

static inline int remove_entry(const char *path, const struct stat *info, int type,
                               struct FTW *ftw) {
    return remove(path);
}

static inline int world_end(void **state) {
    client_close(&world.client);
    http_server_stop(&world.server, 1000);
    runtime_stop(&world.runtime);
    s3_destroy(&world.service);
    keyring_destroy(&world.keyring);
    store_close(&world.store);
    blob_store_close(&world.blobs);
    meta_close(&world.meta);
    cache_destroy(&world.cache);
    pool_destroy(&world.pool); /* asserts that every block is back */
    nftw(world.directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}

/* ---- the client */

static struct answer answer; /* of the latest call */

/* A request: fields that are not set are left out. */
struct call {
    const char *method, *path, *query, *host;
    const char *headers[CALL_HEADERS]; /* name, value, name, value... lower case */
    const void *body;
    size_t size;
    const char *payload; /* x-amz-content-sha256; NULL: the hash of the body */
    const char *unsigned_name, *unsigned_value; /* a header that is sent, but not signed */
    bool no_length;                             /* send no Content-Length */
    const char *length;                         /* instead of the true Content-Length */
};

static inline unsigned add_header(struct auth_header *headers, unsigned count, const char *name,
                                  const char *value) {
    headers[count] = (struct auth_header){slice_of(name), slice_of(value)};
    return count + 1;
}

static inline void sign(const struct call *call, struct text *out) {
    struct identity identity = {ACCESS_KEY, SECRET_KEY};
    struct auth_header headers[CALL_HEADERS];
    char date[CLOCK_TEXT_SIZE], hash[2 * SHA256_SIZE + 1], authorization[AUTH_HEADER_MAX];
    uint8_t digest[SHA256_SIZE];
    int64_t now_ms = clock_wall_ms();
    clock_format_amz(now_ms, date);
    sha256(call->body ? call->body : "", call->size, digest);
    hex_encode(digest, sizeof digest, hash);
    const char *payload = call->payload ? call->payload : hash;
    unsigned count = add_header(headers, 0, "host", call->host ? call->host : "localhost");
    count = add_header(headers, count, "x-amz-content-sha256", payload);
    count = add_header(headers, count, "x-amz-date", date);
    for (unsigned i = 0; call->headers[i]; i += 2)
        count = add_header(headers, count, call->headers[i], call->headers[i + 1]);
    struct auth_request request = {
        .method = slice_of(call->method),
        .path = slice_of(call->path),
        .query = slice_of(call->query),
        .headers = headers,
        .header_count = count,
        .now_ms = now_ms,
        .region = SLICE_LITERAL("us-east-1"),
    };
    assert_int_equal(
        auth_sign(&identity, &request, SLICE_LITERAL("s3"), slice_of(payload), authorization), 0);
    for (unsigned i = 0; i < count; i++)
        text_append_format(out, "%s: %s\r\n", headers[i].name.data, headers[i].value.data);
    text_append_format(out, "authorization: %s\r\n", authorization);
}

/* Send it and wait for the answer, on the one connection that the tests keep. */
static inline int send_call(const struct call *call) {
    struct text head _cleanup_text_ = {0};
    text_append_format(&head, "%s %s%s%s HTTP/1.1\r\n", call->method, call->path,
                       call->query ? "?" : "", call->query ? call->query : "");
    sign(call, &head);
    if (call->unsigned_name)
        text_append_format(&head, "%s: %s\r\n", call->unsigned_name, call->unsigned_value);
    if (call->length)
        text_append_format(&head, "content-length: %s\r\n", call->length);
    else if (!call->no_length)
        text_append_format(&head, "content-length: %zu\r\n", call->size);
    text_append_string(&head, "\r\n");
    assert_false(head.failed);
    answer_end(&answer);
    client_send_bytes(&world.client, head.data, head.size);
    if (call->size) client_send_bytes(&world.client, call->body, call->size);
    client_read(&world.client, &answer, !strcmp(call->method, "HEAD"));
    if (!answer.status || !strcmp(answer_header(&answer, "Connection"), "close")) {
        client_close(&world.client);
        client_open(&world.client, http_server_port(world.server));
    }
    return answer.status;
}

#define CALL(...) send_call(&(struct call){__VA_ARGS__})

static inline int simple(const char *method, const char *path, const char *query) {
    return CALL(.method = method, .path = path, .query = query);
}

static inline int put_text(const char *path, const char *text) {
    return CALL(.method = "PUT", .path = path, .body = text, .size = strlen(text));
}

/* The text of the first element of that name in the answer, or "". */
static inline const char *answer_element(const char *name) {
    static char value[512];
    char open[64];
    snprintf(open, sizeof open, "<%s>", name);
    const char *at = answer.body ? strstr(answer.body, open) : NULL;
    value[0] = 0;
    if (at) {
        at += strlen(open);
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "<"), at);
    }
    return value;
}

static inline void assert_header(const char *name, const char *value) {
    assert_string_equal(answer_header(&answer, name), value);
}

static inline void assert_error(int status, const char *code) {
    if (answer.status != status) print_error("%s%s\n", answer.head, answer.body);
    assert_int_equal(answer.status, status);
    assert_string_equal(answer_element("Code"), code);
}

static inline void fill_bytes(uint8_t *data, size_t size, unsigned seed) {
    for (size_t i = 0; i < size; i++) data[i] = (uint8_t)((i * 31 + (i >> 8) * 17 + seed) & 255);
}

#endif
