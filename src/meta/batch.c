/* Building a batch: operations and guards, with copies of their bytes. A batch is small in nearly
 * every case, so room for a few operations stands in the struct itself; a large one grows. Checking
 * and applying is commit.c's. */
#include "meta/batch.h"

#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "meta/engine.h"

#define CHUNK_SIZE (8u * 1024)

int meta_batch_create(struct meta_batch **out) {
    struct meta_batch *batch = malloc(sizeof(*batch));
    if (!batch) return -ENOMEM;
    batch->err = 0;
    batch->bytes = 0;
    batch->ops = batch->inline_ops;
    batch->op_count = 0;
    batch->op_capacity = BATCH_INLINE_OPS;
    batch->guards = batch->inline_guards;
    batch->guard_count = 0;
    batch->guard_capacity = BATCH_INLINE_GUARDS;
    batch->chunks = NULL;
    batch->free_bytes = batch->inline_bytes;
    batch->free_size = BATCH_INLINE_BYTES;
    *out = batch;
    return 0;
}

void meta_batch_destroy(struct meta_batch **pointer) {
    struct meta_batch *batch = *pointer;
    if (!batch) return;
    *pointer = NULL;
    for (size_t i = 0; i < batch->op_count; i++) meta_value_unref(&batch->ops[i].value);
    for (struct batch_chunk *chunk = batch->chunks, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    if (batch->ops != batch->inline_ops) free(batch->ops);
    if (batch->guards != batch->inline_guards) free(batch->guards);
    free(batch);
}

static void fail(struct meta_batch *batch, int err) {
    if (!batch->err) batch->err = err;
}

/* Room for size bytes that stays until the batch is destroyed; NULL when there is no memory. */
static char *take_bytes(struct meta_batch *batch, size_t size) {
    if (size > batch->free_size) {
        size_t capacity = size > CHUNK_SIZE ? size : CHUNK_SIZE;
        struct batch_chunk *chunk = malloc(sizeof(*chunk) + capacity);
        if (!chunk) return NULL;
        chunk->next = batch->chunks;
        batch->chunks = chunk;
        batch->free_bytes = chunk->bytes;
        batch->free_size = capacity;
    }
    char *bytes = batch->free_bytes;
    batch->free_bytes += size;
    batch->free_size -= size;
    return bytes;
}

static int copy(struct meta_batch *batch, struct slice from, struct slice *to) {
    char *bytes = take_bytes(batch, from.size);
    if (!bytes) return -ENOMEM;
    if (from.size) memcpy(bytes, from.data, from.size);
    *to = (struct slice){bytes, from.size};
    batch->bytes += from.size;
    return 0;
}

static int copy_key(struct meta_batch *batch, struct slice from, struct slice *to) {
    if (from.size > META_KEY_MAX) return ERR_KEY_TOO_LONG;
    return copy(batch, from, to);
}

/* Twice the items; the first growth moves them out of the struct. */
static void *grow(void *items, void *inline_items, size_t item_size, size_t *capacity) {
    void *grown = items == inline_items ? malloc(*capacity * 2 * item_size)
                                        : realloc(items, *capacity * 2 * item_size);
    if (!grown) return NULL;
    if (items == inline_items) memcpy(grown, items, *capacity * item_size);
    *capacity *= 2;
    return grown;
}

static int add_op(struct meta_batch *batch, enum meta_space space, struct slice key,
                  struct meta_value *value) {
    assert(space < META_SPACES);
    if (batch->op_count == batch->op_capacity) {
        void *ops =
            grow(batch->ops, batch->inline_ops, sizeof(struct batch_op), &batch->op_capacity);
        if (!ops) return -ENOMEM;
        batch->ops = ops;
    }
    struct batch_op op = {.space = space, .value = value};
    int err = copy_key(batch, key, &op.key);
    if (err) return err;
    batch->ops[batch->op_count++] = op;
    return 0;
}

void meta_batch_put(struct meta_batch *batch, enum meta_space space, struct slice key,
                    struct slice value) {
    if (value.size > META_VALUE_MAX) {
        fail(batch, ERR_ENTITY_TOO_LARGE);
        return;
    }
    struct meta_value *kept = meta_value_create(value.size);
    if (!kept) {
        fail(batch, -ENOMEM);
        return;
    }
    /* The one copy of a value on its way in: the batch, and later the record cache, own it. */
    if (value.size) memcpy(kept->data, value.data, value.size);
    int err = add_op(batch, space, key, kept);
    if (err) {
        meta_value_unref(&kept);
        fail(batch, err);
        return;
    }
    batch->bytes += value.size;
}

void meta_batch_delete(struct meta_batch *batch, enum meta_space space, struct slice key) {
    int err = add_op(batch, space, key, NULL);
    if (err) fail(batch, err);
}

static int add_guard(struct meta_batch *batch, enum batch_guard_kind kind, enum meta_space space,
                     struct slice key, struct slice other) {
    assert(space < META_SPACES);
    if (batch->guard_count == batch->guard_capacity) {
        void *guards = grow(batch->guards, batch->inline_guards, sizeof(struct batch_guard),
                            &batch->guard_capacity);
        if (!guards) return -ENOMEM;
        batch->guards = guards;
    }
    struct batch_guard guard = {.kind = kind, .space = space};
    int err = copy_key(batch, key, &guard.key);
    if (!err) err = copy(batch, other, &guard.other);
    if (err) return err;
    batch->guards[batch->guard_count++] = guard;
    return 0;
}

void meta_batch_guard_absent(struct meta_batch *batch, enum meta_space space, struct slice key) {
    int err = add_guard(batch, GUARD_ABSENT, space, key, (struct slice){0});
    if (err) fail(batch, err);
}

void meta_batch_guard_present(struct meta_batch *batch, enum meta_space space, struct slice key) {
    int err = add_guard(batch, GUARD_PRESENT, space, key, (struct slice){0});
    if (err) fail(batch, err);
}

void meta_batch_guard_equals(struct meta_batch *batch, enum meta_space space, struct slice key,
                             struct slice value) {
    int err = add_guard(batch, GUARD_EQUALS, space, key, value);
    if (err) fail(batch, err);
}

void meta_batch_guard_empty(struct meta_batch *batch, enum meta_space space, struct slice start,
                            struct slice end) {
    int err = add_guard(batch, GUARD_EMPTY, space, start, end);
    if (err) fail(batch, err);
}
