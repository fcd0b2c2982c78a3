/* Hot records, in memory, bounded by bytes: sharded by key, evicted by CLOCK.
 *
 * The cache never answers with a value older than one that anybody has read. Two rules keep that:
 *  - Keys about to change are announced (begin) before the engine is written and settled (end)
 *    after it; in between the record that is there stays, but nothing is filled.
 *  - A reader that missed gets a ticket BEFORE it asks the engine, and may fill only if no change
 *    of that key was announced or settled since. Its value is then still the newest.
 * One thread writes (the committer); any thread reads and fills. */
#ifndef PENSTOCK_META_RECORD_CACHE_H
#define PENSTOCK_META_RECORD_CACHE_H

#include "meta/meta.h"

struct record_cache;

/* Made by a miss: what a later fill is checked against. */
struct record_ticket {
    uint64_t hash;
    uint32_t version;
    bool may_fill;
};

int record_cache_create(uint64_t bytes, struct record_cache **cache); /* 0 bytes keep nothing */
void record_cache_destroy(struct record_cache **cache);

/* True with a reference to the value, or false with a ticket. */
bool record_cache_get(struct record_cache *cache, enum meta_space space, struct slice key,
                      struct meta_value **value, struct record_ticket *ticket);
/* Keep what the engine answered after the miss, unless the key has changed since. */
void record_cache_fill(struct record_cache *cache, enum meta_space space, struct slice key,
                       struct meta_value *value, const struct record_ticket *ticket);

/* One begin and one end for each change; value NULL drops the record (deleted, or unknown). */
void record_cache_change_begin(struct record_cache *cache, enum meta_space space, struct slice key);
void record_cache_change_end(struct record_cache *cache, enum meta_space space, struct slice key,
                             struct meta_value *value);

uint64_t record_cache_bytes(struct record_cache *cache);

#endif
