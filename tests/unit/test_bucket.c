/* Buckets: what they may be called, and that nothing is ever in a bucket that is not there. */
#include "object_world.h"

static void names_follow_the_rules_of_s3(void **state) {
    (void)state;
    const char *const good[] = {"abc", "a1-b2", "my.bucket", "123", "1.2.3", "a--b", "x-s3"};
    const char *const bad[] = {"",           "ab",       "Abc",         "a_b",
                               "-abc",       "abc-",     ".abc",        "abc.",
                               "a..b",       "1.2.3.4",  "xn--abc",     "sthree-abc",
                               "a b",        "a/b",      "abc-s3alias", "abc--x-s3",
                               "abc--ol-s3", "abc.mrap", "a\xc3\xa4z",  "amzn-s3-demo-abc",
                               ".penstock"};
    for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(bucket_name_valid(slice_of(good[i])));
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(bucket_name_valid(slice_of(bad[i])));
    char name[BUCKET_NAME_MAX + 2];
    memset(name, 'a', sizeof(name));
    assert_true(bucket_name_valid((struct slice){name, BUCKET_NAME_MAX}));
    assert_false(bucket_name_valid((struct slice){name, BUCKET_NAME_MAX + 1}));
}

static int create_await(const char *name) {
    return bucket_create_await(world.store, slice_of(name), "eu-north-1");
}

static void life_tale(void) {
    struct bucket first, second;
    require_result(bucket_get_await(world.store, slice_of("fresh"), &first), ERR_NO_SUCH_BUCKET);
    require_result(create_await("fresh"), 0);
    require_result(create_await("fresh"), ERR_BUCKET_ALREADY_OWNED);
    require_result(create_await("No"), ERR_INVALID_BUCKET_NAME);
    require_result(bucket_get_await(world.store, slice_of("fresh"), &first), 0);
    require(!strcmp(first.name, "fresh") && !strcmp(first.region, "eu-north-1"));
    require(first.created_ms > 0);
    require_result(bucket_delete_await(world.store, slice_of("fresh")), 0);
    require_result(bucket_delete_await(world.store, slice_of("fresh")), ERR_NO_SUCH_BUCKET);
    require_result(create_await("fresh"), 0);
    require_result(bucket_get_await(world.store, slice_of("fresh"), &second), 0);
    require(second.id != first.id);

    /* Whoever still holds the first one writes nowhere. */
    world.bucket = first;
    require_result(put_await("late", 1, 10), ERR_NO_SUCH_BUCKET);
    struct upload_info upload = {.key = slice_of("late")};
    require_result(upload_create_await(world.store, &first, &upload), ERR_NO_SUCH_BUCKET);
}

static void a_bucket_made_again_is_another_one(void **state) {
    (void)state;
    make_world();
    story(life_tale);
    end_world();
}

static void list_tale(void) {
    const char *const names[] = {"zebra", "ant", "m.b", "m-b", "mb0"};
    const char *const sorted[] = {"ant", "m-b", "m.b", "mb0", "stories", "zebra"};
    for (unsigned i = 0; i < 5; i++) require_result(create_await(names[i]), 0);
    struct bucket *buckets = NULL;
    size_t count = 0;
    require_result(bucket_list_await(world.store, &buckets, &count), 0);
    require(count == 6);
    for (unsigned i = 0; i < 6; i++) require(!strcmp(buckets[i].name, sorted[i]));
    free(buckets);
}

static void buckets_are_listed_by_name(void **state) {
    (void)state;
    make_world();
    story(list_tale);
    end_world();
}

static void not_empty_tale(void) {
    const struct slice name = slice_of("stories");
    require_result(put_await("\xff\xff", 1, 1), 0);
    require_result(bucket_delete_await(world.store, name), ERR_BUCKET_NOT_EMPTY);
    require_result(delete_await("\xff\xff"), 0);
    struct upload_info info = {.key = slice_of("pending")};
    require_result(upload_create_await(world.store, &world.bucket, &info), 0);
    require_result(bucket_delete_await(world.store, name), ERR_BUCKET_NOT_EMPTY);
    struct upload *upload = NULL;
    require_result(
        upload_open_await(world.store, &world.bucket, info.key, slice_of(info.id), &upload), 0);
    require_result(upload_abort_await(world.store, upload), 0);
    upload_close(&upload);
    /* A neighbour's content does not count. */
    require_result(create_await("neighbour"), 0);
    struct bucket old = world.bucket;
    require_result(bucket_get_await(world.store, slice_of("neighbour"), &world.bucket), 0);
    require(world.bucket.id == old.id + 1);
    require_result(put_await("\x01", 1, 1), 0);
    require_result(bucket_delete_await(world.store, name), 0);
}

static void a_bucket_with_objects_or_uploads_stays(void **state) {
    (void)state;
    make_world();
    story(not_empty_tale);
    end_world();
}

/* Everyone makes the bucket, writes into it and deletes it, all at once. */
struct chaos_job {
    unsigned number;
};

static void chaos_round_await(unsigned number, unsigned round) {
    const struct slice name = slice_of("contested");
    struct bucket bucket;
    int err = number % 4 == 0 ? bucket_create_await(world.store, name, "") : 0;
    require(!err || err == ERR_BUCKET_ALREADY_OWNED);
    err = bucket_get_await(world.store, name, &bucket);
    require(!err || err == ERR_NO_SUCH_BUCKET);
    if (err) return;
    char key[32];
    snprintf(key, sizeof(key), "%u", number);
    struct object_write write = {.key = slice_of(key)};
    struct blob_writer *writer = write_bytes_await(round, 100, NULL);
    err = object_commit_await(world.store, &bucket, &write, &writer);
    require(!err || err == ERR_NO_SUCH_BUCKET);
    blob_writer_abort_await(&writer);
    err = object_delete_await(world.store, &bucket, write.key, NULL);
    require(!err || err == ERR_NO_SUCH_BUCKET);
    err = bucket_delete_await(world.store, name);
    require(!err || err == ERR_NO_SUCH_BUCKET || err == ERR_BUCKET_NOT_EMPTY);
}

static void make_chaos(void *arg) {
    for (unsigned round = 0; round < 30; round++)
        chaos_round_await(((struct chaos_job *)arg)->number, round);
}

static void no_object_is_left_in_a_bucket_that_is_gone(void **state) {
    (void)state;
    make_world();
    struct chaos_job jobs[12];
    for (unsigned i = 0; i < 12; i++) jobs[i].number = i;
    run_together(make_chaos, jobs, sizeof(jobs[0]), 12);
    end_world(); /* fsck finds objects without a bucket */
}

struct create_job {
    int err;
};

static void create_contested(void *arg) {
    ((struct create_job *)arg)->err = create_await("contested");
}

static void of_many_creators_exactly_one_wins(void **state) {
    (void)state;
    make_world();
    struct create_job jobs[16];
    run_together(create_contested, jobs, sizeof(jobs[0]), 16);
    unsigned won = 0;
    for (unsigned i = 0; i < 16; i++) {
        if (jobs[i].err == 0)
            won++;
        else
            assert_int_equal(jobs[i].err, ERR_BUCKET_ALREADY_OWNED);
    }
    assert_int_equal(won, 1);
    end_world();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_follow_the_rules_of_s3),
        cmocka_unit_test(a_bucket_made_again_is_another_one),
        cmocka_unit_test(buckets_are_listed_by_name),
        cmocka_unit_test(a_bucket_with_objects_or_uploads_stays),
        cmocka_unit_test(no_object_is_left_in_a_bucket_that_is_gone),
        cmocka_unit_test(of_many_creators_exactly_one_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
