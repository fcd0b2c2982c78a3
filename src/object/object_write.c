/* Putting and deleting objects. The bytes are on the volume already, in room that nothing refers
 * to; here one guarded commit makes them the object and takes the old one's place. */
#include <assert.h>

#include "base/clock.h"
#include "base/error.h"
#include "object/change.h"
#include "object/record.h"
#include "runtime/fiber.h"

static int add_object_await(struct change *change, const struct bucket *bucket,
                            struct object_write *write, struct blob_writer *writer) {
    struct blob_ref ref;
    int err = blob_writer_finish_await(writer, change->batch, &ref);
    if (!err) err = change_guard_bucket_await(change, bucket);
    if (err) return err;
    write->info.size = ref.size;
    write->info.modified_ms = clock_wall_ms();

    struct key key;
    key_object(&key, bucket->id, write->key);
    struct text record _cleanup_text_ = {0};
    record_encode_object(&record, key_slice(&key), &write->info, NULL, &ref, ref.id ? 1 : 0);
    if (record.failed) return -ENOMEM;
    bool nothing;
    return change_replace_object_await(change, bucket, write->key, &write->condition,
                                       text_slice(&record), &nothing);
}

static int try_commit_await(struct store *store, const struct bucket *bucket,
                            struct object_write *write, struct blob_writer **writer) {
    struct change change;
    int err = change_begin(&change, store);
    if (!err) err = add_object_await(&change, bucket, write, *writer);
    if (!err) {
        err = change_commit_await(&change);
        /* If the commit may be on the drive, the bytes it refers to must stay where they are. */
        if (!change_surely_failed(err)) blob_writer_committed(writer);
    }
    change_end(&change);
    return err;
}

int object_commit_await(struct store *store, const struct bucket *bucket,
                        struct object_write *write, struct blob_writer **writer) {
    assert(write->info.part_count == 0);
    int err = key_check_name(write->key);
    if (!err) err = record_check_headers(write->info.headers, write->info.header_count);
    if (err) return err;
    err = ERR_CONFLICT;
    for (unsigned i = 0; err == ERR_CONFLICT && i < STORE_TRIES_MAX; i++) {
        if (i) fiber_yield_await();
        err = try_commit_await(store, bucket, write, writer);
    }
    return err;
}

/* ---- deleting */

static int try_delete_await(struct store *store, const struct bucket *bucket, struct slice key,
                            const struct object_condition *condition) {
    struct change change;
    bool nothing = false;
    int err = change_begin(&change, store);
    if (!err) err = change_guard_bucket_await(&change, bucket);
    if (!err)
        err = change_replace_object_await(&change, bucket, key, condition, (struct slice){0},
                                          &nothing);
    if (!err && !nothing) err = change_commit_await(&change);
    change_end(&change);
    return err;
}

int object_delete_await(struct store *store, const struct bucket *bucket, struct slice key,
                        const struct object_condition *condition) {
    int err = key_check_name(key);
    if (err) return err;
    err = ERR_CONFLICT;
    for (unsigned i = 0; err == ERR_CONFLICT && i < STORE_TRIES_MAX; i++) {
        if (i) fiber_yield_await();
        err = try_delete_await(store, bucket, key, condition);
    }
    return err;
}
