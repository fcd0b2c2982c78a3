/* The stored records, held against bytes written by hand from docs/format.md: a store must be
 * readable for as long as there are stores. And the keys, whose order is the order of listings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/error.h"
#include "object/checksum_combine.h"
#include "object/record.h"

/* A record written by hand, closed with the checksum over its key and bytes. */
struct handmade {
    uint8_t data[512];
    size_t size;
};

static struct handmade make(struct slice key, const void *bytes, size_t size) {
    struct handmade record = {.size = size + 4};
    memcpy(record.data, bytes, size);
    uint32_t crc = checksum_crc32c(checksum_crc32c(0, key.data, key.size), bytes, size);
    for (unsigned i = 0; i < 4; i++) record.data[size + i] = (uint8_t)(crc >> (8 * i));
    return record;
}

static struct slice slice_made(const struct handmade *record) {
    return (struct slice){(const char *)record->data, record->size};
}

static void assert_encodes_as(const struct text *out, const struct handmade *expected) {
    assert_false(out->failed);
    assert_int_equal(out->size, expected->size);
    assert_memory_equal(out->data, expected->data, expected->size);
}

#define BYTES(...) ((const uint8_t[]){__VA_ARGS__}), sizeof((const uint8_t[]){__VA_ARGS__})

static const struct slice bucket_key = {"photos", 6};
static const struct slice object_key = {"\0\0\0\0\0\0\0\x05"
                                        "a/b",
                                        11};

static struct handmade made_bucket(void) {
    return make(bucket_key, BYTES(1, 0,                       /* version */
                                  1, 0,                       /* a bucket */
                                  5, 0, 0, 0, 0, 0, 0, 0,     /* id */
                                  0, 2, 0, 0, 0, 0, 0, 0,     /* created 512 ms after the epoch */
                                  4, 0, 'm', 'a', 'r', 's')); /* region */
}

static struct handmade made_object(void) {
    return make(object_key,
                BYTES(1, 0, 2, 0,             /* version, an object */
                      7, 1, 0, 0, 0, 0, 0, 0, /* 263 bytes */
                      9, 0, 0, 0, 0, 1, 0, 0, /* modified */
                      3, 0, 0, 0,             /* composite, multipart */
                      16, 0, 0, 0,            /* CRC32C */
                      3, 0, 1, 0,             /* ETag size, one header */
                      2, 0, 0, 0,             /* two blobs */
                      1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, /* upload id */
                      0xde, 0xad, 0xbe, 0xef,                                /* checksum */
                      'e', '-', '2',                                         /* ETag */
                      1, 0, 2, 0, 'n', 'v', 'w',                             /* n: vw */
                      77, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0,   /* blob 77, 256 bytes */
                      78, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0)); /* blob 78, 7 bytes */
}

static struct key upload_key(void) {
    struct key key;
    const uint8_t id[UPLOAD_ID_BYTES] = {0xaa, [15] = 0xbb};
    assert_int_equal(key_upload(&key, 5, slice_of("k"), id), 0);
    return key;
}

static struct handmade made_upload(const struct key *key) {
    return make(key_slice(key), BYTES(1, 0, 3, 0,             /* version, an upload */
                                      1, 0, 0, 0, 0, 0, 0, 0, /* created */
                                      1, 0, 0, 0,             /* composite */
                                      2, 0, 0, 0,             /* SHA-256 */
                                      1, 0,                   /* one header */
                                      1, 0, 0, 0, 'x'));      /* x: (empty) */
}

static struct key part_key(void) {
    struct key key;
    const uint8_t id[UPLOAD_ID_BYTES] = {0xaa, [15] = 0xbb};
    key_part(&key, id, 258);
    return key;
}

static struct handmade made_part(const struct key *key) {
    return make(key_slice(key), BYTES(1, 0, 4, 0,              /* version, a part */
                                      5, 0, 0, 0, 0, 0, 0, 0,  /* 5 bytes */
                                      79, 0, 0, 0, 0, 0, 0, 0, /* blob */
                                      2, 0, 0, 0, 0, 0, 0, 0,  /* modified */
                                      8, 0, 0, 0,              /* CRC32 */
                                      2, 0,                    /* ETag size */
                                      1, 2, 3, 4, 'e', 't'));
}

/* ---- the layouts */

static void a_bucket_record_by_hand(void **state) {
    (void)state;
    struct handmade made = made_bucket();
    struct bucket bucket;
    assert_int_equal(record_decode_bucket(bucket_key, slice_made(&made), &bucket), 0);
    assert_int_equal(bucket.id, 5);
    assert_int_equal(bucket.created_ms, 512);
    assert_string_equal(bucket.region, "mars");
    assert_string_equal(bucket.name, "photos");
    struct text out _cleanup_text_ = {0};
    record_encode_bucket(&out, &bucket);
    assert_encodes_as(&out, &made);
}

static void an_object_record_by_hand(void **state) {
    (void)state;
    struct handmade made = made_object();
    struct object_record record;
    assert_int_equal(record_decode_object(object_key, slice_made(&made), &record), 0);
    assert_int_equal(record.size, 263);
    assert_int_equal(record.modified_ms, 9 + (1ll << 40));
    assert_true(slice_is(record.etag, "e-2"));
    assert_true(record.multipart && record.checksum.composite);
    assert_int_equal(record.checksum.kind, DIGEST_CRC32C);
    assert_memory_equal(record.checksum.value, "\xde\xad\xbe\xef", 4);
    assert_int_equal(record.blob_count, 2);
    assert_int_equal(object_record_blob(&record, 0).id, 77);
    assert_int_equal(object_record_blob(&record, 1).size, 7);
    struct object_header header;
    assert_int_equal(record.headers.count, 1);
    record_unpack_headers(&record.headers, &header);
    assert_true(slice_is(header.name, "n") && slice_is(header.value, "vw"));

    struct object_info info = {.size = record.size,
                               .modified_ms = record.modified_ms,
                               .etag = "e-2",
                               .checksum = record.checksum,
                               .headers = &header,
                               .header_count = 1};
    const struct blob_ref blobs[] = {{77, 256}, {78, 7}};
    struct text out _cleanup_text_ = {0};
    record_encode_object(&out, object_key, &info, record.upload_id, blobs, 2);
    assert_encodes_as(&out, &made);
}

static void upload_and_part_records_by_hand(void **state) {
    (void)state;
    struct key key = upload_key();
    struct handmade made = made_upload(&key);
    struct upload_record upload;
    assert_int_equal(record_decode_upload(key_slice(&key), slice_made(&made), &upload), 0);
    assert_int_equal(upload.created_ms, 1);
    assert_int_equal(upload.checksum_kind, DIGEST_SHA256);
    assert_true(upload.checksum_composite);
    struct object_header header;
    record_unpack_headers(&upload.headers, &header);
    struct upload_info info = {.created_ms = 1,
                               .checksum_kind = DIGEST_SHA256,
                               .checksum_composite = true,
                               .headers = &header,
                               .header_count = 1};
    struct text out _cleanup_text_ = {0};
    record_encode_upload(&out, key_slice(&key), &info);
    assert_encodes_as(&out, &made);

    key = part_key();
    made = made_part(&key);
    struct part_info part;
    uint64_t blob_id;
    assert_int_equal(record_decode_part(key_slice(&key), slice_made(&made), &part, &blob_id), 0);
    assert_int_equal(part.number, 258);
    assert_int_equal(part.size, 5);
    assert_int_equal(blob_id, 79);
    assert_string_equal(part.etag, "et");
    assert_int_equal(part.checksum.kind, DIGEST_CRC32);
    text_clear(&out);
    record_encode_part(&out, key_slice(&key), &part, blob_id);
    assert_encodes_as(&out, &made);
}

/* ---- damage */

typedef int decode_fn(struct slice key, struct slice value);

static int decode_bucket(struct slice key, struct slice value) {
    struct bucket bucket;
    return record_decode_bucket(key, value, &bucket);
}

static int decode_object(struct slice key, struct slice value) {
    struct object_record record;
    return record_decode_object(key, value, &record);
}

static int decode_upload(struct slice key, struct slice value) {
    struct upload_record record;
    return record_decode_upload(key, value, &record);
}

static int decode_part(struct slice key, struct slice value) {
    struct part_info part;
    uint64_t blob_id;
    return record_decode_part(key, value, &part, &blob_id);
}

/* From memory of exactly its size, so that a sanitizer sees a read beyond it. */
static int decode_copy(decode_fn *decode, struct slice key, const uint8_t *data, size_t size) {
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, data, size);
    int err = decode(key, (struct slice){copy, size});
    free(copy);
    return err;
}

static void assert_damage_is_noticed(decode_fn *decode, struct slice key, struct handmade made) {
    assert_int_equal(decode(key, slice_made(&made)), 0);
    for (size_t size = 0; size < made.size; size++)
        assert_int_equal(decode_copy(decode, key, made.data, size), ERR_STORE_CORRUPT);
    for (size_t bit = 0; bit < 8 * made.size; bit++) {
        made.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(decode_copy(decode, key, made.data, made.size), ERR_STORE_CORRUPT);
        made.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    assert_int_equal(decode((struct slice){"another", 7}, slice_made(&made)), ERR_STORE_CORRUPT);
}

/* The checksum is right, the content is not: cut anywhere, or any byte replaced. Only what still
 * makes sense may decode, and nothing outside the record is read. */
static void assert_nonsense_is_refused(decode_fn *decode, struct slice key, struct handmade made) {
    size_t content = made.size - 4;
    for (size_t size = 0; size < content; size++) {
        struct handmade cut = make(key, made.data, size);
        assert_int_not_equal(decode_copy(decode, key, cut.data, cut.size), 0);
    }
    for (size_t at = 0; at < content; at++) {
        struct handmade changed = made;
        changed.data[at] = 0xff;
        changed = make(key, changed.data, content);
        int err = decode_copy(decode, key, changed.data, changed.size);
        assert_true(err == 0 || err == ERR_STORE_CORRUPT ||
                    (err == ERR_UNSUPPORTED_FORMAT && at < 2));
    }
    struct handmade newer = made;
    newer.data[0] = 2;
    newer = make(key, newer.data, content);
    assert_int_equal(decode(key, slice_made(&newer)), ERR_UNSUPPORTED_FORMAT);
}

static void damaged_records_are_refused(void **state) {
    (void)state;
    struct key upload = upload_key(), part = part_key();
    const struct {
        decode_fn *decode;
        struct slice key;
        struct handmade made;
    } all[] = {
        {decode_bucket, bucket_key, made_bucket()},
        {decode_object, object_key, made_object()},
        {decode_upload, key_slice(&upload), made_upload(&upload)},
        {decode_part, key_slice(&part), made_part(&part)},
    };
    for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_damage_is_noticed(all[i].decode, all[i].key, all[i].made);
        assert_nonsense_is_refused(all[i].decode, all[i].key, all[i].made);
    }
}

/* ---- keys */

static void keys_by_hand(void **state) {
    (void)state;
    struct key key;
    key_object(&key, 0x0102, slice_of("a/b"));
    assert_true(slice_equal(key_slice(&key), (struct slice){"\0\0\0\0\0\0\1\2a/b", 11}));
    const uint8_t id[UPLOAD_ID_BYTES] = {0xaa, [15] = 0xbb};
    assert_int_equal(key_upload(&key, 3, (struct slice){"x\0y", 3}, id), 0);
    assert_int_equal(key.size, 8 + 4 + 2 + 16);
    assert_memory_equal(key.data, "\0\0\0\0\0\0\0\3x\0\xffy\0\1\xaa", 15);
    key_part(&key, id, 10000);
    assert_int_equal(key.size, 18);
    assert_memory_equal(key.data + 15, "\xbb\x27\x10", 3);
}

static uint64_t random_state = 20261201;

static uint64_t next_random(void) {
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return random_state >> 33;
}

static struct slice random_name(char *buffer) {
    static const char bytes[] = {0, 1, 2, 'a', '/', (char)0xfe, (char)0xff};
    size_t size = 1 + next_random() % 5;
    for (size_t i = 0; i < size; i++) buffer[i] = bytes[next_random() % sizeof(bytes)];
    return (struct slice){buffer, size};
}

static void upload_keys_sort_by_name_then_id(void **state) {
    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        char a_bytes[8], b_bytes[8];
        struct slice a = random_name(a_bytes), b = random_name(b_bytes);
        uint8_t a_id[UPLOAD_ID_BYTES] = {(uint8_t)next_random()};
        uint8_t b_id[UPLOAD_ID_BYTES] = {(uint8_t)next_random()};
        struct key a_key, b_key, start;
        assert_int_equal(key_upload(&a_key, 1, a, a_id), 0);
        assert_int_equal(key_upload(&b_key, 1, b, b_id), 0);
        int expected = slice_compare(a, b);
        if (!expected) expected = memcmp(a_id, b_id, sizeof(a_id));
        int found = slice_compare(key_slice(&a_key), key_slice(&b_key));
        assert_true((expected > 0) == (found > 0) && (expected < 0) == (found < 0));

        assert_int_equal(key_upload_start(&start, 1, b, false), 0);
        assert_int_equal(slice_starts_with(a, b),
                         slice_starts_with(key_slice(&a_key), key_slice(&start)));
        char name[OBJECT_KEY_MAX];
        size_t size;
        uint8_t id[UPLOAD_ID_BYTES];
        assert_true(key_parse_upload(key_slice(&a_key), name, &size, id));
        assert_true(slice_equal(a, (struct slice){name, size}));
        assert_memory_equal(id, a_id, sizeof(id));
    }
}

static void skipping_a_prefix_passes_all_below_it_and_nothing_else(void **state) {
    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        char a_bytes[8], b_bytes[8];
        struct slice name = random_name(a_bytes), prefix = random_name(b_bytes);
        struct key key, start, behind;
        key_object(&key, 1, name);
        key_object(&start, 1, prefix);
        behind = start;
        key_skip_prefix(&behind);
        bool below = slice_starts_with(name, prefix);
        bool skipped = slice_compare(key_slice(&key), key_slice(&start)) >= 0 &&
                       slice_compare(key_slice(&key), key_slice(&behind)) < 0;
        assert_int_equal(below, skipped);
    }
}

static void names_with_many_nuls_may_not_fit(void **state) {
    (void)state;
    char name[OBJECT_KEY_MAX] = {0};
    const uint8_t id[UPLOAD_ID_BYTES] = {0};
    struct key key;
    memset(name, 'n', sizeof(name));
    assert_int_equal(key_upload(&key, 1, (struct slice){name, sizeof(name)}, id), 0);
    memset(name, 0, 30);
    assert_int_equal(key_upload(&key, 1, (struct slice){name, sizeof(name)}, id), 0);
    memset(name, 0, sizeof(name));
    assert_int_equal(key_upload(&key, 1, (struct slice){name, sizeof(name)}, id), ERR_KEY_TOO_LONG);
}

/* ---- checksums of wholes from those of parts */

static void crcs_of_parts_combine_to_that_of_the_whole(void **state) {
    (void)state;
    const enum digest_kind kinds[] = {DIGEST_CRC32, DIGEST_CRC32C, DIGEST_CRC64NVME};
    static uint8_t bytes[70000];
    for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = (uint8_t)next_random();
    const size_t cuts[] = {0, 1, 7, 4096, 65537, sizeof(bytes)};
    for (unsigned k = 0; k < 3; k++) {
        for (unsigned c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
            uint8_t values[3][DIGEST_MAX_SIZE];
            const struct slice runs[] = {{(char *)bytes, cuts[c]},
                                         {(char *)bytes + cuts[c], sizeof(bytes) - cuts[c]},
                                         {(char *)bytes, sizeof(bytes)}};
            for (unsigned i = 0; i < 3; i++) {
                struct digest *digest = NULL;
                assert_int_equal(digest_create(kinds[k], &digest), 0);
                digest_update(digest, runs[i].data, runs[i].size);
                digest_final(digest, kinds[k], values[i]);
                digest_destroy(&digest);
            }
            checksum_combine(kinds[k], values[0], values[1], runs[1].size);
            assert_memory_equal(values[0], values[2], digest_size(kinds[k]));
        }
    }
    assert_false(checksum_can_combine(DIGEST_SHA1));
    assert_false(checksum_can_combine(DIGEST_SHA256));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_record_by_hand),
        cmocka_unit_test(an_object_record_by_hand),
        cmocka_unit_test(upload_and_part_records_by_hand),
        cmocka_unit_test(damaged_records_are_refused),
        cmocka_unit_test(keys_by_hand),
        cmocka_unit_test(upload_keys_sort_by_name_then_id),
        cmocka_unit_test(skipping_a_prefix_passes_all_below_it_and_nothing_else),
        cmocka_unit_test(names_with_many_nuls_may_not_fit),
        cmocka_unit_test(crcs_of_parts_combine_to_that_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
