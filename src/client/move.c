/* One GET or PUT of at most one buffer: one-sided where that is wanted and possible, else in the
 * HTTP body. What is reported is what the answer says happened, never what was meant to. */
#include <stdio.h>
#include <string.h>

#include "client/client.h"

/* What a try ended with, beside its error. */
enum outcome { FINAL, TOKEN_UNKNOWN };

static enum ps_via wanted_via(const ps_client *client, const struct piece *piece) {
    return piece->via == PS_VIA_AUTO ? client->via : piece->via;
}

static void moved(ps_result *result, enum ps_via via, uint64_t bytes) {
    result->via = via;
    result->bytes = bytes;
    strcpy(result->transfer, via == PS_VIA_ONE_SIDED ? "shm" : "http");
}

static void add_get_headers(struct call *call, const struct piece *piece) {
    call_header(call, "range", "bytes=%llu-%llu", (unsigned long long)piece->offset,
                (unsigned long long)(piece->offset + piece->length - 1));
    if (piece->if_match) call_header(call, "if-match", "\"%s\"", piece->if_match);
}

/* An empty object has no range: a server says so by 416 and a size of 0. */
static bool is_empty_object(const struct call *call, const struct piece *piece) {
    return call->status == 416 && piece->offset == 0 && call->has_range && call->range_total == 0;
}

static int read_get_answer(const struct call *call, const struct piece *piece, bool one_sided,
                           ps_result *result) {
    result->size = call->has_range ? call->range_total : call->received;
    if (one_sided && (!strcmp(call->rdma_reply, "200") || !strcmp(call->rdma_reply, "206"))) {
        if (!call->has_rdma_bytes || call->rdma_bytes > piece->length)
            return result_fail(result, PS_ERR_PROTOCOL, "the server does not say what it moved");
        moved(result, PS_VIA_ONE_SIDED, call->rdma_bytes);
        return 0;
    }
    moved(result, PS_VIA_HTTP, call->received);
    if (one_sided)
        snprintf(result->fallback_reason, sizeof(result->fallback_reason),
                 "the server declined the transfer (reply %s)",
                 call->rdma_reply[0] ? call->rdma_reply : "missing");
    return 0;
}

static int get_once(ps_client *client, const struct piece *piece, const char *token,
                    ps_result *result, enum outcome *outcome) {
    struct call call _cleanup_call_ = {
        .method = "GET",
        .bucket = piece->bucket,
        .key = piece->key,
        .into = (char *)piece->buffer->data + piece->buffer_offset,
        .into_size = piece->length,
    };
    add_get_headers(&call, piece);
    if (token) call_header(&call, "x-amz-rdma-token", "%s", token);
    int err = call_perform(client, &call, result);
    *outcome =
        err == PS_ERR_S3 && !strcmp(result->code, "InvalidRDMAToken") ? TOKEN_UNKNOWN : FINAL;
    if (err && is_empty_object(&call, piece)) {
        *result = (ps_result){.status = 200};
        memcpy(result->etag, call.etag, sizeof(result->etag));
        moved(result, token ? PS_VIA_ONE_SIDED : PS_VIA_HTTP, 0);
        return 0;
    }
    return err ? err : read_get_answer(&call, piece, token != NULL, result);
}

static int put_once(ps_client *client, const struct piece *piece, const char *token,
                    ps_result *result, enum outcome *outcome) {
    struct call call _cleanup_call_ = {.method = "PUT", .bucket = piece->bucket, .key = piece->key};
    if (piece->upload_id) {
        text_append_format(&call.query, "partNumber=%u&uploadId=", piece->part_number);
        text_append_uri(&call.query, slice_of(piece->upload_id), false);
    }
    if (token) {
        call_header(&call, "x-amz-rdma-token", "%s", token);
    } else {
        call.body = (char *)piece->buffer->data + piece->buffer_offset;
        call.body_size = piece->length;
    }
    int err = call_perform(client, &call, result);
    *outcome =
        err == PS_ERR_S3 && !strcmp(result->code, "InvalidRDMAToken") ? TOKEN_UNKNOWN : FINAL;
    if (err) return err;
    result->size = piece->length;
    if (token && strcmp(call.rdma_reply, "200") && strcmp(call.rdma_reply, "204"))
        return result_fail(result, PS_ERR_PROTOCOL,
                           "the server took the request and not the memory behind it");
    moved(result, token ? PS_VIA_ONE_SIDED : PS_VIA_HTTP, piece->length);
    return 0;
}

typedef int once_fn(ps_client *client, const struct piece *piece, const char *token,
                    ps_result *result, enum outcome *outcome);

/* One-sided, and once more with a fresh registration when the server does not know the old one (it
 * was restarted). True when *err is the end of it; false with the reason to use HTTP instead. */
static bool try_one_sided(ps_client *client, const struct piece *piece, once_fn *once,
                          ps_result *result, int *err, char reason[160]) {
    for (int attempt = 0; attempt < 2; attempt++) {
        char token[CLIENT_TOKEN_MAX];
        uint32_t generation;
        enum outcome outcome;
        if (!session_token(piece->buffer, piece->buffer_offset, piece->length, token, &generation,
                           reason))
            return false;
        memset(result, 0, sizeof(*result));
        *err = once(client, piece, token, result, &outcome);
        if (*err != PS_ERR_S3) return true;
        snprintf(reason, 160, "%.60s: %.90s", result->code, result->message);
        if (outcome == TOKEN_UNKNOWN) {
            session_lost(client, generation);
            continue;
        }
        return strcmp(result->code, "RDMANotSupported") &&
               strcmp(result->code, "RDMATransferFailed");
    }
    return false;
}

static int move(ps_client *client, const struct piece *piece, once_fn *once, ps_result *result) {
    enum ps_via via = wanted_via(client, piece);
    enum outcome outcome;
    char reason[160] = "";
    int err = 0;
    /* No payload, nothing to move by either way: the request alone does it. */
    if (via != PS_VIA_HTTP && piece->length) {
        if (try_one_sided(client, piece, once, result, &err, reason)) {
            if (!err && via == PS_VIA_ONE_SIDED && result->via != PS_VIA_ONE_SIDED)
                return result_fail(result, PS_ERR_TRANSFER, "%s", result->fallback_reason);
            return err;
        }
        if (via == PS_VIA_ONE_SIDED) return result_fail(result, PS_ERR_TRANSFER, "%s", reason);
        memset(result, 0, sizeof(*result));
    }
    err = once(client, piece, NULL, result, &outcome);
    if (reason[0]) strcpy(result->fallback_reason, reason);
    return err;
}

int piece_get(ps_client *client, const struct piece *piece, ps_result *result) {
    return move(client, piece, get_once, result);
}

int piece_put(ps_client *client, const struct piece *piece, ps_result *result) {
    return move(client, piece, put_once, result);
}
