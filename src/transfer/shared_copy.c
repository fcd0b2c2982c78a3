/* Every participant takes the next run when it is done with its last, so nobody waits for a slow
 * one longer than a run takes. The first error stops the handing out. */
#include "transfer/shared_copy.h"

#include <assert.h>

#include "base/error.h"
#include "mem/pool.h"
#include "runtime/worker.h"
#include "transfer/guarded_copy.h"

struct shared_copy {
    const struct shm_region *region;
    enum transfer_direction direction;
    const struct iovec *runs;
    unsigned count;
    uint8_t *theirs[TRANSFER_RUNS_MAX]; /* where each run goes, or comes from */
    atomic_uint next;
    atomic_int err;
};

/* payload: the one copy of a same-host transfer */
static int copy_run(const struct shared_copy *copy, unsigned i) {
    const struct shm_region *region = copy->region;
    if (atomic_load_explicit(&region->gone, memory_order_relaxed)) return ERR_RDMA_TRANSFER_FAILED;
    const struct guarded_mapping mapping = {region->base, region->length};
    const struct iovec *run = &copy->runs[i];
    int err = copy->direction == TRANSFER_PUSH
                  ? guarded_copy(copy->theirs[i], run->iov_base, run->iov_len, &mapping)
                  : guarded_copy(run->iov_base, copy->theirs[i], run->iov_len, &mapping);
    return err ? ERR_RDMA_TRANSFER_FAILED : 0;
}

static void fail(struct shared_copy *copy, int err) {
    int none = 0;
    atomic_compare_exchange_strong(&copy->err, &none, err);
}

/* False when there is nothing left to take. */
static bool copy_next(struct shared_copy *copy) {
    unsigned i = atomic_fetch_add(&copy->next, 1);
    if (i >= copy->count || atomic_load(&copy->err)) return false;
    int err = copy_run(copy, i);
    if (err) fail(copy, err);
    return !err;
}

static void help(void *arg) {
    while (copy_next(arg))
        ;
}

static void copy_own_share_await(struct shared_copy *copy) {
    while (copy_next(copy)) {
        fiber_yield_await();
        if (fiber_cancelled()) fail(copy, -ECANCELED);
    }
}

int shared_copy_await(const struct shm_region *region, enum transfer_direction direction,
                      uint8_t *theirs, const struct iovec *runs, unsigned count, unsigned helpers) {
    if (fiber_cancelled()) return -ECANCELED;
    assert(count <= TRANSFER_RUNS_MAX && helpers <= SHARED_COPY_HELPERS_MAX);
    struct shared_copy copy = {
        .region = region, .direction = direction, .runs = runs, .count = count};
    for (unsigned i = 0; i < count; i++) {
        assert(runs[i].iov_len <= BLOCK_MAX_SIZE);
        copy.theirs[i] = theirs;
        theirs += runs[i].iov_len;
    }
    struct worker_job jobs[SHARED_COPY_HELPERS_MAX];
    for (unsigned i = 0; i < helpers; i++) worker_job_start(&jobs[i], help, &copy);
    copy_own_share_await(&copy);
    for (unsigned i = 0; i < helpers; i++) worker_job_await(&jobs[i]);
    return atomic_load(&copy.err);
}
