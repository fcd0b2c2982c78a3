/* What the tests of blob/ share: a world with a real volume file behind a device that can be told
 * to fail, real metadata and two reactors; putting, getting and deleting as object/ does it; fsck.
 * Everything is static: each test program has its own world. */
#ifndef PENSTOCK_TESTS_UNIT_BLOB_WORLD_H
#define PENSTOCK_TESTS_UNIT_BLOB_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "blob/blob.h"
#include "blob/little_endian.h"
#include "blob/segment.h"
#include "blob/store.h"
#include "blob/volumes/superblock.h"
#include "device_fault.h"
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

struct world {
    char directory[64];
    struct pool *pool;
    struct cache *cache;
    struct runtime *runtime;
    struct meta *meta;
    struct blob_store *store;
    struct fault_device *fault;
    uint64_t capacity;
};

/* What one fiber is to do, and what came of it. */
struct job {
    uint64_t seed, size, offset, length;
    uint64_t announced; /* the expected size; 0: the true one */
    bool abort;         /* do everything but the commit */
    struct blob_ref ref;
    int err;
};

static struct world world;

/* ---- the world */

static inline void open_store(void) {
    struct device_options options = {
        .path = world.directory, .capacity_bytes = world.capacity, .direct_io = true};
    struct device *device = NULL;
    assert_int_equal(device_open(&options, &device), 0);
    world.fault = fault_wrap(device, 0x5eed);
    assert_int_equal(blob_store_open_device(&world.fault->device, META_DURABLE, world.meta,
                                            world.pool, world.cache, &world.store),
                     0);
}

/* As after a restart: nothing cached, the free space derived again. */
static inline void reopen_store(void) {
    blob_store_close(&world.store);
    cache_destroy(&world.cache);
    assert_int_equal(cache_create(world.pool, &world.cache), 0);
    open_store();
}

static inline void make_world(uint64_t capacity) {
    world = (struct world){.capacity = capacity};
    strcpy(world.directory, "/tmp/penstock-blob-XXXXXX");
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
}

static inline int remove_entry(const char *path, const struct stat *info, int type,
                               struct FTW *ftw) {
    (void)info;
    (void)type;
    (void)ftw;
    return remove(path);
}

static inline void end_world(void) {
    runtime_stop(&world.runtime);
    blob_store_close(&world.store);
    meta_close(&world.meta);
    cache_destroy(&world.cache);
    pool_destroy(&world.pool); /* asserts that every block is back */
    nftw(world.directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static inline int in_fiber(fiber_fn *fn, struct job *job) {
    assert_int_equal(reactor_run(runtime_reactor(world.runtime, 0), "test", fn, job), 0);
    return job->err;
}

static inline struct blob_stats stats_of(void) {
    struct blob_stats stats;
    blob_stats(world.store, &stats);
    return stats;
}

/* ---- bytes that differ everywhere */

static inline uint64_t word_at(uint64_t seed, uint64_t index) {
    uint64_t x = (seed << 40) + index + 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    return x ^ (x >> 27);
}

static inline void fill(uint64_t seed, uint64_t position, struct block *block) {
    for (uint32_t i = 0; i < block->capacity; i += 8) {
        uint64_t word = word_at(seed, (position + i) / 8);
        memcpy(block->data + i, &word, 8);
    }
}

static inline bool matches(uint64_t seed, uint64_t position, const uint8_t *data, uint64_t size) {
    for (uint64_t i = 0; i < size; i++) {
        uint64_t at = position + i, word;
        if (at % 8 == 0 && size - i >= 8) {
            memcpy(&word, data + i, 8);
            if (word != word_at(seed, at / 8)) return false;
            i += 7;
        } else if (data[i] != (uint8_t)(word_at(seed, at / 8) >> (at % 8 * 8))) {
            return false;
        }
    }
    return true;
}

/* ---- putting, getting, deleting, as object/ does */

static inline int append_all_await(struct blob_writer *writer, const struct job *job) {
    for (uint64_t position = 0; position < job->size; position += UNIT) {
        uint64_t left = job->size - position, size = left < UNIT ? left : UNIT;
        struct block *block = NULL;
        require(pool_take_await(world.pool, pool_class_for(size), 1, &block, UINT64_MAX) == 0);
        fill(job->seed, position, block);
        block->size = (uint32_t)size;
        int err = blob_writer_append_await(writer, block);
        block_unref(&block);
        if (err) return err;
    }
    return 0;
}

static inline void put_fiber(void *arg) {
    struct job *job = arg;
    struct blob_writer *writer = NULL;
    job->err = blob_writer_open(world.store, job->announced ? job->announced : job->size, &writer);
    if (job->err) return;
    struct meta_batch *batch = NULL;
    require(meta_batch_create(&batch) == 0);
    job->err = append_all_await(writer, job);
    if (!job->err) job->err = blob_writer_finish_await(writer, batch, &job->ref);
    bool commit = !job->err && !job->abort;
    if (commit) job->err = meta_commit_await(world.meta, batch, META_DURABLE);
    if (commit && !job->err)
        blob_writer_committed(&writer);
    else
        blob_writer_abort_await(&writer);
    meta_batch_destroy(&batch);
}

static inline int put_announced(uint64_t seed, uint64_t size, uint64_t announced,
                                struct blob_ref *ref) {
    struct job job = {.seed = seed, .size = size, .announced = announced};
    int err = in_fiber(put_fiber, &job);
    *ref = job.ref;
    return err;
}

static inline int put(uint64_t seed, uint64_t size, struct blob_ref *ref) {
    return put_announced(seed, size, 0, ref);
}

static inline void check_blocks(uint64_t seed, uint64_t position, struct block **blocks,
                                unsigned count, uint32_t offset, uint64_t size) {
    for (unsigned i = 0; i < count; i++) {
        uint64_t here = blocks[i]->size - offset;
        if (here > size) here = size;
        require(matches(seed, position, blocks[i]->data + offset, here));
        position += here;
        size -= here;
        offset = 0;
        block_unref(&blocks[i]);
    }
    require(size == 0);
}

static inline int read_on_await(struct blob_reader *reader, uint64_t seed, uint64_t position,
                                uint64_t length) {
    struct block *blocks[4];
    for (;;) {
        unsigned count;
        uint32_t offset;
        uint64_t size;
        int err = blob_reader_next_await(reader, blocks, 4, &count, &offset, &size);
        if (err) return err;
        if (count == 0) break;
        check_blocks(seed, position, blocks, count, offset, size);
        position += size;
        length -= size;
    }
    require(length == 0);
    return 0;
}

static inline void get_fiber(void *arg) {
    struct job *job = arg;
    struct blob_reader *reader = NULL;
    blob_pin(world.store, job->ref.id);
    job->err = blob_reader_open_await(world.store, job->ref, job->offset, job->length, &reader);
    if (!job->err) job->err = read_on_await(reader, job->seed, job->offset, job->length);
    blob_reader_close_await(&reader);
    blob_unpin(world.store, job->ref.id);
}

static inline int get_range(uint64_t seed, struct blob_ref ref, uint64_t offset, uint64_t length) {
    struct job job = {.seed = seed, .ref = ref, .offset = offset, .length = length};
    return in_fiber(get_fiber, &job);
}

static inline int get(uint64_t seed, struct blob_ref ref) {
    return get_range(seed, ref, 0, ref.size);
}

static inline void delete_fiber(void *arg) {
    struct job *job = arg;
    struct meta_batch *batch = NULL;
    struct blob_unlink *unlink = NULL;
    require(meta_batch_create(&batch) == 0);
    job->err = blob_unlink_prepare_await(world.store, job->ref, batch, &unlink);
    bool commit = !job->err && !job->abort;
    if (commit) job->err = meta_commit_await(world.meta, batch, META_DURABLE);
    if (commit && !job->err)
        blob_unlink_released(world.store, &unlink);
    else
        blob_unlink_discard(&unlink);
    meta_batch_destroy(&batch);
}

static inline int delete (struct blob_ref ref) {
    struct job job = {.ref = ref};
    return in_fiber(delete_fiber, &job);
}

/* ---- fsck */

struct findings {
    unsigned count;
    uint64_t orphan; /* the one id that nobody owns */
    char text[2048];
};

static inline bool owns(void *ctx, uint64_t id, uint64_t bytes) {
    (void)bytes;
    return ((struct findings *)ctx)->orphan != id;
}

static inline void note_finding(void *ctx, const char *text) {
    struct findings *findings = ctx;
    findings->count++;
    strncat(findings->text, text, sizeof(findings->text) - strlen(findings->text) - 2);
    strcat(findings->text, "\n");
}

static inline struct findings fsck(uint64_t orphan, uint64_t *bytes_used) {
    struct findings findings = {.orphan = orphan};
    assert_int_equal(
        blob_fsck(world.directory, world.meta, true, owns, note_finding, &findings, bytes_used), 0);
    return findings;
}

static inline void assert_sound(void) {
    uint64_t used;
    struct findings findings = fsck(0, &used);
    assert_string_equal(findings.text, "");
}

static inline void assert_one_finding(const char *part) {
    struct findings findings = fsck(0, NULL);
    if (findings.count != 1 || !strstr(findings.text, part)) print_error("%s", findings.text);
    assert_int_equal(findings.count, 1);
    assert_non_null(strstr(findings.text, part));
}

/* ---- damage, done from outside */

static inline void overwrite_volume(uint64_t offset, const void *data, size_t size) {
    char path[96];
    snprintf(path, sizeof(path), "%s/volume0", world.directory);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, data, size, (off_t)offset), (ssize_t)size);
    assert_int_equal(fdatasync(fd), 0);
    close(fd);
}

struct found {
    uint64_t id;
    struct segment segment;
};

static inline int find_first(struct meta_cursor *cursor, void *arg) {
    struct found *found = arg;
    uint8_t key[SEGMENT_KEY_SIZE];
    segment_key(found->id, 0, key);
    meta_cursor_seek(cursor, (struct slice){(char *)key, sizeof(key)});
    if (!meta_cursor_valid(cursor)) return ERR_NOT_FOUND;
    return segment_decode(meta_cursor_key(cursor), meta_cursor_value(cursor), &found->segment);
}

static inline struct segment first_segment(struct blob_ref ref) {
    struct found found = {.id = ref.id};
    assert_int_equal(meta_scan_blocking(world.meta, META_SEGMENTS, find_first, &found), 0);
    assert_int_equal(found.segment.id, ref.id);
    return found.segment;
}

static inline void put_record(enum meta_space space, struct slice key, struct slice value) {
    struct meta_batch *batch = NULL;
    assert_int_equal(meta_batch_create(&batch), 0);
    meta_batch_put(batch, space, key, value);
    assert_int_equal(meta_commit_blocking(world.meta, batch), 0);
    meta_batch_destroy(&batch);
}

static inline void put_segment(const struct segment *segment, bool damaged) {
    uint8_t key[SEGMENT_KEY_SIZE], record[SEGMENT_RECORD_MAX];
    segment_key(segment->id, segment->blob_offset, key);
    size_t size = segment_encode(segment, record);
    if (damaged) record[10] ^= 1;
    put_record(META_SEGMENTS, (struct slice){(char *)key, sizeof(key)},
               (struct slice){(char *)record, size});
}

#endif
