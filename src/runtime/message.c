/* Messages between threads: a lock-free stack that many push to and one empties, turned round into
 * the order of sending, and the wake-up of a reactor that sleeps in its ring.
 *
 * Only the sender that finds the reactor asleep wakes it: another reactor through its own ring
 * (IORING_OP_MSG_RING, no system call of its own), other threads through an eventfd. */
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "runtime/internal.h"

static void wake_by_eventfd(struct reactor *reactor) {
    uint64_t one = 1;
    ssize_t written = write(reactor->wake_fd, &one, sizeof one);
    (void)written; /* fails only when the counter is full, and then a wake-up is under way */
}

/* The kernel could not pass the wake-up from ring to ring. */
static void on_wake_failed(struct completion *completion, int32_t result, uint32_t flags) {
    (void)flags;
    if (result < 0) wake_by_eventfd(container_of(completion, struct reactor, wake_failed));
}

static void wake_by_ring(struct reactor *sender, struct reactor *target) {
    struct io_uring_sqe *sqe = ring_sqe(sender, &target->wake_failed);
    io_uring_prep_msg_ring(sqe, target->ring.ring_fd, 0, 0, 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

static void push(struct reactor *reactor, struct message *message) {
    struct message *head = atomic_load_explicit(&reactor->inbox, memory_order_relaxed);
    do message->next = head;
    while (!atomic_compare_exchange_weak(&reactor->inbox, &head, message));
}

static bool claim_wake(struct reactor *reactor) {
    return atomic_load(&reactor->asleep) && atomic_exchange(&reactor->asleep, false);
}

void reactor_post(struct reactor *reactor, struct message *message) {
    struct reactor *sender = reactor_self();
    if (sender) {
        push(reactor, message);
        if (reactor != sender && claim_wake(reactor)) wake_by_ring(sender, reactor);
        return;
    }
    /* Once pushed, the message may be the last thing its runtime waited for. The count keeps the
     * reactor's memory until we are done with it. */
    atomic_fetch_add(&reactor->posting, 1);
    push(reactor, message);
    if (claim_wake(reactor)) wake_by_eventfd(reactor);
    atomic_fetch_sub(&reactor->posting, 1);
}

void message_run(struct reactor *reactor) {
    if (!atomic_load_explicit(&reactor->inbox, memory_order_relaxed)) return;
    struct message *newest = atomic_exchange(&reactor->inbox, NULL);
    struct message *oldest = NULL;
    while (newest) {
        struct message *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest) {
        struct message *next = oldest->next; /* fn may reuse the message's memory */
        counter_add(&reactor->counters.messages, 1);
        oldest->fn(oldest->arg);
        oldest = next;
    }
}

/* The poll is edge-triggered: the eventfd is never read, and every write to it is news. */
static void arm(struct reactor *reactor) {
    struct io_uring_sqe *sqe = ring_sqe(reactor, &reactor->woken);
    io_uring_prep_poll_multishot(sqe, reactor->wake_fd, POLLIN);
}

static void on_woken(struct completion *completion, int32_t result, uint32_t flags) {
    struct reactor *reactor = container_of(completion, struct reactor, woken);
    if (flags & IORING_CQE_F_MORE) return;
    if (result < 0 && result != -ECANCELED)
        log_warn("runtime: the wake-up poll ended: %s", error_text(result));
    arm(reactor);
}

int message_init(struct reactor *reactor) {
    reactor->woken.fn = on_woken;
    reactor->wake_failed.fn = on_wake_failed;
    reactor->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return reactor->wake_fd < 0 ? -errno : 0;
}

void message_arm(struct reactor *reactor) {
    arm(reactor);
}

void message_deinit(struct reactor *reactor) {
    while (atomic_load(&reactor->posting)) sched_yield();
    if (reactor->wake_fd >= 0) close(reactor->wake_fd);
    reactor->wake_fd = -1;
}
