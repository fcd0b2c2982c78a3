/* Receiving a payload. HTTP framing is net/'s; the aws-chunked framing inside it is decoded here
 * without copying payload: framing bytes are looked at where they lie, and what is between them is
 * received straight into the caller's memory. */
#include "s3/body.h"

#include <stdlib.h>

#include "base/error.h"
#include "runtime/worker.h"

#define DOCUMENT_FIRST_READ 8192
#define HASH_ON_WORKER_MIN  (64u * 1024)

static bool is_framed(enum payload_kind kind) {
    return kind == PAYLOAD_CHUNKED_SIGNED || kind == PAYLOAD_CHUNKED_SIGNED_TRAILER ||
           kind == PAYLOAD_CHUNKED_UNSIGNED_TRAILER;
}

/* x-amz-decoded-content-length; absent for a body that its sender could not measure. */
static int decoded_size(struct s3_request *req, uint64_t *size) {
    struct slice text = request_header(req, "x-amz-decoded-content-length");
    unsigned long long value;
    *size = BLOB_SIZE_UNKNOWN;
    if (!text.data) return 0;
    if (!slice_to_u64(text, &value) || value == BLOB_SIZE_UNKNOWN)
        return request_invalid_argument(req, "x-amz-decoded-content-length", text,
                                        "The length is not a number.");
    *size = value;
    return 0;
}

int payload_open(struct s3_request *req, uint64_t limit, struct payload *payload) {
    const struct http_request *http = &req->x->request;
    payload->req = req;
    payload->limit = limit;
    payload->received = 0;
    payload->framed = is_framed(req->auth.payload);
    if (!http->has_content_length && !http->chunked) return ERR_MISSING_CONTENT_LENGTH;
    payload->size = http->chunked ? BLOB_SIZE_UNKNOWN : http->content_length;
    if (payload->framed) {
        int err = decoded_size(req, &payload->size);
        if (err) return err;
        aws_chunked_init(&payload->framing, &req->auth, request_header(req, "x-amz-trailer"));
    }
    if (payload->size != BLOB_SIZE_UNKNOWN && payload->size > limit) return ERR_ENTITY_TOO_LARGE;
    return 0;
}

/* Decode framing until payload bytes are next. Returns 1, or 0 at the end, or an error. */
static int framing_advance_await(struct payload *payload) {
    struct aws_chunked *framing = &payload->framing;
    while (!framing->payload_remaining && !framing->finished) {
        struct slice view;
        int more = http_body_peek_await(payload->req->x, &view);
        if (more < 0) return more;
        if (!more) return ERR_INCOMPLETE_BODY;
        ssize_t used = aws_chunked_feed(framing, view);
        if (used < 0) return (int)used;
        http_body_consume(payload->req->x, (size_t)used);
    }
    return framing->finished ? 0 : 1;
}

struct chunk_hash {
    struct aws_chunked *framing;
    const void *data;
    size_t size;
};

static void hash_chunk(void *arg) {
    struct chunk_hash *chunk = arg;
    aws_chunked_payload(chunk->framing, chunk->data, chunk->size);
}

/* Only signed chunks are hashed here; a large piece of one keeps this core from nobody else. */
static void account_chunk_await(struct payload *payload, const void *data, size_t size) {
    struct chunk_hash chunk = {&payload->framing, data, size};
    bool is_signed = payload->req->auth.payload != PAYLOAD_CHUNKED_UNSIGNED_TRAILER;
    if (is_signed && size >= HASH_ON_WORKER_MIN) {
        worker_call_await(hash_chunk, &chunk);
    } else {
        hash_chunk(&chunk);
    }
}

static ssize_t read_framed_await(struct payload *payload, char *data, size_t size) {
    size_t done = 0;
    while (done < size) {
        int more = framing_advance_await(payload);
        if (more < 0) return more;
        if (!more) break;
        size_t piece = size - done;
        if (piece > payload->framing.payload_remaining)
            piece = (size_t)payload->framing.payload_remaining;
        ssize_t got = http_body_read_full_await(payload->req->x, data + done, piece);
        if (got < 0) return got;
        if ((size_t)got < piece) return ERR_INCOMPLETE_BODY;
        account_chunk_await(payload, data + done, piece);
        done += piece;
    }
    return (ssize_t)done;
}

static int check_end(const struct payload *payload) {
    if (payload->received > payload->limit) return ERR_ENTITY_TOO_LARGE;
    if (payload->size != BLOB_SIZE_UNKNOWN && payload->received > payload->size)
        return ERR_INCOMPLETE_BODY;
    return 0;
}

/* All bytes that were declared are here. Framing may go on with its last chunk and its trailers,
 * but not with more payload. */
static int finish_await(struct payload *payload) {
    if (!payload->framed) return 0;
    int more = framing_advance_await(payload);
    return more > 0 ? ERR_INCOMPLETE_BODY : more;
}

ssize_t payload_read_await(struct payload *payload, void *data, size_t size) {
    uint64_t left = payload->size - payload->received; /* huge when the size is unknown */
    if (size > left) size = (size_t)left;
    ssize_t got = 0;
    if (size) {
        got = payload->framed ? read_framed_await(payload, data, size)
                              : http_body_read_full_await(payload->req->x, data, size);
        if (got < 0) return got;
        payload->received += (uint64_t)got;
        int err = check_end(payload);
        if (err) return err;
        if ((size_t)got < size && payload->size != BLOB_SIZE_UNKNOWN) return ERR_INCOMPLETE_BODY;
    }
    if (payload->received == payload->size) {
        int err = finish_await(payload);
        if (err) return err;
    }
    return got;
}

const char *payload_trailer_name(const struct payload *payload) {
    return payload->framed ? payload->framing.trailer_name : "";
}

const char *payload_trailer_value(const struct payload *payload) {
    return payload->framed ? payload->framing.trailer_value : "";
}

static int read_all_await(struct payload *payload, char **data, size_t *size) {
    size_t capacity =
        payload->size != BLOB_SIZE_UNKNOWN ? (size_t)payload->size + 1 : DOCUMENT_FIRST_READ;
    for (;;) {
        char *grown = realloc(*data, capacity);
        if (!grown) return -ENOMEM;
        *data = grown;
        ssize_t got = payload_read_await(payload, *data + *size, capacity - *size);
        if (got < 0) return (int)got;
        *size += (size_t)got;
        if (*size < capacity) return 0;
        capacity *= 2;
    }
}

int payload_read_document_await(struct s3_request *req, struct integrity *integrity, size_t limit,
                                char **data, size_t *size) {
    *data = NULL;
    *size = 0;
    const struct http_request *http = &req->x->request;
    struct payload payload;
    int err = 0;
    if (http->chunked || http->has_content_length) {
        err = payload_open(req, limit, &payload);
        if (!err) err = read_all_await(&payload, data, size);
        if (!err)
            err = integrity_trailer(req, integrity, payload_trailer_name(&payload),
                                    payload_trailer_value(&payload));
    }
    if (!err) err = integrity_verify_document(req, integrity, (struct slice){*data, *size});
    if (err || !*size) {
        free(*data);
        *data = NULL;
    }
    return err;
}
