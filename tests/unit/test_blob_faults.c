/* Blobs on a device that fails: what is damaged is said, what fails leaves nothing behind, what was
 * acknowledged stays, and fsck finds what no reader has met yet. */
#include "blob_world.h"

static void damaged_bytes_are_never_handed_out(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref, good;
    assert_int_equal(put(1, 2 * MIB, &ref), 0);
    assert_int_equal(put(2, 2 * MIB, &good), 0);
    overwrite_volume(first_segment(ref).device_offset + MIB + 77, "damage", 6);
    reopen_store();
    assert_int_equal(get_range(1, ref, 0, MIB), 0);
    assert_int_equal(get_range(1, ref, MIB, 1), ERR_CHECKSUM_MISMATCH_ON_DISK);
    assert_int_equal(get(1, ref), ERR_CHECKSUM_MISMATCH_ON_DISK);
    assert_int_equal(stats_of().checksum_errors, 4); /* each was read twice */
    assert_int_equal(get(2, good), 0);
    end_world();
}

static void one_bad_read_is_mended_by_another(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref;
    assert_int_equal(put(1, MIB, &ref), 0);
    reopen_store();
    world.fault->corrupt_once = true;
    assert_int_equal(get(1, ref), 0);
    assert_int_equal(stats_of().checksum_errors, 1);
    end_world();
}

static void a_file_system_that_fills_up_loses_nothing(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref, more;
    assert_int_equal(put(1, MIB, &ref), 0);
    world.fault->fail_grow = true;
    assert_int_equal(put(2, 100 * MIB, &more), ERR_STORAGE_FULL);
    world.fault->fail_grow = false;
    assert_int_equal(put(2, 100 * MIB, &more), 0);
    assert_int_equal(get(1, ref), 0);
    assert_int_equal(get(2, more), 0);
    end_world();
}

static void a_failed_write_or_read_is_reported_and_leaves_nothing(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref;
    world.fault->fail_writes = 1;
    assert_int_equal(put(1, 3 * MIB, &ref), -EIO);
    world.fault->fail_writes = 0;
    world.fault->tear_writes = 1;
    assert_int_equal(put(1, 3 * MIB, &ref), -EIO);
    world.fault->tear_writes = 0;
    assert_int_equal(stats_of().used_bytes, MIB);
    assert_int_equal(put(1, 3 * MIB, &ref), 0);
    reopen_store();
    world.fault->fail_reads = 1;
    assert_int_equal(get(1, ref), -EIO);
    world.fault->fail_reads = 0;
    assert_int_equal(get(1, ref), 0);
    assert_sound();
    end_world();
}

static void after_a_failed_flush_no_write_is_acknowledged(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref;
    world.fault->fail_flush = true;
    assert_int_equal(put(1, MIB, &ref), -EIO);
    world.fault->fail_flush = false;
    assert_int_equal(put(1, MIB, &ref), -EIO);
    assert_int_equal(world.fault->flushes, 1);
    assert_int_equal(stats_of().used_bytes, MIB);
    reopen_store();
    assert_int_equal(put(1, MIB, &ref), 0);
    end_world();
}

/* Every PUT either succeeds and is readable for good, or fails and is as if it had never been. */
static void a_device_that_errs_at_random_loses_nothing_acknowledged(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        print_message("seed %llu\n", (unsigned long long)seed);
        make_world(0);
        struct blob_ref refs[40];
        bool stored[40];
        uint64_t used = MIB;
        world.fault->seed = seed * 0x9e3779b97f4a7c15ull | 1;
        world.fault->fail_writes = 40;
        world.fault->tear_writes = 40;
        world.fault->delay = 3;
        for (unsigned i = 0; i < 40; i++) {
            uint64_t size = 1 + fault_random(world.fault) % (i % 4 ? MIB : 6 * MIB);
            int err = put(i, size, &refs[i]);
            assert_true(err == 0 || err == -EIO);
            stored[i] = !err;
            if (stored[i] && size > BLOB_INLINE_MAX) used += device_round_up(size);
            assert_int_equal(stats_of().used_bytes, used);
        }
        reopen_store();
        world.fault->corrupt_reads = 50;
        world.fault->delay = 3;
        for (unsigned i = 0; i < 40; i++)
            if (stored[i]) assert_int_equal(get(i, refs[i]), 0);
        assert_sound();
        end_world();
    }
}

static void metadata_and_volume_of_two_stores_are_not_mixed(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref;
    assert_int_equal(put(1, MIB, &ref), 0);
    blob_store_close(&world.store);
    uint8_t page[SUPERBLOCK_SIZE];
    struct superblock other = {.created_ms = 1, .store_uuid = {1}, .volume_uuid = {2}};
    superblock_encode(&other, page);
    overwrite_volume(0, page, sizeof(page));
    struct blob_options options = {.path = world.directory, .direct_io = true};
    assert_int_equal(blob_store_open(&options, world.meta, world.pool, world.cache, &world.store),
                     ERR_STORE_CORRUPT);
    assert_null(world.store);
    assert_one_finding("superblock");
    memset(page, 0, sizeof(page));
    overwrite_volume(0, page, sizeof(page));
    assert_int_equal(blob_store_open(&options, world.meta, world.pool, world.cache, &world.store),
                     ERR_STORE_CORRUPT);
    end_world();
}

static void a_volume_with_other_data_is_not_taken(void **state) {
    (void)state;
    make_world(0);
    char directory[] = "/tmp/penstock-blob-XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/volume0", directory);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (unsigned i = 0; i < 2048; i++) fputs("precious", file);
    fclose(file);
    struct meta *meta = NULL;
    snprintf(path, sizeof(path), "%s/meta", directory);
    assert_int_equal(meta_rocksdb_open(path, 8 * MIB, &meta), 0);
    struct blob_options options = {.path = directory, .direct_io = true};
    struct blob_store *store = NULL;
    assert_int_equal(blob_store_open(&options, meta, world.pool, world.cache, &store), -EEXIST);
    meta_close(&meta);
    nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    end_world();
}

static void fsck_finds_each_kind_of_damage(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref, other, small;
    assert_int_equal(put(1, 5 * MIB, &ref), 0);
    assert_int_equal(put(2, MIB, &other), 0);
    assert_int_equal(put(3, 100, &small), 0);
    assert_sound();
    struct segment first = first_segment(ref), second = first_segment(other), changed;

    struct findings orphans = fsck(other.id, NULL);
    assert_int_equal(orphans.count, 1);
    assert_non_null(strstr(orphans.text, "belongs to no object"));
    orphans = fsck(small.id, NULL);
    assert_int_equal(orphans.count, 1);

    put_segment(&second, true);
    assert_one_finding("record cannot be read");
    changed = second;
    changed.device_offset = 1ull << 50;
    put_segment(&changed, false);
    assert_one_finding("outside the volume");
    changed.device_offset = 4096;
    put_segment(&changed, false);
    assert_one_finding("outside the volume");
    changed.device_offset = first.device_offset;
    memcpy(changed.crcs, first.crcs, sizeof(first.crcs));
    put_segment(&changed, false);
    assert_one_finding("both use the volume");
    put_segment(&second, false);
    assert_sound();

    changed = second;
    changed.blob_offset = 2 * MIB; /* a hole, and bytes used twice */
    put_segment(&changed, false);
    assert_int_equal(fsck(0, NULL).count, 2);
    uint8_t key[SEGMENT_KEY_SIZE];
    segment_key(other.id, 2 * MIB, key);
    struct meta_batch *batch = NULL;
    assert_int_equal(meta_batch_create(&batch), 0);
    meta_batch_delete(batch, META_SEGMENTS, (struct slice){(char *)key, sizeof(key)});
    assert_int_equal(meta_commit_blocking(world.meta, batch), 0);
    meta_batch_destroy(&batch);

    overwrite_volume(second.device_offset + 5, "damage", 6);
    assert_one_finding("do not match their checksum");
    struct findings quick = {0};
    assert_int_equal(
        blob_fsck(world.directory, world.meta, false, owns, note_finding, &quick, NULL), 0);
    assert_int_equal(quick.count, 0);
    assert_int_equal(delete (other), 0);
    assert_sound();

    uint8_t small_key[INLINE_KEY_SIZE];
    inline_key(small.id, small_key);
    put_record(META_INLINE, (struct slice){(char *)small_key, sizeof(small_key)},
               SLICE_LITERAL("\1\2\3\4not these bytes"));
    assert_one_finding("do not match their checksum");
    end_world();
}

int main(void) {
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_bytes_are_never_handed_out),
        cmocka_unit_test(one_bad_read_is_mended_by_another),
        cmocka_unit_test(a_file_system_that_fills_up_loses_nothing),
        cmocka_unit_test(a_failed_write_or_read_is_reported_and_leaves_nothing),
        cmocka_unit_test(after_a_failed_flush_no_write_is_acknowledged),
        cmocka_unit_test(a_device_that_errs_at_random_loses_nothing_acknowledged),
        cmocka_unit_test(metadata_and_volume_of_two_stores_are_not_mixed),
        cmocka_unit_test(a_volume_with_other_data_is_not_taken),
        cmocka_unit_test(fsck_finds_each_kind_of_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
