/* Objects from end to end: the last writer wins, whole versions only, space comes back, and
 * conditions hold also in a race. */
#include "object_world.h"

static void read_back_tale(void) {
    const uint64_t sizes[] = {0, 1, 16 * KIB, 16 * KIB + 1, UNIT, 5 * MIB + 3};
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        char key[32];
        snprintf(key, sizeof(key), "size/%u", i);
        require_result(put_await(key, i, sizes[i]), 0);
        check_object_await(key, i, sizes[i]);
    }
}

static void what_is_put_is_read_back(void **state) {
    (void)state;
    make_world();
    story(read_back_tale);
    reopen_store();
    end_world();
}

static void describe_tale(void) {
    const struct object_header headers[] = {
        {SLICE_LITERAL("content-type"), SLICE_LITERAL("text/plain")},
        {SLICE_LITERAL("x-amz-meta-empty"), SLICE_LITERAL("")},
        {SLICE_LITERAL("x-amz-meta-word"), SLICE_LITERAL("gr\xc3\xbc\xc3\x9f")},
    };
    struct object_write write = {.key = slice_of("told"),
                                 .info = {.headers = headers,
                                          .header_count = 3,
                                          .etag = "d41d8cd98f00b204e9800998ecf8427e",
                                          .checksum = {.kind = DIGEST_SHA1, .value = {1, 2, 3}}}};
    struct blob_writer *writer = write_bytes_await(1, 100, NULL);
    require_result(object_commit_await(world.store, &world.bucket, &write, &writer), 0);
    struct object *object = open_await("told");
    const struct object_info *info = object_info(object);
    require(info->size == 100 && info->part_count == 0 && info->modified_ms > 0);
    require(!strcmp(info->etag, write.info.etag));
    require(info->checksum.kind == DIGEST_SHA1 && !info->checksum.composite);
    require(!memcmp(info->checksum.value, write.info.checksum.value, SHA1_SIZE));
    require(info->header_count == 3);
    for (unsigned i = 0; i < 3; i++)
        require(slice_equal(info->headers[i].name, headers[i].name) &&
                slice_equal(info->headers[i].value, headers[i].value));
    uint64_t offset, size;
    require_result(object_part_range(object, 1, &offset, &size), 0);
    require(offset == 0 && size == 100);
    require_result(object_part_range(object, 2, &offset, &size), ERR_INVALID_PART);
    object_close(&object);
}

static void what_is_told_about_an_object_is_kept(void **state) {
    (void)state;
    make_world();
    story(describe_tale);
    end_world();
}

static void range_tale(void) {
    const uint64_t size = 5 * MIB + 77;
    const uint64_t ranges[][2] = {{0, 1},    {size - 1, 1}, {UNIT - 1, 2}, {4 * MIB - 9, 100},
                                  {size, 0}, {3, size - 3}};
    require_result(put_await("ranges", 9, size), 0);
    struct object *object = open_await("ranges");
    const uint64_t seed = 9;
    for (unsigned i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        check_range_await(object, ranges[i][0], ranges[i][1], expect_seed, &seed);
    struct object_reader *reader = NULL;
    require_result(object_reader_open_await(object, size, 1, &reader), ERR_INVALID_RANGE);
    require_result(object_reader_open_await(object, 1, UINT64_MAX, &reader), ERR_INVALID_RANGE);
    object_close(&object);
}

static void any_range_can_be_read(void **state) {
    (void)state;
    make_world();
    story(range_tale);
    end_world();
}

static void overwrite_tale(void) {
    require_result(put_await("name", 1, 100 * KIB), 0);
    check_object_await("name", 1, 100 * KIB);
    require_result(put_await("name", 2, 10), 0);
    check_object_await("name", 2, 10);
    require_result(put_await("name", 3, 0), 0);
    check_object_await("name", 3, 0);
    require_result(put_await("name", 4, 3 * MIB), 0);
    check_object_await("name", 4, 3 * MIB);
}

static void the_last_writer_wins(void **state) {
    (void)state;
    make_world();
    story(overwrite_tale);
    end_world();
}

static void space_tale(void) {
    uint64_t empty = used_bytes();
    require_result(put_await("a", 1, 9 * MIB), 0);
    require_result(put_await("b", 2, 4 * KIB), 0);
    uint64_t full = used_bytes();
    require(full > empty);
    for (unsigned i = 0; i < 5; i++) require_result(put_await("a", 3 + i, 9 * MIB), 0);
    require(used_bytes() == full);
    require_result(delete_await("a"), 0);
    require_result(delete_await("b"), 0);
    require(used_bytes() == empty);
    require(!is_there_await("a") && !is_there_await("b"));
    require_result(delete_await("a"), 0); /* what is not there is deleted already */
}

static void overwriting_and_deleting_give_space_back(void **state) {
    (void)state;
    make_world();
    story(space_tale);
    end_world();
}

static void old_reader_tale(void) {
    uint64_t empty = used_bytes();
    require_result(put_await("big", 1, 6 * MIB), 0);
    require_result(put_await("small", 2, 1000), 0);
    struct object *big = open_await("big"), *small = open_await("small");
    require_result(put_await("big", 3, 6 * MIB), 0);
    require_result(delete_await("small"), 0);
    check_object_await("big", 3, 6 * MIB);
    check_open_object_await(big, 1, 6 * MIB);
    check_open_object_await(small, 2, 1000);
    require_result(delete_await("big"), 0);
    require_result(put_await("other", 4, 6 * MIB), 0); /* must not land on what is still read */
    check_open_object_await(big, 1, 6 * MIB);
    require(used_bytes() > empty + 11 * MIB);
    object_close(&big);
    object_close(&small);
    require_result(delete_await("other"), 0);
    require(used_bytes() == empty);
}

static void a_reader_of_the_old_version_finishes(void **state) {
    (void)state;
    make_world();
    story(old_reader_tale);
    end_world();
}

struct writer_job {
    uint64_t seed, size;
    struct object_condition condition;
    int err;
};

static void put_same_name(void *arg) {
    struct writer_job *job = arg;
    job->err = put_if_await("raced", job->seed, job->size, job->condition);
}

static void check_winner(void) {
    struct object *object = open_await("raced");
    uint64_t seed = strtoull(object_info(object)->etag, NULL, 10);
    check_open_object_await(object, seed, 20 * KIB + seed);
    object_close(&object);
}

static void of_many_creators_exactly_one_wins(void **state) {
    (void)state;
    make_world();
    struct writer_job jobs[32];
    for (unsigned i = 0; i < 32; i++)
        jobs[i] = (struct writer_job){i, 20 * KIB + i, {.if_none_match_any = true}, 1};
    run_together(put_same_name, jobs, sizeof(jobs[0]), 32);
    unsigned won = 0;
    for (unsigned i = 0; i < 32; i++) {
        if (jobs[i].err == 0)
            won++;
        else
            assert_int_equal(jobs[i].err, ERR_PRECONDITION_FAILED);
    }
    assert_int_equal(won, 1);
    story(check_winner);
    end_world();
}

static void delete_raced(void) {
    require_result(delete_await("raced"), 0);
}

static void racing_writers_leave_one_whole_object(void **state) {
    (void)state;
    make_world();
    uint64_t empty = used_bytes();
    struct writer_job jobs[32];
    for (unsigned i = 0; i < 32; i++) jobs[i] = (struct writer_job){i, 20 * KIB + i, {0}, 1};
    run_together(put_same_name, jobs, sizeof(jobs[0]), 32);
    for (unsigned i = 0; i < 32; i++) assert_int_equal(jobs[i].err, 0);
    story(check_winner);
    story(delete_raced);
    assert_int_equal(used_bytes(), empty);
    end_world();
}

struct reader_job {
    bool write;
    uint64_t seed;
};

static void read_or_write(void *arg) {
    const struct reader_job *job = arg;
    for (unsigned i = 0; i < 12; i++) {
        uint64_t seed = job->seed * 100 + i;
        if (job->write)
            require_result(put_await("raced", seed, 20 * KIB + seed), 0);
        else
            check_winner();
    }
}

static void readers_see_whole_versions_while_others_write(void **state) {
    (void)state;
    make_world();
    struct reader_job first = {.write = true}, jobs[12];
    run_together(read_or_write, &first, sizeof(first), 1);
    for (unsigned i = 0; i < 12; i++) jobs[i] = (struct reader_job){i % 3 == 0, i};
    run_together(read_or_write, jobs, sizeof(jobs[0]), 12);
    end_world();
}

static void condition_tale(void) {
    struct object_condition any = {.if_match = "*"}, one = {.if_match = "1"};
    struct object_condition create = {.if_none_match_any = true};
    require_result(put_if_await("c", 1, 10, any), ERR_NO_SUCH_KEY);
    require_result(put_if_await("c", 1, 10, one), ERR_NO_SUCH_KEY);
    require_result(put_if_await("c", 1, 10, create), 0);
    require_result(put_if_await("c", 2, 10, create), ERR_PRECONDITION_FAILED);
    require_result(put_if_await("c", 2, 20, one), 0);
    require_result(put_if_await("c", 3, 10, one), ERR_PRECONDITION_FAILED);
    check_object_await("c", 2, 20);
    require_result(put_if_await("c", 4, 40, any), 0);
    check_object_await("c", 4, 40);
    struct slice key = slice_of("c");
    require_result(object_delete_await(world.store, &world.bucket, key, &one),
                   ERR_PRECONDITION_FAILED);
    struct object_condition four = {.if_match = "4"};
    require_result(object_delete_await(world.store, &world.bucket, key, &four), 0);
    require_result(object_delete_await(world.store, &world.bucket, key, &four), ERR_NO_SUCH_KEY);
}

static void conditions_are_checked_by_the_commit(void **state) {
    (void)state;
    make_world();
    story(condition_tale);
    end_world();
}

static void limits_tale(void) {
    char key[OBJECT_KEY_MAX + 2];
    memset(key, 'k', sizeof(key));
    key[OBJECT_KEY_MAX] = 0;
    require_result(put_await(key, 1, 10), 0);
    check_object_await(key, 1, 10);
    key[OBJECT_KEY_MAX] = 'k';
    key[OBJECT_KEY_MAX + 1] = 0;
    require_result(put_await(key, 1, 10), ERR_KEY_TOO_LONG);
    require_result(put_await("", 1, 10), ERR_INVALID_ARGUMENT);
    static char value[OBJECT_HEADERS_MAX];
    struct object_header header = {slice_of("h"), {value, sizeof(value) - 5}};
    struct object_write write = {.key = slice_of("h"),
                                 .info = {.headers = &header, .header_count = 1}};
    struct blob_writer *writer = write_bytes_await(1, 1, NULL);
    header.value.size++;
    require_result(object_commit_await(world.store, &world.bucket, &write, &writer),
                   ERR_METADATA_TOO_LARGE);
    header.value.size--;
    require_result(object_commit_await(world.store, &world.bucket, &write, &writer), 0);
}

static void names_and_headers_have_limits(void **state) {
    (void)state;
    make_world();
    story(limits_tale);
    end_world();
}

static void survivors_tale(void) {
    check_object_await("kept", 5, 5 * MIB);
    check_object_await("tiny", 6, 6);
    require(!is_there_await("gone"));
}

static void before_restart_tale(void) {
    require_result(put_await("kept", 5, 5 * MIB), 0);
    require_result(put_await("tiny", 6, 6), 0);
    require_result(put_await("gone", 7, 7 * KIB), 0);
    require_result(delete_await("gone"), 0);
}

static void a_restart_changes_nothing(void **state) {
    (void)state;
    make_world();
    story(before_restart_tale);
    uint64_t used = used_bytes();
    reopen_store();
    assert_int_equal(used_bytes(), used);
    story(survivors_tale);
    end_world();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_read_back),
        cmocka_unit_test(what_is_told_about_an_object_is_kept),
        cmocka_unit_test(any_range_can_be_read),
        cmocka_unit_test(the_last_writer_wins),
        cmocka_unit_test(overwriting_and_deleting_give_space_back),
        cmocka_unit_test(a_reader_of_the_old_version_finishes),
        cmocka_unit_test(of_many_creators_exactly_one_wins),
        cmocka_unit_test(racing_writers_leave_one_whole_object),
        cmocka_unit_test(readers_see_whole_versions_while_others_write),
        cmocka_unit_test(conditions_are_checked_by_the_commit),
        cmocka_unit_test(names_and_headers_have_limits),
        cmocka_unit_test(a_restart_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
