/* What blob/ stores, byte by byte. The bytes here were written by hand from the description of the
 * format; when a test fails, the format has changed and needs a new version number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "blob/segment.h"
#include "blob/volumes/superblock.h"

/* clang-format off */
static const uint8_t golden_key[SEGMENT_KEY_SIZE] = {
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, /* data id */
    0x00, 0x00, 0x00, 0x00, 0x00, 0x40, 0x00, 0x00, /* offset in the blob: 4 MiB */
};
static const uint8_t golden_record[] = {
    0x01, 0x00,                                     /* record version */
    0x00, 0x00,                                     /* volume */
    0x00, 0x00, 0x04, 0x00,                         /* checksum unit: 256 KiB */
    0x00, 0x30, 0x12, 0x00, 0x00, 0x00, 0x00, 0x00, /* device offset */
    0x01, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, /* length: 256 KiB + 1 */
    0x44, 0x33, 0x22, 0x11,                         /* checksum of the first unit */
    0x88, 0x77, 0x66, 0x55,                         /* and of the second */
    0x8f, 0x31, 0x50, 0x4b,                         /* checksum of key and record */
};
/* clang-format on */

static struct slice key_slice(const uint8_t *key) {
    return (struct slice){(const char *)key, SEGMENT_KEY_SIZE};
}

static struct slice record_slice(const uint8_t *record, size_t size) {
    return (struct slice){(const char *)record, size};
}

static void a_segment_record_is_these_bytes(void **state) {
    (void)state;
    struct segment segment = {
        .id = 0x0102030405060708,
        .blob_offset = 4 << 20,
        .device_offset = 0x123000,
        .length = (256 << 10) + 1,
        .crcs = {0x11223344, 0x55667788},
    };
    uint8_t key[SEGMENT_KEY_SIZE], record[SEGMENT_RECORD_MAX];
    segment_key(segment.id, segment.blob_offset, key);
    assert_memory_equal(key, golden_key, sizeof(key));
    assert_int_equal(segment_encode(&segment, record), sizeof(golden_record));
    assert_memory_equal(record, golden_record, sizeof(golden_record));
}

static void these_bytes_are_a_segment_record(void **state) {
    (void)state;
    struct segment segment;
    struct slice value = record_slice(golden_record, sizeof(golden_record));
    assert_int_equal(segment_decode(key_slice(golden_key), value, &segment), 0);
    assert_int_equal(segment.id, 0x0102030405060708);
    assert_int_equal(segment.blob_offset, 4 << 20);
    assert_int_equal(segment.device_offset, 0x123000);
    assert_int_equal(segment.length, (256 << 10) + 1);
    assert_int_equal(segment.volume, 0);
    assert_int_equal(segment_units(&segment), 2);
    assert_int_equal(segment.crcs[0], 0x11223344);
    assert_int_equal(segment.crcs[1], 0x55667788);
    assert_int_equal(segment_device_size(&segment), (256 << 10) + 4096);
}

static void every_flipped_bit_is_noticed(void **state) {
    (void)state;
    struct segment segment;
    uint8_t key[SEGMENT_KEY_SIZE], record[sizeof(golden_record)];
    for (size_t bit = 0; bit < 8 * (sizeof(key) + sizeof(record)); bit++) {
        memcpy(key, golden_key, sizeof(key));
        memcpy(record, golden_record, sizeof(record));
        uint8_t *byte = bit / 8 < sizeof(key) ? &key[bit / 8] : &record[bit / 8 - sizeof(key)];
        *byte ^= (uint8_t)(1 << bit % 8);
        assert_int_equal(
            segment_decode(key_slice(key), record_slice(record, sizeof(record)), &segment),
            ERR_STORE_CORRUPT);
        assert_int_equal(segment.length, 0);
    }
}

static void every_other_size_is_refused(void **state) {
    (void)state;
    struct segment segment;
    uint8_t longer[sizeof(golden_record) + 1] = {0};
    memcpy(longer, golden_record, sizeof(golden_record));
    for (size_t size = 0; size <= sizeof(longer); size++) {
        int err = segment_decode(key_slice(golden_key), record_slice(longer, size), &segment);
        assert_int_equal(err, size == sizeof(golden_record) ? 0 : ERR_STORE_CORRUPT);
    }
    struct slice short_key = {(const char *)golden_key, SEGMENT_KEY_SIZE - 1};
    assert_int_equal(
        segment_decode(short_key, record_slice(golden_record, sizeof(golden_record)), &segment),
        ERR_STORE_CORRUPT);
}

static void a_segment_is_found_by_offset(void **state) {
    (void)state;
    struct segment segments[] = {
        {.blob_offset = 0, .length = 4 << 20},
        {.blob_offset = 4 << 20, .length = 256 << 10},
        {.blob_offset = (4 << 20) + (256 << 10), .length = 10},
    };
    assert_ptr_equal(segment_find(segments, 3, 0), &segments[0]);
    assert_ptr_equal(segment_find(segments, 3, (4 << 20) - 1), &segments[0]);
    assert_ptr_equal(segment_find(segments, 3, 4 << 20), &segments[1]);
    assert_ptr_equal(segment_find(segments, 3, (4 << 20) + (256 << 10)), &segments[2]);
    assert_null(segment_find(segments, 3, (4 << 20) + (256 << 10) + 10));
    assert_null(segment_find(segments + 1, 2, 0));
    assert_null(segment_find(NULL, 0, 0));
}

static void a_small_blob_is_its_checksum_and_its_bytes(void **state) {
    (void)state;
    static const char value[] = "\x5d\xeb\x47\x34penstock";
    struct slice bytes;
    assert_int_equal(inline_decode((struct slice){value, 12}, &bytes), 0);
    assert_true(slice_is(bytes, "penstock"));
    static const char damaged[] = "\x5d\xeb\x47\x34penstocK";
    assert_int_equal(inline_decode((struct slice){damaged, 12}, &bytes),
                     ERR_CHECKSUM_MISMATCH_ON_DISK);
    assert_int_equal(inline_decode((struct slice){value, 11}, &bytes),
                     ERR_CHECKSUM_MISMATCH_ON_DISK);
    assert_int_equal(inline_decode((struct slice){value, 4}, &bytes),
                     ERR_CHECKSUM_MISMATCH_ON_DISK);
    uint8_t key[INLINE_KEY_SIZE];
    inline_key(0x0102030405060708, key);
    assert_memory_equal(key, golden_key, sizeof(key));
}

static void a_superblock_is_these_bytes(void **state) {
    (void)state;
    uint8_t golden[SUPERBLOCK_SIZE] = "PENSTOCK\x01";
    struct superblock superblock = {.created_ms = 0x0000018bcfe56800};
    for (uint8_t i = 0; i < SUPERBLOCK_UUID_SIZE; i++) {
        golden[16 + i] = superblock.store_uuid[i] = i;
        golden[32 + i] = superblock.volume_uuid[i] = 16 + i;
    }
    memcpy(golden + 48, "\x00\x68\xe5\xcf\x8b\x01\x00\x00", 8);
    memcpy(golden + 4092, "\x44\x29\x04\xb8", 4);
    uint8_t page[SUPERBLOCK_SIZE];
    superblock_encode(&superblock, page);
    assert_memory_equal(page, golden, sizeof(page));

    struct superblock decoded;
    assert_int_equal(superblock_decode(golden, &decoded), 0);
    assert_memory_equal(decoded.volume_uuid, superblock.volume_uuid, SUPERBLOCK_UUID_SIZE);
    assert_int_equal(decoded.created_ms, superblock.created_ms);
    golden[100] = 1;
    assert_int_equal(superblock_decode(golden, &decoded), ERR_STORE_CORRUPT);
    golden[0] = 'p';
    assert_int_equal(superblock_decode(golden, &decoded), ERR_NOT_FOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_record_is_these_bytes),
        cmocka_unit_test(these_bytes_are_a_segment_record),
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(every_other_size_is_refused),
        cmocka_unit_test(a_segment_is_found_by_offset),
        cmocka_unit_test(a_small_blob_is_its_checksum_and_its_bytes),
        cmocka_unit_test(a_superblock_is_these_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
