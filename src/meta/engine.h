/* What a metadata engine provides, private to meta/ and its engines.
 *
 * An engine stores bytes and knows nothing of guards, caches or fibers: those are written once,
 * above it, in meta.c and commit.c. Its functions may block, except a read from memory only. */
#ifndef PENSTOCK_META_ENGINE_H
#define PENSTOCK_META_ENGINE_H

#include <stdalign.h>

#include "meta/meta.h"

#define META_COUNTER_STRIPES 16

struct committer;
struct record_cache;

enum meta_read {
    META_READ_MEMORY, /* never waits for a drive: -EAGAIN when the answer is not in memory */
    META_READ_ANY,
};

struct meta_ops {
    /* The newest value, or ERR_NOT_FOUND. Any thread. */
    int (*get)(struct meta *meta, enum meta_space space, struct slice key, enum meta_read from,
               struct meta_value **value);
    /* Apply the operations of all batches, in order and as one. Only the committer thread calls.
     * ERR_STORAGE_FULL promises that nothing was applied and that the engine may be tried again;
     * any other error means that what is on the drive is unknown. */
    int (*write)(struct meta *meta, struct meta_batch *const *batches, size_t count, bool sync);

    /* A cursor over a snapshot of the space, not yet valid. A key >= end is never looked for when
     * end is not empty; end must outlive the cursor. Closing returns the first error that made the
     * cursor invalid, so that an end of data can be told from a failed read. */
    int (*cursor_open)(struct meta *meta, enum meta_space space, struct slice end,
                       struct meta_cursor **cursor);
    int (*cursor_close)(struct meta_cursor **cursor);
    void (*cursor_seek)(struct meta_cursor *cursor, struct slice key);
    void (*cursor_seek_before)(struct meta_cursor *cursor, struct slice key);
    bool (*cursor_valid)(const struct meta_cursor *cursor);
    void (*cursor_next)(struct meta_cursor *cursor);
    struct slice (*cursor_key)(const struct meta_cursor *cursor);
    struct slice (*cursor_value)(const struct meta_cursor *cursor);

    void (*close)(struct meta *meta); /* frees the engine's struct, the struct meta in it too */
};

/* The first member of an engine's cursor. */
struct meta_cursor {
    const struct meta_ops *ops;
};

/* Reads are counted by reactor, so that they do not share a cache line. */
struct meta_counters {
    alignas(64) atomic_ullong gets;
    atomic_ullong cache_hits, engine_gets, worker_gets, scans;
};

/* The first member of an engine's struct. */
struct meta {
    const struct meta_ops *ops;
    struct record_cache *cache;
    struct committer *committer;
    struct meta_counters counters[META_COUNTER_STRIPES];
};

/* Make the parts above the engine; the engine calls it last when it opens. On an error nothing is
 * left to undo, and the engine still closes itself. */
int meta_init(struct meta *meta, const struct meta_ops *ops, uint64_t cache_bytes);

/* The caller's first reference, or NULL. data is filled by the caller, once. */
struct meta_value *meta_value_create(size_t size);

/* Spaces whose records are worth keeping in memory: small, and read by nearly every request. */
static inline bool meta_space_is_cached(enum meta_space space) {
    return space == META_OBJECTS || space == META_BUCKETS || space == META_UPLOADS;
}

#endif
