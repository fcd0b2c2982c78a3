/* Receiving a payload into a blob. Copies of a payload byte over HTTP: one, by the kernel, from the
 * socket into the block that is hashed and written from where it lies. One-sided: one_sided.c. */
#include "s3/receive.h"

#include "base/error.h"
#include "s3/body.h"
#include "s3/hasher.h"
#include "s3/one_sided.h"

/* The smallest block for what is left; a body of unknown length may be long. */
static enum block_class class_for(const struct payload *payload) {
    if (payload->size == BLOB_SIZE_UNKNOWN) return BLOCK_256K;
    return pool_class_for(payload->size - payload->received);
}

/* Block after block: receive, hash and write overlap, each on its own block. */
static int pump_await(struct payload *payload, struct hasher *hasher, struct blob_writer *writer) {
    while (payload->received < payload->size) {
        struct block *block = NULL;
        int err = request_take_blocks_await(payload->req, class_for(payload), 1, &block);
        if (err) return err;
        ssize_t got = payload_read_await(payload, block->data, block->capacity);
        if (got > 0) {
            block->size = (uint32_t)got;
            hasher_update_await(hasher, block);
            err = blob_writer_append_await(writer, block);
        }
        bool last = got < (ssize_t)block->capacity;
        block_unref(&block);
        if (got < 0) return (int)got;
        if (err || last) return err;
    }
    return 0;
}

/* An empty body has framing and a trailer all the same. */
static int receive_all_await(struct payload *payload, struct hasher *hasher,
                             struct blob_writer *writer) {
    if (payload->size) return pump_await(payload, hasher, writer);
    ssize_t got = payload_read_await(payload, NULL, 0);
    return got < 0 ? (int)got : 0;
}

static int receive_body_await(struct s3_request *req, struct integrity *integrity,
                              enum digest_kind keep, struct received *received) {
    struct payload payload;
    int err = payload_open(req, BLOB_MAX_SIZE, &payload);
    if (err) return err;
    struct hasher hasher;
    err = hasher_init(&hasher, integrity->kinds);
    if (err) return err;
    err = blob_writer_open(store_blobs(request_store(req)), payload.size, &received->writer);
    if (!err) err = receive_all_await(&payload, &hasher, received->writer);
    if (!err)
        err = integrity_trailer(req, integrity, payload_trailer_name(&payload),
                                payload_trailer_value(&payload));
    struct integrity_result result = {0};
    if (!err) {
        hasher_finish_await(&hasher);
        err = integrity_verify(req, integrity, hasher.digest, keep, &result);
    }
    hasher_deinit_await(&hasher);
    if (err) return err;
    received->size = payload.received;
    received->checksum = result.checksum;
    memcpy(received->etag, result.md5, sizeof result.md5);
    return 0;
}

/* Which checksum is kept with the object: the upload's, else the client's. */
static int choose_checksum(struct s3_request *req, struct integrity *integrity,
                           enum digest_kind declared, enum digest_kind *keep) {
    enum digest_kind given = integrity->trailer ? integrity->trailer->kind : integrity->given.kind;
    if (declared && given && declared != given)
        return request_fail(req, ERR_INVALID_REQUEST,
                            "Checksum Type mismatch occurred, expected checksum Type: %s, actual "
                            "checksum Type: %s",
                            checksum_by_kind(declared)->algorithm,
                            checksum_by_kind(given)->algorithm);
    *keep = declared ? declared : given;
    integrity->kinds |= *keep;
    return 0;
}

int receive_await(struct s3_request *req, enum digest_kind declared, struct received *received) {
    memset(received, 0, sizeof *received);
    struct integrity integrity;
    enum digest_kind keep = 0;
    int err = integrity_parse(req, &integrity);
    if (!err) err = choose_checksum(req, &integrity, declared, &keep);
    if (err) return err;
    struct slice token = one_sided_token(req);
    if (token.data) {
        err = one_sided_receive_await(req, token, &integrity, declared, received);
    } else {
        integrity.kinds |= DIGEST_MD5; /* the ETag */
        err = receive_body_await(req, &integrity, keep, received);
    }
    if (err) received_discard_await(received);
    return err;
}

/* Giving space back must also work for a request whose client has gone. */
void received_discard_await(struct received *received) {
    if (!received->writer) return;
    fiber_shield_begin();
    blob_writer_abort_await(&received->writer);
    fiber_shield_end();
}

int received_respond_await(struct s3_request *req, const struct received *received) {
    respond_begin(req, 200);
    http_respond_header(req->x, "ETag", "\"%s\"", received->etag);
    integrity_respond_checksum(req, &received->checksum, 0);
    if (received->one_sided) one_sided_respond(req, received);
    return http_respond_body_await(req->x, NULL, 0);
}
