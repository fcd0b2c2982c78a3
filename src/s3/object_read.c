/* Look up, check conditions, choose the range: the common beginning of GET and HEAD. */
#include "s3/object_read.h"

#include "base/error.h"
#include "s3/preconditions.h"
#include "s3/range.h"

static int lookup_await(struct s3_request *req, struct object **object) {
    struct bucket bucket;
    int err = bucket_get_await(request_store(req), req->target.bucket, &bucket);
    return err ? err : object_open_await(request_store(req), &bucket, req->target.key, object);
}

static int respond_not_modified_await(struct s3_request *req, const struct object_info *info) {
    respond_begin(req, 304);
    headers_describe_version(req, info);
    for (unsigned i = 0; i < info->header_count; i++)
        if (slice_is(info->headers[i].name, "cache-control"))
            http_respond_header_slice(req->x, "Cache-Control", info->headers[i].value);
    return http_respond_body_await(req->x, NULL, 0);
}

int object_read_open_await(struct s3_request *req, struct object **object,
                           struct read_range *range) {
    *object = NULL;
    int err = request_check_version(req);
    if (!err) err = headers_check_overrides(req);
    if (!err) err = lookup_await(req, object);
    if (err) return err;
    err = preconditions_read(req, object_info(*object));
    bool not_modified = err == ERR_NOT_MODIFIED;
    if (not_modified) err = respond_not_modified_await(req, object_info(*object));
    if (!err && !not_modified) err = range_select(req, *object, range);
    if (err || not_modified) object_close(object);
    return err;
}
