/* Byte ranges: what they mean for an object of ten bytes, and for an empty one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "s3/range.h"

static uint64_t offset, size;

static enum range_result parse(const char *text, uint64_t object_size) {
    offset = size = 0;
    return range_parse(slice_of(text), object_size, &offset, &size);
}

static void assert_part(const char *text, uint64_t object_size, uint64_t first, uint64_t count) {
    assert_int_equal(parse(text, object_size), RANGE_PART);
    assert_int_equal(offset, first);
    assert_int_equal(size, count);
}

static void closed_ranges_include_their_last_byte(void **state) {
    assert_part("bytes=0-0", 10, 0, 1);
    assert_part("bytes=2-5", 10, 2, 4);
    assert_part("bytes=0-9", 10, 0, 10);
    assert_part("BYTES= 0-9 ", 10, 0, 10);
}

static void open_and_overlong_ranges_end_with_the_object(void **state) {
    assert_part("bytes=7-", 10, 7, 3);
    assert_part("bytes=7-1000", 10, 7, 3);
    assert_part("bytes=7-99999999999999999999999999", 10, 7, 3);
}

static void suffixes_count_from_the_end(void **state) {
    assert_part("bytes=-3", 10, 7, 3);
    assert_part("bytes=-1000", 10, 0, 10);
    assert_part("bytes=-99999999999999999999999999", 10, 0, 10);
}

static void what_lies_outside_cannot_be_satisfied(void **state) {
    const char *const outside[] = {"bytes=10-", "bytes=10-20", "bytes=-0",
                                   "bytes=99999999999999999999999999-"};
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
        assert_int_equal(parse(outside[i], 10), RANGE_OUTSIDE);
    assert_int_equal(parse("bytes=0-", 0), RANGE_OUTSIDE);
    assert_int_equal(parse("bytes=-5", 0), RANGE_OUTSIDE);
}

static void what_is_no_single_byte_range_is_ignored(void **state) {
    const char *const ignored[] = {"",           "bytes",      "bytes=",        "bytes=-",
                                   "bytes=a-b",  "bytes=5-2",  "bytes=1",       "lines=1-2",
                                   "bytes=+1-2", "bytes=1-2x", "bytes=0-1,3-4", "bytes=--1"};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        assert_int_equal(parse(ignored[i], 10), RANGE_WHOLE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_ranges_include_their_last_byte),
        cmocka_unit_test(open_and_overlong_ranges_end_with_the_object),
        cmocka_unit_test(suffixes_count_from_the_end),
        cmocka_unit_test(what_lies_outside_cannot_be_satisfied),
        cmocka_unit_test(what_is_no_single_byte_range_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
