/* Opening an object pins one version of it: everything about it comes from one immutable record,
 * and its bytes stay until it is closed. A reader joins the parts into one stream. */
#include <assert.h>
#include <stdlib.h>

#include "base/error.h"
#include "object/record.h"
#include "object/store.h"

/* How often an object may change between two looks at it before an opener gives up. */
#define OPEN_TRIES_MAX 1000

struct object {
    struct store *store;
    struct meta_value *value; /* what the record and the headers point into */
    struct object_record record;
    struct object_info info;
    uint64_t *part_ends; /* where each part ends in the object; NULL with fewer than two */
    struct object_header headers[];
};

/* ---- opening */

static void pin_blobs(const struct object *object) {
    for (unsigned i = 0; i < object->record.blob_count; i++)
        blob_pin(object->store->blobs, object_record_blob(&object->record, i).id);
}

static void unpin_blobs(const struct object *object) {
    for (unsigned i = 0; i < object->record.blob_count; i++)
        blob_unpin(object->store->blobs, object_record_blob(&object->record, i).id);
}

static int sum_parts(struct object *object) {
    unsigned count = object->record.blob_count;
    if (count < 2) return 0;
    object->part_ends = malloc(count * sizeof(uint64_t));
    if (!object->part_ends) return -ENOMEM;
    uint64_t end = 0;
    for (unsigned i = 0; i < count; i++) {
        end += object_record_blob(&object->record, i).size;
        object->part_ends[i] = end;
    }
    return 0;
}

static void describe(struct object *object) {
    const struct object_record *record = &object->record;
    record_unpack_headers(&record->headers, object->headers);
    object->info = (struct object_info){
        .size = record->size,
        .modified_ms = record->modified_ms,
        .checksum = record->checksum,
        .part_count = record->multipart ? record->blob_count : 0,
        .headers = object->headers,
        .header_count = record->headers.count,
    };
    memcpy(object->info.etag, record->etag.data, record->etag.size);
}

/* Takes over the reference on value, also on failure. */
static int create(struct store *store, struct slice key, struct meta_value *value,
                  struct object **result) {
    struct object_record record;
    int err = record_decode_object(key, meta_value_slice(value), &record);
    struct object *object = NULL;
    if (!err) {
        object = calloc(1, sizeof(*object) + record.headers.count * sizeof(struct object_header));
        if (!object) err = -ENOMEM;
    }
    if (err) {
        meta_value_unref(&value);
        return err;
    }
    object->store = store;
    object->value = value;
    object->record = record;
    describe(object);
    pin_blobs(object);
    *result = object;
    err = sum_parts(object);
    if (err) object_close(result);
    return err;
}

/* Between reading the record and pinning, the version may have been replaced and its space given
 * back. If the record is still there after pinning, the pins came in time. */
static int confirm_await(const struct object *object, struct slice key) {
    struct meta_value *now = NULL;
    int err = meta_get_await(object->store->meta, META_OBJECTS, key, &now);
    if (err) return err == ERR_NOT_FOUND ? ERR_CONFLICT : err;
    bool same =
        now == object->value || slice_equal(meta_value_slice(now), meta_value_slice(object->value));
    meta_value_unref(&now);
    return same ? 0 : ERR_CONFLICT;
}

static int try_open_await(struct store *store, struct slice key, struct object **object) {
    struct meta_value *value = NULL;
    int err = meta_get_await(store->meta, META_OBJECTS, key, &value);
    if (err) return err == ERR_NOT_FOUND ? ERR_NO_SUCH_KEY : err;
    err = create(store, key, value, object);
    if (err) return err;
    err = confirm_await(*object, key);
    if (err) object_close(object);
    return err;
}

int object_open_await(struct store *store, const struct bucket *bucket, struct slice name,
                      struct object **object) {
    *object = NULL;
    int err = key_check_name(name);
    if (err) return err;
    struct key key;
    key_object(&key, bucket->id, name);
    err = ERR_CONFLICT;
    for (unsigned i = 0; err == ERR_CONFLICT && i < OPEN_TRIES_MAX; i++)
        err = try_open_await(store, key_slice(&key), object);
    return err;
}

void object_close(struct object **result) {
    struct object *object = *result;
    *result = NULL;
    if (!object) return;
    unpin_blobs(object);
    meta_value_unref(&object->value);
    free(object->part_ends);
    free(object);
}

const struct object_info *object_info(const struct object *object) {
    return &object->info;
}

/* ---- parts */

static uint64_t part_end(const struct object *object, unsigned index) {
    return object->part_ends ? object->part_ends[index] : object->record.size;
}

static uint64_t part_start(const struct object *object, unsigned index) {
    return index ? part_end(object, index - 1) : 0;
}

int object_part_range(const struct object *object, unsigned number, uint64_t *offset,
                      uint64_t *size) {
    unsigned count = object->record.multipart ? object->record.blob_count : 1;
    if (number < 1 || number > count) return ERR_INVALID_PART;
    *offset = part_start(object, number - 1);
    *size = part_end(object, number - 1) - *offset;
    return 0;
}

/* The part that holds the byte at offset, which is inside the object. */
static unsigned find_part(const struct object *object, uint64_t offset) {
    unsigned low = 0, high = object->record.blob_count - 1;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (part_end(object, middle) > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* ---- reading */

struct object_reader {
    struct object *object;
    uint64_t position, end; /* what is left to open readers for */
    struct blob_reader *blob;
};

/* Open the part at the position, for as much of it as is wanted. */
static int open_part_await(struct object_reader *reader) {
    const struct object *object = reader->object;
    unsigned index = find_part(object, reader->position);
    uint64_t start = part_start(object, index), end = part_end(object, index);
    if (end > reader->end) end = reader->end;
    assert(start <= reader->position && reader->position < end);
    int err =
        blob_reader_open_await(object->store->blobs, object_record_blob(&object->record, index),
                               reader->position - start, end - reader->position, &reader->blob);
    if (!err) reader->position = end;
    /* The object is pinned: its bytes cannot have been deleted, so they are lost. */
    return err == ERR_NOT_FOUND ? ERR_STORE_CORRUPT : err;
}

int object_reader_open_await(struct object *object, uint64_t offset, uint64_t length,
                             struct object_reader **result) {
    if (offset > object->record.size || length > object->record.size - offset)
        return ERR_INVALID_RANGE;
    struct object_reader *reader = malloc(sizeof(*reader));
    if (!reader) return -ENOMEM;
    *reader = (struct object_reader){.object = object, .position = offset, .end = offset + length};
    /* The first part is opened now, so that a failure comes before the answer has begun. */
    int err = length ? open_part_await(reader) : 0;
    if (err) {
        object_reader_close_await(&reader);
        return err;
    }
    *result = reader;
    return 0;
}

int object_reader_next_await(struct object_reader *reader, struct block **blocks, unsigned max,
                             unsigned *count, uint32_t *offset, uint64_t *size) {
    *count = 0;
    *offset = 0;
    *size = 0;
    for (;;) {
        if (reader->blob) {
            int err = blob_reader_next_await(reader->blob, blocks, max, count, offset, size);
            if (err || *count) return err == ERR_NOT_FOUND ? ERR_STORE_CORRUPT : err;
            blob_reader_close_await(&reader->blob);
        }
        if (reader->position == reader->end) return 0;
        int err = open_part_await(reader);
        if (err) return err;
    }
}

void object_reader_close_await(struct object_reader **result) {
    struct object_reader *reader = *result;
    *result = NULL;
    if (!reader) return;
    blob_reader_close_await(&reader->blob);
    free(reader);
}
