/* The overlay: a dense array of entries and an open-addressing index over it. Clearing costs what
 * was used, not what was ever reserved. */
#include "meta/overlay.h"

#include <assert.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/error.h"
#include "meta/key_hash.h"

#define ENTRIES_MIN 256u

void overlay_init(struct overlay *overlay) {
    *overlay = (struct overlay){0};
    random_bytes(overlay->seed, sizeof(overlay->seed));
}

void overlay_deinit(struct overlay *overlay) {
    free(overlay->entries);
    free(overlay->slots);
    *overlay = (struct overlay){0};
}

/* The slot of the key, or the empty one where it would go. */
static uint32_t *find_slot(const struct overlay *overlay, uint64_t hash, enum meta_space space,
                           struct slice key) {
    size_t mask = overlay->slot_count - 1;
    for (size_t at = hash & mask;; at = (at + 1) & mask) {
        uint32_t *slot = &overlay->slots[at];
        if (!*slot) return slot;
        const struct overlay_entry *entry = &overlay->entries[*slot - 1];
        if (entry->hash == hash && entry->op->space == space && slice_equal(entry->op->key, key)) {
            return slot;
        }
    }
}

static void index_all(struct overlay *overlay) {
    for (size_t i = 0; i < overlay->count; i++) {
        const struct overlay_entry *entry = &overlay->entries[i];
        *find_slot(overlay, entry->hash, entry->op->space, entry->op->key) = (uint32_t)i + 1;
    }
}

/* Room for `more` entries, with the index at most half full. */
static int reserve(struct overlay *overlay, size_t more) {
    size_t capacity = overlay->entry_capacity ? overlay->entry_capacity : ENTRIES_MIN;
    while (capacity < overlay->count + more) capacity *= 2;
    if (capacity == overlay->entry_capacity) return 0;
    void *entries = realloc(overlay->entries, capacity * sizeof(*overlay->entries));
    if (!entries) return -ENOMEM;
    overlay->entries = entries;
    uint32_t *slots = calloc(capacity * 2, sizeof(*slots));
    if (!slots) return -ENOMEM;
    free(overlay->slots);
    overlay->slots = slots;
    overlay->slot_count = capacity * 2;
    overlay->entry_capacity = capacity;
    index_all(overlay);
    return 0;
}

void overlay_clear(struct overlay *overlay) {
    if (overlay->count > overlay->slot_count / 16) {
        memset(overlay->slots, 0, overlay->slot_count * sizeof(*overlay->slots));
        overlay->count = 0;
        return;
    }
    /* Last in, first out: an entry's probe still passes only slots that are taken. */
    while (overlay->count) {
        const struct overlay_entry *entry = &overlay->entries[overlay->count - 1];
        *find_slot(overlay, entry->hash, entry->op->space, entry->op->key) = 0;
        overlay->count--;
    }
}

int overlay_add(struct overlay *overlay, const struct meta_batch *batch) {
    int err = reserve(overlay, batch->op_count);
    if (err) return err;
    for (size_t i = 0; i < batch->op_count; i++) {
        const struct batch_op *op = &batch->ops[i];
        uint64_t hash = key_hash(overlay->seed, op->space, op->key);
        uint32_t *slot = find_slot(overlay, hash, op->space, op->key);
        if (!*slot) *slot = (uint32_t)++overlay->count;
        overlay->entries[*slot - 1] = (struct overlay_entry){hash, op};
    }
    return 0;
}

const struct batch_op *overlay_find(const struct overlay *overlay, enum meta_space space,
                                    struct slice key) {
    if (!overlay->count) return NULL;
    uint64_t hash = key_hash(overlay->seed, space, key);
    uint32_t slot = *find_slot(overlay, hash, space, key);
    return slot ? overlay->entries[slot - 1].op : NULL;
}

bool overlay_has_put_in(const struct overlay *overlay, enum meta_space space, struct slice start,
                        struct slice end) {
    for (size_t i = 0; i < overlay->count; i++) {
        const struct batch_op *op = overlay->entries[i].op;
        if (op->space == space && op->value && slice_compare(op->key, start) >= 0 &&
            slice_compare(op->key, end) < 0) {
            return true;
        }
    }
    return false;
}
