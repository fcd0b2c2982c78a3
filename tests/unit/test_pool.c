/* The buffer pool: what a block is, what an empty pool does, who gets the next block. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "mem/pool.h"
#include "runtime/reactor.h"

#define MIB           (1024u * 1024)
#define BIG_BLOCKS    48 /* of 256 KiB in a pool of 16 MiB */
#define TEST_DEADLINE clock_deadline_ms(20000)

static struct pool *make_pool(void) {
    struct pool *pool;
    assert_int_equal(pool_create(16 * MIB, &pool), 0);
    return pool;
}

/* ---- without waiting */

static void shares_of_the_classes_are_fixed(void **state) {
    struct pool *pool = make_pool();
    struct pool_stats stats;
    pool_stats(pool, &stats);
    assert_int_equal(stats.memory_bytes, 16 * MIB);
    assert_int_equal(stats.blocks_total[BLOCK_4K], 1 * MIB / 4096);
    assert_int_equal(stats.blocks_total[BLOCK_32K], 3 * MIB / 32768);
    assert_int_equal(stats.blocks_total[BLOCK_256K], 12 * MIB / 262144);
    for (unsigned i = 0; i < BLOCK_CLASSES; i++)
        assert_int_equal(stats.blocks_free[i], stats.blocks_total[i]);
    pool_destroy(&pool);
    assert_null(pool);
}

static void impossible_memory_is_an_error(void **state) {
    struct pool *pool = NULL;
    assert_int_equal(pool_create(1ull << 60, &pool), -ENOMEM);
    assert_null(pool);
}

static int by_address(const void *a, const void *b) {
    const struct block *x = *(struct block *const *)a, *y = *(struct block *const *)b;
    return (x->data > y->data) - (x->data < y->data);
}

static void blocks_are_aligned_apart_and_inside_the_region(void **state) {
    struct pool *pool = make_pool();
    struct pool_region region = pool_region(pool);
    struct block *all[256 + 96 + 48];
    assert_int_equal(pool_try_take(pool, BLOCK_4K, 256, all), 0);
    assert_int_equal(pool_try_take(pool, BLOCK_32K, 96, all + 256), 0);
    assert_int_equal(pool_try_take(pool, BLOCK_256K, 48, all + 352), 0);
    qsort(all, 400, sizeof *all, by_address);
    uint8_t *end = region.base;
    for (unsigned i = 0; i < 400; i++) {
        assert_true(all[i]->data >= end);
        assert_int_equal((uintptr_t)all[i]->data % 4096, 0);
        assert_int_equal(all[i]->size, 0);
        assert_int_equal(atomic_load(&all[i]->refs), 1);
        end = all[i]->data + all[i]->capacity;
    }
    assert_ptr_equal(end, region.base + region.size);
    for (unsigned i = 0; i < 400; i++) block_unref(&all[i]);
    pool_destroy(&pool);
}

static void starting_touches_no_payload_page(void **state) {
    struct pool *pool = make_pool();
    struct pool_stats stats;
    pool_stats(pool, &stats);
    struct pool_region region = pool_region(pool);
    unsigned char resident[16 * MIB / 4096];
    assert_int_equal(mincore(region.base, region.size, resident), 0);
    if (!stats.huge_page_bytes) {
        for (unsigned i = 0; i < sizeof resident; i++) assert_int_equal(resident[i] & 1, 0);
    }
    pool_destroy(&pool);
}

static void a_take_is_all_or_nothing(void **state) {
    struct pool *pool = make_pool();
    struct block *blocks[BIG_BLOCKS + 1], *more[2];
    assert_int_equal(pool_try_take(pool, BLOCK_256K, BIG_BLOCKS + 1, blocks), -EINVAL);
    assert_int_equal(pool_try_take(pool, BLOCK_256K, BIG_BLOCKS - 1, blocks), 0);
    assert_int_equal(pool_try_take(pool, BLOCK_256K, 2, more), -EAGAIN);
    assert_int_equal(pool_try_take(pool, BLOCK_256K, 1, more), 0);
    assert_int_equal(pool_try_take(pool, BLOCK_4K, 1, more + 1), 0); /* another class has some */
    block_unref(&more[0]);
    block_unref(&more[1]);
    for (unsigned i = 0; i < BIG_BLOCKS - 1; i++) block_unref(&blocks[i]);
    pool_destroy(&pool);
}

static void a_block_returns_with_its_last_reference(void **state) {
    struct pool *pool = make_pool();
    struct pool_stats stats;
    struct block *block, *other;
    assert_int_equal(pool_try_take(pool, BLOCK_4K, 1, &block), 0);
    other = block;
    block_ref(block);
    block_unref(&block);
    assert_null(block);
    block_unref(&block); /* of nothing: fine */
    pool_stats(pool, &stats);
    assert_int_equal(stats.blocks_free[BLOCK_4K], 255);
    block_unref(&other);
    pool_stats(pool, &stats);
    assert_int_equal(stats.blocks_free[BLOCK_4K], 256);
    pool_destroy(&pool);
}

static void sizes_choose_their_class(void **state) {
    assert_int_equal(pool_class_for(0), BLOCK_4K);
    assert_int_equal(pool_class_for(4096), BLOCK_4K);
    assert_int_equal(pool_class_for(4097), BLOCK_32K);
    assert_int_equal(pool_class_for(32769), BLOCK_256K);
    assert_int_equal(pool_class_for(1ull << 40), BLOCK_256K);
}

static unsigned give_up_one(void *ctx, enum block_class class, unsigned count) {
    struct block **held = ctx;
    assert_int_equal(class, BLOCK_256K);
    assert_true(count > 0);
    if (!*held) return 0;
    block_unref(held);
    return 1;
}

static void an_empty_pool_asks_the_cache_first(void **state) {
    struct pool *pool = make_pool();
    struct pool_stats stats;
    struct block *blocks[BIG_BLOCKS], *again, *none;
    assert_int_equal(pool_try_take(pool, BLOCK_256K, BIG_BLOCKS, blocks), 0);
    pool_set_reclaim(pool, give_up_one, &blocks[7]);
    assert_int_equal(pool_try_take(pool, BLOCK_256K, 1, &again), 0);
    assert_null(blocks[7]);
    assert_int_equal(pool_try_take(pool, BLOCK_256K, 1, &none), -EAGAIN);
    pool_stats(pool, &stats);
    assert_int_equal(stats.reclaims, 1);
    block_unref(&again);
    for (unsigned i = 0; i < BIG_BLOCKS; i++) block_unref(&blocks[i]);
    pool_destroy(&pool);
}

/* ---- waiting */

/* A full pool and fibers that want more of it. */
struct scene {
    struct pool *pool;
    struct block *held[BIG_BLOCKS];
    unsigned running, order[8], served;
};

struct taker {
    struct scene *scene;
    unsigned id, count;
    uint64_t deadline_ns;
    struct fiber *fiber;
    int err;
    struct block *blocks[BIG_BLOCKS];
};

static void take_and_tell(void *arg) {
    struct taker *t = arg;
    t->fiber = fiber_self();
    t->err = pool_take_await(t->scene->pool, BLOCK_256K, t->count, t->blocks, t->deadline_ns);
    t->scene->order[t->scene->served++] = t->id;
    t->scene->running--;
}

static void start_taker(struct scene *scene, struct taker *t, unsigned id, unsigned count,
                        uint64_t deadline_ns) {
    *t = (struct taker){.scene = scene, .id = id, .count = count, .deadline_ns = deadline_ns};
    scene->running++;
    assert_int_equal(fiber_spawn("taker", take_and_tell, t), 0);
    while (!t->fiber) fiber_yield_await();
}

static void scene_begin(struct scene *scene, struct pool *pool) {
    *scene = (struct scene){.pool = pool};
    assert_int_equal(pool_try_take(pool, BLOCK_256K, BIG_BLOCKS, scene->held), 0);
}

static void scene_wait(struct scene *scene, unsigned served) {
    while (scene->served < served) fiber_sleep_await(1);
    assert_int_equal(scene->served, served);
}

static void taker_end(struct taker *t) {
    if (t->err) return;
    for (unsigned i = 0; i < t->count; i++) block_unref(&t->blocks[i]);
}

static void scene_end(struct scene *scene) {
    assert_int_equal(scene->running, 0);
    for (unsigned i = 0; i < BIG_BLOCKS; i++) block_unref(&scene->held[i]);
}

static void in_order(void *arg) {
    struct scene scene;
    struct taker first, second, third;
    struct block *none;
    scene_begin(&scene, arg);
    start_taker(&scene, &first, 1, 2, TEST_DEADLINE);
    start_taker(&scene, &second, 2, 1, TEST_DEADLINE);
    start_taker(&scene, &third, 3, 1, TEST_DEADLINE);
    block_unref(&scene.held[0]);
    fiber_sleep_await(2);
    assert_int_equal(scene.served, 0); /* one is free; the first wants two; nobody overtakes */
    assert_int_equal(pool_try_take(scene.pool, BLOCK_256K, 1, &none), -EAGAIN);
    block_unref(&scene.held[1]);
    scene_wait(&scene, 1);
    block_unref(&scene.held[2]);
    block_unref(&scene.held[3]);
    scene_wait(&scene, 3);
    for (unsigned i = 0; i < 3; i++) assert_int_equal(scene.order[i], i + 1);
    taker_end(&first);
    taker_end(&second);
    taker_end(&third);
    scene_end(&scene);
}

static void at_the_deadline(void *arg) {
    struct scene scene;
    struct taker large, small;
    struct pool_stats stats;
    scene_begin(&scene, arg);
    start_taker(&scene, &large, 1, 4, clock_deadline_ms(20));
    start_taker(&scene, &small, 2, 1, TEST_DEADLINE);
    block_unref(&scene.held[0]);
    scene_wait(&scene, 2);
    assert_int_equal(large.err, -ETIME);
    assert_int_equal(small.err, 0); /* it was held up by the large one only */
    pool_stats(scene.pool, &stats);
    assert_int_equal(stats.wait_timeouts, 1);
    taker_end(&small);
    scene_end(&scene);
}

static void when_cancelled(void *arg) {
    struct scene scene;
    struct taker taker;
    scene_begin(&scene, arg);
    start_taker(&scene, &taker, 1, 1, TEST_DEADLINE);
    fiber_cancel(taker.fiber);
    scene_wait(&scene, 1);
    assert_int_equal(taker.err, -ECANCELED);
    scene_end(&scene);
}

/* The deadline passes or the cancel comes while the grant is already on its way: the waiter's
 * stack must outlive the message, and no block may be lost. */
static void when_granted_and_cancelled_at_once(void *arg) {
    struct scene scene;
    struct taker taker;
    scene_begin(&scene, arg);
    start_taker(&scene, &taker, 1, 1, TEST_DEADLINE);
    block_unref(&scene.held[0]);
    fiber_cancel(taker.fiber);
    scene_wait(&scene, 1);
    assert_int_equal(taker.err, 0);
    taker_end(&taker);
    scene_end(&scene);
}

static void *return_block(void *arg) {
    struct block *block = arg;
    block_unref(&block);
    return NULL;
}

static void by_another_thread(void *arg) {
    struct scene scene;
    struct taker taker;
    pthread_t thread;
    scene_begin(&scene, arg);
    start_taker(&scene, &taker, 1, 1, TEST_DEADLINE);
    assert_int_equal(pthread_create(&thread, NULL, return_block, scene.held[0]), 0);
    scene.held[0] = NULL;
    scene_wait(&scene, 1);
    pthread_join(thread, NULL);
    assert_int_equal(taker.err, 0);
    taker_end(&taker);
    scene_end(&scene);
}

static struct runtime *start_runtime(unsigned reactors) {
    struct runtime_options options = {.reactors = reactors, .workers = 1};
    struct runtime *runtime;
    assert_int_equal(runtime_start(&options, &runtime), 0);
    return runtime;
}

static void run_scene(fiber_fn *fn) {
    struct runtime *runtime = start_runtime(1);
    struct pool *pool = make_pool();
    assert_int_equal(reactor_run(runtime_reactor(runtime, 0), "scene", fn, pool), 0);
    runtime_stop(&runtime);
    pool_destroy(&pool);
}

static void waiters_are_served_in_order(void **state) {
    run_scene(in_order);
}

static void a_waiter_leaves_at_its_deadline(void **state) {
    run_scene(at_the_deadline);
}

static void a_waiter_leaves_when_cancelled(void **state) {
    run_scene(when_cancelled);
}

static void a_grant_under_way_wins_over_a_cancel(void **state) {
    run_scene(when_granted_and_cancelled_at_once);
}

static void a_waiter_is_woken_by_any_thread(void **state) {
    run_scene(by_another_thread);
}

/* ---- many at once */

#define CROWD  8
#define ROUNDS 150

struct crowd {
    struct pool *pool;
    unsigned seed, left;
    struct fiber_queue over;
};

static void one_of_the_crowd(void *arg) {
    struct crowd *crowd = arg;
    struct block *blocks[20];
    for (unsigned round = 0; round < ROUNDS; round++) {
        crowd->seed = crowd->seed * 1103515245 + 12345;
        unsigned count = 1 + (crowd->seed >> 16) % 20;
        uint64_t deadline_ns = clock_now_ns() + (crowd->seed >> 8) % 2000000;
        int err = pool_take_await(crowd->pool, BLOCK_256K, count, blocks, deadline_ns);
        assert_true(err == 0 || err == -ETIME);
        if (err) continue;
        fiber_yield_await();
        for (unsigned i = 0; i < count; i++) block_unref(&blocks[i]);
    }
    if (--crowd->left == 0) fiber_queue_wake_all(&crowd->over);
}

static void crowd_main(void *arg) {
    struct crowd *crowd = arg;
    crowd->left = CROWD;
    for (unsigned i = 0; i < CROWD; i++)
        assert_int_equal(fiber_spawn("crowd", one_of_the_crowd, crowd), 0);
    while (crowd->left) fiber_queue_wait_await(&crowd->over, NO_DEADLINE);
}

struct crowd_thread {
    struct reactor *reactor;
    struct crowd crowd;
};

static void *run_crowd(void *arg) {
    struct crowd_thread *t = arg;
    assert_int_equal(reactor_run(t->reactor, "crowd-main", crowd_main, &t->crowd), 0);
    return NULL;
}

static void no_block_is_lost_in_a_crowd_on_two_reactors(void **state) {
    struct runtime *runtime = start_runtime(2);
    struct pool *pool = make_pool();
    struct crowd_thread crowds[2] = {
        {.reactor = runtime_reactor(runtime, 0), .crowd = {.pool = pool, .seed = 1}},
        {.reactor = runtime_reactor(runtime, 1), .crowd = {.pool = pool, .seed = 2}}};
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_crowd, &crowds[i]), 0);
    for (unsigned i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    struct pool_stats stats;
    pool_stats(pool, &stats);
    assert_int_equal(stats.blocks_free[BLOCK_256K], BIG_BLOCKS);
    assert_true(stats.waits > 0);
    runtime_stop(&runtime);
    pool_destroy(&pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shares_of_the_classes_are_fixed),
        cmocka_unit_test(impossible_memory_is_an_error),
        cmocka_unit_test(blocks_are_aligned_apart_and_inside_the_region),
        cmocka_unit_test(starting_touches_no_payload_page),
        cmocka_unit_test(a_take_is_all_or_nothing),
        cmocka_unit_test(a_block_returns_with_its_last_reference),
        cmocka_unit_test(sizes_choose_their_class),
        cmocka_unit_test(an_empty_pool_asks_the_cache_first),
        cmocka_unit_test(waiters_are_served_in_order),
        cmocka_unit_test(a_waiter_leaves_at_its_deadline),
        cmocka_unit_test(a_waiter_leaves_when_cancelled),
        cmocka_unit_test(a_grant_under_way_wins_over_a_cancel),
        cmocka_unit_test(a_waiter_is_woken_by_any_thread),
        cmocka_unit_test(no_block_is_lost_in_a_crowd_on_two_reactors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
