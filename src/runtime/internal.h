/* What the files of runtime/ share: a reactor's state, a fiber's state, and the few functions that
 * are nobody else's business. Everything in a struct reactor belongs to its thread, except where it
 * says otherwise. */
#ifndef PENSTOCK_RUNTIME_INTERNAL_H
#define PENSTOCK_RUNTIME_INTERNAL_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "runtime/reactor.h"
#include "runtime/worker.h"

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#define RING_SQ_DEPTH        256
#define RING_CQ_DEPTH        8192
#define FIXED_SEGMENT        (1ull << 30) /* the most that the kernel takes as one fixed buffer */
#define FIXED_SEGMENT_LIMIT  1024
#define IDLE_BUFFERS         256 /* a power of two */
#define STACKS_KEPT          64  /* free stacks that are never given back */
#define ALTERNATE_STACK_SIZE (64u * 1024)

/* ---- the context switch of Boost.Context */
typedef void *fcontext_t;
typedef struct {
    fcontext_t fctx; /* where the jump came from */
    void *data;
} transfer_t;
extern transfer_t jump_fcontext(fcontext_t to, void *data);
extern fcontext_t make_fcontext(void *top, size_t size, void (*fn)(transfer_t));

enum fiber_state {
    FIBER_FREE,
    FIBER_READY,
    FIBER_RUNNING,
    FIBER_PARKED, /* until a wake, a deadline or a cancellation */
    FIBER_REMOTE, /* until a wake from another thread */
    FIBER_HELD,   /* until the one thing it waits for has happened */
    FIBER_ENDED,
};

struct kernel_op;

/* Lies at the top of its own stack mapping. */
struct fiber {
    fcontext_t context;
    struct reactor *reactor;
    struct fiber *next; /* in the ready queue or the list of free fibers */
    enum fiber_state state;
    int wait_result;
    unsigned shield;
    bool cancelled;
    bool remote_woken;       /* a remote wake came before its park */
    atomic_bool wake_posted; /* set by the waking thread, cleared by the reactor */
    struct kernel_op *op;    /* the kernel operation under way, if any */
    struct timer deadline;   /* of the present wait */
    struct message remote_wake;
    const char *name;
    fiber_fn *fn;
    void *arg;
    struct fiber *alive_previous, *alive_next;
    void *fake_stack; /* ASan's */
};

/* Written by the reactor's thread only, read by anyone. */
struct counters {
    _Atomic uint64_t fibers_alive, fibers_started, switches, sqes, enters, messages, worker_jobs;
    _Atomic uint64_t stacks;
};

struct timer_slot {
    uint64_t deadline_ns;
    struct timer *timer;
};

struct reactor {
    struct io_uring ring;
    struct runtime *runtime;
    unsigned index;

    /* fibers */
    fcontext_t scheduler;
    struct fiber *running;
    struct fiber *ready_head, *ready_tail;
    struct fiber *alive; /* list of all that live */
    struct fiber *free_fibers;
    unsigned free_count;
    unsigned free_low; /* the lowest free_count since the last trim */
    struct timer trim;
    const void *scheduler_stack; /* ASan's */
    size_t scheduler_stack_size;
    void *alternate_stack;

    /* timers */
    struct timer_slot *timers;
    uint32_t timer_count;

    /* callbacks without a fiber */
    struct io_accept *accepts;
    struct io_idle *idles;
    struct io_uring_buf_ring *idle_ring;
    char *idle_buffers;

    /* messages: the first three are touched by other threads */
    _Alignas(64) _Atomic(struct message *) inbox;
    atomic_bool asleep;  /* the next sender must wake the ring */
    atomic_uint posting; /* outside threads that are between push and wake */
    _Alignas(64) int wake_fd;
    struct completion woken, wake_failed;

    unsigned fixed_segments; /* 0: not registered */
    uintptr_t fixed_base;
    uint64_t fixed_size;

    bool stopping; /* everything is being cancelled */
    bool quit;     /* leave the loop */
    int start_error;
    pthread_t thread;
    struct counters counters;
};

struct worker_pool {
    pthread_mutex_t mutex;
    pthread_cond_t work;
    struct message *head, *tail;
    unsigned waiting;
    bool quit;
    unsigned thread_count;
    pthread_t *threads;
};

struct runtime {
    struct runtime_options options;
    struct reactor *reactors;
    unsigned reactor_count;
    unsigned threads_started;
    struct worker_pool workers;

    /* start and end of the reactor threads go in step */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    unsigned reactors_up, reactors_left;
    bool memlock_warned;
};

static inline void counter_add(_Atomic uint64_t *counter, uint64_t n) {
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + n, memory_order_relaxed);
}

static inline void counter_subtract(_Atomic uint64_t *counter, uint64_t n) {
    counter_add(counter, -n);
}

/* ---- fiber.c */
void fiber_init(struct reactor *reactor);
void fiber_deinit(struct reactor *reactor);
void fiber_run_ready(struct reactor *reactor);
void fiber_cancel_all(struct reactor *reactor);
bool fiber_interrupted(const struct fiber *fiber); /* cancelled, and not shielded */
/* Wait for one certain event of this reactor, whatever else happens; release ends the wait. */
void fiber_hold_await(struct fiber *fiber);
void fiber_release(struct fiber *fiber);

/* ---- stack.c */
struct fiber *stack_create(void **bottom, void **top);
void stack_destroy(struct fiber *fiber);
void stack_bounds(struct fiber *fiber, const void **bottom, size_t *size);
void stack_forget(struct fiber *fiber);         /* what ASan knows of frames that are gone */
int stack_guard_begin(struct reactor *reactor); /* this thread reports overflows from now on */
void stack_guard_end(struct reactor *reactor);

/* ---- timer.c */
int timer_init(struct reactor *reactor);
void timer_deinit(struct reactor *reactor);
void timer_expire(struct reactor *reactor);
uint64_t timer_next_ns(const struct reactor *reactor); /* NO_DEADLINE when none is set */

/* ---- ring.c */
int ring_init(struct reactor *reactor);
void ring_deinit(struct reactor *reactor);
struct io_uring_sqe *ring_sqe(struct reactor *reactor, struct completion *completion);
void ring_cancel(struct reactor *reactor, struct completion *completion);
void ring_enter(struct reactor *reactor); /* submit; sleep when there is nothing to run */

/* ---- message.c */
int message_init(struct reactor *reactor);
void message_arm(struct reactor *reactor); /* listen for wake-ups; on the reactor's thread */
void message_deinit(struct reactor *reactor);
void message_run(struct reactor *reactor);

/* ---- io.c */
void io_cancel(struct fiber *fiber, int reason); /* of the operation that the fiber waits for */

/* ---- accept.c, idle.c */
void accept_cancel_all(struct reactor *reactor);
int idle_init(struct reactor *reactor);
void idle_deinit(struct reactor *reactor);
void idle_cancel_all(struct reactor *reactor);

/* ---- reactor.c */
void *reactor_main(void *arg);

/* ---- worker.c */
int worker_start(struct worker_pool *pool, unsigned count);
void worker_stop(struct worker_pool *pool);

/* ---- runtime.c */
void runtime_block_signals(void);
int runtime_reactor_up(struct runtime *runtime, int err); /* waits for all; the first error */
void runtime_reactor_left(struct runtime *runtime);       /* waits for all */

#endif
