/* The keys that a server knows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>

#include "auth/auth.h"
#include "base/error.h"

static struct keyring *keyring;

static int setup(void **state) {
    return keyring_create(&keyring);
}

static int teardown(void **state) {
    keyring_destroy(&keyring);
    assert_null(keyring);
    keyring_destroy(&keyring); /* of nothing: allowed */
    return 0;
}

static void keys_are_found_whatever_the_order_they_came_in(void **state) {
    char access[16], secret[16];
    for (int i = 0; i < 100; i++) {
        snprintf(access, sizeof(access), "key%d", i * 37 % 100);
        snprintf(secret, sizeof(secret), "secret%d", i * 37 % 100);
        assert_int_equal(keyring_add(keyring, access, secret), 0);
    }
    for (int i = 0; i < 100; i++) {
        snprintf(access, sizeof(access), "key%d", i);
        snprintf(secret, sizeof(secret), "secret%d", i);
        const struct identity *identity = keyring_find(keyring, slice_of(access));
        assert_non_null(identity);
        assert_string_equal(identity->secret_key, secret);
    }
    assert_null(keyring_find(keyring, slice_of("key100")));
    assert_null(keyring_find(keyring, slice_of("key")));
    assert_null(keyring_find(keyring, slice_of("")));
}

static void an_identity_stays_where_it_is_while_others_are_added(void **state) {
    assert_int_equal(keyring_add(keyring, "m", "secret"), 0);
    const struct identity *before = keyring_find(keyring, slice_of("m"));
    for (char access[2] = "a"; access[0] < 'm'; access[0]++)
        assert_int_equal(keyring_add(keyring, access, "secret"), 0);
    assert_ptr_equal(keyring_find(keyring, slice_of("m")), before);
}

static void keys_that_cannot_stand_in_a_credential_are_refused(void **state) {
    char access[ACCESS_KEY_MAX + 2], secret[SECRET_KEY_MAX + 2];
    memset(access, 'a', sizeof(access));
    memset(secret, 's', sizeof(secret));
    access[ACCESS_KEY_MAX + 1] = secret[SECRET_KEY_MAX + 1] = '\0';
    assert_int_equal(keyring_add(keyring, access, "s"), -EINVAL);
    assert_int_equal(keyring_add(keyring, "a", secret), -EINVAL);
    access[ACCESS_KEY_MAX] = secret[SECRET_KEY_MAX] = '\0';
    assert_int_equal(keyring_add(keyring, access, secret), 0);

    const char *bad[] = {"", "a/b", "a,b", "a b", "a\n", "\xc3\xa9"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(keyring_add(keyring, bad[i], "s"), -EINVAL);
    assert_int_equal(keyring_add(keyring, "empty-secret", ""), -EINVAL);
}

static void a_key_is_added_once(void **state) {
    assert_int_equal(keyring_add(keyring, "twice", "one"), 0);
    assert_int_equal(keyring_add(keyring, "twice", "two"), -EINVAL);
    assert_string_equal(keyring_find(keyring, slice_of("twice"))->secret_key, "one");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_are_found_whatever_the_order_they_came_in, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_identity_stays_where_it_is_while_others_are_added, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(keys_that_cannot_stand_in_a_credential_are_refused, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_key_is_added_once, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
