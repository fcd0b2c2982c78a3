/* What the files of blob/ share about an open store: the parts it stands on, ids, and room. */
#ifndef PENSTOCK_BLOB_STORE_H
#define PENSTOCK_BLOB_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "blob/blob.h"
#include "blob/ids.h"
#include "blob/pins.h"
#include "blob/volumes/allocator.h"
#include "blob/volumes/device.h"

#define BLOB_POOL_WAIT_MS 30000 /* how long a reader waits for memory */

struct blob_store {
    struct device *device;
    struct allocator *allocator;
    struct meta *meta;
    struct pool *pool;
    struct cache *cache;
    enum meta_durability durability;
    struct ids ids;
    struct pins pins;
    pthread_mutex_t grow_lock; /* one growth at a time; held on worker threads only */
    /* A flush failed: the kernel reports that once and forgets, so from then on nobody can know
     * what is on the drive, and no further write is acknowledged. */
    atomic_bool flush_failed;
    atomic_uint_fast64_t bytes_written, bytes_read, checksum_errors, payload_copies_bytes;
};

/* blob_store_open() on a device that is open already; it becomes the store's also on failure. */
int blob_store_open_device(struct device *device, enum meta_durability durability,
                           struct meta *meta, struct pool *pool, struct cache *cache,
                           struct blob_store **store);

/* Promise room: allocator_reserve() against what the drive can have now. */
int store_reserve(struct blob_store *store, uint64_t size, uint64_t *units);
/* allocator_take(), growing the device where that helps. ERR_STORAGE_FULL. */
int store_take_await(struct blob_store *store, uint64_t want, uint64_t *units,
                     struct extent *extent);

#endif
