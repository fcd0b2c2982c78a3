/* CreateBucket. A configuration may name the region, which must be ours; what else S3 can put into
 * it (directory buckets, tags) is refused, because a bucket made without it would be another. */
#include <stdlib.h>

#include "base/error.h"
#include "s3/body.h"
#include "s3/operations.h"
#include "s3/xml_read.h"

static int check_constraint(struct s3_request *req, struct slice constraint) {
    if (!constraint.size || slice_is(constraint, req->service->options.region)) return 0;
    return request_fail(req, ERR_INVALID_LOCATION,
                        "The %.*s location constraint is incompatible for the region specific "
                        "endpoint this request was sent to.",
                        (int)constraint.size, constraint.data);
}

static int check_event(struct s3_request *req, const struct xml_event *event) {
    if (event->depth == 1)
        return slice_is(slice_of(event->name), "CreateBucketConfiguration") ? 0 : ERR_MALFORMED_XML;
    if (xml_is_leaf(event, 2, "LocationConstraint")) return check_constraint(req, event->text);
    if (event->kind == XML_CLOSE) return 0;
    return request_fail(req, ERR_NOT_IMPLEMENTED,
                        "%s in CreateBucketConfiguration is not implemented.", event->name);
}

static int check_configuration(struct s3_request *req, struct slice document) {
    struct xml_reader *reader = NULL;
    struct xml_event event = {0};
    int err = xml_reader_open(document, &reader);
    while (!err && !(err = xml_next(reader, &event)) && event.kind != XML_END)
        err = check_event(req, &event);
    xml_reader_close(&reader);
    return err;
}

int s3_bucket_create_await(struct s3_request *req) {
    char *document = NULL;
    size_t size = 0;
    struct integrity integrity;
    int err = integrity_parse(req, &integrity);
    if (!err) err = payload_read_document_await(req, &integrity, S3_DOCUMENT_MAX, &document, &size);
    if (!err && document) err = check_configuration(req, (struct slice){document, size});
    free(document);
    if (err) return err;

    const char *region = req->service->options.region;
    err = bucket_create_await(request_store(req), req->target.bucket, region);
    /* In its oldest region, S3 lets the owner create a bucket again. */
    if (err == ERR_BUCKET_ALREADY_OWNED && !strcmp(region, "us-east-1")) err = 0;
    if (err) return err;
    respond_begin(req, 200);
    http_respond_header(req->x, "Location", "/%.*s", (int)req->target.bucket.size,
                        req->target.bucket.data);
    return http_respond_body_await(req->x, NULL, 0);
}
