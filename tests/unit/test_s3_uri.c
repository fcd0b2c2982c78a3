/* From the target of a request to bucket, key and parameters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "s3/uri.h"

static struct s3_target target;

static int parse_at(const char *host, const char *domain, const char *path, const char *query) {
    target_deinit(&target);
    memset(&target, 0, sizeof target);
    return target_parse(&target, slice_of(path), slice_of(query), slice_of(host), domain);
}

static int parse(const char *path, const char *query) {
    return parse_at("127.0.0.1:9000", NULL, path, query);
}

static void assert_target(const char *bucket, const char *key) {
    assert_true(slice_is(target.bucket, bucket));
    assert_true(slice_is(target.key, key));
}

static void path_style_names_the_bucket_first(void **state) {
    assert_int_equal(parse("/", ""), 0);
    assert_target("", "");
    assert_int_equal(parse("/bucket", ""), 0);
    assert_target("bucket", "");
    assert_int_equal(parse("/bucket/", ""), 0);
    assert_target("bucket", "");
    assert_int_equal(parse("/bucket/a/b%20c", ""), 0);
    assert_target("bucket", "a/b c");
}

static void keys_are_bytes_and_are_never_folded(void **state) {
    assert_int_equal(parse("/b//a/../c/./", ""), 0);
    assert_target("b", "/a/../c/./");
    assert_int_equal(parse("/b/a+b%2Bc%2F%25", ""), 0);
    assert_target("b", "a+b+c/%");
}

static void a_host_below_the_domain_names_the_bucket(void **state) {
    assert_int_equal(parse_at("photos.s3.example:9000", "s3.example", "/2026/a.jpg", ""), 0);
    assert_target("photos", "2026/a.jpg");
    assert_int_equal(parse_at("My.Photos.S3.Example", "s3.example", "/", ""), 0);
    assert_target("My.Photos", "");
    assert_int_equal(parse_at("s3.example", "s3.example", "/photos/a", ""), 0);
    assert_target("photos", "a");
    assert_int_equal(parse_at("photoss3.example", "s3.example", "/x/a", ""), 0);
    assert_target("x", "a");
    assert_int_equal(parse_at("[::1]:9000", "s3.example", "/x/a", ""), 0);
    assert_target("x", "a");
}

static void the_system_names_are_no_bucket(void **state) {
    assert_int_equal(parse("/.penstock/stats", ""), 0);
    assert_true(slice_is(target.system, "stats"));
    assert_int_equal(parse_at("b.s3.example", "s3.example", "/.penstock/stats", ""), 0);
    assert_null(target.system.data);
    assert_target("b", ".penstock/stats");
}

static void an_absolute_target_is_its_path(void **state) {
    assert_int_equal(parse("http://127.0.0.1:9000/b/k", ""), 0);
    assert_target("b", "k");
    assert_true(slice_is(target.path, "/b/k"));
    assert_int_equal(parse("http://127.0.0.1:9000", ""), 0);
    assert_target("", "");
}

static void keys_have_1024_bytes_however_they_are_encoded(void **state) {
    char path[16 + 3 * 1025];
    for (unsigned count = 1024; count <= 1025; count++) {
        char *end = path + sprintf(path, "/b/");
        for (unsigned i = 0; i < count; i++) end += sprintf(end, i % 2 ? "x" : "%%41");
        assert_int_equal(parse(path, ""), count == 1024 ? 0 : ERR_KEY_TOO_LONG);
    }
}

static void broken_escapes_and_broken_utf8_are_refused(void **state) {
    const char *const broken[] = {"/b/%",      "/b/%4",        "/b/%zz", "/b/%FF",
                                  "/b/%C0%80", "/b/%ED%A0%80", "/b/%00", "/b/%F4%90%80%80",
                                  "/b/%E6%97", "b/k"};
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++)
        assert_int_equal(parse(broken[i], ""), ERR_INVALID_URI);
    assert_int_equal(parse("/b/%E6%97%A5%F0%9F%98%80%C3%A9", ""), 0);
    assert_target("b", "日😀é");
}

static void parameters_are_decoded_and_the_first_counts(void **state) {
    assert_int_equal(parse("/b", "uploads&prefix=a%2Bb+c&prefix=z&empty=&&x=1=2"), 0);
    assert_true(target_parameter(&target, "uploads").data != NULL);
    assert_int_equal(target_parameter(&target, "uploads").size, 0);
    assert_true(slice_is(target_parameter(&target, "prefix"), "a+b c"));
    assert_true(target_parameter(&target, "empty").data != NULL);
    assert_true(slice_is(target_parameter(&target, "x"), "1=2"));
    assert_null(target_parameter(&target, "absent").data);
    assert_int_equal(parse("/b", "a=%4"), ERR_INVALID_URI);
}

static void long_queries_are_decoded_too_but_not_endless_ones(void **state) {
    char query[2000] = "prefix=";
    memset(query + 7, 'x', sizeof query - 8);
    assert_int_equal(parse("/b", query), 0);
    assert_int_equal(target_parameter(&target, "prefix").size, sizeof query - 8);
    memset(query, 0, sizeof query);
    for (unsigned i = 0; i <= URI_PARAMETERS_MAX; i++) strcat(query, "a=1&");
    assert_int_equal(parse("/b", query), ERR_INVALID_URI);
    target_deinit(&target);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_style_names_the_bucket_first),
        cmocka_unit_test(keys_are_bytes_and_are_never_folded),
        cmocka_unit_test(a_host_below_the_domain_names_the_bucket),
        cmocka_unit_test(the_system_names_are_no_bucket),
        cmocka_unit_test(an_absolute_target_is_its_path),
        cmocka_unit_test(keys_have_1024_bytes_however_they_are_encoded),
        cmocka_unit_test(broken_escapes_and_broken_utf8_are_refused),
        cmocka_unit_test(parameters_are_decoded_and_the_first_counts),
        cmocka_unit_test(long_queries_are_decoded_too_but_not_endless_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
