/* What the earlier batches of a group will have changed once the group is written: the state that
 * a later batch's guards are checked against, on top of the engine. Used by one thread. It points
 * into the batches, which outlive the group. */
#ifndef PENSTOCK_META_OVERLAY_H
#define PENSTOCK_META_OVERLAY_H

#include "meta/batch.h"

struct overlay_entry {
    uint64_t hash;
    const struct batch_op *op; /* the last operation on its key */
};

struct overlay {
    uint64_t seed[2];
    struct overlay_entry *entries; /* dense, so that ranges can be searched */
    uint32_t *slots;               /* open addressing: index of an entry + 1, or 0 */
    size_t count, entry_capacity, slot_count;
};

void overlay_init(struct overlay *overlay);
void overlay_deinit(struct overlay *overlay);
void overlay_clear(struct overlay *overlay);
/* All of the batch's operations, or -ENOMEM and none. */
int overlay_add(struct overlay *overlay, const struct meta_batch *batch);
/* The last operation on the key, or NULL. */
const struct batch_op *overlay_find(const struct overlay *overlay, enum meta_space space,
                                    struct slice key);
/* Whether a key in [start, end) was put and not deleted afterwards. */
bool overlay_has_put_in(const struct overlay *overlay, enum meta_space space, struct slice start,
                        struct slice end);

#endif
