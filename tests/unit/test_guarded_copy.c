/* Guarded copies: memory that another process shares may go away in the middle of a copy, and the
 * only thing that may fail then is the copy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transfer/guarded_copy.h"
#include "transfer/stream_copy.h"

#define SIZE ((size_t)512 * 1024)

struct fixture {
    int fd;
    struct guarded_mapping mapping;
    uint8_t *ours;
};

static int setup(void **state) {
    static struct fixture f;
    f.fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(f.fd >= 0);
    assert_int_equal(ftruncate(f.fd, SIZE), 0);
    f.mapping.base = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, f.fd, 0);
    assert_ptr_not_equal(f.mapping.base, MAP_FAILED);
    f.mapping.size = SIZE;
    f.ours = aligned_alloc(4096, SIZE);
    assert_non_null(f.ours);
    for (size_t i = 0; i < SIZE; i++) f.ours[i] = (uint8_t)(i * 7 + i / 251);
    *state = &f;
    return 0;
}

/* cmocka puts handlers of its own over ours for each test: ours come back, as they are in use. */
static struct sigaction on_bus, on_segv;

static struct fixture *begin(void **state) {
    sigaction(SIGBUS, &on_bus, NULL);
    sigaction(SIGSEGV, &on_segv, NULL);
    return *state;
}

static int teardown(void **state) {
    struct fixture *f = *state;
    munmap(f->mapping.base, SIZE);
    close(f->fd);
    free(f->ours);
    return 0;
}

static void whole_memory_is_copied_both_ways(void **state) {
    struct fixture *f = begin(state);
    uint8_t *back = calloc(1, SIZE);
    assert_int_equal(guarded_copy(f->mapping.base, f->ours, SIZE, &f->mapping), 0);
    assert_int_equal(guarded_copy(back, f->mapping.base, SIZE, &f->mapping), 0);
    assert_memory_equal(back, f->ours, SIZE);
    free(back);
}

/* Streaming stores work on whole aligned lines: the ends around them must be right as well. */
static void streams_of_any_alignment_copy_what_they_should_and_no_more(void **state) {
    struct fixture *f = begin(state);
    uint8_t *to = f->mapping.base;
    static const size_t starts[] = {0, 1, 31, 32, 33, 63, 64, 65};
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        for (size_t extra = 0; extra < 300; extra += 37) {
            size_t at = starts[i] + 64, size = STREAM_COPY_MIN + extra;
            memset(to, 0xee, at + size + 64);
            stream_copy(to + at, f->ours + starts[sizeof(starts) / sizeof(starts[0]) - 1 - i],
                        size);
            assert_int_equal(to[at - 1], 0xee);
            assert_memory_equal(to + at,
                                f->ours + starts[sizeof(starts) / sizeof(starts[0]) - 1 - i], size);
            assert_int_equal(to[at + size], 0xee);
        }
    }
}

static void truncated_memory_fails_the_copy_and_nothing_else(void **state) {
    struct fixture *f = begin(state);
    uint8_t *back = calloc(1, SIZE);
    assert_int_equal(ftruncate(f->fd, SIZE / 2), 0);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(guarded_copy(f->mapping.base, f->ours, SIZE, &f->mapping), -EFAULT);
        assert_int_equal(guarded_copy(back, f->mapping.base, SIZE, &f->mapping), -EFAULT);
        /* What is still there can still be copied. */
        assert_int_equal(guarded_copy(back, f->mapping.base, SIZE / 2, &f->mapping), 0);
        assert_memory_equal(back, f->ours, SIZE / 2);
    }
    free(back);
}

static void small_pieces_are_guarded_too(void **state) {
    struct fixture *f = begin(state);
    assert_int_equal(ftruncate(f->fd, 0), 0);
    assert_int_equal(guarded_copy(f->mapping.base, f->ours, 1, &f->mapping), -EFAULT);
    assert_int_equal(guarded_copy(f->ours, f->mapping.base, 100, &f->mapping), -EFAULT);
}

static void memory_that_became_inaccessible_fails_the_copy(void **state) {
    struct fixture *f = begin(state);
    assert_int_equal(mprotect(f->mapping.base, SIZE, PROT_NONE), 0);
    assert_int_equal(guarded_copy(f->mapping.base, f->ours, SIZE, &f->mapping), -EFAULT);
    assert_int_equal(mprotect(f->mapping.base, SIZE, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(guarded_copy(f->mapping.base, f->ours, SIZE, &f->mapping), 0);
}

static void punched_memory_reads_as_zeros(void **state) {
    struct fixture *f = begin(state);
    static const uint8_t zeros[4096];
    assert_int_equal(guarded_copy(f->mapping.base, f->ours, SIZE, &f->mapping), 0);
    assert_int_equal(madvise(f->mapping.base, 4096, MADV_REMOVE), 0);
    assert_int_equal(guarded_copy(f->ours, f->mapping.base, 4096, &f->mapping), 0);
    assert_memory_equal(f->ours, zeros, sizeof(zeros));
}

/* A fault anywhere else is a bug of ours, and must look like one. */
static void other_faults_still_end_the_process(void **state) {
    struct fixture *f = begin(state);
    assert_int_equal(ftruncate(f->fd, 0), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(STDERR_FILENO); /* a sanitizer would describe what is meant to happen */
        *(volatile uint8_t *)f->mapping.base = 1;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void) {
    if (guarded_copy_install()) return 1;
    sigaction(SIGBUS, NULL, &on_bus);
    sigaction(SIGSEGV, NULL, &on_segv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_memory_is_copied_both_ways, setup, teardown),
        cmocka_unit_test_setup_teardown(streams_of_any_alignment_copy_what_they_should_and_no_more,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(truncated_memory_fails_the_copy_and_nothing_else, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(small_pieces_are_guarded_too, setup, teardown),
        cmocka_unit_test_setup_teardown(memory_that_became_inaccessible_fails_the_copy, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(punched_memory_reads_as_zeros, setup, teardown),
        cmocka_unit_test_setup_teardown(other_faults_still_end_the_process, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
