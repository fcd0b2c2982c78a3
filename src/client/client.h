/* What the files of the client library share. Nothing here leaves the library. */
#ifndef PENSTOCK_CLIENT_CLIENT_H
#define PENSTOCK_CLIENT_CLIENT_H

#include <pthread.h>
#include <stdbool.h>

#include "auth/auth.h"
#include "base/text.h"
#include "penstock.h"

#define CLIENT_PART_DEFAULT (64ull << 20)
#define CLIENT_PART_MIN     (5ull << 20)
#define CLIENT_PARTS_MAX    10000
#define CLIENT_FILE_CHUNK   (16ull << 20) /* of whole-file transfers: bounds their memory */
#define CLIENT_PARALLEL_MAX 256
#define CLIENT_TOKEN_MAX    128

/* The same-host socket: how registered memory is made known to the server. */
struct session {
    pthread_mutex_t lock;
    int fd;              /* -1 while there is none */
    uint64_t id;         /* the server's name for it */
    uint32_t generation; /* counts sessions: registrations of an older one are void */
    uint64_t retry_ns;   /* after a failure: not before this time */
    bool never;          /* the endpoint is not a Penstock */
    char reason[160];    /* why there is none */
};

struct connection;

struct ps_client {
    char endpoint[512]; /* without a trailing slash */
    char host[272];     /* the Host header */
    char address[256], port[8];
    bool secure; /* https */
    char region[64];
    struct identity identity;
    enum ps_via via;
    unsigned timeout_ms, parallel;
    uint64_t part_size, file_chunk;
    pthread_mutex_t lock;
    struct connection *idle; /* keep-alive connections that no call uses */
    ps_buffer *spare;        /* buffers of finished file transfers */
    struct session session;
};

struct ps_buffer {
    ps_client *client;
    void *data;
    uint64_t size;
    int fd;               /* the memfd behind data */
    pthread_mutex_t lock; /* of the registration */
    uint64_t region;      /* the server's name for it, in session generation */
    uint32_t generation;  /* 0: not registered */
    ps_buffer *next;      /* in client->spare */
};

/* ---- results */
/* Clears *result, or gives *own when the caller passed NULL. */
ps_result *result_begin(ps_result *result, ps_result *own);
int result_fail(ps_result *result, int err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- one HTTP request and its answer (call.c) */
#define CALL_HEADERS_MAX 6
struct call {
    const char *method;
    const char *bucket, *key; /* NULL for none */
    struct text query;        /* encoded, "a=b&c" */
    struct {
        const char *name; /* lower case */
        char value[160];
    } headers[CALL_HEADERS_MAX];
    unsigned header_count;
    const char *body; /* of the request; NULL for none */
    uint64_t body_size;
    char *into; /* where the body of a 2xx answer goes; NULL: to text */
    uint64_t into_size;

    int status;
    uint64_t received; /* bytes that went to `into` */
    struct text text;  /* any other body, at most CALL_TEXT_MAX */
    char etag[72], request_id[64], content_type[128], rdma_reply[8];
    uint64_t content_length, rdma_bytes, range_total;
    bool has_rdma_bytes, has_range;
    int64_t modified_ms;
};
#define CALL_TEXT_MAX (16u << 20)

void call_header(struct call *call, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* 0 for a 2xx answer; PS_ERR_S3 with code and message of the answer; other PS_ERR_*. */
int call_perform(ps_client *client, struct call *call, ps_result *result);
void call_deinit(struct call *call);
#define _cleanup_call_ __attribute__((cleanup(call_deinit)))

/* ---- registration (session.c) */
void session_init(struct session *session);
void session_deinit(struct session *session);
/* The token of buffer[offset .. +length], registering the buffer first where needed. False with
 * the reason when it cannot be had. *generation: to be given to session_lost. */
bool session_token(ps_buffer *buffer, uint64_t offset, uint64_t length,
                   char token[CLIENT_TOKEN_MAX], uint32_t *generation, char reason[160]);
/* The server did not know the token: it was restarted, or the session ended. */
void session_lost(ps_client *client, uint32_t generation);
void session_unregister(ps_buffer *buffer);

/* ---- one GET or PUT, whichever way (move.c) */
struct piece {
    const char *bucket, *key;
    ps_buffer *buffer;
    uint64_t buffer_offset;
    uint64_t offset, length; /* GET: of the object, at most `length` bytes; PUT: length only */
    const char *if_match;    /* GET: ETag without quotes, or NULL */
    const char *upload_id;   /* PUT: of a part, or NULL */
    unsigned part_number;
    enum ps_via via;
};
int piece_get(ps_client *client, const struct piece *piece, ps_result *result);
int piece_put(ps_client *client, const struct piece *piece, ps_result *result);

/* ---- multipart uploads (multipart.c) */
struct multipart {
    ps_client *client;
    const char *bucket, *key;
    char upload_id[256];
    char (*etags)[72];
    unsigned parts;
};
int multipart_begin(struct multipart *upload, ps_result *result);
int multipart_complete(struct multipart *upload, ps_result *result);
void multipart_abort(struct multipart *upload);
/* Parts of `wanted` bytes, or larger where that would be too many. */
uint64_t multipart_part_size(uint64_t size, uint64_t wanted);

/* ---- several threads over the pieces of one object (parallel.c) */
/* Calls run(ctx, worker, index) for index 0..count-1 on `threads` threads; stops handing out work
 * after the first error, which it returns with its result. */
typedef int parallel_fn(void *ctx, unsigned worker, uint64_t index, ps_result *result);
int parallel_run(unsigned threads, uint64_t count, parallel_fn *run, void *ctx, ps_result *result);

/* Takes a spare buffer of at least `size` bytes, or allocates one. */
int buffer_take(ps_client *client, uint64_t size, ps_buffer **buffer, ps_result *result);
void buffer_give(ps_buffer **buffer);

#endif
