/* The S3 operations over HTTP, from the signature to the answer. */
#include "s3_world.h"

static int make_bucket(void **state) {
    return world_begin(state) || simple("PUT", "/box", NULL) != 200;
}

static void buckets_come_and_go(void **state) {
    assert_int_equal(simple("PUT", "/another", NULL), 200);
    assert_header("Location", "/another");
    assert_int_equal(simple("PUT", "/another", NULL), 200); /* us-east-1 does not mind */
    assert_int_equal(simple("HEAD", "/another", NULL), 200);
    assert_header("x-amz-bucket-region", "us-east-1");
    assert_int_equal(simple("GET", "/", NULL), 200);
    assert_non_null(strstr(answer.body, "<Name>another</Name>"));
    assert_int_equal(simple("GET", "/", "prefix=bo&max-buckets=1"), 200);
    assert_null(strstr(answer.body, "<Name>another</Name>"));
    assert_non_null(strstr(answer.body, "<Name>box</Name>"));
    assert_int_equal(simple("GET", "/another", "location"), 200);
    assert_non_null(strstr(answer.body, "></LocationConstraint>"));
    assert_int_equal(simple("DELETE", "/another", NULL), 204);
    assert_int_equal(simple("HEAD", "/another", NULL), 404);
    assert_int_equal(simple("PUT", "/Bad_Name", NULL), 400);
    assert_error(400, "InvalidBucketName");
}

static int create_in(const char *region) {
    char body[256];
    int size = snprintf(body, sizeof body,
                        "<CreateBucketConfiguration><LocationConstraint>%s</LocationConstraint>"
                        "</CreateBucketConfiguration>",
                        region);
    return CALL(.method = "PUT", .path = "/located", .body = body, .size = (size_t)size);
}

static void a_bucket_lives_in_the_servers_region(void **state) {
    assert_int_equal(create_in("eu-north-1"), 400);
    assert_error(400, "IllegalLocationConstraintException");
    assert_int_equal(simple("HEAD", "/located", NULL), 404);
    assert_int_equal(create_in("us-east-1"), 200);
    assert_int_equal(CALL(.method = "PUT", .path = "/broken", .body = "<a", .size = 2), 400);
    assert_error(400, "MalformedXML");
}

static void every_answer_has_a_request_id_and_errors_explain_themselves(void **state) {
    char id[64];
    assert_int_equal(simple("GET", "/box/none%20such", NULL), 404);
    snprintf(id, sizeof id, "%s", answer_header(&answer, "x-amz-request-id"));
    assert_int_equal(strlen(id), 16);
    assert_int_equal(strspn(id, "0123456789ABCDEF"), 16);
    assert_int_equal(strlen(answer_header(&answer, "x-amz-id-2")), 16);
    assert_error(404, "NoSuchKey");
    assert_string_equal(answer_element("Key"), "none such");
    assert_string_equal(answer_element("Resource"), "/box/none%20such");
    assert_string_equal(answer_element("RequestId"), id);
    assert_int_equal(simple("PUT", "/box/k", "tagging"), 501);
    assert_error(501, "NotImplemented");
    assert_non_null(strstr(answer_element("Message"), "tagging"));
}

static void an_object_comes_back_with_its_headers(void **state) {
    assert_int_equal(CALL(.method = "PUT", .path = "/box/a", .body = "hello", .size = 5,
                          .headers = {"content-type", "text/plain", "x-amz-meta-color", "blue",
                                      "content-encoding", "aws-chunked, gzip"}),
                     200);
    assert_header("ETag", "\"5d41402abc4b2a76b9719d911017c592\"");
    assert_int_equal(simple("GET", "/box/a", NULL), 200);
    assert_string_equal(answer.body, "hello");
    assert_header("Content-Type", "text/plain");
    assert_header("x-amz-meta-color", "blue");
    assert_header("Content-Encoding", "gzip");
    assert_header("Accept-Ranges", "bytes");
    assert_int_equal(simple("HEAD", "/box/a", NULL), 200);
    assert_header("Content-Length", "5");
    assert_header("ETag", "\"5d41402abc4b2a76b9719d911017c592\"");
    assert_int_equal(simple("GET", "/box/a", "response-content-type=a%2Fb&versionId=null"), 200);
    assert_header("Content-Type", "a/b");
    assert_int_equal(simple("GET", "/box/a", "response-content-type=a%0D%0Ab"), 400);
    assert_int_equal(simple("GET", "/box/a", "versionId=other"), 400);
}

static void objects_of_all_sizes_survive(void **state) {
    static uint8_t data[3 * MIB + 1];
    const size_t sizes[] = {0,      1,      4096,   4097,    16384,  16385,
                            262143, 262144, 262145, 1048576, 3145729};
    fill_bytes(data, sizeof data, 9);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(CALL(.method = "PUT", .path = "/box/size", .body = data, .size = sizes[i]),
                         200);
        assert_int_equal(simple("GET", "/box/size", NULL), 200);
        assert_int_equal(answer.size, sizes[i]);
        if (sizes[i]) assert_memory_equal(answer.body, data, sizes[i]);
    }
    assert_int_equal(
        CALL(.method = "GET", .path = "/box/size", .headers = {"range", "bytes=262140-2621500"}),
        206);
    assert_header("Content-Range", "bytes 262140-2621500/3145729");
    assert_memory_equal(answer.body, data + 262140, 2621500 - 262140 + 1);
}

static void ranges_outside_say_how_long_the_object_is(void **state) {
    assert_int_equal(put_text("/box/r", "0123456789"), 200);
    assert_int_equal(CALL(.method = "GET", .path = "/box/r", .headers = {"range", "bytes=10-"}),
                     416);
    assert_error(416, "InvalidRange");
    assert_header("Content-Range", "bytes */10");
    assert_string_equal(answer_element("ActualObjectSize"), "10");
    assert_int_equal(CALL(.method = "GET", .path = "/box/r", .query = "partNumber=1",
                          .headers = {"range", "bytes=0-1"}),
                     400);
    assert_int_equal(simple("GET", "/box/r", "partNumber=2"), 416);
}

static void conditions_guard_reads_and_writes(void **state) {
    assert_int_equal(put_text("/box/c", "one"), 200);
    char etag[64];
    snprintf(etag, sizeof etag, "%s", answer_header(&answer, "ETag"));
    assert_int_equal(CALL(.method = "GET", .path = "/box/c", .headers = {"if-none-match", etag}),
                     304);
    assert_int_equal(answer.size, 0);
    assert_header("ETag", etag);
    assert_int_equal(CALL(.method = "GET", .path = "/box/c", .headers = {"if-match", "\"x\""}),
                     412);
    assert_int_equal(CALL(.method = "PUT", .path = "/box/c", .body = "two", .size = 3,
                          .headers = {"if-none-match", "*"}),
                     412);
    assert_int_equal(CALL(.method = "PUT", .path = "/box/c", .body = "two", .size = 3,
                          .headers = {"if-match", etag}),
                     200);
    assert_int_equal(CALL(.method = "DELETE", .path = "/box/c", .headers = {"if-match", etag}),
                     412);
    assert_int_equal(simple("GET", "/box/c", NULL), 200);
    assert_string_equal(answer.body, "two");
    assert_int_equal(simple("DELETE", "/box/c", NULL), 204);
    assert_int_equal(simple("DELETE", "/box/c", NULL), 204);
    assert_int_equal(CALL(.method = "PUT", .path = "/box/c", .body = "x", .size = 1,
                          .headers = {"if-match", etag}),
                     404);
}

static int put_with(const char *name, const char *value) {
    return CALL(.method = "PUT", .path = "/box/digest", .body = "hello", .size = 5,
                .headers = {name, value});
}

static void wrong_digests_store_nothing(void **state) {
    assert_int_equal(put_with("content-md5", "XUFAKrxLKna5cZ2REBfFkg=="), 200);
    assert_int_equal(put_with("content-md5", "XUFAKrxLKna5cZ2REBfFkg"), 400);
    assert_error(400, "InvalidDigest");
    assert_int_equal(simple("DELETE", "/box/digest", NULL), 204);
    assert_int_equal(put_with("content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="), 400);
    assert_error(400, "BadDigest");
    assert_int_equal(put_with("x-amz-checksum-crc32", "AAAAAA=="), 400);
    assert_error(400, "BadDigest");
    assert_int_equal(put_with("x-amz-checksum-crc32", "AAA="), 400);
    assert_error(400, "InvalidRequest");
    assert_int_equal(put_with("x-amz-checksum-xxhash64", "AAAAAAAAAAA="), 501);
    assert_int_equal(
        CALL(.method = "PUT", .path = "/box/digest", .body = "hello", .size = 5,
             .payload = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        400);
    assert_error(400, "XAmzContentSHA256Mismatch");
    assert_int_equal(simple("HEAD", "/box/digest", NULL), 404);
}

static void a_checksum_is_kept_and_given_back_when_asked_for(void **state) {
    assert_int_equal(put_with("x-amz-checksum-crc32", "NhCmhg=="), 200);
    assert_header("x-amz-checksum-crc32", "NhCmhg==");
    assert_header("x-amz-checksum-type", "FULL_OBJECT");
    assert_int_equal(simple("HEAD", "/box/digest", NULL), 200);
    assert_header("x-amz-checksum-crc32", "");
    assert_int_equal(CALL(.method = "HEAD", .path = "/box/digest",
                          .headers = {"x-amz-checksum-mode", "ENABLED"}),
                     200);
    assert_header("x-amz-checksum-crc32", "NhCmhg==");
}

static int put_framed(const char *body, const char *decoded) {
    return CALL(.method = "PUT", .path = "/box/framed", .body = body, .size = strlen(body),
                .payload = "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
                .headers = {"x-amz-trailer", "x-amz-checksum-crc32", "content-encoding",
                            "aws-chunked", decoded ? "x-amz-decoded-content-length" : NULL,
                            decoded});
}

static void framed_bodies_are_unframed(void **state) {
    const char body[] = "2\r\nhe\r\n3\r\nllo\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
    const char *const decoded[] = {"5", NULL};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(put_framed(body, decoded[i]), 200);
        assert_header("x-amz-checksum-crc32", "NhCmhg==");
        assert_int_equal(simple("GET", "/box/framed", NULL), 200);
        assert_string_equal(answer.body, "hello");
        assert_header("Content-Encoding", "");
    }
    assert_int_equal(simple("DELETE", "/box/framed", NULL), 204);
    assert_int_equal(put_framed(body, "4"), 400);
    assert_error(400, "IncompleteBody");
    assert_int_equal(put_framed(body, "6"), 400);
    assert_int_equal(put_framed("5\r\nhellO\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n", "5"),
                     400);
    assert_error(400, "BadDigest");
    assert_int_equal(put_framed("5\r\nhello\r\n0\r\n\r\n", "5"), 400);
    assert_int_equal(simple("HEAD", "/box/framed", NULL), 404);
    assert_int_equal(put_framed("0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n", "0"), 200);
    assert_int_equal(simple("HEAD", "/box/framed", NULL), 200);
    assert_header("Content-Length", "0");
}

static void sizes_must_be_known_and_possible(void **state) {
    assert_int_equal(CALL(.method = "PUT", .path = "/box/x", .no_length = true), 411);
    assert_error(411, "MissingContentLength");
    assert_int_equal(CALL(.method = "PUT", .path = "/box/x", .length = "5368709121",
                          .payload = "UNSIGNED-PAYLOAD"),
                     400);
    assert_error(400, "EntityTooLarge");
}

static void promises_that_cannot_be_kept_are_refused(void **state) {
    assert_int_equal(put_with("x-amz-server-side-encryption", "AES256"), 501);
    assert_int_equal(put_with("x-amz-copy-source", "/box/a"), 501);
    assert_int_equal(put_with("x-amz-acl", "public-read"), 501);
    assert_int_equal(put_with("x-amz-acl", "private"), 200);
    assert_int_equal(put_with("x-amz-storage-class", "STANDARD"), 200);
    char value[2100];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = 0;
    assert_int_equal(put_with("x-amz-meta-big", value), 400);
    assert_error(400, "MetadataTooLarge");
}

static void listings_go_on_where_they_stopped(void **state) {
    char query[512] = "list-type=2&max-keys=2&prefix=list%2F&delimiter=%2F", pages[8] = "";
    const char *const keys[] = {"/box/list/a", "/box/list/b/1", "/box/list/b/2", "/box/list/c"};
    for (size_t i = 0; i < 4; i++) assert_int_equal(put_text(keys[i], ""), 200);
    for (unsigned page = 0; page < 3; page++) {
        assert_int_equal(simple("GET", "/box", query), 200);
        strcat(pages, answer_element("KeyCount"));
        const char *next = answer_element("NextContinuationToken");
        if (!*next) break;
        snprintf(query, sizeof query,
                 "list-type=2&max-keys=2&prefix=list%%2F&delimiter=%%2F&continuation-token=%s",
                 next);
    }
    assert_string_equal(pages, "21");
    assert_int_equal(simple("GET", "/box", "list-type=2&max-keys=-1"), 400);
    assert_int_equal(simple("GET", "/box", "list-type=2&continuation-token=made-up"), 400);
    assert_error(400, "InvalidArgument");
    assert_int_equal(simple("GET", "/box", "prefix=list%2F&max-keys=1&delimiter=%2F"), 200);
    assert_string_equal(answer_element("NextMarker"), "list/a");
    assert_int_equal(simple("GET", "/box", "list-type=2&max-keys=5000"), 200);
    assert_string_equal(answer_element("MaxKeys"), "1000");
}

static void many_keys_are_deleted_at_once(void **state) {
    struct text body _cleanup_text_ = {0};
    char path[64];
    text_append_string(&body, "<Delete>");
    for (unsigned i = 0; i < 50; i++) {
        snprintf(path, sizeof path, "/box/many/%u", i);
        assert_int_equal(put_text(path, "x"), 200);
        text_append_format(&body, "<Object><Key>many/%u</Key></Object>", i);
    }
    text_append_string(&body, "<Object><Key>many/0</Key><VersionId>v</VersionId></Object>");
    text_append_string(&body, "</Delete>");
    assert_int_equal(CALL(.method = "POST", .path = "/box", .query = "delete", .body = body.data,
                          .size = body.size),
                     200);
    assert_non_null(strstr(answer.body, "<Deleted><Key>many/49</Key></Deleted>"));
    assert_non_null(strstr(answer.body, "<Error><Key>many/0</Key><Code>InvalidArgument</Code>"));
    assert_int_equal(simple("GET", "/box", "list-type=2&prefix=many"), 200);
    assert_string_equal(answer_element("KeyCount"), "0");
}

static void a_completion_can_be_repeated(void **state) {
    char query[128], body[256], etag[64];
    assert_int_equal(simple("POST", "/box/twice", "uploads"), 200);
    snprintf(query, sizeof query, "uploadId=%s&partNumber=1", answer_element("UploadId"));
    assert_int_equal(
        CALL(.method = "PUT", .path = "/box/twice", .query = query, .body = "part", .size = 4),
        200);
    int size = snprintf(body, sizeof body,
                        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag>"
                        "</Part></CompleteMultipartUpload>",
                        answer_header(&answer, "ETag"));
    *strchr(query, '&') = 0;
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(CALL(.method = "POST", .path = "/box/twice", .query = query, .body = body,
                              .size = (size_t)size),
                         200);
        if (i) assert_string_equal(answer_element("ETag"), etag);
        snprintf(etag, sizeof etag, "%s", answer_element("ETag"));
    }
    assert_int_equal(CALL(.method = "POST", .path = "/box/twice", .query = "uploadId=none",
                          .body = body, .size = (size_t)size),
                     404);
    assert_int_equal(CALL(.method = "POST", .path = "/box/twice", .query = query,
                          .body = "<CompleteMultipartUpload/>", .size = 26),
                     400);
    assert_error(400, "MalformedXML");
}

static void uploads_can_be_listed_and_aborted(void **state) {
    char query[128], id[64];
    assert_int_equal(simple("POST", "/box/up", "uploads"), 200);
    snprintf(id, sizeof id, "%s", answer_element("UploadId"));
    snprintf(query, sizeof query, "partNumber=3&uploadId=%s", id);
    assert_int_equal(
        CALL(.method = "PUT", .path = "/box/up", .query = query, .body = "part", .size = 4), 200);
    snprintf(query, sizeof query, "uploadId=%s", id);
    assert_int_equal(simple("GET", "/box/up", query), 200);
    assert_string_equal(answer_element("PartNumber"), "3");
    assert_string_equal(answer_element("Size"), "4");
    assert_int_equal(simple("GET", "/box", "uploads"), 200);
    assert_string_equal(answer_element("UploadId"), id);
    assert_int_equal(simple("DELETE", "/box/up", query), 204);
    assert_int_equal(simple("GET", "/box/up", query), 404);
    assert_error(404, "NoSuchUpload");
    assert_int_equal(simple("PUT", "/box/up", "partNumber=1"), 400);
    assert_int_equal(simple("PUT", "/box/up", "partNumber=0&uploadId=x"), 400);
}

static void a_bucket_can_be_the_hosts_name(void **state) {
    assert_int_equal(put_text("/box/v", "virtual"), 200);
    assert_int_equal(CALL(.method = "GET", .path = "/v", .host = "box.s3.example:80"), 200);
    assert_string_equal(answer.body, "virtual");
}

/* Everything that such a request held must come back: world_end() finds a block that is missing. */
static void a_client_that_goes_away_leaves_nothing_behind(void **state) {
    static uint8_t data[3 * MIB];
    struct client leaving;
    struct text head _cleanup_text_ = {0};
    struct call put = {.method = "PUT", .path = "/box/half", .body = data, .size = sizeof data};
    text_append_string(&head, "PUT /box/half HTTP/1.1\r\n");
    sign(&put, &head);
    text_append_format(&head, "content-length: %zu\r\n\r\n", sizeof data);
    client_open(&leaving, http_server_port(world.server));
    client_send_bytes(&leaving, head.data, head.size);
    client_send_bytes(&leaving, (char *)data, sizeof data / 2);
    client_vanish(&leaving);
    assert_int_equal(simple("HEAD", "/box/half", NULL), 404);

    assert_int_equal(CALL(.method = "PUT", .path = "/box/whole", .body = data, .size = sizeof data),
                     200);
    struct call get = {.method = "GET", .path = "/box/whole"};
    text_clear(&head);
    text_append_string(&head, "GET /box/whole HTTP/1.1\r\n");
    sign(&get, &head);
    text_append_string(&head, "\r\n");
    client_open(&leaving, http_server_port(world.server));
    client_send_bytes(&leaving, head.data, head.size);
    assert_true(client_receive(&leaving));
    client_vanish(&leaving);
    assert_int_equal(simple("HEAD", "/box/whole", NULL), 200);
}

static void strangers_learn_nothing(void **state) {
    struct client *c = &world.client;
    answer_end(&answer);
    client_send(c, "GET /box/v HTTP/1.1\r\nHost: h\r\n\r\n");
    client_read(c, &answer, false);
    assert_error(403, "AccessDenied");
    answer_end(&answer);
    client_send(c, "GET /no-such-bucket/%zz HTTP/1.1\r\nHost: h\r\n\r\n");
    client_read(c, &answer, false);
    assert_error(403, "AccessDenied");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_come_and_go),
        cmocka_unit_test(a_bucket_lives_in_the_servers_region),
        cmocka_unit_test(every_answer_has_a_request_id_and_errors_explain_themselves),
        cmocka_unit_test(an_object_comes_back_with_its_headers),
        cmocka_unit_test(objects_of_all_sizes_survive),
        cmocka_unit_test(ranges_outside_say_how_long_the_object_is),
        cmocka_unit_test(conditions_guard_reads_and_writes),
        cmocka_unit_test(wrong_digests_store_nothing),
        cmocka_unit_test(a_checksum_is_kept_and_given_back_when_asked_for),
        cmocka_unit_test(framed_bodies_are_unframed),
        cmocka_unit_test(sizes_must_be_known_and_possible),
        cmocka_unit_test(promises_that_cannot_be_kept_are_refused),
        cmocka_unit_test(listings_go_on_where_they_stopped),
        cmocka_unit_test(many_keys_are_deleted_at_once),
        cmocka_unit_test(a_completion_can_be_repeated),
        cmocka_unit_test(uploads_can_be_listed_and_aborted),
        cmocka_unit_test(a_bucket_can_be_the_hosts_name),
        cmocka_unit_test(a_client_that_goes_away_leaves_nothing_behind),
        cmocka_unit_test(strangers_learn_nothing),
    };
    return cmocka_run_group_tests(tests, make_bucket, world_end);
}
