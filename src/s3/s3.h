/* The S3 protocol: from an HTTP exchange to an operation and back. One file an operation; request.h
 * is what all of them share. server/ starts one service and gives s3_handle to the HTTP server. */
#ifndef PENSTOCK_S3_S3_H
#define PENSTOCK_S3_S3_H

#include "auth/auth.h"
#include "net/http.h"
#include "object/object.h"
#include "transfer/transfer.h"

/* Requests for /.penstock/<name> after their signature was verified: server/ answers them (a bucket
 * cannot have that name). Writes JSON to *out. ERR_NOT_FOUND when it knows no such name. */
typedef int s3_admin_fn(void *ctx, enum http_method method, struct slice name,
                        const struct identity *identity, struct text *out);

struct s3_options {
    struct store *store;
    struct pool *pool;
    const struct keyring *keyring;
    struct transfer_service *transfers;
    const char *region; /* e.g. us-east-1 */
    const char *domain; /* virtual-host addressing: bucket.DOMAIN; NULL for path style only */
    s3_admin_fn *admin;
    void *admin_ctx;
    bool access_log;         /* one info line a request */
    uint64_t memory_wait_ms; /* back-pressure bound: 503 SlowDown after it; 0: 30,000 */
};

struct s3_service;
struct s3_stats {
    uint64_t requests, errors_4xx, errors_5xx, one_sided_get, one_sided_put, declined;
};
int s3_create(const struct s3_options *options, struct s3_service **service);
void s3_destroy(struct s3_service **service);
void s3_handle(struct http_exchange *x, void *service); /* an http_handler_fn */
void s3_stats(struct s3_service *service, struct s3_stats *stats);

#endif
