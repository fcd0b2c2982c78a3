/* GetBucketVersioning: never been enabled, which S3 says with an empty document. */
#include "s3/operations.h"
#include "s3/xml_write.h"

int s3_bucket_versioning_await(struct s3_request *req) {
    struct bucket bucket;
    int err = bucket_get_await(request_store(req), req->target.bucket, &bucket);
    if (err) return err;
    struct text xml _cleanup_text_ = {0};
    xml_begin(&xml);
    xml_open_root(&xml, "VersioningConfiguration");
    xml_close(&xml, "VersioningConfiguration");
    return respond_xml_await(req, &xml);
}
