/* Reactors: a start that undoes itself when it fails, messages between threads in the order of
 * sending, and a stop that leaves nobody behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "runtime/worker.h"

static struct runtime *start(unsigned reactors) {
    struct runtime_options options = {.reactors = reactors, .workers = 1};
    struct runtime *runtime;
    assert_int_equal(runtime_start(&options, &runtime), 0);
    return runtime;
}

static void turns(unsigned count) {
    while (count--) fiber_yield_await();
}

static uint64_t late(void) {
    return clock_deadline_ms(20000);
}

/* ---- start */

static void nonsense_options_are_refused(void **state) {
    struct runtime *runtime;
    struct runtime_options none = {.reactors = 0, .workers = 1};
    assert_int_equal(runtime_start(&none, &runtime), -EINVAL);
    struct runtime_options many = {.reactors = REACTOR_LIMIT + 1, .workers = 1};
    assert_int_equal(runtime_start(&many, &runtime), -EINVAL);
    struct runtime_options lazy = {.reactors = 1, .workers = 0};
    assert_int_equal(runtime_start(&lazy, &runtime), -EINVAL);
    assert_null(runtime);
}

static void who_fiber(void *arg) {
    struct runtime *runtime = arg;
    assert_ptr_equal(reactor_runtime(reactor_self()), runtime);
    assert_ptr_equal(runtime_reactor(runtime, reactor_index(reactor_self())), reactor_self());
}

static void every_reactor_knows_its_place(void **state) {
    struct runtime_options options = {.reactors = 3, .workers = 1, .pin_threads = true};
    struct runtime *runtime;
    assert_int_equal(runtime_start(&options, &runtime), 0);
    assert_null(reactor_self());
    assert_int_equal(runtime_reactor_count(runtime), 3);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(reactor_run(runtime_reactor(runtime, i), "who", who_fiber, runtime), 0);
    runtime_stop(&runtime);
}

/* With no descriptors left there is no ring; the error says so, and everything is undone. */
static void a_start_without_descriptors_fails_cleanly(void **state) {
    struct rlimit saved, tight;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &saved), 0);
    int next = dup(STDERR_FILENO);
    close(next);
    tight = saved;
    tight.rlim_cur = (rlim_t)next + 3; /* eventfds and a ring, but not for all */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &tight), 0);
    log_set_level(LOG_ERROR);
    struct runtime_options options = {.reactors = 2, .workers = 2};
    struct runtime *runtime;
    int err = runtime_start(&options, &runtime);
    log_set_level(LOG_INFO);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &saved), 0);
    assert_int_equal(err, -EMFILE);
    assert_null(runtime);
}

/* ---- messages */

#define LETTERS 100000

struct letter {
    struct message message;
    struct postbox *box;
    unsigned number;
};

struct postbox {
    struct letter *letters;
    struct reactor *target;
    unsigned received, out_of_order;
    struct fiber *reader;
};

static void on_letter(void *arg) {
    struct letter *letter = arg;
    struct postbox *box = letter->box;
    if (letter->number != box->received) box->out_of_order++;
    if (++box->received == LETTERS && box->reader) fiber_wake(box->reader);
}

static void send_letters(struct postbox *box, void (*pause)(unsigned number)) {
    for (unsigned i = 0; i < LETTERS; i++) {
        struct letter *letter = &box->letters[i];
        *letter = (struct letter){.box = box, .number = i};
        letter->message = (struct message){.fn = on_letter, .arg = letter};
        reactor_post(box->target, &letter->message);
        if (pause) pause(i);
    }
}

/* Now and then long enough for the reader to fall asleep. */
static void pause_fiber(unsigned number) {
    if (number % 1000 == 0) fiber_yield_await();
    if (number % 20000 == 0) fiber_sleep_await(1);
}

static void sender_fiber(void *arg) {
    send_letters(arg, pause_fiber);
}

static void reader_fiber(void *arg) {
    struct postbox *box = arg;
    if (box->received == LETTERS) return;
    box->reader = fiber_self();
    assert_int_equal(fiber_park_await(late()), 0);
}

static struct postbox new_postbox(struct runtime *runtime) {
    struct postbox box = {.letters = calloc(LETTERS, sizeof *box.letters),
                          .target = runtime_reactor(runtime, 1)};
    assert_non_null(box.letters);
    return box;
}

static void messages_between_reactors_come_in_order(void **state) {
    struct runtime *runtime = start(2);
    struct postbox box = new_postbox(runtime);
    assert_int_equal(reactor_run(runtime_reactor(runtime, 0), "sender", sender_fiber, &box), 0);
    assert_int_equal(reactor_run(runtime_reactor(runtime, 1), "reader", reader_fiber, &box), 0);
    assert_int_equal(box.received, LETTERS);
    assert_int_equal(box.out_of_order, 0);
    runtime_stop(&runtime);
    free(box.letters);
}

static void messages_from_outside_come_in_order(void **state) {
    struct runtime *runtime = start(2);
    struct postbox box = new_postbox(runtime);
    send_letters(&box, NULL);
    assert_int_equal(reactor_run(runtime_reactor(runtime, 1), "reader", reader_fiber, &box), 0);
    assert_int_equal(box.received, LETTERS);
    assert_int_equal(box.out_of_order, 0);
    runtime_stop(&runtime);
    free(box.letters);
}

/* A question goes to the other reactor and its answer wakes the fiber, again and again: every step
 * finds the other side asleep. */
struct question {
    struct message message;
    struct fiber *asker;
    unsigned answered;
};

static void on_question(void *arg) {
    struct question *question = arg;
    question->answered++;
    fiber_wake_remote(question->asker);
}

static void asker_fiber(void *arg) {
    struct question question = {.asker = fiber_self()};
    for (unsigned i = 0; i < 2000; i++) {
        question.message = (struct message){.fn = on_question, .arg = &question};
        reactor_post(arg, &question.message);
        fiber_park_remote_await();
        assert_int_equal(question.answered, i + 1);
    }
}

static void sleeping_reactors_wake_each_other(void **state) {
    struct runtime *runtime = start(2);
    assert_int_equal(
        reactor_run(runtime_reactor(runtime, 0), "asker", asker_fiber, runtime_reactor(runtime, 1)),
        0);
    runtime_stop(&runtime);
}

/* ---- stop */

#define WAITERS 6
struct waiting {
    int ends[2];
    unsigned started, ended;
    struct fiber_queue gate;
    struct io_idle idle;
    struct io_accept accept;
    unsigned idle_ends, accept_ends;
    int listener;
    struct reactor *other;
};
static struct waiting waiting;

static void note_started(void) {
    waiting.started++;
}

static void note_ended(int err) {
    assert_int_equal(err, -ECANCELED);
    waiting.ended++;
}

static void in_park(void *arg) {
    note_started();
    note_ended(fiber_park_await(NO_DEADLINE));
}

static void in_sleep(void *arg) {
    note_started();
    note_ended(fiber_sleep_await(3600 * 1000));
}

static void in_recv(void *arg) {
    note_started();
    char byte;
    note_ended((int)io_recv_await(waiting.ends[0], &byte, 1, 0, NO_DEADLINE));
}

static void in_queue(void *arg) {
    note_started();
    note_ended(fiber_queue_wait_await(&waiting.gate, NO_DEADLINE));
}

static void spin(void *arg) {
    usleep(2000);
}

static void in_worker(void *arg) {
    note_started();
    worker_call_await(spin, NULL);
    note_ended(fiber_park_await(NO_DEADLINE));
}

/* Its clean-up asks the other reactor, which must not have left. */
static void in_clean_up(void *arg) {
    note_started();
    int err = fiber_park_await(NO_DEADLINE);
    fiber_shield_begin();
    assert_int_equal(fiber_sleep_await(2), 0);
    fiber_shield_end();
    struct question question = {.asker = fiber_self()};
    question.message = (struct message){.fn = on_question, .arg = &question};
    reactor_post(waiting.other, &question.message);
    fiber_park_remote_await();
    note_ended(err);
}

static void on_idle_end(struct io_idle *idle, const void *data, ssize_t size) {
    assert_int_equal(size, -ECANCELED);
    assert_null(data);
    waiting.idle_ends++;
}

static void on_accept_end(void *ctx, int fd, int err) {
    assert_int_equal(fd, -1);
    assert_int_equal(err, -ECANCELED);
    waiting.accept_ends++;
}

static void wait_everywhere(void *arg) {
    static fiber_fn *const places[WAITERS] = {in_park,  in_sleep,  in_recv,
                                              in_queue, in_worker, in_clean_up};
    for (unsigned i = 0; i < WAITERS; i++)
        assert_int_equal(fiber_spawn("waiter", places[i], NULL), 0);
    waiting.idle.on_data = on_idle_end;
    io_idle_start(&waiting.idle, waiting.ends[1], NO_DEADLINE);
    waiting.accept.on_accept = on_accept_end;
    io_accept_start(&waiting.accept, waiting.listener);
    turns(3);
}

static void stopping_ends_every_wait(void **state) {
    memset(&waiting, 0, sizeof waiting);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, waiting.ends), 0);
    waiting.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un unnamed = {.sun_family = AF_UNIX};
    assert_int_equal(bind(waiting.listener, (struct sockaddr *)&unnamed, sizeof(sa_family_t)), 0);
    assert_int_equal(listen(waiting.listener, 8), 0);
    struct runtime *runtime = start(2);
    waiting.other = runtime_reactor(runtime, 1);
    assert_int_equal(reactor_run(runtime_reactor(runtime, 0), "test", wait_everywhere, NULL), 0);
    assert_int_equal(waiting.started, WAITERS);
    assert_int_equal(waiting.ended, 0);
    runtime_stop(&runtime);
    assert_int_equal(waiting.ended, WAITERS);
    assert_int_equal(waiting.idle_ends, 1);
    assert_int_equal(waiting.accept_ends, 1);
    close(waiting.ends[0]);
    close(waiting.ends[1]);
    close(waiting.listener);
}

static void stopping_nothing_is_allowed(void **state) {
    struct runtime *runtime = NULL;
    runtime_stop(&runtime);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nonsense_options_are_refused),
        cmocka_unit_test(every_reactor_knows_its_place),
        cmocka_unit_test(a_start_without_descriptors_fails_cleanly),
        cmocka_unit_test(messages_between_reactors_come_in_order),
        cmocka_unit_test(messages_from_outside_come_in_order),
        cmocka_unit_test(sleeping_reactors_wake_each_other),
        cmocka_unit_test(stopping_ends_every_wait),
        cmocka_unit_test(stopping_nothing_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
