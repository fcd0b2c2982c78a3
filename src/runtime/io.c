/* Kernel operations that a fiber waits for.
 *
 * The buffers belong to the kernel until the completion has come, so a deadline or a cancellation
 * only asks the kernel to give up, and the wait goes on until it has. If the operation was quicker
 * than the request to give up, its success stands: bytes that were moved are never disowned. */
#include <poll.h>

#include "base/error.h"
#include "runtime/internal.h"

#define TRANSFER_MAX 0x7ffff000u /* what Linux moves in one call */

struct kernel_op {
    struct completion completion;
    struct fiber *fiber;
    int32_t result;
    int reason; /* why it is being cancelled; 0 while it is not */
    bool done;
};

static void on_done(struct completion *completion, int32_t result, uint32_t flags) {
    (void)flags;
    struct kernel_op *op = container_of(completion, struct kernel_op, completion);
    op->result = result;
    op->done = true;
    op->fiber->op = NULL;
    timer_clear(&op->fiber->deadline);
    fiber_release(op->fiber);
}

void io_cancel(struct fiber *fiber, int reason) {
    struct kernel_op *op = fiber->op;
    assert(op);
    if (op->reason) return;
    op->reason = reason;
    ring_cancel(fiber->reactor, &op->completion);
}

static void on_deadline(struct timer *timer) {
    io_cancel(container_of(timer, struct fiber, deadline), -ETIME);
}

/* Prepare an entry in the ring for op, or return NULL when the fiber is to stop. */
static struct io_uring_sqe *begin(struct kernel_op *op) {
    struct fiber *fiber = fiber_self();
    assert(fiber);
    if (fiber_interrupted(fiber)) return NULL;
    *op = (struct kernel_op){.completion.fn = on_done, .fiber = fiber};
    return ring_sqe(fiber->reactor, &op->completion);
}

static int32_t finish_await(struct kernel_op *op, struct io_uring_sqe *sqe, uint64_t deadline_ns) {
    struct fiber *fiber = op->fiber;
    fiber->op = op;
    if (deadline_ns != NO_DEADLINE) {
        fiber->deadline.fn = on_deadline;
        timer_set(&fiber->deadline, deadline_ns);
    }
    fiber_hold_await(fiber);
    assert(op->done);
    bool gave_up = op->result == -ECANCELED || op->result == -EINTR;
    return op->reason && gave_up ? op->reason : op->result;
}

static unsigned clamp(size_t size) {
    return size < TRANSFER_MAX ? (unsigned)size : TRANSFER_MAX;
}

/* ---- sockets */

ssize_t io_recv_await(int fd, void *data, size_t size, int flags, uint64_t deadline_ns) {
    struct kernel_op op;
    struct io_uring_sqe *sqe = begin(&op);
    if (!sqe) return -ECANCELED;
    io_uring_prep_recv(sqe, fd, data, clamp(size), flags);
    return finish_await(&op, sqe, deadline_ns);
}

ssize_t io_send_await(int fd, const void *data, size_t size, int flags, uint64_t deadline_ns) {
    struct kernel_op op;
    struct io_uring_sqe *sqe = begin(&op);
    if (!sqe) return -ECANCELED;
    io_uring_prep_send(sqe, fd, data, clamp(size), flags | MSG_NOSIGNAL);
    return finish_await(&op, sqe, deadline_ns);
}

ssize_t io_sendmsg_await(int fd, const struct msghdr *msg, int flags, uint64_t deadline_ns) {
    struct kernel_op op;
    struct io_uring_sqe *sqe = begin(&op);
    if (!sqe) return -ECANCELED;
    io_uring_prep_sendmsg(sqe, fd, msg, (unsigned)flags | MSG_NOSIGNAL);
    return finish_await(&op, sqe, deadline_ns);
}

ssize_t io_recvmsg_await(int fd, struct msghdr *msg, int flags, uint64_t deadline_ns) {
    struct kernel_op op;
    struct io_uring_sqe *sqe = begin(&op);
    if (!sqe) return -ECANCELED;
    io_uring_prep_recvmsg(sqe, fd, msg, (unsigned)flags);
    return finish_await(&op, sqe, deadline_ns);
}

int io_poll_await(int fd, unsigned events, uint64_t deadline_ns) {
    struct kernel_op op;
    struct io_uring_sqe *sqe = begin(&op);
    if (!sqe) return -ECANCELED;
    io_uring_prep_poll_add(sqe, fd, events);
    return finish_await(&op, sqe, deadline_ns);
}

int io_accept_await(int fd, int flags, uint64_t deadline_ns) {
    struct kernel_op op;
    struct io_uring_sqe *sqe = begin(&op);
    if (!sqe) return -ECANCELED;
    io_uring_prep_accept(sqe, fd, NULL, NULL, flags);
    return finish_await(&op, sqe, deadline_ns);
}

int io_connect_await(int fd, const struct sockaddr *address, socklen_t size, uint64_t deadline_ns) {
    struct kernel_op op;
    struct io_uring_sqe *sqe = begin(&op);
    if (!sqe) return -ECANCELED;
    io_uring_prep_connect(sqe, fd, address, size);
    return finish_await(&op, sqe, deadline_ns);
}

/* ---- files */

int io_fsync_await(int fd, bool data_only, uint64_t deadline_ns) {
    struct kernel_op op;
    struct io_uring_sqe *sqe = begin(&op);
    if (!sqe) return -ECANCELED;
    io_uring_prep_fsync(sqe, fd, data_only ? IORING_FSYNC_DATASYNC : 0);
    return finish_await(&op, sqe, deadline_ns);
}

/* The registered segment that holds all of [data, data + size), or -1. */
static int fixed_index(const struct reactor *reactor, const void *data, size_t size) {
    uintptr_t offset = (uintptr_t)data - reactor->fixed_base;
    if (!reactor->fixed_segments || offset >= reactor->fixed_size || !size) return -1;
    if (size > reactor->fixed_size - offset) return -1;
    uint64_t first = offset / FIXED_SEGMENT;
    return first == (offset + size - 1) / FIXED_SEGMENT ? (int)first : -1;
}

static void prepare_read(struct io_uring_sqe *sqe, int fd, void *data, size_t size,
                         uint64_t offset) {
    int index = fixed_index(reactor_self(), data, size);
    if (index < 0)
        io_uring_prep_read(sqe, fd, data, clamp(size), offset);
    else
        io_uring_prep_read_fixed(sqe, fd, data, clamp(size), offset, index);
}

static void prepare_write(struct io_uring_sqe *sqe, int fd, const void *data, size_t size,
                          uint64_t offset) {
    int index = fixed_index(reactor_self(), data, size);
    if (index < 0)
        io_uring_prep_write(sqe, fd, data, clamp(size), offset);
    else
        io_uring_prep_write_fixed(sqe, fd, data, clamp(size), offset, index);
}

ssize_t io_read_await(int fd, void *data, size_t size, uint64_t offset, uint64_t deadline_ns) {
    struct kernel_op op;
    struct io_uring_sqe *sqe = begin(&op);
    if (!sqe) return -ECANCELED;
    prepare_read(sqe, fd, data, size, offset);
    return finish_await(&op, sqe, deadline_ns);
}

ssize_t io_write_await(int fd, const void *data, size_t size, uint64_t offset,
                       uint64_t deadline_ns) {
    struct kernel_op op;
    struct io_uring_sqe *sqe = begin(&op);
    if (!sqe) return -ECANCELED;
    prepare_write(sqe, fd, data, size, offset);
    return finish_await(&op, sqe, deadline_ns);
}

/* ---- several file operations of one fiber */

static void on_op_done(struct completion *completion, int32_t result, uint32_t flags) {
    (void)flags;
    struct io_op *op = container_of(completion, struct io_op, completion);
    op->result = result;
    op->done = true;
    if (op->waiter) fiber_release(op->waiter);
}

static struct io_uring_sqe *start(struct io_op *op) {
    struct reactor *reactor = reactor_self();
    assert(reactor);
    *op = (struct io_op){.completion.fn = on_op_done};
    return ring_sqe(reactor, &op->completion);
}

void io_read_start(struct io_op *op, int fd, void *data, size_t size, uint64_t offset) {
    struct io_uring_sqe *sqe = start(op);
    prepare_read(sqe, fd, data, size, offset);
}

void io_write_start(struct io_op *op, int fd, const void *data, size_t size, uint64_t offset) {
    struct io_uring_sqe *sqe = start(op);
    prepare_write(sqe, fd, data, size, offset);
}

ssize_t io_op_await(struct io_op *op) {
    struct fiber *fiber = fiber_self();
    assert(fiber && !op->waiter);
    if (!op->done) {
        op->waiter = fiber;
        fiber_hold_await(fiber);
    }
    assert(op->done);
    return op->result;
}

/* ---- the peer's end */

static void on_watch(struct completion *completion, int32_t result, uint32_t flags) {
    (void)flags;
    struct io_watch *watch = container_of(completion, struct io_watch, completion);
    watch->done = true;
    if (watch->waiter)
        fiber_release(watch->waiter); /* the watch is being ended: too late to cancel anything */
    else if (result > 0)
        fiber_cancel(watch->fiber);
}

void io_watch_begin(struct io_watch *watch, int fd) {
    struct reactor *reactor = reactor_self();
    assert(reactor && watch->fiber && watch->fiber->reactor == reactor);
    watch->completion.fn = on_watch;
    watch->waiter = NULL;
    watch->done = false;
    struct io_uring_sqe *sqe = ring_sqe(reactor, &watch->completion);
    io_uring_prep_poll_add(sqe, fd, POLLRDHUP | POLLHUP | POLLERR);
}

void io_watch_end_await(struct io_watch *watch) {
    struct fiber *fiber = fiber_self();
    assert(fiber && !watch->waiter);
    if (watch->done) return;
    watch->waiter = fiber;
    ring_cancel(fiber->reactor, &watch->completion);
    fiber_hold_await(fiber);
    assert(watch->done);
}
