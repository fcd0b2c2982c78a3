/* Building and reading the keys of object, upload and part records. */
#include "object/key.h"

#include <assert.h>
#include <endian.h>

#include "base/encode.h"
#include "base/error.h"

/* In upload keys the name is followed by an id, so its end must be marked, and the mark must sort
 * before whatever a longer name has there: 00 01 ends it, and a NUL inside becomes 00 FF. */
#define NUL_ESCAPE ((char)0xff)
#define NAME_END   ((char)0x01)

static void append(struct key *key, const void *data, size_t size) {
    assert(key->size + size <= sizeof(key->data));
    if (size) memcpy(key->data + key->size, data, size);
    key->size += size;
}

static void start_with_bucket(struct key *key, uint64_t bucket_id) {
    uint64_t big_endian = htobe64(bucket_id);
    key->size = 0;
    append(key, &big_endian, sizeof(big_endian));
}

void key_object(struct key *key, uint64_t bucket_id, struct slice name) {
    assert(name.size <= OBJECT_KEY_MAX);
    start_with_bucket(key, bucket_id);
    append(key, name.data, name.size);
}

void key_bucket_range(uint64_t bucket_id, struct key *start, struct key *end) {
    assert(bucket_id < UINT64_MAX);
    start_with_bucket(start, bucket_id);
    start_with_bucket(end, bucket_id + 1);
}

uint64_t key_bucket_id(struct slice stored) {
    assert(stored.size >= KEY_BUCKET_SIZE);
    uint64_t big_endian;
    memcpy(&big_endian, stored.data, sizeof(big_endian));
    return be64toh(big_endian);
}

/* ---- uploads */

int key_upload_start(struct key *key, uint64_t bucket_id, struct slice prefix, bool whole) {
    const size_t end_size = whole ? 2 : 0;
    start_with_bucket(key, bucket_id);
    for (size_t i = 0; i < prefix.size; i++) {
        /* Room for the escape, the end and the id that will follow. */
        if (key->size + 2 + end_size + UPLOAD_ID_BYTES > sizeof(key->data)) return ERR_KEY_TOO_LONG;
        key->data[key->size++] = prefix.data[i];
        if (prefix.data[i] == 0) key->data[key->size++] = NUL_ESCAPE;
    }
    if (whole) append(key, (const char[]){0, NAME_END}, end_size);
    return 0;
}

int key_upload(struct key *key, uint64_t bucket_id, struct slice name,
               const uint8_t id[UPLOAD_ID_BYTES]) {
    int err = key_upload_start(key, bucket_id, name, true);
    if (!err) append(key, id, UPLOAD_ID_BYTES);
    return err;
}

bool key_parse_upload(struct slice stored, char name[OBJECT_KEY_MAX], size_t *name_size,
                      uint8_t id[UPLOAD_ID_BYTES]) {
    if (stored.size < KEY_BUCKET_SIZE + 2 + UPLOAD_ID_BYTES) return false;
    const size_t end = stored.size - UPLOAD_ID_BYTES - 2;
    size_t size = 0;
    for (size_t i = KEY_BUCKET_SIZE; i < end; i++) {
        if (size == OBJECT_KEY_MAX) return false;
        name[size++] = stored.data[i];
        if (stored.data[i] != 0) continue;
        if (++i == end || stored.data[i] != NUL_ESCAPE) return false;
    }
    if (stored.data[end] != 0 || stored.data[end + 1] != NAME_END) return false;
    memcpy(id, stored.data + end + 2, UPLOAD_ID_BYTES);
    *name_size = size;
    return true;
}

bool key_parse_upload_id(struct slice text, uint8_t id[UPLOAD_ID_BYTES]) {
    return text.size == UPLOAD_ID_SIZE && hex_decode(text, id, UPLOAD_ID_BYTES) == UPLOAD_ID_BYTES;
}

/* ---- parts */

void key_part(struct key *key, const uint8_t id[UPLOAD_ID_BYTES], unsigned number) {
    assert(number <= OBJECT_PARTS_MAX + 1);
    uint16_t big_endian = htobe16((uint16_t)number);
    key->size = 0;
    append(key, id, UPLOAD_ID_BYTES);
    append(key, &big_endian, sizeof(big_endian));
}

unsigned key_part_number(struct slice stored) {
    assert(stored.size == KEY_PART_SIZE);
    uint16_t big_endian;
    memcpy(&big_endian, stored.data + UPLOAD_ID_BYTES, sizeof(big_endian));
    return be16toh(big_endian);
}

/* ---- order */

/* Dropping trailing FF bytes and raising the one before them: what is left is greater than every
 * key with the old beginning, and no key lies between. It may step out of the bucket. */
void key_skip_prefix(struct key *key) {
    while (key->size && (uint8_t)key->data[key->size - 1] == 0xff) key->size--;
    assert(key->size > 0); /* bucket and upload ids are never all ones */
    key->data[key->size - 1] = (char)((uint8_t)key->data[key->size - 1] + 1);
}

void key_step(struct key *key) {
    append(key, "", 1);
}

struct slice key_common_prefix(struct slice name, struct slice prefix, struct slice delimiter) {
    assert(slice_starts_with(name, prefix));
    if (delimiter.size == 0 || name.size == prefix.size) return (struct slice){0};
    const char *found =
        memmem(name.data + prefix.size, name.size - prefix.size, delimiter.data, delimiter.size);
    if (!found) return (struct slice){0};
    return (struct slice){name.data, (size_t)(found - name.data) + delimiter.size};
}

int key_check_name(struct slice name) {
    if (name.size == 0) return ERR_INVALID_ARGUMENT;
    return name.size > OBJECT_KEY_MAX ? ERR_KEY_TOO_LONG : 0;
}
