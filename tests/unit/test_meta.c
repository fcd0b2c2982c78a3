/* The metadata store over RocksDB, as the rest of Penstock uses it: from fibers on two reactors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "meta_fixture.h"

static int delete_await(struct fixture *f, enum meta_space space, const char *key) {
    struct meta_batch *batch = new_batch();
    meta_batch_delete(batch, space, slice_of(key));
    return commit_await(f, batch);
}

/* ---- one after the other */

static void put_get_delete(void *arg) {
    struct fixture *f = arg;
    for (unsigned space = 0; space < META_SPACES; space++) {
        must(holds_await(f, space, "key", NULL));
        must(put_await(f, space, "key", "first") == 0);
        must(holds_await(f, space, "key", "first"));
        must(put_await(f, space, "key", "second") == 0);
        must(holds_await(f, space, "key", "second"));
        must(put_await(f, space, "empty", "") == 0);
        must(holds_await(f, space, "empty", ""));
        must(delete_await(f, space, "key") == 0);
        must(holds_await(f, space, "key", NULL));
        must(delete_await(f, space, "key") == 0);
    }
}

static void test_a_key_has_its_last_value_until_it_is_deleted(void **state) {
    in_fiber(*state, put_get_delete);
}

static void operations_apply_in_order(void *arg) {
    struct fixture *f = arg;
    struct meta_batch *batch = new_batch();
    meta_batch_put(batch, META_OBJECTS, SLICE_LITERAL("a"), SLICE_LITERAL("1"));
    meta_batch_delete(batch, META_OBJECTS, SLICE_LITERAL("a"));
    meta_batch_delete(batch, META_OBJECTS, SLICE_LITERAL("b"));
    meta_batch_put(batch, META_OBJECTS, SLICE_LITERAL("b"), SLICE_LITERAL("1"));
    meta_batch_put(batch, META_OBJECTS, SLICE_LITERAL("b"), SLICE_LITERAL("2"));
    must(commit_await(f, batch) == 0);
    must(holds_await(f, META_OBJECTS, "a", NULL));
    must(holds_await(f, META_OBJECTS, "b", "2"));
}

static void test_the_operations_of_a_batch_apply_in_order(void **state) {
    in_fiber(*state, operations_apply_in_order);
}

static void a_hot_record_is_not_read_from_the_engine(void *arg) {
    struct fixture *f = arg;
    must(put_await(f, META_OBJECTS, "hot", "record") == 0);
    struct meta_stats before, after;
    meta_stats(f->meta, &before);
    for (unsigned i = 0; i < 10; i++) must(holds_await(f, META_OBJECTS, "hot", "record"));
    meta_stats(f->meta, &after);
    must(after.gets == before.gets + 10 && after.cache_hits == before.cache_hits + 10);
    must(after.engine_gets == before.engine_gets);
    must(after.cache_bytes > 0);
}

static void test_a_hot_record_is_not_read_from_the_engine(void **state) {
    in_fiber(*state, a_hot_record_is_not_read_from_the_engine);
}

static void too_large(void *arg) {
    struct fixture *f = arg;
    static const char long_key[META_KEY_MAX + 1];
    struct meta_batch *batch = new_batch();
    meta_batch_put(batch, META_PARTS, SLICE_LITERAL("fits"), SLICE_LITERAL("1"));
    meta_batch_put(batch, META_PARTS, (struct slice){long_key, sizeof(long_key)},
                   SLICE_LITERAL("1"));
    must(commit_await(f, batch) == ERR_KEY_TOO_LONG);
    must(holds_await(f, META_PARTS, "fits", NULL));
    batch = new_batch();
    /* The size alone is refused: the bytes are not looked at. */
    meta_batch_put(batch, META_PARTS, SLICE_LITERAL("k"),
                   (struct slice){long_key, META_VALUE_MAX + 1});
    must(commit_await(f, batch) == ERR_ENTITY_TOO_LARGE);
}

static void test_a_batch_with_a_part_too_large_is_refused_whole(void **state) {
    in_fiber(*state, too_large);
}

/* ---- guards */

static int guarded_put(struct fixture *f, struct meta_batch *guards) {
    meta_batch_put(guards, META_OBJECTS, SLICE_LITERAL("result"), SLICE_LITERAL("written"));
    int err = commit_await(f, guards);
    must(holds_await(f, META_OBJECTS, "result", err ? NULL : "written"));
    must(delete_await(f, META_OBJECTS, "result") == 0);
    return err;
}

static void guards_on_keys(void *arg) {
    struct fixture *f = arg;
    /* The same rules for a space with a record cache and one without. */
    for (unsigned i = 0; i < 2; i++) {
        enum meta_space space = i ? META_OBJECTS : META_SYSTEM;
        must(put_await(f, space, "there", "1") == 0);
        const struct slice there = SLICE_LITERAL("there"), missing = SLICE_LITERAL("missing");
        struct meta_batch *batch = new_batch();
        meta_batch_guard_present(batch, space, there);
        meta_batch_guard_absent(batch, space, missing);
        meta_batch_guard_equals(batch, space, there, SLICE_LITERAL("1"));
        must(guarded_put(f, batch) == 0);
        batch = new_batch();
        meta_batch_guard_absent(batch, space, there);
        must(guarded_put(f, batch) == ERR_CONFLICT);
        batch = new_batch();
        meta_batch_guard_present(batch, space, missing);
        must(guarded_put(f, batch) == ERR_CONFLICT);
        batch = new_batch();
        meta_batch_guard_equals(batch, space, there, SLICE_LITERAL("2"));
        must(guarded_put(f, batch) == ERR_CONFLICT);
        batch = new_batch();
        meta_batch_guard_equals(batch, space, missing, SLICE_LITERAL(""));
        must(guarded_put(f, batch) == ERR_CONFLICT);
        batch = new_batch();
        meta_batch_guard_present(batch, space, there); /* one of many that does not hold */
        for (unsigned j = 0; j < 9; j++) meta_batch_guard_present(batch, space, there);
        meta_batch_guard_absent(batch, space, there);
        must(guarded_put(f, batch) == ERR_CONFLICT);
    }
}

static void test_a_batch_is_applied_only_if_its_guards_hold(void **state) {
    in_fiber(*state, guards_on_keys);
}

static void guards_see_the_state_before_the_batch(void *arg) {
    struct fixture *f = arg;
    struct meta_batch *batch = new_batch();
    meta_batch_put(batch, META_OBJECTS, SLICE_LITERAL("new"), SLICE_LITERAL("1"));
    meta_batch_guard_absent(batch, META_OBJECTS, SLICE_LITERAL("new"));
    must(commit_await(f, batch) == 0);
}

static void test_guards_see_the_state_before_the_batch(void **state) {
    in_fiber(*state, guards_see_the_state_before_the_batch);
}

static int guard_empty(struct fixture *f, const char *start, const char *end) {
    struct meta_batch *batch = new_batch();
    meta_batch_guard_empty(batch, META_PARTS, slice_of(start), slice_of(end));
    return guarded_put(f, batch);
}

static void guards_on_ranges(void *arg) {
    struct fixture *f = arg;
    must(guard_empty(f, "a", "z") == 0);
    must(put_await(f, META_PARTS, "m", "1") == 0);
    must(put_await(f, META_SEGMENTS, "b", "1") == 0);
    must(guard_empty(f, "a", "z") == ERR_CONFLICT);
    must(guard_empty(f, "m", "n") == ERR_CONFLICT);
    must(guard_empty(f, "a", "m") == 0);
    must(guard_empty(f, "ma", "z") == 0);
    must(guard_empty(f, "z", "a") == 0);
    must(guard_empty(f, "m", "m") == 0);
    must(delete_await(f, META_PARTS, "m") == 0);
    must(guard_empty(f, "a", "z") == 0);
}

static void test_a_range_is_empty_when_no_key_is_in_it(void **state) {
    in_fiber(*state, guards_on_ranges);
}

/* ---- scans */

struct walk {
    const char *from;
    bool before;
    char seen[256];
};

static int walk(struct meta_cursor *cursor, void *arg) {
    struct walk *w = arg;
    w->seen[0] = 0;
    if (w->before) {
        meta_cursor_seek_before(cursor, slice_of(w->from));
    } else {
        meta_cursor_seek(cursor, slice_of(w->from));
    }
    for (; meta_cursor_valid(cursor); meta_cursor_next(cursor)) {
        struct slice key = meta_cursor_key(cursor), value = meta_cursor_value(cursor);
        must(slice_equal(key, value));
        strncat(w->seen, key.data, key.size);
        strcat(w->seen, " ");
    }
    return 0;
}

static const char *walk_await(struct fixture *f, struct walk *w, const char *from, bool before) {
    w->from = from;
    w->before = before;
    must(meta_scan_await(f->meta, META_OBJECTS, walk, w) == 0);
    return w->seen;
}

static int fail_scan(struct meta_cursor *cursor, void *arg) {
    must(!meta_cursor_valid(cursor));
    return ERR_INVALID_ARGUMENT;
}

static void scans(void *arg) {
    struct fixture *f = arg;
    const char *keys[] = {"b", "a", "c/1", "c", "c/", "\xc3\xa9"};
    for (unsigned i = 0; i < 6; i++) must(put_await(f, META_OBJECTS, keys[i], keys[i]) == 0);
    must(put_await(f, META_PARTS, "aa", "another space") == 0);
    struct walk w;
    must(!strcmp(walk_await(f, &w, "", false), "a b c c/ c/1 \xc3\xa9 "));
    must(!strcmp(walk_await(f, &w, "c", false), "c c/ c/1 \xc3\xa9 "));
    must(!strcmp(walk_await(f, &w, "bb", false), "c c/ c/1 \xc3\xa9 "));
    must(!strcmp(walk_await(f, &w, "\xff", false), ""));
    must(!strcmp(walk_await(f, &w, "c/0", true), "c/ c/1 \xc3\xa9 "));
    must(!strcmp(walk_await(f, &w, "c/1", true), "c/1 \xc3\xa9 "));
    must(!strcmp(walk_await(f, &w, "A", true), ""));
    must(meta_scan_await(f->meta, META_OBJECTS, fail_scan, NULL) == ERR_INVALID_ARGUMENT);
}

static void test_a_scan_is_in_the_order_of_bytes(void **state) {
    in_fiber(*state, scans);
}

static int scan_while_writing(struct meta_cursor *cursor, void *arg) {
    struct fixture *f = arg;
    struct meta_batch *batch = new_batch();
    meta_batch_put(batch, META_OBJECTS, SLICE_LITERAL("b"), SLICE_LITERAL("late"));
    must(meta_commit_blocking(f->meta, batch) == 0);
    meta_batch_destroy(&batch);
    meta_cursor_seek(cursor, SLICE_LITERAL("a"));
    must(meta_cursor_valid(cursor) && slice_is(meta_cursor_key(cursor), "a"));
    meta_cursor_next(cursor);
    must(!meta_cursor_valid(cursor));
    return 0;
}

static void test_a_scan_sees_one_moment_and_blocking_calls_need_no_fiber(void **state) {
    struct fixture *f = *state;
    struct meta_batch *batch = new_batch();
    meta_batch_put(batch, META_OBJECTS, SLICE_LITERAL("a"), SLICE_LITERAL("early"));
    assert_int_equal(meta_commit_blocking(f->meta, batch), 0);
    meta_batch_guard_absent(batch, META_OBJECTS, SLICE_LITERAL("a"));
    assert_int_equal(meta_commit_blocking(f->meta, batch), ERR_CONFLICT);
    meta_batch_destroy(&batch);
    assert_int_equal(meta_scan_blocking(f->meta, META_OBJECTS, scan_while_writing, f), 0);
}

/* ---- large ones */

#define MANY 1000

static void thousand_operations(void *arg) {
    struct fixture *f = arg;
    struct meta_batch *batch = new_batch();
    char key[32];
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(key, sizeof(key), "part-%06u", i);
        meta_batch_put(batch, META_PARTS, slice_of(key), slice_of(key));
        meta_batch_guard_absent(batch, META_PARTS, slice_of(key));
    }
    must(commit_await(f, batch) == 0);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(key, sizeof(key), "part-%06u", i);
        must(holds_await(f, META_PARTS, key, key));
    }
    batch = new_batch();
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(key, sizeof(key), "part-%06u", i);
        meta_batch_delete(batch, META_PARTS, slice_of(key));
    }
    must(commit_await(f, batch) == 0);
    must(guard_empty(f, "part-", "part.") == 0);
}

static void test_a_batch_of_a_thousand_operations(void **state) {
    in_fiber(*state, thousand_operations);
}

static struct slice big_value(void) {
    static char data[MIB];
    for (size_t i = 0; i < sizeof(data); i++) data[i] = (char)(i * 2654435761u >> 24);
    return (struct slice){data, sizeof(data)};
}

static void put_big(void *arg) {
    struct fixture *f = arg;
    struct meta_batch *batch = new_batch();
    meta_batch_put(batch, META_INLINE, SLICE_LITERAL("big"), big_value());
    meta_batch_put(batch, META_OBJECTS, SLICE_LITERAL("big"), big_value());
    must(commit_await(f, batch) == 0);
}

static void get_big(void *arg) {
    struct fixture *f = arg;
    for (unsigned i = 0; i < 2; i++) {
        struct meta_value *value = NULL;
        must(meta_get_await(f->meta, i ? META_OBJECTS : META_INLINE, SLICE_LITERAL("big"),
                            &value) == 0);
        must(slice_equal(meta_value_slice(value), big_value()));
        meta_value_unref(&value);
    }
}

static void test_a_value_of_a_mebibyte(void **state) {
    struct fixture *f = *state;
    in_fiber(f, put_big);
    in_fiber(f, get_big);
    close_store(f);
    open_store(f);
    in_fiber(f, get_big);
}

/* ---- many at once */

#define ROUNDS 200

struct contest {
    atomic_uint winners[ROUNDS];
};

static void contend(struct fixture *f, unsigned index, void *arg) {
    struct contest *contest = arg;
    char key[32];
    for (unsigned round = 0; round < ROUNDS; round++) {
        snprintf(key, sizeof(key), "prize-%u", round);
        /* Every other round the prize is a range and not a key. */
        struct meta_batch *batch = new_batch();
        if (round % 2) {
            meta_batch_guard_absent(batch, META_OBJECTS, slice_of(key));
        } else {
            char end[40];
            snprintf(end, sizeof(end), "%s!", key);
            meta_batch_guard_empty(batch, META_OBJECTS, slice_of(key), slice_of(end));
        }
        meta_batch_put(batch, META_OBJECTS, slice_of(key), slice_of(key));
        int err = commit_await(f, batch);
        must(err == 0 || err == ERR_CONFLICT);
        if (!err) atomic_fetch_add(&contest->winners[round], 1);
        must(holds_await(f, META_OBJECTS, key, key));
    }
}

static void test_of_many_who_want_one_key_exactly_one_gets_it(void **state) {
    struct contest contest = {0};
    in_crowd(*state, 32, contend, &contest);
    for (unsigned i = 0; i < ROUNDS; i++) assert_int_equal(contest.winners[i], 1);
}

#define INCREMENTS 20

static void increment_await(struct fixture *f) {
    int err = ERR_CONFLICT;
    while (err == ERR_CONFLICT) {
        struct meta_value *value = NULL;
        must(meta_get_await(f->meta, META_OBJECTS, SLICE_LITERAL("counter"), &value) == 0);
        uint64_t number;
        must(value->size == sizeof(number));
        memcpy(&number, value->data, sizeof(number));
        number++;
        struct meta_batch *batch = new_batch();
        meta_batch_guard_equals(batch, META_OBJECTS, SLICE_LITERAL("counter"),
                                meta_value_slice(value));
        meta_batch_put(batch, META_OBJECTS, SLICE_LITERAL("counter"),
                       (struct slice){(const char *)&number, sizeof(number)});
        err = commit_await(f, batch);
        must(err == 0 || err == ERR_CONFLICT);
        meta_value_unref(&value);
    }
}

static void increment(struct fixture *f, unsigned index, void *arg) {
    for (unsigned i = 0; i < INCREMENTS; i++) increment_await(f);
}

static void start_counter(void *arg) {
    struct fixture *f = arg;
    struct meta_batch *batch = new_batch();
    meta_batch_put(batch, META_OBJECTS, SLICE_LITERAL("counter"),
                   (struct slice){"\0\0\0\0\0\0\0", 8});
    must(commit_await(f, batch) == 0);
}

static void check_counter(void *arg) {
    struct fixture *f = arg;
    uint64_t expected = 32 * INCREMENTS;
    struct meta_value *value = NULL;
    must(meta_get_await(f->meta, META_OBJECTS, SLICE_LITERAL("counter"), &value) == 0);
    must(memcmp(value->data, &expected, sizeof(expected)) == 0);
    meta_value_unref(&value);
}

static void test_no_guarded_update_is_lost(void **state) {
    in_fiber(*state, start_counter);
    in_crowd(*state, 32, increment, NULL);
    in_fiber(*state, check_counter);
}

/* Readers fill the cache while writers commit. The cache is so small that records leave it all the
 * time; even so nobody reads a value older than one that was acknowledged. */
#define RACE_KEYS    24
#define RACE_COMMITS 60

struct race {
    atomic_uint acknowledged[RACE_KEYS];
    atomic_uint writers;
};

static void race_key(unsigned index, char key[16]) {
    snprintf(key, 16, "race-%u", index);
}

static void race_write(struct fixture *f, struct race *race, unsigned index) {
    char key[16];
    static const char padding[900];
    race_key(index, key);
    for (unsigned number = 1; number <= RACE_COMMITS; number++) {
        char value[sizeof(padding)] = {0};
        memcpy(value, &number, sizeof(number));
        struct meta_batch *batch = new_batch();
        meta_batch_put(batch, META_OBJECTS, slice_of(key), (struct slice){value, sizeof(value)});
        must(commit_await(f, batch) == 0);
        atomic_store(&race->acknowledged[index], number);
    }
    atomic_fetch_sub(&race->writers, 1);
}

static void race_read(struct fixture *f, struct race *race, unsigned index) {
    char key[16];
    for (unsigned i = index; atomic_load(&race->writers); i++) {
        unsigned which = i % RACE_KEYS, number = 0;
        race_key(which, key);
        unsigned acknowledged = atomic_load(&race->acknowledged[which]);
        struct meta_value *value = NULL;
        int err = meta_get_await(f->meta, META_OBJECTS, slice_of(key), &value);
        if (!err) memcpy(&number, value->data, sizeof(number));
        must(!err || (err == ERR_NOT_FOUND && !acknowledged));
        must(number >= acknowledged);
        meta_value_unref(&value);
        if (i % 8 == 0) fiber_yield_await();
    }
}

static void race_member(struct fixture *f, unsigned index, void *arg) {
    if (index < RACE_KEYS) {
        race_write(f, arg, index);
    } else {
        race_read(f, arg, index);
    }
}

static void test_a_read_is_never_older_than_an_acknowledged_commit(void **state) {
    struct fixture *f = *state;
    close_store(f);
    f->cache_bytes = 10 * 1024;
    open_store(f);
    struct race race = {.writers = RACE_KEYS};
    in_crowd(f, RACE_KEYS + 8, race_member, &race);
    struct meta_stats stats;
    meta_stats(f->meta, &stats);
    assert_true(stats.engine_gets > 0);
    assert_true(stats.cache_bytes <= f->cache_bytes);
    assert_true(stats.groups < stats.commits);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_key_has_its_last_value_until_it_is_deleted),
        TEST(test_the_operations_of_a_batch_apply_in_order),
        TEST(test_a_hot_record_is_not_read_from_the_engine),
        TEST(test_a_batch_with_a_part_too_large_is_refused_whole),
        TEST(test_a_batch_is_applied_only_if_its_guards_hold),
        TEST(test_guards_see_the_state_before_the_batch),
        TEST(test_a_range_is_empty_when_no_key_is_in_it),
        TEST(test_a_scan_is_in_the_order_of_bytes),
        TEST(test_a_scan_sees_one_moment_and_blocking_calls_need_no_fiber),
        TEST(test_a_batch_of_a_thousand_operations),
        TEST(test_a_value_of_a_mebibyte),
        TEST(test_of_many_who_want_one_key_exactly_one_gets_it),
        TEST(test_no_guarded_update_is_lost),
        TEST(test_a_read_is_never_older_than_an_acknowledged_commit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
