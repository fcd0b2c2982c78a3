/* One-sided GET and PUT. Choices where clients and servers differ:
 * - A range or part is answered with HTTP 206 and reply 206, also when it covers the whole object.
 * - An object (or range) longer than the client's buffer is 400 InvalidArgument before any byte of
 *   the buffer is written.
 * - An object stored this way has an opaque ETag, 32 hexadecimal digits and "-1": no MD5 is
 *   computed, and the suffix keeps clients from taking it for one. Its CRC64NVME is computed, kept
 *   and answered, whatever checksum the client sent (that one is verified); a part of an upload
 *   that declared another algorithm gets that one instead.
 * - A GET whose transfer failed may have written part of the buffer: 500 RDMATransferFailed. */
#include "s3/one_sided.h"

#include "base/clock.h"
#include "base/encode.h"
#include "base/error.h"
#include "s3/hasher.h"

struct slice one_sided_token(const struct s3_request *req) {
    return request_header(req, "x-amz-rdma-token");
}

void one_sided_expect_no_body(struct s3_request *req) {
    if (one_sided_token(req).data) http_body_expect_none(req->x);
}

/* A token is a capability on somebody's memory: only the signer may have chosen it. */
static int open_target(struct s3_request *req, struct slice token,
                       struct transfer_target **target) {
    struct transfer_service *service = req->service->options.transfers;
    if (!auth_header_is_signed(&req->auth, "x-amz-rdma-token"))
        return request_fail(req, ERR_ACCESS_DENIED, "The header x-amz-rdma-token must be signed.");
    int err = ERR_RDMA_NOT_SUPPORTED;
    const char *detail = NULL;
    if (service)
        err = transfer_open(service, token, req->auth.identity->access_key, target, &detail);
    if (err == ERR_INVALID_RDMA_TOKEN && detail)
        return request_fail(req, err, "The x-amz-rdma-token is not valid: %s", detail);
    if (err == ERR_RDMA_NOT_SUPPORTED)
        atomic_fetch_add_explicit(&req->service->declined, 1, memory_order_relaxed);
    if (!err) req->transfer = transfer_name(*target);
    return err;
}

/* ---- PUT */

static unsigned blocks_for(uint64_t size) {
    uint64_t blocks = (size + BLOCK_MAX_SIZE - 1) / BLOCK_MAX_SIZE;
    return blocks < S3_PULL_BLOCKS_MAX ? (unsigned)blocks : S3_PULL_BLOCKS_MAX;
}

/* One batch of blocks: taken together, pulled, hashed, appended. Adds to *done. */
static int pull_batch_await(struct s3_request *req, struct transfer_target *target, uint64_t size,
                            struct hasher *hasher, struct blob_writer *writer, uint64_t *done) {
    struct block *blocks[S3_PULL_BLOCKS_MAX] = {0};
    unsigned count = blocks_for(size - *done);
    enum block_class class = pool_class_for(size - *done);
    int err = pool_take_await(req->service->options.pool, class, count, blocks,
                              clock_deadline_ms(req->service->options.memory_wait_ms));
    if (err) return err == -ETIME ? ERR_SLOW_DOWN : err;
    for (unsigned i = 0; i < count && !err; i++) {
        uint64_t left = size - *done;
        uint32_t piece = left < blocks[i]->capacity ? (uint32_t)left : blocks[i]->capacity;
        err = transfer_pull_await(target, *done, blocks[i], piece);
        if (err) break;
        blocks[i]->size = piece;
        hasher_update_await(hasher, blocks[i]);
        err = blob_writer_append_await(writer, blocks[i]);
        *done += piece;
    }
    for (unsigned i = 0; i < count; i++) block_unref(&blocks[i]);
    return err;
}

static int pull_all_await(struct s3_request *req, struct transfer_target *target, uint64_t size,
                          struct hasher *hasher, struct blob_writer *writer) {
    uint64_t done = 0;
    int err = 0;
    http_watch_client_begin(req->x);
    while (!err && done < size) err = pull_batch_await(req, target, size, hasher, writer, &done);
    http_watch_client_end_await(req->x);
    req->rdma_bytes = done;
    return err;
}

/* The signed hash may be that of the HTTP body, which is empty: it says nothing of the buffer then.
 * Any other is taken to be the buffer's. */
static int check_payload_kind(struct s3_request *req, struct integrity *integrity) {
    bool whole = req->auth.payload == PAYLOAD_HASH || req->auth.payload == PAYLOAD_UNSIGNED;
    if (!whole || integrity->trailer)
        return request_fail(req, ERR_INVALID_REQUEST,
                            "A request with x-amz-rdma-token has no body that could be chunked.");
    uint8_t empty[SHA256_SIZE];
    sha256("", 0, empty);
    if (!integrity->has_sha256 || memcmp(empty, integrity->sha256, sizeof empty)) return 0;
    integrity->has_sha256 = false;
    if (integrity->given.kind != DIGEST_SHA256) integrity->kinds &= ~(unsigned)DIGEST_SHA256;
    return 0;
}

static int pull_and_verify_await(struct s3_request *req, struct transfer_target *target,
                                 const struct integrity *integrity, enum digest_kind keep,
                                 struct received *received) {
    struct hasher hasher;
    int err = hasher_init(&hasher, integrity->kinds);
    if (err) return err;
    received->size = transfer_size(target);
    err = blob_writer_open(store_blobs(request_store(req)), received->size, &received->writer);
    if (!err) err = pull_all_await(req, target, received->size, &hasher, received->writer);
    struct integrity_result result = {0};
    if (!err) {
        hasher_finish_await(&hasher);
        err = integrity_verify(req, integrity, hasher.digest, keep, &result);
    }
    hasher_deinit_await(&hasher);
    if (!err) received->checksum = result.checksum;
    return err;
}

static void opaque_etag(char etag[OBJECT_ETAG_MAX + 1]) {
    uint8_t random[16];
    random_bytes(random, sizeof random);
    hex_encode(random, sizeof random, etag);
    memcpy(etag + 2 * sizeof random, "-1", 3);
}

int one_sided_receive_await(struct s3_request *req, struct slice token, struct integrity *integrity,
                            enum digest_kind declared, struct received *received) {
    struct transfer_target *target = NULL;
    int err = check_payload_kind(req, integrity);
    if (!err) err = open_target(req, token, &target);
    if (err) return err;
    enum digest_kind keep = declared ? declared : DIGEST_CRC64NVME;
    integrity->kinds |= keep;
    received->one_sided = true;
    opaque_etag(received->etag);
    if (transfer_size(target) > BLOB_MAX_SIZE) {
        err = ERR_ENTITY_TOO_LARGE;
    } else {
        err = pull_and_verify_await(req, target, integrity, keep, received);
    }
    transfer_close(&target);
    if (!err) atomic_fetch_add_explicit(&req->service->one_sided_put, 1, memory_order_relaxed);
    return err;
}

static void respond_moved(struct s3_request *req, const char *reply, uint64_t bytes) {
    http_respond_header_slice(req->x, "x-amz-rdma-reply", slice_of(reply));
    http_respond_header(req->x, "x-amz-rdma-bytes-transferred", "%llu", (unsigned long long)bytes);
}

void one_sided_respond(struct s3_request *req, const struct received *received) {
    respond_moved(req, "200", received->size);
}

/* ---- GET */

static int push_all_await(struct transfer_target *target, struct object_reader *reader) {
    for (uint64_t done = 0;;) {
        struct block *blocks[S3_READ_BLOCKS_MAX];
        unsigned count = 0;
        uint32_t offset = 0;
        uint64_t size = 0;
        int err =
            object_reader_next_await(reader, blocks, S3_READ_BLOCKS_MAX, &count, &offset, &size);
        if (err || !count) return err;
        err = transfer_push_await(target, done, blocks, count, offset, size);
        for (unsigned i = 0; i < count; i++) block_unref(&blocks[i]);
        if (err) return err;
        done += size;
    }
}

static int push_range_await(struct s3_request *req, struct transfer_target *target,
                            struct object *object, const struct read_range *range) {
    if (range->size > transfer_size(target))
        return request_fail(req, ERR_INVALID_ARGUMENT,
                            "The buffer of %llu bytes is smaller than the %llu bytes to be read.",
                            (unsigned long long)transfer_size(target),
                            (unsigned long long)range->size);
    if (!range->size) return 0;
    struct object_reader *reader = NULL;
    http_watch_client_begin(req->x);
    int err = object_reader_open_await(object, range->offset, range->size, &reader);
    if (!err) err = push_all_await(target, reader);
    object_reader_close_await(&reader);
    http_watch_client_end_await(req->x);
    return err;
}

int one_sided_send_await(struct s3_request *req, struct slice token, struct object *object,
                         const struct read_range *range, bool *declined) {
    struct transfer_target *target = NULL;
    int err = open_target(req, token, &target);
    *declined = req->rdma_declined = err == ERR_RDMA_NOT_SUPPORTED;
    if (*declined) return 0;
    if (!err) err = push_range_await(req, target, object, range);
    transfer_close(&target);
    if (err) return err;
    req->rdma_bytes = range->size;
    atomic_fetch_add_explicit(&req->service->one_sided_get, 1, memory_order_relaxed);
    headers_describe(req, object_info(object), range);
    respond_moved(req, range->partial ? "206" : "200", range->size);
    return http_respond_body_await(req->x, NULL, 0);
}
