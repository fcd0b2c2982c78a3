/* libpenstock: the client of a Penstock server, or of any S3 endpoint.
 *
 * Objects are asked for with signed S3 requests over HTTP; their bytes move by one-sided transfer
 * straight into (GET) or out of (PUT) registered memory where that is possible, and in the HTTP
 * body where it is not. Which way was taken is in every result, with the reason for a fall-back.
 *
 * All functions are thread-safe; a ps_client may be shared by any number of threads (each call uses
 * a connection of its own from a bounded pool). Functions return 0 or a negative code; the S3 code
 * and a sentence are in the ps_result. No call keeps a pointer to a result.
 *
 * Units: sizes and offsets in bytes, times in milliseconds. */
#ifndef PENSTOCK_H
#define PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PS_API           __attribute__((visibility("default")))
#define PS_VERSION_MAJOR 0
#define PS_VERSION_MINOR 1

/* Return codes. S3 errors of the server come as PS_ERR_S3 with ps_result.code set. */
enum {
    PS_OK = 0,
    PS_ERR_ARGUMENT = -1,  /* a wrong argument; the message says which */
    PS_ERR_MEMORY = -2,    /* out of memory, or memory that cannot be registered */
    PS_ERR_CONNECT = -3,   /* the endpoint cannot be reached */
    PS_ERR_PROTOCOL = -4,  /* an answer that is not S3 */
    PS_ERR_S3 = -5,        /* the server answered with an S3 error */
    PS_ERR_CHECKSUM = -6,  /* bytes arrived damaged */
    PS_ERR_TRANSFER = -7,  /* one-sided was demanded (PS_VIA_ONE_SIDED) and was not possible */
    PS_ERR_TOO_SMALL = -8, /* the buffer is smaller than the object or range */
    PS_ERR_IO = -9         /* a local file error */
};

/* How payload travels. */
enum ps_via {
    PS_VIA_AUTO = 0,     /* one-sided where possible, else HTTP */
    PS_VIA_HTTP = 1,     /* HTTP body only */
    PS_VIA_ONE_SIDED = 2 /* one-sided or an error */
};

typedef struct ps_client ps_client;
typedef struct ps_buffer ps_buffer;

/* Zero-initialise, then set what differs. NULL strings are taken from the environment where named.
 */
typedef struct ps_options {
    const char *endpoint;   /* http://host:port; PENSTOCK_ENDPOINT or AWS_ENDPOINT_URL */
    const char *access_key; /* PENSTOCK_ACCESS_KEY or AWS_ACCESS_KEY_ID */
    const char *secret_key; /* PENSTOCK_SECRET_KEY or AWS_SECRET_ACCESS_KEY */
    const char *region;     /* AWS_REGION; us-east-1 */
    enum ps_via via;        /* the default of this client */
    unsigned timeout_ms;    /* of one request without progress; 0: 30,000 */
    unsigned parallel;      /* parts of a large object in flight; 0: 4 */
    uint64_t part_size;     /* of multipart PUT and parallel GET; 0: 64 MiB; at least 5 MiB */
} ps_options;

typedef struct ps_result {
    int status;                /* HTTP status, 0 when there was none */
    char code[64];             /* S3 error code, "" on success */
    char message[256];         /* a sentence for a person, "" on success */
    char request_id[64];       /* x-amz-request-id */
    char etag[72];             /* without quotes */
    uint64_t bytes;            /* payload moved by this call */
    uint64_t size;             /* of the whole object */
    enum ps_via via;           /* the way that the payload really took: HTTP or ONE_SIDED */
    char transfer[16];         /* "http", "shm", ... */
    char fallback_reason[160]; /* why not one-sided, "" when it was or was not wanted */
} ps_result;

/* Open a client. No traffic happens before the first request. result may be NULL everywhere. */
PS_API int ps_open(const ps_options *options, ps_client **client, ps_result *result);
PS_API void ps_close(ps_client **client); /* all buffers freed first; nulls */

/* Transfer memory. Allocated memory is fit for one-sided transfers on this host (page-aligned,
 * zeroed, huge pages where possible); it belongs to the client it was made with. */
PS_API int ps_buffer_alloc(ps_client *client, uint64_t size, ps_buffer **buffer, ps_result *result);
PS_API void *ps_buffer_data(ps_buffer *buffer);
PS_API uint64_t ps_buffer_size(const ps_buffer *buffer);
PS_API void ps_buffer_free(ps_buffer **buffer); /* no call may be using it; nulls */

/* GET into buffer at buffer_offset. length 0 means to the end of the object; large ranges are read
 * as parallel parts with If-Match, so that a GET never mixes two versions. */
PS_API int ps_get(ps_client *client, const char *bucket, const char *key, uint64_t offset,
                  uint64_t length, ps_buffer *buffer, uint64_t buffer_offset, enum ps_via via,
                  ps_result *result);
/* PUT size bytes of buffer at buffer_offset; above part_size as a multipart upload in parallel
 * parts, aborted when one fails. */
PS_API int ps_put(ps_client *client, const char *bucket, const char *key, ps_buffer *buffer,
                  uint64_t buffer_offset, uint64_t size, enum ps_via via, ps_result *result);

/* Whole files, through a bounded set of transfer buffers. progress may be NULL; it is called from
 * worker threads with bytes done and in all, one call at a time. */
typedef void (*ps_progress)(void *ctx, uint64_t done, uint64_t total);
PS_API int ps_get_file(ps_client *client, const char *bucket, const char *key, const char *path,
                       enum ps_via via, ps_progress progress, void *ctx, ps_result *result);
PS_API int ps_put_file(ps_client *client, const char *bucket, const char *key, const char *path,
                       enum ps_via via, ps_progress progress, void *ctx, ps_result *result);

typedef struct ps_object_stat {
    uint64_t size;
    int64_t modified_ms; /* since the epoch */
    char etag[72];
    char content_type[128];
} ps_object_stat;
PS_API int ps_stat(ps_client *client, const char *bucket, const char *key, ps_object_stat *stat,
                   ps_result *result);
PS_API int ps_delete(ps_client *client, const char *bucket, const char *key, ps_result *result);
PS_API int ps_bucket_create(ps_client *client, const char *bucket, ps_result *result);
PS_API int ps_bucket_delete(ps_client *client, const char *bucket, ps_result *result);

/* Called for every entry in order; is_prefix entries have size 0. A non-zero return stops. */
typedef int (*ps_list_fn)(void *ctx, const char *name, int is_prefix, uint64_t size,
                          int64_t modified_ms, const char *etag);
PS_API int ps_list_objects(ps_client *client, const char *bucket, const char *prefix,
                           const char *delimiter, ps_list_fn fn, void *ctx, ps_result *result);
PS_API int ps_list_buckets(ps_client *client, ps_list_fn fn, void *ctx, ps_result *result);

/* The server's counters as JSON (Penstock servers only); free() the text. */
PS_API int ps_server_stats(ps_client *client, char **json, ps_result *result);

PS_API const char *ps_error_text(int code);
PS_API const char *ps_version(void);

#ifdef __cplusplus
}
#endif
#endif
