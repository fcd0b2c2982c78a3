/* One S3 request: what every operation shares. It is made on the fiber's stack for each HTTP
 * exchange, and its slices stay valid until the handler returns.
 *
 * An operation is a function `int s3_<operation>_await(struct s3_request *)`. It either answers and
 * returns 0, or returns an error before anything was answered, which errors.c turns into S3's
 * words; after the response has begun an error closes the connection. */
#ifndef PENSTOCK_S3_REQUEST_H
#define PENSTOCK_S3_REQUEST_H

#include <stdatomic.h>
#include <stdint.h>

#include "auth/auth.h"
#include "net/http.h"
#include "object/object.h"
#include "s3/s3.h"
#include "s3/uri.h"

#define S3_METADATA_MAX         2048 /* names (without x-amz-meta-) and values of user metadata */
#define S3_DOCUMENT_MAX         (1u << 20) /* an XML body */
#define S3_LONG_DOCUMENT_MAX    (4u << 20) /* one that lists 10,000 parts or 1,000 keys */
#define S3_MEMORY_WAIT_MS       30000
#define S3_ERROR_EXTRAS_MAX     4
#define S3_LIST_MAX             1000
#define S3_READ_BLOCKS_MAX      16 /* asked for at once of a reader */
#define S3_PULL_BLOCKS_MAX      4  /* taken at once for a one-sided PUT */
#define S3_NAMESPACE            "http://s3.amazonaws.com/doc/2006-03-01/"
#define S3_DEFAULT_CONTENT_TYPE "binary/octet-stream"

/* The one owner of everything: identities are keys, not accounts. */
#define S3_OWNER_ID   "70656e73746f636b70656e73746f636b70656e73746f636b70656e73746f636b"
#define S3_OWNER_NAME "penstock"

struct s3_service {
    struct s3_options options;
    char host_id[17]; /* of this start of the server */
    atomic_uint_fast64_t requests, errors_4xx, errors_5xx;
    atomic_uint_fast64_t one_sided_get, one_sided_put, declined;
};

struct s3_error_extra {
    const char *name; /* an XML element of the error document */
    struct slice value;
};

struct s3_request {
    struct http_exchange *x;
    struct s3_service *service;
    struct s3_target target; /* bucket, key, query */
    struct auth_result auth;
    char id[17];           /* x-amz-request-id */
    const char *operation; /* for the log */
    const char *transfer;  /* "http", or the kind of the one-sided transfer */
    bool rdma_declined;    /* the answer says x-amz-rdma-reply: 501 */
    uint64_t rdma_bytes;   /* moved past the socket, for the log */

    /* What an error answer says beside its code. */
    const char *code;    /* the S3 code answered, for the log */
    const char *message; /* NULL: the error's own sentence */
    struct s3_error_extra extras[S3_ERROR_EXTRAS_MAX];
    unsigned extra_count;
    char message_memory[256];
    char extra_memory[64];
};

typedef int s3_operation_fn(struct s3_request *req);

void request_init(struct s3_request *req, struct s3_service *service, struct http_exchange *x);
void request_deinit(struct s3_request *req);
/* Who signed this? Fills req->auth. */
int request_authorise(struct s3_request *req);

static inline struct store *request_store(const struct s3_request *req) {
    return req->service->options.store;
}
/* The request's header, or the empty slice. name in lower case. */
static inline struct slice request_header(const struct s3_request *req, const char *name) {
    return http_header(&req->x->request, name);
}
/* The decoded value of a query parameter; data is NULL when it is absent. */
static inline struct slice request_parameter(const struct s3_request *req, const char *name) {
    return target_parameter(&req->target, name);
}
/* A decimal parameter within lowest..highest, clipped to the latter; fallback when absent or empty.
 * ERR_INVALID_ARGUMENT otherwise. */
int request_parameter_number(struct s3_request *req, const char *name, unsigned lowest,
                             unsigned highest, unsigned fallback, unsigned *value);
/* encoding-type: absent or "url". */
int request_parameter_encoding(struct s3_request *req, bool *url);
/* versionId: only the one version there is, which S3 calls null. */
int request_check_version(struct s3_request *req);

/* Take pool blocks; while it waits for them, a client that goes away ends the request.
 * ERR_SLOW_DOWN when the memory did not come in time. */
int request_take_blocks_await(struct s3_request *req, enum block_class class, unsigned count,
                              struct block **blocks);

/* ---- how an error explains itself; all return the error, so that they can be returned */
int request_fail(struct s3_request *req, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int request_invalid_argument(struct s3_request *req, const char *name, struct slice value,
                             const char *message);
void request_add_extra(struct s3_request *req, const char *name, struct slice value);

/* ---- answers. respond_begin writes the status and the headers that every answer has. */
void respond_begin(struct s3_request *req, int status);
int respond_empty_await(struct s3_request *req, int status);
/* 200 with an XML document; ERR_SLOW_DOWN when building it had run out of memory. */
int respond_xml_await(struct s3_request *req, const struct text *document);

#endif
