/* Continuation tokens come back as they went out, and nothing else does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "s3/page_token.h"

static void assert_round_trip(const char *name, size_t size) {
    struct text token _cleanup_text_ = {0}, back _cleanup_text_ = {0};
    page_token_append(&token, (struct slice){name, size});
    assert_false(token.failed);
    assert_int_equal(strcspn(token.data, "+/=&?% "), token.size); /* needs no encoding in a URL */
    assert_int_equal(page_token_decode(text_slice(&token), &back), 0);
    assert_int_equal(back.size, size);
    if (size) assert_memory_equal(back.data, name, size);
}

static void every_key_survives(void **state) {
    char key[OBJECT_KEY_MAX];
    for (size_t i = 0; i < sizeof key; i++) key[i] = (char)(i * 7 + 3);
    for (size_t size = 0; size <= sizeof key; size += size < 9 ? 1 : 29)
        assert_round_trip(key, size);
    assert_round_trip(key, sizeof key);
}

static void made_up_tokens_are_refused(void **state) {
    const char *const made_up[] = {"a", "abc", "not a token", "AAAAAAAA", "////////", "a=b="};
    for (size_t i = 0; i < sizeof made_up / sizeof made_up[0]; i++) {
        struct text back _cleanup_text_ = {0};
        assert_int_equal(page_token_decode(slice_of(made_up[i]), &back), ERR_INVALID_ARGUMENT);
    }
}

static void a_changed_token_is_refused(void **state) {
    struct text token _cleanup_text_ = {0};
    page_token_append(&token, SLICE_LITERAL("some/key"));
    for (size_t i = 0; i < token.size; i++) {
        struct text back _cleanup_text_ = {0};
        char kept = token.data[i];
        token.data[i] = kept == 'A' ? 'B' : 'A';
        int err = page_token_decode(text_slice(&token), &back);
        token.data[i] = kept;
        assert_true(err == ERR_INVALID_ARGUMENT || slice_is(text_slice(&back), "some/key"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_key_survives),
        cmocka_unit_test(made_up_tokens_are_refused),
        cmocka_unit_test(a_changed_token_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
