/* The record cache: 2^n shards, each a chained hash table, a CLOCK ring and a small table of
 * versions that decides which fills are still true. A shard's lock is held for a few dozen
 * nanoseconds: nothing is allocated, freed or copied under it. */
#include "meta/record_cache.h"

#include <assert.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/error.h"
#include "meta/key_hash.h"

#define SHARDS_MAX       64u
#define SHARD_BYTES_MIN  (256u * 1024)
#define VERSIONS         64u /* a shard's; keys that share one only refuse a fill now and then */
#define BUCKETS_MIN      64u
#define BYTES_PER_BUCKET 512u
#define BUCKETS_MAX      (1u << 20)
#define RECORD_OVERHEAD  (sizeof(struct record) + sizeof(struct meta_value) + 32) /* malloc's */
#define RECORD_SHARE_MAX 8 /* one record takes at most this part of a shard */

struct record {
    struct record *chain;       /* the next in its bucket */
    struct record *next, *prev; /* the CLOCK ring */
    struct meta_value *value;
    uint64_t hash;
    uint32_t charge;
    uint16_t key_size;
    uint8_t space;
    bool hot; /* read since the hand last passed */
    char key[];
};

/* `pending` changes are between begin and end; `version` counts those that ended. */
struct version {
    uint32_t version, pending;
};

struct shard {
    alignas(64) pthread_mutex_t lock;
    struct record **buckets;
    struct record *hand; /* NULL when empty; new records stand just behind it */
    uint64_t bytes;
    struct version versions[VERSIONS];
};

struct record_cache {
    uint64_t seed[2];
    uint64_t shard_bytes;
    unsigned shard_count;
    uint32_t bucket_count; /* of each shard; fixed, sized for the bound */
    struct shard shards[];
};

static struct shard *shard_of(struct record_cache *cache, uint64_t hash) {
    return &cache->shards[hash & (cache->shard_count - 1)];
}

static struct version *version_of(struct shard *shard, uint64_t hash) {
    return &shard->versions[(hash >> 8) & (VERSIONS - 1)];
}

static struct record **bucket_of(const struct record_cache *cache, struct shard *shard,
                                 uint64_t hash) {
    return &shard->buckets[(hash >> 24) & (cache->bucket_count - 1)];
}

static void free_record(struct record *record) {
    if (!record) return;
    meta_value_unref(&record->value);
    free(record);
}

static void free_records(struct record *list) {
    while (list) {
        struct record *next = list->chain;
        free_record(list);
        list = next;
    }
}

/* ---- life */

static uint64_t shard_count_for(uint64_t bytes) {
    uint64_t count = 1;
    while (count < SHARDS_MAX && bytes / (count * 2) >= SHARD_BYTES_MIN) count *= 2;
    return count;
}

static uint32_t bucket_count_for(uint64_t shard_bytes) {
    uint32_t count = BUCKETS_MIN;
    while (count < BUCKETS_MAX && (uint64_t)count * BYTES_PER_BUCKET < shard_bytes) count *= 2;
    return count;
}

int record_cache_create(uint64_t bytes, struct record_cache **out) {
    uint64_t count = shard_count_for(bytes);
    size_t size = sizeof(struct record_cache) + count * sizeof(struct shard);
    struct record_cache *cache = aligned_alloc(alignof(struct shard), (size + 63) / 64 * 64);
    if (!cache) return -ENOMEM;
    memset(cache, 0, size);
    random_bytes(cache->seed, sizeof(cache->seed));
    cache->shard_bytes = bytes / count;
    cache->bucket_count = bucket_count_for(cache->shard_bytes);
    for (; cache->shard_count < count; cache->shard_count++) {
        struct shard *shard = &cache->shards[cache->shard_count];
        shard->buckets = calloc(cache->bucket_count, sizeof(*shard->buckets));
        if (!shard->buckets) {
            record_cache_destroy(&cache);
            return -ENOMEM;
        }
        pthread_mutex_init(&shard->lock, NULL);
    }
    *out = cache;
    return 0;
}

void record_cache_destroy(struct record_cache **pointer) {
    struct record_cache *cache = *pointer;
    if (!cache) return;
    *pointer = NULL;
    for (unsigned i = 0; i < cache->shard_count; i++) {
        struct shard *shard = &cache->shards[i];
        for (uint32_t b = 0; b < cache->bucket_count; b++) free_records(shard->buckets[b]);
        free(shard->buckets);
        pthread_mutex_destroy(&shard->lock);
    }
    free(cache);
}

uint64_t record_cache_bytes(struct record_cache *cache) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < cache->shard_count; i++) {
        struct shard *shard = &cache->shards[i];
        pthread_mutex_lock(&shard->lock);
        bytes += shard->bytes;
        pthread_mutex_unlock(&shard->lock);
    }
    return bytes;
}

/* ---- table and ring, under the shard's lock */

/* Where the pointer to the record stands in its chain; it points to NULL when there is none. */
static struct record **find(const struct record_cache *cache, struct shard *shard, uint64_t hash,
                            enum meta_space space, struct slice key) {
    struct record **at = bucket_of(cache, shard, hash);
    for (; *at; at = &(*at)->chain) {
        struct record *record = *at;
        if (record->hash == hash && record->space == space &&
            slice_equal((struct slice){record->key, record->key_size}, key)) {
            break;
        }
    }
    return at;
}

static void ring_insert(struct shard *shard, struct record *record) {
    struct record *hand = shard->hand;
    if (!hand) {
        record->next = record->prev = record;
        shard->hand = record;
        return;
    }
    record->next = hand;
    record->prev = hand->prev;
    hand->prev->next = record;
    hand->prev = record;
}

/* Take the record that *at points to out of the shard, onto the list of what is freed later. */
static void unlink_record(struct shard *shard, struct record **at, struct record **dropped) {
    struct record *record = *at;
    *at = record->chain;
    if (record->next == record) {
        shard->hand = NULL;
    } else {
        record->prev->next = record->next;
        record->next->prev = record->prev;
        if (shard->hand == record) shard->hand = record->next;
    }
    assert(shard->bytes >= record->charge);
    shard->bytes -= record->charge;
    record->chain = *dropped;
    *dropped = record;
}

static void evict(const struct record_cache *cache, struct shard *shard, struct record **dropped) {
    while (shard->bytes > cache->shard_bytes) {
        struct record *record = shard->hand;
        assert(record);
        if (record->hot) {
            record->hot = false;
            shard->hand = record->next;
            continue;
        }
        struct record **at = bucket_of(cache, shard, record->hash);
        while (*at != record) at = &(*at)->chain;
        unlink_record(shard, at, dropped);
    }
}

static void insert(const struct record_cache *cache, struct shard *shard, struct record *record,
                   struct record **dropped) {
    struct record **bucket = bucket_of(cache, shard, record->hash);
    record->chain = *bucket;
    *bucket = record;
    ring_insert(shard, record);
    shard->bytes += record->charge;
    evict(cache, shard, dropped);
}

/* ---- reading */

bool record_cache_get(struct record_cache *cache, enum meta_space space, struct slice key,
                      struct meta_value **value, struct record_ticket *ticket) {
    uint64_t hash = key_hash(cache->seed, space, key);
    struct shard *shard = shard_of(cache, hash);
    pthread_mutex_lock(&shard->lock);
    struct record *record = *find(cache, shard, hash, space, key);
    if (record) {
        record->hot = true;
        meta_value_ref(record->value);
        *value = record->value;
    } else {
        const struct version *version = version_of(shard, hash);
        *ticket = (struct record_ticket){hash, version->version, version->pending == 0};
    }
    pthread_mutex_unlock(&shard->lock);
    return record != NULL;
}

/* A record that holds a reference to value, or NULL: too big for a shard, or no memory. Doing
 * without a cached record is always right. */
static struct record *make_record(const struct record_cache *cache, uint64_t hash,
                                  enum meta_space space, struct slice key,
                                  struct meta_value *value) {
    uint64_t charge = RECORD_OVERHEAD + key.size + value->size;
    if (charge > cache->shard_bytes / RECORD_SHARE_MAX) return NULL;
    assert(key.size <= META_KEY_MAX && space < META_SPACES);
    struct record *record = malloc(sizeof(*record) + key.size);
    if (!record) return NULL;
    *record = (struct record){.value = value,
                              .hash = hash,
                              .charge = (uint32_t)charge,
                              .key_size = (uint16_t)key.size,
                              .space = (uint8_t)space};
    if (key.size) memcpy(record->key, key.data, key.size);
    meta_value_ref(value);
    return record;
}

void record_cache_fill(struct record_cache *cache, enum meta_space space, struct slice key,
                       struct meta_value *value, const struct record_ticket *ticket) {
    if (!ticket->may_fill) return;
    struct record *record = make_record(cache, ticket->hash, space, key, value);
    if (!record) return;
    struct record *dropped = NULL;
    struct shard *shard = shard_of(cache, ticket->hash);
    pthread_mutex_lock(&shard->lock);
    const struct version *version = version_of(shard, ticket->hash);
    bool valid = version->pending == 0 && version->version == ticket->version;
    /* Another reader may have filled the same value meanwhile. */
    if (valid && !*find(cache, shard, ticket->hash, space, key)) {
        insert(cache, shard, record, &dropped);
        record = NULL;
    }
    pthread_mutex_unlock(&shard->lock);
    free_record(record);
    free_records(dropped);
}

/* ---- changes */

void record_cache_change_begin(struct record_cache *cache, enum meta_space space,
                               struct slice key) {
    uint64_t hash = key_hash(cache->seed, space, key);
    struct shard *shard = shard_of(cache, hash);
    pthread_mutex_lock(&shard->lock);
    version_of(shard, hash)->pending++;
    pthread_mutex_unlock(&shard->lock);
}

void record_cache_change_end(struct record_cache *cache, enum meta_space space, struct slice key,
                             struct meta_value *value) {
    uint64_t hash = key_hash(cache->seed, space, key);
    struct record *record = value ? make_record(cache, hash, space, key, value) : NULL;
    struct record *dropped = NULL;
    struct shard *shard = shard_of(cache, hash);
    pthread_mutex_lock(&shard->lock);
    struct version *version = version_of(shard, hash);
    assert(version->pending > 0);
    version->pending--;
    version->version++;
    struct record **old = find(cache, shard, hash, space, key);
    if (*old) {
        if (record) record->hot = (*old)->hot;
        unlink_record(shard, old, &dropped);
    }
    if (record) insert(cache, shard, record, &dropped);
    pthread_mutex_unlock(&shard->lock);
    free_records(dropped);
}
