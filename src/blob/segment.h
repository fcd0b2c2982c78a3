/* Segment records: where a run of a blob's bytes lies, and the checksums that prove it.
 *
 * META_SEGMENTS key: data id u64, offset in the blob u64, both big-endian. Value, little-endian:
 *   0 record version u16, 2 volume number u16, 4 checksum unit u32 (262144), 8 device offset u64,
 *   16 length u64 (bytes of data), 24 one CRC32C u32 for each unit, then a CRC32C u32 of the key
 *   and all before it, so that a record under the wrong key is noticed too.
 * On the device the data is padded with zeros to 4096 bytes. Offsets in the blob are multiples of
 * the unit; only a blob's last segment may have a length that is not. */
#ifndef PENSTOCK_BLOB_SEGMENT_H
#define PENSTOCK_BLOB_SEGMENT_H

#include <stdint.h>

#include "base/slice.h"
#include "blob/blob.h"

#define SEGMENT_UNIT       BLOCK_MAX_SIZE
#define SEGMENT_UNITS_MAX  (BLOB_SEGMENT_SIZE / SEGMENT_UNIT)
#define SEGMENT_KEY_SIZE   16u
#define SEGMENT_RECORD_MAX (24u + 4 * SEGMENT_UNITS_MAX + 4)

struct segment {
    uint64_t id;
    uint64_t blob_offset;
    uint64_t device_offset;
    uint32_t length; /* bytes of data; 0 for a record that could not be understood */
    uint16_t volume;
    uint32_t crcs[SEGMENT_UNITS_MAX]; /* one for each unit begun */
};

static inline unsigned segment_units(const struct segment *segment) {
    return (segment->length + SEGMENT_UNIT - 1) / SEGMENT_UNIT;
}

/* Bytes on the device: the data and its padding. */
uint64_t segment_device_size(const struct segment *segment);

void segment_key(uint64_t id, uint64_t blob_offset, uint8_t key[SEGMENT_KEY_SIZE]);
size_t segment_encode(const struct segment *segment, uint8_t record[SEGMENT_RECORD_MAX]);
/* ERR_STORE_CORRUPT, ERR_UNSUPPORTED_FORMAT; id and blob_offset are set when the key has them. */
int segment_decode(struct slice key, struct slice value, struct segment *segment);

/* Load the records of blob `id`, from the one that covers `blob_offset` on, at most `max`. The
 * array is the caller's (free()). count 0 when there is none. A record that cannot be understood is
 * an error, or with `lenient` one of length 0. */
int segment_load_await(struct meta *meta, uint64_t id, uint64_t blob_offset, unsigned max,
                       bool lenient, struct segment **segments, unsigned *count);
/* The one of a sorted array that covers blob_offset, or NULL. */
const struct segment *segment_find(const struct segment *segments, unsigned count,
                                   uint64_t blob_offset);

/* ---- small blobs: META_INLINE, key data id u64 big-endian, value CRC32C u32 little-endian of the
 * bytes, then the bytes. */
#define INLINE_KEY_SIZE    8u
#define INLINE_HEADER_SIZE 4u
void inline_key(uint64_t id, uint8_t key[INLINE_KEY_SIZE]);
uint64_t inline_id(struct slice key);
/* The bytes inside value, checked. ERR_CHECKSUM_MISMATCH_ON_DISK. */
int inline_decode(struct slice value, struct slice *bytes);

#endif
