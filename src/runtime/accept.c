/* Multishot accept: one entry in the ring gives every connection of a listening socket. It is armed
 * again when the kernel ends it, after a pause when the cause was a shortage of something. */
#include "base/error.h"
#include "runtime/internal.h"

#define SHORTAGE_PAUSE_MS 100

static void arm(struct io_accept *accept) {
    struct io_uring_sqe *sqe = ring_sqe(reactor_self(), &accept->completion);
    io_uring_prep_multishot_accept(sqe, accept->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    accept->armed = true;
}

static void finish(struct io_accept *accept) {
    struct reactor *reactor = reactor_self();
    if (accept->previous)
        accept->previous->next = accept->next;
    else
        reactor->accepts = accept->next;
    if (accept->next) accept->next->previous = accept->previous;
    accept->on_accept(accept->ctx, -1, -ECANCELED);
}

static void on_pause_over(struct timer *timer) {
    struct io_accept *accept = container_of(timer, struct io_accept, pause);
    if (accept->stopping)
        finish(accept);
    else
        arm(accept);
}

static void on_connection(struct completion *completion, int32_t result, uint32_t flags) {
    struct io_accept *accept = container_of(completion, struct io_accept, completion);
    bool more = flags & IORING_CQE_F_MORE;
    if (result >= 0)
        accept->on_accept(accept->ctx, result, 0);
    else if (result != -ECANCELED && !accept->stopping)
        accept->on_accept(accept->ctx, -1, result);
    if (more) return;

    /* Only now: a stop from within the callback must leave the last call to us. */
    accept->armed = false;
    bool shortage = result < 0 && result != -ECONNABORTED && result != -ECANCELED;
    if (accept->stopping)
        finish(accept);
    else if (shortage)
        timer_set(&accept->pause, clock_deadline_ms(SHORTAGE_PAUSE_MS));
    else
        arm(accept);
}

void io_accept_start(struct io_accept *accept, int listen_fd) {
    struct reactor *reactor = reactor_self();
    assert(reactor && accept->on_accept);
    accept->completion.fn = on_connection;
    accept->pause = (struct timer){.fn = on_pause_over};
    accept->listen_fd = listen_fd;
    accept->stopping = false;
    accept->previous = NULL;
    accept->next = reactor->accepts;
    if (accept->next) accept->next->previous = accept;
    reactor->accepts = accept;
    arm(accept);
    if (reactor->stopping) io_accept_stop(accept);
}

void io_accept_stop(struct io_accept *accept) {
    if (accept->stopping) return;
    accept->stopping = true;
    if (accept->armed)
        ring_cancel(reactor_self(), &accept->completion);
    else
        timer_set(&accept->pause, 0); /* the last call comes from the loop in this case too */
}

void accept_cancel_all(struct reactor *reactor) {
    for (struct io_accept *accept = reactor->accepts; accept; accept = accept->next)
        io_accept_stop(accept);
}
