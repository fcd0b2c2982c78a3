/* The memory cache: finding, forgetting, giving back, and what a scan may not push out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "mem/cache.h"

#define SMALL_BLOCKS 256 /* of 4 KiB in a pool of 16 MiB */

struct fixture {
    struct pool *pool;
    struct cache *cache;
};

static int setup(void **state) {
    static struct fixture f;
    assert_int_equal(pool_create(16u << 20, &f.pool), 0);
    assert_int_equal(cache_create(f.pool, &f.cache), 0);
    *state = &f;
    return 0;
}

/* pool_destroy() asserts that no block is missing, so every test checks the references too. */
static int teardown(void **state) {
    struct fixture *f = *state;
    cache_destroy(&f->cache);
    pool_destroy(&f->pool);
    return 0;
}

/* A block that says whose it is. */
static void put(struct fixture *f, uint64_t data_id, uint32_t index) {
    struct block *block;
    assert_int_equal(pool_try_take(f->pool, BLOCK_4K, 1, &block), 0);
    block->size = 12;
    memcpy(block->data, &data_id, 8);
    memcpy(block->data + 8, &index, 4);
    cache_put(f->cache, data_id, index, block);
    block_unref(&block);
}

static bool has(struct fixture *f, uint64_t data_id, uint32_t index) {
    struct block *block = cache_get(f->cache, data_id, index);
    if (!block) return false;
    assert_memory_equal(block->data, &data_id, 8);
    assert_memory_equal(block->data + 8, &index, 4);
    block_unref(&block);
    return true;
}

static struct cache_stats stats_of(struct fixture *f) {
    struct cache_stats stats;
    cache_stats(f->cache, &stats);
    return stats;
}

static void what_was_put_is_found(void **state) {
    struct fixture *f = *state;
    for (uint32_t i = 0; i < 200; i++) put(f, 1 + i % 7, i);
    for (uint32_t i = 0; i < 200; i++) assert_true(has(f, 1 + i % 7, i));
    assert_false(has(f, 9, 0));
    struct cache_stats stats = stats_of(f);
    assert_int_equal(stats.entries, 200);
    assert_int_equal(stats.bytes, 200 * 4096);
    assert_int_equal(stats.hits, 200);
    assert_int_equal(stats.misses, 1);
}

static void putting_again_keeps_the_first(void **state) {
    struct fixture *f = *state;
    struct block *blocks[2];
    assert_int_equal(pool_try_take(f->pool, BLOCK_32K, 2, blocks), 0);
    cache_put(f->cache, 5, 0, blocks[0]);
    cache_put(f->cache, 5, 0, blocks[1]);
    struct block *found = cache_get(f->cache, 5, 0);
    assert_ptr_equal(found, blocks[0]);
    assert_int_equal(stats_of(f).inserts, 1);
    block_unref(&found);
    block_unref(&blocks[0]);
    block_unref(&blocks[1]);
}

static void dropped_data_is_forgotten(void **state) {
    struct fixture *f = *state;
    for (uint32_t i = 0; i < 50; i++) put(f, 1, i);
    put(f, 2, 0);
    cache_drop(f->cache, 1, 40);
    for (uint32_t i = 0; i < 50; i++) assert_int_equal(has(f, 1, i), i >= 40);
    cache_drop(f->cache, 1, UINT32_MAX); /* more blocks than the cache could ever hold */
    for (uint32_t i = 40; i < 50; i++) assert_false(has(f, 1, i));
    assert_true(has(f, 2, 0));
    assert_int_equal(stats_of(f).entries, 1);
}

static void a_taker_gets_what_the_cache_holds(void **state) {
    struct fixture *f = *state;
    struct block *all[SMALL_BLOCKS];
    for (uint32_t i = 0; i < SMALL_BLOCKS; i++) put(f, 3, i);
    assert_int_equal(stats_of(f).entries, SMALL_BLOCKS);
    assert_int_equal(pool_try_take(f->pool, BLOCK_4K, SMALL_BLOCKS, all), 0);
    assert_int_equal(stats_of(f).entries, 0);
    assert_int_equal(stats_of(f).bytes, 0);
    for (uint32_t i = 0; i < SMALL_BLOCKS; i++) block_unref(&all[i]);
}

static void other_classes_keep_their_entries(void **state) {
    struct fixture *f = *state;
    struct block *large, *all[SMALL_BLOCKS];
    assert_int_equal(pool_try_take(f->pool, BLOCK_256K, 1, &large), 0);
    cache_put(f->cache, 4, 0, large);
    for (uint32_t i = 0; i < SMALL_BLOCKS; i++) put(f, 3, i);
    assert_int_equal(pool_try_take(f->pool, BLOCK_4K, SMALL_BLOCKS, all), 0);
    struct block *found = cache_get(f->cache, 4, 0);
    assert_ptr_equal(found, large);
    block_unref(&found);
    block_unref(&large);
    for (uint32_t i = 0; i < SMALL_BLOCKS; i++) block_unref(&all[i]);
}

/* The pool may ask for a block that is being sent: the cache lets go, the sender keeps it. */
static void a_block_in_use_outlives_its_eviction(void **state) {
    struct fixture *f = *state;
    struct block *rest[SMALL_BLOCKS];
    put(f, 6, 0);
    struct block *sending = cache_get(f->cache, 6, 0);
    assert_int_equal(pool_try_take(f->pool, BLOCK_4K, SMALL_BLOCKS, rest), -EAGAIN);
    assert_false(has(f, 6, 0));
    assert_int_equal(pool_try_take(f->pool, BLOCK_4K, SMALL_BLOCKS - 1, rest), 0);
    uint64_t id = 6;
    assert_memory_equal(sending->data, &id, 8);
    block_unref(&sending);
    for (uint32_t i = 0; i < SMALL_BLOCKS - 1; i++) block_unref(&rest[i]);
}

static void a_scan_does_not_push_out_what_is_read_again(void **state) {
    struct fixture *f = *state;
    for (uint32_t i = 0; i < 30; i++) put(f, 7, i);
    for (unsigned round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 30; i++) assert_true(has(f, 7, i));
    }
    for (uint32_t i = 0; i < 3000; i++) put(f, 8, i);
    for (uint32_t i = 0; i < 30; i++) assert_true(has(f, 7, i));
    assert_true(stats_of(f).evictions >= 3000 - SMALL_BLOCKS);
}

static void what_comes_back_soon_after_eviction_stays(void **state) {
    struct fixture *f = *state;
    put(f, 9, 0);
    uint32_t scanned = 0;
    while (stats_of(f).evictions < 20) put(f, 10, scanned++);
    assert_false(has(f, 9, 0)); /* it was the oldest */
    put(f, 9, 0);               /* remembered by the ghost: into the main queue */
    for (uint32_t i = 0; i < 1000; i++) put(f, 10, scanned++);
    assert_true(has(f, 9, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_was_put_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(putting_again_keeps_the_first, setup, teardown),
        cmocka_unit_test_setup_teardown(dropped_data_is_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(a_taker_gets_what_the_cache_holds, setup, teardown),
        cmocka_unit_test_setup_teardown(other_classes_keep_their_entries, setup, teardown),
        cmocka_unit_test_setup_teardown(a_block_in_use_outlives_its_eviction, setup, teardown),
        cmocka_unit_test_setup_teardown(a_scan_does_not_push_out_what_is_read_again, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_comes_back_soon_after_eviction_stays, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
