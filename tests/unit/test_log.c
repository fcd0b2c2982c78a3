/* The log: one clean line an event, and nothing below the level that was set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static char captured[4096];

/* Let the log write into a pipe in place of stderr. */
static int saved_stderr, pipe_ends[2];

static void capture_begin(void) {
    assert_int_equal(pipe(pipe_ends), 0);
    saved_stderr = dup(STDERR_FILENO);
    assert_true(saved_stderr >= 0);
    assert_true(dup2(pipe_ends[1], STDERR_FILENO) >= 0);
    close(pipe_ends[1]);
}

static void capture_end(void) {
    assert_true(dup2(saved_stderr, STDERR_FILENO) >= 0);
    close(saved_stderr);
    ssize_t size = read(pipe_ends[0], captured, sizeof(captured) - 1);
    assert_true(size >= 0);
    captured[size] = '\0';
    close(pipe_ends[0]);
}

static void a_line_has_time_level_and_message(void **state) {
    capture_begin();
    log_warn("disk %d is slow", 3);
    capture_end();
    /* 2026-12-01T06:30:00.123Z warn  disk 3 is slow */
    assert_string_equal(captured + 24, " warn  disk 3 is slow\n");
    assert_int_equal(captured[10], 'T');
    assert_int_equal(captured[23], 'Z');
}

static void levels_below_the_set_one_are_silent(void **state) {
    capture_begin();
    log_debug("not by default");
    log_set_level(LOG_ERROR);
    log_warn("not now");
    log_set_level(LOG_INFO);
    capture_end();
    assert_string_equal(captured, "");
}

static void what_a_client_sends_cannot_forge_a_line(void **state) {
    capture_begin();
    log_info("key %s", "a\nb\r\x1b[31m\x7f");
    capture_end();
    assert_non_null(strstr(captured, " info  key a?b??[31m?\n"));
}

static void a_long_line_is_cut_and_still_ends(void **state) {
    char message[3000];
    memset(message, 'x', sizeof(message) - 1);
    message[sizeof(message) - 1] = '\0';
    capture_begin();
    log_error("%s", message);
    capture_end();
    size_t size = strlen(captured);
    assert_in_range(size, 1000, 1024);
    assert_int_equal(captured[size - 1], '\n');
    assert_int_equal(captured[size - 2], 'x');
}

static void logging_keeps_errno(void **state) {
    capture_begin();
    errno = ENOSPC;
    log_error("full");
    int after = errno;
    capture_end();
    assert_int_equal(after, ENOSPC);
}

static void level_names_are_those_of_the_configuration(void **state) {
    enum log_level level;
    assert_int_equal(log_level_parse("debug", &level), 0);
    assert_int_equal(level, LOG_DEBUG);
    assert_int_equal(log_level_parse("error", &level), 0);
    assert_int_equal(level, LOG_ERROR);
    assert_int_equal(log_level_parse("loud", &level), -EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_and_message),
        cmocka_unit_test(levels_below_the_set_one_are_silent),
        cmocka_unit_test(what_a_client_sends_cannot_forge_a_line),
        cmocka_unit_test(a_long_line_is_cut_and_still_ends),
        cmocka_unit_test(logging_keeps_errno),
        cmocka_unit_test(level_names_are_those_of_the_configuration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
