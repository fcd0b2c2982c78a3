/* Errors: every failure has a sentence and a name, and ours never collide with an errno. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/error.h"

static void our_codes_have_the_sentence_that_s3_clients_see(void **state) {
    assert_string_equal(error_text(ERR_NO_SUCH_KEY), "The specified key does not exist.");
    assert_string_equal(error_text(ERR_ACCESS_DENIED), "Access Denied");
    assert_string_equal(error_name(ERR_NO_SUCH_KEY), "ERR_NO_SUCH_KEY");
    assert_string_equal(error_name(ERR_UNSUPPORTED_FORMAT), "ERR_UNSUPPORTED_FORMAT");
}

static void every_code_is_listed_once_under_its_own_name(void **state) {
    for (int err = ERR_BASE + 1; err < ERR_END; err++) {
        assert_int_equal(strncmp(error_name(err), "ERR_", 4), 0);
        assert_true(strlen(error_text(err)) > 0);
        assert_true(err < -4095); /* clear of every errno */
    }
}

static void an_errno_keeps_the_systems_sentence(void **state) {
    assert_string_equal(error_text(-ENOSPC), "No space left on device");
    assert_string_equal(error_name(-EIO), "errno 5");
    assert_string_equal(error_text(0), "Success");
}

static void an_unknown_code_still_has_a_sentence(void **state) {
    assert_string_equal(error_text(-4000), "Unknown error");
    assert_string_equal(error_text(ERR_BASE), "Unknown error");
    assert_string_equal(error_text(ERR_END), "Unknown error");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_codes_have_the_sentence_that_s3_clients_see),
        cmocka_unit_test(every_code_is_listed_once_under_its_own_name),
        cmocka_unit_test(an_errno_keeps_the_systems_sentence),
        cmocka_unit_test(an_unknown_code_still_has_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
