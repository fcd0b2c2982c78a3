/* Blobs from end to end: what is written comes back, whole or in part, cached or not; what is
 * deleted gives its room back when nobody reads it any more; what does not fit is refused. */
#include "blob_world.h"

static void blobs_of_every_size_come_back(void **state) {
    (void)state;
    make_world(0);
    const uint64_t sizes[] = {1,    4095,     4096,        16 * KIB, 16 * KIB + 1, UNIT - 1,
                              UNIT, UNIT + 1, 4 * MIB - 1, 4 * MIB,  4 * MIB + 1,  20 * MIB};
    enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
    struct blob_ref refs[2 * COUNT];
    for (unsigned i = 0; i < 2 * COUNT; i++) {
        uint64_t announced = i < COUNT ? 0 : BLOB_SIZE_UNKNOWN;
        assert_int_equal(put_announced(i, sizes[i % COUNT], announced, &refs[i]), 0);
        assert_int_equal(refs[i].size, sizes[i % COUNT]);
        assert_int_equal(get(i, refs[i]), 0);
    }
    reopen_store();
    for (unsigned i = 0; i < 2 * COUNT; i++) assert_int_equal(get(i, refs[i]), 0);
    for (unsigned i = 0; i < 2 * COUNT; i++) assert_int_equal(get(i, refs[i]), 0);
    assert_int_equal(stats_of().checksum_errors, 0);
    assert_sound();
    end_world();
}

static void an_empty_blob_needs_no_records(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref;
    assert_int_equal(put(1, 0, &ref), 0);
    assert_int_equal(ref.id, 0);
    assert_int_equal(get(1, ref), 0);
    assert_int_equal(delete (ref), 0);
    assert_sound();
    end_world();
}

static void any_range_can_be_read(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref, small;
    uint64_t size = 5 * MIB + 12345;
    assert_int_equal(put(7, size, &ref), 0);
    assert_int_equal(put(8, 10000, &small), 0);
    const uint64_t ranges[][2] = {{0, 1},         {size - 1, 1},         {UNIT - 1, 2},
                                  {UNIT, UNIT},   {3 * MIB, MIB},        {4 * MIB - 5, 10},
                                  {100, 4 * MIB}, {size - 12345, 12345}, {1000000, 0},
                                  {size, 0},      {2 * MIB + 7, 3 * MIB}};
    for (int cached = 1; cached >= 0; cached--) {
        if (!cached) reopen_store();
        for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
            assert_int_equal(get_range(7, ref, ranges[i][0], ranges[i][1]), 0);
        assert_int_equal(get_range(8, small, 9999, 1), 0);
        assert_int_equal(get_range(8, small, 16, 5000), 0);
    }
    assert_int_equal(get_range(7, ref, size, 1), ERR_INVALID_RANGE);
    assert_int_equal(get_range(7, ref, size + 1, 0), ERR_INVALID_RANGE);
    assert_int_equal(get_range(7, ref, 1, UINT64_MAX), ERR_INVALID_RANGE);
    end_world();
}

static void a_small_range_reads_one_block_only(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref;
    assert_int_equal(put(7, 4 * MIB, &ref), 0);
    reopen_store();
    assert_int_equal(get_range(7, ref, MIB + 100, 100), 0);
    assert_int_equal(stats_of().bytes_read, UNIT);
    end_world();
}

static void a_cached_blob_touches_neither_drive_nor_metadata(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref large, small;
    assert_int_equal(put(1, 4 * MIB, &large), 0);
    assert_int_equal(put(2, 4 * KIB, &small), 0);
    struct meta_stats before, after;
    meta_stats(world.meta, &before);
    assert_int_equal(get(1, large), 0);
    assert_int_equal(get(2, small), 0);
    meta_stats(world.meta, &after);
    assert_int_equal(after.scans, before.scans);
    assert_int_equal(after.gets, before.gets);
    assert_int_equal(stats_of().bytes_read, 0);
    assert_int_equal(world.fault->reads, 0);
    end_world();
}

static void a_large_put_copies_no_payload(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref;
    assert_int_equal(put(1, 4 * MIB, &ref), 0);
    reopen_store();
    assert_int_equal(get(1, ref), 0);
    assert_int_equal(stats_of().payload_copies_bytes, 0);
    assert_int_equal(put(1, 4 * KIB, &ref), 0);
    assert_int_equal(stats_of().payload_copies_bytes, 8 * KIB);
    end_world();
}

static void an_upload_larger_than_memory_does_not_pin_it(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref;
    assert_int_equal(put(3, 100 * MIB + 1, &ref), 0);
    assert_int_equal(get(3, ref), 0);
    assert_int_equal(delete (ref), 0);
    assert_int_equal(stats_of().used_bytes, MIB); /* the superblock's */
    end_world();
}

static void a_full_store_says_so_at_once_and_recovers(void **state) {
    (void)state;
    make_world(9 * MIB); /* eight for data */
    struct blob_ref first, second, third;
    assert_int_equal(put(1, 5 * MIB, &first), 0);
    assert_int_equal(put(2, 4 * MIB, &second), ERR_STORAGE_FULL);
    assert_int_equal(world.fault->writes, 20); /* nothing of the second was written */
    assert_int_equal(put_announced(2, 4 * MIB, BLOB_SIZE_UNKNOWN, &second), ERR_STORAGE_FULL);
    assert_int_equal(stats_of().used_bytes, 6 * MIB);
    assert_int_equal(put(2, 3 * MIB, &second), 0);
    assert_int_equal(stats_of().free_bytes, 0);
    assert_int_equal(put(3, 17 * KIB, &third), ERR_STORAGE_FULL);
    assert_int_equal(put(3, 16 * KIB, &third), 0); /* small ones live elsewhere */
    assert_int_equal(delete (first), 0);
    assert_int_equal(put(4, 5 * MIB, &first), 0);
    assert_int_equal(get(4, first), 0);
    assert_int_equal(get(2, second), 0);
    assert_sound();
    end_world();
}

static void scattered_room_is_used_piece_by_piece(void **state) {
    (void)state;
    make_world(9 * MIB);
    struct blob_ref refs[16], large, small;
    for (unsigned i = 0; i < 16; i++) assert_int_equal(put(i, 512 * KIB, &refs[i]), 0);
    for (unsigned i = 0; i < 16; i += 2) assert_int_equal(delete (refs[i]), 0);
    assert_int_equal(stats_of().extents_free, 8);
    assert_int_equal(put(20, 3 * MIB + 100 * KIB, &large), 0);
    assert_int_equal(get(20, large), 0);
    assert_int_equal(delete (refs[1]), 0);
    assert_int_equal(put(21, MIB, &small), 0);
    reopen_store();
    assert_int_equal(get(20, large), 0);
    assert_int_equal(get(21, small), 0);
    assert_sound();
    end_world();
}

static void read_whole_await(const struct job *job) {
    struct blob_reader *reader = NULL;
    require(blob_reader_open_await(world.store, job->ref, 0, job->ref.size, &reader) == 0);
    require(read_on_await(reader, job->seed, 0, job->ref.size) == 0);
    blob_reader_close_await(&reader);
}

static void delete_under_reader_fiber(void *arg) {
    struct job *job = arg;
    struct blob_reader *reader = NULL;
    blob_pin(world.store, job->ref.id);
    require(blob_reader_open_await(world.store, job->ref, 0, job->ref.size, &reader) == 0);
    delete_fiber(job);
    require(job->err == 0);
    require(read_on_await(reader, job->seed, 0, job->ref.size) == 0);
    blob_reader_close_await(&reader);
    /* Another part of an object that was opened before may be read only now. */
    read_whole_await(job);
    blob_unpin(world.store, job->ref.id);
    require(stats_of().used_bytes == MIB);
    require(blob_reader_open_await(world.store, job->ref, 0, job->ref.size, &reader) ==
            ERR_NOT_FOUND);
}

static void what_is_deleted_is_read_to_its_end(void **state) {
    (void)state;
    make_world(0);
    const uint64_t sizes[] = {9 * KIB, 20 * MIB, 90 * MIB};
    for (unsigned i = 0; i < 3; i++) {
        struct blob_ref ref;
        assert_int_equal(put(i, sizes[i], &ref), 0);
        if (i != 2) reopen_store(); /* the last one is larger than the cache anyway */
        struct job job = {.seed = i, .ref = ref};
        in_fiber(delete_under_reader_fiber, &job);
    }
    assert_sound();
    end_world();
}

static void a_delete_that_was_not_committed_changes_nothing(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref, small;
    assert_int_equal(put(1, MIB, &ref), 0);
    assert_int_equal(put(2, 100, &small), 0);
    struct job discards[] = {{.ref = ref, .abort = true}, {.ref = small, .abort = true}};
    assert_int_equal(in_fiber(delete_fiber, &discards[0]), 0);
    assert_int_equal(in_fiber(delete_fiber, &discards[1]), 0);
    assert_int_equal(get(1, ref), 0);
    assert_int_equal(get(2, small), 0);
    assert_int_equal(stats_of().used_bytes, 2 * MIB);
    end_world();
}

static void an_aborted_upload_leaves_nothing(void **state) {
    (void)state;
    make_world(0);
    const uint64_t sizes[] = {100, 17 * KIB, 5 * MIB + 5};
    for (unsigned i = 0; i < 6; i++) {
        struct job job = {.seed = i, .size = sizes[i % 3], .abort = true};
        if (i >= 3) job.announced = BLOB_SIZE_UNKNOWN;
        assert_int_equal(in_fiber(put_fiber, &job), 0);
        assert_int_equal(stats_of().used_bytes, MIB);
        assert_int_equal(get(i, job.ref), ERR_NOT_FOUND);
    }
    assert_sound();
    end_world();
}

static void more_than_announced_is_taken_too(void **state) {
    (void)state;
    make_world(0);
    struct blob_ref ref;
    assert_int_equal(put_announced(1, 3 * MIB + 1, 300 * KIB, &ref), 0);
    assert_int_equal(get(1, ref), 0);
    assert_int_equal(put_announced(2, 300 * KIB, 3 * MIB, &ref), 0);
    assert_int_equal(get(2, ref), 0);
    assert_int_equal(stats_of().used_bytes, MIB + 3 * MIB + 4096 + 300 * KIB);
    assert_int_equal(put_announced(3, 1, BLOB_MAX_SIZE + 1, &ref), ERR_ENTITY_TOO_LARGE);
    end_world();
}

static void a_restart_finds_the_same_free_space(void **state) {
    (void)state;
    make_world(64 * MIB);
    struct blob_ref refs[24], again;
    for (unsigned i = 0; i < 24; i++)
        assert_int_equal(put(i, (i % 5 + 1) * 300 * KIB + i, &refs[i]), 0);
    for (unsigned i = 0; i < 23; i += 3) assert_int_equal(delete (refs[i]), 0);
    struct blob_stats before = stats_of();
    reopen_store();
    struct blob_stats after = stats_of();
    assert_int_equal(after.used_bytes, before.used_bytes);
    assert_int_equal(after.free_bytes, before.free_bytes);
    assert_int_equal(after.extents_free, before.extents_free);
    for (unsigned i = 1; i < 24; i += 3) assert_int_equal(get(i, refs[i]), 0);

    uint64_t used;
    fsck(0, &used);
    assert_int_equal(used + MIB, after.used_bytes);
    /* And an id is not used a second time. */
    assert_int_equal(put(99, MIB, &again), 0);
    assert_true(again.id > refs[23].id);
    end_world();
}

static void take_ids_fiber(void *arg) {
    struct job *job = arg;
    uint64_t id = 0, last = 0;
    for (uint64_t i = 0; i < job->length && !job->err; i++) {
        job->err = ids_next_await(&world.store->ids, &id);
        require(id > last);
        last = id;
    }
    job->ref.id = last;
}

static void an_id_is_not_used_twice_however_many_are_taken(void **state) {
    (void)state;
    make_world(0);
    struct job many = {.length = (2u << 20) + 5},
               one = {.length = 1}; /* the bound is raised twice */
    assert_int_equal(in_fiber(take_ids_fiber, &many), 0);
    reopen_store();
    assert_int_equal(in_fiber(take_ids_fiber, &one), 0);
    assert_true(one.ref.id > many.ref.id);
    end_world();
}

/* ---- many at once, on both reactors */

#define CROWD        12u
#define CROWD_ROUNDS 6u

struct crowd {
    struct job job;
    uint64_t random;
    unsigned failures;
};

static uint64_t crowd_random(struct crowd *member) {
    member->random = member->random * 6364136223846793005ull + 1442695040888963407ull;
    return member->random >> 33;
}

static void run_job(struct crowd *member, fiber_fn *fn) {
    fn(&member->job);
    if (member->job.err) member->failures++;
}

static void crowd_fiber(void *arg) {
    struct crowd *member = arg;
    for (unsigned i = 0; i < CROWD_ROUNDS; i++) {
        uint64_t bound = crowd_random(member) % 3 ? 100 * KIB : 3 * MIB;
        member->job =
            (struct job){.seed = member->random, .size = 1 + crowd_random(member) % bound};
        if (crowd_random(member) % 2) member->job.announced = BLOB_SIZE_UNKNOWN;
        run_job(member, put_fiber);
        member->job.length = member->job.ref.size;
        run_job(member, get_fiber);
        if (i + 1 < CROWD_ROUNDS) run_job(member, delete_fiber); /* the last one stays */
    }
}

/* reactor_run() waits for its fiber, so each member has a thread that waits. */
static void *member_thread(void *arg) {
    struct crowd *member = arg;
    struct reactor *reactor = runtime_reactor(world.runtime, (unsigned)member->random % 2);
    require(reactor_run(reactor, "member", crowd_fiber, member) == 0);
    return NULL;
}

static void run_members(struct crowd *members) {
    pthread_t threads[CROWD];
    for (unsigned i = 0; i < CROWD; i++) {
        members[i] = (struct crowd){.random = i + 1};
        require(pthread_create(&threads[i], NULL, member_thread, &members[i]) == 0);
    }
    for (unsigned i = 0; i < CROWD; i++) pthread_join(threads[i], NULL);
}

static void a_crowd_on_two_reactors_keeps_its_bytes_apart(void **state) {
    (void)state;
    make_world(64 * MIB);
    struct crowd members[CROWD];
    run_members(members);
    uint64_t used = MIB;
    for (unsigned i = 0; i < CROWD; i++) {
        assert_int_equal(members[i].failures, 0);
        uint64_t size = members[i].job.ref.size;
        if (size > BLOB_INLINE_MAX) used += device_round_up(size);
    }
    assert_int_equal(stats_of().used_bytes, used);
    reopen_store();
    for (unsigned i = 0; i < CROWD; i++)
        assert_int_equal(get(members[i].job.seed, members[i].job.ref), 0);
    assert_sound();
    end_world();
}

#define READERS 40u
struct readers {
    struct job job; /* what each of them reads */
    unsigned done, failures;
};

static void one_reader_fiber(void *arg) {
    struct readers *readers = arg;
    struct job job = readers->job;
    get_fiber(&job);
    if (job.err) readers->failures++;
    readers->done++;
}

static void spawn_readers_fiber(void *arg) {
    struct readers *readers = arg;
    for (unsigned i = 0; i < READERS; i++)
        require(fiber_spawn("reader", one_reader_fiber, readers) == 0);
    while (readers->done < READERS) require(fiber_sleep_await(1) == 0);
}

static void readers_do_not_starve_each_other(void **state) {
    (void)state;
    make_world(0);
    /* Together they would read four times as far ahead as there is memory. */
    struct readers readers = {.job = {.seed = 5}};
    assert_int_equal(put(5, 12 * MIB, &readers.job.ref), 0);
    readers.job.length = readers.job.ref.size;
    reopen_store();
    in_fiber(spawn_readers_fiber, &readers.job);
    assert_int_equal(readers.failures, 0);
    end_world();
}

int main(void) {
    log_set_level(LOG_ERROR);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blobs_of_every_size_come_back),
        cmocka_unit_test(an_empty_blob_needs_no_records),
        cmocka_unit_test(any_range_can_be_read),
        cmocka_unit_test(a_small_range_reads_one_block_only),
        cmocka_unit_test(a_cached_blob_touches_neither_drive_nor_metadata),
        cmocka_unit_test(a_large_put_copies_no_payload),
        cmocka_unit_test(an_upload_larger_than_memory_does_not_pin_it),
        cmocka_unit_test(a_full_store_says_so_at_once_and_recovers),
        cmocka_unit_test(scattered_room_is_used_piece_by_piece),
        cmocka_unit_test(what_is_deleted_is_read_to_its_end),
        cmocka_unit_test(a_delete_that_was_not_committed_changes_nothing),
        cmocka_unit_test(an_aborted_upload_leaves_nothing),
        cmocka_unit_test(more_than_announced_is_taken_too),
        cmocka_unit_test(a_restart_finds_the_same_free_space),
        cmocka_unit_test(an_id_is_not_used_twice_however_many_are_taken),
        cmocka_unit_test(a_crowd_on_two_reactors_keeps_its_bytes_apart),
        cmocka_unit_test(readers_do_not_starve_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
