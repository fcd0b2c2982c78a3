/* Timers: a 4-ary heap for each reactor, numbered from 1 so that index 0 means "not set".
 *
 * The slots are address space reserved once, and become memory as they are used, so that setting a
 * timer can neither allocate nor fail. A slot repeats the deadline: comparing does not touch the
 * timers themselves. */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/log.h"
#include "runtime/internal.h"

#define HEAP_BYTES ((TIMER_LIMIT + 1) * sizeof(struct timer_slot))

int timer_init(struct reactor *reactor) {
    void *slots = mmap(NULL, HEAP_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slots == MAP_FAILED) return -errno;
    reactor->timers = slots;
    reactor->timer_count = 0;
    return 0;
}

void timer_deinit(struct reactor *reactor) {
    if (reactor->timers) munmap(reactor->timers, HEAP_BYTES);
    reactor->timers = NULL;
}

static void place(struct reactor *reactor, uint32_t index, struct timer_slot slot) {
    reactor->timers[index] = slot;
    slot.timer->heap_index = index;
}

static uint32_t parent_of(uint32_t index) {
    return (index - 2) / 4 + 1;
}

static uint32_t first_child_of(uint32_t index) {
    return 4 * (index - 1) + 2;
}

static void sift_up(struct reactor *reactor, uint32_t index, struct timer_slot slot) {
    while (index > 1) {
        uint32_t parent = parent_of(index);
        if (reactor->timers[parent].deadline_ns <= slot.deadline_ns) break;
        place(reactor, index, reactor->timers[parent]);
        index = parent;
    }
    place(reactor, index, slot);
}

static void sift_down(struct reactor *reactor, uint32_t index, struct timer_slot slot) {
    for (;;) {
        uint32_t first = first_child_of(index);
        if (first > reactor->timer_count) break;
        uint32_t last = first + 3 < reactor->timer_count ? first + 3 : reactor->timer_count;
        uint32_t least = first;
        for (uint32_t child = first + 1; child <= last; child++) {
            if (reactor->timers[child].deadline_ns < reactor->timers[least].deadline_ns)
                least = child;
        }
        if (slot.deadline_ns <= reactor->timers[least].deadline_ns) break;
        place(reactor, index, reactor->timers[least]);
        index = least;
    }
    place(reactor, index, slot);
}

/* Put a slot where a vacant or outdated one was. */
static void settle(struct reactor *reactor, uint32_t index, struct timer_slot slot) {
    if (index > 1 && slot.deadline_ns < reactor->timers[parent_of(index)].deadline_ns)
        sift_up(reactor, index, slot);
    else
        sift_down(reactor, index, slot);
}

void timer_set(struct timer *timer, uint64_t deadline_ns) {
    struct reactor *reactor = reactor_self();
    assert(reactor && timer->fn);
    if (deadline_ns == NO_DEADLINE) {
        timer_clear(timer);
        return;
    }
    timer->deadline_ns = deadline_ns;
    struct timer_slot slot = {deadline_ns, timer};
    if (timer->heap_index) {
        assert(reactor->timers[timer->heap_index].timer == timer);
        settle(reactor, timer->heap_index, slot);
        return;
    }
    if (reactor->timer_count == TIMER_LIMIT) {
        log_error("runtime: more than %u timers on one reactor", TIMER_LIMIT);
        abort();
    }
    sift_up(reactor, ++reactor->timer_count, slot);
}

void timer_clear(struct timer *timer) {
    struct reactor *reactor = reactor_self();
    uint32_t index = timer->heap_index;
    if (!index) return;
    assert(reactor && index <= reactor->timer_count && reactor->timers[index].timer == timer);
    timer->heap_index = 0;
    struct timer_slot last = reactor->timers[reactor->timer_count--];
    if (last.timer != timer) settle(reactor, index, last);
}

uint64_t timer_next_ns(const struct reactor *reactor) {
    return reactor->timer_count ? reactor->timers[1].deadline_ns : NO_DEADLINE;
}

/* A timer that sets itself to a time in the past fires again in the next turn of the loop, not in
 * this one: completions must get their turn too. */
void timer_expire(struct reactor *reactor) {
    uint32_t budget = reactor->timer_count;
    if (!budget) return;
    uint64_t now = clock_now_ns();
    while (budget-- && reactor->timer_count && reactor->timers[1].deadline_ns <= now) {
        struct timer *timer = reactor->timers[1].timer;
        timer_clear(timer);
        timer->fn(timer);
    }
}
