/* DELETE of one object. What is not there is deleted already. */
#include "s3/operations.h"
#include "s3/preconditions.h"

int s3_object_delete_await(struct s3_request *req) {
    struct bucket bucket;
    struct write_precondition precondition;
    int err = request_check_version(req);
    if (!err) err = preconditions_write(req, &precondition);
    if (!err) err = bucket_get_await(request_store(req), req->target.bucket, &bucket);
    if (!err)
        err = object_delete_await(request_store(req), &bucket, req->target.key,
                                  &precondition.condition);
    return err ? err : respond_empty_await(req, 204);
}
