/* The control exchange of S3 over RDMA, with memory that the test holds: what is answered when
 * bytes moved, when they could not, and when they must not. */
#include "s3_world.h"

#define OBJECT_SIZE (3 * MIB / 2 + 7) /* six blocks and a piece */

static void assert_reply(const char *reply, const char *bytes) {
    assert_header("x-amz-rdma-reply", reply);
    assert_header("x-amz-rdma-bytes-transferred", bytes);
}

static int put_from_memory(const char *path, const char *token) {
    return CALL(.method = "PUT", .path = path, .payload = "UNSIGNED-PAYLOAD",
                .headers = {"x-amz-rdma-token", token});
}

static int get_into_memory(const char *path, const char *token, const char *name,
                           const char *value) {
    return CALL(.method = "GET", .path = path, .headers = {"x-amz-rdma-token", token, name, value});
}

static int make_bucket(void **state) {
    return world_begin(state) || simple("PUT", "/rdma", NULL) != 200;
}

static void crc64_text(const void *data, size_t size, char out[16]) {
    uint64_t crc = __builtin_bswap64(checksum_crc64nvme(0, data, size));
    base64_encode(&crc, sizeof crc, out);
}

static void a_put_takes_the_bytes_from_the_memory(void **state) {
    char token[32], size[32], crc[16];
    snprintf(size, sizeof size, "%llu", OBJECT_SIZE);
    snprintf(token, sizeof token, "mem:%s", size);
    fill_bytes(memory, OBJECT_SIZE, 1);
    crc64_text(memory, OBJECT_SIZE, crc);
    assert_int_equal(put_from_memory("/rdma/a", token), 200);
    assert_reply("200", size);
    assert_header("Content-Length", "0");
    assert_header("x-amz-checksum-crc64nvme", crc);
    /* Opaque: as long as "MD5-1", so that nobody takes it for an MD5. */
    assert_int_equal(strlen(answer_header(&answer, "ETag")), 36);
    assert_non_null(strstr(answer_header(&answer, "ETag"), "-1\""));
    assert_int_equal(simple("GET", "/rdma/a", NULL), 200);
    assert_int_equal(answer.size, OBJECT_SIZE);
    assert_memory_equal(answer.body, memory, OBJECT_SIZE);
}

static void a_get_puts_the_bytes_into_the_memory(void **state) {
    static uint8_t expected[OBJECT_SIZE];
    fill_bytes(expected, sizeof expected, 2);
    assert_int_equal(
        CALL(.method = "PUT", .path = "/rdma/b", .body = expected, .size = sizeof expected), 200);
    memset(memory, 0, MEMORY_SIZE);
    assert_int_equal(get_into_memory("/rdma/b", "mem:4194304", NULL, NULL), 200);
    assert_reply("200", "1572871");
    assert_header("Content-Length", "0");
    assert_header("Content-Type", "binary/octet-stream");
    assert_int_equal(answer.size, 0);
    assert_memory_equal(memory, expected, sizeof expected);
    assert_int_equal(memory[sizeof expected], 0);
}

static void a_range_is_answered_as_a_range_even_if_it_is_all(void **state) {
    assert_int_equal(put_text("/rdma/c", "0123456789"), 200);
    memset(memory, '.', 20);
    assert_int_equal(get_into_memory("/rdma/c", "mem:20", "range", "bytes=2-4"), 206);
    assert_reply("206", "3");
    assert_header("Content-Range", "bytes 2-4/10");
    assert_memory_equal(memory, "234...", 6);
    assert_int_equal(get_into_memory("/rdma/c", "mem:20", "range", "bytes=0-9"), 206);
    assert_reply("206", "10");
    assert_header("Content-Range", "bytes 0-9/10");
    assert_int_equal(get_into_memory("/rdma/c", "mem:20", "range", "bytes=10-"), 416);
    assert_header("x-amz-rdma-reply", "");
}

static void a_part_is_answered_as_a_part(void **state) {
    assert_int_equal(put_text("/rdma/p", "part"), 200);
    assert_int_equal(CALL(.method = "GET", .path = "/rdma/p", .query = "partNumber=1",
                          .headers = {"x-amz-rdma-token", "mem:4"}),
                     206);
    assert_reply("206", "4");
}

static void nothing_is_written_past_the_end_of_the_memory(void **state) {
    assert_int_equal(put_text("/rdma/d", "0123456789"), 200);
    memset(memory, '.', 20);
    assert_int_equal(get_into_memory("/rdma/d", "mem:9", NULL, NULL), 400);
    assert_error(400, "InvalidArgument");
    assert_header("x-amz-rdma-reply", "");
    assert_int_equal(get_into_memory("/rdma/d", "mem:2", "range", "bytes=1-3"), 400);
    assert_memory_equal(memory, "..........", 10);
    assert_int_equal(get_into_memory("/rdma/d", "mem:10", NULL, NULL), 200);
}

static void empty_objects_move_no_bytes(void **state) {
    assert_int_equal(put_from_memory("/rdma/empty", "mem:0"), 200);
    assert_reply("200", "0");
    assert_int_equal(get_into_memory("/rdma/empty", "mem:0", NULL, NULL), 200);
    assert_reply("200", "0");
}

static void a_declined_put_stores_nothing_and_has_no_etag(void **state) {
    assert_int_equal(put_from_memory("/rdma/e", "far:100"), 501);
    assert_error(501, "RDMANotSupported");
    assert_header("x-amz-rdma-reply", "501");
    assert_header("ETag", "");
    assert_int_equal(simple("HEAD", "/rdma/e", NULL), 404);
}

static void a_declined_get_brings_the_body(void **state) {
    assert_int_equal(put_text("/rdma/f", "0123456789"), 200);
    assert_int_equal(get_into_memory("/rdma/f", "far:100", NULL, NULL), 200);
    assert_header("x-amz-rdma-reply", "501");
    assert_string_equal(answer.body, "0123456789");
    assert_int_equal(get_into_memory("/rdma/f", "far:100", "range", "bytes=3-5"), 206);
    assert_header("x-amz-rdma-reply", "501");
    assert_string_equal(answer.body, "345");
}

static void a_bad_token_is_named(void **state) {
    assert_int_equal(put_text("/rdma/g", "x"), 200);
    assert_int_equal(get_into_memory("/rdma/g", "nonsense", NULL, NULL), 400);
    assert_error(400, "InvalidRDMAToken");
    assert_non_null(strstr(answer_element("Message"), "size"));
    assert_header("x-amz-rdma-reply", "");
    assert_int_equal(put_from_memory("/rdma/g2", "nonsense"), 400);
    assert_error(400, "InvalidRDMAToken");
}

static void a_failed_transfer_stores_nothing(void **state) {
    assert_int_equal(put_from_memory("/rdma/h", "gone:3000000"), 500);
    assert_error(500, "RDMATransferFailed");
    assert_int_equal(simple("HEAD", "/rdma/h", NULL), 404);
    assert_int_equal(put_text("/rdma/h", "there"), 200);
    assert_int_equal(get_into_memory("/rdma/h", "gone:100", NULL, NULL), 500);
    assert_error(500, "RDMATransferFailed");
}

static void a_token_that_was_not_signed_is_refused(void **state) {
    assert_int_equal(put_text("/rdma/i", "x"), 200);
    assert_int_equal(CALL(.method = "GET", .path = "/rdma/i", .unsigned_name = "x-amz-rdma-token",
                          .unsigned_value = "mem:100"),
                     403);
    assert_error(403, "AccessDenied");
}

static void the_bytes_are_checked_against_the_clients_checksum(void **state) {
    char crc[16];
    memcpy(memory, "payload", 7);
    crc64_text("payload", 7, crc);
    assert_int_equal(
        CALL(.method = "PUT", .path = "/rdma/j", .payload = "UNSIGNED-PAYLOAD",
             .headers = {"x-amz-rdma-token", "mem:7", "x-amz-checksum-crc64nvme", crc}),
        200);
    memcpy(memory, "changed", 7);
    assert_int_equal(
        CALL(.method = "PUT", .path = "/rdma/k", .payload = "UNSIGNED-PAYLOAD",
             .headers = {"x-amz-rdma-token", "mem:7", "x-amz-checksum-crc64nvme", crc}),
        400);
    assert_error(400, "BadDigest");
    assert_int_equal(simple("HEAD", "/rdma/k", NULL), 404);
}

static void a_body_that_never_comes_is_not_waited_for(void **state) {
    memcpy(memory, "0123456789", 10);
    assert_int_equal(CALL(.method = "PUT", .path = "/rdma/l", .payload = "UNSIGNED-PAYLOAD",
                          .length = "10", .headers = {"x-amz-rdma-token", "mem:10"}),
                     200);
    assert_int_equal(simple("GET", "/rdma/l", NULL), 200);
    assert_string_equal(answer.body, "0123456789");
}

static void parts_may_come_either_way(void **state) {
    static char first[5 * MIB], query[128], body[512];
    fill_bytes((uint8_t *)first, sizeof first, 3);
    assert_int_equal(CALL(.method = "POST", .path = "/rdma/m", .query = "uploads=",
                          .headers = {"x-amz-checksum-algorithm", "CRC64NVME"}),
                     200);
    char id[64], etags[2][64];
    snprintf(id, sizeof id, "%s", answer_element("UploadId"));
    snprintf(query, sizeof query, "partNumber=1&uploadId=%s", id);
    assert_int_equal(CALL(.method = "PUT", .path = "/rdma/m", .query = query, .body = first,
                          .size = sizeof first),
                     200);
    snprintf(etags[0], sizeof etags[0], "%s", answer_header(&answer, "ETag"));
    memcpy(memory, "tail", 4);
    snprintf(query, sizeof query, "partNumber=2&uploadId=%s", id);
    assert_int_equal(CALL(.method = "PUT", .path = "/rdma/m", .query = query,
                          .payload = "UNSIGNED-PAYLOAD", .headers = {"x-amz-rdma-token", "mem:4"}),
                     200);
    assert_reply("200", "4");
    snprintf(etags[1], sizeof etags[1], "%s", answer_header(&answer, "ETag"));
    snprintf(query, sizeof query, "uploadId=%s", id);
    int size = snprintf(body, sizeof body,
                        "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>%s</ETag>"
                        "</Part><Part><PartNumber>2</PartNumber><ETag>%s</ETag></Part>"
                        "</CompleteMultipartUpload>",
                        etags[0], etags[1]);
    assert_int_equal(CALL(.method = "POST", .path = "/rdma/m", .query = query, .body = body,
                          .size = (size_t)size),
                     200);
    assert_int_equal(CALL(.method = "GET", .path = "/rdma/m", .headers = {"range", "bytes=-6"}),
                     206);
    assert_memory_equal(answer.body + 2, "tail", 4);
}

static void an_introduction_is_a_signed_post(void **state) {
    assert_int_equal(simple("POST", "/.penstock/shm", NULL), 200);
    assert_string_equal(answer.body, "{\"ticket\":\"for " ACCESS_KEY "\"}");
    assert_int_equal(simple("GET", "/.penstock/shm", NULL), 405);
    assert_int_equal(simple("GET", "/.penstock/stats", NULL), 200);
    assert_string_equal(answer.body, "{}");
    assert_int_equal(simple("GET", "/.penstock/none", NULL), 404);
}

static void what_happened_is_counted(void **state) {
    struct s3_stats stats;
    s3_stats(world.service, &stats);
    assert_int_equal(stats.one_sided_put, 5);
    assert_int_equal(stats.one_sided_get, 6);
    assert_int_equal(stats.declined, 3);
    assert_int_equal(stats.errors_5xx, 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_put_takes_the_bytes_from_the_memory),
        cmocka_unit_test(a_get_puts_the_bytes_into_the_memory),
        cmocka_unit_test(a_range_is_answered_as_a_range_even_if_it_is_all),
        cmocka_unit_test(a_part_is_answered_as_a_part),
        cmocka_unit_test(nothing_is_written_past_the_end_of_the_memory),
        cmocka_unit_test(empty_objects_move_no_bytes),
        cmocka_unit_test(a_declined_put_stores_nothing_and_has_no_etag),
        cmocka_unit_test(a_declined_get_brings_the_body),
        cmocka_unit_test(a_bad_token_is_named),
        cmocka_unit_test(a_failed_transfer_stores_nothing),
        cmocka_unit_test(a_token_that_was_not_signed_is_refused),
        cmocka_unit_test(the_bytes_are_checked_against_the_clients_checksum),
        cmocka_unit_test(a_body_that_never_comes_is_not_waited_for),
        cmocka_unit_test(parts_may_come_either_way),
        cmocka_unit_test(an_introduction_is_a_signed_post),
        cmocka_unit_test(what_happened_is_counted),
    };
    return cmocka_run_group_tests(tests, make_bucket, world_end);
}
