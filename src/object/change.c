/* Guarded changes. Every change reads what it depends on, guards exactly that in its commit, and is
 * tried again from the start by its caller when another one came first. */
#include "object/change.h"

#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "object/record.h"

int change_begin(struct change *change, struct store *store) {
    *change = (struct change){.store = store};
    return meta_batch_create(&change->batch);
}

int change_guard_bucket_await(struct change *change, const struct bucket *bucket) {
    struct slice name = slice_of(bucket->name);
    struct meta_value *value = NULL;
    int err = meta_get_await(change->store->meta, META_BUCKETS, name, &value);
    if (err) return err == ERR_NOT_FOUND ? ERR_NO_SUCH_BUCKET : err;
    struct bucket found;
    err = record_decode_bucket(name, meta_value_slice(value), &found);
    /* A bucket made again under the name is another one. */
    if (!err && found.id != bucket->id) err = ERR_NO_SUCH_BUCKET;
    if (!err) meta_batch_guard_equals(change->batch, META_BUCKETS, name, meta_value_slice(value));
    meta_value_unref(&value);
    return err;
}

int change_unlink_await(struct change *change, struct blob_ref ref) {
    if (ref.id == 0) return 0;
    if (change->count == change->capacity) {
        unsigned capacity = change->capacity ? 2 * change->capacity : 4;
        void *grown = realloc(change->unlinks, capacity * sizeof(change->unlinks[0]));
        if (!grown) return -ENOMEM;
        change->unlinks = grown;
        change->capacity = capacity;
    }
    struct blob_unlink *unlink = NULL;
    int err = blob_unlink_prepare_await(change->store->blobs, ref, change->batch, &unlink);
    if (!err && unlink) change->unlinks[change->count++] = unlink;
    return err;
}

int change_commit_await(struct change *change) {
    int err = meta_commit_await(change->store->meta, change->batch, change->store->durability);
    if (err) return err;
    for (unsigned i = 0; i < change->count; i++)
        blob_unlink_released(change->store->blobs, &change->unlinks[i]);
    change->count = 0;
    return 0;
}

void change_end(struct change *change) {
    for (unsigned i = 0; i < change->count; i++) blob_unlink_discard(&change->unlinks[i]);
    free(change->unlinks);
    if (change->batch) meta_batch_destroy(&change->batch);
    *change = (struct change){0};
}

bool change_surely_failed(int err) {
    return err == ERR_CONFLICT || err == ERR_STORAGE_FULL || err == -ENOMEM;
}

/* ---- objects */

static int check_condition(const struct object_condition *condition,
                           const struct object_record *old) {
    if (!condition) return 0;
    if (condition->if_none_match_any && old) return ERR_PRECONDITION_FAILED;
    if (!condition->if_match) return 0;
    if (!old) return ERR_NO_SUCH_KEY;
    if (!strcmp(condition->if_match, "*")) return 0;
    return slice_is(old->etag, condition->if_match) ? 0 : ERR_PRECONDITION_FAILED;
}

static int replace_old_await(struct change *change, struct slice key,
                             const struct object_condition *condition,
                             const struct meta_value *value) {
    struct object_record old;
    int err = record_decode_object(key, meta_value_slice(value), &old);
    if (!err) err = check_condition(condition, &old);
    if (err) return err;
    meta_batch_guard_equals(change->batch, META_OBJECTS, key, meta_value_slice(value));
    for (unsigned i = 0; !err && i < old.blob_count; i++)
        err = change_unlink_await(change, object_record_blob(&old, i));
    return err;
}

int change_replace_object_await(struct change *change, const struct bucket *bucket,
                                struct slice name, const struct object_condition *condition,
                                struct slice record, bool *nothing) {
    struct key key;
    key_object(&key, bucket->id, name);
    struct meta_value *value = NULL;
    int err = meta_get_await(change->store->meta, META_OBJECTS, key_slice(&key), &value);
    bool absent = err == ERR_NOT_FOUND;
    if (err && !absent) return err;
    err = absent ? check_condition(condition, NULL)
                 : replace_old_await(change, key_slice(&key), condition, value);
    meta_value_unref(&value);
    if (err) return err;

    *nothing = absent && record.size == 0;
    if (absent) meta_batch_guard_absent(change->batch, META_OBJECTS, key_slice(&key));
    if (record.size)
        meta_batch_put(change->batch, META_OBJECTS, key_slice(&key), record);
    else
        meta_batch_delete(change->batch, META_OBJECTS, key_slice(&key));
    return 0;
}
