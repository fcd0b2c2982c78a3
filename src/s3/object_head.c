/* HEAD: what a GET would say, without the bytes. */
#include "s3/object_read.h"
#include "s3/operations.h"

int s3_object_head_await(struct s3_request *req) {
    struct object *object = NULL;
    struct read_range range;
    int err = object_read_open_await(req, &object, &range);
    if (err || !object) return err; /* without an object: 304 has been answered */
    headers_describe(req, object_info(object), &range);
    object_close(&object);
    return http_respond_body_await(req->x, NULL, range.size);
}
