/* A reactor: one thread with its own io_uring for sockets, files and timers.
 *
 * Nothing is shared between reactors on the hot path; they talk by messages. Every wait has a
 * deadline. A buffer given to an operation belongs to the kernel until the operation completes: on
 * a deadline or a cancellation the operation is cancelled AND waited for before the call returns.
 */
#ifndef PENSTOCK_RUNTIME_REACTOR_H
#define PENSTOCK_RUNTIME_REACTOR_H

#include <liburing.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "runtime/fiber.h"

struct reactor;
struct runtime;

/* What the kernel's user_data points to. Part of the structures below, not for users. */
struct completion {
    void (*fn)(struct completion *completion, int32_t result, uint32_t flags);
};

/* ---- timers: intrusive, on the calling reactor; fn runs in its loop and must not wait. */
struct timer {
    void (*fn)(struct timer *timer);
    uint64_t deadline_ns;
    uint32_t heap_index; /* 0 when not set */
};
#define TIMER_LIMIT (1u << 20) /* timers set on one reactor; beyond it the process ends */
void timer_set(struct timer *timer, uint64_t deadline_ns); /* moves it; NO_DEADLINE clears it */
void timer_clear(struct timer *timer);                     /* no effect when not set */

struct runtime_options {
    unsigned reactors; /* 1 to REACTOR_LIMIT */
    unsigned workers;  /* threads for what blocks; at least 1 */
    void *fixed_base;  /* memory to register as fixed buffers with every ring; NULL for none */
    uint64_t fixed_size;
    bool pin_threads; /* bind reactor i to the i-th allowed CPU */
};
#define REACTOR_LIMIT 256

struct runtime_stats {
    uint64_t fibers_alive, fibers_started, switches, sqes, enters, messages, worker_jobs;
    uint64_t stacks;    /* mapped: those in use and those kept for the next fibers */
    bool fixed_buffers; /* registration worked; else plain reads and writes are used */
};

/* Start the reactors and workers. Returns when all run. A failed io_uring set-up is an error with
 * its errno (and one log line that names the cause: seccomp, sysctl io_uring_disabled, memlock). */
int runtime_start(const struct runtime_options *options, struct runtime **runtime);
/* Stop: every fiber, accept and idle wait is cancelled, waited for, and the threads joined. Fibers
 * spawned meanwhile are born cancelled. Timers without a fiber do not fire any more. Call from
 * outside. */
void runtime_stop(struct runtime **runtime);
unsigned runtime_reactor_count(const struct runtime *runtime);
struct reactor *runtime_reactor(struct runtime *runtime, unsigned index);
void runtime_stats(struct runtime *runtime, struct runtime_stats *stats);

struct reactor *reactor_self(void); /* NULL on other threads */
unsigned reactor_index(const struct reactor *reactor);
struct runtime *reactor_runtime(struct reactor *reactor);

/* ---- messages: run fn(arg) on another reactor, from any thread, in order of sending. fn runs in
 * the reactor's loop: it may spawn a fiber or wake one, and must not wait. The message is the
 * caller's memory until fn is called. */
struct message {
    void (*fn)(void *arg);
    void *arg;
    struct message *next;
};
void reactor_post(struct reactor *reactor, struct message *message);

/* Run fn(arg) as a fiber on `reactor` from a thread outside, and wait for it (tests, start-up). */
int reactor_run(struct reactor *reactor, const char *name, fiber_fn *fn, void *arg);

/* ---- kernel operations. All return what the system call would, negative errno, -ETIME or
 * -ECANCELED; what was done before a deadline or a cancellation took effect is returned as done.
 * Sends never raise SIGPIPE. Sockets must be in blocking mode, as socket() and accept give them:
 * with O_NONBLOCK the kernel answers -EAGAIN in place of waiting. */
ssize_t io_recv_await(int fd, void *data, size_t size, int flags, uint64_t deadline_ns);
ssize_t io_send_await(int fd, const void *data, size_t size, int flags, uint64_t deadline_ns);
ssize_t io_sendmsg_await(int fd, const struct msghdr *msg, int flags, uint64_t deadline_ns);
ssize_t io_recvmsg_await(int fd, struct msghdr *msg, int flags, uint64_t deadline_ns);
int io_poll_await(int fd, unsigned events, uint64_t deadline_ns); /* returned events or error */
int io_accept_await(int fd, int flags, uint64_t deadline_ns);
int io_connect_await(int fd, const struct sockaddr *address, socklen_t size, uint64_t deadline_ns);
int io_fsync_await(int fd, bool data_only, uint64_t deadline_ns);
/* Buffers inside the registered memory use the fixed variants by themselves. */
ssize_t io_read_await(int fd, void *data, size_t size, uint64_t offset, uint64_t deadline_ns);
ssize_t io_write_await(int fd, const void *data, size_t size, uint64_t offset,
                       uint64_t deadline_ns);

/* Several file operations in flight from one fiber: start them, then wait for each. The io_op is
 * the caller's memory and must stay until its wait returned. */
struct io_op {
    int32_t result;
    bool done;
    struct fiber *waiter;
    struct completion completion;
};
void io_read_start(struct io_op *op, int fd, void *data, size_t size, uint64_t offset);
void io_write_start(struct io_op *op, int fd, const void *data, size_t size, uint64_t offset);
ssize_t io_op_await(struct io_op *op); /* shielded: no deadline, no cancellation */

/* Watch a socket for the peer's end (POLLRDHUP|POLLHUP|POLLERR) and cancel `fiber` then. The watch
 * is the caller's memory; unwatch waits until the kernel has let go of it. */
struct io_watch {
    struct fiber *fiber; /* set before io_watch_begin */
    struct fiber *waiter;
    struct completion completion;
    bool done;
};
void io_watch_begin(struct io_watch *watch, int fd);
void io_watch_end_await(struct io_watch *watch);

/* ---- callbacks without a fiber: what an idle connection costs is its own struct only. */

/* Multishot accept: on_accept(ctx, fd, err) for every connection, in the reactor's loop; after
 * accept_stop, exactly one last call with fd -1 and -ECANCELED. EMFILE and the like come as err
 * and accepting goes on after a pause. */
struct io_accept {
    void (*on_accept)(void *ctx, int fd, int err);
    void *ctx;
    /* the rest is the reactor's */
    struct completion completion;
    struct timer pause;
    struct io_accept *previous, *next;
    int listen_fd;
    bool armed, stopping;
};
void io_accept_start(struct io_accept *accept, int listen_fd);
void io_accept_stop(struct io_accept *accept);

/* Wait for the first bytes of the next request without holding a buffer: the kernel picks one of
 * the reactor's shared receive buffers when data comes (IORING buffer ring). on_data is called in
 * the reactor's loop with size > 0 and data valid ONLY during the call, or size 0 at the peer's
 * end, or a negative errno (-ETIME after the deadline, -ECANCELED after io_idle_cancel). Exactly
 * one call for each start. */
#define IO_IDLE_BUFFER_SIZE (16u * 1024)
struct io_idle {
    void (*on_data)(struct io_idle *idle, const void *data, ssize_t size);
    /* the rest is the reactor's */
    struct completion completion;
    struct timer deadline;
    struct io_idle *previous, *next;
    int fd;
    int reason; /* why it is being cancelled; 0 while it is not */
};
void io_idle_start(struct io_idle *idle, int fd, uint64_t deadline_ns);
void io_idle_cancel(struct io_idle *idle);

#endif
