/* Listing the uploads in progress of a bucket, by name and then by age: an id begins with the time
 * of its creation. */
#include <stdlib.h>

#include "base/encode.h"
#include "base/error.h"
#include "object/page.h"
#include "object/record.h"
#include "object/store.h"

struct upload_walk {
    uint64_t bucket_id;
    const struct upload_list_query *query;
    struct upload_list *list;
    struct text bytes;
    unsigned capacity;
    struct key prefix; /* every key shown begins with it */
    struct key start;  /* the first key that may be shown */
};

static int add_entry(struct upload_walk *walk, struct upload_list_entry entry) {
    struct upload_list *list = walk->list;
    void *entries = list->entries;
    int err = page_grow(&entries, list->count, &walk->capacity, sizeof(entry));
    list->entries = entries;
    if (err) return err;
    entry.key = page_keep(&walk->bytes, entry.key);
    list->entries[list->count++] = entry;
    return 0;
}

static int add_upload(struct upload_walk *walk, struct slice name, const uint8_t *id,
                      struct meta_cursor *cursor) {
    struct upload_record record;
    int err = record_decode_upload(meta_cursor_key(cursor), meta_cursor_value(cursor), &record);
    if (err) return err;
    struct upload_list_entry entry = {.key = name, .created_ms = record.created_ms};
    hex_encode(id, UPLOAD_ID_BYTES, entry.id);
    return add_entry(walk, entry);
}

static int add_and_move(struct upload_walk *walk, struct slice name, const uint8_t *id,
                        struct meta_cursor *cursor) {
    struct slice group = key_common_prefix(name, walk->query->prefix, walk->query->delimiter);
    if (group.size == 0) {
        int err = add_upload(walk, name, id, cursor);
        meta_cursor_next(cursor);
        return err;
    }
    struct key key;
    int err = key_upload_start(&key, walk->bucket_id, group, false);
    if (err) return ERR_STORE_CORRUPT; /* part of a key that is there cannot be too long */
    key_skip_prefix(&key);
    err = add_entry(walk, (struct upload_list_entry){.key = group, .is_prefix = true});
    meta_cursor_seek(cursor, key_slice(&key));
    return err;
}

static int walk_uploads(struct meta_cursor *cursor, void *arg) {
    struct upload_walk *walk = arg;
    meta_cursor_seek(cursor, key_slice(&walk->start));
    while (meta_cursor_valid(cursor)) {
        struct slice key = meta_cursor_key(cursor);
        if (!slice_starts_with(key, key_slice(&walk->prefix))) break;
        char name[OBJECT_KEY_MAX];
        uint8_t id[UPLOAD_ID_BYTES];
        size_t size;
        if (!key_parse_upload(key, name, &size, id)) return ERR_STORE_CORRUPT;
        if (walk->list->count == walk->query->max) {
            walk->list->truncated = true;
            break;
        }
        int err = add_and_move(walk, (struct slice){name, size}, id, cursor);
        if (err) return err;
    }
    return 0;
}

/* Behind the upload that the markers name; with no id, behind all uploads of the key; with a common
 * prefix, behind all it stands for. */
static int start_after_markers(struct upload_walk *walk) {
    const struct upload_list_query *query = walk->query;
    struct slice marker = query->key_marker;
    if (marker.size > OBJECT_KEY_MAX) marker.size = OBJECT_KEY_MAX;
    bool inside = slice_starts_with(marker, query->prefix);
    struct slice group = {0};
    if (inside) group = key_common_prefix(marker, query->prefix, query->delimiter);
    if (group.size == marker.size) {
        int err = key_upload_start(&walk->start, walk->bucket_id, marker, false);
        if (!err) key_skip_prefix(&walk->start);
        return err;
    }
    if (query->upload_id_marker.size == 0) {
        int err = key_upload_start(&walk->start, walk->bucket_id, marker, true);
        if (!err) key_skip_prefix(&walk->start);
        return err;
    }
    uint8_t id[UPLOAD_ID_BYTES];
    if (!key_parse_upload_id(query->upload_id_marker, id)) return ERR_INVALID_ARGUMENT;
    int err = key_upload(&walk->start, walk->bucket_id, marker, id);
    if (!err) key_step(&walk->start);
    return err;
}

static int prepare(struct upload_walk *walk) {
    int err = key_upload_start(&walk->prefix, walk->bucket_id, walk->query->prefix, false);
    if (err) return err;
    walk->start = walk->prefix;
    if (walk->query->key_marker.size == 0) return 0; /* an id alone means nothing */
    err = start_after_markers(walk);
    if (!err && slice_compare(key_slice(&walk->start), key_slice(&walk->prefix)) < 0)
        walk->start = walk->prefix;
    return err;
}

static void resolve(struct upload_walk *walk) {
    struct upload_list *list = walk->list;
    for (unsigned i = 0; i < list->count; i++) page_resolve(&walk->bytes, &list->entries[i].key);
    list->memory = walk->bytes.data;
    if (!list->truncated) return;
    const struct upload_list_entry *last = &list->entries[list->count - 1];
    list->next_key = last->key;
    memcpy(list->next_upload_id, last->id, sizeof(last->id));
}

int upload_list_await(struct store *store, const struct bucket *bucket,
                      const struct upload_list_query *query, struct upload_list *list) {
    *list = (struct upload_list){0};
    if (query->max == 0 || query->prefix.size > OBJECT_KEY_MAX) return 0;
    struct upload_walk walk = {.bucket_id = bucket->id, .query = query, .list = list};
    int err = prepare(&walk);
    if (!err) err = meta_scan_await(store->meta, META_UPLOADS, walk_uploads, &walk);
    if (!err && walk.bytes.failed) err = -ENOMEM;
    if (err) {
        text_deinit(&walk.bytes);
        upload_list_deinit(list);
        return err;
    }
    resolve(&walk);
    return 0;
}

void upload_list_deinit(struct upload_list *list) {
    free(list->entries);
    free(list->memory);
    *list = (struct upload_list){0};
}
