/* The io_uring of one reactor: set-up with the best flags the kernel takes, fixed buffers,
 * submission, and the one place where a reactor sleeps. What completions mean is known to the files
 * that submit them. */
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"
#include "runtime/internal.h"

#define BEST_FLAGS                                                                                 \
    (IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN |         \
     IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL)
#define SUBMIT_TRIES 1000

static int open_ring(struct reactor *reactor, unsigned flags) {
    struct io_uring_params params = {.flags = flags | IORING_SETUP_CQSIZE,
                                     .cq_entries = RING_CQ_DEPTH};
    return io_uring_queue_init_params(RING_SQ_DEPTH, &reactor->ring, &params);
}

static void explain_failure(int err) {
    const char *cause = "";
    if (err == -EPERM || err == -EACCES)
        cause = ": not permitted; see sysctl kernel.io_uring_disabled, or a seccomp filter as "
                "container runtimes install";
    else if (err == -ENOSYS)
        cause = ": the kernel lacks it, or a seccomp filter hides it; Linux 6.1 or later is needed";
    else if (err == -ENOMEM)
        cause = ": locked memory is limited; raise it by ulimit -l or LimitMEMLOCK=";
    else if (err == -EMFILE || err == -ENFILE)
        cause = "; raise ulimit -n or LimitNOFILE=";
    log_error("runtime: io_uring cannot be set up: %s%s", error_text(err), cause);
}

/* Without registration the kernel pins and unpins the pages for every operation: slower, but
 * nothing fails. */
static void register_fixed(struct reactor *reactor) {
    const struct runtime_options *options = &reactor->runtime->options;
    if (!options->fixed_base || !options->fixed_size) return;
    uint64_t count = (options->fixed_size + FIXED_SEGMENT - 1) / FIXED_SEGMENT;
    int err = -E2BIG;
    struct iovec *segments = count <= FIXED_SEGMENT_LIMIT ? calloc(count, sizeof *segments) : NULL;
    if (segments) {
        for (uint64_t i = 0; i < count; i++) {
            uint64_t rest = options->fixed_size - i * FIXED_SEGMENT;
            segments[i].iov_base = (char *)options->fixed_base + i * FIXED_SEGMENT;
            segments[i].iov_len = rest < FIXED_SEGMENT ? rest : FIXED_SEGMENT;
        }
        err = io_uring_register_buffers(&reactor->ring, segments, (unsigned)count);
        free(segments);
    }
    if (!err) {
        reactor->fixed_segments = (unsigned)count;
        reactor->fixed_base = (uintptr_t)options->fixed_base;
        reactor->fixed_size = options->fixed_size;
        return;
    }
    pthread_mutex_lock(&reactor->runtime->mutex);
    bool warned = reactor->runtime->memlock_warned;
    reactor->runtime->memlock_warned = true;
    pthread_mutex_unlock(&reactor->runtime->mutex);
    if (warned) return;
    log_warn(
        "runtime: buffers are not registered with io_uring (%s), file I/O costs more CPU; "
        "allow %llu MiB of locked memory for each of %u reactors by ulimit -l or LimitMEMLOCK=",
        error_text(err), (unsigned long long)(options->fixed_size >> 20), options->reactors);
}

int ring_init(struct reactor *reactor) {
    int err = open_ring(reactor, BEST_FLAGS);
    if (err == -EINVAL) err = open_ring(reactor, 0);
    if (err) {
        explain_failure(err);
        return err;
    }
    /* Saves the kernel a look-up for every call; it does no harm where it is refused. */
    io_uring_register_ring_fd(&reactor->ring);
    register_fixed(reactor);
    return 0;
}

void ring_deinit(struct reactor *reactor) {
    io_uring_queue_exit(&reactor->ring);
}

/* Make room in the submission queue. The kernel may be short of memory for a moment; a reactor
 * that can submit nothing for a whole second cannot be helped. */
static void submit_some(struct reactor *reactor) {
    int err = 0;
    for (unsigned tries = 0; tries < SUBMIT_TRIES; tries++) {
        counter_add(&reactor->counters.enters, 1);
        err = io_uring_submit(&reactor->ring);
        if (err > 0) return;
        if (err == -EBUSY) io_uring_get_events(&reactor->ring);
        struct timespec pause = {.tv_nsec = NS_PER_MS};
        if (err != -EINTR) nanosleep(&pause, NULL);
    }
    log_error("runtime: io_uring takes no operations: %s", error_text(err));
    abort();
}

/* An entry of the submission queue, to be filled by one of liburing's prep functions, which set all
 * but the user_data. completion may be NULL when nobody looks at the end. */
struct io_uring_sqe *ring_sqe(struct reactor *reactor, struct completion *completion) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&reactor->ring);
    if (!sqe) {
        submit_some(reactor);
        sqe = io_uring_get_sqe(&reactor->ring);
        assert(sqe);
    }
    counter_add(&reactor->counters.sqes, 1);
    io_uring_sqe_set_data(sqe, completion);
    return sqe;
}

/* Ask the kernel to give up; the operation's own completion still comes, and says what happened. */
void ring_cancel(struct reactor *reactor, struct completion *completion) {
    struct io_uring_sqe *sqe = ring_sqe(reactor, NULL);
    io_uring_prep_cancel(sqe, completion, 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

static bool kernel_has_news(struct reactor *reactor) {
    unsigned flags = __atomic_load_n(reactor->ring.sq.kflags, __ATOMIC_RELAXED);
    return flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
}

/* Submit and collect without sleeping: no call at all when there is nothing to tell or to fetch. */
static void enter_briefly(struct reactor *reactor) {
    if (!io_uring_sq_ready(&reactor->ring) && !kernel_has_news(reactor)) return;
    counter_add(&reactor->counters.enters, 1);
    io_uring_submit_and_get_events(&reactor->ring);
}

static void enter_and_wait(struct reactor *reactor) {
    uint64_t deadline = timer_next_ns(reactor);
    struct __kernel_timespec timeout, *limit = NULL;
    if (deadline != NO_DEADLINE) {
        uint64_t now = clock_now_ns();
        if (deadline <= now) {
            enter_briefly(reactor);
            return;
        }
        timeout.tv_sec = (long long)((deadline - now) / NS_PER_S);
        timeout.tv_nsec = (long long)((deadline - now) % NS_PER_S);
        limit = &timeout;
    }
    struct io_uring_cqe *cqe;
    counter_add(&reactor->counters.enters, 1);
    /* -ETIME, -EINTR and a momentary -EAGAIN all mean the same: look around, then come back. */
    io_uring_submit_and_wait_timeout(&reactor->ring, &cqe, 1, limit, NULL);
}

/* Whoever posts a message after we said that we sleep wakes the ring; whoever posted before is seen
 * here. Both sides need sequential consistency for that. */
void ring_enter(struct reactor *reactor) {
    if (reactor->ready_head || reactor->quit) {
        enter_briefly(reactor);
        return;
    }
    atomic_store(&reactor->asleep, true);
    if (atomic_load(&reactor->inbox))
        enter_briefly(reactor);
    else
        enter_and_wait(reactor);
    atomic_store_explicit(&reactor->asleep, false, memory_order_relaxed);
}
