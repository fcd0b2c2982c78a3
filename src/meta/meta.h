/* Metadata: an ordered key-value store with atomic, guarded batches. One interface, engines behind
 * it (RocksDB here; RADOS omap later), chosen by server/.
 *
 * Reads see every acknowledged commit. A commit is atomic, and durable when it returns if asked to
 * be. Many fibers committing at once share one synced write (group commit by one committer
 * thread). Values are immutable and reference-counted: the record cache hands out references, so a
 * hot record costs no copy and never enters the engine. */
#ifndef PENSTOCK_META_META_H
#define PENSTOCK_META_META_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/slice.h"

/* Key spaces, each ordered by bytes. Their contents are described in docs/format.md. */
enum meta_space {
    META_SYSTEM,   /* format version, store id, id counter, volumes */
    META_BUCKETS,  /* bucket name -> bucket record */
    META_OBJECTS,  /* bucket id, object key -> object record */
    META_UPLOADS,  /* bucket id, object key, upload id -> upload record */
    META_PARTS,    /* upload id, part number -> part record */
    META_SEGMENTS, /* data id, offset -> where the bytes are and their checksums */
    META_INLINE,   /* data id -> bytes of a small object */
    META_SPACES
};

struct meta;

struct meta_value {
    atomic_uint refs;
    uint32_t size;
    uint8_t data[]; /* immutable */
};
void meta_value_unref(struct meta_value **value); /* nulls; NULL is fine */
void meta_value_ref(struct meta_value *value);
static inline struct slice meta_value_slice(const struct meta_value *value) {
    return (struct slice){(const char *)value->data, value->size};
}

#define META_KEY_MAX   (8 + 1024 + 64)
#define META_VALUE_MAX (16u * 1024 * 1024)

/* The value of key, or ERR_NOT_FOUND. Answers on the spot from the record cache or the engine's
 * memory, else on a worker thread. */
int meta_get_await(struct meta *meta, enum meta_space space, struct slice key,
                   struct meta_value **value);

/* ---- commits */
enum meta_durability {
    META_DURABLE, /* survives power loss when commit returns */
    META_CRASH,   /* survives the death of the process, not of the machine */
};

/* A batch copies what it is given. Operations apply in order; guards are all checked first, against
 * the state the commit applies to. Not thread-safe. */
struct meta_batch;
int meta_batch_create(struct meta_batch **batch);
void meta_batch_destroy(struct meta_batch **batch);
/* Allocation failure is remembered and reported by the commit. */
void meta_batch_put(struct meta_batch *batch, enum meta_space space, struct slice key,
                    struct slice value);
void meta_batch_delete(struct meta_batch *batch, enum meta_space space, struct slice key);
void meta_batch_guard_absent(struct meta_batch *batch, enum meta_space space, struct slice key);
void meta_batch_guard_present(struct meta_batch *batch, enum meta_space space, struct slice key);
void meta_batch_guard_equals(struct meta_batch *batch, enum meta_space space, struct slice key,
                             struct slice value);
/* No key in [start, end) exists. */
void meta_batch_guard_empty(struct meta_batch *batch, enum meta_space space, struct slice start,
                            struct slice end);

/* Apply all of the batch or nothing. ERR_CONFLICT when a guard does not hold; ERR_STORAGE_FULL when
 * the drive has no room (the store takes commits again once it has); -EIO and the like from the
 * engine (after a failed sync the store refuses further commits with -EIO: it cannot know
 * what is on the drive). Shielded from cancellation once submitted. */
int meta_commit_await(struct meta *meta, struct meta_batch *batch, enum meta_durability durability);

/* ---- scans: fn runs on a worker thread with a cursor over a consistent snapshot of one space. */
struct meta_cursor;
void meta_cursor_seek(struct meta_cursor *cursor, struct slice key);        /* first key >= key */
void meta_cursor_seek_before(struct meta_cursor *cursor, struct slice key); /* last key <= key */
bool meta_cursor_valid(const struct meta_cursor *cursor);
void meta_cursor_next(struct meta_cursor *cursor);
struct slice meta_cursor_key(const struct meta_cursor *cursor);   /* valid until it moves */
struct slice meta_cursor_value(const struct meta_cursor *cursor); /* likewise */
typedef int meta_scan_fn(struct meta_cursor *cursor, void *arg);  /* 0 or an error, passed on */
int meta_scan_await(struct meta *meta, enum meta_space space, meta_scan_fn *fn, void *arg);

struct meta_stats {
    uint64_t commits, groups, conflicts, gets, cache_hits, engine_gets, worker_gets, scans;
    uint64_t cache_bytes;
};
void meta_stats(struct meta *meta, struct meta_stats *stats);
void meta_close(struct meta **meta); /* from outside the reactors, after they stopped using it */

/* ---- engines: a table of functions, private to meta/ and its engines; server/ opens one. */
/* RocksDB in `directory` (made when missing). cache_bytes bounds the record cache; the engine's own
 * block cache takes as much again. Blocks: call at start, from outside the reactors. -EBUSY when it
 * is open already, ERR_UNSUPPORTED_FORMAT when a newer version made it, ERR_STORE_CORRUPT. */
int meta_rocksdb_open(const char *directory, uint64_t cache_bytes, struct meta **meta);
/* A scan without reactors, for fsck and tests: fn runs on the calling thread. */
int meta_scan_blocking(struct meta *meta, enum meta_space space, meta_scan_fn *fn, void *arg);
int meta_commit_blocking(struct meta *meta, struct meta_batch *batch);

#endif
