/* The memory cache: S3-FIFO over pool blocks, in shards with a lock each.
 *
 * Every shard has a small and a main queue for each block class, because the pool asks for blocks
 * of one class back; the cache has no size of its own, it holds whatever the pool does not need.
 * The ghost remembers fingerprints of what left the small queue unused. Entries, buckets and ghost
 * slots are allocated once, sized by the pool's blocks. */
#include "mem/cache.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SHARDS_MAX        64u
#define SHARD_MIN_ENTRIES 256u /* smaller shards would make the queues meaningless */
#define NONE              UINT32_MAX
#define FREQUENCY_MAX     3u /* S3-FIFO's two bits */
#define GHOST_WAYS        4u
#define DROP_BATCH        64u /* references released outside the lock at a time */

enum queue_kind { QUEUE_SMALL, QUEUE_MAIN, QUEUES };

struct entry {
    uint64_t data_id;
    struct block *block; /* the cache's reference */
    uint32_t index;
    uint32_t chain; /* next entry of the bucket, or of the free list */
    uint32_t newer, older;
    uint8_t class, queue, frequency;
};

struct queue {
    uint32_t newest, oldest, count;
};

/* A fingerprint is remembered until `capacity` others came after it. */
struct ghost {
    struct ghost_slot {
        uint32_t fingerprint, sequence; /* sequence 0: empty */
    } * slots;
    uint32_t bucket_mask, sequence, capacity;
};

struct shard {
    pthread_mutex_t lock;
    struct entry *entries;
    uint32_t *buckets;
    uint32_t bucket_mask, capacity, fresh, free;
    struct queue queues[BLOCK_CLASSES][QUEUES];
    struct ghost ghost;
    struct cache_stats stats;
} __attribute__((aligned(64)));

struct cache {
    struct pool *pool;
    unsigned shard_count; /* a power of two */
    atomic_uint hand;     /* the shard that reclaiming starts at */
    struct shard shards[];
};

/* ---- hashing: the top bits choose the shard, the low ones the bucket */

static uint64_t hash_of(uint64_t data_id, uint32_t index) {
    uint64_t h = data_id * 0x9e3779b97f4a7c15ull + index;
    h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
    h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
    return h ^ (h >> 31);
}

static struct shard *shard_of(struct cache *cache, uint64_t hash) {
    return &cache->shards[(hash >> 56) & (cache->shard_count - 1)];
}

static uint32_t *bucket_of(struct shard *s, uint64_t hash) {
    return &s->buckets[(uint32_t)hash & s->bucket_mask];
}

static uint32_t round_up_to_power(uint64_t n) {
    uint32_t power = 1;
    while (power < n) power *= 2;
    return power;
}

/* ---- the ghost */

static struct ghost_slot *ghost_bucket(struct ghost *g, uint64_t hash) {
    return &g->slots[((uint32_t)(hash >> 8) & g->bucket_mask) * GHOST_WAYS];
}

static uint32_t ghost_fingerprint(uint64_t hash) {
    return (uint32_t)(hash >> 24);
}

static void ghost_add(struct ghost *g, uint64_t hash) {
    struct ghost_slot *bucket = ghost_bucket(g, hash), *victim = bucket;
    if (++g->sequence == 0) g->sequence = 1;
    for (unsigned i = 0; i < GHOST_WAYS; i++) {
        if (bucket[i].sequence == 0) {
            victim = &bucket[i];
            break;
        }
        if (g->sequence - bucket[i].sequence > g->sequence - victim->sequence) victim = &bucket[i];
    }
    *victim = (struct ghost_slot){ghost_fingerprint(hash), g->sequence};
}

/* Found means forgotten: the key goes to the main queue now. */
static bool ghost_take(struct ghost *g, uint64_t hash) {
    struct ghost_slot *bucket = ghost_bucket(g, hash);
    for (unsigned i = 0; i < GHOST_WAYS; i++) {
        if (bucket[i].sequence == 0 || bucket[i].fingerprint != ghost_fingerprint(hash)) continue;
        bool remembered = g->sequence - bucket[i].sequence < g->capacity;
        bucket[i].sequence = 0;
        return remembered;
    }
    return false;
}

/* ---- queues */

static void queue_push(struct shard *s, uint32_t at, enum queue_kind kind) {
    struct entry *e = &s->entries[at];
    struct queue *q = &s->queues[e->class][kind];
    e->queue = (uint8_t)kind;
    e->newer = NONE;
    e->older = q->newest;
    *(q->newest == NONE ? &q->oldest : &s->entries[q->newest].newer) = at;
    q->newest = at;
    q->count++;
}

static void queue_remove(struct shard *s, uint32_t at) {
    struct entry *e = &s->entries[at];
    struct queue *q = &s->queues[e->class][e->queue];
    *(e->newer == NONE ? &q->newest : &s->entries[e->newer].older) = e->older;
    *(e->older == NONE ? &q->oldest : &s->entries[e->older].newer) = e->newer;
    q->count--;
}

/* ---- entries of a shard; the shard's lock is held */

static uint32_t shard_find(struct shard *s, uint64_t hash, uint64_t data_id, uint32_t index) {
    uint32_t at = *bucket_of(s, hash);
    while (at != NONE && (s->entries[at].data_id != data_id || s->entries[at].index != index))
        at = s->entries[at].chain;
    return at;
}

/* Take the entry out of everything; the caller owns its reference then. */
static struct block *shard_remove(struct shard *s, uint64_t hash, uint32_t at) {
    struct entry *e = &s->entries[at];
    uint32_t *link = bucket_of(s, hash);
    while (*link != at) link = &s->entries[*link].chain;
    *link = e->chain;
    queue_remove(s, at);
    struct block *block = e->block;
    s->stats.entries--;
    s->stats.bytes -= block->capacity;
    e->block = NULL;
    e->chain = s->free;
    s->free = at;
    return block;
}

static struct block *shard_evict_at(struct shard *s, uint32_t at) {
    struct entry *e = &s->entries[at];
    uint64_t hash = hash_of(e->data_id, e->index);
    if (e->queue == QUEUE_SMALL) ghost_add(&s->ghost, hash);
    s->stats.evictions++;
    return shard_remove(s, hash, at);
}

/* S3-FIFO's choice: from the small queue while it has more than a tenth of the entries, else from
 * the main one; what was read again is moved on or given another round. Ends, because each step
 * lowers a frequency or moves an entry to the main queue. */
static struct block *shard_evict(struct shard *s, enum block_class class) {
    struct queue *small = &s->queues[class][QUEUE_SMALL], *main = &s->queues[class][QUEUE_MAIN];
    while (small->count + main->count > 0) {
        bool from_small = small->count * 10 > small->count + main->count || main->count == 0;
        uint32_t at = from_small ? small->oldest : main->oldest;
        struct entry *e = &s->entries[at];
        bool spared = from_small ? e->frequency > 1 : e->frequency > 0;
        if (!spared) return shard_evict_at(s, at);
        e->frequency = from_small ? 0 : (uint8_t)(e->frequency - 1);
        queue_remove(s, at);
        queue_push(s, at, QUEUE_MAIN);
    }
    return NULL;
}

static uint32_t shard_new_entry(struct shard *s) {
    uint32_t at = s->free;
    if (at != NONE)
        s->free = s->entries[at].chain;
    else if (s->fresh < s->capacity)
        at = s->fresh++;
    return at;
}

static void shard_insert(struct shard *s, uint64_t hash, uint32_t at, struct block *block) {
    struct entry *e = &s->entries[at];
    e->block = block;
    e->class = block->class;
    e->frequency = 0;
    uint32_t *bucket = bucket_of(s, hash);
    e->chain = *bucket;
    *bucket = at;
    queue_push(s, at, ghost_take(&s->ghost, hash) ? QUEUE_MAIN : QUEUE_SMALL);
    s->stats.inserts++;
    s->stats.entries++;
    s->stats.bytes += block->capacity;
}

/* ---- reclaiming */

/* One from each shard in turn, so that all shards age alike. */
static unsigned cache_reclaim(void *ctx, enum block_class class, unsigned count) {
    struct cache *cache = ctx;
    unsigned dropped = 0, barren = 0;
    while (dropped < count && barren < cache->shard_count) {
        unsigned at = atomic_fetch_add_explicit(&cache->hand, 1, memory_order_relaxed);
        struct shard *s = &cache->shards[at & (cache->shard_count - 1)];
        pthread_mutex_lock(&s->lock);
        struct block *block = shard_evict(s, class);
        pthread_mutex_unlock(&s->lock);
        barren = block ? 0 : barren + 1;
        dropped += block != NULL;
        block_unref(&block);
    }
    return dropped;
}

/* ---- creation */

static int shard_init(struct shard *s, uint64_t entries) {
    pthread_mutex_init(&s->lock, NULL);
    s->capacity = (uint32_t)entries;
    s->free = NONE;
    s->bucket_mask = round_up_to_power(entries) - 1;
    s->ghost.capacity = (uint32_t)entries;
    s->ghost.bucket_mask = round_up_to_power(entries / 2) - 1; /* half full at its capacity */
    s->entries = calloc(entries, sizeof *s->entries);
    s->buckets = malloc((s->bucket_mask + 1ull) * sizeof *s->buckets);
    s->ghost.slots = calloc((s->ghost.bucket_mask + 1ull) * GHOST_WAYS, sizeof *s->ghost.slots);
    if (!s->entries || !s->buckets || !s->ghost.slots) return -ENOMEM;
    for (uint32_t i = 0; i <= s->bucket_mask; i++) s->buckets[i] = NONE;
    for (unsigned c = 0; c < BLOCK_CLASSES; c++) {
        for (unsigned q = 0; q < QUEUES; q++) s->queues[c][q] = (struct queue){NONE, NONE, 0};
    }
    return 0;
}

static void shard_deinit(struct shard *s) {
    for (uint32_t i = 0; i < s->fresh; i++) block_unref(&s->entries[i].block);
    free(s->entries);
    free(s->buckets);
    free(s->ghost.slots);
    pthread_mutex_destroy(&s->lock);
}

int cache_create(struct pool *pool, struct cache **out) {
    struct pool_stats sizes;
    pool_stats(pool, &sizes);
    uint64_t blocks = 0;
    for (unsigned i = 0; i < BLOCK_CLASSES; i++) blocks += sizes.blocks_total[i];
    unsigned shards = 1;
    while (shards < SHARDS_MAX && blocks / (shards * 2) >= SHARD_MIN_ENTRIES) shards *= 2;
    /* Hashing fills shards unevenly; a full shard evicts its own. */
    uint64_t entries = blocks / shards + blocks / shards / 4 + 16;
    assert(entries < NONE / 2);

    size_t size = sizeof(struct cache) + shards * sizeof(struct shard);
    struct cache *cache = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!cache) return -ENOMEM;
    memset(cache, 0, size);
    cache->pool = pool;
    cache->shard_count = shards;
    int err = 0;
    for (unsigned i = 0; i < shards && !err; i++) err = shard_init(&cache->shards[i], entries);
    if (err) {
        cache_destroy(&cache);
        return err;
    }
    pool_set_reclaim(pool, cache_reclaim, cache);
    *out = cache;
    return 0;
}

void cache_destroy(struct cache **cache) {
    if (!*cache) return;
    pool_set_reclaim((*cache)->pool, NULL, NULL);
    for (unsigned i = 0; i < (*cache)->shard_count; i++) shard_deinit(&(*cache)->shards[i]);
    free(*cache);
    *cache = NULL;
}

/* ---- use */

struct block *cache_get(struct cache *cache, uint64_t data_id, uint32_t index) {
    uint64_t hash = hash_of(data_id, index);
    struct shard *s = shard_of(cache, hash);
    struct block *block = NULL;
    pthread_mutex_lock(&s->lock);
    uint32_t at = shard_find(s, hash, data_id, index);
    if (at == NONE) {
        s->stats.misses++;
    } else {
        struct entry *e = &s->entries[at];
        if (e->frequency < FREQUENCY_MAX) e->frequency++;
        s->stats.hits++;
        block = e->block;
        block_ref(block);
    }
    pthread_mutex_unlock(&s->lock);
    return block;
}

static void cache_forget(struct cache *cache, uint64_t data_id, uint32_t index) {
    uint64_t hash = hash_of(data_id, index);
    struct shard *s = shard_of(cache, hash);
    pthread_mutex_lock(&s->lock);
    uint32_t at = shard_find(s, hash, data_id, index);
    struct block *block = at == NONE ? NULL : shard_remove(s, hash, at);
    pthread_mutex_unlock(&s->lock);
    block_unref(&block);
}

void cache_put(struct cache *cache, uint64_t data_id, uint32_t index, struct block *block) {
    enum block_class class = block->class;
    if (pool_is_waited_for(cache->pool, class)) return;
    uint64_t hash = hash_of(data_id, index);
    struct shard *s = shard_of(cache, hash);
    struct block *evicted = NULL;
    pthread_mutex_lock(&s->lock);
    if (shard_find(s, hash, data_id, index) == NONE) {
        uint32_t at = shard_new_entry(s);
        for (unsigned i = 0; at == NONE && i < BLOCK_CLASSES; i++) {
            evicted = shard_evict(s, (class + i) % BLOCK_CLASSES);
            if (evicted) at = shard_new_entry(s);
        }
        assert(at != NONE);
        s->entries[at].data_id = data_id;
        s->entries[at].index = index;
        block_ref(block);
        shard_insert(s, hash, at, block);
    }
    pthread_mutex_unlock(&s->lock);
    block_unref(&evicted);
    /* A fiber that began to wait meanwhile may have asked before the entry was there (pool.c asks
     * once more after it can be seen): one of the two notices. */
    if (pool_is_waited_for(cache->pool, class)) cache_forget(cache, data_id, index);
}

/* Forget by looking at every entry of a shard: for data of more blocks than the cache can hold. */
static void shard_sweep(struct shard *s, uint64_t data_id, uint32_t count) {
    struct block *batch[DROP_BATCH];
    uint32_t at = 0;
    bool more = true;
    while (more) {
        unsigned found = 0;
        pthread_mutex_lock(&s->lock);
        for (; at < s->fresh && found < DROP_BATCH; at++) {
            struct entry *e = &s->entries[at];
            if (e->block && e->data_id == data_id && e->index < count)
                batch[found++] = shard_remove(s, hash_of(data_id, e->index), at);
        }
        more = at < s->fresh;
        pthread_mutex_unlock(&s->lock);
        while (found) block_unref(&batch[--found]);
    }
}

void cache_drop(struct cache *cache, uint64_t data_id, uint32_t count) {
    uint64_t capacity = (uint64_t)cache->shards[0].capacity * cache->shard_count;
    if (count > capacity) {
        for (unsigned i = 0; i < cache->shard_count; i++)
            shard_sweep(&cache->shards[i], data_id, count);
        return;
    }
    for (uint32_t i = 0; i < count; i++) cache_forget(cache, data_id, i);
}

void cache_stats(struct cache *cache, struct cache_stats *stats) {
    *stats = (struct cache_stats){0};
    for (unsigned i = 0; i < cache->shard_count; i++) {
        struct shard *s = &cache->shards[i];
        pthread_mutex_lock(&s->lock);
        stats->entries += s->stats.entries;
        stats->bytes += s->stats.bytes;
        stats->hits += s->stats.hits;
        stats->misses += s->stats.misses;
        stats->inserts += s->stats.inserts;
        stats->evictions += s->stats.evictions;
        pthread_mutex_unlock(&s->lock);
    }
}
