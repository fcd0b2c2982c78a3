/* One signed HTTP request over a pooled keep-alive connection, and what its answer says. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/encode.h"
#include "client/answer.h"
#include "client/client.h"

#define CONNECT_TIMEOUT_MS 5000
#define RECEIVE_BUFFER     (512L * 1024)
#define UPLOAD_BUFFER      (2L * 1024 * 1024)

/* An exchange under way: what curl's callbacks need. */
struct exchange {
    struct call *call;
    uint64_t sent;
};

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

/* ---- the pool of connections */

static struct connection *connection_take(ps_client *client) {
    pthread_mutex_lock(&client->lock);
    struct connection *connection = client->idle;
    if (connection) client->idle = connection->next;
    pthread_mutex_unlock(&client->lock);
    if (connection) return connection;
    connection = calloc(1, sizeof(*connection));
    if (connection && !(connection->curl = curl_easy_init())) {
        free(connection);
        return NULL;
    }
    return connection;
}

static void connection_give(ps_client *client, struct connection *connection) {
    pthread_mutex_lock(&client->lock);
    connection->next = client->idle;
    client->idle = connection;
    pthread_mutex_unlock(&client->lock);
}

void connections_close(ps_client *client) {
    while (client->idle) {
        struct connection *connection = client->idle;
        client->idle = connection->next;
        curl_easy_cleanup(connection->curl);
        free(connection);
    }
}

/* ---- curl's callbacks */

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

static void read_header(struct call *call, struct slice name, struct slice value) {
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

static size_t on_header(char *data, size_t unit, size_t count, void *ctx) {
    struct call *call = ((struct exchange *)ctx)->call;
    size_t size = unit * count;
    if (size > 9 && !memcmp(data, "HTTP/", 5)) {
        const char *space = memchr(data, ' ', size);
        call->status = space ? atoi(space + 1) : 0;
        return size;
    }
    const char *colon = memchr(data, ':', size);
    if (!colon) return size;
    size_t end = size;
    while (end && (data[end - 1] == '\r' || data[end - 1] == '\n')) end--;
    struct slice name = {data, (size_t)(colon - data)};
    struct slice value = {colon + 1, (size_t)(data + end - colon - 1)};
    read_header(call, name, slice_trim(value));
    return size;
}

/* The one copy of payload on this side: libcurl receives into its own memory. */
static size_t on_body(char *data, size_t unit, size_t count, void *ctx) {
    struct call *call = ((struct exchange *)ctx)->call;
    size_t size = unit * count;
    if (!call->into || call->status < 200 || call->status > 299) {
        if (call->text.size + size > CALL_TEXT_MAX) return 0;
        text_append(&call->text, data, size);
        return call->text.failed ? 0 : size;
    }
    if (size > call->into_size - call->received) {
        call->overflow = true;
        return 0;
    }
    memcpy(call->into + call->received, data, size);
    call->received += size;
    return size;
}

static size_t on_upload(char *out, size_t unit, size_t count, void *ctx) {
    struct exchange *exchange = ctx;
    uint64_t left = exchange->call->body_size - exchange->sent;
    size_t size = unit * count < left ? unit * count : left;
    if (size) memcpy(out, exchange->call->body + exchange->sent, size);
    exchange->sent += size;
    return size;
}

static int on_rewind(void *ctx, curl_off_t offset, int origin) {
    if (origin != SEEK_SET) return CURL_SEEKFUNC_CANTSEEK;
    ((struct exchange *)ctx)->sent = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
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

static struct curl_slist *append(struct curl_slist *list, const char *name, const char *value) {
    char line[AUTH_HEADER_MAX + 64];
    snprintf(line, sizeof(line), "%s: %s", name, value);
    struct curl_slist *longer = curl_slist_append(list, line);
    if (!longer) curl_slist_free_all(list);
    return longer;
}

/* Signs everything that is sent by our choice and returns the header list, or NULL. */
static struct curl_slist *sign(const ps_client *client, const struct call *call,
                               const struct text *path) {
    char date[CLOCK_TEXT_SIZE], authorization[AUTH_HEADER_MAX];
    int64_t now = clock_wall_ms();
    clock_format_amz(now, date);
    struct auth_header headers[9] = {
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
        .now_ms = now,
        .region = slice_of(client->region),
    };
    if (auth_sign(&client->identity, &request, SLICE_LITERAL("s3"),
                  SLICE_LITERAL("UNSIGNED-PAYLOAD"), authorization))
        return NULL;
    struct curl_slist *list = append(NULL, "Authorization", authorization);
    /* As signed: libcurl would leave out a port that is the scheme's default. */
    if (list) list = append(list, "Host", client->host);
    if (list) list = append(list, "x-amz-date", date);
    if (list) list = append(list, "x-amz-content-sha256", "UNSIGNED-PAYLOAD");
    for (unsigned i = 0; list && i < call->header_count; i++)
        list = append(list, call->headers[i].name, call->headers[i].value);
    /* The server answers at once whether it wants the body or not; waiting costs a round trip. */
    return list ? append(list, "Expect", "") : NULL;
}

static void set_method(CURL *curl, struct exchange *exchange) {
    const struct call *call = exchange->call;
    if (!strcmp(call->method, "HEAD")) {
        curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
    } else if (!strcmp(call->method, "PUT")) {
        curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
        curl_easy_setopt(curl, CURLOPT_UPLOAD_BUFFERSIZE, UPLOAD_BUFFER);
        curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->body_size);
        curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_upload);
        curl_easy_setopt(curl, CURLOPT_READDATA, exchange);
        curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_rewind);
        curl_easy_setopt(curl, CURLOPT_SEEKDATA, exchange);
    } else if (!strcmp(call->method, "POST")) {
        curl_easy_setopt(curl, CURLOPT_POST, 1L);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, call->body ? call->body : "");
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body_size);
    } else if (strcmp(call->method, "GET")) {
        curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, call->method);
    }
}

static void set_options(const ps_client *client, CURL *curl, struct exchange *exchange) {
    curl_easy_reset(curl); /* keeps the connection */
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, RECEIVE_BUFFER);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_TIMEOUT_MS);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, (long)(client->timeout_ms + 999) / 1000);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, exchange);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, exchange);
    set_method(curl, exchange);
}

/* What an earlier try left in the answer. */
static void clear_answer(struct call *call) {
    call->status = 0;
    call->received = 0;
    call->overflow = call->has_range = call->has_rdma_bytes = false;
    call->etag[0] = call->rdma_reply[0] = call->request_id[0] = '\0';
    text_clear(&call->text);
}

static CURLcode perform(ps_client *client, struct connection *connection, struct call *call,
                        const struct text *path, const char *url) {
    struct exchange exchange = {.call = call};
    struct curl_slist *headers = sign(client, call, path);
    if (!headers) return CURLE_OUT_OF_MEMORY;
    set_options(client, connection->curl, &exchange);
    curl_easy_setopt(connection->curl, CURLOPT_URL, url);
    curl_easy_setopt(connection->curl, CURLOPT_HTTPHEADER, headers);
    CURLcode code = curl_easy_perform(connection->curl);
    curl_slist_free_all(headers);
    return code;
}

/* Every request here may be sent twice without harm: once more when the connection broke. */
static bool worth_another_try(CURLcode code) {
    return code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR || code == CURLE_SEND_ERROR;
}

static int connection_error(CURLcode code, const struct call *call, const ps_client *client,
                            ps_result *result) {
    if (call->overflow)
        return result_fail(result, PS_ERR_TOO_SMALL, "the answer has more than %llu bytes",
                           (unsigned long long)call->into_size);
    if (code == CURLE_OUT_OF_MEMORY) return result_fail(result, PS_ERR_MEMORY, "out of memory");
    int err =
        code == CURLE_PARTIAL_FILE || code == CURLE_WRITE_ERROR ? PS_ERR_PROTOCOL : PS_ERR_CONNECT;
    return result_fail(result, err, "%.150s: %s", client->endpoint, curl_easy_strerror(code));
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

int call_perform(ps_client *client, struct call *call, ps_result *result) {
    struct text path _cleanup_text_ = {0}, url _cleanup_text_ = {0};
    build_path(call, &path);
    text_append_string(&url, client->endpoint);
    text_append_slice(&url, text_slice(&path));
    if (call->query.size) {
        text_append_string(&url, "?");
        text_append_slice(&url, text_slice(&call->query));
    }
    struct connection *connection = url.failed || path.failed ? NULL : connection_take(client);
    if (!connection) return result_fail(result, PS_ERR_MEMORY, "out of memory");
    CURLcode code = CURLE_OK;
    for (int attempt = 0; attempt < 2; attempt++) {
        clear_answer(call);
        code = perform(client, connection, call, &path, url.data);
        if (!worth_another_try(code)) break;
    }
    connection_give(client, connection);
    result->status = call->status;
    memcpy(result->request_id, call->request_id, sizeof(result->request_id));
    memcpy(result->etag, call->etag, sizeof(result->etag));
    if (code) return connection_error(code, call, client, result);
    if (call->status < 200 || call->status > 299) return answer_error(call, result);
    return 0;
}
