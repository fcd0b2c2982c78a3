/* Deleting blobs: their records with the caller's commit, their space after the last reader. */
#include <assert.h>
#include <limits.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "blob/segment.h"
#include "blob/store.h"

/* Nothing refers to the blob and nobody reads it. */
static void carry_out(struct blob_unlink *unlink) {
    struct blob_store *store = unlink->store;
    uint64_t blocks = (unlink->size + SEGMENT_UNIT - 1) / SEGMENT_UNIT;
    cache_drop(store->cache, unlink->id, (uint32_t)blocks);
    for (unsigned i = 0; i < unlink->count; i++) {
        const struct segment *segment = &unlink->segments[i];
        allocator_give(store->allocator,
                       (struct extent){segment->device_offset, segment_device_size(segment)});
    }
    pins_free_unlink(unlink);
}

/* A small blob's bytes go with its record, so a reader that comes between the commit and its own
 * look-up can only be served from what is held here. */
static int hold_inline(struct blob_unlink *unlink) {
    struct blob_store *store = unlink->store;
    unlink->inline_block = cache_get(store->cache, unlink->id, 0);
    if (unlink->inline_block) return 0;
    uint8_t key[INLINE_KEY_SIZE];
    inline_key(unlink->id, key);
    int err = meta_get_await(store->meta, META_INLINE, (struct slice){(char *)key, sizeof(key)},
                             &unlink->inline_value);
    return err == ERR_NOT_FOUND ? 0 : err;
}

static void delete_inline(const struct blob_unlink *unlink, struct meta_batch *batch) {
    uint8_t key[INLINE_KEY_SIZE];
    inline_key(unlink->id, key);
    meta_batch_delete(batch, META_INLINE, (struct slice){(char *)key, sizeof(key)});
}

static void delete_segments(const struct blob_unlink *unlink, struct meta_batch *batch) {
    for (unsigned i = 0; i < unlink->count; i++) {
        const struct segment *segment = &unlink->segments[i];
        uint8_t key[SEGMENT_KEY_SIZE];
        segment_key(segment->id, segment->blob_offset, key);
        meta_batch_delete(batch, META_SEGMENTS, (struct slice){(char *)key, sizeof(key)});
        if (segment->length == 0)
            log_error("data %llu: deleting a segment record that cannot be read; its space comes "
                      "back at the next start",
                      (unsigned long long)segment->id);
    }
}

/* Records that are gone already mean that another deleter won; this commit will then fail on its
 * guards, so it is no error here. */
int blob_unlink_prepare_await(struct blob_store *store, struct blob_ref ref,
                              struct meta_batch *batch, struct blob_unlink **result) {
    *result = NULL;
    if (ref.id == 0) return 0;
    struct blob_unlink *unlink = calloc(1, sizeof(*unlink));
    if (!unlink) return -ENOMEM;
    *unlink = (struct blob_unlink){.store = store, .id = ref.id, .size = ref.size};
    bool is_inline = ref.size <= BLOB_INLINE_MAX;
    int err = is_inline ? hold_inline(unlink)
                        : segment_load_await(store->meta, ref.id, 0, UINT_MAX, true,
                                             &unlink->segments, &unlink->count);
    if (err) {
        pins_free_unlink(unlink);
        return err;
    }
    if (is_inline)
        delete_inline(unlink, batch);
    else
        delete_segments(unlink, batch);
    pins_register(&store->pins, unlink);
    *result = unlink;
    return 0;
}

void blob_unlink_released(struct blob_store *store, struct blob_unlink **result) {
    struct blob_unlink *unlink = *result;
    *result = NULL;
    if (unlink && pins_release(&store->pins, unlink)) carry_out(unlink);
}

void blob_unlink_discard(struct blob_unlink **result) {
    struct blob_unlink *unlink = *result;
    *result = NULL;
    if (!unlink) return;
    pins_discard(&unlink->store->pins, unlink);
    pins_free_unlink(unlink);
}

void blob_pin(struct blob_store *store, uint64_t id) {
    if (id) pins_add(&store->pins, id);
}

void blob_unpin(struct blob_store *store, uint64_t id) {
    struct blob_unlink *unlink = id ? pins_remove(&store->pins, id) : NULL;
    while (unlink) {
        struct blob_unlink *next = unlink->next;
        carry_out(unlink);
        unlink = next;
    }
}
