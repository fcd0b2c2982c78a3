/* Private to net/: what a connection, a session and a listener hold, and which file does what.
 *
 * A connection is all that an idle client costs. When its first bytes come it is lent a session
 * (receive buffer, exchange, response head) and a fiber, until it is idle again. A listener is one
 * reactor's share of the server; nothing here is touched by another reactor but the counters. */
#ifndef PENSTOCK_NET_CONNECTION_H
#define PENSTOCK_NET_CONNECTION_H

#include <stdatomic.h>

#include "base/clock.h"
#include "net/chunk.h"
#include "net/head.h"
#include "net/http.h"
#include "net/limits.h"

enum connection_state {
    CONNECTION_IDLE,    /* waiting in io_idle; no session */
    CONNECTION_REFUSED, /* answered 503, in io_idle for a moment so that the client can read it */
    CONNECTION_HEAD,    /* has a fiber that waits for a head: may be cancelled at any time */
    CONNECTION_BUSY     /* has a fiber that serves a request */
};

struct http_connection {
    struct io_idle idle;
    struct http_listener *listener;
    struct http_connection *previous, *next;
    struct http_session *session;
    struct fiber *fiber; /* NULL until the spawned fiber runs */
    int fd;
    enum connection_state state;
    struct sockaddr_in6 peer;
};
_Static_assert(sizeof(struct http_connection) <= 256, "an idle connection is cheap");

struct request_body {
    bool chunked, ended;
    bool forgotten;       /* ended, but the client may send it yet */
    bool expect_continue; /* 100 Continue is owed to the client */
    bool drain;           /* the handler is done; deadline_ns holds for all of the rest */
    int err;              /* sticky */
    uint64_t remaining;   /* identity framing */
    uint64_t deadline_ns;
    struct chunk_decoder chunk;
};

struct response {
    int status; /* 0 until http_respond() */
    bool framed, head_sent, no_body, overflow, stream;
    bool broken; /* the connection cannot be used again */
    uint64_t left, sent;
    char *head; /* head_small, or grown memory */
    uint32_t head_size, head_capacity;
};

struct http_session {
    struct http_exchange exchange;
    struct http_connection *connection;
    struct http_session *next_free;
    struct request_body body;
    struct response response;
    struct io_watch watch;
    bool watching;
    bool close;  /* no other request on this connection */
    bool linger; /* the client may be sending still: see linger_await() */
    /* buffer[head_size..] is free for body bytes while the head's slices are in use;
     * [start..end) are bytes received and not used yet. */
    uint32_t head_size, start, end;
    char head_small[RESPONSE_HEAD_SMALL];
    char buffer[RECEIVE_SIZE];
};

struct listener_counters {
    _Atomic uint64_t connections, accepted, requests, bytes_in, bytes_out, parse_errors, refused;
};

struct http_listener {
    struct http_server *server;
    struct reactor *reactor;
    int fd;
    struct io_accept accept;
    bool accepting, stopping, cancelling;
    struct http_connection *connections;
    unsigned count, refused_open;
    struct http_session *free_sessions;
    unsigned free_count;
    struct fiber_queue drained; /* the stopping fiber waits here */
    int64_t date_second;
    char date[CLOCK_TEXT_SIZE];
    struct listener_counters counters;
} __attribute__((aligned(64)));

struct http_server {
    struct runtime *runtime;
    struct http_server_options options; /* defaults filled in */
    uint16_t port;
    unsigned count;
    struct http_listener *listeners;
};

/* Counters have one writer, their reactor, so they need no locked instruction. */
static inline void counter_add(_Atomic uint64_t *counter, uint64_t n) {
    uint64_t value = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, value + n, memory_order_relaxed);
}

/* ---- listener.c: accepting, idle connections, sessions, stopping. On the listener's reactor. */
void listener_begin(struct http_listener *listener);
void listener_stop_begin(struct http_listener *listener);
/* Wait for requests under way until the deadline, cancel what is left, wait for that. */
void listener_stop_await(struct http_listener *listener, uint64_t deadline_ns);
void listener_idle(struct http_connection *connection); /* back to waiting without a session */
void listener_close(struct http_connection **connection);
struct http_session *session_take(struct http_listener *listener); /* NULL without memory */
void session_give(struct http_listener *listener, struct http_session **session);
const char *listener_date(struct http_listener *listener); /* for the Date header */

/* ---- serve.c */
void serve_connection(void *connection); /* the fiber of a connection with a session */

/* ---- serve.c, for body.c */
/* Receive more into buffer[end..], at most `limit` bytes: > 0, 0 at the peer's end, or an error. */
ssize_t session_receive_await(struct http_session *session, size_t limit, uint64_t deadline_ns);

/* ---- body.c */
void body_begin(struct http_session *session, const struct head *head);
void body_continue_empty_await(struct http_session *session); /* 100 for an empty body too */
/* Read and drop a small rest; false when the connection cannot be used again. */
bool body_drain_await(struct http_session *session);
bool body_may_drain(const struct http_session *session);

/* ---- response.c */
void response_begin(struct http_session *session);
void response_refuse_await(struct http_session *session, int status); /* net's own error answer */
void response_end_await(struct http_session *session); /* sends what the handler left unsent */
void response_deinit(struct http_session *session);
int session_send_await(struct http_session *session, struct iovec *iov, unsigned count);

#endif
