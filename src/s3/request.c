/* What operations share: the request's identity, parameters, memory, and the outer form of every
 * answer. Which operation it is stands in route.c, errors in errors.c. */
#include "s3/request.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/error.h"

/* 64 bits that no other request of this server shares, without a shared counter: each thread walks
 * its own random sequence (splitmix64). */
static uint64_t next_id(void) {
    static _Thread_local uint64_t state;
    if (!state) random_bytes(&state, sizeof state);
    state += 0x9E3779B97F4A7C15ull;
    uint64_t z = state;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}

static void format_id(uint64_t id, char out[17]) {
    for (int i = 15; i >= 0; i--, id >>= 4) out[i] = "0123456789ABCDEF"[id & 15];
    out[16] = 0;
}

void request_init(struct s3_request *req, struct s3_service *service, struct http_exchange *x) {
    memset(req, 0, sizeof *req);
    req->x = x;
    req->service = service;
    req->operation = "-";
    req->code = "-";
    req->transfer = "http";
    format_id(next_id(), req->id);
}

void request_deinit(struct s3_request *req) {
    target_deinit(&req->target);
}

/* auth/ knows no HTTP, net/ no authentication; their headers are the same two slices, so that a
 * request's list need not be copied. */
_Static_assert(sizeof(struct auth_header) == sizeof(struct http_header) &&
                   offsetof(struct auth_header, name) == offsetof(struct http_header, name) &&
                   offsetof(struct auth_header, value) == offsetof(struct http_header, value),
               "struct auth_header and struct http_header must stay the same");

/* Without the header the signature is one of an empty body; curl before 8.3 signs uploads so. */
static int check_body_is_signed(struct s3_request *req) {
    const struct http_request *http = &req->x->request;
    bool has_body = http->chunked || http->content_length;
    if (!has_body || req->auth.presigned || request_header(req, "x-amz-content-sha256").data)
        return 0;
    return request_fail(req, ERR_INVALID_REQUEST,
                        "Missing required header for this request: x-amz-content-sha256");
}

int request_authorise(struct s3_request *req) {
    const struct http_request *http = &req->x->request;
    struct auth_request signed_request = {
        .method = http->method_name,
        .path = req->target.path,
        .query = http->query,
        .headers = (const struct auth_header *)http->headers,
        .header_count = http->header_count,
        .now_ms = clock_wall_ms(),
        .region = slice_of(req->service->options.region),
    };
    int err =
        auth_verify(req->service->options.keyring, &signed_request, &req->auth, &req->message);
    if (err == ERR_AUTH_HEADER_MALFORMED)
        request_add_extra(req, "Region", slice_of(req->service->options.region));
    return err ? err : check_body_is_signed(req);
}

int request_parameter_number(struct s3_request *req, const char *name, unsigned lowest,
                             unsigned highest, unsigned fallback, unsigned *value) {
    struct slice text = request_parameter(req, name);
    unsigned long long number;
    *value = fallback;
    if (!text.size) return 0;
    if (!slice_to_u64(text, &number) || number < lowest || number > INT32_MAX)
        return request_invalid_argument(req, name, text,
                                        "The parameter must be an integer within its limits.");
    *value = number > highest ? highest : (unsigned)number;
    return 0;
}

int request_parameter_encoding(struct s3_request *req, bool *url) {
    struct slice text = request_parameter(req, "encoding-type");
    *url = slice_is(text, "url");
    if (!text.size || *url) return 0;
    return request_invalid_argument(req, "encoding-type", text,
                                    "Invalid Encoding Method specified in Request");
}

int request_check_version(struct s3_request *req) {
    struct slice version = request_parameter(req, "versionId");
    if (!version.data || slice_is(version, "null")) return 0;
    return request_invalid_argument(req, "versionId", version, "Invalid version id specified");
}

int request_take_blocks_await(struct s3_request *req, enum block_class class, unsigned count,
                              struct block **blocks) {
    struct pool *pool = req->service->options.pool;
    int err = pool_try_take(pool, class, count, blocks);
    if (err != -EAGAIN) return err;
    http_watch_client_begin(req->x);
    err = pool_take_await(pool, class, count, blocks,
                          clock_deadline_ms(req->service->options.memory_wait_ms));
    http_watch_client_end_await(req->x);
    return err == -ETIME ? ERR_SLOW_DOWN : err;
}

int request_fail(struct s3_request *req, int err, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(req->message_memory, sizeof req->message_memory, format, arguments);
    va_end(arguments);
    req->message = req->message_memory;
    return err;
}

int request_invalid_argument(struct s3_request *req, const char *name, struct slice value,
                             const char *message) {
    req->message = message;
    request_add_extra(req, "ArgumentName", slice_of(name));
    request_add_extra(req, "ArgumentValue", value);
    return ERR_INVALID_ARGUMENT;
}

void request_add_extra(struct s3_request *req, const char *name, struct slice value) {
    if (req->extra_count == S3_ERROR_EXTRAS_MAX) return;
    req->extras[req->extra_count++] = (struct s3_error_extra){name, value};
}

void respond_begin(struct s3_request *req, int status) {
    http_respond(req->x, status);
    http_respond_header_slice(req->x, "x-amz-request-id", (struct slice){req->id, 16});
    http_respond_header_slice(req->x, "x-amz-id-2", (struct slice){req->service->host_id, 16});
}

int respond_empty_await(struct s3_request *req, int status) {
    respond_begin(req, status);
    return http_respond_body_await(req->x, NULL, 0);
}

int respond_xml_await(struct s3_request *req, const struct text *document) {
    if (document->failed) return ERR_SLOW_DOWN;
    respond_begin(req, 200);
    http_respond_header_slice(req->x, "Content-Type", SLICE_LITERAL("application/xml"));
    return http_respond_body_await(req->x, document->data, document->size);
}
