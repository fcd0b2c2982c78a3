/* Method, target and sub-resource to an operation, or to a refusal that names the reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "s3/route.h"

static const char *sub_resource;
static int refusal;

/* The operation's name, or "" when it is refused. */
static const char *route(enum http_method method, const char *path, const char *query) {
    struct s3_target target = {0};
    assert_int_equal(target_parse(&target, slice_of(path), slice_of(query), slice_of("h"), NULL),
                     0);
    const struct route *found = route_find(method, &target, &refusal, &sub_resource);
    target_deinit(&target);
    return found ? found->operation : "";
}

static void buckets_have_their_operations(void **state) {
    assert_string_equal(route(HTTP_GET, "/", ""), "ListBuckets");
    assert_string_equal(route(HTTP_PUT, "/b", ""), "CreateBucket");
    assert_string_equal(route(HTTP_HEAD, "/b", ""), "HeadBucket");
    assert_string_equal(route(HTTP_DELETE, "/b/", ""), "DeleteBucket");
    assert_string_equal(route(HTTP_GET, "/b", "list-type=2&prefix=x"), "ListObjects");
    assert_string_equal(route(HTTP_GET, "/b", "location="), "GetBucketLocation");
    assert_string_equal(route(HTTP_GET, "/b", "versioning"), "GetBucketVersioning");
    assert_string_equal(route(HTTP_GET, "/b", "uploads&max-uploads=1"), "ListMultipartUploads");
    assert_string_equal(route(HTTP_POST, "/b", "delete"), "DeleteObjects");
}

static void objects_have_theirs(void **state) {
    assert_string_equal(route(HTTP_GET, "/b/k", "x-id=GetObject"), "GetObject");
    assert_string_equal(route(HTTP_GET, "/b/k", "partNumber=1"), "GetObject");
    assert_string_equal(route(HTTP_HEAD, "/b/k", ""), "HeadObject");
    assert_string_equal(route(HTTP_PUT, "/b/k", ""), "PutObject");
    assert_string_equal(route(HTTP_DELETE, "/b/k", ""), "DeleteObject");
}

static void uploads_are_told_by_their_parameters(void **state) {
    assert_string_equal(route(HTTP_POST, "/b/k", "uploads"), "CreateMultipartUpload");
    assert_string_equal(route(HTTP_PUT, "/b/k", "partNumber=1&uploadId=u"), "UploadPart");
    assert_string_equal(route(HTTP_POST, "/b/k", "uploadId=u"), "CompleteMultipartUpload");
    assert_string_equal(route(HTTP_DELETE, "/b/k", "uploadId=u"), "AbortMultipartUpload");
    assert_string_equal(route(HTTP_GET, "/b/k", "uploadId=u"), "ListParts");
}

static void an_unknown_sub_resource_is_never_ignored(void **state) {
    /* PUT ?tagging taken for a PUT would overwrite the object with its tags. */
    assert_string_equal(route(HTTP_PUT, "/b/k", "tagging"), "");
    assert_int_equal(refusal, ERR_NOT_IMPLEMENTED);
    assert_string_equal(sub_resource, "tagging");
    assert_string_equal(route(HTTP_DELETE, "/b", "policy"), "");
    assert_string_equal(sub_resource, "policy");
    assert_string_equal(route(HTTP_PUT, "/b", "versioning"), "");
    assert_string_equal(sub_resource, "versioning");
    assert_string_equal(route(HTTP_POST, "/b/k", "select&select-type=2"), "");
    assert_int_equal(refusal, ERR_NOT_IMPLEMENTED);
}

static void methods_that_mean_nothing_are_not_allowed(void **state) {
    assert_string_equal(route(HTTP_POST, "/b/k", ""), "");
    assert_int_equal(refusal, ERR_METHOD_NOT_ALLOWED);
    assert_string_equal(route(HTTP_PUT, "/", ""), "");
    assert_int_equal(refusal, ERR_METHOD_NOT_ALLOWED);
    assert_string_equal(route(HTTP_OTHER, "/b/k", ""), "");
    assert_int_equal(refusal, ERR_METHOD_NOT_ALLOWED);
    assert_string_equal(route(HTTP_POST, "/b", ""), ""); /* a browser's form */
    assert_int_equal(refusal, ERR_NOT_IMPLEMENTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_have_their_operations),
        cmocka_unit_test(objects_have_theirs),
        cmocka_unit_test(uploads_are_told_by_their_parameters),
        cmocka_unit_test(an_unknown_sub_resource_is_never_ignored),
        cmocka_unit_test(methods_that_mean_nothing_are_not_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
