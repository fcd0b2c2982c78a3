/* A sharded hash table of the ids that are pinned or being deleted. */
#include "blob/pins.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

struct pin {
    uint64_t id;
    unsigned count;              /* readers */
    struct blob_unlink *unlinks; /* prepared or released; several deleters may race for one id */
    struct pin *next;
};

/* Ids are consecutive numbers: neighbours go to different shards. */
static struct pin_shard *shard_of(struct pins *pins, uint64_t id) {
    return &pins->shards[id % PIN_SHARDS];
}

static struct pin **find(struct pin_shard *shard, uint64_t id) {
    struct pin **at = &shard->buckets[id / PIN_SHARDS % PIN_BUCKETS];
    while (*at && (*at)->id != id) at = &(*at)->next;
    return at;
}

static struct pin *find_or_add(struct pin_shard *shard, uint64_t id) {
    struct pin **at = find(shard, id);
    if (!*at) {
        *at = calloc(1, sizeof(struct pin));
        if (!*at) {
            /* A pin that is not counted would let live bytes be overwritten. */
            log_error("out of memory for a pin");
            abort();
        }
        (*at)->id = id;
    }
    return *at;
}

static void remove_when_unused(struct pin **at) {
    struct pin *pin = *at;
    if (pin->count || pin->unlinks) return;
    *at = pin->next;
    free(pin);
}

void pins_init(struct pins *pins) {
    memset(pins, 0, sizeof(*pins));
    for (unsigned i = 0; i < PIN_SHARDS; i++) pthread_mutex_init(&pins->shards[i].lock, NULL);
}

void pins_free_unlink(struct blob_unlink *unlink) {
    free(unlink->segments);
    meta_value_unref(&unlink->inline_value);
    block_unref(&unlink->inline_block);
    free(unlink);
}

static void free_pin(struct pin *pin) {
    while (pin->unlinks) {
        struct blob_unlink *unlink = pin->unlinks;
        pin->unlinks = unlink->next;
        pins_free_unlink(unlink);
    }
    free(pin);
}

void pins_deinit(struct pins *pins) {
    for (unsigned i = 0; i < PIN_SHARDS * PIN_BUCKETS; i++) {
        struct pin **bucket = &pins->shards[i / PIN_BUCKETS].buckets[i % PIN_BUCKETS];
        while (*bucket) {
            struct pin *pin = *bucket;
            *bucket = pin->next;
            free_pin(pin);
        }
    }
    for (unsigned i = 0; i < PIN_SHARDS; i++) pthread_mutex_destroy(&pins->shards[i].lock);
}

void pins_add(struct pins *pins, uint64_t id) {
    struct pin_shard *shard = shard_of(pins, id);
    pthread_mutex_lock(&shard->lock);
    find_or_add(shard, id)->count++;
    pthread_mutex_unlock(&shard->lock);
}

static struct blob_unlink *detach_released(struct pin *pin) {
    struct blob_unlink *released = NULL;
    struct blob_unlink **at = &pin->unlinks;
    while (*at) {
        struct blob_unlink *unlink = *at;
        if (unlink->released) {
            *at = unlink->next;
            unlink->next = released;
            released = unlink;
        } else {
            at = &unlink->next;
        }
    }
    return released;
}

struct blob_unlink *pins_remove(struct pins *pins, uint64_t id) {
    struct pin_shard *shard = shard_of(pins, id);
    struct blob_unlink *released = NULL;
    pthread_mutex_lock(&shard->lock);
    struct pin **at = find(shard, id);
    assert(*at && (*at)->count > 0);
    if (--(*at)->count == 0) released = detach_released(*at);
    remove_when_unused(at);
    pthread_mutex_unlock(&shard->lock);
    return released;
}

void pins_register(struct pins *pins, struct blob_unlink *unlink) {
    struct pin_shard *shard = shard_of(pins, unlink->id);
    pthread_mutex_lock(&shard->lock);
    struct pin *pin = find_or_add(shard, unlink->id);
    unlink->next = pin->unlinks;
    pin->unlinks = unlink;
    pthread_mutex_unlock(&shard->lock);
}

static void detach(struct pin_shard *shard, struct blob_unlink *unlink) {
    struct pin **pin = find(shard, unlink->id);
    struct blob_unlink **at = &(*pin)->unlinks;
    while (*at != unlink) at = &(*at)->next;
    *at = unlink->next;
    remove_when_unused(pin);
}

void pins_discard(struct pins *pins, struct blob_unlink *unlink) {
    struct pin_shard *shard = shard_of(pins, unlink->id);
    pthread_mutex_lock(&shard->lock);
    detach(shard, unlink);
    pthread_mutex_unlock(&shard->lock);
}

bool pins_release(struct pins *pins, struct blob_unlink *unlink) {
    struct pin_shard *shard = shard_of(pins, unlink->id);
    pthread_mutex_lock(&shard->lock);
    unlink->released = true;
    bool unread = (*find(shard, unlink->id))->count == 0;
    if (unread) detach(shard, unlink);
    pthread_mutex_unlock(&shard->lock);
    return unread;
}

static void copy_segments(const struct blob_unlink *unlink, uint64_t blob_offset, unsigned max,
                          struct segment **segments, unsigned *count) {
    *segments = NULL;
    *count = 0;
    const struct segment *first = segment_find(unlink->segments, unlink->count, blob_offset);
    if (!first) return;
    unsigned left = unlink->count - (unsigned)(first - unlink->segments);
    if (left > max) left = max;
    *segments = malloc(left * sizeof(struct segment));
    if (!*segments) return;
    memcpy(*segments, first, left * sizeof(struct segment));
    *count = left;
}

bool pins_find_segments(struct pins *pins, uint64_t id, uint64_t blob_offset, unsigned max,
                        struct segment **segments, unsigned *count) {
    struct pin_shard *shard = shard_of(pins, id);
    pthread_mutex_lock(&shard->lock);
    struct pin *pin = *find(shard, id);
    /* A racing deleter that came too late found no segments to remember. */
    struct blob_unlink *unlink = pin ? pin->unlinks : NULL;
    while (unlink && !unlink->count) unlink = unlink->next;
    if (unlink) copy_segments(unlink, blob_offset, max, segments, count);
    pthread_mutex_unlock(&shard->lock);
    return unlink != NULL;
}

bool pins_find_inline(struct pins *pins, uint64_t id, struct meta_value **value,
                      struct block **block) {
    struct pin_shard *shard = shard_of(pins, id);
    *value = NULL;
    *block = NULL;
    pthread_mutex_lock(&shard->lock);
    struct pin *pin = *find(shard, id);
    for (struct blob_unlink *u = pin ? pin->unlinks : NULL; u && !*value && !*block; u = u->next) {
        if (u->inline_value)
            meta_value_ref(*value = u->inline_value);
        else if (u->inline_block)
            block_ref(*block = u->inline_block);
    }
    pthread_mutex_unlock(&shard->lock);
    return *value || *block;
}
