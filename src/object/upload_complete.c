/* Completing a multipart upload: the parts that the client names become one object, the others go,
 * and all of it is one commit. No byte is moved or read. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/encode.h"
#include "base/error.h"
#include "object/checksum_combine.h"
#include "object/upload.h"
#include "runtime/fiber.h"

struct completion {
    const struct bucket *bucket;
    const struct upload *upload;
    const struct part_info *claimed;
    size_t count;
    const struct object_condition *condition;
    const struct object_checksum *expected;
    struct parts parts;                /* all that were uploaded */
    const struct stored_part **chosen; /* `count` of them */
    struct blob_ref *blobs;
    struct object_info info;
};

/* ---- what the client claims */

static int check_claims(const struct part_info *claimed, size_t count) {
    if (count == 0) return ERR_MALFORMED_XML;
    if (count > OBJECT_PARTS_MAX) return ERR_TOO_MANY_PARTS;
    for (size_t i = 0; i < count; i++) {
        if (claimed[i].number < 1 || claimed[i].number > OBJECT_PARTS_MAX) return ERR_INVALID_PART;
        if (i && claimed[i].number <= claimed[i - 1].number) return ERR_INVALID_PART_ORDER;
    }
    return 0;
}

static bool same_checksum(const struct object_checksum *a, const struct object_checksum *b) {
    return a->kind == b->kind && !memcmp(a->value, b->value, digest_size(a->kind));
}

static bool claim_holds(const struct part_info *claimed, const struct part_info *stored) {
    return !strcmp(claimed->etag, stored->etag) &&
           (!claimed->checksum.kind || same_checksum(&claimed->checksum, &stored->checksum));
}

/* Both lists are in order of number, so one pass finds every claim its part. */
static int choose_parts(struct completion *completion) {
    const struct parts *parts = &completion->parts;
    unsigned at = 0;
    uint64_t size = 0;
    for (size_t i = 0; i < completion->count; i++) {
        const struct part_info *claimed = &completion->claimed[i];
        while (at < parts->count && parts->list[at].info.number < claimed->number) at++;
        if (at == parts->count || parts->list[at].info.number != claimed->number ||
            !claim_holds(claimed, &parts->list[at].info))
            return ERR_INVALID_PART;
        const struct stored_part *part = &parts->list[at];
        if (part->info.size < OBJECT_PART_MIN && i + 1 < completion->count)
            return ERR_ENTITY_TOO_SMALL;
        completion->chosen[i] = part;
        completion->blobs[i] = (struct blob_ref){part->blob_id, part->info.size};
        size += part->info.size;
    }
    completion->info.size = size;
    return size > OBJECT_SIZE_MAX ? ERR_ENTITY_TOO_LARGE : 0;
}

/* ---- ETag and checksum of the whole */

static bool md5_of_etag(const char *etag, uint8_t md5[MD5_SIZE]) {
    struct slice hex = slice_of(etag);
    return hex.size == 2 * MD5_SIZE && hex_decode(hex, md5, MD5_SIZE) == MD5_SIZE;
}

/* MD5 of the parts' MD5s where all parts have one. Else something that only means "these parts":
 * no client can recompute it, and none expects to. */
static int make_etag(struct completion *completion) {
    struct digest *of_md5s = NULL, *of_etags = NULL;
    int err = digest_create(DIGEST_MD5, &of_md5s);
    if (!err) err = digest_create(DIGEST_SHA256, &of_etags);
    bool all_md5 = true;
    for (size_t i = 0; !err && i < completion->count; i++) {
        const char *etag = completion->chosen[i]->info.etag;
        uint8_t md5[MD5_SIZE];
        if (md5_of_etag(etag, md5))
            digest_update(of_md5s, md5, sizeof(md5));
        else
            all_md5 = false;
        digest_update(of_etags, etag, strlen(etag) + 1);
    }
    if (!err) {
        uint8_t value[DIGEST_MAX_SIZE];
        char hex[2 * MD5_SIZE + 1];
        digest_final(all_md5 ? of_md5s : of_etags, all_md5 ? DIGEST_MD5 : DIGEST_SHA256, value);
        hex_encode(value, MD5_SIZE, hex);
        snprintf(completion->info.etag, sizeof(completion->info.etag), "%s-%zu", hex,
                 completion->count);
    }
    digest_destroy(&of_md5s);
    digest_destroy(&of_etags);
    return err;
}

static int composite_checksum(const struct completion *completion,
                              struct object_checksum *checksum) {
    struct digest *digest = NULL;
    int err = digest_create(checksum->kind, &digest);
    if (err) return err;
    for (size_t i = 0; i < completion->count; i++)
        digest_update(digest, completion->chosen[i]->info.checksum.value,
                      digest_size(checksum->kind));
    digest_final(digest, checksum->kind, checksum->value);
    digest_destroy(&digest);
    return 0;
}

static void whole_checksum(const struct completion *completion, struct object_checksum *checksum) {
    size_t size = digest_size(checksum->kind);
    memcpy(checksum->value, completion->chosen[0]->info.checksum.value, size);
    for (size_t i = 1; i < completion->count; i++)
        checksum_combine(checksum->kind, checksum->value,
                         completion->chosen[i]->info.checksum.value,
                         completion->chosen[i]->info.size);
}

static int make_checksum(struct completion *completion) {
    const struct upload_info *info = &completion->upload->info;
    struct object_checksum *checksum = &completion->info.checksum;
    *checksum = (struct object_checksum){0};
    if (!info->checksum_kind) return 0;
    for (size_t i = 0; i < completion->count; i++)
        if (completion->chosen[i]->info.checksum.kind != info->checksum_kind)
            return ERR_INVALID_PART;
    checksum->kind = info->checksum_kind;
    checksum->composite = info->checksum_composite;
    if (checksum->composite) return composite_checksum(completion, checksum);
    whole_checksum(completion, checksum);
    return 0;
}

static int check_expected(const struct completion *completion) {
    const struct object_checksum *expected = completion->expected;
    if (!expected || !expected->kind) return 0;
    return same_checksum(expected, &completion->info.checksum) ? 0 : ERR_BAD_DIGEST;
}

static int describe(struct completion *completion) {
    const struct upload_info *info = &completion->upload->info;
    int err = choose_parts(completion);
    if (!err) err = make_etag(completion);
    if (!err) err = make_checksum(completion);
    if (!err) err = check_expected(completion);
    completion->info.modified_ms = clock_wall_ms();
    completion->info.headers = info->headers;
    completion->info.header_count = info->header_count;
    return err;
}

/* ---- the commit */

static int put_object_await(struct completion *completion, struct change *change) {
    const struct upload *upload = completion->upload;
    struct key key;
    key_object(&key, completion->bucket->id, upload->info.key);
    struct text record _cleanup_text_ = {0};
    record_encode_object(&record, key_slice(&key), &completion->info, upload->id, completion->blobs,
                         (unsigned)completion->count);
    if (record.failed) return -ENOMEM;
    bool nothing;
    return change_replace_object_await(change, completion->bucket, upload->info.key,
                                       completion->condition, text_slice(&record), &nothing);
}

/* The parts that were uploaded and not named. */
static int unlink_others_await(const struct completion *completion, struct change *change) {
    size_t next = 0;
    int err = 0;
    for (unsigned i = 0; !err && i < completion->parts.count; i++) {
        const struct stored_part *part = &completion->parts.list[i];
        if (next < completion->count && completion->chosen[next] == part)
            next++;
        else
            err = change_unlink_await(change, (struct blob_ref){part->blob_id, part->info.size});
    }
    return err;
}

static int commit_await(struct completion *completion, struct change *change) {
    int err = change_guard_bucket_await(change, completion->bucket);
    if (!err) err = put_object_await(completion, change);
    if (!err) err = unlink_others_await(completion, change);
    if (err) return err;
    upload_remove(completion->upload, &completion->parts, change);
    return change_commit_await(change);
}

static int check_present_await(struct store *store, const struct upload *upload) {
    struct meta_value *value = NULL;
    int err = meta_get_await(store->meta, META_UPLOADS, key_slice(&upload->key), &value);
    meta_value_unref(&value);
    return err == ERR_NOT_FOUND ? ERR_NO_SUCH_UPLOAD : err;
}

static int try_complete_await(struct store *store, struct completion *completion) {
    int err = parts_load_await(completion->upload, 0, OBJECT_PARTS_MAX, &completion->parts);
    /* In this order: an upload that is there now had all its parts when they were read, so that a
     * completion by another is never taken for missing parts. */
    if (!err) err = check_present_await(store, completion->upload);
    if (!err) err = describe(completion);
    if (err) return err;
    struct change change;
    err = change_begin(&change, store);
    if (!err) err = commit_await(completion, &change);
    change_end(&change);
    return err;
}

static int complete_await(struct store *store, struct completion *completion) {
    int err = ERR_CONFLICT;
    for (unsigned i = 0; err == ERR_CONFLICT && i < STORE_TRIES_MAX; i++) {
        if (i) fiber_yield_await();
        parts_deinit(&completion->parts);
        err = try_complete_await(store, completion);
    }
    return err;
}

int upload_complete_await(struct store *store, const struct bucket *bucket, struct upload *upload,
                          const struct part_info *parts, size_t count,
                          const struct object_condition *condition,
                          const struct object_checksum *expected_checksum,
                          char etag[OBJECT_ETAG_MAX + 1], struct object_checksum *checksum) {
    assert(upload->bucket_id == bucket->id);
    int err = check_claims(parts, count);
    if (err) return err;
    struct completion completion = {
        .bucket = bucket,
        .upload = upload,
        .claimed = parts,
        .count = count,
        .condition = condition,
        .expected = expected_checksum,
        .chosen = calloc(count, sizeof(completion.chosen[0])),
        .blobs = calloc(count, sizeof(completion.blobs[0])),
    };
    err = completion.chosen && completion.blobs ? complete_await(store, &completion) : -ENOMEM;
    if (!err) {
        memcpy(etag, completion.info.etag, sizeof(completion.info.etag));
        *checksum = completion.info.checksum;
    }
    parts_deinit(&completion.parts);
    free(completion.chosen);
    free(completion.blobs);
    if (err == ERR_NO_SUCH_UPLOAD)
        err = upload_completed_await(store, bucket, upload->info.key, slice_of(upload->info.id),
                                     etag, checksum);
    return err;
}

int upload_completed_await(struct store *store, const struct bucket *bucket, struct slice name,
                           struct slice upload_id, char etag[OBJECT_ETAG_MAX + 1],
                           struct object_checksum *checksum) {
    uint8_t id[UPLOAD_ID_BYTES];
    if (key_check_name(name) || !key_parse_upload_id(upload_id, id)) return ERR_NO_SUCH_UPLOAD;
    struct key key;
    key_object(&key, bucket->id, name);
    struct meta_value *value = NULL;
    int err = meta_get_await(store->meta, META_OBJECTS, key_slice(&key), &value);
    if (err) return err == ERR_NOT_FOUND ? ERR_NO_SUCH_UPLOAD : err;
    struct object_record record;
    err = record_decode_object(key_slice(&key), meta_value_slice(value), &record);
    if (!err && (!record.multipart || memcmp(record.upload_id, id, sizeof(id))))
        err = ERR_NO_SUCH_UPLOAD;
    if (!err) {
        memcpy(etag, record.etag.data, record.etag.size);
        etag[record.etag.size] = 0;
        *checksum = record.checksum;
    }
    meta_value_unref(&value);
    return err;
}
