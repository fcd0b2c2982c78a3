/* Encoding of the records that this layer stores. Layouts: docs/format.md.
 *
 * Every record begins with its version and kind and ends with a CRC32C of its key and all bytes
 * before, so that damage, and a record under another's key, are noticed at every read. Integers are
 * little-endian and of fixed width. A decoded record borrows from the value it was decoded from. */
#ifndef PENSTOCK_OBJECT_RECORD_H
#define PENSTOCK_OBJECT_RECORD_H

#include <stdint.h>

#include "object/key.h"
#include "object/object.h"

enum record_kind { RECORD_BUCKET = 1, RECORD_OBJECT, RECORD_UPLOAD, RECORD_PART, RECORD_COUNTER };

/* Encoders append to an empty text; a failed allocation shows in out->failed. Decoders answer
 * ERR_STORE_CORRUPT, or ERR_UNSUPPORTED_FORMAT for a version that is not known here. */

void record_encode_bucket(struct text *out, const struct bucket *bucket);
int record_decode_bucket(struct slice key, struct slice value, struct bucket *bucket);

/* Stored headers, not yet taken apart. */
struct record_headers {
    const char *data;
    size_t size;
    unsigned count;
};
void record_unpack_headers(const struct record_headers *packed, struct object_header *headers);
int record_check_headers(const struct object_header *headers,
                         unsigned count); /* ERR_METADATA_TOO_LARGE */

struct object_record {
    uint64_t size;
    int64_t modified_ms;
    struct slice etag;
    struct object_checksum checksum;
    struct record_headers headers;
    bool multipart;
    uint8_t upload_id[UPLOAD_ID_BYTES]; /* zeros when not made by multipart */
    const char *blobs;                  /* packed; see object_record_blob() */
    unsigned blob_count;
};
/* upload_id NULL: not made by multipart. */
void record_encode_object(struct text *out, struct slice key, const struct object_info *info,
                          const uint8_t *upload_id, const struct blob_ref *blobs, unsigned count);
int record_decode_object(struct slice key, struct slice value, struct object_record *record);
struct blob_ref object_record_blob(const struct object_record *record, unsigned index);

struct upload_record {
    int64_t created_ms;
    enum digest_kind checksum_kind;
    bool checksum_composite;
    struct record_headers headers;
};
void record_encode_upload(struct text *out, struct slice key, const struct upload_info *info);
int record_decode_upload(struct slice key, struct slice value, struct upload_record *record);

void record_encode_part(struct text *out, struct slice key, const struct part_info *part,
                        uint64_t blob_id);
/* part->number comes from the key. */
int record_decode_part(struct slice key, struct slice value, struct part_info *part,
                       uint64_t *blob_id);

void record_encode_counter(struct text *out, struct slice key, uint64_t next);
int record_decode_counter(struct slice key, struct slice value, uint64_t *next);

#endif
