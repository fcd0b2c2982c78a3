/* UploadPart: a PUT whose bytes wait for CompleteMultipartUpload. */
#include "base/error.h"
#include "s3/operations.h"
#include "s3/receive.h"
#include "s3/uploads.h"

static int part_number(struct s3_request *req, unsigned *number) {
    struct slice text = request_parameter(req, "partNumber");
    unsigned long long value;
    if (!slice_to_u64(text, &value) || value < 1 || value > OBJECT_PARTS_MAX)
        return request_invalid_argument(req, "partNumber", text, error_text(ERR_TOO_MANY_PARTS));
    *number = (unsigned)value;
    return 0;
}

static int receive_part_await(struct s3_request *req, struct upload *upload, unsigned number,
                              struct received *received) {
    int err = receive_await(req, upload_info(upload)->checksum_kind, received);
    if (err) return err;
    struct part_info part = {
        .number = number, .size = received->size, .checksum = received->checksum};
    memcpy(part.etag, received->etag, sizeof part.etag);
    err = upload_put_part_await(request_store(req), upload, &part, &received->writer);
    if (err) received_discard_await(received);
    return err;
}

int s3_upload_part_await(struct s3_request *req) {
    unsigned number = 0;
    struct bucket bucket;
    struct upload *upload = NULL;
    struct received received;
    int err = part_number(req, &number);
    if (!err) err = uploads_open_await(req, &bucket, &upload);
    if (err) return err;
    err = receive_part_await(req, upload, number, &received);
    upload_close(&upload);
    return err ? err : received_respond_await(req, &received);
}
