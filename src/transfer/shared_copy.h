/* One copy between runs of the pool and a client's registered memory, shared by the fiber that
 * wants it and by worker threads: one core cannot use all of the memory's bandwidth. */
#ifndef PENSTOCK_TRANSFER_SHARED_COPY_H
#define PENSTOCK_TRANSFER_SHARED_COPY_H

#include "transfer/kind.h"
#include "transfer/shm_registry.h"

/* A copy of fewer bytes is over before a worker has woken up. */
#define SHARED_COPY_MIN ((uint64_t)1024 * 1024)
/* More than this many cores add nothing: the memory is the limit. */
#define SHARED_COPY_HELPERS_MAX 3

/* Copies runs[0..count-1], of at most BLOCK_MAX_SIZE bytes each and TRANSFER_RUNS_MAX of them,
 * between the pool and `theirs`, which with the runs' whole length lies in the region. Others run
 * between two runs, so that a long copy takes turns. Returns when nobody touches the memory any
 * more: 0, ERR_RDMA_TRANSFER_FAILED when the client's memory or the client went away, or
 * -ECANCELED. */
int shared_copy_await(const struct shm_region *region, enum transfer_direction direction,
                      uint8_t *theirs, const struct iovec *runs, unsigned count, unsigned helpers);

#endif
