/* The memory cache: blocks of object data, found by the data's id and position.
 *
 * Data under an id never changes (an overwrite gets a new id), so an entry can be stale only by
 * being unused. Entries hold references on pool blocks; the pool's reclaim function takes them
 * back. Admission and eviction are S3-FIFO (small queue, main queue, ghost), so one pass over a
 * large data set does not push out what is read again and again. Sharded by hash; a lookup holds
 * one shard's lock for a few dozen nanoseconds: one cache for all cores, because a cache for each
 * core would hold every hot object once a core. */
#ifndef PENSTOCK_MEM_CACHE_H
#define PENSTOCK_MEM_CACHE_H

#include <stdint.h>

#include "mem/pool.h"

struct cache;

struct cache_stats {
    uint64_t entries, bytes, hits, misses, inserts, evictions;
};

int cache_create(struct pool *pool, struct cache **cache); /* sets the pool's reclaim function */
void cache_destroy(struct cache **cache);                  /* drops every entry */

/* A new reference on the cached block, or NULL. */
struct block *cache_get(struct cache *cache, uint64_t data_id, uint32_t index);
/* Insert block (its own reference is taken; the caller keeps his). The block's bytes must never
 * change again. Inserting what is there already does nothing. */
void cache_put(struct cache *cache, uint64_t data_id, uint32_t index, struct block *block);
/* Forget entries 0..count-1 of data_id: it was deleted. */
void cache_drop(struct cache *cache, uint64_t data_id, uint32_t count);
void cache_stats(struct cache *cache, struct cache_stats *stats);

#endif
