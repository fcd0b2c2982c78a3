/* The offline check of a whole store. The records of this layer say which blobs there must be;
 * blob/ says which there are. It goes on after a finding and changes nothing. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/encode.h"
#include "base/error.h"
#include "object/record.h"
#include "object/store.h"

#define FINDING_MAX 1400
#define NAME_SHOWN  1024

struct reference {
    uint64_t id, size;
    bool found;
};

/* A growing array of one kind of thing, sorted before it is searched. */
struct array {
    char *data;
    size_t count, capacity, item;
};

struct fsck {
    blob_report_fn *report;
    void *ctx;
    uint64_t findings;
    struct array buckets;    /* ids: uint64_t */
    struct array uploads;    /* ids: UPLOAD_ID_BYTES */
    struct array references; /* struct reference */
    uint64_t next_bucket_id;
    bool naming; /* second pass: only name the owners of data that is not there */
};

/* Also what blob/ reports to, so that its findings are counted with the rest. */
static void count_and_report(void *ctx, const char *line) {
    struct fsck *fsck = ctx;
    fsck->findings++;
    fsck->report(fsck->ctx, line);
}

__attribute__((format(printf, 2, 3))) static void finding(struct fsck *fsck, const char *format,
                                                          ...) {
    char line[FINDING_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    count_and_report(fsck, line);
}

/* ---- arrays */

static int array_add(struct array *array, const void *item) {
    if (array->count == array->capacity) {
        size_t capacity = array->capacity ? 2 * array->capacity : 256;
        char *grown = realloc(array->data, capacity * array->item);
        if (!grown) return -ENOMEM;
        array->data = grown;
        array->capacity = capacity;
    }
    memcpy(array->data + array->count++ * array->item, item, array->item);
    return 0;
}

static int compare_numbers(const void *a, const void *b) {
    uint64_t x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

static int compare_upload_ids(const void *a, const void *b) {
    return memcmp(a, b, UPLOAD_ID_BYTES);
}

/* References begin with their id, so one order serves both. */
static void array_sort(struct array *array, int (*compare)(const void *, const void *)) {
    if (array->count) qsort(array->data, array->count, array->item, compare);
}

static void *array_find(const struct array *array, const void *item,
                        int (*compare)(const void *, const void *)) {
    if (!array->count) return NULL;
    return bsearch(item, array->data, array->count, array->item, compare);
}

/* ---- records. Names may hold anything: what is shown of them is printable. */

struct shown_name {
    char text[NAME_SHOWN + 1];
};

static const char *show(struct slice name, struct shown_name *shown) {
    size_t size = name.size < NAME_SHOWN ? name.size : NAME_SHOWN;
    for (size_t i = 0; i < size; i++)
        shown->text[i] = (unsigned char)name.data[i] < ' ' ? '?' : name.data[i];
    shown->text[size] = 0;
    return shown->text;
}

static int check_bucket(struct fsck *fsck, struct slice key, struct slice value) {
    struct shown_name shown;
    struct bucket bucket;
    int err = record_decode_bucket(key, value, &bucket);
    if (err) {
        finding(fsck, "bucket \"%s\": the record cannot be read: %s", show(key, &shown),
                error_text(err));
        return 0;
    }
    if (bucket.id >= fsck->next_bucket_id)
        finding(fsck, "bucket \"%s\": id %" PRIu64 " was never handed out and may be used again",
                show(key, &shown), bucket.id);
    return array_add(&fsck->buckets, &bucket.id);
}

static void check_bucket_of(struct fsck *fsck, struct slice key, const char *what,
                            const char *name) {
    uint64_t id = key_bucket_id(key);
    if (!array_find(&fsck->buckets, &id, compare_numbers))
        finding(fsck, "%s \"%s\" is in bucket %" PRIu64 ", which is not there", what, name, id);
}

static int refer(struct fsck *fsck, struct blob_ref ref, const char *what, const char *name) {
    if (ref.id == 0) return 0;
    struct reference reference = {.id = ref.id, .size = ref.size};
    if (!fsck->naming) return array_add(&fsck->references, &reference);
    const struct reference *known = array_find(&fsck->references, &ref.id, compare_numbers);
    if (known && !known->found)
        finding(fsck, "%s \"%s\": data %" PRIu64 " (%" PRIu64 " bytes) is missing or incomplete",
                what, name, ref.id, ref.size);
    return 0;
}

static int check_object(struct fsck *fsck, struct slice key, struct slice value) {
    if (key.size <= KEY_BUCKET_SIZE) {
        if (!fsck->naming) finding(fsck, "an object record has a key of %zu bytes", key.size);
        return 0;
    }
    struct shown_name shown;
    const char *name =
        show((struct slice){key.data + KEY_BUCKET_SIZE, key.size - KEY_BUCKET_SIZE}, &shown);
    if (!fsck->naming) check_bucket_of(fsck, key, "object", name);
    struct object_record record;
    int err = record_decode_object(key, value, &record);
    if (err && fsck->naming) return 0;
    if (err) {
        finding(fsck, "object \"%s\": the record cannot be read: %s", name, error_text(err));
        return 0;
    }
    for (unsigned i = 0; !err && i < record.blob_count; i++)
        err = refer(fsck, object_record_blob(&record, i), "object", name);
    return err;
}

static int check_upload(struct fsck *fsck, struct slice key, struct slice value) {
    char name[OBJECT_KEY_MAX];
    size_t size;
    uint8_t id[UPLOAD_ID_BYTES];
    if (!key_parse_upload(key, name, &size, id)) {
        finding(fsck, "an upload record has a key of %zu bytes that cannot be understood",
                key.size);
        return 0;
    }
    struct shown_name shown;
    show((struct slice){name, size}, &shown);
    check_bucket_of(fsck, key, "the upload of", shown.text);
    struct upload_record record;
    int err = record_decode_upload(key, value, &record);
    if (err)
        finding(fsck, "the upload of \"%s\": the record cannot be read: %s", shown.text,
                error_text(err));
    return array_add(&fsck->uploads, id);
}

static int check_part(struct fsck *fsck, struct slice key, struct slice value) {
    if (key.size != KEY_PART_SIZE) {
        if (!fsck->naming) finding(fsck, "a part record has a key of %zu bytes", key.size);
        return 0;
    }
    char name[UPLOAD_ID_SIZE + 16];
    hex_encode(key.data, UPLOAD_ID_BYTES, name);
    snprintf(name + UPLOAD_ID_SIZE, sizeof(name) - UPLOAD_ID_SIZE, ", %u", key_part_number(key));
    if (!fsck->naming && !array_find(&fsck->uploads, key.data, compare_upload_ids))
        finding(fsck, "part \"%s\" belongs to no upload", name);
    struct part_info part;
    uint64_t blob_id;
    int err = record_decode_part(key, value, &part, &blob_id);
    if (err && fsck->naming) return 0;
    if (err) {
        finding(fsck, "part \"%s\": the record cannot be read: %s", name, error_text(err));
        return 0;
    }
    return refer(fsck, (struct blob_ref){blob_id, part.size}, "part", name);
}

/* ---- walking */

struct walk {
    struct fsck *fsck;
    int (*check)(struct fsck *fsck, struct slice key, struct slice value);
};

static int walk_space(struct meta_cursor *cursor, void *arg) {
    const struct walk *walk = arg;
    meta_cursor_seek(cursor, (struct slice){"", 0});
    for (; meta_cursor_valid(cursor); meta_cursor_next(cursor)) {
        int err = walk->check(walk->fsck, meta_cursor_key(cursor), meta_cursor_value(cursor));
        if (err) return err;
    }
    return 0;
}

static int check_space(struct fsck *fsck, struct meta *meta, enum meta_space space,
                       int (*check)(struct fsck *, struct slice, struct slice)) {
    struct walk walk = {fsck, check};
    return meta_scan_blocking(meta, space, walk_space, &walk);
}

static int read_next_bucket_id(struct meta_cursor *cursor, void *arg) {
    struct fsck *fsck = arg;
    const struct slice key = STORE_NEXT_BUCKET_KEY;
    fsck->next_bucket_id = 1;
    meta_cursor_seek(cursor, key);
    if (!meta_cursor_valid(cursor) || !slice_equal(meta_cursor_key(cursor), key)) return 0;
    if (record_decode_counter(key, meta_cursor_value(cursor), &fsck->next_bucket_id))
        finding(fsck, "the counter of bucket ids cannot be read");
    return 0;
}

static int check_records(struct fsck *fsck, struct meta *meta) {
    int err = meta_scan_blocking(meta, META_SYSTEM, read_next_bucket_id, fsck);
    if (!err) err = check_space(fsck, meta, META_BUCKETS, check_bucket);
    array_sort(&fsck->buckets, compare_numbers);
    for (size_t i = 1; i < fsck->buckets.count; i++) {
        const uint64_t *ids = (const uint64_t *)(const void *)fsck->buckets.data;
        if (ids[i] == ids[i - 1]) finding(fsck, "two buckets have id %" PRIu64, ids[i]);
    }
    if (!err) err = check_space(fsck, meta, META_OBJECTS, check_object);
    if (!err) err = check_space(fsck, meta, META_UPLOADS, check_upload);
    array_sort(&fsck->uploads, compare_upload_ids);
    if (!err) err = check_space(fsck, meta, META_PARTS, check_part);
    return err;
}

/* ---- data */

static void check_owned_once(struct fsck *fsck) {
    array_sort(&fsck->references, compare_numbers);
    const struct reference *list = (const struct reference *)(const void *)fsck->references.data;
    for (size_t i = 1; i < fsck->references.count; i++)
        if (list[i].id == list[i - 1].id)
            finding(fsck, "data %" PRIu64 " belongs to more than one object or part", list[i].id);
}

static bool is_owned(void *ctx, uint64_t id, uint64_t bytes) {
    struct fsck *fsck = ctx;
    struct reference *known = array_find(&fsck->references, &id, compare_numbers);
    if (known && known->size == bytes) known->found = true;
    return known != NULL;
}

static int name_missing(struct fsck *fsck, struct meta *meta) {
    bool all = true;
    const struct reference *list = (const struct reference *)(const void *)fsck->references.data;
    for (size_t i = 0; i < fsck->references.count; i++) all = all && list[i].found;
    if (all) return 0;
    /* Records that cannot be read have had their finding already, and are not asked for data. */
    uint64_t before = fsck->findings;
    fsck->naming = true;
    int err = check_space(fsck, meta, META_OBJECTS, check_object);
    if (!err) err = check_space(fsck, meta, META_PARTS, check_part);
    if (!err && fsck->findings == before) finding(fsck, "data is missing or incomplete");
    return err;
}

static int check_all(struct fsck *fsck, struct meta *meta, const char *volume_path,
                     bool verify_data) {
    int err = store_check_format(meta);
    if (err == ERR_NOT_FOUND) {
        finding(fsck, "the metadata has no format record");
        err = 0;
    }
    if (!err) err = check_records(fsck, meta);
    if (err) return err;
    check_owned_once(fsck);
    err = blob_fsck(volume_path, meta, verify_data, is_owned, count_and_report, fsck, NULL);
    return err ? err : name_missing(fsck, meta);
}

int store_fsck(struct meta *meta, const char *volume_path, bool verify_data, blob_report_fn *report,
               void *ctx, uint64_t *findings) {
    struct fsck fsck = {
        .report = report,
        .ctx = ctx,
        .buckets = {.item = sizeof(uint64_t)},
        .uploads = {.item = UPLOAD_ID_BYTES},
        .references = {.item = sizeof(struct reference)},
    };
    int err = check_all(&fsck, meta, volume_path, verify_data);
    *findings = fsck.findings;
    free(fsck.buckets.data);
    free(fsck.uploads.data);
    free(fsck.references.data);
    return err;
}
