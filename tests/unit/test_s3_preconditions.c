/* The order of conditions on a read, as RFC 9110 section 13.2.2 gives it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "s3/preconditions.h"

#define ETAG        "\"abc\""
#define MODIFIED    "Tue, 01 Dec 2026 06:30:00 GMT"
#define EARLIER     "Tue, 01 Dec 2026 06:29:59 GMT"
#define LATER       "Tue, 01 Dec 2026 06:30:01 GMT"
#define MODIFIED_MS 1796106600500ll /* and half a second, which HTTP dates cannot say */

static const char *failed;

static int evaluate(const char *match, const char *none_match, const char *modified_since,
                    const char *unmodified_since) {
    struct read_conditions conditions = {slice_of(match), slice_of(none_match),
                                         slice_of(modified_since), slice_of(unmodified_since)};
    failed = NULL;
    return preconditions_evaluate(&conditions, SLICE_LITERAL("abc"), MODIFIED_MS, &failed);
}

static void without_conditions_everything_is_read(void **state) {
    assert_int_equal(evaluate(NULL, NULL, NULL, NULL), 0);
}

static void if_match_wants_the_version_it_names(void **state) {
    assert_int_equal(evaluate(ETAG, NULL, NULL, NULL), 0);
    assert_int_equal(evaluate("*", NULL, NULL, NULL), 0);
    assert_int_equal(evaluate("abc", NULL, NULL, NULL), 0); /* without quotes, as S3 clients do */
    assert_int_equal(evaluate("\"x\" , " ETAG, NULL, NULL, NULL), 0);
    assert_int_equal(evaluate("\"x\"", NULL, NULL, NULL), ERR_PRECONDITION_FAILED);
    assert_string_equal(failed, "If-Match");
    assert_int_equal(evaluate("W/" ETAG, NULL, NULL, NULL), ERR_PRECONDITION_FAILED);
}

static void if_none_match_is_answered_with_not_modified(void **state) {
    assert_int_equal(evaluate(NULL, ETAG, NULL, NULL), ERR_NOT_MODIFIED);
    assert_int_equal(evaluate(NULL, "W/" ETAG, NULL, NULL), ERR_NOT_MODIFIED);
    assert_int_equal(evaluate(NULL, "\"x\"," ETAG, NULL, NULL), ERR_NOT_MODIFIED);
    assert_int_equal(evaluate(NULL, "*", NULL, NULL), ERR_NOT_MODIFIED);
    assert_int_equal(evaluate(NULL, "\"x\"", NULL, NULL), 0);
}

static void dates_compare_by_the_second(void **state) {
    assert_int_equal(evaluate(NULL, NULL, MODIFIED, NULL), ERR_NOT_MODIFIED);
    assert_int_equal(evaluate(NULL, NULL, EARLIER, NULL), 0);
    assert_int_equal(evaluate(NULL, NULL, LATER, NULL), ERR_NOT_MODIFIED);
    assert_int_equal(evaluate(NULL, NULL, NULL, MODIFIED), 0);
    assert_int_equal(evaluate(NULL, NULL, NULL, EARLIER), ERR_PRECONDITION_FAILED);
    assert_string_equal(failed, "If-Unmodified-Since");
}

static void dates_that_are_none_are_ignored(void **state) {
    assert_int_equal(evaluate(NULL, NULL, "yesterday", NULL), 0);
    assert_int_equal(evaluate(NULL, NULL, NULL, "yesterday"), 0);
}

static void etags_go_before_dates(void **state) {
    /* If-Match holds: If-Unmodified-Since is not asked. */
    assert_int_equal(evaluate(ETAG, NULL, NULL, EARLIER), 0);
    /* If-None-Match is there: If-Modified-Since is not asked, whatever it would say. */
    assert_int_equal(evaluate(NULL, "\"x\"", LATER, NULL), 0);
    assert_int_equal(evaluate(NULL, ETAG, EARLIER, NULL), ERR_NOT_MODIFIED);
    /* 412 goes before 304. */
    assert_int_equal(evaluate("\"x\"", ETAG, NULL, NULL), ERR_PRECONDITION_FAILED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_conditions_everything_is_read),
        cmocka_unit_test(if_match_wants_the_version_it_names),
        cmocka_unit_test(if_none_match_is_answered_with_not_modified),
        cmocka_unit_test(dates_compare_by_the_second),
        cmocka_unit_test(dates_that_are_none_are_ignored),
        cmocka_unit_test(etags_go_before_dates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
