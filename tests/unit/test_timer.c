/* Timers fire in the order of their deadlines, once, unless they are cleared or moved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "runtime/reactor.h"

#define MANY 5000

static struct runtime *start(void) {
    struct runtime_options options = {.reactors = 1, .workers = 1};
    struct runtime *runtime;
    assert_int_equal(runtime_start(&options, &runtime), 0);
    return runtime;
}

static void run(struct runtime *runtime, fiber_fn *fn, void *arg) {
    assert_int_equal(reactor_run(runtime_reactor(runtime, 0), "test", fn, arg), 0);
}

struct tick {
    struct timer timer;
    struct book *book;
    unsigned number;
};

struct book {
    struct tick ticks[MANY];
    unsigned fired[MANY];
    unsigned count;
    uint64_t base;
};

static void on_tick(struct timer *timer) {
    struct tick *tick = (struct tick *)timer;
    assert_int_equal(timer->heap_index, 0);
    assert_null(fiber_self());
    tick->book->fired[tick->book->count++] = tick->number;
}

static void set(struct book *book, unsigned number, uint64_t deadline_ns) {
    struct tick *tick = &book->ticks[number];
    tick->timer.fn = on_tick;
    tick->book = book;
    tick->number = number;
    timer_set(&tick->timer, deadline_ns);
}

/* All deadlines lie in the past: their order alone decides, and no test waits. */
static void in_order_fiber(void *arg) {
    struct book *book = arg;
    /* 7919 has no factor in common with MANY, so every deadline is used once, out of order. */
    for (unsigned i = 0; i < MANY; i++) set(book, i, 1 + (uint64_t)i * 7919 % MANY);
    while (book->count < MANY) fiber_yield_await();
    for (unsigned i = 0; i < MANY; i++) assert_int_equal((uint64_t)book->fired[i] * 7919 % MANY, i);
}

static void timers_fire_in_order_of_their_deadlines(void **state) {
    struct runtime *runtime = start();
    static struct book book;
    run(runtime, in_order_fiber, &book);
    runtime_stop(&runtime);
}

static void clear_fiber(void *arg) {
    struct book *book = arg;
    for (unsigned i = 0; i < MANY; i++) set(book, i, 1 + (uint64_t)i * 7919 % MANY);
    for (unsigned i = 0; i < MANY; i += 3) timer_clear(&book->ticks[i].timer);
    timer_clear(&book->ticks[0].timer); /* not set any more: no effect */
    unsigned left = MANY - (MANY + 2) / 3;
    while (book->count < left) fiber_yield_await();
    for (unsigned i = 0; i < 4; i++) fiber_yield_await();
    assert_int_equal(book->count, left);
    uint64_t last = 0;
    for (unsigned i = 0; i < left; i++) {
        uint64_t deadline = 1 + (uint64_t)book->fired[i] * 7919 % MANY;
        assert_int_not_equal(book->fired[i] % 3, 0);
        assert_true(deadline > last);
        last = deadline;
    }
}

static void a_cleared_timer_does_not_fire(void **state) {
    struct runtime *runtime = start();
    static struct book book;
    run(runtime, clear_fiber, &book);
    runtime_stop(&runtime);
}

static void move_fiber(void *arg) {
    struct book *book = arg;
    set(book, 0, 10);
    set(book, 1, 20);
    set(book, 2, 30);
    set(book, 0, 40);                             /* later */
    set(book, 2, 5);                              /* sooner */
    timer_set(&book->ticks[1].timer, UINT64_MAX); /* NO_DEADLINE: never */
    assert_int_equal(book->ticks[1].timer.heap_index, 0);
    while (book->count < 2) fiber_yield_await();
    fiber_yield_await();
    assert_int_equal(book->count, 2);
    assert_int_equal(book->fired[0], 2);
    assert_int_equal(book->fired[1], 0);
}

static void a_timer_set_again_moves(void **state) {
    struct runtime *runtime = start();
    static struct book book;
    run(runtime, move_fiber, &book);
    runtime_stop(&runtime);
}

struct repeat {
    struct timer timer;
    unsigned count;
};

static void on_repeat(struct timer *timer) {
    ((struct repeat *)timer)->count++;
    timer_set(timer, 1);
}

static void repeat_fiber(void *arg) {
    struct repeat *repeat = arg;
    repeat->timer.fn = on_repeat;
    timer_set(&repeat->timer, 1);
    /* The fiber gets its turns although the timer is always due. */
    while (repeat->count < 100) fiber_yield_await();
    timer_clear(&repeat->timer);
}

static void a_timer_that_is_always_due_starves_nobody(void **state) {
    struct runtime *runtime = start();
    struct repeat repeat = {0};
    run(runtime, repeat_fiber, &repeat);
    assert_true(repeat.count >= 100);
    runtime_stop(&runtime);
}

static void sleep_fiber(void *arg) {
    uint64_t before = clock_now_ns();
    assert_int_equal(fiber_sleep_await(5), 0);
    assert_true(clock_now_ns() - before >= 5 * NS_PER_MS);
}

static void a_sleep_is_never_too_short(void **state) {
    struct runtime *runtime = start();
    run(runtime, sleep_fiber, NULL);
    runtime_stop(&runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timers_fire_in_order_of_their_deadlines),
        cmocka_unit_test(a_cleared_timer_does_not_fire),
        cmocka_unit_test(a_timer_set_again_moves),
        cmocka_unit_test(a_timer_that_is_always_due_starves_nobody),
        cmocka_unit_test(a_sleep_is_never_too_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
