/* Data ids: numbers that are never used twice, also after a crash. The metadata holds a bound that
 * every id handed out is below; it is raised by a stride, durably, before ids beyond it are used.
 */
#ifndef PENSTOCK_BLOB_IDS_H
#define PENSTOCK_BLOB_IDS_H

#include <pthread.h>
#include <stdint.h>

#include "meta/meta.h"

struct ids {
    struct meta *meta;
    pthread_mutex_t lock;       /* next and bound */
    pthread_mutex_t raise_lock; /* one raise at a time; held on worker threads only */
    uint64_t next, bound;
};

/* Starts beyond all that may have been handed out before. Blocking. */
int ids_init(struct ids *ids, struct meta *meta);
void ids_deinit(struct ids *ids);
int ids_next_await(struct ids *ids, uint64_t *id); /* suspends once in a stride */
/* The stored bound (0 on a new store), for fsck. Blocking. */
int ids_read_bound(struct meta *meta, uint64_t *bound);

#endif
