/* Hexadecimal, base64, percent encoding and UTF-8: strict decoders of what the network sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/encode.h"

static void hexadecimal_goes_both_ways(void **state) {
    char text[9];
    uint8_t bytes[4];
    hex_encode("\x00\x9f\xff\x10", 4, text);
    assert_string_equal(text, "009fff10");
    assert_int_equal(hex_decode(slice_of("009FfF10"), bytes, sizeof(bytes)), 4);
    assert_memory_equal(bytes, "\x00\x9f\xff\x10", 4);
    assert_int_equal(hex_decode(slice_of(""), bytes, sizeof(bytes)), 0);
}

static void broken_hexadecimal_is_refused(void **state) {
    uint8_t bytes[2];
    assert_int_equal(hex_decode(slice_of("123"), bytes, sizeof(bytes)), -1);
    assert_int_equal(hex_decode(slice_of("0g"), bytes, sizeof(bytes)), -1);
    assert_int_equal(hex_decode(slice_of("112233"), bytes, sizeof(bytes)), -1); /* no room */

    uint64_t value;
    assert_true(hex_to_u64(slice_of("10000"), &value) && value == 65536);
    assert_true(hex_to_u64(slice_of("fFfFfFfFfFfFfFfF"), &value) && value == UINT64_MAX);
    assert_false(hex_to_u64(slice_of(""), &value));
    assert_false(hex_to_u64(slice_of("00000000000000001"), &value));
    assert_false(hex_to_u64(slice_of("-1"), &value));
    assert_false(hex_to_u64(slice_of("1 "), &value));
}

static void base64_matches_rfc_4648(void **state) {
    const char *pairs[][2] = {{"", ""},
                              {"f", "Zg=="},
                              {"fo", "Zm8="},
                              {"foo", "Zm9v"},
                              {"foob", "Zm9vYg=="},
                              {"fooba", "Zm9vYmE="},
                              {"foobar", "Zm9vYmFy"},
                              {"\xff\xfe\xfb", "//77"}};
    for (size_t i = 0; i < sizeof(pairs) / sizeof(*pairs); i++) {
        char text[BASE64_SIZE(6)], bytes[6];
        size_t size = strlen(pairs[i][0]);
        base64_encode(pairs[i][0], size, text);
        assert_string_equal(text, pairs[i][1]);
        assert_int_equal(strlen(text) + 1, BASE64_SIZE(size));
        assert_int_equal(base64_decode(slice_of(text), bytes, size), size);
        assert_memory_equal(bytes, pairs[i][0], size);
    }
}

static void base64_has_one_form_for_each_value(void **state) {
    char bytes[16];
    const char *bad[] = {"Zg",   "Zg=",  "Z===", "====", "Zh==",     "Zm9=",     "Zm9v\n",
                         "Zm 9", "Zm-_", "=Zm9", "Z=m9", "Zg==Zg==", "Zm9vYg==="};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(base64_decode(slice_of(bad[i]), bytes, sizeof(bytes)), -1);
    assert_int_equal(base64_decode(slice_of("Zm9vYmFy"), bytes, 5), -1); /* no room */
}

static ssize_t decode(const char *text, bool plus_is_space, char out[64]) {
    strcpy(out, text);
    ssize_t size = uri_decode(out, strlen(text), plus_is_space);
    if (size >= 0) out[size] = '\0';
    return size;
}

static void percent_escapes_decode_in_place(void **state) {
    char out[64];
    assert_int_equal(decode("a%20b+c%2Fd%c3%A9", false, out), 9);
    assert_string_equal(out, "a b+c/d\xc3\xa9");
    decode("a+b%2Bc", true, out);
    assert_string_equal(out, "a b+c");
    assert_int_equal(decode("%00", false, out), 1); /* whoever uses it decides about NUL */
    assert_int_equal(decode("", false, out), 0);
}

static void broken_escapes_are_refused(void **state) {
    char out[64];
    const char *bad[] = {"%", "%2", "a%", "%zz", "%2g", "%%20", "100%"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(decode(bad[i], false, out), -1);
}

static void keys_are_well_formed_utf8(void **state) {
    const char *good[] = {"",
                          "plain ascii, longer than eight",
                          "\xc2\x80",
                          "\xdf\xbf",
                          "\xe0\xa0\x80",
                          "\xed\x9f\xbf",
                          "\xee\x80\x80",
                          "\xef\xbf\xbf",
                          "\xf0\x90\x80\x80",
                          "\xf4\x8f\xbf\xbf",
                          "12345678\xe2\x82\xac"
                          "12345678"};
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_true(utf8_valid(slice_of(good[i])));
    assert_true(utf8_valid((struct slice){"a\0b", 3}));
}

static void malformed_utf8_is_refused(void **state) {
    const char *bad[] = {"\x80",
                         "\xc0\x80",
                         "\xc1\xbf",
                         "\xe0\x9f\xbf",
                         "\xed\xa0\x80",
                         "\xf0\x8f\xbf\xbf",
                         "\xf4\x90\x80\x80",
                         "\xf5\x80\x80\x80",
                         "\xff",
                         "\xc3",
                         "\xe2\x82",
                         "\xf0\x9f\x98",
                         "\xc3(",
                         "\xe2(\xac",
                         "\xe2\x82(",
                         "12345678\xe2\x82",
                         "1234567\xc3"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_false(utf8_valid(slice_of(bad[i])));
}

static void utf8_is_not_read_past_its_end(void **state) {
    /* On the heap and without a NUL, so that a sanitizer sees a read too far. */
    for (size_t size = 1; size <= 3; size++) {
        char *bytes = malloc(size);
        assert_non_null(bytes);
        memcpy(bytes, "\xf0\x9f\x98", size);
        assert_false(utf8_valid((struct slice){bytes, size}));
        free(bytes);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hexadecimal_goes_both_ways),
        cmocka_unit_test(broken_hexadecimal_is_refused),
        cmocka_unit_test(base64_matches_rfc_4648),
        cmocka_unit_test(base64_has_one_form_for_each_value),
        cmocka_unit_test(percent_escapes_decode_in_place),
        cmocka_unit_test(broken_escapes_are_refused),
        cmocka_unit_test(keys_are_well_formed_utf8),
        cmocka_unit_test(malformed_utf8_is_refused),
        cmocka_unit_test(utf8_is_not_read_past_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
