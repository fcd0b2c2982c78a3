/* An open store: what this layer stands on. It has no state of its own in memory. */
#ifndef PENSTOCK_OBJECT_STORE_H
#define PENSTOCK_OBJECT_STORE_H

#include "object/object.h"

/* A guarded change is tried again after a conflict. Each round has a winner, so a fiber gives up
 * only when this many others went before it. */
#define STORE_TRIES_MAX 256

struct store {
    struct meta *meta;
    struct blob_store *blobs;
    enum meta_durability durability;
};

/* META_SYSTEM keys of this layer. */
#define STORE_FORMAT_KEY      SLICE_LITERAL("object/format")
#define STORE_NEXT_BUCKET_KEY SLICE_LITERAL("object/next-bucket-id")
#define STORE_FORMAT          1u

/* The format of the records in this metadata: ERR_NOT_FOUND on a new store, ERR_UNSUPPORTED_FORMAT
 * when it is newer than this program, ERR_STORE_CORRUPT. Blocking. */
int store_check_format(struct meta *meta);

#endif
