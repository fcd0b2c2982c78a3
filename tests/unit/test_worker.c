/* Work that blocks runs on worker threads while its fiber waits, or goes on, and others run. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/worker.h"

static struct runtime *start(unsigned workers) {
    struct runtime_options options = {.reactors = 1, .workers = workers};
    struct runtime *runtime;
    assert_int_equal(runtime_start(&options, &runtime), 0);
    return runtime;
}

static void run(struct runtime *runtime, fiber_fn *fn, void *arg) {
    assert_int_equal(reactor_run(runtime_reactor(runtime, 0), "test", fn, arg), 0);
}

struct visit {
    pthread_t caller, worker;
    bool fiber, reactor;
};

static void visit(void *arg) {
    struct visit *v = arg;
    v->worker = pthread_self();
    v->fiber = fiber_self() != NULL;
    v->reactor = reactor_self() != NULL;
}

static void visit_fiber(void *arg) {
    struct visit *v = arg;
    v->caller = pthread_self();
    worker_call_await(visit, v);
}

static void a_call_runs_on_another_thread(void **state) {
    struct runtime *runtime = start(1);
    struct visit v = {.fiber = true, .reactor = true};
    run(runtime, visit_fiber, &v);
    assert_false(pthread_equal(v.caller, v.worker));
    assert_false(v.fiber);
    assert_false(v.reactor);
    runtime_stop(&runtime);
}

#define JOBS 64
struct sum {
    struct worker_job jobs[JOBS];
    unsigned values[JOBS];
};

static void square(void *arg) {
    unsigned *value = arg;
    *value *= *value;
}

static void overlap_fiber(void *arg) {
    struct sum *sum = arg;
    for (unsigned i = 0; i < JOBS; i++) {
        sum->values[i] = i;
        worker_job_start(&sum->jobs[i], square, &sum->values[i]);
    }
    /* In another order than they were started, some of them long done. */
    for (unsigned i = JOBS; i-- > 0;) {
        worker_job_await(&sum->jobs[i]);
        assert_int_equal(sum->values[i], i * i);
        if (i % 8 == 0) fiber_yield_await();
    }
}

static void several_jobs_of_one_fiber_overlap(void **state) {
    struct runtime *runtime = start(3);
    static struct sum sum;
    run(runtime, overlap_fiber, &sum);
    struct runtime_stats stats;
    runtime_stats(runtime, &stats);
    assert_int_equal(stats.worker_jobs, JOBS);
    runtime_stop(&runtime);
}

struct order {
    struct worker_job jobs[JOBS];
    unsigned numbers[JOBS], seen[JOBS], count;
};
static struct order order;

static void note(void *arg) {
    order.seen[order.count++] = *(unsigned *)arg;
}

static void order_fiber(void *arg) {
    for (unsigned i = 0; i < JOBS; i++) {
        order.numbers[i] = i;
        worker_job_start(&order.jobs[i], note, &order.numbers[i]);
    }
    for (unsigned i = 0; i < JOBS; i++) worker_job_await(&order.jobs[i]);
}

static void one_worker_takes_jobs_in_order(void **state) {
    struct runtime *runtime = start(1);
    run(runtime, order_fiber, NULL);
    for (unsigned i = 0; i < JOBS; i++) assert_int_equal(order.seen[i], i);
    runtime_stop(&runtime);
}

struct gate {
    atomic_bool open;
    struct fiber *victim;
    bool returned, cancelled_after;
};

static void wait_at_gate(void *arg) {
    struct gate *gate = arg;
    while (!atomic_load(&gate->open)) sched_yield();
}

static void victim_fiber(void *arg) {
    struct gate *gate = arg;
    gate->victim = fiber_self();
    worker_call_await(wait_at_gate, gate);
    gate->returned = true;
    gate->cancelled_after = fiber_cancelled() && fiber_park_await(NO_DEADLINE) == -ECANCELED;
}

static void gate_fiber(void *arg) {
    struct gate *gate = arg;
    assert_int_equal(fiber_spawn("victim", victim_fiber, gate), 0);
    while (!gate->victim) fiber_yield_await();
    fiber_cancel(gate->victim);
    for (int i = 0; i < 10; i++) fiber_yield_await(); /* the reactor is not blocked */
    assert_false(gate->returned);
    atomic_store(&gate->open, true);
    while (!gate->returned) fiber_yield_await();
}

static void a_cancelled_fiber_still_waits_for_its_call(void **state) {
    struct runtime *runtime = start(1);
    struct gate gate = {0};
    run(runtime, gate_fiber, &gate);
    assert_true(gate.cancelled_after);
    runtime_stop(&runtime);
}

#define CALLERS 500
static unsigned finished;

static void caller_fiber(void *arg) {
    unsigned value = 3;
    worker_call_await(square, &value);
    assert_int_equal(value, 9);
    finished++;
}

static void callers_fiber(void *arg) {
    for (unsigned i = 0; i < CALLERS; i++)
        assert_int_equal(fiber_spawn("caller", caller_fiber, NULL), 0);
}

static void stopping_waits_for_jobs_under_way(void **state) {
    struct runtime *runtime = start(2);
    run(runtime, callers_fiber, NULL);
    runtime_stop(&runtime);
    assert_int_equal(finished, CALLERS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_runs_on_another_thread),
        cmocka_unit_test(several_jobs_of_one_fiber_overlap),
        cmocka_unit_test(one_worker_takes_jobs_in_order),
        cmocka_unit_test(a_cancelled_fiber_still_waits_for_its_call),
        cmocka_unit_test(stopping_waits_for_jobs_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
