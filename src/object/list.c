/* Listing objects. One cursor walks the bucket's keys in order; when keys share a common prefix it
 * jumps behind all of them, so a page costs what it shows and not what lies below. */
#include <stdlib.h>

#include "base/error.h"
#include "object/page.h"
#include "object/record.h"
#include "object/store.h"

struct list_walk {
    uint64_t bucket_id;
    const struct object_list_query *query;
    struct object_list *list;
    struct text bytes;
    unsigned capacity;
};

static int add_entry(struct list_walk *walk, struct object_list_entry entry) {
    struct object_list *list = walk->list;
    void *entries = list->entries;
    int err = page_grow(&entries, list->count, &walk->capacity, sizeof(entry));
    list->entries = entries;
    if (err) return err;
    entry.key = page_keep(&walk->bytes, entry.key);
    entry.etag = page_keep(&walk->bytes, entry.etag);
    list->entries[list->count++] = entry;
    return 0;
}

static int add_object(struct list_walk *walk, struct slice name, struct meta_cursor *cursor) {
    struct object_record record;
    int err = record_decode_object(meta_cursor_key(cursor), meta_cursor_value(cursor), &record);
    if (err) return err;
    return add_entry(walk, (struct object_list_entry){
                               .key = name,
                               .size = record.size,
                               .modified_ms = record.modified_ms,
                               .etag = record.etag,
                               .checksum = record.checksum,
                           });
}

/* The first key that may be shown: behind `after`, and behind all it stands for when it is itself a
 * common prefix; but not before the prefix asked for. */
static void seek_start(const struct list_walk *walk, struct meta_cursor *cursor) {
    const struct object_list_query *query = walk->query;
    struct slice after = query->after;
    struct key start, prefix;
    key_object(&prefix, walk->bucket_id, query->prefix);
    /* No name is longer than the limit, so of a longer `after` only that much decides. */
    if (after.size > OBJECT_KEY_MAX) after.size = OBJECT_KEY_MAX;
    key_object(&start, walk->bucket_id, after);
    if (after.size) {
        struct slice group = slice_starts_with(after, query->prefix)
                                 ? key_common_prefix(after, query->prefix, query->delimiter)
                                 : (struct slice){0};
        if (group.size == after.size)
            key_skip_prefix(&start);
        else
            key_step(&start);
    }
    bool earlier = slice_compare(key_slice(&start), key_slice(&prefix)) < 0;
    meta_cursor_seek(cursor, key_slice(earlier ? &prefix : &start));
}

static int add_and_move(struct list_walk *walk, struct slice name, struct meta_cursor *cursor) {
    struct slice group = key_common_prefix(name, walk->query->prefix, walk->query->delimiter);
    if (group.size == 0) {
        int err = add_object(walk, name, cursor);
        meta_cursor_next(cursor);
        return err;
    }
    struct key key;
    key_object(&key, walk->bucket_id, group);
    key_skip_prefix(&key);
    int err = add_entry(walk, (struct object_list_entry){.key = group, .is_prefix = true});
    meta_cursor_seek(cursor, key_slice(&key));
    return err;
}

static int walk_objects(struct meta_cursor *cursor, void *arg) {
    struct list_walk *walk = arg;
    struct key start;
    key_object(&start, walk->bucket_id, walk->query->prefix);
    seek_start(walk, cursor);
    while (meta_cursor_valid(cursor)) {
        struct slice key = meta_cursor_key(cursor);
        if (!slice_starts_with(key, key_slice(&start))) break;
        struct slice name = {key.data + KEY_BUCKET_SIZE, key.size - KEY_BUCKET_SIZE};
        if (name.size > OBJECT_KEY_MAX) return ERR_STORE_CORRUPT;
        if (walk->list->count == walk->query->max) {
            walk->list->truncated = true;
            break;
        }
        int err = add_and_move(walk, name, cursor);
        if (err) return err;
    }
    return 0;
}

static void resolve(struct list_walk *walk) {
    struct object_list *list = walk->list;
    for (unsigned i = 0; i < list->count; i++) {
        page_resolve(&walk->bytes, &list->entries[i].key);
        page_resolve(&walk->bytes, &list->entries[i].etag);
    }
    if (list->truncated) list->next = list->entries[list->count - 1].key;
    list->memory = walk->bytes.data;
}

int object_list_await(struct store *store, const struct bucket *bucket,
                      const struct object_list_query *query, struct object_list *list) {
    *list = (struct object_list){0};
    if (query->max == 0 || query->prefix.size > OBJECT_KEY_MAX) return 0;
    struct list_walk walk = {.bucket_id = bucket->id, .query = query, .list = list};
    int err = meta_scan_await(store->meta, META_OBJECTS, walk_objects, &walk);
    if (!err && walk.bytes.failed) err = -ENOMEM;
    if (err) {
        text_deinit(&walk.bytes);
        object_list_deinit(list);
        return err;
    }
    resolve(&walk);
    return 0;
}

void object_list_deinit(struct object_list *list) {
    free(list->entries);
    free(list->memory);
    *list = (struct object_list){0};
}
