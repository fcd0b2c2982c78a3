/* Encoding and decoding of bucket, object, upload and part records. Nothing read from disk is
 * trusted: a decoder checks every length against what is there. */
#include "object/record.h"

#include <assert.h>
#include <endian.h>

#include "base/error.h"

#define RECORD_VERSION    1
#define FLAG_COMPOSITE    1u /* the checksum is one of the parts' checksums */
#define FLAG_MULTIPART    2u
#define BLOB_ENTRY_SIZE   16u
#define HEADER_ENTRY_SIZE 4u

/* ---- writing */

static void put_u16(struct text *out, uint16_t value) {
    value = htole16(value);
    text_append(out, &value, sizeof(value));
}

static void put_u32(struct text *out, uint32_t value) {
    value = htole32(value);
    text_append(out, &value, sizeof(value));
}

static void put_u64(struct text *out, uint64_t value) {
    value = htole64(value);
    text_append(out, &value, sizeof(value));
}

static void begin(struct text *out, enum record_kind kind) {
    assert(out->size == 0);
    put_u16(out, RECORD_VERSION);
    put_u16(out, (uint16_t)kind);
}

static uint32_t crc_of(struct slice key, const void *data, size_t size) {
    return checksum_crc32c(checksum_crc32c(0, key.data, key.size), data, size);
}

static void end(struct text *out, struct slice key) {
    if (!out->failed) put_u32(out, crc_of(key, out->data, out->size));
}

static void put_headers(struct text *out, const struct object_header *headers, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        put_u16(out, (uint16_t)headers[i].name.size);
        put_u16(out, (uint16_t)headers[i].value.size);
        text_append_slice(out, headers[i].name);
        text_append_slice(out, headers[i].value);
    }
}

static size_t checksum_bytes(const struct object_checksum *checksum) {
    return checksum->kind ? digest_size(checksum->kind) : 0;
}

/* ---- reading: a cursor that remembers whether it ran out */

struct input {
    const char *data;
    size_t left;
    bool failed;
};

static const char *take(struct input *in, size_t size) {
    if (in->failed || size > in->left) {
        in->failed = true;
        return NULL;
    }
    const char *data = in->data;
    in->data += size;
    in->left -= size;
    return data;
}

static uint16_t take_u16(struct input *in) {
    uint16_t value = 0;
    const char *data = take(in, sizeof(value));
    if (data) memcpy(&value, data, sizeof(value));
    return le16toh(value);
}

static uint32_t take_u32(struct input *in) {
    uint32_t value = 0;
    const char *data = take(in, sizeof(value));
    if (data) memcpy(&value, data, sizeof(value));
    return le32toh(value);
}

static uint64_t take_u64(struct input *in) {
    uint64_t value = 0;
    const char *data = take(in, sizeof(value));
    if (data) memcpy(&value, data, sizeof(value));
    return le64toh(value);
}

static void take_bytes(struct input *in, void *out, size_t size) {
    const char *data = take(in, size);
    if (data) memcpy(out, data, size);
}

static int open_record(struct slice key, struct slice value, enum record_kind kind,
                       struct input *in) {
    uint32_t crc;
    if (value.size < 4 + sizeof(crc)) return ERR_STORE_CORRUPT;
    size_t size = value.size - sizeof(crc);
    memcpy(&crc, value.data + size, sizeof(crc));
    if (le32toh(crc) != crc_of(key, value.data, size)) return ERR_STORE_CORRUPT;
    *in = (struct input){.data = value.data, .left = size};
    uint16_t version = take_u16(in);
    uint16_t found = take_u16(in);
    if (version != RECORD_VERSION) return ERR_UNSUPPORTED_FORMAT;
    return found == kind ? 0 : ERR_STORE_CORRUPT;
}

static int close_record(const struct input *in, bool sound) {
    return in->failed || in->left || !sound ? ERR_STORE_CORRUPT : 0;
}

static bool kind_is_known(uint32_t kind) {
    return kind == 0 || kind == DIGEST_SHA256 || kind == DIGEST_SHA1 || kind == DIGEST_CRC32 ||
           kind == DIGEST_CRC32C || kind == DIGEST_CRC64NVME;
}

static bool take_checksum(struct input *in, uint32_t kind, bool composite,
                          struct object_checksum *checksum) {
    if (!kind_is_known(kind)) return false;
    *checksum = (struct object_checksum){.kind = kind, .composite = composite};
    take_bytes(in, checksum->value, checksum_bytes(checksum));
    return true;
}

static void take_headers(struct input *in, unsigned count, struct record_headers *headers) {
    *headers = (struct record_headers){.data = in->data, .count = count};
    size_t before = in->left;
    for (unsigned i = 0; i < count && !in->failed; i++) {
        size_t name = take_u16(in);
        size_t value = take_u16(in);
        take(in, name + value);
    }
    headers->size = before - in->left;
}

void record_unpack_headers(const struct record_headers *packed, struct object_header *headers) {
    struct input in = {.data = packed->data, .left = packed->size};
    for (unsigned i = 0; i < packed->count; i++) {
        size_t name = take_u16(&in);
        size_t value = take_u16(&in);
        headers[i].name = (struct slice){take(&in, name), name};
        headers[i].value = (struct slice){take(&in, value), value};
    }
    assert(!in.failed && in.left == 0);
}

int record_check_headers(const struct object_header *headers, unsigned count) {
    size_t size = 0;
    for (unsigned i = 0; i < count; i++) {
        if (headers[i].name.size > OBJECT_HEADERS_MAX || headers[i].value.size > OBJECT_HEADERS_MAX)
            return ERR_METADATA_TOO_LARGE;
        size += HEADER_ENTRY_SIZE + headers[i].name.size + headers[i].value.size;
        if (size > OBJECT_HEADERS_MAX) return ERR_METADATA_TOO_LARGE;
    }
    return 0;
}

/* ---- buckets */

void record_encode_bucket(struct text *out, const struct bucket *bucket) {
    struct slice region = slice_of(bucket->region);
    begin(out, RECORD_BUCKET);
    put_u64(out, bucket->id);
    put_u64(out, (uint64_t)bucket->created_ms);
    put_u16(out, (uint16_t)region.size);
    text_append_slice(out, region);
    end(out, slice_of(bucket->name));
}

int record_decode_bucket(struct slice key, struct slice value, struct bucket *bucket) {
    struct input in;
    int err = open_record(key, value, RECORD_BUCKET, &in);
    if (err) return err;
    *bucket = (struct bucket){0};
    bucket->id = take_u64(&in);
    bucket->created_ms = (int64_t)take_u64(&in);
    size_t region = take_u16(&in);
    bool sound = region < sizeof(bucket->region) && key.size <= BUCKET_NAME_MAX && bucket->id > 0 &&
                 bucket->id < UINT64_MAX;
    if (!sound) return ERR_STORE_CORRUPT;
    take_bytes(&in, bucket->region, region);
    memcpy(bucket->name, key.data, key.size);
    return close_record(&in, sound);
}

/* ---- objects */

void record_encode_object(struct text *out, struct slice key, const struct object_info *info,
                          const uint8_t *upload_id, const struct blob_ref *blobs, unsigned count) {
    static const uint8_t no_upload[UPLOAD_ID_BYTES];
    struct slice etag = slice_of(info->etag);
    begin(out, RECORD_OBJECT);
    put_u64(out, info->size);
    put_u64(out, (uint64_t)info->modified_ms);
    put_u32(out,
            (info->checksum.composite ? FLAG_COMPOSITE : 0) | (upload_id ? FLAG_MULTIPART : 0));
    put_u32(out, info->checksum.kind);
    put_u16(out, (uint16_t)etag.size);
    put_u16(out, (uint16_t)info->header_count);
    put_u32(out, count);
    text_append(out, upload_id ? upload_id : no_upload, UPLOAD_ID_BYTES);
    text_append(out, info->checksum.value, checksum_bytes(&info->checksum));
    text_append_slice(out, etag);
    put_headers(out, info->headers, info->header_count);
    for (unsigned i = 0; i < count; i++) {
        put_u64(out, blobs[i].id);
        put_u64(out, blobs[i].size);
    }
    end(out, key);
}

struct blob_ref object_record_blob(const struct object_record *record, unsigned index) {
    assert(index < record->blob_count);
    struct input in = {.data = record->blobs + BLOB_ENTRY_SIZE * (size_t)index,
                       .left = BLOB_ENTRY_SIZE};
    struct blob_ref ref;
    ref.id = take_u64(&in);
    ref.size = take_u64(&in);
    return ref;
}

static bool blobs_are_sound(const struct object_record *record) {
    uint64_t size = 0;
    for (unsigned i = 0; i < record->blob_count; i++) {
        struct blob_ref ref = object_record_blob(record, i);
        if (ref.size > BLOB_MAX_SIZE || (ref.id == 0) != (ref.size == 0)) return false;
        size += ref.size;
    }
    return size == record->size;
}

int record_decode_object(struct slice key, struct slice value, struct object_record *record) {
    struct input in;
    int err = open_record(key, value, RECORD_OBJECT, &in);
    if (err) return err;
    *record = (struct object_record){0};
    record->size = take_u64(&in);
    record->modified_ms = (int64_t)take_u64(&in);
    uint32_t flags = take_u32(&in);
    uint32_t kind = take_u32(&in);
    record->etag.size = take_u16(&in);
    unsigned header_count = take_u16(&in);
    record->blob_count = take_u32(&in);
    take_bytes(&in, record->upload_id, UPLOAD_ID_BYTES);
    record->multipart = flags & FLAG_MULTIPART;
    bool sound = take_checksum(&in, kind, flags & FLAG_COMPOSITE, &record->checksum) &&
                 record->etag.size <= OBJECT_ETAG_MAX &&
                 record->blob_count <= (record->multipart ? OBJECT_PARTS_MAX : 1);
    if (!sound) return ERR_STORE_CORRUPT;
    record->etag.data = take(&in, record->etag.size);
    take_headers(&in, header_count, &record->headers);
    record->blobs = take(&in, (size_t)record->blob_count * BLOB_ENTRY_SIZE);
    if (in.failed) return ERR_STORE_CORRUPT;
    return close_record(&in, blobs_are_sound(record));
}

/* ---- uploads and parts */

void record_encode_upload(struct text *out, struct slice key, const struct upload_info *info) {
    begin(out, RECORD_UPLOAD);
    put_u64(out, (uint64_t)info->created_ms);
    put_u32(out, info->checksum_composite ? FLAG_COMPOSITE : 0);
    put_u32(out, info->checksum_kind);
    put_u16(out, (uint16_t)info->header_count);
    put_headers(out, info->headers, info->header_count);
    end(out, key);
}

int record_decode_upload(struct slice key, struct slice value, struct upload_record *record) {
    struct input in;
    int err = open_record(key, value, RECORD_UPLOAD, &in);
    if (err) return err;
    *record = (struct upload_record){0};
    record->created_ms = (int64_t)take_u64(&in);
    record->checksum_composite = take_u32(&in) & FLAG_COMPOSITE;
    uint32_t kind = take_u32(&in);
    record->checksum_kind = kind;
    unsigned header_count = take_u16(&in);
    take_headers(&in, header_count, &record->headers);
    return close_record(&in, kind_is_known(kind));
}

void record_encode_part(struct text *out, struct slice key, const struct part_info *part,
                        uint64_t blob_id) {
    struct slice etag = slice_of(part->etag);
    begin(out, RECORD_PART);
    put_u64(out, part->size);
    put_u64(out, blob_id);
    put_u64(out, (uint64_t)part->modified_ms);
    put_u32(out, part->checksum.kind);
    put_u16(out, (uint16_t)etag.size);
    text_append(out, part->checksum.value, checksum_bytes(&part->checksum));
    text_append_slice(out, etag);
    end(out, key);
}

int record_decode_part(struct slice key, struct slice value, struct part_info *part,
                       uint64_t *blob_id) {
    struct input in;
    int err = open_record(key, value, RECORD_PART, &in);
    if (err) return err;
    if (key.size != KEY_PART_SIZE) return ERR_STORE_CORRUPT;
    *part = (struct part_info){.number = key_part_number(key)};
    part->size = take_u64(&in);
    *blob_id = take_u64(&in);
    part->modified_ms = (int64_t)take_u64(&in);
    uint32_t kind = take_u32(&in);
    size_t etag = take_u16(&in);
    bool sound = take_checksum(&in, kind, false, &part->checksum) && etag <= OBJECT_ETAG_MAX &&
                 part->size <= BLOB_MAX_SIZE && (part->size == 0) == (*blob_id == 0) &&
                 part->number >= 1 && part->number <= OBJECT_PARTS_MAX;
    if (!sound) return ERR_STORE_CORRUPT;
    take_bytes(&in, part->etag, etag);
    return close_record(&in, sound);
}

/* ---- counters */

void record_encode_counter(struct text *out, struct slice key, uint64_t next) {
    begin(out, RECORD_COUNTER);
    put_u64(out, next);
    end(out, key);
}

int record_decode_counter(struct slice key, struct slice value, uint64_t *next) {
    struct input in;
    int err = open_record(key, value, RECORD_COUNTER, &in);
    if (err) return err;
    *next = take_u64(&in);
    return close_record(&in, true);
}
