/* The counter of data ids, persisted in strides in META_SYSTEM as a little-endian u64. */
#include "blob/ids.h"

#include "base/error.h"
#include "blob/little_endian.h"
#include "runtime/worker.h"

#define BOUND_KEY SLICE_LITERAL("blob/next-id")
#define STRIDE    (1u << 20)

static int read_bound(struct meta_cursor *cursor, void *arg) {
    uint64_t *bound = arg;
    *bound = 0;
    meta_cursor_seek(cursor, BOUND_KEY);
    if (!meta_cursor_valid(cursor) || !slice_equal(meta_cursor_key(cursor), BOUND_KEY)) return 0;
    struct slice value = meta_cursor_value(cursor);
    if (value.size != sizeof(uint64_t)) return ERR_STORE_CORRUPT;
    *bound = le_get_u64(value.data);
    return 0;
}

int ids_read_bound(struct meta *meta, uint64_t *bound) {
    return meta_scan_blocking(meta, META_SYSTEM, read_bound, bound);
}

static int write_bound(struct meta *meta, uint64_t bound) {
    uint8_t value[sizeof(uint64_t)];
    le_put_u64(value, bound);
    struct meta_batch *batch = NULL;
    int err = meta_batch_create(&batch);
    if (err) return err;
    meta_batch_put(batch, META_SYSTEM, BOUND_KEY, (struct slice){(char *)value, sizeof(value)});
    err = meta_commit_blocking(meta, batch);
    meta_batch_destroy(&batch);
    return err;
}

int ids_init(struct ids *ids, struct meta *meta) {
    *ids = (struct ids){.meta = meta};
    pthread_mutex_init(&ids->lock, NULL);
    pthread_mutex_init(&ids->raise_lock, NULL);
    uint64_t stored;
    int err = ids_read_bound(meta, &stored);
    if (!err) err = write_bound(meta, stored + STRIDE);
    if (err) {
        ids_deinit(ids);
        return err;
    }
    ids->next = stored ? stored : 1; /* 0 means "no data" */
    ids->bound = stored + STRIDE;
    return 0;
}

void ids_deinit(struct ids *ids) {
    pthread_mutex_destroy(&ids->lock);
    pthread_mutex_destroy(&ids->raise_lock);
}

static bool try_next(struct ids *ids, uint64_t *id) {
    pthread_mutex_lock(&ids->lock);
    bool available = ids->next < ids->bound;
    if (available) *id = ids->next++;
    pthread_mutex_unlock(&ids->lock);
    return available;
}

struct raise {
    struct ids *ids;
    uint64_t id;
    int err;
};

/* Several fibers may find the stride used up at once; the first raises it for all. */
static void raise_and_take(void *arg) {
    struct raise *raise = arg;
    struct ids *ids = raise->ids;
    pthread_mutex_lock(&ids->raise_lock);
    raise->err = 0;
    if (!try_next(ids, &raise->id)) {
        uint64_t bound = ids->bound + STRIDE; /* only changed under raise_lock */
        raise->err = write_bound(ids->meta, bound);
        pthread_mutex_lock(&ids->lock);
        if (!raise->err) {
            ids->bound = bound;
            raise->id = ids->next++;
        }
        pthread_mutex_unlock(&ids->lock);
    }
    pthread_mutex_unlock(&ids->raise_lock);
}

int ids_next_await(struct ids *ids, uint64_t *id) {
    if (try_next(ids, id)) return 0;
    struct raise raise = {.ids = ids};
    worker_call_await(raise_and_take, &raise);
    *id = raise.id;
    return raise.err;
}
