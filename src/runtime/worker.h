/* Worker threads, for work that blocks or computes for long. The pool of threads is the
 * runtime's; the queue is FIFO and bounded by the number of fibers. */
#ifndef PENSTOCK_RUNTIME_WORKER_H
#define PENSTOCK_RUNTIME_WORKER_H

#include <stdbool.h>

#include "runtime/reactor.h"

/* Run fn(arg) on a worker thread and suspend the calling fiber until it has returned. Shielded:
 * once started it runs to its end, because fn uses the caller's memory. */
void worker_call_await(void (*fn)(void *arg), void *arg);

/* The same in two steps, so that the fiber can go on meanwhile (a digest of one block while the
 * next one is received). The job is the caller's memory until its wait returned. */
struct worker_job {
    void (*fn)(void *arg);
    void *arg;
    struct fiber *waiter;
    bool done;
    struct reactor *reactor;
    struct message message; /* the way to the workers, and back */
};
void worker_job_start(struct worker_job *job, void (*fn)(void *arg), void *arg);
void worker_job_await(struct worker_job *job);

#endif
