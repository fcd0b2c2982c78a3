/* The offline check of a volume against its records. It trusts nothing that the running store
 * derives, changes nothing, and goes on after a finding, so that one run shows all there is. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/checksum.h"
#include "base/error.h"
#include "blob/ids.h"
#include "blob/segment.h"
#include "blob/volumes/allocator.h"
#include "blob/volumes/device.h"
#include "blob/volumes/superblock.h"

#define FINDING_MAX 256

struct used {
    struct extent extent;
    uint64_t id;
};

struct fsck {
    struct device *device;
    struct meta *meta;
    bool verify_data;
    blob_owned_fn *owned;
    blob_report_fn *report;
    void *ctx;
    uint8_t *buffer; /* one segment */
    struct used *used;
    size_t count, capacity;
    uint64_t bytes_used;
    uint64_t id_bound;   /* no id at or beyond it was ever handed out */
    uint64_t id, next;   /* of the blob being walked, and where its next segment must begin */
    uint64_t blob_bytes; /* of it, so far */
    bool walking;
};

__attribute__((format(printf, 2, 3))) static void finding(struct fsck *fsck, const char *format,
                                                          ...) {
    char line[FINDING_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    fsck->report(fsck->ctx, line);
}

static void check_id(struct fsck *fsck, uint64_t id, uint64_t bytes, const char *what) {
    if (id == 0 || id >= fsck->id_bound)
        finding(fsck, "%s: data id %" PRIu64 " was never handed out and may be used again", what,
                id);
    if (!fsck->owned(fsck->ctx, id, bytes))
        finding(fsck, "%s: data %" PRIu64 " belongs to no object, part or upload", what, id);
}

/* ---- segments */

static int note_used(struct fsck *fsck, const struct segment *segment) {
    if (fsck->count == fsck->capacity) {
        size_t capacity = fsck->capacity ? 2 * fsck->capacity : 1024;
        void *grown = realloc(fsck->used, capacity * sizeof(struct used));
        if (!grown) return -ENOMEM;
        fsck->used = grown;
        fsck->capacity = capacity;
    }
    fsck->used[fsck->count++] = (struct used){
        .extent = {segment->device_offset, segment_device_size(segment)},
        .id = segment->id,
    };
    return 0;
}

/* All segments of one blob have been seen. */
static void end_blob(struct fsck *fsck) {
    if (fsck->walking) check_id(fsck, fsck->id, fsck->blob_bytes, "segment");
    fsck->walking = false;
}

static void check_order(struct fsck *fsck, const struct segment *segment) {
    if (!fsck->walking || segment->id != fsck->id) {
        end_blob(fsck);
        fsck->walking = true;
        fsck->id = segment->id;
        fsck->next = 0;
        fsck->blob_bytes = 0;
    }
    fsck->blob_bytes += segment->length;
    if (segment->length == 0) {
        fsck->next = UINT64_MAX; /* cannot be judged after a record that cannot be read */
        return;
    }
    if (fsck->next != UINT64_MAX && segment->blob_offset != fsck->next)
        finding(fsck,
                "data %" PRIu64 ": a segment begins at %" PRIu64 " where %" PRIu64 " was expected",
                segment->id, segment->blob_offset, fsck->next);
    fsck->next = segment->blob_offset + segment->length;
}

static bool check_place(struct fsck *fsck, const struct segment *segment) {
    uint64_t size = segment_device_size(segment), end = fsck->device->size;
    bool inside = segment->volume == 0 && segment->device_offset >= SUPERBLOCK_AREA &&
                  segment->device_offset <= end && size <= end - segment->device_offset;
    if (!inside)
        finding(fsck,
                "data %" PRIu64 ", offset %" PRIu64 ": %" PRIu64 " bytes at %" PRIu64
                " of volume %u lie outside the volume",
                segment->id, segment->blob_offset, size, segment->device_offset, segment->volume);
    return inside;
}

static void check_bytes(struct fsck *fsck, const struct segment *segment) {
    int err = device_read_blocking(fsck->device, fsck->buffer,
                                   (uint32_t)segment_device_size(segment), segment->device_offset);
    if (err) {
        finding(fsck, "data %" PRIu64 ", offset %" PRIu64 ": cannot be read: %s", segment->id,
                segment->blob_offset, error_text(err));
        return;
    }
    for (unsigned i = 0; i < segment_units(segment); i++) {
        uint32_t left = segment->length - i * SEGMENT_UNIT;
        uint32_t size = left < SEGMENT_UNIT ? left : SEGMENT_UNIT;
        if (checksum_crc32c(0, fsck->buffer + i * SEGMENT_UNIT, size) != segment->crcs[i])
            finding(fsck, "data %" PRIu64 ", offset %" PRIu64 ": bytes do not match their checksum",
                    segment->id, segment->blob_offset + i * SEGMENT_UNIT);
    }
}

static int check_segment(struct fsck *fsck, struct slice key, struct slice value) {
    struct segment segment = {0};
    int err = segment_decode(key, value, &segment);
    if (key.size != SEGMENT_KEY_SIZE) {
        finding(fsck, "a segment record has a key of %zu bytes", key.size);
        return 0;
    }
    if (err)
        finding(fsck, "data %" PRIu64 ", offset %" PRIu64 ": the segment record cannot be read: %s",
                segment.id, segment.blob_offset, error_text(err));
    check_order(fsck, &segment);
    if (err || !check_place(fsck, &segment)) return 0;
    fsck->bytes_used += segment_device_size(&segment);
    if (fsck->verify_data) check_bytes(fsck, &segment);
    return note_used(fsck, &segment);
}

static int walk_segments(struct meta_cursor *cursor, void *arg) {
    meta_cursor_seek(cursor, (struct slice){"", 0});
    for (; meta_cursor_valid(cursor); meta_cursor_next(cursor)) {
        int err = check_segment(arg, meta_cursor_key(cursor), meta_cursor_value(cursor));
        if (err) return err;
    }
    end_blob(arg);
    return 0;
}

static int compare_used(const void *a, const void *b) {
    const struct used *x = a, *y = b;
    return (x->extent.offset > y->extent.offset) - (x->extent.offset < y->extent.offset);
}

static void check_overlaps(struct fsck *fsck) {
    if (fsck->count) qsort(fsck->used, fsck->count, sizeof(struct used), compare_used);
    const struct used *furthest = NULL; /* of those before, the one that reaches furthest */
    for (size_t i = 0; i < fsck->count; i++) {
        const struct used *used = &fsck->used[i];
        uint64_t end = used->extent.offset + used->extent.length;
        uint64_t reach = furthest ? furthest->extent.offset + furthest->extent.length : 0;
        if (used->extent.offset < reach)
            finding(fsck, "data %" PRIu64 " and data %" PRIu64 " both use the volume at %" PRIu64,
                    furthest->id, used->id, used->extent.offset);
        if (end > reach) furthest = used;
    }
}

/* ---- small blobs */

static void check_inline(struct fsck *fsck, struct slice key, struct slice value) {
    if (key.size != INLINE_KEY_SIZE) {
        finding(fsck, "a small blob has a key of %zu bytes", key.size);
        return;
    }
    uint64_t id = inline_id(key);
    struct slice bytes;
    int err = inline_decode(value, &bytes);
    check_id(fsck, id, value.size > INLINE_HEADER_SIZE ? value.size - INLINE_HEADER_SIZE : 0,
             "small blob");
    if (err) finding(fsck, "data %" PRIu64 ": bytes do not match their checksum", id);
    fsck->bytes_used += value.size;
}

static int walk_inline(struct meta_cursor *cursor, void *arg) {
    meta_cursor_seek(cursor, (struct slice){"", 0});
    for (; meta_cursor_valid(cursor); meta_cursor_next(cursor))
        check_inline(arg, meta_cursor_key(cursor), meta_cursor_value(cursor));
    return 0;
}

/* ---- all of it */

static int check_identity(struct fsck *fsck) {
    int err = superblock_check(fsck->device, fsck->meta);
    if (err == ERR_NOT_FOUND) {
        finding(fsck, "the metadata names no volume");
        return 0;
    }
    if (err == ERR_STORE_CORRUPT) {
        finding(fsck, "the volume's superblock is damaged or that of another store");
        return 0;
    }
    return err;
}

static int check_all(struct fsck *fsck) {
    int err = check_identity(fsck);
    if (!err) err = ids_read_bound(fsck->meta, &fsck->id_bound);
    if (!err) err = meta_scan_blocking(fsck->meta, META_SEGMENTS, walk_segments, fsck);
    if (!err) err = meta_scan_blocking(fsck->meta, META_INLINE, walk_inline, fsck);
    if (!err) check_overlaps(fsck);
    return err;
}

int blob_fsck(const char *path, struct meta *meta, bool verify_data, blob_owned_fn *owned,
              blob_report_fn *report, void *ctx, uint64_t *bytes_used) {
    struct fsck fsck = {
        .meta = meta,
        .verify_data = verify_data,
        .owned = owned,
        .report = report,
        .ctx = ctx,
        .buffer = aligned_alloc(DEVICE_ALIGNMENT, BLOB_SEGMENT_SIZE),
    };
    /* Direct, so that it is the drive that is checked and not memory. */
    struct device_options options = {.path = path, .direct_io = true, .read_only = true};
    int err = fsck.buffer ? device_open(&options, &fsck.device) : -ENOMEM;
    if (!err) err = check_all(&fsck);
    device_close(&fsck.device);
    free(fsck.buffer);
    free(fsck.used);
    if (bytes_used) *bytes_used = fsck.bytes_used;
    return err;
}
