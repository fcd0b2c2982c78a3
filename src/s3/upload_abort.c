/* AbortMultipartUpload: its parts are gone, also those that are still arriving. */
#include "s3/operations.h"
#include "s3/uploads.h"

int s3_upload_abort_await(struct s3_request *req) {
    struct bucket bucket;
    struct upload *upload = NULL;
    int err = uploads_open_await(req, &bucket, &upload);
    if (!err) err = upload_abort_await(request_store(req), upload);
    upload_close(&upload);
    return err ? err : respond_empty_await(req, 204);
}
