/* ps_get and ps_put: whole objects and ranges, in pieces where they are large. */
#include <stdlib.h>
#include <string.h>

#include "client/client.h"

/* ---- GET */

struct get_rest {
    ps_client *client;
    struct piece first; /* as the caller asked, with the first answer's ETag */
    uint64_t end;       /* of the range, in the object */
    uint64_t part_size;
};

static int get_one(void *ctx, unsigned worker, uint64_t index, ps_result *result) {
    (void)worker;
    struct get_rest *rest = ctx;
    struct piece piece = rest->first;
    uint64_t skipped = (index + 1) * rest->part_size; /* the first piece is there already */
    piece.offset += skipped;
    piece.buffer_offset += skipped;
    piece.length =
        rest->end - piece.offset < rest->part_size ? rest->end - piece.offset : rest->part_size;
    int err = piece_get(rest->client, &piece, result);
    if (!err && result->bytes != piece.length)
        return result_fail(result, PS_ERR_PROTOCOL, "the server moved %llu bytes of %llu",
                           (unsigned long long)result->bytes, (unsigned long long)piece.length);
    return err;
}

/* Pieces after the first, with If-Match: an overwrite in between is an error, never a mixture. */
static int get_rest(ps_client *client, const struct piece *first, uint64_t end, uint64_t part_size,
                    ps_result *result) {
    ps_result rest_result = {0};
    struct get_rest rest = {client, *first, end, part_size};
    char etag[72];
    memcpy(etag, result->etag, sizeof(etag));
    rest.first.if_match = etag[0] ? etag : NULL;
    uint64_t left = end - first->offset - part_size;
    int err = parallel_run(client->parallel, (left + part_size - 1) / part_size, get_one, &rest,
                           &rest_result);
    if (err) {
        *result = rest_result;
        return err;
    }
    if (rest_result.fallback_reason[0]) {
        result->via = rest_result.via;
        memcpy(result->transfer, rest_result.transfer, sizeof(result->transfer));
        memcpy(result->fallback_reason, rest_result.fallback_reason,
               sizeof(result->fallback_reason));
    }
    result->bytes = end - first->offset;
    return 0;
}

PS_API int ps_get(ps_client *client, const char *bucket, const char *key, uint64_t offset,
                  uint64_t length, ps_buffer *buffer, uint64_t buffer_offset, enum ps_via via,
                  ps_result *given) {
    ps_result own, *result = result_begin(given, &own);
    if (!buffer || buffer_offset >= buffer->size)
        return result_fail(result, PS_ERR_ARGUMENT, "buffer_offset lies outside the buffer");
    uint64_t room = buffer->size - buffer_offset;
    if (length > room)
        return result_fail(result, PS_ERR_TOO_SMALL, "the range has %llu bytes, the buffer %llu",
                           (unsigned long long)length, (unsigned long long)room);
    uint64_t most = length ? length : room;
    uint64_t part_size = client->part_size;
    struct piece piece = {
        .bucket = bucket,
        .key = key,
        .buffer = buffer,
        .buffer_offset = buffer_offset,
        .offset = offset,
        .length = most < part_size ? most : part_size,
        .via = via,
    };
    int err = piece_get(client, &piece, result);
    if (err) return err;
    uint64_t end = length && offset + length < result->size ? offset + length : result->size;
    if (end > offset && end - offset > room)
        return result_fail(result, PS_ERR_TOO_SMALL, "the object has %llu bytes, the buffer %llu",
                           (unsigned long long)result->size, (unsigned long long)room);
    if (end <= offset + piece.length) return 0;
    return get_rest(client, &piece, end, part_size, result);
}

/* ---- PUT */

struct put_parts {
    struct multipart *upload;
    struct piece whole;
    uint64_t part_size;
};

static int put_one(void *ctx, unsigned worker, uint64_t index, ps_result *result) {
    (void)worker;
    struct put_parts *parts = ctx;
    struct piece piece = parts->whole;
    uint64_t skipped = index * parts->part_size;
    piece.buffer_offset += skipped;
    piece.length =
        piece.length - skipped < parts->part_size ? piece.length - skipped : parts->part_size;
    piece.upload_id = parts->upload->upload_id;
    piece.part_number = (unsigned)index + 1;
    int err = piece_put(parts->upload->client, &piece, result);
    if (!err)
        memcpy(parts->upload->etags[index], result->etag, sizeof(parts->upload->etags[index]));
    return err;
}

static int put_multipart(ps_client *client, const struct piece *whole, ps_result *result) {
    uint64_t part_size = multipart_part_size(whole->length, client->part_size);
    struct multipart upload = {
        .client = client,
        .bucket = whole->bucket,
        .key = whole->key,
        .parts = (unsigned)((whole->length + part_size - 1) / part_size),
    };
    int err = multipart_begin(&upload, result);
    if (err) return err;
    struct put_parts parts = {&upload, *whole, part_size};
    err = parallel_run(client->parallel, upload.parts, put_one, &parts, result);
    if (!err) err = multipart_complete(&upload, result);
    if (err) multipart_abort(&upload);
    free(upload.etags);
    result->bytes = result->size = err ? 0 : whole->length;
    return err;
}

PS_API int ps_put(ps_client *client, const char *bucket, const char *key, ps_buffer *buffer,
                  uint64_t buffer_offset, uint64_t size, enum ps_via via, ps_result *given) {
    ps_result own, *result = result_begin(given, &own);
    if (!buffer || buffer_offset > buffer->size || size > buffer->size - buffer_offset)
        return result_fail(result, PS_ERR_ARGUMENT, "the range lies outside the buffer");
    struct piece piece = {
        .bucket = bucket,
        .key = key,
        .buffer = buffer,
        .buffer_offset = buffer_offset,
        .length = size,
        .via = via,
    };
    return size <= client->part_size ? piece_put(client, &piece, result)
                                     : put_multipart(client, &piece, result);
}
