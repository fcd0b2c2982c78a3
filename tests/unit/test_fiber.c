/* Fibers: they run in order, wait, are woken and cancelled, and their stacks are bounded. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/reactor.h"

static struct runtime *start(void) {
    struct runtime_options options = {.reactors = 1, .workers = 1};
    struct runtime *runtime;
    assert_int_equal(runtime_start(&options, &runtime), 0);
    return runtime;
}

/* Most stories are told from inside one fiber. */
static void tell(fiber_fn *fn, void *arg) {
    struct runtime *runtime = start();
    assert_int_equal(reactor_run(runtime_reactor(runtime, 0), "test", fn, arg), 0);
    runtime_stop(&runtime);
}

/* ---- order */

struct log {
    char text[64];
    unsigned size;
};

static struct log journal;

static void write_letters(void *arg) {
    for (const char *letter = arg; *letter; letter++) {
        journal.text[journal.size++] = *letter;
        fiber_yield_await();
    }
}

static void order_fiber(void *arg) {
    assert_int_equal(fiber_spawn("a", write_letters, "abc"), 0);
    assert_int_equal(fiber_spawn("b", write_letters, "12"), 0);
    assert_int_equal(journal.size, 0); /* a spawned fiber runs when the spawner waits */
    for (int i = 0; i < 5; i++) fiber_yield_await();
    assert_string_equal(journal.text, "a1b2c");
}

static void fibers_take_turns_in_the_order_of_spawning(void **state) {
    journal = (struct log){0};
    tell(order_fiber, NULL);
}

/* ---- park and wake */

struct parker {
    struct fiber *fiber;
    uint64_t deadline_ns;
    int results[3];
    unsigned parks;
};

static void park_fiber(void *arg) {
    struct parker *parker = arg;
    parker->fiber = fiber_self();
    for (unsigned i = 0; i < 3; i++) {
        parker->results[i] = fiber_park_await(parker->deadline_ns);
        parker->parks++;
    }
    parker->fiber = NULL;
}

static void turns(unsigned count) {
    while (count--) fiber_yield_await();
}

static void wake_story(void *arg) {
    struct parker parker = {.deadline_ns = NO_DEADLINE};
    assert_int_equal(fiber_spawn("parker", park_fiber, &parker), 0);
    turns(3);
    assert_int_equal(parker.parks, 0);
    for (unsigned i = 1; i <= 3; i++) {
        fiber_wake(parker.fiber);
        assert_int_equal(parker.parks, i - 1); /* waking does not switch */
        turns(3);
        assert_int_equal(parker.parks, i);
        assert_int_equal(parker.results[i - 1], 0);
    }
    assert_null(parker.fiber);
}

static void one_wake_ends_one_park(void **state) {
    tell(wake_story, NULL);
}

static void deadline_story(void *arg) {
    assert_int_equal(fiber_park_await(1), -ETIME);
    assert_int_equal(fiber_park_await(clock_deadline_ms(2)), -ETIME);
}

static void a_park_ends_at_its_deadline(void **state) {
    tell(deadline_story, NULL);
}

/* The waker's list still names a fiber whose deadline has just passed; the wake counts. */
struct late {
    struct timer timer;
    struct fiber *fiber;
};

static void late_wake_on_timer(struct timer *timer) {
    fiber_wake(((struct late *)timer)->fiber);
}

static void late_story(void *arg) {
    struct late late = {.timer.fn = late_wake_on_timer, .fiber = fiber_self()};
    timer_set(&late.timer, 2);
    assert_int_equal(fiber_park_await(1), 0); /* its own timer, at 1, was first */
}

static void a_wake_after_the_deadline_but_before_the_fiber_runs_counts(void **state) {
    tell(late_story, NULL);
}

/* ---- cancelling */

static void cancel_story(void *arg) {
    struct parker parker = {.deadline_ns = NO_DEADLINE};
    assert_int_equal(fiber_spawn("parker", park_fiber, &parker), 0);
    turns(2);
    fiber_cancel(parker.fiber);
    turns(2);
    assert_int_equal(parker.parks, 3); /* the present wait and every later one */
    for (unsigned i = 0; i < 3; i++) assert_int_equal(parker.results[i], -ECANCELED);
}

static void a_cancelled_fiber_waits_no_more(void **state) {
    tell(cancel_story, NULL);
}

struct sleeper {
    struct fiber *fiber;
    int err;
    bool ended;
};

static void sleep_fiber(void *arg) {
    struct sleeper *sleeper = arg;
    sleeper->fiber = fiber_self();
    sleeper->err = fiber_sleep_await(3600 * 1000);
    sleeper->ended = true;
}

static void cancel_sleep_story(void *arg) {
    struct sleeper sleeper = {0};
    assert_int_equal(fiber_spawn("sleeper", sleep_fiber, &sleeper), 0);
    turns(2);
    fiber_cancel(sleeper.fiber);
    turns(2);
    assert_true(sleeper.ended);
    assert_int_equal(sleeper.err, -ECANCELED);
}

static void a_sleep_is_cancelled(void **state) {
    tell(cancel_sleep_story, NULL);
}

struct shielded {
    struct fiber *fiber;
    int inside, after;
    bool ended;
};

static void shielded_fiber(void *arg) {
    struct shielded *s = arg;
    s->fiber = fiber_self();
    fiber_shield_begin();
    fiber_shield_begin();
    fiber_shield_end();
    s->inside = fiber_park_await(NO_DEADLINE);
    fiber_shield_end();
    s->after = fiber_park_await(NO_DEADLINE);
    s->ended = true;
}

static void shield_story(void *arg) {
    struct shielded s = {.inside = 1};
    assert_int_equal(fiber_spawn("shielded", shielded_fiber, &s), 0);
    turns(2);
    fiber_cancel(s.fiber);
    turns(2);
    assert_int_equal(s.inside, 1); /* still waiting */
    fiber_wake(s.fiber);
    turns(2);
    assert_int_equal(s.inside, 0);
    assert_true(s.ended);
    assert_int_equal(s.after, -ECANCELED);
}

static void a_shield_puts_cancellation_off(void **state) {
    tell(shield_story, NULL);
}

/* ---- waking from other threads */

#define REMOTE_ROUNDS 2000

struct remote {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct fiber *waiting;
    bool over;
};

static void *waker_thread(void *arg) {
    struct remote *remote = arg;
    pthread_mutex_lock(&remote->mutex);
    for (;;) {
        while (!remote->waiting && !remote->over)
            pthread_cond_wait(&remote->changed, &remote->mutex);
        if (remote->over) break;
        struct fiber *fiber = remote->waiting;
        remote->waiting = NULL;
        fiber_wake_remote(fiber);
    }
    pthread_mutex_unlock(&remote->mutex);
    return NULL;
}

static void remote_story(void *arg) {
    struct remote *remote = arg;
    for (unsigned i = 0; i < REMOTE_ROUNDS; i++) {
        pthread_mutex_lock(&remote->mutex);
        remote->waiting = fiber_self();
        pthread_cond_signal(&remote->changed);
        pthread_mutex_unlock(&remote->mutex);
        /* Sometimes the wake comes before the park. */
        if (i % 2) turns(i % 5);
        fiber_park_remote_await();
    }
    pthread_mutex_lock(&remote->mutex);
    remote->over = true;
    pthread_cond_signal(&remote->changed);
    pthread_mutex_unlock(&remote->mutex);
}

static void a_fiber_is_woken_from_another_thread(void **state) {
    struct remote remote = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                            .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, waker_thread, &remote), 0);
    tell(remote_story, &remote);
    pthread_join(thread, NULL);
}

/* ---- gates */

struct gate {
    struct fiber_queue queue;
    unsigned order[8], count;
    int errors[8];
    struct fiber *fibers[8];
};

struct ticket {
    struct gate *gate;
    unsigned number;
    uint64_t deadline_ns;
};

static void gate_fiber(void *arg) {
    struct ticket ticket = *(struct ticket *)arg;
    struct gate *gate = ticket.gate;
    gate->fibers[ticket.number] = fiber_self();
    gate->errors[ticket.number] = fiber_queue_wait_await(&gate->queue, ticket.deadline_ns);
    gate->order[gate->count++] = ticket.number;
}

static void gate_story(void *arg) {
    struct gate gate = {0};
    assert_false(fiber_queue_wake_one(&gate.queue));
    struct ticket tickets[8];
    for (unsigned i = 0; i < 8; i++) {
        tickets[i] = (struct ticket){&gate, i, i == 5 ? 1 : NO_DEADLINE};
        assert_int_equal(fiber_spawn("waiter", gate_fiber, &tickets[i]), 0);
    }
    turns(4); /* number 5 runs into its deadline, out of the middle of the queue */
    assert_int_equal(gate.count, 1);
    assert_int_equal(gate.order[0], 5);
    assert_int_equal(gate.errors[5], -ETIME);

    fiber_cancel(gate.fibers[0]); /* leaves from the head */
    turns(2);
    assert_int_equal(gate.errors[0], -ECANCELED);

    assert_true(fiber_queue_wake_one(&gate.queue));
    assert_true(fiber_queue_wake_one(&gate.queue));
    turns(2);
    assert_int_equal(gate.count, 4);
    fiber_queue_wake_all(&gate.queue);
    turns(2);
    static const unsigned expected[8] = {5, 0, 1, 2, 3, 4, 6, 7};
    assert_int_equal(gate.count, 8);
    assert_memory_equal(gate.order, expected, sizeof expected);
    assert_null(gate.queue.head);
    assert_null(gate.queue.tail);
}

static void a_gate_lets_fibers_through_in_order(void **state) {
    tell(gate_story, NULL);
}

/* ---- limits */

static void crowd_fiber(void *arg) {
    fiber_queue_wait_await(arg, NO_DEADLINE);
}

static void limit_story(void *arg) {
    struct fiber_queue queue = {0};
    unsigned spawned = 1; /* this fiber */
    int err;
    while (!(err = fiber_spawn("crowd", crowd_fiber, &queue))) spawned++;
    assert_int_equal(err, -EAGAIN);
    assert_int_equal(spawned, FIBER_LIMIT);
    fiber_yield_await();
    fiber_queue_wake_all(&queue);
    turns(2);
    assert_int_equal(fiber_spawn("crowd", crowd_fiber, &queue), 0); /* there is room again */
    fiber_yield_await();
    fiber_queue_wake_all(&queue);
    turns(2);
}

static void spawning_beyond_the_limit_is_refused(void **state) {
    tell(limit_story, NULL);
}

#define BURST 2000

static void burst_story(void *arg) {
    struct runtime *runtime = reactor_runtime(reactor_self());
    struct fiber_queue queue = {0};
    for (unsigned i = 0; i < BURST; i++)
        assert_int_equal(fiber_spawn("crowd", crowd_fiber, &queue), 0);
    fiber_yield_await();
    fiber_queue_wake_all(&queue);
    turns(2);
    struct runtime_stats stats;
    runtime_stats(runtime, &stats);
    assert_int_equal(stats.fibers_alive, 1);
    assert_true(stats.stacks > BURST); /* kept at first: the load may be steady */
    for (unsigned i = 0; i < 1000 && stats.stacks > 100; i++) {
        fiber_sleep_await(10);
        runtime_stats(runtime, &stats);
    }
    assert_true(stats.stacks <= 100);
}

static void the_stacks_of_a_burst_are_given_back(void **state) {
    tell(burst_story, NULL);
}

/* ---- overflow */

#ifndef __SANITIZE_ADDRESS__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winfinite-recursion"
static __attribute__((noinline)) unsigned dig(unsigned depth) {
    volatile char frame[512];
    frame[depth % sizeof frame] = (char)depth;
    return dig(depth + 1) + (unsigned)frame[depth % sizeof frame];
}
#pragma GCC diagnostic pop

static void digger_fiber(void *arg) {
    *(volatile unsigned *)arg = dig(0);
}

static void null_fiber(void *arg) {
    *(volatile int *)arg = 1;
}

/* Run fn as a fiber in a child process that is expected to die; return what it wrote. */
static int die_in_child(fiber_fn *fn, void *arg, char *output, size_t capacity) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        signal(SIGSEGV, SIG_DFL); /* cmocka's own handler would hide the death */
        dup2(ends[1], STDERR_FILENO);
        struct runtime *runtime = start();
        reactor_run(runtime_reactor(runtime, 0), "digger", fn, arg);
        _exit(0);
    }
    close(ends[1]);
    size_t size = 0;
    ssize_t got;
    while ((got = read(ends[0], output + size, capacity - 1 - size)) > 0) size += (size_t)got;
    output[size] = 0;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void a_stack_overflow_names_the_fiber(void **state) {
    static unsigned sink;
    char output[512];
    int status = die_in_child(digger_fiber, &sink, output, sizeof output);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    char expected[128];
    snprintf(expected, sizeof expected, "penstock: fiber 'digger' overflowed its %u-byte stack\n",
             FIBER_STACK_SIZE);
    assert_string_equal(output, expected);
}

static void another_fault_is_not_taken_for_an_overflow(void **state) {
    char output[512];
    int status = die_in_child(null_fiber, NULL, output, sizeof output);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_string_equal(output, "");
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
#ifndef __SANITIZE_ADDRESS__
        /* First, while this process has no threads: they fork. */
        cmocka_unit_test(a_stack_overflow_names_the_fiber),
        cmocka_unit_test(another_fault_is_not_taken_for_an_overflow),
#endif
        cmocka_unit_test(fibers_take_turns_in_the_order_of_spawning),
        cmocka_unit_test(one_wake_ends_one_park),
        cmocka_unit_test(a_park_ends_at_its_deadline),
        cmocka_unit_test(a_wake_after_the_deadline_but_before_the_fiber_runs_counts),
        cmocka_unit_test(a_cancelled_fiber_waits_no_more),
        cmocka_unit_test(a_sleep_is_cancelled),
        cmocka_unit_test(a_shield_puts_cancellation_off),
        cmocka_unit_test(a_fiber_is_woken_from_another_thread),
        cmocka_unit_test(a_gate_lets_fibers_through_in_order),
        cmocka_unit_test(spawning_beyond_the_limit_is_refused),
        cmocka_unit_test(the_stacks_of_a_burst_are_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
