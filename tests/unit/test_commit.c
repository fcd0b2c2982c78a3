/* The committer over an engine of the test's own, which holds one key, can be stopped in the middle
 * of a write, and fails when told to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "meta/batch.h"
#include "meta/commit.h"
#include "meta/engine.h"

struct engine {
    struct meta meta;         /* first */
    struct meta_value *value; /* of every key */
    unsigned writes, synced;
    size_t batches; /* in the last write */
    int write_err, read_err;
    bool hold; /* the next write posts `entered` and waits for `leave` */
    sem_t entered, leave;
};

static int engine_get(struct meta *meta, enum meta_space space, struct slice key,
                      enum meta_read from, struct meta_value **value) {
    struct engine *engine = (struct engine *)meta;
    if (engine->read_err) return engine->read_err;
    if (!engine->value) return ERR_NOT_FOUND;
    meta_value_ref(engine->value);
    *value = engine->value;
    return 0;
}

static int engine_write(struct meta *meta, struct meta_batch *const *batches, size_t count,
                        bool sync) {
    struct engine *engine = (struct engine *)meta;
    engine->writes++;
    engine->synced += sync;
    engine->batches = count;
    if (engine->hold) {
        engine->hold = false;
        sem_post(&engine->entered);
        sem_wait(&engine->leave);
    }
    if (engine->write_err) return engine->write_err;
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < batches[i]->op_count; j++) {
            meta_value_unref(&engine->value);
            engine->value = batches[i]->ops[j].value;
            if (engine->value) meta_value_ref(engine->value);
        }
    }
    return 0;
}

static void engine_close(struct meta *meta) {
    struct engine *engine = (struct engine *)meta;
    meta_value_unref(&engine->value);
    sem_destroy(&engine->entered);
    sem_destroy(&engine->leave);
    free(engine);
}

static const struct meta_ops engine_ops = {
    .get = engine_get, .write = engine_write, .close = engine_close};

static int set_up(void **state) {
    size_t size = (sizeof(struct engine) + 63) / 64 * 64;
    struct engine *engine = aligned_alloc(64, size);
    if (!engine) return -1;
    memset(engine, 0, size);
    sem_init(&engine->entered, 0, 0);
    sem_init(&engine->leave, 0, 0);
    log_set_level(LOG_ERROR);
    *state = engine;
    return meta_init(&engine->meta, &engine_ops, 1024 * 1024);
}

static int tear_down(void **state) {
    struct meta *meta = &((struct engine *)*state)->meta;
    meta_close(&meta);
    return 0;
}

static const struct slice key = {"k", 1};

static int put(struct engine *engine, const char *value, bool only_if_absent,
               enum meta_durability durability) {
    struct meta_batch *batch = NULL;
    int err = meta_batch_create(&batch);
    if (err) return err;
    if (only_if_absent) meta_batch_guard_absent(batch, META_PARTS, key);
    meta_batch_put(batch, META_PARTS, key, slice_of(value));
    err = committer_run_blocking(engine->meta.committer, batch, durability);
    meta_batch_destroy(&batch);
    return err;
}

static void test_a_write_is_synced_only_if_somebody_asks(void **state) {
    struct engine *engine = *state;
    assert_int_equal(put(engine, "1", false, META_CRASH), 0);
    assert_int_equal(engine->synced, 0);
    assert_int_equal(put(engine, "2", false, META_DURABLE), 0);
    assert_int_equal(engine->synced, 1);
}

static void test_a_batch_of_guards_only_writes_nothing(void **state) {
    struct engine *engine = *state;
    struct meta_batch *batch = NULL;
    assert_int_equal(meta_batch_create(&batch), 0);
    meta_batch_guard_absent(batch, META_PARTS, key);
    assert_int_equal(meta_commit_blocking(&engine->meta, batch), 0);
    meta_batch_guard_present(batch, META_PARTS, key);
    assert_int_equal(meta_commit_blocking(&engine->meta, batch), ERR_CONFLICT);
    assert_int_equal(engine->writes, 0);
    meta_batch_destroy(&batch);
}

static void test_a_failed_write_poisons_the_store(void **state) {
    struct engine *engine = *state;
    assert_int_equal(put(engine, "1", false, META_DURABLE), 0);
    engine->write_err = -EROFS;
    assert_int_equal(put(engine, "2", false, META_DURABLE), -EIO);
    engine->write_err = 0;
    assert_int_equal(put(engine, "3", false, META_DURABLE), -EIO);
    assert_int_equal(engine->writes, 2);
    assert_true(slice_is(meta_value_slice(engine->value), "1"));
}

static void test_a_full_drive_fails_the_commit_and_no_more(void **state) {
    struct engine *engine = *state;
    engine->write_err = ERR_STORAGE_FULL;
    assert_int_equal(put(engine, "1", false, META_DURABLE), ERR_STORAGE_FULL);
    engine->write_err = 0;
    assert_int_equal(put(engine, "2", true, META_DURABLE), 0);
}

static void test_a_guard_that_cannot_be_read_fails_its_commit_alone(void **state) {
    struct engine *engine = *state;
    engine->read_err = ERR_STORE_CORRUPT;
    assert_int_equal(put(engine, "1", true, META_DURABLE), ERR_STORE_CORRUPT);
    assert_int_equal(put(engine, "2", false, META_DURABLE), 0);
}

/* ---- many at once */

#define CONTENDERS 16

struct contender {
    struct engine *engine;
    bool guarded;
    pthread_t thread;
    int err;
};

static void *contend(void *arg) {
    struct contender *contender = arg;
    contender->err = put(contender->engine, "mine", contender->guarded, META_DURABLE);
    return NULL;
}

/* Stop the committer in a write, let the contenders queue up behind it, and count who won. */
static unsigned run_contenders(struct engine *engine, bool guarded, int write_err) {
    struct contender first = {.engine = engine}, others[CONTENDERS];
    engine->hold = true;
    pthread_create(&first.thread, NULL, contend, &first);
    sem_wait(&engine->entered);
    for (unsigned i = 0; i < CONTENDERS; i++) {
        others[i] = (struct contender){.engine = engine, .guarded = guarded};
        pthread_create(&others[i].thread, NULL, contend, &others[i]);
    }
    engine->write_err = write_err;
    sem_post(&engine->leave);
    pthread_join(first.thread, NULL);
    unsigned won = 0;
    for (unsigned i = 0; i < CONTENDERS; i++) {
        pthread_join(others[i].thread, NULL);
        won += others[i].err == 0;
    }
    return won;
}

static void test_commits_gather_while_one_is_written(void **state) {
    struct engine *engine = *state;
    assert_int_equal(run_contenders(engine, false, 0), CONTENDERS);
    struct committer_stats stats;
    committer_stats(engine->meta.committer, &stats);
    assert_int_equal(stats.commits, CONTENDERS + 1);
    assert_int_equal(stats.groups, engine->writes);
}

static void test_all_who_want_what_is_taken_lose(void **state) {
    struct engine *engine = *state;
    assert_int_equal(run_contenders(engine, true, 0), 0);
    struct committer_stats stats;
    committer_stats(engine->meta.committer, &stats);
    assert_int_equal(stats.conflicts, CONTENDERS);
    assert_int_equal(engine->writes, 1);
}

static void test_everybody_hears_of_a_failed_write(void **state) {
    assert_int_equal(run_contenders(*state, false, -EIO), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_write_is_synced_only_if_somebody_asks),
        TEST(test_a_batch_of_guards_only_writes_nothing),
        TEST(test_a_failed_write_poisons_the_store),
        TEST(test_a_full_drive_fails_the_commit_and_no_more),
        TEST(test_a_guard_that_cannot_be_read_fails_its_commit_alone),
        TEST(test_commits_gather_while_one_is_written),
        TEST(test_all_who_want_what_is_taken_lose),
        TEST(test_everybody_hears_of_a_failed_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
