/* One signed HTTP request over a pooled keep-alive connection, and what its answer says. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/encode.h"
#include "client/answer.h"
#include "client/exchange.h"

void call_header(struct call *call, const char *name, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    unsigned i = call->header_count++;
    call->headers[i].name = name;
    vsnprintf(call->headers[i].value, sizeof(call->headers[i].value), format, arguments);
    va_end(arguments);
}

void call_deinit(struct call *call) {
    text_deinit(&call->query);
    text_deinit(&call->text);
}

/* ---- the answer's head */

static void copy_text(char *out, size_t capacity, struct slice value) {
    if (value.size >= capacity) value.size = capacity - 1;
    memcpy(out, value.data, value.size);
    out[value.size] = '\0';
}

static void read_etag(struct call *call, struct slice value) {
    if (value.size >= 2 && value.data[0] == '"' && value.data[value.size - 1] == '"') {
        value.data++;
        value.size -= 2;
    }
    copy_text(call->etag, sizeof(call->etag), value);
}

/* "bytes 0-9/100": the number after the slash. */
static void read_range(struct call *call, struct slice value) {
    const char *slash = memchr(value.data, '/', value.size);
    if (!slash) return;
    struct slice total = {slash + 1, (size_t)(value.data + value.size - slash - 1)};
    unsigned long long number;
    call->has_range = slice_to_u64(total, &number);
    if (call->has_range) call->range_total = number;
}

void call_read_header(struct call *call, struct slice name, struct slice value) {
    unsigned long long number;
    if (slice_equal_nocase(name, SLICE_LITERAL("etag"))) {
        read_etag(call, value);
    } else if (slice_equal_nocase(name, SLICE_LITERAL("content-length"))) {
        if (slice_to_u64(value, &number)) call->content_length = number;
    } else if (slice_equal_nocase(name, SLICE_LITERAL("content-range"))) {
        read_range(call, value);
    } else if (slice_equal_nocase(name, SLICE_LITERAL("content-type"))) {
        copy_text(call->content_type, sizeof(call->content_type), value);
    } else if (slice_equal_nocase(name, SLICE_LITERAL("last-modified"))) {
        clock_parse_http(value, &call->modified_ms);
    } else if (slice_equal_nocase(name, SLICE_LITERAL("x-amz-request-id"))) {
        copy_text(call->request_id, sizeof(call->request_id), value);
    } else if (slice_equal_nocase(name, SLICE_LITERAL("x-amz-rdma-reply"))) {
        copy_text(call->rdma_reply, sizeof(call->rdma_reply), value);
    } else if (slice_equal_nocase(name, SLICE_LITERAL("x-amz-rdma-bytes-transferred"))) {
        call->has_rdma_bytes = slice_to_u64(value, &number);
        if (call->has_rdma_bytes) call->rdma_bytes = number;
    }
}

/* ---- the request */

static void build_path(const struct call *call, struct text *path) {
    text_append_string(path, "/");
    if (!call->bucket) return;
    text_append_uri(path, slice_of(call->bucket), true);
    if (!call->key) return;
    text_append_string(path, "/");
    text_append_uri(path, slice_of(call->key), true);
}

static void put_field(struct text *head, const char *name, const char *value) {
    text_append_string(head, name);
    text_append_string(head, ": ");
    text_append_string(head, value);
    text_append_string(head, "\r\n");
}

/* Signs everything that is sent by our choice. */
static bool sign(const ps_client *client, const struct call *call, const struct text *path,
                 int64_t now_ms, const char *date, char authorization[AUTH_HEADER_MAX]) {
    struct auth_header headers[3 + CALL_HEADERS_MAX] = {
        {SLICE_LITERAL("host"), slice_of(client->host)},
        {SLICE_LITERAL("x-amz-content-sha256"), SLICE_LITERAL("UNSIGNED-PAYLOAD")},
        {SLICE_LITERAL("x-amz-date"), slice_of(date)},
    };
    unsigned count = 3;
    for (unsigned i = 0; i < call->header_count; i++)
        headers[count++] =
            (struct auth_header){slice_of(call->headers[i].name), slice_of(call->headers[i].value)};
    struct auth_request request = {
        .method = slice_of(call->method),
        .path = text_slice(path),
        .query = text_slice(&call->query),
        .headers = headers,
        .header_count = count,
        .now_ms = now_ms,
        .region = slice_of(client->region),
    };
    return auth_sign(&client->identity, &request, SLICE_LITERAL("s3"),
                     SLICE_LITERAL("UNSIGNED-PAYLOAD"), authorization) == 0;
}

/* The request's head, made anew for each try: a signature is good for some minutes only. No Expect:
 * the server answers at once when it does not want a body, and connection_send() looks for that. */
static bool build_head(const ps_client *client, const struct call *call, const struct text *path,
                       struct text *head) {
    char date[CLOCK_TEXT_SIZE], authorization[AUTH_HEADER_MAX];
    int64_t now_ms = clock_wall_ms();
    clock_format_amz(now_ms, date);
    if (!sign(client, call, path, now_ms, date, authorization)) return false;
    text_clear(head);
    text_append_string(head, call->method);
    text_append_string(head, " ");
    text_append_slice(head, text_slice(path));
    if (call->query.size) text_append_string(head, "?");
    text_append_slice(head, text_slice(&call->query));
    text_append_string(head, " HTTP/1.1\r\n");
    put_field(head, "Host", client->host);
    put_field(head, "Authorization", authorization);
    put_field(head, "x-amz-date", date);
    put_field(head, "x-amz-content-sha256", "UNSIGNED-PAYLOAD");
    for (unsigned i = 0; i < call->header_count; i++)
        put_field(head, call->headers[i].name, call->headers[i].value);
    if (call->body || !strcmp(call->method, "PUT") || !strcmp(call->method, "POST"))
        text_append_format(head, "Content-Length: %llu\r\n", (unsigned long long)call->body_size);
    text_append_string(head, "\r\n");
    return !head->failed;
}

/* What an earlier try left in the answer. */
static void clear_answer(struct call *call) {
    call->status = 0;
    call->received = 0;
    call->has_range = call->has_rdma_bytes = false;
    call->etag[0] = call->rdma_reply[0] = call->request_id[0] = '\0';
    text_clear(&call->text);
}

static int exchange_error(int err, const struct call *call, const ps_client *client,
                          ps_result *result) {
    const char *endpoint = client->endpoint;
    switch (err) {
    case -EOVERFLOW:
        return result_fail(result, PS_ERR_TOO_SMALL, "the answer has more than %llu bytes",
                           (unsigned long long)call->into_size);
    case -ENOMEM: return result_fail(result, PS_ERR_MEMORY, "out of memory");
    case -EPROTO: return result_fail(result, PS_ERR_PROTOCOL, "%.150s: not HTTP", endpoint);
    case -EMSGSIZE:
        return result_fail(result, PS_ERR_PROTOCOL, "%.150s: the answer is too long", endpoint);
    case -ENODATA:
        return result_fail(result, call->status ? PS_ERR_PROTOCOL : PS_ERR_CONNECT,
                           "%.150s: the connection ended before the answer did", endpoint);
    case -ETIMEDOUT:
        return result_fail(result, PS_ERR_CONNECT, "%.150s: no progress for %u ms", endpoint,
                           client->timeout_ms);
    default: return result_fail(result, PS_ERR_CONNECT, "%.150s: %s", endpoint, strerror(-err));
    }
}

static int answer_error(const struct call *call, ps_result *result) {
    answer_read_error(text_slice(&call->text), result);
    if (!result->code[0])
        snprintf(result->code, sizeof(result->code), "%s",
                 call->status == 404   ? "NotFound"
                 : call->status == 412 ? "PreconditionFailed"
                                       : "HTTPError");
    if (!result->message[0])
        snprintf(result->message, sizeof(result->message), "HTTP status %d", call->status);
    return PS_ERR_S3;
}

/* The server may close an idle connection at any time: when a used one fails before any answer
 * came, it has most likely not seen the request, and every request here may be sent twice without
 * harm. */
static bool worth_another_try(const struct connection *connection, const struct call *call) {
    return connection->reused && !call->status;
}

static int exchange_on(ps_client *client, struct connection **connection, struct call *call,
                       const struct text *path, ps_result *result) {
    bool good = false;
    int err = -ENOMEM;
    clear_answer(call);
    if (build_head(client, call, path, &(*connection)->head))
        err = exchange_run(*connection, call, &good);
    if (err && worth_another_try(*connection, call)) {
        connection_give(client, connection, false);
        int failed = connection_open(client, connection, result);
        return failed ? failed : exchange_on(client, connection, call, path, result);
    }
    connection_give(client, connection, good);
    return err ? exchange_error(err, call, client, result) : 0;
}

int call_perform(ps_client *client, struct call *call, ps_result *result) {
    struct text path _cleanup_text_ = {0};
    build_path(call, &path);
    if (path.failed || call->query.failed)
        return result_fail(result, PS_ERR_MEMORY, "out of memory");
    struct connection *connection;
    int err = connection_take(client, &connection, result);
    if (!err) err = exchange_on(client, &connection, call, &path, result);
    result->status = call->status;
    memcpy(result->request_id, call->request_id, sizeof(result->request_id));
    memcpy(result->etag, call->etag, sizeof(result->etag));
    if (err) return err;
    return call->status < 200 || call->status > 299 ? answer_error(call, result) : 0;
}
