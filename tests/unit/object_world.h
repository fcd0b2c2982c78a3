/* What the tests of object/ share: a store on a real volume file with real metadata and two
 * reactors, and the steps that every story needs. Everything is static: each test program has its
 * own world. Functions that end in _await run in a fiber; story() makes one. */
#ifndef PENSTOCK_TESTS_UNIT_OBJECT_WORLD_H
#define PENSTOCK_TESTS_UNIT_OBJECT_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <ftw.h>
#include <pthread.h>
#include <unistd.h>

#include "base/error.h"
#include "object/object.h"
#include "runtime/reactor.h"

#define KIB  1024ull
#define MIB  (1024 * KIB)
#define UNIT (256 * KIB)

/* Inside a fiber a test cannot jump out as cmocka would. */
#define require(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#define require_result(call, expected)                                                             \
    do {                                                                                           \
        int got = (call), wanted = (expected);                                                     \
        if (got != wanted) {                                                                       \
            fprintf(stderr, "%s:%d: %s gave %d (%s)\n", __FILE__, __LINE__, #call, got,            \
                    error_text(got));                                                              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static struct world {
    char directory[64];
    struct pool *pool;
    struct cache *cache;
    struct runtime *runtime;
    struct meta *meta;
    struct blob_store *blobs;
    struct store *store;
    struct bucket bucket; /* "stories", where things happen unless a test says otherwise */
} world;

/* ---- fibers */

struct story {
    void (*tell)(void);
};

static inline void tell_story(void *arg) {
    ((struct story *)arg)->tell();
}

static inline void story(void (*tell)(void)) {
    struct story it = {tell};
    assert_int_equal(reactor_run(runtime_reactor(world.runtime, 0), "story", tell_story, &it), 0);
}

struct together {
    fiber_fn *fn;
    void *arg;
    unsigned index;
    pthread_t thread;
};

static inline void *run_one(void *arg) {
    struct together *one = arg;
    struct reactor *reactor = runtime_reactor(world.runtime, one->index % 2);
    if (reactor_run(reactor, "together", one->fn, one->arg)) abort();
    return NULL;
}

/* Run fn on `count` items at the same time, as fibers on both reactors. Not from a fiber. */
static inline void run_together(fiber_fn *fn, void *items, size_t size, unsigned count) {
    struct together all[64];
    assert_true(count <= 64);
    for (unsigned i = 0; i < count; i++) {
        all[i] = (struct together){.fn = fn, .arg = (char *)items + i * size, .index = i};
        assert_int_equal(pthread_create(&all[i].thread, NULL, run_one, &all[i]), 0);
    }
    for (unsigned i = 0; i < count; i++) pthread_join(all[i].thread, NULL);
}

/* ---- the world */

static inline void open_store(void) {
    struct blob_options options = {
        .path = world.directory, .durability = META_CRASH, .direct_io = true};
    assert_int_equal(blob_store_open(&options, world.meta, world.pool, world.cache, &world.blobs),
                     0);
    assert_int_equal(store_open(world.meta, world.blobs, META_CRASH, &world.store), 0);
}

/* As after a restart: nothing cached, the free space derived again. */
static inline void reopen_store(void) {
    store_close(&world.store);
    blob_store_close(&world.blobs);
    cache_destroy(&world.cache);
    assert_int_equal(cache_create(world.pool, &world.cache), 0);
    open_store();
}

static inline void make_bucket(void) {
    require_result(bucket_create_await(world.store, slice_of("stories"), "us-east-1"), 0);
    require_result(bucket_get_await(world.store, slice_of("stories"), &world.bucket), 0);
}

static inline void make_world(void) {
    world = (struct world){0};
    strcpy(world.directory, "/tmp/penstock-object-XXXXXX");
    assert_non_null(mkdtemp(world.directory));
    char path[96];
    snprintf(path, sizeof(path), "%s/meta", world.directory);
    assert_int_equal(pool_create(32 * MIB, &world.pool), 0);
    assert_int_equal(cache_create(world.pool, &world.cache), 0);
    struct pool_region region = pool_region(world.pool);
    struct runtime_options options = {
        .reactors = 2, .workers = 2, .fixed_base = region.base, .fixed_size = region.size};
    assert_int_equal(runtime_start(&options, &world.runtime), 0);
    assert_int_equal(meta_rocksdb_open(path, 8 * MIB, &world.meta), 0);
    open_store();
    story(make_bucket);
}

struct findings {
    uint64_t count;
    char text[8192];
};

static inline void note_finding(void *ctx, const char *text) {
    struct findings *findings = ctx;
    strncat(findings->text, text, sizeof(findings->text) - strlen(findings->text) - 2);
    strcat(findings->text, "\n");
}

static inline struct findings fsck(void) {
    struct findings findings = {0};
    assert_int_equal(
        store_fsck(world.meta, world.directory, true, note_finding, &findings, &findings.count), 0);
    return findings;
}

static inline int remove_entry(const char *path, const struct stat *info, int type,
                               struct FTW *ftw) {
    (void)info;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void drop_world(void) {
    runtime_stop(&world.runtime);
    store_close(&world.store);
    blob_store_close(&world.blobs);
    meta_close(&world.meta);
    cache_destroy(&world.cache);
    pool_destroy(&world.pool); /* asserts that every block is back */
    nftw(world.directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Every story ends with a store that has nothing to complain about. */
static inline void end_world(void) {
    struct findings findings = fsck();
    assert_string_equal(findings.text, "");
    assert_int_equal(findings.count, 0);
    drop_world();
}

static inline uint64_t used_bytes(void) {
    struct blob_stats stats;
    blob_stats(world.blobs, &stats);
    return stats.used_bytes;
}

/* ---- bytes that differ by seed and place */

static inline uint64_t word_at(uint64_t seed, uint64_t index) {
    uint64_t x = (seed << 40) + index + 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    return x ^ (x >> 27);
}

static inline uint8_t byte_at(uint64_t seed, uint64_t position) {
    return (uint8_t)(word_at(seed, position / 8) >> (position % 8 * 8));
}

static inline void fill(uint64_t seed, uint64_t position, struct block *block) {
    for (uint32_t i = 0; i < block->capacity; i += 8) {
        uint64_t word = word_at(seed, (position + i) / 8);
        memcpy(block->data + i, &word, 8);
    }
}

/* Writes size bytes of `seed`; with a digest, also into it. */
static inline struct blob_writer *write_bytes_await(uint64_t seed, uint64_t size,
                                                    struct digest *digest) {
    struct blob_writer *writer = NULL;
    require_result(blob_writer_open(store_blobs(world.store), size, &writer), 0);
    for (uint64_t position = 0; position < size; position += UNIT) {
        uint64_t left = size - position, here = left < UNIT ? left : UNIT;
        struct block *block = NULL;
        require_result(pool_take_await(world.pool, pool_class_for(here), 1, &block, UINT64_MAX), 0);
        fill(seed, position, block);
        block->size = (uint32_t)here;
        if (digest) digest_update(digest, block->data, here);
        require_result(blob_writer_append_await(writer, block), 0);
        block_unref(&block);
    }
    return writer;
}

/* ---- objects. What seed N wrote has the ETag "N". */

static inline int put_if_await(const char *key, uint64_t seed, uint64_t size,
                               struct object_condition condition) {
    struct object_write write = {.key = slice_of(key), .condition = condition};
    snprintf(write.info.etag, sizeof(write.info.etag), "%llu", (unsigned long long)seed);
    struct blob_writer *writer = write_bytes_await(seed, size, NULL);
    int err = object_commit_await(world.store, &world.bucket, &write, &writer);
    require(err || (writer == NULL && write.info.size == size && write.info.modified_ms > 0));
    blob_writer_abort_await(&writer);
    return err;
}

static inline int put_await(const char *key, uint64_t seed, uint64_t size) {
    return put_if_await(key, seed, size, (struct object_condition){0});
}

static inline int delete_await(const char *key) {
    return object_delete_await(world.store, &world.bucket, slice_of(key), NULL);
}

static inline struct object *open_await(const char *key) {
    struct object *object = NULL;
    require_result(object_open_await(world.store, &world.bucket, slice_of(key), &object), 0);
    return object;
}

static inline bool is_there_await(const char *key) {
    struct object *object = NULL;
    int err = object_open_await(world.store, &world.bucket, slice_of(key), &object);
    object_close(&object);
    require(err == 0 || err == ERR_NO_SUCH_KEY);
    return err == 0;
}

/* What a range of an object holds, as expected by a function of the position. */
typedef uint8_t expected_fn(const void *ctx, uint64_t position);

static inline uint8_t expect_seed(const void *seed, uint64_t position) {
    return byte_at(*(const uint64_t *)seed, position);
}

static inline void check_range_await(struct object *object, uint64_t offset, uint64_t length,
                                     expected_fn *expected, const void *ctx) {
    struct object_reader *reader = NULL;
    require_result(object_reader_open_await(object, offset, length, &reader), 0);
    uint64_t end = offset + length;
    for (;;) {
        struct block *blocks[4];
        unsigned count;
        uint32_t at;
        uint64_t size;
        require_result(object_reader_next_await(reader, blocks, 4, &count, &at, &size), 0);
        if (count == 0) break;
        for (unsigned i = 0; i < count; i++) {
            for (; at < blocks[i]->size && size; at++, size--)
                require(blocks[i]->data[at] == expected(ctx, offset++));
            at = 0;
            block_unref(&blocks[i]);
        }
        require(size == 0);
    }
    require(offset == end);
    object_reader_close_await(&reader);
}

static inline void check_open_object_await(struct object *object, uint64_t seed, uint64_t size) {
    char etag[32];
    snprintf(etag, sizeof(etag), "%llu", (unsigned long long)seed);
    require(object_info(object)->size == size);
    require(!strcmp(object_info(object)->etag, etag));
    check_range_await(object, 0, size, expect_seed, &seed);
}

static inline void check_object_await(const char *key, uint64_t seed, uint64_t size) {
    struct object *object = open_await(key);
    check_open_object_await(object, seed, size);
    object_close(&object);
}

/* ---- seeded randomness, the same in every run */

static inline uint64_t next_random(uint64_t *state) {
    *state += 0x9e3779b97f4a7c15ull;
    uint64_t x = *state;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

#endif
