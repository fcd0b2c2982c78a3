/* GET: stream an object, or a range of it, to wherever the client asked for it. */
#include "s3/object_read.h"
#include "s3/one_sided.h"
#include "s3/operations.h"

/* Send what the reader gives until it gives no more. The head goes out with the first blocks. The
 * blocks are the cache's own: no copy is made but the kernel's. */
static int send_all_await(struct s3_request *req, struct object *object,
                          const struct read_range *range, struct object_reader *reader) {
    for (bool first = true;; first = false) {
        struct block *blocks[S3_READ_BLOCKS_MAX];
        unsigned count = 0;
        uint32_t offset = 0;
        uint64_t size = 0;
        int err =
            object_reader_next_await(reader, blocks, S3_READ_BLOCKS_MAX, &count, &offset, &size);
        if (err || !count) return err;
        /* Only now: a read that fails at once can still be answered with an error. */
        if (first) {
            headers_describe(req, object_info(object), range);
            http_respond_stream(req->x, range->size);
        }
        err = http_send_blocks_await(req->x, blocks, count, offset, size);
        for (unsigned i = 0; i < count; i++) block_unref(&blocks[i]);
        if (err) return err;
    }
}

static int send_body_await(struct s3_request *req, struct object *object,
                           const struct read_range *range) {
    if (!range->size) {
        headers_describe(req, object_info(object), range);
        return http_respond_body_await(req->x, NULL, 0);
    }
    struct object_reader *reader = NULL;
    int err = object_reader_open_await(object, range->offset, range->size, &reader);
    if (!err) err = send_all_await(req, object, range, reader);
    object_reader_close_await(&reader);
    return err;
}

int s3_object_get_await(struct s3_request *req) {
    struct object *object = NULL;
    struct read_range range;
    int err = object_read_open_await(req, &object, &range);
    if (err || !object) return err; /* without an object: 304 has been answered */

    bool over_http = true;
    struct slice token = one_sided_token(req);
    if (token.data) err = one_sided_send_await(req, token, object, &range, &over_http);
    if (!err && over_http) err = send_body_await(req, object, &range);
    object_close(&object);
    return err;
}
