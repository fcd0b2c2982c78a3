/* What the tests of the metadata store share: a store in a directory of its own, two reactors, and
 * small words for commits and reads. */
#ifndef PENSTOCK_TESTS_META_FIXTURE_H
#define PENSTOCK_TESTS_META_FIXTURE_H

#include <ftw.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "meta/meta.h"
#include "runtime/reactor.h"

#define MIB (1024u * 1024)

/* cmocka's assertions leave by a long jump, which a fiber on another thread must not do. */
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct fixture {
    char directory[64];
    struct meta *meta;
    struct runtime *runtime;
    uint64_t cache_bytes;
};

static inline void open_store(struct fixture *f) {
    must(meta_rocksdb_open(f->directory, f->cache_bytes, &f->meta) == 0);
    struct runtime_options options = {.reactors = 2, .workers = 2};
    must(runtime_start(&options, &f->runtime) == 0);
}

static inline void close_store(struct fixture *f) {
    runtime_stop(&f->runtime);
    meta_close(&f->meta);
}

static inline int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof(*f));
    must(f);
    strcpy(f->directory, "/tmp/penstock-meta-XXXXXX");
    must(mkdtemp(f->directory));
    f->cache_bytes = MIB;
    log_set_level(LOG_ERROR);
    open_store(f);
    *state = f;
    return 0;
}

static inline int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    return remove(path);
}

static inline int tear_down(void **state) {
    struct fixture *f = *state;
    close_store(f);
    nftw(f->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(f);
    return 0;
}

/* ---- called in fibers */

static inline struct meta_batch *new_batch(void) {
    struct meta_batch *batch = NULL;
    must(meta_batch_create(&batch) == 0);
    return batch;
}

static inline int commit_await(struct fixture *f, struct meta_batch *batch) {
    int err = meta_commit_await(f->meta, batch, META_CRASH);
    meta_batch_destroy(&batch);
    return err;
}

static inline int put_await(struct fixture *f, enum meta_space space, const char *key,
                            const char *value) {
    struct meta_batch *batch = new_batch();
    meta_batch_put(batch, space, slice_of(key), slice_of(value));
    return commit_await(f, batch);
}

static inline bool holds_await(struct fixture *f, enum meta_space space, const char *key,
                               const char *expected) {
    struct meta_value *value = NULL;
    int err = meta_get_await(f->meta, space, slice_of(key), &value);
    must(err == 0 || (err == ERR_NOT_FOUND && !value));
    bool holds =
        expected ? !err && slice_is(meta_value_slice(value), expected) : err == ERR_NOT_FOUND;
    meta_value_unref(&value);
    return holds;
}

static inline void in_fiber(struct fixture *f, fiber_fn *fn) {
    assert_int_equal(reactor_run(runtime_reactor(f->runtime, 0), "test", fn, f), 0);
}

/* Many fibers, spread over both reactors; returns when the last of them has ended. */
struct crowd {
    struct fixture *f;
    void (*fn)(struct fixture *f, unsigned index, void *arg);
    void *arg;
    unsigned size;
    atomic_uint next, left;
    sem_t done;
};

static inline void crowd_member(void *arg) {
    struct crowd *crowd = arg;
    crowd->fn(crowd->f, atomic_fetch_add(&crowd->next, 1), crowd->arg);
    if (atomic_fetch_sub(&crowd->left, 1) == 1) sem_post(&crowd->done);
}

static inline void spawn_half(void *arg) {
    struct crowd *crowd = arg;
    for (unsigned i = 0; i < crowd->size / 2; i++) {
        must(fiber_spawn("member", crowd_member, crowd) == 0);
    }
}

static inline void in_crowd(struct fixture *f, unsigned size,
                            void (*fn)(struct fixture *f, unsigned index, void *arg), void *arg) {
    struct crowd crowd = {.f = f, .fn = fn, .arg = arg, .size = size, .left = size};
    must(size % 2 == 0);
    sem_init(&crowd.done, 0, 0);
    for (unsigned i = 0; i < 2; i++) {
        must(reactor_run(runtime_reactor(f->runtime, i), "spawn", spawn_half, &crowd) == 0);
    }
    sem_wait(&crowd.done);
    sem_destroy(&crowd.done);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
