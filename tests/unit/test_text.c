/* The growable string: building, escaping, and failing once at the end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/text.h"

static void text_is_built_in_pieces_and_ends_in_nul(void **state) {
    struct text t _cleanup_text_ = {0};
    text_append_string(&t, "part ");
    text_append_u64(&t, 10000);
    text_append_slice(&t, SLICE_LITERAL(" of "));
    text_append_u64(&t, UINT64_MAX);
    text_append_format(&t, "; %s=%d", "x", -3);
    assert_string_equal(t.data, "part 10000 of 18446744073709551615; x=-3");
    assert_int_equal(t.size, strlen(t.data));
    assert_false(t.failed);
}

static void zero_is_a_digit_and_nothing_is_a_string(void **state) {
    struct text t _cleanup_text_ = {0};
    assert_int_equal(text_slice(&t).size, 0);
    text_append(&t, NULL, 0);
    assert_string_equal(t.data, "");
    text_append_u64(&t, 0);
    assert_string_equal(t.data, "0");
}

static void text_grows_without_losing_bytes(void **state) {
    struct text t _cleanup_text_ = {0};
    for (int i = 0; i < 10000; i++) text_append_format(&t, "%04d", i);
    assert_int_equal(t.size, 40000);
    assert_memory_equal(t.data + 4 * 1234, "1234", 4);
    assert_memory_equal(t.data + 4 * 9999, "9999", 5); /* and the NUL */
}

static void clearing_keeps_the_memory(void **state) {
    struct text t _cleanup_text_ = {0};
    text_append_string(&t, "something");
    const char *data = t.data;
    text_clear(&t);
    assert_int_equal(t.size, 0);
    assert_ptr_equal(t.data, data);
    assert_string_equal(t.data, "");
}

static void failure_is_remembered_and_appends_do_nothing(void **state) {
    struct text t _cleanup_text_ = {0};
    text_append_string(&t, "kept");
    text_append(&t, "", SIZE_MAX); /* more than is allowed; nothing is read */
    assert_true(t.failed);
    text_append_string(&t, "lost");
    text_append_u64(&t, 1);
    assert_string_equal(t.data, "kept");
}

static void xml_escapes_markup_and_control_bytes(void **state) {
    struct text t _cleanup_text_ = {0};
    text_append_xml(&t, slice_of("a<b>&\"c\"'d'\r\n\x01\x7f\xc3\xa9z"));
    assert_string_equal(t.data, "a&lt;b&gt;&amp;&quot;c&quot;&#39;d&#39;&#xD;&#xA;&#x1;&#x7F;"
                                "\xc3\xa9z");
    text_clear(&t);
    text_append_xml(&t, (struct slice){"a\0b", 3});
    assert_string_equal(t.data, "a&#x0;b");
}

static void uri_encoding_is_the_one_that_sigv4_signs(void **state) {
    struct text t _cleanup_text_ = {0};
    text_append_uri(&t, slice_of("AZaz09-._~ /+*%\xc3\xa9$"), true);
    assert_string_equal(t.data, "AZaz09-._~%20/%2B%2A%25%C3%A9%24");
    text_clear(&t);
    text_append_uri(&t, slice_of("a/b"), false);
    assert_string_equal(t.data, "a%2Fb");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_built_in_pieces_and_ends_in_nul),
        cmocka_unit_test(zero_is_a_digit_and_nothing_is_a_string),
        cmocka_unit_test(text_grows_without_losing_bytes),
        cmocka_unit_test(clearing_keeps_the_memory),
        cmocka_unit_test(failure_is_remembered_and_appends_do_nothing),
        cmocka_unit_test(xml_escapes_markup_and_control_bytes),
        cmocka_unit_test(uri_encoding_is_the_one_that_sigv4_signs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
