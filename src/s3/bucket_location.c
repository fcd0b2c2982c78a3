/* GetBucketLocation: empty for us-east-1, which is how S3 says it. */
#include "s3/operations.h"
#include "s3/xml_write.h"

int s3_bucket_location_await(struct s3_request *req) {
    struct bucket bucket;
    int err = bucket_get_await(request_store(req), req->target.bucket, &bucket);
    if (err) return err;
    struct slice region = slice_of(bucket.region);
    if (slice_is(region, "us-east-1")) region.size = 0;
    struct text xml _cleanup_text_ = {0};
    xml_begin(&xml);
    xml_open_root(&xml, "LocationConstraint");
    text_append_xml(&xml, region);
    xml_close(&xml, "LocationConstraint");
    return respond_xml_await(req, &xml);
}
