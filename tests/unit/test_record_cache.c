/* The record cache: what it keeps, what it lets go, and above all what it refuses to keep: a value
 * that is no longer the newest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "meta/engine.h"
#include "meta/record_cache.h"

#define MIB (1024u * 1024)

static struct meta_value *value_of(uint64_t number, size_t size) {
    struct meta_value *value = meta_value_create(size);
    if (!value) abort();
    memset(value->data, 0, size);
    memcpy(value->data, &number, sizeof(number));
    return value;
}

static uint64_t number_of(const struct meta_value *value) {
    uint64_t number;
    memcpy(&number, value->data, sizeof(number));
    return number;
}

static struct record_cache *make_cache(uint64_t bytes) {
    struct record_cache *cache = NULL;
    assert_int_equal(record_cache_create(bytes, &cache), 0);
    return cache;
}

/* The number in the cache, or -1; a miss leaves its ticket. */
static int64_t look_up(struct record_cache *cache, struct slice key, struct record_ticket *ticket) {
    struct meta_value *value = NULL;
    struct record_ticket ignored;
    if (!record_cache_get(cache, META_OBJECTS, key, &value, ticket ? ticket : &ignored)) return -1;
    int64_t number = (int64_t)number_of(value);
    meta_value_unref(&value);
    return number;
}

static void fill(struct record_cache *cache, struct slice key, uint64_t number, size_t size,
                 const struct record_ticket *ticket) {
    struct meta_value *value = value_of(number, size);
    record_cache_fill(cache, META_OBJECTS, key, value, ticket);
    meta_value_unref(&value);
}

static void change_end(struct record_cache *cache, struct slice key, uint64_t number) {
    struct meta_value *value = value_of(number, 8);
    record_cache_change_end(cache, META_OBJECTS, key, value);
    meta_value_unref(&value);
}

static void test_a_filled_record_is_found_in_its_space_only(void **state) {
    struct record_cache *cache = make_cache(MIB);
    struct slice key = SLICE_LITERAL("photo");
    struct record_ticket ticket;
    assert_int_equal(look_up(cache, key, &ticket), -1);
    fill(cache, key, 7, 8, &ticket);
    assert_int_equal(look_up(cache, key, NULL), 7);
    struct meta_value *value = NULL;
    assert_false(record_cache_get(cache, META_UPLOADS, key, &value, &ticket));
    assert_true(record_cache_bytes(cache) > 0);
    record_cache_destroy(&cache);
    assert_null(cache);
}

static void test_a_value_outlives_its_record(void **state) {
    struct record_cache *cache = make_cache(MIB);
    struct slice key = SLICE_LITERAL("photo");
    record_cache_change_begin(cache, META_OBJECTS, key);
    change_end(cache, key, 1);
    struct meta_value *held = NULL;
    struct record_ticket ticket;
    assert_true(record_cache_get(cache, META_OBJECTS, key, &held, &ticket));
    record_cache_change_begin(cache, META_OBJECTS, key);
    change_end(cache, key, 2);
    assert_int_equal(number_of(held), 1);
    assert_int_equal(look_up(cache, key, NULL), 2);
    record_cache_destroy(&cache);
    assert_int_equal(number_of(held), 1);
    meta_value_unref(&held);
}

static void test_a_fill_from_before_a_change_is_refused(void **state) {
    struct record_cache *cache = make_cache(MIB);
    struct slice key = SLICE_LITERAL("photo");
    struct record_ticket before;
    assert_int_equal(look_up(cache, key, &before), -1);
    record_cache_change_begin(cache, META_OBJECTS, key);
    record_cache_change_end(cache, META_OBJECTS, key, NULL);
    fill(cache, key, 1, 8, &before);
    assert_int_equal(look_up(cache, key, NULL), -1);
    record_cache_destroy(&cache);
}

static void test_nothing_is_filled_during_a_change(void **state) {
    struct record_cache *cache = make_cache(MIB);
    struct slice key = SLICE_LITERAL("photo");
    struct record_ticket before, during;
    assert_int_equal(look_up(cache, key, &before), -1);
    record_cache_change_begin(cache, META_OBJECTS, key);
    assert_int_equal(look_up(cache, key, &during), -1);
    fill(cache, key, 1, 8, &before);
    fill(cache, key, 1, 8, &during);
    assert_int_equal(look_up(cache, key, NULL), -1);
    change_end(cache, key, 2);
    fill(cache, key, 1, 8, &during);
    assert_int_equal(look_up(cache, key, NULL), 2);
    record_cache_destroy(&cache);
}

static void test_the_old_record_answers_until_the_change_is_settled(void **state) {
    struct record_cache *cache = make_cache(MIB);
    struct slice key = SLICE_LITERAL("photo");
    record_cache_change_begin(cache, META_OBJECTS, key);
    change_end(cache, key, 1);
    /* Two changes of one key in one group: the last one stays. */
    record_cache_change_begin(cache, META_OBJECTS, key);
    record_cache_change_begin(cache, META_OBJECTS, key);
    assert_int_equal(look_up(cache, key, NULL), 1);
    change_end(cache, key, 2);
    change_end(cache, key, 3);
    assert_int_equal(look_up(cache, key, NULL), 3);
    record_cache_change_begin(cache, META_OBJECTS, key);
    record_cache_change_end(cache, META_OBJECTS, key, NULL);
    assert_int_equal(look_up(cache, key, NULL), -1);
    record_cache_destroy(&cache);
}

static void fill_number(struct record_cache *cache, unsigned number) {
    char text[32];
    snprintf(text, sizeof(text), "key-%u", number);
    struct record_ticket ticket;
    if (look_up(cache, slice_of(text), &ticket) < 0) {
        fill(cache, slice_of(text), number, 300, &ticket);
    }
}

static void test_memory_is_bounded_and_what_is_read_stays(void **state) {
    struct record_cache *cache = make_cache(MIB);
    fill_number(cache, 0);
    for (unsigned i = 1; i < 40000; i++) {
        fill_number(cache, i);
        assert_int_equal(look_up(cache, SLICE_LITERAL("key-0"), NULL), 0);
    }
    assert_in_range(record_cache_bytes(cache), MIB / 2, MIB);
    assert_int_equal(look_up(cache, SLICE_LITERAL("key-1"), NULL), -1);
    record_cache_destroy(&cache);
}

static void test_what_does_not_fit_is_not_kept(void **state) {
    struct record_cache *cache = make_cache(MIB);
    struct record_ticket ticket;
    assert_int_equal(look_up(cache, SLICE_LITERAL("big"), &ticket), -1);
    fill(cache, SLICE_LITERAL("big"), 1, MIB, &ticket);
    assert_int_equal(look_up(cache, SLICE_LITERAL("big"), NULL), -1);
    record_cache_destroy(&cache);

    cache = make_cache(0);
    assert_int_equal(look_up(cache, SLICE_LITERAL("small"), &ticket), -1);
    fill(cache, SLICE_LITERAL("small"), 1, 8, &ticket);
    record_cache_change_begin(cache, META_OBJECTS, SLICE_LITERAL("small"));
    change_end(cache, SLICE_LITERAL("small"), 2);
    assert_int_equal(look_up(cache, SLICE_LITERAL("small"), NULL), -1);
    assert_int_equal(record_cache_bytes(cache), 0);
    record_cache_destroy(&cache);
}

/* ---- readers that fill while a writer changes: nobody ever reads something older than what
 * anybody has read before. The "engine" is an array of numbers. */
#define RACE_KEYS    4
#define RACE_CHANGES 20000

struct race {
    struct record_cache *cache;
    atomic_ulong engine[RACE_KEYS]; /* what the engine holds */
    atomic_ulong seen[RACE_KEYS];   /* the newest that anybody has read */
    atomic_bool over;
    atomic_ulong went_back;
};

static uint64_t race_read(struct race *race, struct slice key, unsigned index) {
    struct meta_value *value = NULL;
    struct record_ticket ticket;
    if (!record_cache_get(race->cache, META_OBJECTS, key, &value, &ticket)) {
        value = value_of(atomic_load(&race->engine[index]), 8);
        if (index % 2) sched_yield(); /* let a change slip in between */
        record_cache_fill(race->cache, META_OBJECTS, key, value, &ticket);
    }
    uint64_t number = number_of(value);
    meta_value_unref(&value);
    return number;
}

static void *race_reader(void *arg) {
    struct race *race = arg;
    for (unsigned i = 0; !atomic_load(&race->over); i++) {
        unsigned index = i % RACE_KEYS;
        char key = (char)('a' + index);
        unsigned long before = atomic_load(&race->seen[index]);
        unsigned long number = race_read(race, (struct slice){&key, 1}, index);
        if (number < before) atomic_fetch_add(&race->went_back, 1);
        while (before < number &&
               !atomic_compare_exchange_weak(&race->seen[index], &before, number)) {
            continue;
        }
    }
    return NULL;
}

static void race_change(struct race *race, unsigned index, uint64_t number) {
    char text = (char)('a' + index);
    struct slice key = {&text, 1};
    record_cache_change_begin(race->cache, META_OBJECTS, key);
    atomic_store(&race->engine[index], number);
    if (number % 3) { /* mostly dropped, so that readers miss and fill */
        record_cache_change_end(race->cache, META_OBJECTS, key, NULL);
    } else {
        change_end(race->cache, key, number);
    }
}

static void test_no_reader_goes_back_in_time(void **state) {
    struct race race = {.cache = make_cache(MIB)};
    pthread_t readers[3];
    for (unsigned i = 0; i < 3; i++) pthread_create(&readers[i], NULL, race_reader, &race);
    for (unsigned i = 1; i <= RACE_CHANGES; i++) {
        race_change(&race, i % RACE_KEYS, i);
        if (i % 16 == 0) sched_yield();
    }
    atomic_store(&race.over, true);
    for (unsigned i = 0; i < 3; i++) pthread_join(readers[i], NULL);
    assert_int_equal(atomic_load(&race.went_back), 0);
    record_cache_destroy(&race.cache);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_filled_record_is_found_in_its_space_only),
        cmocka_unit_test(test_a_value_outlives_its_record),
        cmocka_unit_test(test_a_fill_from_before_a_change_is_refused),
        cmocka_unit_test(test_nothing_is_filled_during_a_change),
        cmocka_unit_test(test_the_old_record_answers_until_the_change_is_settled),
        cmocka_unit_test(test_memory_is_bounded_and_what_is_read_stays),
        cmocka_unit_test(test_what_does_not_fit_is_not_kept),
        cmocka_unit_test(test_no_reader_goes_back_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
