/* PUT: receive an object into new space, then make it the one that its name stands for. Nothing is
 * stored, and what was there stays, on any error. */
#include "s3/headers.h"
#include "s3/operations.h"
#include "s3/preconditions.h"
#include "s3/receive.h"

static int commit_await(struct s3_request *req, const struct bucket *bucket,
                        const struct stored_headers *headers,
                        const struct object_condition *condition, struct received *received) {
    struct object_write write = {
        .key = req->target.key,
        .info = {.checksum = received->checksum,
                 .headers = headers->list,
                 .header_count = headers->count},
        .condition = *condition,
    };
    memcpy(write.info.etag, received->etag, sizeof write.info.etag);
    int err = object_commit_await(request_store(req), bucket, &write, &received->writer);
    if (err) received_discard_await(received);
    return err;
}

/* UploadPart without its upload would be stored as a whole object. */
static int refuse_part_without_upload(struct s3_request *req) {
    struct slice part = request_parameter(req, "partNumber");
    if (!part.data) return 0;
    return request_invalid_argument(req, "partNumber", part, "This operation needs an uploadId.");
}

int s3_object_put_await(struct s3_request *req) {
    struct bucket bucket;
    struct stored_headers headers;
    struct write_precondition precondition;
    int err = refuse_part_without_upload(req);
    if (!err) err = headers_collect(req, &headers);
    if (!err) err = preconditions_write(req, &precondition);
    if (!err) err = bucket_get_await(request_store(req), req->target.bucket, &bucket);
    if (!err) err = preconditions_check_early_await(req, &bucket, &precondition.condition);
    if (err) return err;

    struct received received;
    err = receive_await(req, 0, &received);
    if (!err) err = commit_await(req, &bucket, &headers, &precondition.condition, &received);
    return err ? err : received_respond_await(req, &received);
}
