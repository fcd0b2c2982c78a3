/* The metadata store above its engine: values, reads through the record cache, scans, statistics.
 * Commits are commit.c's, bytes on the drive are the engine's. */
#include "meta/meta.h"

#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "meta/commit.h"
#include "meta/engine.h"
#include "meta/record_cache.h"
#include "runtime/fiber.h"
#include "runtime/reactor.h"
#include "runtime/worker.h"

/* ---- values */

struct meta_value *meta_value_create(size_t size) {
    assert(size <= UINT32_MAX);
    struct meta_value *value = malloc(sizeof(*value) + size);
    if (!value) return NULL;
    atomic_init(&value->refs, 1);
    value->size = (uint32_t)size;
    return value;
}

void meta_value_ref(struct meta_value *value) {
    unsigned before = atomic_fetch_add_explicit(&value->refs, 1, memory_order_relaxed);
    assert(before > 0 && before < UINT32_MAX);
    (void)before;
}

void meta_value_unref(struct meta_value **pointer) {
    struct meta_value *value = *pointer;
    if (!value) return;
    *pointer = NULL;
    if (atomic_fetch_sub_explicit(&value->refs, 1, memory_order_acq_rel) == 1) free(value);
}

/* ---- reads */

static struct meta_counters *counters(struct meta *meta) {
    struct reactor *reactor = reactor_self();
    unsigned stripe = reactor ? reactor_index(reactor) % META_COUNTER_STRIPES : 0;
    return &meta->counters[stripe];
}

static void count_one(atomic_ullong *counter) {
    atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

struct get_job {
    struct meta *meta;
    enum meta_space space;
    struct slice key;
    struct meta_value *value;
    int err;
};

static void run_get(void *arg) {
    struct get_job *job = arg;
    job->err = job->meta->ops->get(job->meta, job->space, job->key, META_READ_ANY, &job->value);
}

/* Most answers are in the engine's memory; only one that needs the drive goes to a worker. */
static int engine_get_await(struct meta *meta, enum meta_space space, struct slice key,
                            struct meta_value **value) {
    count_one(&counters(meta)->engine_gets);
    int err = meta->ops->get(meta, space, key, META_READ_MEMORY, value);
    if (err != -EAGAIN) return err;
    count_one(&counters(meta)->worker_gets);
    struct get_job job = {.meta = meta, .space = space, .key = key};
    worker_call_await(run_get, &job);
    *value = job.value;
    return job.err;
}

int meta_get_await(struct meta *meta, enum meta_space space, struct slice key,
                   struct meta_value **value) {
    assert(fiber_self() && space < META_SPACES);
    *value = NULL;
    count_one(&counters(meta)->gets);
    if (!meta_space_is_cached(space)) return engine_get_await(meta, space, key, value);

    struct record_ticket ticket;
    if (record_cache_get(meta->cache, space, key, value, &ticket)) {
        count_one(&counters(meta)->cache_hits);
        return 0;
    }
    int err = engine_get_await(meta, space, key, value);
    if (!err) record_cache_fill(meta->cache, space, key, *value, &ticket);
    return err;
}

/* ---- commits */

int meta_commit_await(struct meta *meta, struct meta_batch *batch,
                      enum meta_durability durability) {
    return committer_run_await(meta->committer, batch, durability);
}

int meta_commit_blocking(struct meta *meta, struct meta_batch *batch) {
    return committer_run_blocking(meta->committer, batch, META_DURABLE);
}

/* ---- scans */

void meta_cursor_seek(struct meta_cursor *cursor, struct slice key) {
    cursor->ops->cursor_seek(cursor, key);
}

void meta_cursor_seek_before(struct meta_cursor *cursor, struct slice key) {
    cursor->ops->cursor_seek_before(cursor, key);
}

bool meta_cursor_valid(const struct meta_cursor *cursor) {
    return cursor->ops->cursor_valid(cursor);
}

void meta_cursor_next(struct meta_cursor *cursor) {
    assert(meta_cursor_valid(cursor));
    cursor->ops->cursor_next(cursor);
}

struct slice meta_cursor_key(const struct meta_cursor *cursor) {
    assert(meta_cursor_valid(cursor));
    return cursor->ops->cursor_key(cursor);
}

struct slice meta_cursor_value(const struct meta_cursor *cursor) {
    assert(meta_cursor_valid(cursor));
    return cursor->ops->cursor_value(cursor);
}

struct scan_job {
    struct meta *meta;
    enum meta_space space;
    meta_scan_fn *fn;
    void *arg;
    int err;
};

/* fn cannot tell the end of the data from a read that failed: that error is added here. */
static void run_scan(void *arg) {
    struct scan_job *job = arg;
    const struct meta_ops *ops = job->meta->ops;
    struct meta_cursor *cursor = NULL;
    job->err = ops->cursor_open(job->meta, job->space, (struct slice){0}, &cursor);
    if (job->err) return;
    job->err = job->fn(cursor, job->arg);
    int read_err = ops->cursor_close(&cursor);
    if (!job->err) job->err = read_err;
}

int meta_scan_blocking(struct meta *meta, enum meta_space space, meta_scan_fn *fn, void *arg) {
    assert(space < META_SPACES);
    count_one(&counters(meta)->scans);
    struct scan_job job = {.meta = meta, .space = space, .fn = fn, .arg = arg};
    run_scan(&job);
    return job.err;
}

int meta_scan_await(struct meta *meta, enum meta_space space, meta_scan_fn *fn, void *arg) {
    assert(fiber_self() && space < META_SPACES);
    count_one(&counters(meta)->scans);
    struct scan_job job = {.meta = meta, .space = space, .fn = fn, .arg = arg};
    worker_call_await(run_scan, &job);
    return job.err;
}

/* ---- life */

int meta_init(struct meta *meta, const struct meta_ops *ops, uint64_t cache_bytes) {
    meta->ops = ops;
    int err = record_cache_create(cache_bytes, &meta->cache);
    if (err) return err;
    err = committer_start(meta, &meta->committer);
    if (err) record_cache_destroy(&meta->cache);
    return err;
}

void meta_close(struct meta **pointer) {
    struct meta *meta = *pointer;
    if (!meta) return;
    *pointer = NULL;
    committer_stop(&meta->committer);
    record_cache_destroy(&meta->cache);
    meta->ops->close(meta);
}

void meta_stats(struct meta *meta, struct meta_stats *stats) {
    struct committer_stats commits;
    committer_stats(meta->committer, &commits);
    *stats = (struct meta_stats){.commits = commits.commits,
                                 .groups = commits.groups,
                                 .conflicts = commits.conflicts,
                                 .cache_bytes = record_cache_bytes(meta->cache)};
    for (unsigned i = 0; i < META_COUNTER_STRIPES; i++) {
        struct meta_counters *stripe = &meta->counters[i];
        stats->gets += atomic_load_explicit(&stripe->gets, memory_order_relaxed);
        stats->cache_hits += atomic_load_explicit(&stripe->cache_hits, memory_order_relaxed);
        stats->engine_gets += atomic_load_explicit(&stripe->engine_gets, memory_order_relaxed);
        stats->worker_gets += atomic_load_explicit(&stripe->worker_gets, memory_order_relaxed);
        stats->scans += atomic_load_explicit(&stripe->scans, memory_order_relaxed);
    }
}
