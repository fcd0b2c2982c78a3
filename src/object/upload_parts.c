/* The parts of an upload: read in one scan, listed, and removed together with it. */
#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "object/page.h"
#include "object/upload.h"

struct parts_walk {
    const struct upload *upload;
    unsigned after, max;
    struct parts *parts;
};

static int add_part(struct parts *parts, struct meta_cursor *cursor) {
    void *list = parts->list;
    int err = page_grow(&list, parts->count, &parts->capacity, sizeof(parts->list[0]));
    parts->list = list;
    if (err) return err;
    struct stored_part *part = &parts->list[parts->count];
    err = record_decode_part(meta_cursor_key(cursor), meta_cursor_value(cursor), &part->info,
                             &part->blob_id);
    if (err) return err;
    part->record = page_keep(&parts->bytes, meta_cursor_value(cursor));
    parts->count++;
    return 0;
}

static int walk_parts(struct meta_cursor *cursor, void *arg) {
    const struct parts_walk *walk = arg;
    struct slice id = {(const char *)walk->upload->id, UPLOAD_ID_BYTES};
    struct key start;
    key_part(&start, walk->upload->id, walk->after + 1);
    meta_cursor_seek(cursor, key_slice(&start));
    for (; meta_cursor_valid(cursor); meta_cursor_next(cursor)) {
        if (!slice_starts_with(meta_cursor_key(cursor), id)) break;
        if (walk->parts->count == walk->max) {
            walk->parts->truncated = true;
            break;
        }
        int err = add_part(walk->parts, cursor);
        if (err) return err;
    }
    return 0;
}

int parts_load_await(const struct upload *upload, unsigned after, unsigned max,
                     struct parts *parts) {
    if (after >= OBJECT_PARTS_MAX || max == 0) return 0;
    struct parts_walk walk = {.upload = upload, .after = after, .max = max, .parts = parts};
    int err = meta_scan_await(upload->store->meta, META_PARTS, walk_parts, &walk);
    if (!err && parts->bytes.failed) err = -ENOMEM;
    if (err) return err;
    for (unsigned i = 0; i < parts->count; i++) page_resolve(&parts->bytes, &parts->list[i].record);
    return 0;
}

void parts_deinit(struct parts *parts) {
    free(parts->list);
    text_deinit(&parts->bytes);
    *parts = (struct parts){0};
}

int upload_list_parts_await(struct store *store, struct upload *upload, unsigned after,
                            unsigned max, struct part_info **result, size_t *count,
                            bool *truncated) {
    *result = NULL;
    *count = 0;
    *truncated = false;
    struct parts parts = {0};
    int err = parts_load_await(upload, after, max, &parts);
    if (!err && parts.count) {
        *result = malloc(parts.count * sizeof(struct part_info));
        if (!*result) err = -ENOMEM;
    }
    if (!err) {
        for (unsigned i = 0; i < parts.count; i++) (*result)[i] = parts.list[i].info;
        *count = parts.count;
        *truncated = parts.truncated;
    }
    parts_deinit(&parts);
    return err;
}

static void guard_no_part_between(const struct upload *upload, unsigned first, unsigned end,
                                  struct change *change) {
    if (first >= end) return;
    struct key from, to;
    key_part(&from, upload->id, first);
    key_part(&to, upload->id, end);
    meta_batch_guard_empty(change->batch, META_PARTS, key_slice(&from), key_slice(&to));
}

void upload_remove(const struct upload *upload, const struct parts *parts, struct change *change) {
    assert(!parts->truncated);
    meta_batch_guard_present(change->batch, META_UPLOADS, key_slice(&upload->key));
    meta_batch_delete(change->batch, META_UPLOADS, key_slice(&upload->key));
    unsigned next = 1;
    for (unsigned i = 0; i < parts->count; i++) {
        const struct stored_part *part = &parts->list[i];
        struct key key;
        key_part(&key, upload->id, part->info.number);
        guard_no_part_between(upload, next, part->info.number, change);
        meta_batch_guard_equals(change->batch, META_PARTS, key_slice(&key), part->record);
        meta_batch_delete(change->batch, META_PARTS, key_slice(&key));
        next = part->info.number + 1;
    }
    guard_no_part_between(upload, next, OBJECT_PARTS_MAX + 1, change);
}
