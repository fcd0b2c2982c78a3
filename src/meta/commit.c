/* The committer thread. Fibers push their commit onto a lock-free stack that lives in their own
 * frames; the thread takes the whole stack at once and works through it in the order of arrival, in
 * groups of bounded size. It alone writes to the engine, so what it reads while it checks guards
 * cannot change under it.
 *
 * After a failed write nobody can know what is on the drive: the store is poisoned and takes no
 * further commits. A full drive is not such a failure as long as the engine says so. */
#include "meta/commit.h"

#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "meta/engine.h"
#include "meta/overlay.h"
#include "meta/record_cache.h"
#include "runtime/fiber.h"

#define GROUP_COMMITS_MAX 1024
#define GROUP_BYTES_MAX   (16u * 1024 * 1024) /* a single larger batch is a group of its own */

/* One waiting commit, in the frame of whoever waits: gone as soon as it has been woken. */
struct commit {
    struct commit *next;
    struct meta_batch *batch;
    bool sync;
    int err;
    struct fiber *fiber; /* NULL: a thread that waits at `done` */
    sem_t done;
};

struct committer {
    struct meta *meta;
    pthread_t thread;
    _Atomic(struct commit *) waiting; /* newest first */
    sem_t work; /* posted by whoever makes `waiting` non-empty, and once more to stop */
    bool poisoned;
    struct overlay overlay;
    struct meta_batch *passed[GROUP_COMMITS_MAX];
    size_t passed_count;
    atomic_ullong commits, groups, conflicts;
};

/* ---- guards */

/* The value the batch's guards are about: the group's so far, else the store's. */
static int current_value(struct committer *committer, enum meta_space space, struct slice key,
                         struct meta_value **value) {
    const struct batch_op *op = overlay_find(&committer->overlay, space, key);
    if (op) {
        if (!op->value) return ERR_NOT_FOUND;
        meta_value_ref(op->value);
        *value = op->value;
        return 0;
    }
    struct meta *meta = committer->meta;
    struct record_ticket ticket;
    if (meta_space_is_cached(space) && record_cache_get(meta->cache, space, key, value, &ticket)) {
        return 0;
    }
    return meta->ops->get(meta, space, key, META_READ_ANY, value);
}

/* Whether each of the store's keys in the range has been deleted by the group. */
static int store_range_is_empty(struct committer *committer, const struct batch_guard *guard,
                                bool *empty) {
    struct meta *meta = committer->meta;
    const struct meta_ops *ops = meta->ops;
    struct meta_cursor *cursor = NULL;
    int err = ops->cursor_open(meta, guard->space, guard->other, &cursor);
    if (err) return err;
    *empty = true;
    for (ops->cursor_seek(cursor, guard->key); *empty && ops->cursor_valid(cursor);
         ops->cursor_next(cursor)) {
        struct slice key = ops->cursor_key(cursor);
        const struct batch_op *op = overlay_find(&committer->overlay, guard->space, key);
        *empty = op && !op->value;
    }
    return ops->cursor_close(&cursor);
}

static int check_empty(struct committer *committer, const struct batch_guard *guard) {
    if (slice_compare(guard->key, guard->other) >= 0) return 0;
    if (overlay_has_put_in(&committer->overlay, guard->space, guard->key, guard->other)) {
        return ERR_CONFLICT;
    }
    bool empty = false;
    int err = store_range_is_empty(committer, guard, &empty);
    if (err) return err;
    return empty ? 0 : ERR_CONFLICT;
}

static int check_guard(struct committer *committer, const struct batch_guard *guard) {
    if (guard->kind == GUARD_EMPTY) return check_empty(committer, guard);
    struct meta_value *value = NULL;
    int err = current_value(committer, guard->space, guard->key, &value);
    if (err && err != ERR_NOT_FOUND) return err;
    bool holds = (guard->kind == GUARD_ABSENT) == (value == NULL);
    if (holds && guard->kind == GUARD_EQUALS) {
        holds = slice_equal(meta_value_slice(value), guard->other);
    }
    meta_value_unref(&value);
    return holds ? 0 : ERR_CONFLICT;
}

static int check_guards(struct committer *committer, const struct meta_batch *batch) {
    for (size_t i = 0; i < batch->guard_count; i++) {
        int err = check_guard(committer, &batch->guards[i]);
        if (err) return err;
    }
    return 0;
}

/* ---- one group */

/* Cut the first group off the list; returns the rest. */
static struct commit *cut_group(struct commit *list, size_t *guarded) {
    size_t count = 1, bytes = list->batch->bytes;
    *guarded = list->batch->guard_count > 0;
    while (list->next && count < GROUP_COMMITS_MAX &&
           bytes + list->next->batch->bytes <= GROUP_BYTES_MAX) {
        list = list->next;
        count++;
        bytes += list->batch->bytes;
        *guarded += list->batch->guard_count > 0;
    }
    struct commit *rest = list->next;
    list->next = NULL;
    return rest;
}

/* Decide which commits of the group pass. `guarded` of them have guards: once the last of those
 * has been checked nobody will look at the overlay any more. Returns whether any of them wants the
 * write to be durable. */
static bool check_group(struct committer *committer, struct commit *group, size_t guarded) {
    bool sync = false;
    for (struct commit *commit = group; commit; commit = commit->next) {
        struct meta_batch *batch = commit->batch;
        commit->err = check_guards(committer, batch);
        if (batch->guard_count) guarded--;
        if (!commit->err && guarded) commit->err = overlay_add(&committer->overlay, batch);
        if (commit->err) continue;
        sync |= commit->sync;
        if (batch->op_count) committer->passed[committer->passed_count++] = batch;
    }
    overlay_clear(&committer->overlay);
    return sync;
}

static void announce_changes(struct committer *committer) {
    for (size_t i = 0; i < committer->passed_count; i++) {
        const struct meta_batch *batch = committer->passed[i];
        for (size_t j = 0; j < batch->op_count; j++) {
            const struct batch_op *op = &batch->ops[j];
            if (!meta_space_is_cached(op->space)) continue;
            record_cache_change_begin(committer->meta->cache, op->space, op->key);
        }
    }
}

/* In the order of the operations, so that the last value of a key is the one that stays. */
static void settle_changes(struct committer *committer, bool written) {
    for (size_t i = 0; i < committer->passed_count; i++) {
        const struct meta_batch *batch = committer->passed[i];
        for (size_t j = 0; j < batch->op_count; j++) {
            const struct batch_op *op = &batch->ops[j];
            if (!meta_space_is_cached(op->space)) continue;
            record_cache_change_end(committer->meta->cache, op->space, op->key,
                                    written ? op->value : NULL);
        }
    }
}

static int write_group(struct committer *committer, bool sync) {
    if (!committer->passed_count) return 0;
    struct meta *meta = committer->meta;
    announce_changes(committer);
    int err = meta->ops->write(meta, committer->passed, committer->passed_count, sync);
    settle_changes(committer, err == 0);
    committer->passed_count = 0;
    atomic_fetch_add_explicit(&committer->groups, 1, memory_order_relaxed);
    if (!err || err == ERR_STORAGE_FULL) return err;
    committer->poisoned = true;
    log_error("metadata: a commit failed (%s); the store takes no further commits until it is "
              "restarted",
              error_text(err));
    return -EIO;
}

/* Wake whoever waits, each exactly once. The commit must not be touched afterwards. */
static void complete(struct commit *commit) {
    if (commit->fiber) {
        fiber_wake_remote(commit->fiber);
    } else {
        sem_post(&commit->done);
    }
}

static void count_results(struct committer *committer, const struct commit *group) {
    uint64_t commits = 0, conflicts = 0;
    for (; group; group = group->next) {
        commits += group->err == 0;
        conflicts += group->err == ERR_CONFLICT;
    }
    atomic_fetch_add_explicit(&committer->commits, commits, memory_order_relaxed);
    if (conflicts) {
        atomic_fetch_add_explicit(&committer->conflicts, conflicts, memory_order_relaxed);
    }
}

static void finish_group(struct committer *committer, struct commit *group, int write_err) {
    for (struct commit *commit = group; commit; commit = commit->next) {
        if (!commit->err) commit->err = write_err;
    }
    count_results(committer, group);
    while (group) {
        struct commit *next = group->next;
        complete(group);
        group = next;
    }
}

/* Losers are woken together with the winners, after the write: when they look again they see what
 * they lost to. */
static struct commit *run_group(struct committer *committer, struct commit *list) {
    size_t guarded = 0;
    struct commit *group = list, *rest = cut_group(list, &guarded);
    int err = -EIO;
    if (committer->poisoned) {
        for (struct commit *commit = group; commit; commit = commit->next) commit->err = -EIO;
    } else {
        bool sync = check_group(committer, group, guarded);
        err = write_group(committer, sync);
    }
    finish_group(committer, group, err);
    return rest;
}

/* ---- the thread and its queue */

/* Everything that waits, oldest first. */
static struct commit *take_waiting(struct committer *committer) {
    struct commit *newest = atomic_exchange(&committer->waiting, NULL), *list = NULL;
    while (newest) {
        struct commit *older = newest->next;
        newest->next = list;
        list = newest;
        newest = older;
    }
    return list;
}

static void *committer_main(void *arg) {
    struct committer *committer = arg;
    for (;;) {
        while (sem_wait(&committer->work) && errno == EINTR) continue;
        struct commit *list = take_waiting(committer);
        /* Each post but the last goes with a stack that had just become non-empty. */
        if (!list) return NULL;
        while (list) list = run_group(committer, list);
    }
}

static void push(struct committer *committer, struct commit *commit) {
    struct commit *top = atomic_load_explicit(&committer->waiting, memory_order_relaxed);
    do {
        commit->next = top;
    } while (!atomic_compare_exchange_weak(&committer->waiting, &top, commit));
    if (!top) sem_post(&committer->work);
}

int committer_run_await(struct committer *committer, struct meta_batch *batch,
                        enum meta_durability durability) {
    assert(fiber_self());
    if (batch->err) return batch->err;
    struct commit commit = {
        .batch = batch, .sync = durability == META_DURABLE, .fiber = fiber_self()};
    push(committer, &commit);
    fiber_park_remote_await();
    return commit.err;
}

int committer_run_blocking(struct committer *committer, struct meta_batch *batch,
                           enum meta_durability durability) {
    assert(!fiber_self());
    if (batch->err) return batch->err;
    struct commit commit = {.batch = batch, .sync = durability == META_DURABLE};
    sem_init(&commit.done, 0, 0);
    push(committer, &commit);
    while (sem_wait(&commit.done) && errno == EINTR) continue;
    sem_destroy(&commit.done);
    return commit.err;
}

void committer_stats(struct committer *committer, struct committer_stats *stats) {
    stats->commits = atomic_load_explicit(&committer->commits, memory_order_relaxed);
    stats->groups = atomic_load_explicit(&committer->groups, memory_order_relaxed);
    stats->conflicts = atomic_load_explicit(&committer->conflicts, memory_order_relaxed);
}

/* Signals are the main thread's: the committer blocks them all. */
static int start_thread(struct committer *committer) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&committer->thread, NULL, committer_main, committer);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!err) pthread_setname_np(committer->thread, "meta-commit");
    return -err;
}

int committer_start(struct meta *meta, struct committer **out) {
    struct committer *committer = calloc(1, sizeof(*committer));
    if (!committer) return -ENOMEM;
    committer->meta = meta;
    sem_init(&committer->work, 0, 0);
    overlay_init(&committer->overlay);
    int err = start_thread(committer);
    if (err) {
        overlay_deinit(&committer->overlay);
        sem_destroy(&committer->work);
        free(committer);
        return err;
    }
    *out = committer;
    return 0;
}

void committer_stop(struct committer **pointer) {
    struct committer *committer = *pointer;
    if (!committer) return;
    *pointer = NULL;
    sem_post(&committer->work);
    pthread_join(committer->thread, NULL);
    overlay_deinit(&committer->overlay);
    sem_destroy(&committer->work);
    free(committer);
}
