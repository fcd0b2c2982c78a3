/* DeleteBucket: only when nothing is in it. */
#include "s3/operations.h"

int s3_bucket_delete_await(struct s3_request *req) {
    int err = bucket_delete_await(request_store(req), req->target.bucket);
    return err ? err : respond_empty_await(req, 204);
}
