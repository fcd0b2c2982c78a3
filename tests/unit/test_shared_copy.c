/* A copy that a fiber and worker threads share is whole, fails once, and is over when it returns.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "mem/pool.h"
#include "runtime/reactor.h"
#include "transfer/guarded_copy.h"
#include "transfer/shared_copy.h"

#define RUNS     TRANSFER_RUNS_MAX
#define ODD_SIZE (BLOCK_MAX_SIZE - 4097) /* neither lines nor pages */

struct fixture {
    struct runtime *runtime;
    int fd; /* not sealed: the test takes its end away */
    struct shm_region region;
    uint8_t *ours;
    struct iovec runs[RUNS];
};
static struct fixture f;

/* cmocka puts handlers of its own in front of each test: put the guard's back. */
static struct sigaction on_bus;

static void guard(void) {
    sigaction(SIGBUS, &on_bus, NULL);
}

static int setup(void **state) {
    struct runtime_options options = {.reactors = 1, .workers = 3};
    assert_int_equal(runtime_start(&options, &f.runtime), 0);
    f.region = (struct shm_region){.length = (uint64_t)RUNS * BLOCK_MAX_SIZE};
    f.fd = memfd_create("test", MFD_CLOEXEC);
    assert_int_equal(ftruncate(f.fd, (off_t)f.region.length), 0);
    void *base = mmap(NULL, f.region.length, PROT_READ | PROT_WRITE, MAP_SHARED, f.fd, 0);
    assert_ptr_not_equal(base, MAP_FAILED);
    f.region.base = base;
    f.ours = aligned_alloc(4096, f.region.length);
    assert_non_null(f.ours);
    for (uint64_t i = 0; i < f.region.length; i++) f.ours[i] = (uint8_t)(i * 7 + i / 251);
    /* The runs lie apart in our memory, as blocks do, and side by side in the region. */
    for (unsigned i = 0; i < RUNS; i++)
        f.runs[i] = (struct iovec){f.ours + (uint64_t)i * BLOCK_MAX_SIZE, ODD_SIZE};
    return 0;
}

static int teardown(void **state) {
    runtime_stop(&f.runtime);
    munmap(f.region.base, f.region.length);
    close(f.fd);
    free(f.ours);
    return 0;
}

struct job {
    enum transfer_direction direction;
    uint64_t offset;
    unsigned helpers;
    struct fiber *fiber;
    int err;
};

static void run_copy(void *arg) {
    struct job *job = arg;
    job->fiber = fiber_self();
    job->err = shared_copy_await(&f.region, job->direction, f.region.base + job->offset, f.runs,
                                 RUNS, job->helpers);
}

static int copy(struct job job) {
    assert_int_equal(reactor_run(runtime_reactor(f.runtime, 0), "copy", run_copy, &job), 0);
    return job.err;
}

static bool arrived(unsigned run, uint64_t offset) {
    return !memcmp(f.region.base + offset + (uint64_t)run * ODD_SIZE, f.runs[run].iov_base,
                   ODD_SIZE);
}

static void every_byte_arrives_whoever_copies_it(void **state) {
    for (unsigned helpers = 0; helpers <= SHARED_COPY_HELPERS_MAX; helpers++) {
        uint64_t offset = helpers * 13;
        memset(f.region.base, 0xee, f.region.length);
        assert_int_equal(
            copy((struct job){.direction = TRANSFER_PUSH, .offset = offset, .helpers = helpers}),
            0);
        for (unsigned i = 0; i < RUNS; i++) assert_true(arrived(i, offset));
        uint64_t end = offset + (uint64_t)RUNS * ODD_SIZE;
        for (uint64_t i = 0; i < offset; i++) assert_int_equal(f.region.base[i], 0xee);
        for (uint64_t i = end; i < end + 64; i++) assert_int_equal(f.region.base[i], 0xee);
    }
}

static void the_other_direction_is_the_same(void **state) {
    for (uint64_t i = 0; i < f.region.length; i++) f.region.base[i] = (uint8_t)(i * 5 + i / 257);
    assert_int_equal(copy((struct job){.direction = TRANSFER_PULL, .offset = 3, .helpers = 3}), 0);
    for (unsigned i = 0; i < RUNS; i++) assert_true(arrived(i, 3));
}

static void memory_that_went_away_fails_the_copy_and_nothing_else(void **state) {
    guard();
    assert_int_equal(ftruncate(f.fd, (off_t)f.region.length / 2), 0);
    for (unsigned helpers = 0; helpers <= SHARED_COPY_HELPERS_MAX; helpers++)
        assert_int_equal(copy((struct job){.direction = TRANSFER_PUSH, .helpers = helpers}),
                         ERR_RDMA_TRANSFER_FAILED);
    assert_int_equal(ftruncate(f.fd, (off_t)f.region.length), 0);
    assert_int_equal(copy((struct job){.direction = TRANSFER_PUSH, .helpers = 3}), 0);
}

static void a_region_that_is_gone_is_not_touched(void **state) {
    memset(f.region.base, 0xee, f.region.length);
    atomic_store(&f.region.gone, true);
    assert_int_equal(copy((struct job){.direction = TRANSFER_PUSH, .helpers = 3}),
                     ERR_RDMA_TRANSFER_FAILED);
    for (uint64_t i = 0; i < f.region.length; i += 4096) assert_int_equal(f.region.base[i], 0xee);
}

static void cancel_copy(void *arg) {
    fiber_cancel(((struct job *)arg)->fiber);
}

/* Runs when the copy lets others run, which is after its first run. */
static void run_cancelled_copy(void *arg) {
    struct job *job = arg;
    job->fiber = fiber_self();
    assert_int_equal(fiber_spawn("cancel", cancel_copy, job), 0);
    run_copy(job);
}

static int cancelled_copy(unsigned helpers) {
    struct job job = {.direction = TRANSFER_PUSH, .helpers = helpers};
    memset(f.region.base, 0xee, f.region.length);
    assert_int_equal(reactor_run(runtime_reactor(f.runtime, 0), "copy", run_cancelled_copy, &job),
                     0);
    return job.err;
}

static void a_cancelled_copy_stops_after_the_run_under_way(void **state) {
    assert_int_equal(cancelled_copy(0), -ECANCELED);
    assert_true(arrived(0, 0));
    assert_int_equal(f.region.base[(uint64_t)(RUNS - 1) * ODD_SIZE], 0xee);
}

static void a_cancelled_copy_is_over_when_it_returns(void **state) {
    int err = cancelled_copy(SHARED_COPY_HELPERS_MAX);
    assert_true(err == -ECANCELED || err == 0); /* the helpers may have been faster */
    memset(f.region.base, 0xee, f.region.length);
    usleep(20000); /* one that still ran would write now */
    for (uint64_t i = 0; i < f.region.length; i += 4096) assert_int_equal(f.region.base[i], 0xee);
}

int main(void) {
    if (guarded_copy_install()) return 1;
    sigaction(SIGBUS, NULL, &on_bus);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_byte_arrives_whoever_copies_it, setup, teardown),
        cmocka_unit_test_setup_teardown(the_other_direction_is_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_that_went_away_fails_the_copy_and_nothing_else,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_region_that_is_gone_is_not_touched, setup, teardown),
        cmocka_unit_test_setup_teardown(a_cancelled_copy_stops_after_the_run_under_way, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_cancelled_copy_is_over_when_it_returns, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
