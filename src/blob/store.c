/* Opening and closing a store, deriving its free space, and finding room for writers. */
#include "blob/store.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "blob/segment.h"
#include "blob/volumes/superblock.h"
#include "runtime/worker.h"

/* ---- opening */

struct scan {
    struct extent *used;
    size_t count, capacity;
};

static int scan_add(struct scan *scan, const struct segment *segment) {
    if (scan->count == scan->capacity) {
        size_t capacity = scan->capacity ? 2 * scan->capacity : 1024;
        void *grown = realloc(scan->used, capacity * sizeof(struct extent));
        if (!grown) return -ENOMEM;
        scan->used = grown;
        scan->capacity = capacity;
    }
    scan->used[scan->count++] =
        (struct extent){segment->device_offset, segment_device_size(segment)};
    return 0;
}

static int scan_segments(struct meta_cursor *cursor, void *arg) {
    meta_cursor_seek(cursor, (struct slice){"", 0});
    for (; meta_cursor_valid(cursor); meta_cursor_next(cursor)) {
        struct segment segment = {0};
        int err = segment_decode(meta_cursor_key(cursor), meta_cursor_value(cursor), &segment);
        if (!err) err = scan_add(arg, &segment);
        if (!err) continue;
        if (err != -ENOMEM)
            log_error("segment record of data %llu at %llu cannot be read: %s",
                      (unsigned long long)segment.id, (unsigned long long)segment.blob_offset,
                      error_text(err));
        return err;
    }
    return 0;
}

static int compare_offsets(const void *a, const void *b) {
    const struct extent *x = a, *y = b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int derive_free_space(struct blob_store *store) {
    struct scan scan = {0};
    int err = meta_scan_blocking(store->meta, META_SEGMENTS, scan_segments, &scan);
    if (!err) {
        if (scan.count) qsort(scan.used, scan.count, sizeof(struct extent), compare_offsets);
        size_t bad = 0;
        err = allocator_load(store->allocator, scan.used, scan.count, &bad);
        if (err == ERR_STORE_CORRUPT)
            log_error("the segment at %llu of %llu bytes overlaps another or is outside the volume",
                      (unsigned long long)scan.used[bad].offset,
                      (unsigned long long)scan.used[bad].length);
    }
    free(scan.used);
    return err;
}

static int open_parts(struct blob_store *store) {
    int err = superblock_check_or_create(store->device, store->meta);
    if (!err)
        err = allocator_create(SUPERBLOCK_AREA, store->device->size, device_limit(store->device),
                               &store->allocator);
    if (!err) err = derive_free_space(store);
    return err ? err : ids_init(&store->ids, store->meta);
}

int blob_store_open_device(struct device *device, enum meta_durability durability,
                           struct meta *meta, struct pool *pool, struct cache *cache,
                           struct blob_store **result) {
    struct blob_store *store = calloc(1, sizeof(*store));
    if (!store) {
        device_close(&device);
        return -ENOMEM;
    }
    store->device = device;
    store->meta = meta;
    store->pool = pool;
    store->cache = cache;
    store->durability = durability;
    int err = open_parts(store);
    if (err) {
        allocator_destroy(&store->allocator);
        device_close(&store->device);
        free(store);
        return err;
    }
    pthread_mutex_init(&store->grow_lock, NULL);
    pins_init(&store->pins);
    *result = store;
    return 0;
}

int blob_store_open(const struct blob_options *options, struct meta *meta, struct pool *pool,
                    struct cache *cache, struct blob_store **store) {
    struct device_options device_options = {
        .path = options->path,
        .capacity_bytes = options->capacity_bytes,
        .direct_io = options->direct_io,
    };
    struct device *device = NULL;
    int err = device_open(&device_options, &device);
    if (err) return err;
    return blob_store_open_device(device, options->durability, meta, pool, cache, store);
}

void blob_store_close(struct blob_store **result) {
    struct blob_store *store = *result;
    *result = NULL;
    if (!store) return;
    pins_deinit(&store->pins);
    ids_deinit(&store->ids);
    pthread_mutex_destroy(&store->grow_lock);
    allocator_destroy(&store->allocator);
    device_close(&store->device);
    free(store);
}

/* ---- room */

int store_reserve(struct blob_store *store, uint64_t size, uint64_t *units) {
    /* Others use the file system too: look again before counting on what it has left. */
    if (allocator_needs_growth(store->allocator, size))
        allocator_set_limit(store->allocator, device_limit(store->device));
    return allocator_reserve(store->allocator, size, units);
}

/* Grow to hold grow_to bytes, by a step where there is so much. When nothing more is to be had the
 * limit becomes what there is, so that the allocator does not ask again. */
static int grow(struct blob_store *store, uint64_t grow_to) {
    struct device *device = store->device;
    uint64_t limit = device_limit(device);
    uint64_t step = device->size + DEVICE_GROW_STEP;
    uint64_t size = step > grow_to ? step : grow_to;
    if (size > limit) size = limit;
    int err = size > device->size ? device_grow_blocking(device, size) : ERR_STORAGE_FULL;
    if (err == ERR_STORAGE_FULL && grow_to < size) err = device_grow_blocking(device, grow_to);
    if (err && err != ERR_STORAGE_FULL) return err;
    allocator_grown(store->allocator, device->size);
    if (err || device->size < grow_to) allocator_set_limit(store->allocator, device->size);
    return 0;
}

struct take {
    struct blob_store *store;
    uint64_t want, *units;
    struct extent *extent;
    int err;
};

static void take_growing(void *arg) {
    struct take *take = arg;
    struct blob_store *store = take->store;
    pthread_mutex_lock(&store->grow_lock);
    for (;;) {
        uint64_t grow_to = 0;
        take->err =
            allocator_take(store->allocator, take->want, take->units, take->extent, &grow_to);
        if (take->err != -EAGAIN) break;
        take->err = grow(store, device_round_up(grow_to));
        if (take->err) break;
    }
    pthread_mutex_unlock(&store->grow_lock);
}

int store_take_await(struct blob_store *store, uint64_t want, uint64_t *units,
                     struct extent *extent) {
    uint64_t grow_to;
    int err = allocator_take(store->allocator, want, units, extent, &grow_to);
    if (err == ERR_STORAGE_FULL) {
        /* The limit may be that of a moment when the file system was fuller. */
        allocator_set_limit(store->allocator, device_limit(store->device));
        err = allocator_take(store->allocator, want, units, extent, &grow_to);
    }
    if (err != -EAGAIN) return err;
    struct take take = {.store = store, .want = want, .units = units, .extent = extent};
    worker_call_await(take_growing, &take);
    return take.err;
}

/* ---- figures */

void blob_stats(struct blob_store *store, struct blob_stats *stats) {
    struct allocator_stats room;
    allocator_stats(store->allocator, &room);
    *stats = (struct blob_stats){
        .capacity_bytes = room.limit,
        .used_bytes = room.limit - room.free_bytes,
        .free_bytes = room.free_bytes,
        .extents_free = room.extents_free,
        .bytes_written = store->bytes_written,
        .bytes_read = store->bytes_read,
        .checksum_errors = store->checksum_errors,
        .payload_copies_bytes = store->payload_copies_bytes,
    };
}
