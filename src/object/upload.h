/* What the files about multipart uploads share. */
#ifndef PENSTOCK_OBJECT_UPLOAD_H
#define PENSTOCK_OBJECT_UPLOAD_H

#include "object/change.h"
#include "object/record.h"

struct upload {
    struct store *store;
    uint64_t bucket_id;
    struct key key; /* of its record */
    uint8_t id[UPLOAD_ID_BYTES];
    char name[OBJECT_KEY_MAX];
    struct meta_value *value; /* what the headers point into */
    struct upload_info info;
    struct object_header headers[];
};

struct stored_part {
    struct part_info info;
    uint64_t blob_id;
    struct slice record; /* as it is stored, to guard it */
};

/* Parts of one upload in order of number; to be zeroed before parts_load_await(). */
struct parts {
    struct stored_part *list;
    unsigned count, capacity;
    bool truncated;
    struct text bytes;
};
/* At most max parts with a number greater than after. */
int parts_load_await(const struct upload *upload, unsigned after, unsigned max,
                     struct parts *parts);
void parts_deinit(struct parts *parts);

/* End the upload in this change: it and exactly these parts are still there, and all are removed.
 * A part that comes in between makes the commit fail, so none is ever left over. */
void upload_remove(const struct upload *upload, const struct parts *parts, struct change *change);

#endif
