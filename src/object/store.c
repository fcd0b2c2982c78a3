/* Opening the object store over its two parts. The format record is the first thing written and the
 * first thing read: a program that does not know the format touches nothing. */
#include "object/store.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "object/record.h"

static int read_format(struct meta_cursor *cursor, void *arg) {
    uint64_t *format = arg;
    meta_cursor_seek(cursor, STORE_FORMAT_KEY);
    if (!meta_cursor_valid(cursor) || !slice_equal(meta_cursor_key(cursor), STORE_FORMAT_KEY))
        return ERR_NOT_FOUND;
    return record_decode_counter(STORE_FORMAT_KEY, meta_cursor_value(cursor), format);
}

int store_check_format(struct meta *meta) {
    uint64_t format = 0;
    int err = meta_scan_blocking(meta, META_SYSTEM, read_format, &format);
    if (err) return err;
    if (format == STORE_FORMAT) return 0;
    log_error("the store has format %llu; this program knows format %u", (unsigned long long)format,
              STORE_FORMAT);
    return ERR_UNSUPPORTED_FORMAT;
}

static int write_format(struct meta *meta) {
    struct text record _cleanup_text_ = {0};
    record_encode_counter(&record, STORE_FORMAT_KEY, STORE_FORMAT);
    if (record.failed) return -ENOMEM;
    struct meta_batch *batch = NULL;
    int err = meta_batch_create(&batch);
    if (err) return err;
    meta_batch_put(batch, META_SYSTEM, STORE_FORMAT_KEY, text_slice(&record));
    err = meta_commit_blocking(meta, batch);
    meta_batch_destroy(&batch);
    return err;
}

int store_open(struct meta *meta, struct blob_store *blobs, enum meta_durability durability,
               struct store **result) {
    int err = store_check_format(meta);
    if (err == ERR_NOT_FOUND) err = write_format(meta);
    if (err) return err;
    struct store *store = malloc(sizeof(*store));
    if (!store) return -ENOMEM;
    *store = (struct store){.meta = meta, .blobs = blobs, .durability = durability};
    *result = store;
    return 0;
}

void store_close(struct store **store) {
    free(*store);
    *store = NULL;
}

struct blob_store *store_blobs(struct store *store) {
    return store->blobs;
}
