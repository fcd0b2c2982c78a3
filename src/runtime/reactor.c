/* A reactor's thread: it sets up its parts, then turns: fibers, messages, timers, kernel. */
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "runtime/internal.h"

static _Thread_local struct reactor *current;

struct reactor *reactor_self(void) {
    return current;
}

unsigned reactor_index(const struct reactor *reactor) {
    return reactor->index;
}

struct runtime *reactor_runtime(struct reactor *reactor) {
    return reactor->runtime;
}

/* Each entry is given back before its function runs, which may submit more. */
static void run_completions(struct reactor *reactor) {
    struct io_uring_cqe *cqe;
    unsigned head;
    io_uring_for_each_cqe(&reactor->ring, head, cqe) {
        struct completion *completion = io_uring_cqe_get_data(cqe);
        int32_t result = cqe->res;
        uint32_t flags = cqe->flags;
        io_uring_cq_advance(&reactor->ring, 1);
        if (completion) completion->fn(completion, result, flags);
    }
}

static void turn(struct reactor *reactor) {
    while (!reactor->quit) {
        fiber_run_ready(reactor);
        message_run(reactor);
        timer_expire(reactor);
        ring_enter(reactor);
        run_completions(reactor);
    }
}

static int set_up(struct reactor *reactor) {
    int err = stack_guard_begin(reactor);
    if (!err) err = timer_init(reactor);
    fiber_init(reactor);
    if (!err) err = ring_init(reactor);
    if (err) return err;
    err = idle_init(reactor);
    if (err)
        ring_deinit(reactor);
    else
        message_arm(reactor);
    return err;
}

static void tear_down(struct reactor *reactor, bool with_ring) {
    if (with_ring) {
        fiber_deinit(reactor);
        ring_deinit(reactor);
    }
    idle_deinit(reactor);
    timer_deinit(reactor);
    stack_guard_end(reactor);
}

void *reactor_main(void *arg) {
    struct reactor *reactor = arg;
    current = reactor;
    char name[16];
    snprintf(name, sizeof name, "penstock-r%u", reactor->index);
    pthread_setname_np(pthread_self(), name);
    runtime_block_signals();

    int own_error = set_up(reactor);
    int err = runtime_reactor_up(reactor->runtime, own_error);
    if (!err) turn(reactor);
    /* Another reactor may still name this one's ring in a wake-up. */
    runtime_reactor_left(reactor->runtime);
    tear_down(reactor, own_error == 0);
    current = NULL;
    return NULL;
}

/* ---- running a fiber from outside */

struct outside_run {
    struct message message;
    const char *name;
    fiber_fn *fn;
    void *arg;
    int err;
    bool done;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
};

static void outside_done(struct outside_run *run, int err) {
    pthread_mutex_lock(&run->mutex);
    run->err = err;
    run->done = true;
    pthread_cond_signal(&run->changed); /* under the lock: the waiter owns this memory */
    pthread_mutex_unlock(&run->mutex);
}

static void outside_fiber(void *arg) {
    struct outside_run *run = arg;
    run->fn(run->arg);
    outside_done(run, 0);
}

static void outside_message(void *arg) {
    struct outside_run *run = arg;
    int err = fiber_spawn(run->name, outside_fiber, run);
    if (err) outside_done(run, err);
}

int reactor_run(struct reactor *reactor, const char *name, fiber_fn *fn, void *arg) {
    assert(!reactor_self());
    struct outside_run run = {.name = name, .fn = fn, .arg = arg};
    run.message = (struct message){.fn = outside_message, .arg = &run};
    pthread_mutex_init(&run.mutex, NULL);
    pthread_cond_init(&run.changed, NULL);
    reactor_post(reactor, &run.message);
    pthread_mutex_lock(&run.mutex);
    while (!run.done) pthread_cond_wait(&run.changed, &run.mutex);
    pthread_mutex_unlock(&run.mutex);
    pthread_cond_destroy(&run.changed);
    pthread_mutex_destroy(&run.mutex);
    return run.err;
}
