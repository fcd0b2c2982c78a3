/* Fibers: life, waiting, waking, cancelling, and the switch between a fiber and its reactor's loop.
 * Stacks come from stack.c; waits for the kernel are built in io.c from hold and release. */
#include "base/error.h"
#include "runtime/internal.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#define TRIM_INTERVAL_MS 500

struct fiber *fiber_self(void) {
    struct reactor *reactor = reactor_self();
    return reactor ? reactor->running : NULL;
}

/* ---- the switch. ASan must know which stack is in use, before and after every jump. */

static void arrive_on_fiber(struct reactor *reactor, struct fiber *fiber, transfer_t from) {
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fiber->fake_stack, &reactor->scheduler_stack,
                                    &reactor->scheduler_stack_size);
#else
    (void)fiber;
#endif
    reactor->scheduler = from.fctx;
}

static void leave_fiber(struct reactor *reactor, struct fiber *fiber) {
#ifdef __SANITIZE_ADDRESS__
    bool for_ever = fiber->state == FIBER_ENDED;
    __sanitizer_start_switch_fiber(for_ever ? NULL : &fiber->fake_stack, reactor->scheduler_stack,
                                   reactor->scheduler_stack_size);
#endif
    transfer_t from = jump_fcontext(reactor->scheduler, NULL);
    arrive_on_fiber(reactor, fiber, from);
}

static void fiber_main(transfer_t from) {
    struct fiber *fiber = from.data;
    arrive_on_fiber(fiber->reactor, fiber, from);
    fiber->fn(fiber->arg);
    assert(fiber->shield == 0);
    fiber->state = FIBER_ENDED;
    leave_fiber(fiber->reactor, fiber);
    __builtin_unreachable();
}

static void enter_fiber(struct reactor *reactor, struct fiber *fiber) {
    reactor->running = fiber;
    fiber->state = FIBER_RUNNING;
    counter_add(&reactor->counters.switches, 1);
#ifdef __SANITIZE_ADDRESS__
    void *fake_stack;
    const void *bottom;
    size_t size;
    stack_bounds(fiber, &bottom, &size);
    __sanitizer_start_switch_fiber(&fake_stack, bottom, size);
#endif
    transfer_t from = jump_fcontext(fiber->context, fiber);
#ifdef __SANITIZE_ADDRESS__
    __sanitizer_finish_switch_fiber(fake_stack, NULL, NULL);
#endif
    fiber->context = from.fctx;
    reactor->running = NULL;
}

static void suspend(struct fiber *fiber, enum fiber_state state) {
    assert(fiber->state == FIBER_RUNNING);
    fiber->state = state;
    leave_fiber(fiber->reactor, fiber);
}

static void make_ready(struct fiber *fiber) {
    struct reactor *reactor = fiber->reactor;
    fiber->state = FIBER_READY;
    fiber->next = NULL;
    if (reactor->ready_tail)
        reactor->ready_tail->next = fiber;
    else
        reactor->ready_head = fiber;
    reactor->ready_tail = fiber;
}

/* ---- life */

static void finish_park(struct fiber *fiber, int result) {
    timer_clear(&fiber->deadline);
    fiber->wait_result = result;
    make_ready(fiber);
}

static void on_remote_wake(void *arg) {
    struct fiber *fiber = arg;
    atomic_store_explicit(&fiber->wake_posted, false, memory_order_relaxed);
    if (fiber->state == FIBER_REMOTE) {
        make_ready(fiber);
        return;
    }
    fiber->remote_woken = true;
}

static struct fiber *take_fiber(struct reactor *reactor, void **bottom, void **top) {
    struct fiber *fiber = reactor->free_fibers;
    if (!fiber) {
        fiber = stack_create(bottom, top);
        if (fiber) counter_add(&reactor->counters.stacks, 1);
        return fiber;
    }
    reactor->free_fibers = fiber->next;
    reactor->free_count--;
    if (reactor->free_count < reactor->free_low) reactor->free_low = reactor->free_count;
    const void *low;
    size_t size;
    stack_bounds(fiber, &low, &size);
    *bottom = (void *)low;
    *top = fiber;
    return fiber;
}

int fiber_spawn(const char *name, fiber_fn *fn, void *arg) {
    struct reactor *reactor = reactor_self();
    assert(reactor && name && fn);
    if (atomic_load_explicit(&reactor->counters.fibers_alive, memory_order_relaxed) == FIBER_LIMIT)
        return -EAGAIN;
    void *bottom, *top;
    struct fiber *fiber = take_fiber(reactor, &bottom, &top);
    if (!fiber) return -ENOMEM;

    *fiber = (struct fiber){
        .reactor = reactor,
        .context = make_fcontext(top, (size_t)((char *)top - (char *)bottom), fiber_main),
        .cancelled = reactor->stopping,
        .remote_wake = {.fn = on_remote_wake, .arg = fiber},
        .name = name,
        .fn = fn,
        .arg = arg,
        .alive_next = reactor->alive,
    };
    if (reactor->alive) reactor->alive->alive_previous = fiber;
    reactor->alive = fiber;
    counter_add(&reactor->counters.fibers_alive, 1);
    counter_add(&reactor->counters.fibers_started, 1);
    make_ready(fiber);
    return 0;
}

static void give_fiber(struct reactor *reactor, struct fiber *fiber) {
    assert(!fiber->op && !fiber->deadline.heap_index);
    assert(!atomic_load_explicit(&fiber->wake_posted, memory_order_relaxed));
    if (fiber->alive_previous)
        fiber->alive_previous->alive_next = fiber->alive_next;
    else
        reactor->alive = fiber->alive_next;
    if (fiber->alive_next) fiber->alive_next->alive_previous = fiber->alive_previous;
    counter_subtract(&reactor->counters.fibers_alive, 1);

    stack_forget(fiber);
    fiber->state = FIBER_FREE;
    fiber->next = reactor->free_fibers;
    reactor->free_fibers = fiber;
    if (++reactor->free_count > STACKS_KEPT && !reactor->trim.heap_index) {
        reactor->free_low = reactor->free_count;
        timer_set(&reactor->trim, clock_deadline_ms(TRIM_INTERVAL_MS));
    }
}

static void drop_free_fibers(struct reactor *reactor, unsigned keep) {
    while (reactor->free_count > keep) {
        struct fiber *fiber = reactor->free_fibers;
        reactor->free_fibers = fiber->next;
        reactor->free_count--;
        stack_destroy(fiber);
        counter_subtract(&reactor->counters.stacks, 1);
    }
}

/* Stacks that lay free through a whole interval are surplus: a burst of connections must not leave
 * its memory behind, and a steady load must not map and unmap. */
static void on_trim(struct timer *timer) {
    struct reactor *reactor = container_of(timer, struct reactor, trim);
    unsigned surplus = reactor->free_low;
    unsigned keep = reactor->free_count - surplus;
    drop_free_fibers(reactor, keep > STACKS_KEPT ? keep : STACKS_KEPT);
    reactor->free_low = reactor->free_count;
    if (reactor->free_count > STACKS_KEPT)
        timer_set(&reactor->trim, clock_deadline_ms(TRIM_INTERVAL_MS));
}

void fiber_init(struct reactor *reactor) {
    reactor->trim.fn = on_trim;
}

void fiber_deinit(struct reactor *reactor) {
    assert(!reactor->alive);
    timer_clear(&reactor->trim);
    drop_free_fibers(reactor, 0);
}

/* Run those that are ready now; those that become ready meanwhile wait for the next turn. */
void fiber_run_ready(struct reactor *reactor) {
    struct fiber *fiber = reactor->ready_head;
    reactor->ready_head = reactor->ready_tail = NULL;
    while (fiber) {
        struct fiber *next = fiber->next;
        enter_fiber(reactor, fiber);
        if (fiber->state == FIBER_ENDED) give_fiber(reactor, fiber);
        fiber = next;
    }
}

/* ---- waiting */

bool fiber_interrupted(const struct fiber *fiber) {
    return fiber->cancelled && fiber->shield == 0;
}

static void on_park_deadline(struct timer *timer) {
    finish_park(container_of(timer, struct fiber, deadline), -ETIME);
}

int fiber_park_await(uint64_t deadline_ns) {
    struct fiber *fiber = fiber_self();
    assert(fiber);
    if (fiber_interrupted(fiber)) return -ECANCELED;
    if (deadline_ns != NO_DEADLINE) {
        fiber->deadline.fn = on_park_deadline;
        timer_set(&fiber->deadline, deadline_ns);
    }
    suspend(fiber, FIBER_PARKED);
    return fiber->wait_result;
}

void fiber_wake(struct fiber *fiber) {
    assert(fiber->reactor == reactor_self());
    if (fiber->state == FIBER_PARKED) {
        finish_park(fiber, 0);
        return;
    }
    /* Its park has just failed, but it has not run since and still stands in the waker's list:
     * the wake counts. */
    assert(fiber->state == FIBER_READY && fiber->wait_result < 0);
    fiber->wait_result = 0;
}

void fiber_wake_remote(struct fiber *fiber) {
    bool twice = atomic_exchange_explicit(&fiber->wake_posted, true, memory_order_relaxed);
    assert(!twice);
    (void)twice;
    reactor_post(fiber->reactor, &fiber->remote_wake);
}

void fiber_park_remote_await(void) {
    struct fiber *fiber = fiber_self();
    assert(fiber);
    if (fiber->remote_woken)
        fiber->remote_woken = false;
    else
        suspend(fiber, FIBER_REMOTE);
}

void fiber_hold_await(struct fiber *fiber) {
    suspend(fiber, FIBER_HELD);
}

void fiber_release(struct fiber *fiber) {
    assert(fiber->state == FIBER_HELD);
    make_ready(fiber);
}

void fiber_yield_await(void) {
    struct fiber *fiber = fiber_self();
    assert(fiber);
    make_ready(fiber);
    leave_fiber(fiber->reactor, fiber);
}

int fiber_sleep_await(uint64_t ms) {
    int err = fiber_park_await(clock_deadline_ms(ms));
    return err == -ETIME ? 0 : err;
}

/* ---- cancelling */

void fiber_cancel(struct fiber *fiber) {
    assert(fiber->reactor == reactor_self());
    fiber->cancelled = true;
    if (!fiber_interrupted(fiber)) return;
    if (fiber->state == FIBER_PARKED)
        finish_park(fiber, -ECANCELED);
    else if (fiber->op)
        io_cancel(fiber, -ECANCELED);
}

void fiber_cancel_all(struct reactor *reactor) {
    for (struct fiber *fiber = reactor->alive; fiber; fiber = fiber->alive_next)
        fiber_cancel(fiber);
}

bool fiber_cancelled(void) {
    struct fiber *fiber = fiber_self();
    assert(fiber);
    return fiber->cancelled;
}

void fiber_shield_begin(void) {
    struct fiber *fiber = fiber_self();
    assert(fiber);
    fiber->shield++;
}

void fiber_shield_end(void) {
    struct fiber *fiber = fiber_self();
    assert(fiber && fiber->shield > 0);
    fiber->shield--;
}

/* ---- gates */

struct fiber_waiter {
    struct fiber *fiber;
    struct fiber_waiter *previous, *next;
};

static void queue_remove(struct fiber_queue *queue, struct fiber_waiter *waiter) {
    if (waiter->previous)
        waiter->previous->next = waiter->next;
    else
        queue->head = waiter->next;
    if (waiter->next)
        waiter->next->previous = waiter->previous;
    else
        queue->tail = waiter->previous;
}

int fiber_queue_wait_await(struct fiber_queue *queue, uint64_t deadline_ns) {
    /* This frame lives until the waiter is out of the queue again. */
    struct fiber_waiter waiter = {.fiber = fiber_self(), .previous = queue->tail};
    if (queue->tail)
        queue->tail->next = &waiter;
    else
        // cppcheck-suppress autoVariables
        queue->head = &waiter;
    // cppcheck-suppress autoVariables
    queue->tail = &waiter;
    int err = fiber_park_await(deadline_ns);
    if (err) queue_remove(queue, &waiter); /* else the waker has done so */
    return err;
}

bool fiber_queue_wake_one(struct fiber_queue *queue) {
    struct fiber_waiter *waiter = queue->head;
    if (!waiter) return false;
    queue_remove(queue, waiter);
    fiber_wake(waiter->fiber);
    return true;
}

void fiber_queue_wake_all(struct fiber_queue *queue) {
    while (fiber_queue_wake_one(queue)) continue;
}
