/* HeadBucket: is it there, and in which region? */
#include "s3/operations.h"

int s3_bucket_head_await(struct s3_request *req) {
    struct bucket bucket;
    int err = bucket_get_await(request_store(req), req->target.bucket, &bucket);
    if (err) return err;
    respond_begin(req, 200);
    http_respond_header_slice(req->x, "x-amz-bucket-region", slice_of(bucket.region));
    http_respond_header_slice(req->x, "Content-Type", SLICE_LITERAL("application/xml"));
    return http_respond_body_await(req->x, NULL, 0);
}
