/* Fibers: a request is one function that reads from top to bottom.
 *
 * A fiber belongs to the reactor (thread) it was spawned on and never moves. It runs until it
 * waits; functions that may wait end in _await, and after one returns anything that others can
 * change must be looked at again. A fiber must never block its thread: what blocks goes to
 * worker_call_await().
 *
 * Stacks are FIBER_STACK_SIZE bytes above a guard, pooled for each reactor; an overflow hits
 * the guard page and ends the process with a line that names the fiber. Switches are annotated for
 * ASan. */
#ifndef PENSTOCK_RUNTIME_FIBER_H
#define PENSTOCK_RUNTIME_FIBER_H

#include <stdbool.h>
#include <stdint.h>

#define FIBER_STACK_SIZE (64u * 1024)
#define FIBER_LIMIT      16384 /* fibers alive on one reactor; spawning beyond it fails */

struct fiber;
typedef void fiber_fn(void *arg);

/* Start fn(arg) as a fiber of this thread's reactor; it first runs when the spawner next waits or
 * returns to its reactor. name must be a literal. Errors: -EAGAIN at FIBER_LIMIT, -ENOMEM (also at
 * vm.max_map_count: every stack takes two mappings). */
int fiber_spawn(const char *name, fiber_fn *fn, void *arg);

struct fiber *fiber_self(void); /* NULL outside a fiber */

/* Suspend until fiber_wake(). Spurious wake-ups do not happen: one wake ends one park. Returns 0,
 * or -ETIME, or -ECANCELED; after an error the waker may still call fiber_wake only if the caller
 * arranged for it (remove yourself from the list you are waiting on first). */
int fiber_park_await(uint64_t deadline_ns);
/* Wake a parked fiber from a fiber, callback or timer of the same reactor. */
void fiber_wake(struct fiber *fiber);
/* Wake a parked fiber from any thread: exactly one call for each park, and the parker must use
 * fiber_park_remote_await(), which ignores cancellation and deadlines because the other side still
 * holds a pointer to it. */
void fiber_wake_remote(struct fiber *fiber);
void fiber_park_remote_await(void);

/* Ask a fiber of this reactor to stop: its present wait and every later one returns -ECANCELED
 * (except fiber_park_remote_await and kernel operations that must complete first). */
void fiber_cancel(struct fiber *fiber);
bool fiber_cancelled(void); /* of the calling fiber */
/* Waits between these two ignore cancellation: for clean-up and for a commit under way. Nests. */
void fiber_shield_begin(void);
void fiber_shield_end(void);

/* Let other fibers and completions of this reactor run. For long computations. */
void fiber_yield_await(void);
int fiber_sleep_await(uint64_t ms);

/* A gate that fibers of ONE reactor wait at, FIFO. */
struct fiber_queue {
    struct fiber_waiter *head, *tail;
};
int fiber_queue_wait_await(struct fiber_queue *queue, uint64_t deadline_ns);
bool fiber_queue_wake_one(struct fiber_queue *queue); /* false when nobody waits */
void fiber_queue_wake_all(struct fiber_queue *queue);

#endif
