/* Multipart uploads: begun, looked up, given parts, aborted. A part is a blob and a record beside
 * the upload's; completing is upload_complete.c's. */
#include "object/upload.h"

#include <assert.h>
#include <endian.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/encode.h"
#include "base/error.h"
#include "object/checksum_combine.h"
#include "runtime/fiber.h"

/* ---- beginning */

/* The time in front makes uploads of one key list by age; 80 random bits tell them apart. */
static void make_id(int64_t now_ms, uint8_t id[UPLOAD_ID_BYTES]) {
    uint64_t time = htobe64((uint64_t)now_ms << 16);
    memcpy(id, &time, 6);
    random_bytes(id + 6, UPLOAD_ID_BYTES - 6);
}

/* CRCs can be those of the whole object, the others only those of the parts; for CRC64NVME S3 knows
 * only the whole. */
static int check_checksum(const struct upload_info *info) {
    if (!info->checksum_kind) return 0;
    if (info->checksum_composite)
        return info->checksum_kind == DIGEST_CRC64NVME ? ERR_INVALID_REQUEST : 0;
    return checksum_can_combine(info->checksum_kind) ? 0 : ERR_INVALID_REQUEST;
}

static int add_upload_await(struct change *change, const struct bucket *bucket,
                            const struct upload_info *info, const struct key *key) {
    int err = change_guard_bucket_await(change, bucket);
    if (err) return err;
    struct text record _cleanup_text_ = {0};
    record_encode_upload(&record, key_slice(key), info);
    if (record.failed) return -ENOMEM;
    meta_batch_guard_absent(change->batch, META_UPLOADS, key_slice(key));
    meta_batch_put(change->batch, META_UPLOADS, key_slice(key), text_slice(&record));
    return change_commit_await(change);
}

static int try_create_await(struct store *store, const struct bucket *bucket,
                            struct upload_info *info) {
    uint8_t id[UPLOAD_ID_BYTES];
    info->created_ms = clock_wall_ms();
    make_id(info->created_ms, id);
    hex_encode(id, sizeof(id), info->id);
    struct key key;
    int err = key_upload(&key, bucket->id, info->key, id);
    if (err) return err;
    struct change change;
    err = change_begin(&change, store);
    if (!err) err = add_upload_await(&change, bucket, info, &key);
    change_end(&change);
    return err;
}

int upload_create_await(struct store *store, const struct bucket *bucket,
                        struct upload_info *info) {
    int err = key_check_name(info->key);
    if (!err) err = record_check_headers(info->headers, info->header_count);
    if (!err) err = check_checksum(info);
    if (err) return err;
    err = ERR_CONFLICT;
    for (unsigned i = 0; err == ERR_CONFLICT && i < STORE_TRIES_MAX; i++) {
        if (i) fiber_yield_await();
        err = try_create_await(store, bucket, info);
    }
    return err;
}

/* ---- looking up */

static void describe(struct upload *upload, struct slice name, const struct upload_record *record) {
    memcpy(upload->name, name.data, name.size);
    record_unpack_headers(&record->headers, upload->headers);
    upload->info = (struct upload_info){
        .key = {upload->name, name.size},
        .created_ms = record->created_ms,
        .checksum_kind = record->checksum_kind,
        .checksum_composite = record->checksum_composite,
        .headers = upload->headers,
        .header_count = record->headers.count,
    };
    hex_encode(upload->id, sizeof(upload->id), upload->info.id);
}

/* Takes over the reference on value when it succeeds. */
static int create(struct store *store, uint64_t bucket_id, const struct key *key, struct slice name,
                  const uint8_t *id, struct meta_value *value, struct upload **result) {
    struct upload_record record;
    int err = record_decode_upload(key_slice(key), meta_value_slice(value), &record);
    if (err) return err;
    struct upload *upload =
        calloc(1, sizeof(*upload) + record.headers.count * sizeof(struct object_header));
    if (!upload) return -ENOMEM;
    upload->store = store;
    upload->bucket_id = bucket_id;
    upload->key = *key;
    upload->value = value;
    memcpy(upload->id, id, sizeof(upload->id));
    describe(upload, name, &record);
    *result = upload;
    return 0;
}

int upload_open_await(struct store *store, const struct bucket *bucket, struct slice name,
                      struct slice upload_id, struct upload **upload) {
    *upload = NULL;
    uint8_t id[UPLOAD_ID_BYTES];
    struct key key;
    if (key_check_name(name) || !key_parse_upload_id(upload_id, id) ||
        key_upload(&key, bucket->id, name, id))
        return ERR_NO_SUCH_UPLOAD;
    struct meta_value *value = NULL;
    int err = meta_get_await(store->meta, META_UPLOADS, key_slice(&key), &value);
    if (err) return err == ERR_NOT_FOUND ? ERR_NO_SUCH_UPLOAD : err;
    err = create(store, bucket->id, &key, name, id, value, upload);
    if (err) meta_value_unref(&value);
    return err;
}

const struct upload_info *upload_info(const struct upload *upload) {
    return &upload->info;
}

void upload_close(struct upload **result) {
    struct upload *upload = *result;
    *result = NULL;
    if (!upload) return;
    meta_value_unref(&upload->value);
    free(upload);
}

/* ---- parts */

static int guard_upload_await(struct change *change, const struct upload *upload) {
    struct meta_value *value = NULL;
    int err = meta_get_await(change->store->meta, META_UPLOADS, key_slice(&upload->key), &value);
    meta_value_unref(&value);
    if (err) return err == ERR_NOT_FOUND ? ERR_NO_SUCH_UPLOAD : err;
    meta_batch_guard_present(change->batch, META_UPLOADS, key_slice(&upload->key));
    return 0;
}

static int replace_part_await(struct change *change, struct slice key) {
    struct meta_value *old = NULL;
    int err = meta_get_await(change->store->meta, META_PARTS, key, &old);
    if (err == ERR_NOT_FOUND) {
        meta_batch_guard_absent(change->batch, META_PARTS, key);
        return 0;
    }
    if (err) return err;
    struct part_info part;
    uint64_t blob_id;
    err = record_decode_part(key, meta_value_slice(old), &part, &blob_id);
    if (!err) {
        meta_batch_guard_equals(change->batch, META_PARTS, key, meta_value_slice(old));
        err = change_unlink_await(change, (struct blob_ref){blob_id, part.size});
    }
    meta_value_unref(&old);
    return err;
}

static int add_part_await(struct change *change, const struct upload *upload,
                          struct part_info *part, struct blob_writer *writer) {
    struct blob_ref ref;
    int err = blob_writer_finish_await(writer, change->batch, &ref);
    if (!err) err = guard_upload_await(change, upload);
    if (err) return err;
    part->size = ref.size;
    part->modified_ms = clock_wall_ms();
    struct key key;
    key_part(&key, upload->id, part->number);
    err = replace_part_await(change, key_slice(&key));
    if (err) return err;
    struct text record _cleanup_text_ = {0};
    record_encode_part(&record, key_slice(&key), part, ref.id);
    if (record.failed) return -ENOMEM;
    meta_batch_put(change->batch, META_PARTS, key_slice(&key), text_slice(&record));
    return 0;
}

static int try_put_part_await(struct store *store, struct upload *upload, struct part_info *part,
                              struct blob_writer **writer) {
    struct change change;
    int err = change_begin(&change, store);
    if (!err) err = add_part_await(&change, upload, part, *writer);
    if (!err) {
        err = change_commit_await(&change);
        /* If the commit may be on the drive, the bytes it refers to must stay where they are. */
        if (!change_surely_failed(err)) blob_writer_committed(writer);
    }
    change_end(&change);
    return err;
}

int upload_put_part_await(struct store *store, struct upload *upload, struct part_info *part,
                          struct blob_writer **writer) {
    if (part->number < 1 || part->number > OBJECT_PARTS_MAX) return ERR_TOO_MANY_PARTS;
    int err = ERR_CONFLICT;
    for (unsigned i = 0; err == ERR_CONFLICT && i < STORE_TRIES_MAX; i++) {
        if (i) fiber_yield_await();
        err = try_put_part_await(store, upload, part, writer);
    }
    return err;
}

/* ---- ending without an object */

static int abort_await(struct change *change, const struct upload *upload, struct parts *parts) {
    int err = guard_upload_await(change, upload);
    if (!err) err = parts_load_await(upload, 0, OBJECT_PARTS_MAX, parts);
    for (unsigned i = 0; !err && i < parts->count; i++)
        err = change_unlink_await(
            change, (struct blob_ref){parts->list[i].blob_id, parts->list[i].info.size});
    if (err) return err;
    upload_remove(upload, parts, change);
    return change_commit_await(change);
}

int upload_abort_await(struct store *store, struct upload *upload) {
    int err = ERR_CONFLICT;
    for (unsigned i = 0; err == ERR_CONFLICT && i < STORE_TRIES_MAX; i++) {
        if (i) fiber_yield_await();
        struct change change;
        struct parts parts = {0};
        err = change_begin(&change, store);
        if (!err) err = abort_await(&change, upload, &parts);
        parts_deinit(&parts);
        change_end(&change);
    }
    return err;
}
