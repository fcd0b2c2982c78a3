/* Dates as HTTP and S3 write them, and clocks that only go forward. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "base/clock.h"

#define NOV_6_1994 784111777000ll /* the example of RFC 9110 */

static void a_moment_is_written_in_three_ways(void **state) {
    char out[CLOCK_TEXT_SIZE];
    clock_format_http(NOV_6_1994, out);
    assert_string_equal(out, "Sun, 06 Nov 1994 08:49:37 GMT");
    clock_format_iso8601(NOV_6_1994 + 7, out);
    assert_string_equal(out, "1994-11-06T08:49:37.007Z");
    clock_format_amz(NOV_6_1994 + 999, out);
    assert_string_equal(out, "19941106T084937Z");
}

static void formatting_knows_the_calendar(void **state) {
    const struct {
        int64_t ms;
        const char *text;
    } moments[] = {{0, "Thu, 01 Jan 1970 00:00:00 GMT"},
                   {-1, "Wed, 31 Dec 1969 23:59:59 GMT"},
                   {951782399000, "Mon, 28 Feb 2000 23:59:59 GMT"},
                   {951782400000, "Tue, 29 Feb 2000 00:00:00 GMT"},
                   {951868800000, "Wed, 01 Mar 2000 00:00:00 GMT"},
                   {4107542399000, "Sun, 28 Feb 2100 23:59:59 GMT"},
                   {4107542400000, "Mon, 01 Mar 2100 00:00:00 GMT"},
                   {INT64_MAX, "Fri, 31 Dec 9999 23:59:59 GMT"},
                   {INT64_MIN, "Sat, 01 Jan 0000 00:00:00 GMT"}};
    for (size_t i = 0; i < sizeof(moments) / sizeof(*moments); i++) {
        char out[CLOCK_TEXT_SIZE];
        clock_format_http(moments[i].ms, out);
        assert_string_equal(out, moments[i].text);
    }
}

static void all_three_http_forms_are_understood(void **state) {
    const char *forms[] = {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
                           "Sun Nov  6 08:49:37 1994"};
    for (size_t i = 0; i < 3; i++) {
        int64_t ms = 0;
        assert_true(clock_parse_http(slice_of(forms[i]), &ms));
        assert_true(ms == NOV_6_1994);
    }
    int64_t ms;
    assert_true(clock_parse_http(slice_of("Wed Nov 16 08:49:37 1994"), &ms));
    assert_true(ms == NOV_6_1994 + 10 * 86400000ll);
}

static void what_is_written_can_be_read(void **state) {
    /* A step that is no multiple of a day visits all months, weekdays and times. */
    for (int64_t ms = -2208988800000; ms < 7258118400000; ms += 40000003000) {
        char out[CLOCK_TEXT_SIZE];
        int64_t back = 0;
        clock_format_http(ms, out);
        assert_true(clock_parse_http(slice_of(out), &back));
        assert_true(back == ms);
        clock_format_amz(ms, out);
        assert_true(clock_parse_amz(slice_of(out), &back));
        assert_true(back == ms);
    }
}

static void dates_that_do_not_exist_are_refused(void **state) {
    const char *amz[] = {"",
                         "20130524T000000",
                         "20130524T000000Z ",
                         "20130524 000000Z",
                         "20130532T000000Z",
                         "20130500T000000Z",
                         "20131301T000000Z",
                         "20130001T000000Z",
                         "20130229T000000Z",
                         "21000229T000000Z",
                         "20130524T240000Z",
                         "20130524T006000Z",
                         "20130524T000061Z",
                         "2013-5-4T000000Z",
                         "+0130524T000000Z"};
    int64_t ms = 7;
    for (size_t i = 0; i < sizeof(amz) / sizeof(*amz); i++)
        assert_false(clock_parse_amz(slice_of(amz[i]), &ms));
    const char *http[] = {"",
                          "Sun, 6 Nov 1994 08:49:37 GMT",
                          "Sun, 06 Nov 1994 08:49:37",
                          "Sun, 06 Nov 1994 08:49:37 UTC",
                          "Sun, 31 Nov 1994 08:49:37 GMT",
                          "06 Nov 1994 08:49:37 GMT",
                          "Sunday, 06 Nov 1994 08:49:37 GMT",
                          "Sun, 06 nov 1994 08:49:37 GMT",
                          "1994-11-06T08:49:37Z"};
    for (size_t i = 0; i < sizeof(http) / sizeof(*http); i++)
        assert_false(clock_parse_http(slice_of(http[i]), &ms));
    assert_true(ms == 7);
    assert_true(clock_parse_amz(slice_of("20000229T235960Z"), &ms)); /* a leap second */
}

static void deadlines_saturate(void **state) {
    assert_true(clock_deadline_ms(UINT64_MAX) == NO_DEADLINE);
    uint64_t before = clock_now_ns();
    assert_true(clock_deadline_ms(1000) >= before + NS_PER_S);
    assert_true(clock_now_ns() >= before);
    assert_true(clock_wall_ms() > NOV_6_1994);
    uint64_t used = clock_process_cpu_ns();
    assert_true(clock_process_cpu_ns() >= used);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_moment_is_written_in_three_ways),
        cmocka_unit_test(formatting_knows_the_calendar),
        cmocka_unit_test(all_three_http_forms_are_understood),
        cmocka_unit_test(what_is_written_can_be_read),
        cmocka_unit_test(dates_that_do_not_exist_are_refused),
        cmocka_unit_test(deadlines_saturate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
