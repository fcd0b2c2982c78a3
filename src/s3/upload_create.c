/* CreateMultipartUpload: the headers of the object to come are given now, its bytes later. */
#include "s3/headers.h"
#include "s3/integrity.h"
#include "s3/operations.h"
#include "s3/uploads.h"
#include "s3/xml_write.h"

static int respond_await(struct s3_request *req, const struct upload_info *upload) {
    struct text xml _cleanup_text_ = {0};
    xml_begin(&xml);
    xml_open_root(&xml, "InitiateMultipartUploadResult");
    xml_element(&xml, "Bucket", req->target.bucket);
    xml_element(&xml, "Key", req->target.key);
    xml_element(&xml, "UploadId", slice_of(upload->id));
    xml_close(&xml, "InitiateMultipartUploadResult");
    if (xml.failed) return -ENOMEM;
    respond_begin(req, 200);
    http_respond_header_slice(req->x, "Content-Type", SLICE_LITERAL("application/xml"));
    const struct checksum_name *name = checksum_by_kind(upload->checksum_kind);
    if (name) {
        http_respond_header_slice(req->x, "x-amz-checksum-algorithm", slice_of(name->algorithm));
        http_respond_header_slice(req->x, "x-amz-checksum-type",
                                  slice_of(uploads_checksum_type(upload->checksum_composite)));
    }
    return http_respond_body_await(req->x, xml.data, xml.size);
}

int s3_upload_create_await(struct s3_request *req) {
    struct bucket bucket;
    struct stored_headers headers;
    struct upload_info upload = {.key = req->target.key};
    int err = headers_collect(req, &headers);
    if (!err) err = uploads_parse_checksum(req, &upload.checksum_kind, &upload.checksum_composite);
    if (!err) err = bucket_get_await(request_store(req), req->target.bucket, &bucket);
    if (err) return err;
    upload.headers = headers.list;
    upload.header_count = headers.count;
    err = upload_create_await(request_store(req), &bucket, &upload);
    return err ? err : respond_await(req, &upload);
}
