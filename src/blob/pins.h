/* Pins and deletions: a blob that is being read keeps its space, whatever happens to its records.
 *
 * A deletion is known here from the moment it is prepared, with everything needed to find the bytes
 * (the segments, or the small blob itself). So a reader that looks for records the commit has just
 * removed finds them here: it holds a pin, and the deletion stays until the last pin is gone. */
#ifndef PENSTOCK_BLOB_PINS_H
#define PENSTOCK_BLOB_PINS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "blob/segment.h"

#define PIN_SHARDS  64u
#define PIN_BUCKETS 64u /* in each shard */

struct blob_unlink {
    struct blob_store *store;
    uint64_t id, size;
    struct segment *segments;
    unsigned count;
    struct meta_value *inline_value; /* a small blob's record, or */
    struct block *inline_block;      /* its cached block */
    bool released;                   /* the commit is durable */
    struct blob_unlink *next;
};

struct pin; /* one id that is pinned or being deleted */

struct pins {
    struct pin_shard {
        pthread_mutex_t lock;
        struct pin *buckets[PIN_BUCKETS];
    } shards[PIN_SHARDS];
};

void pins_init(struct pins *pins);
/* Frees what is left, without giving space back: for the end of the store. */
void pins_deinit(struct pins *pins);

/* Free what a deletion remembers; it must not be registered any more. */
void pins_free_unlink(struct blob_unlink *unlink);

void pins_add(struct pins *pins, uint64_t id);
/* Returns the released deletions of id when this was its last pin: the caller's to carry out. */
struct blob_unlink *pins_remove(struct pins *pins, uint64_t id);

void pins_register(struct pins *pins, struct blob_unlink *unlink);
/* The commit did not happen: forget the deletion; it is the caller's again. */
void pins_discard(struct pins *pins, struct blob_unlink *unlink);
/* The commit is durable. True: nobody reads, the deletion is the caller's to carry out now. */
bool pins_release(struct pins *pins, struct blob_unlink *unlink);

/* What a deletion of id remembers; false when there is none. Segments: at most max from the one
 * that covers blob_offset on, copied into an array of the caller's (NULL when memory is short). */
bool pins_find_segments(struct pins *pins, uint64_t id, uint64_t blob_offset, unsigned max,
                        struct segment **segments, unsigned *count);
/* A new reference to one of the two. */
bool pins_find_inline(struct pins *pins, uint64_t id, struct meta_value **value,
                      struct block **block);

#endif
