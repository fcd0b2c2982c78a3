/* The service: one request from the HTTP server to its answer, its line in the log, its count. */
#include "s3/s3.h"

#include <arpa/inet.h>
#include <libxml/parser.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/encode.h"
#include "base/error.h"
#include "base/log.h"
#include "s3/errors.h"
#include "s3/headers.h"
#include "s3/one_sided.h"
#include "s3/route.h"

int s3_create(const struct s3_options *options, struct s3_service **service) {
    struct s3_service *new = calloc(1, sizeof *new);
    if (!new) return -ENOMEM;
    xmlInitParser(); /* before there are threads that could do it at once */
    new->options = *options;
    if (!new->options.region) new->options.region = "us-east-1";
    if (!new->options.memory_wait_ms) new->options.memory_wait_ms = S3_MEMORY_WAIT_MS;
    uint8_t random[8];
    random_bytes(random, sizeof random);
    hex_encode(random, sizeof random, new->host_id);
    *service = new;
    return 0;
}

void s3_destroy(struct s3_service **service) {
    free(*service);
    *service = NULL;
}

void s3_stats(struct s3_service *service, struct s3_stats *stats) {
    *stats = (struct s3_stats){
        .requests = atomic_load(&service->requests),
        .errors_4xx = atomic_load(&service->errors_4xx),
        .errors_5xx = atomic_load(&service->errors_5xx),
        .one_sided_get = atomic_load(&service->one_sided_get),
        .one_sided_put = atomic_load(&service->one_sided_put),
        .declined = atomic_load(&service->declined),
    };
}

/* /.penstock/shm introduces a client to one-sided transfers; the other names are the server's. */
static int system_await(struct s3_request *req) {
    const struct s3_options *options = &req->service->options;
    enum http_method method = req->x->request.method;
    struct text json _cleanup_text_ = {0};
    int err = ERR_NOT_FOUND;
    req->operation = "Penstock";
    if (slice_is(req->target.system, "shm")) {
        if (method != HTTP_POST) return ERR_METHOD_NOT_ALLOWED;
        if (!options->transfers) return ERR_RDMA_NOT_SUPPORTED;
        err = transfer_introduce(options->transfers, req->auth.identity->access_key, &json);
    } else if (options->admin) {
        err = options->admin(options->admin_ctx, method, req->target.system, req->auth.identity,
                             &json);
    }
    if (!err && json.failed) err = ERR_SLOW_DOWN;
    if (err) return err;
    respond_begin(req, 200);
    http_respond_header_slice(req->x, "Content-Type", SLICE_LITERAL("application/json"));
    return http_respond_body_await(req->x, json.data, json.size);
}

static int operate_await(struct s3_request *req) {
    int err = 0;
    const char *sub_resource = NULL;
    const struct route *route =
        route_find(req->x->request.method, &req->target, &err, &sub_resource);
    if (!route && sub_resource) {
        request_add_extra(req, "SubResource", slice_of(sub_resource));
        return request_fail(req, err, "The sub-resource ?%s is not implemented for this method.",
                            sub_resource);
    }
    if (!route) return err;
    req->operation = route->operation;
    err = headers_refuse_unsupported(req);
    return err ? err : route->run(req);
}

static int serve_await(struct s3_request *req) {
    const struct http_request *http = &req->x->request;
    int err = target_parse(&req->target, http->path, http->query, http_header(http, "host"),
                           req->service->options.domain);
    if (http->method == HTTP_PUT && req->target.key.size) one_sided_expect_no_body(req);
    /* Who asks comes before what is asked: a stranger learns nothing from errors. The signature
     * covers the path as sent, so that it can be checked of a path that could not be understood. */
    int denied = request_authorise(req);
    if (denied || err) return denied ? denied : err;
    return req->target.system.data ? system_await(req) : operate_await(req);
}

static void count(struct s3_request *req) {
    struct s3_service *service = req->service;
    int status = http_response_status(req->x);
    atomic_fetch_add_explicit(&service->requests, 1, memory_order_relaxed);
    if (status >= 500) atomic_fetch_add_explicit(&service->errors_5xx, 1, memory_order_relaxed);
    if (status >= 400 && status < 500)
        atomic_fetch_add_explicit(&service->errors_4xx, 1, memory_order_relaxed);
}

/* The path is logged as it was sent, percent-encoded, so that no key can forge a line; the query
 * is left out, because it may carry a presigned signature. */
static void log_request(struct s3_request *req, uint64_t started_ns) {
    const struct http_request *http = &req->x->request;
    char peer[INET6_ADDRSTRLEN] = "-";
    inet_ntop(AF_INET6, &http->peer.sin6_addr, peer, sizeof peer);
    uint64_t bytes = http_response_bytes(req->x) + req->rdma_bytes;
    log_info("%s %s %.*s %.*s %d %s %llu bytes %.1f ms %s %s", req->id, req->operation,
             (int)http->method_name.size, http->method_name.data, (int)http->path.size,
             http->path.data, http_response_status(req->x), req->code, (unsigned long long)bytes,
             (double)(clock_now_ns() - started_ns) / NS_PER_MS, req->transfer, peer);
}

void s3_handle(struct http_exchange *x, void *arg) {
    struct s3_service *service = arg;
    uint64_t started_ns = service->options.access_log ? clock_now_ns() : 0;
    struct s3_request req;
    request_init(&req, service, x);
    int err = serve_await(&req);
    if (err) errors_respond_await(&req, err);
    count(&req);
    if (service->options.access_log) log_request(&req, started_ns);
    request_deinit(&req);
}
