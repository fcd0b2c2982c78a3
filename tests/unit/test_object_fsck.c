/* The offline check finds what was damaged on purpose, and says so in words that name the object.
 */
#include <fcntl.h>

#include "blob/segment.h"
#include "object/record.h"
#include "object/store.h"
#include "object_world.h"

static void change_record(enum meta_space space, struct slice key, struct slice value) {
    struct meta_batch *batch = NULL;
    assert_int_equal(meta_batch_create(&batch), 0);
    if (value.size)
        meta_batch_put(batch, space, key, value);
    else
        meta_batch_delete(batch, space, key);
    assert_int_equal(meta_commit_blocking(world.meta, batch), 0);
    meta_batch_destroy(&batch);
}

/* The first record of a space, copied. */
struct found {
    struct text key, value;
    const char *part; /* of the key wanted */
};

static int find_record(struct meta_cursor *cursor, void *arg) {
    struct found *found = arg;
    meta_cursor_seek(cursor, slice_of(""));
    for (; meta_cursor_valid(cursor); meta_cursor_next(cursor)) {
        struct slice key = meta_cursor_key(cursor);
        if (!memmem(key.data, key.size, found->part, strlen(found->part))) continue;
        text_append_slice(&found->key, key);
        text_append_slice(&found->value, meta_cursor_value(cursor));
        return 0;
    }
    return ERR_NOT_FOUND;
}

static struct found get_record(enum meta_space space, const char *part) {
    struct found found = {.part = part};
    assert_int_equal(meta_scan_blocking(world.meta, space, find_record, &found), 0);
    return found;
}

static void put_back(enum meta_space space, struct found *found) {
    change_record(space, text_slice(&found->key), text_slice(&found->value));
    text_deinit(&found->key);
    text_deinit(&found->value);
    struct findings findings = fsck();
    assert_string_equal(findings.text, "");
}

static void assert_found(const char *part) {
    struct findings findings = fsck();
    if (!strstr(findings.text, part)) print_error("%s", findings.text);
    assert_non_null(strstr(findings.text, part));
    assert_true(findings.count > 0);
}

static void fill_tale(void) {
    require_result(put_await("large", 1, 5 * MIB), 0);
    require_result(put_await("small", 2, 100), 0);
    struct upload_info info = {.key = slice_of("pending")};
    require_result(upload_create_await(world.store, &world.bucket, &info), 0);
    struct upload *upload = NULL;
    require_result(
        upload_open_await(world.store, &world.bucket, info.key, slice_of(info.id), &upload), 0);
    struct part_info part = {.number = 3};
    struct blob_writer *writer = write_bytes_await(3, 100 * KIB, NULL);
    require_result(upload_put_part_await(world.store, upload, &part, &writer), 0);
    upload_close(&upload);
}

static void a_damaged_record_is_found(void **state) {
    (void)state;
    make_world();
    story(fill_tale);
    const struct {
        enum meta_space space;
        const char *key, *finding;
    } all[] = {
        {META_BUCKETS, "stories", "bucket \"stories\": the record cannot be read"},
        {META_OBJECTS, "large", "object \"large\": the record cannot be read"},
        {META_UPLOADS, "pending", "upload of \"pending\": the record cannot be read"},
        {META_PARTS, "", ", 3\": the record cannot be read"},
        {META_SYSTEM, "object/next-bucket-id", "counter of bucket ids cannot be read"},
    };
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct found found = get_record(all[i].space, all[i].key);
        found.value.data[6] ^= 1;
        change_record(all[i].space, text_slice(&found.key), text_slice(&found.value));
        assert_found(all[i].finding);
        found.value.data[6] ^= 1;
        put_back(all[i].space, &found);
    }
    end_world();
}

static void a_missing_record_is_found(void **state) {
    (void)state;
    make_world();
    story(fill_tale);
    const struct {
        enum meta_space space;
        const char *key, *finding;
    } all[] = {
        {META_BUCKETS, "stories", "object \"large\" is in bucket 1, which is not there"},
        {META_OBJECTS, "large", "belongs to no object"},
        {META_OBJECTS, "small", "belongs to no object"},
        {META_UPLOADS, "pending", "belongs to no upload"},
        {META_PARTS, "", "belongs to no object"},
        {META_SEGMENTS, "", "object \"large\": data 1 (5242880 bytes) is missing or incomplete"},
        {META_INLINE, "", "object \"small\": data 2 (100 bytes) is missing or incomplete"},
        {META_SYSTEM, "object/next-bucket-id", "was never handed out"},
    };
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct found found = get_record(all[i].space, all[i].key);
        change_record(all[i].space, text_slice(&found.key), (struct slice){0});
        assert_found(all[i].finding);
        put_back(all[i].space, &found);
    }
    end_world();
}

static void data_used_twice_is_found(void **state) {
    (void)state;
    make_world();
    story(fill_tale);
    struct found found = get_record(META_OBJECTS, "large");
    struct object_record record;
    assert_int_equal(
        record_decode_object(text_slice(&found.key), text_slice(&found.value), &record), 0);
    struct blob_ref ref = object_record_blob(&record, 0);
    struct key key;
    key_object(&key, world.bucket.id, slice_of("thief"));
    struct object_info info = {.size = ref.size};
    struct text stolen = {0};
    record_encode_object(&stolen, key_slice(&key), &info, NULL, &ref, 1);
    change_record(META_OBJECTS, key_slice(&key), text_slice(&stolen));
    assert_found("belongs to more than one object or part");
    change_record(META_OBJECTS, key_slice(&key), (struct slice){0});
    text_deinit(&stolen);
    text_deinit(&found.key);
    text_deinit(&found.value);
    end_world();
}

static void damaged_bytes_are_found(void **state) {
    (void)state;
    make_world();
    story(fill_tale);
    struct found found = get_record(META_SEGMENTS, "");
    struct segment segment;
    assert_int_equal(segment_decode(text_slice(&found.key), text_slice(&found.value), &segment), 0);
    char path[96];
    snprintf(path, sizeof(path), "%s/volume0", world.directory);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "damage", 6, (off_t)segment.device_offset + 1000), 6);
    close(fd);
    assert_found("bytes do not match their checksum");
    text_deinit(&found.key);
    text_deinit(&found.value);
    drop_world();
}

static void a_newer_format_is_refused(void **state) {
    (void)state;
    make_world();
    struct text record = {0};
    record_encode_counter(&record, STORE_FORMAT_KEY, STORE_FORMAT + 1);
    change_record(META_SYSTEM, STORE_FORMAT_KEY, text_slice(&record));
    text_deinit(&record);
    struct store *store = NULL;
    assert_int_equal(store_open(world.meta, world.blobs, META_CRASH, &store),
                     ERR_UNSUPPORTED_FORMAT);
    struct findings findings = {0};
    assert_int_equal(
        store_fsck(world.meta, world.directory, true, note_finding, &findings, &findings.count),
        ERR_UNSUPPORTED_FORMAT);
    drop_world();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_damaged_record_is_found), cmocka_unit_test(a_missing_record_is_found),
        cmocka_unit_test(data_used_twice_is_found),  cmocka_unit_test(damaged_bytes_are_found),
        cmocka_unit_test(a_newer_format_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
