/* Slices: comparison, trimming and numbers over borrowed bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/slice.h"

static void keys_sort_by_bytes_and_shorter_first(void **state) {
    assert_true(slice_compare(slice_of("a"), slice_of("b")) < 0);
    assert_true(slice_compare(slice_of("a"), slice_of("aa")) < 0);
    assert_true(slice_compare(slice_of("aa"), slice_of("a")) > 0);
    assert_true(slice_compare(slice_of("Z"), slice_of("a")) < 0);
    assert_true(slice_compare(slice_of("\xc3\xa9"), slice_of("z")) > 0); /* bytes are unsigned */
    assert_int_equal(slice_compare(slice_of("same"), slice_of("same")), 0);
}

static void an_empty_slice_may_have_no_memory(void **state) {
    struct slice nothing = {NULL, 0};
    assert_true(slice_equal(nothing, slice_of("")));
    assert_true(slice_is(nothing, ""));
    assert_true(slice_equal(slice_of(NULL), nothing));
    assert_true(slice_starts_with(slice_of("x"), nothing));
    assert_true(slice_equal_nocase(nothing, nothing));
    assert_int_equal(slice_trim(nothing).size, 0);
    assert_true(slice_compare(nothing, slice_of("x")) < 0);
}

static void header_names_compare_without_case(void **state) {
    assert_true(slice_equal_nocase(slice_of("Content-MD5"), slice_of("content-md5")));
    assert_false(slice_equal_nocase(slice_of("a["), slice_of("a{"))); /* 0x20 apart, no letters */
    assert_false(slice_equal_nocase(slice_of("ab"), slice_of("abc")));
}

static void header_values_lose_blanks_at_both_ends_only(void **state) {
    assert_true(slice_is(slice_trim(slice_of(" \t a b\t ")), "a b"));
    assert_true(slice_is(slice_trim(slice_of(" \t ")), ""));
    assert_true(slice_is(slice_trim(slice_of("\nx")), "\nx"));
}

static void numbers_are_digits_without_sign_or_overflow(void **state) {
    unsigned long long value = 7;
    assert_true(slice_to_u64(slice_of("0"), &value));
    assert_true(value == 0);
    assert_true(slice_to_u64(slice_of("00042"), &value));
    assert_true(value == 42);
    assert_true(slice_to_u64(slice_of("18446744073709551615"), &value));
    assert_true(value == UINT64_MAX);

    value = 7;
    const char *bad[] = {
        "", "-1", "+1", " 1", "1 ", "0x10", "18446744073709551616", "99999999999999999999", "1e3"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        assert_false(slice_to_u64(slice_of(bad[i]), &value));
        assert_true(value == 7); /* untouched */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_sort_by_bytes_and_shorter_first),
        cmocka_unit_test(an_empty_slice_may_have_no_memory),
        cmocka_unit_test(header_names_compare_without_case),
        cmocka_unit_test(header_values_lose_blanks_at_both_ends_only),
        cmocka_unit_test(numbers_are_digits_without_sign_or_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
