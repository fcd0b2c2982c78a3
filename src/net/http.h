/* HTTP/1.1 as the rest of the server sees it: a request with its headers, a body to pull from, a
 * response to write. Parsing, keep-alive, pipelining, chunked framing, Expect: 100-continue, limits
 * and time-outs stay behind this header. One fiber serves one request; an idle connection has no
 * fiber and no buffer. */
#ifndef PENSTOCK_NET_HTTP_H
#define PENSTOCK_NET_HTTP_H

#include <netinet/in.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/slice.h"
#include "mem/pool.h"
#include "net/header.h"
#include "runtime/reactor.h"

/* Limits (net/header.h and net/limits.h give reasons): head 32 KiB (431 beyond), 100 headers,
 * target 8 KiB (414), connections 20,000 a reactor (503 and close beyond), idle 60 s, head must be
 * whole 30 s after its first byte, body and response progress at least every 30 s. */

enum http_method {
    HTTP_GET,
    HTTP_HEAD,
    HTTP_PUT,
    HTTP_POST,
    HTTP_DELETE,
    HTTP_OPTIONS,
    HTTP_OTHER
};

struct http_request {
    enum http_method method;
    struct slice method_name;
    struct slice path;  /* as sent: still percent-encoded, without the query */
    struct slice query; /* as sent, without '?' */
    struct http_header headers[HTTP_HEADERS_MAX];
    unsigned header_count;
    bool chunked; /* Transfer-Encoding: chunked */
    bool has_content_length;
    uint64_t content_length;  /* 0 unless has_content_length */
    struct sockaddr_in6 peer; /* IPv4 as mapped */
};

/* One request and its response on a connection. Slices in request stay valid until the handler
 * returns. */
struct http_exchange {
    struct http_request request;
    struct http_connection *connection; /* private to net/ */
};

/* The value of the first header of that (lower-case) name; data is NULL when absent. */
struct slice http_header(const struct http_request *request, const char *name);

/* ---- the body, decoded from its HTTP framing. Sends 100 Continue on the first pull when the
 * client expects it. */

/* Up to `size` bytes into data, straight from the socket where nothing is buffered. Returns > 0, 0
 * at the end, ERR_INCOMPLETE_BODY, ERR_REQUEST_TIMEOUT, ERR_INVALID_REQUEST (bad chunk),
 * -ECANCELED. */
ssize_t http_body_read_await(struct http_exchange *x, void *data, size_t size);
/* As much of `size` as the body has left: short only at its end. */
ssize_t http_body_read_full_await(struct http_exchange *x, void *data, size_t size);
/* A view of at least one buffered body byte (receives when nothing is buffered), for parsers of
 * inner framing: *view is valid until the next body call. Returns 1, 0 at the end, or an error. */
int http_body_peek_await(struct http_exchange *x, struct slice *view);
void http_body_consume(struct http_exchange *x, size_t size); /* of what peek showed */
/* A token-carrying client may declare a Content-Length for a body that never comes: forget it. The
 * connection ends after the response, because what follows could be that body or a request. */
void http_body_expect_none(struct http_exchange *x);

/* ---- the response. Head first; then the body, or nothing. Headers are written in order; control
 * bytes in values become spaces. A handler that responds with nothing gets a 500 sent for it, and
 * so does one that began a stream and sent no byte of it. Sending returns 0, ERR_REQUEST_TIMEOUT,
 * ERR_INTERNAL (the head is beyond 64 KiB; a 500 took its place), -ECANCELED or the socket's error.
 */

/* Starts the head; Server and Date follow. Starts over while !http_response_started(). */
void http_respond(struct http_exchange *x, int status);
void http_respond_header(struct http_exchange *x, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void http_respond_header_slice(struct http_exchange *x, const char *name, struct slice value);
/* Declares Content-Length and sends head and data at once. A HEAD request gets the head only. */
int http_respond_body_await(struct http_exchange *x, const void *data, size_t size);
/* Declares Content-Length `size` of a body that follows in http_send_blocks_await calls; the head
 * goes out together with the first of them. With HEAD nothing more may be sent. */
void http_respond_stream(struct http_exchange *x, uint64_t size);
/* Send data[offset..] of the blocks: (block data + offset of the first, total size bytes; each
 * block's `size` says where the next one follows). Returns when the kernel has copied them, so
 * references may be dropped then. */
int http_send_blocks_await(struct http_exchange *x, struct block *const *blocks, unsigned count,
                           uint32_t offset, uint64_t size);
bool http_response_started(const struct http_exchange *x); /* bytes have gone to the socket */
void http_close_after(struct http_exchange *x);            /* no keep-alive after this response */
/* The status line, for the access log; valid until the handler returns. */
struct slice http_response_head(const struct http_exchange *x);
int http_response_status(const struct http_exchange *x);
uint64_t http_response_bytes(const struct http_exchange *x); /* body bytes sent */

/* Cancel this fiber when the client goes away, between the two calls: for waits that do not touch
 * the socket (memory, one-sided transfer, drive). */
void http_watch_client_begin(struct http_exchange *x);
void http_watch_client_end_await(struct http_exchange *x);

/* ---- the server */
typedef void http_handler_fn(struct http_exchange *x, void *ctx);

struct http_server_options {
    const char *host; /* literal IPv4 or IPv6 address, or "" for all */
    uint16_t port;    /* 0 picks a free one */
    http_handler_fn *handler;
    void *ctx;
    unsigned connection_limit; /* per reactor; 0: the default 20,000 */
    uint64_t idle_timeout_ms, head_timeout_ms, body_timeout_ms; /* 0: the defaults */
};
struct http_server;
struct http_stats {
    uint64_t connections, accepted, requests, bytes_in, bytes_out, parse_errors, refused;
};

/* Listen on every reactor (SO_REUSEPORT). Call from outside the reactors. */
int http_server_start(struct runtime *runtime, const struct http_server_options *options,
                      struct http_server **server);
uint16_t http_server_port(const struct http_server *server);
/* Stop accepting, let requests under way finish for up to grace_ms, close the rest, wait. */
void http_server_stop(struct http_server **server, uint64_t grace_ms);
void http_server_stats(struct http_server *server, struct http_stats *stats);

#endif
