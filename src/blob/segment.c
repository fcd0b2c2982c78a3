/* Encoding, decoding and loading of segment records, and of the records of small blobs. */
#include "blob/segment.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "blob/little_endian.h"
#include "blob/volumes/device.h"

#define RECORD_VERSION 1
#define RECORD_HEADER  24u

static_assert(BLOB_SEGMENT_SIZE % SEGMENT_UNIT == 0, "segments are whole units");

uint64_t segment_device_size(const struct segment *segment) {
    return device_round_up(segment->length);
}

void segment_key(uint64_t id, uint64_t blob_offset, uint8_t key[SEGMENT_KEY_SIZE]) {
    be_put_u64(key, id);
    be_put_u64(key + 8, blob_offset);
}

size_t segment_encode(const struct segment *segment, uint8_t record[SEGMENT_RECORD_MAX]) {
    unsigned units = segment_units(segment);
    assert(units > 0 && units <= SEGMENT_UNITS_MAX);
    le_put_u16(record, RECORD_VERSION);
    le_put_u16(record + 2, segment->volume);
    le_put_u32(record + 4, SEGMENT_UNIT);
    le_put_u64(record + 8, segment->device_offset);
    le_put_u64(record + 16, segment->length);
    for (unsigned i = 0; i < units; i++)
        le_put_u32(record + RECORD_HEADER + 4 * i, segment->crcs[i]);
    size_t size = RECORD_HEADER + 4 * units;
    uint8_t key[SEGMENT_KEY_SIZE];
    segment_key(segment->id, segment->blob_offset, key);
    uint32_t crc = checksum_crc32c(checksum_crc32c(0, key, sizeof(key)), record, size);
    le_put_u32(record + size, crc);
    return size + 4;
}

static bool fields_are_sound(const struct segment *segment, uint64_t length, size_t record_size) {
    uint64_t units = (length + SEGMENT_UNIT - 1) / SEGMENT_UNIT;
    return length > 0 && length <= BLOB_SEGMENT_SIZE &&
           record_size == RECORD_HEADER + 4 * units + 4 &&
           segment->device_offset % DEVICE_ALIGNMENT == 0 &&
           segment->blob_offset % SEGMENT_UNIT == 0 && segment->blob_offset < BLOB_MAX_SIZE;
}

int segment_decode(struct slice key, struct slice value, struct segment *segment) {
    segment->length = 0;
    if (key.size != SEGMENT_KEY_SIZE) return ERR_STORE_CORRUPT;
    segment->id = be_get_u64(key.data);
    segment->blob_offset = be_get_u64(key.data + 8);
    if (value.size < RECORD_HEADER + 8) return ERR_STORE_CORRUPT;
    size_t covered = value.size - 4;
    uint32_t crc = checksum_crc32c(checksum_crc32c(0, key.data, key.size), value.data, covered);
    if (crc != le_get_u32(value.data + covered)) return ERR_STORE_CORRUPT;
    if (le_get_u16(value.data) != RECORD_VERSION) return ERR_UNSUPPORTED_FORMAT;
    if (le_get_u32(value.data + 4) != SEGMENT_UNIT) return ERR_UNSUPPORTED_FORMAT;
    segment->volume = le_get_u16(value.data + 2);
    segment->device_offset = le_get_u64(value.data + 8);
    uint64_t length = le_get_u64(value.data + 16);
    if (!fields_are_sound(segment, length, value.size)) return ERR_STORE_CORRUPT;
    segment->length = (uint32_t)length;
    for (unsigned i = 0; i < segment_units(segment); i++)
        segment->crcs[i] = le_get_u32(value.data + RECORD_HEADER + 4 * i);
    return 0;
}

/* ---- loading */

struct load {
    uint64_t id, blob_offset;
    unsigned max, count, capacity;
    bool lenient;
    struct segment *segments;
};

static int load_one(struct load *load, struct meta_cursor *cursor) {
    if (load->count == load->capacity) {
        unsigned capacity = load->capacity ? 2 * load->capacity : 16;
        void *grown = realloc(load->segments, capacity * sizeof(struct segment));
        if (!grown) return -ENOMEM;
        load->segments = grown;
        load->capacity = capacity;
    }
    struct segment *segment = &load->segments[load->count];
    int err = segment_decode(meta_cursor_key(cursor), meta_cursor_value(cursor), segment);
    if (err && !load->lenient) return err;
    load->count++;
    return 0;
}

static int load_page(struct meta_cursor *cursor, void *arg) {
    struct load *load = arg;
    uint8_t key[SEGMENT_KEY_SIZE];
    segment_key(load->id, load->blob_offset, key);
    meta_cursor_seek_before(cursor, (struct slice){(char *)key, sizeof(key)});
    while (meta_cursor_valid(cursor) && load->count < load->max) {
        struct slice found = meta_cursor_key(cursor);
        if (found.size != SEGMENT_KEY_SIZE || be_get_u64(found.data) != load->id) break;
        int err = load_one(load, cursor);
        if (err) return err;
        meta_cursor_next(cursor);
    }
    return 0;
}

int segment_load_await(struct meta *meta, uint64_t id, uint64_t blob_offset, unsigned max,
                       bool lenient, struct segment **segments, unsigned *count) {
    struct load load = {.id = id, .blob_offset = blob_offset, .max = max, .lenient = lenient};
    *segments = NULL;
    *count = 0;
    int err = meta_scan_await(meta, META_SEGMENTS, load_page, &load);
    if (err) {
        free(load.segments);
        return err;
    }
    *segments = load.segments;
    *count = load.count;
    return 0;
}

const struct segment *segment_find(const struct segment *segments, unsigned count,
                                   uint64_t blob_offset) {
    unsigned low = 0, high = count;
    while (low < high) {
        unsigned middle = low + (high - low) / 2;
        if (segments[middle].blob_offset <= blob_offset)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0) return NULL;
    const struct segment *segment = &segments[low - 1];
    return blob_offset - segment->blob_offset < segment->length ? segment : NULL;
}

/* ---- small blobs */

void inline_key(uint64_t id, uint8_t key[INLINE_KEY_SIZE]) {
    be_put_u64(key, id);
}

uint64_t inline_id(struct slice key) {
    assert(key.size == INLINE_KEY_SIZE);
    return be_get_u64(key.data);
}

int inline_decode(struct slice value, struct slice *bytes) {
    if (value.size <= INLINE_HEADER_SIZE || value.size > INLINE_HEADER_SIZE + BLOB_INLINE_MAX)
        return ERR_CHECKSUM_MISMATCH_ON_DISK;
    *bytes = (struct slice){value.data + INLINE_HEADER_SIZE, value.size - INLINE_HEADER_SIZE};
    if (checksum_crc32c(0, bytes->data, bytes->size) != le_get_u32(value.data))
        return ERR_CHECKSUM_MISMATCH_ON_DISK;
    return 0;
}
