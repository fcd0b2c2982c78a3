/* Buckets: made, looked up, listed and deleted. A bucket's id, not its name, is in front of the
 * keys of what it holds, and an id is never given out twice: whatever still refers to a deleted
 * bucket fails on its guard, even when the name is back. */
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "object/change.h"
#include "object/record.h"
#include "runtime/fiber.h"

/* ---- making */

/* Take the next id in the same commit that makes the bucket. */
static int take_id_await(struct change *change, uint64_t *id) {
    const struct slice key = STORE_NEXT_BUCKET_KEY;
    struct meta_value *value = NULL;
    int err = meta_get_await(change->store->meta, META_SYSTEM, key, &value);
    if (err == ERR_NOT_FOUND) {
        *id = 1;
        meta_batch_guard_absent(change->batch, META_SYSTEM, key);
        err = 0;
    } else if (!err) {
        err = record_decode_counter(key, meta_value_slice(value), id);
        meta_batch_guard_equals(change->batch, META_SYSTEM, key, meta_value_slice(value));
    }
    meta_value_unref(&value);
    if (err) return err;
    struct text record _cleanup_text_ = {0};
    record_encode_counter(&record, key, *id + 1);
    if (record.failed) return -ENOMEM;
    meta_batch_put(change->batch, META_SYSTEM, key, text_slice(&record));
    return 0;
}

static int add_bucket_await(struct change *change, struct bucket *bucket) {
    int err = take_id_await(change, &bucket->id);
    if (err) return err;
    struct text record _cleanup_text_ = {0};
    record_encode_bucket(&record, bucket);
    if (record.failed) return -ENOMEM;
    meta_batch_guard_absent(change->batch, META_BUCKETS, slice_of(bucket->name));
    meta_batch_put(change->batch, META_BUCKETS, slice_of(bucket->name), text_slice(&record));
    return change_commit_await(change);
}

static int try_create_await(struct store *store, struct bucket *bucket) {
    struct bucket existing;
    int err = bucket_get_await(store, slice_of(bucket->name), &existing);
    if (err != ERR_NO_SUCH_BUCKET) return err ? err : ERR_BUCKET_ALREADY_OWNED;
    struct change change;
    err = change_begin(&change, store);
    if (!err) err = add_bucket_await(&change, bucket);
    change_end(&change);
    return err;
}

int bucket_create_await(struct store *store, struct slice name, const char *region) {
    struct slice where = slice_of(region);
    struct bucket bucket = {.created_ms = clock_wall_ms()};
    if (!bucket_name_valid(name)) return ERR_INVALID_BUCKET_NAME;
    if (where.size >= sizeof(bucket.region)) return ERR_INVALID_LOCATION;
    memcpy(bucket.name, name.data, name.size);
    if (where.size) memcpy(bucket.region, where.data, where.size);
    int err = ERR_CONFLICT;
    for (unsigned i = 0; err == ERR_CONFLICT && i < STORE_TRIES_MAX; i++) {
        if (i) fiber_yield_await();
        err = try_create_await(store, &bucket);
    }
    return err;
}

/* ---- looking up */

int bucket_get_await(struct store *store, struct slice name, struct bucket *bucket) {
    if (name.size == 0 || name.size > BUCKET_NAME_MAX) return ERR_NO_SUCH_BUCKET;
    struct meta_value *value = NULL;
    int err = meta_get_await(store->meta, META_BUCKETS, name, &value);
    if (err) return err == ERR_NOT_FOUND ? ERR_NO_SUCH_BUCKET : err;
    err = record_decode_bucket(name, meta_value_slice(value), bucket);
    meta_value_unref(&value);
    return err;
}

struct bucket_scan {
    struct bucket *buckets;
    size_t count, capacity;
};

static int scan_buckets(struct meta_cursor *cursor, void *arg) {
    struct bucket_scan *scan = arg;
    meta_cursor_seek(cursor, (struct slice){"", 0});
    for (; meta_cursor_valid(cursor); meta_cursor_next(cursor)) {
        if (scan->count == scan->capacity) {
            size_t capacity = scan->capacity ? 2 * scan->capacity : 16;
            void *grown = realloc(scan->buckets, capacity * sizeof(struct bucket));
            if (!grown) return -ENOMEM;
            scan->buckets = grown;
            scan->capacity = capacity;
        }
        int err = record_decode_bucket(meta_cursor_key(cursor), meta_cursor_value(cursor),
                                       &scan->buckets[scan->count]);
        if (err) return err;
        scan->count++;
    }
    return 0;
}

int bucket_list_await(struct store *store, struct bucket **buckets, size_t *count) {
    struct bucket_scan scan = {0};
    *buckets = NULL;
    *count = 0;
    int err = meta_scan_await(store->meta, META_BUCKETS, scan_buckets, &scan);
    if (err) {
        free(scan.buckets);
        return err;
    }
    *buckets = scan.buckets;
    *count = scan.count;
    return 0;
}

/* ---- deleting */

struct range {
    struct key start, end;
};

static int refuse_content(struct meta_cursor *cursor, void *arg) {
    const struct range *range = arg;
    meta_cursor_seek(cursor, key_slice(&range->start));
    bool found = meta_cursor_valid(cursor) &&
                 slice_compare(meta_cursor_key(cursor), key_slice(&range->end)) < 0;
    return found ? ERR_BUCKET_NOT_EMPTY : 0;
}

/* Look first, so that a conflict later only means that something came in between. */
static int guard_empty_await(struct change *change, enum meta_space space, struct range *range) {
    int err = meta_scan_await(change->store->meta, space, refuse_content, range);
    if (!err)
        meta_batch_guard_empty(change->batch, space, key_slice(&range->start),
                               key_slice(&range->end));
    return err;
}

static int remove_bucket_await(struct change *change, const struct bucket *bucket) {
    struct range range;
    key_bucket_range(bucket->id, &range.start, &range.end);
    int err = change_guard_bucket_await(change, bucket);
    if (!err) err = guard_empty_await(change, META_OBJECTS, &range);
    if (!err) err = guard_empty_await(change, META_UPLOADS, &range);
    if (err) return err;
    meta_batch_delete(change->batch, META_BUCKETS, slice_of(bucket->name));
    return change_commit_await(change);
}

static int try_delete_await(struct store *store, struct slice name) {
    struct bucket bucket;
    int err = bucket_get_await(store, name, &bucket);
    if (err) return err;
    struct change change;
    err = change_begin(&change, store);
    if (!err) err = remove_bucket_await(&change, &bucket);
    change_end(&change);
    return err;
}

int bucket_delete_await(struct store *store, struct slice name) {
    int err = ERR_CONFLICT;
    for (unsigned i = 0; err == ERR_CONFLICT && i < STORE_TRIES_MAX; i++) {
        if (i) fiber_yield_await();
        err = try_delete_await(store, name);
    }
    return err;
}
