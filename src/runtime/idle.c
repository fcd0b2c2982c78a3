/* Waiting for the first bytes of a request without a buffer of one's own.
 *
 * The kernel takes a buffer from a ring that all idle connections of a reactor share, only when
 * bytes are there. A buffer goes back when the callback returns, so the ring runs dry only within
 * one batch of completions; those that found it empty are armed again. */
#include <sys/mman.h>

#include "base/error.h"
#include "base/log.h"
#include "runtime/internal.h"

#define BUFFER_GROUP  0
#define BUFFERS_BYTES ((size_t)IDLE_BUFFERS * IO_IDLE_BUFFER_SIZE)
#define RING_BYTES    (IDLE_BUFFERS * sizeof(struct io_uring_buf))

static void *map(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static char *buffer_of(const struct reactor *reactor, unsigned id) {
    return reactor->idle_buffers + (size_t)id * IO_IDLE_BUFFER_SIZE;
}

static void add_buffer(struct reactor *reactor, unsigned id, int position) {
    io_uring_buf_ring_add(reactor->idle_ring, buffer_of(reactor, id), IO_IDLE_BUFFER_SIZE,
                          (unsigned short)id, io_uring_buf_ring_mask(IDLE_BUFFERS), position);
}

int idle_init(struct reactor *reactor) {
    reactor->idle_buffers = map(BUFFERS_BYTES); /* pages that no request reaches cost nothing */
    reactor->idle_ring = map(RING_BYTES);
    if (!reactor->idle_buffers || !reactor->idle_ring) return -ENOMEM;
    struct io_uring_buf_reg registration = {.ring_addr = (uintptr_t)reactor->idle_ring,
                                            .ring_entries = IDLE_BUFFERS,
                                            .bgid = BUFFER_GROUP};
    int err = io_uring_register_buf_ring(&reactor->ring, &registration, 0);
    if (err) {
        log_error("runtime: io_uring takes no buffer ring: %s; Linux 6.1 or later is needed",
                  error_text(err));
        return err;
    }
    io_uring_buf_ring_init(reactor->idle_ring);
    for (unsigned id = 0; id < IDLE_BUFFERS; id++) add_buffer(reactor, id, (int)id);
    io_uring_buf_ring_advance(reactor->idle_ring, IDLE_BUFFERS);
    return 0;
}

/* After the ring is closed: the kernel must not hold the buffers any more. */
void idle_deinit(struct reactor *reactor) {
    if (reactor->idle_buffers) munmap(reactor->idle_buffers, BUFFERS_BYTES);
    if (reactor->idle_ring) munmap(reactor->idle_ring, RING_BYTES);
    reactor->idle_buffers = NULL;
    reactor->idle_ring = NULL;
}

static void arm(struct io_idle *idle) {
    struct io_uring_sqe *sqe = ring_sqe(reactor_self(), &idle->completion);
    io_uring_prep_recv(sqe, idle->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = BUFFER_GROUP;
    /* A connection is seldom readable when it turns idle: poll before the first attempt. */
    sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
}

static void unlink_idle(struct reactor *reactor, struct io_idle *idle) {
    timer_clear(&idle->deadline);
    if (idle->previous)
        idle->previous->next = idle->next;
    else
        reactor->idles = idle->next;
    if (idle->next) idle->next->previous = idle->previous;
}

static void on_event(struct completion *completion, int32_t result, uint32_t flags) {
    struct reactor *reactor = reactor_self();
    struct io_idle *idle = container_of(completion, struct io_idle, completion);
    if (result == -ENOBUFS && !idle->reason) {
        arm(idle);
        return;
    }
    bool gave_up = result == -ECANCELED || result == -EINTR || result == -ENOBUFS;
    int outcome = idle->reason && gave_up ? idle->reason : result;
    const char *data = NULL;
    unsigned id = flags >> IORING_CQE_BUFFER_SHIFT;
    if (flags & IORING_CQE_F_BUFFER) data = buffer_of(reactor, id);

    unlink_idle(reactor, idle);
    idle->on_data(idle, outcome > 0 ? data : NULL, outcome); /* idle may be gone after this */
    if (data) {
        add_buffer(reactor, id, 0);
        io_uring_buf_ring_advance(reactor->idle_ring, 1);
    }
}

static void give_up(struct io_idle *idle, int reason) {
    if (idle->reason) return;
    idle->reason = reason;
    ring_cancel(reactor_self(), &idle->completion);
}

static void on_deadline(struct timer *timer) {
    give_up(container_of(timer, struct io_idle, deadline), -ETIME);
}

void io_idle_start(struct io_idle *idle, int fd, uint64_t deadline_ns) {
    struct reactor *reactor = reactor_self();
    assert(reactor && idle->on_data);
    idle->completion.fn = on_event;
    idle->deadline = (struct timer){.fn = on_deadline};
    idle->fd = fd;
    idle->reason = 0;
    idle->previous = NULL;
    idle->next = reactor->idles;
    if (idle->next) idle->next->previous = idle;
    reactor->idles = idle;
    arm(idle);
    timer_set(&idle->deadline, deadline_ns);
    if (reactor->stopping) io_idle_cancel(idle);
}

void io_idle_cancel(struct io_idle *idle) {
    give_up(idle, -ECANCELED);
}

void idle_cancel_all(struct reactor *reactor) {
    for (struct io_idle *idle = reactor->idles; idle; idle = idle->next) io_idle_cancel(idle);
}
