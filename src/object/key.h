/* Keys of the metadata spaces that this layer fills: how names, buckets, uploads and part numbers
 * become bytes whose order is the order of listings. docs/format.md describes them. */
#ifndef PENSTOCK_OBJECT_KEY_H
#define PENSTOCK_OBJECT_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "meta/meta.h"
#include "object/object.h"

#define UPLOAD_ID_BYTES (UPLOAD_ID_SIZE / 2)
#define KEY_BUCKET_SIZE 8u /* the bucket id in front of object and upload keys */
#define KEY_PART_SIZE   (UPLOAD_ID_BYTES + 2)

struct key {
    char data[META_KEY_MAX];
    size_t size;
};

static inline struct slice key_slice(const struct key *key) {
    return (struct slice){key->data, key->size};
}

/* META_OBJECTS. name may also be a prefix, or empty; at most OBJECT_KEY_MAX bytes. */
void key_object(struct key *key, uint64_t bucket_id, struct slice name);
/* META_OBJECTS and META_UPLOADS: [start, end) holds everything of one bucket. */
void key_bucket_range(uint64_t bucket_id, struct key *start, struct key *end);
/* The bucket id in front; stored must have at least KEY_BUCKET_SIZE bytes. */
uint64_t key_bucket_id(struct slice stored);

/* META_UPLOADS. NUL bytes in names take two bytes there, so a name with dozens of them may not fit:
 * ERR_KEY_TOO_LONG. */
int key_upload(struct key *key, uint64_t bucket_id, struct slice name,
               const uint8_t id[UPLOAD_ID_BYTES]);
/* Where names that begin with `prefix` begin, or (whole) where the uploads of one name begin. */
int key_upload_start(struct key *key, uint64_t bucket_id, struct slice prefix, bool whole);
/* The name and the id in a stored key. False when it is none. */
bool key_parse_upload(struct slice stored, char name[OBJECT_KEY_MAX], size_t *name_size,
                      uint8_t id[UPLOAD_ID_BYTES]);

/* META_PARTS. number 0 is before every part, OBJECT_PARTS_MAX + 1 after. */
void key_part(struct key *key, const uint8_t id[UPLOAD_ID_BYTES], unsigned number);
unsigned key_part_number(struct slice stored);

bool key_parse_upload_id(struct slice text, uint8_t id[UPLOAD_ID_BYTES]);

/* Make of a key the smallest one that is greater than all keys beginning with it. */
void key_skip_prefix(struct key *key);
/* Make of a key the smallest one that is greater than it. */
void key_step(struct key *key);

/* The part of name up to and with the first delimiter behind prefix (which name begins with); size
 * 0 when there is none. */
struct slice key_common_prefix(struct slice name, struct slice prefix, struct slice delimiter);

int key_check_name(struct slice name); /* ERR_KEY_TOO_LONG; ERR_INVALID_ARGUMENT when empty */

#endif
