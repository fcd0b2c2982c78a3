/* One reactor's share of the server: accepts, keeps idle connections without fiber or buffer, lends
 * sessions, turns away what is too much, and stops. All of it runs in the reactor's loop and never
 * waits, except listener_stop_await(). Requests are serve.c's. */
#include <arpa/inet.h>
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "net/connection.h"
#include "net/status.h"

/* ---- sessions */

struct http_session *session_take(struct http_listener *listener) {
    struct http_session *session = listener->free_sessions;
    if (session) {
        listener->free_sessions = session->next_free;
        listener->free_count--;
    } else {
        session = malloc(sizeof *session);
        if (!session) return NULL;
    }
    session->next_free = NULL;
    session->connection = NULL;
    session->watching = session->close = session->linger = false;
    session->head_size = session->start = session->end = 0;
    session->response = (struct response){0};
    return session;
}

void session_give(struct http_listener *listener, struct http_session **session) {
    struct http_session *s = *session;
    *session = NULL;
    if (listener->free_count >= SESSIONS_KEPT) {
        free(s);
        return;
    }
    s->next_free = listener->free_sessions;
    listener->free_sessions = s;
    listener->free_count++;
}

static void sessions_free(struct http_listener *listener) {
    while (listener->free_sessions) {
        struct http_session *next = listener->free_sessions->next_free;
        free(listener->free_sessions);
        listener->free_sessions = next;
    }
    listener->free_count = 0;
}

/* ---- connections */

static void peer_address(int fd, struct sockaddr_in6 *peer) {
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    *peer = (struct sockaddr_in6){.sin6_family = AF_INET6};
    if (getpeername(fd, (struct sockaddr *)&address, &size)) return;
    if (address.ss_family == AF_INET6) {
        memcpy(peer, &address, sizeof *peer);
    } else if (address.ss_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, &address, sizeof v4);
        peer->sin6_port = v4.sin_port;
        peer->sin6_addr.s6_addr[10] = peer->sin6_addr.s6_addr[11] = 0xff;
        memcpy(&peer->sin6_addr.s6_addr[12], &v4.sin_addr, 4);
    }
}

static struct http_connection *connection_create(struct http_listener *listener, int fd) {
    struct http_connection *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->listener = listener;
    c->fd = fd;
    peer_address(fd, &c->peer);
    c->next = listener->connections;
    if (c->next) c->next->previous = c;
    listener->connections = c;
    listener->count++;
    counter_add(&listener->counters.connections, 1);
    return c;
}

void listener_close(struct http_connection **connection) {
    struct http_connection *c = *connection;
    struct http_listener *listener = c->listener;
    *connection = NULL;
    assert(!c->session);
    if (c->state == CONNECTION_REFUSED) listener->refused_open--;
    *(c->previous ? &c->previous->next : &listener->connections) = c->next;
    if (c->next) c->next->previous = c->previous;
    close(c->fd);
    free(c);
    listener->count--;
    counter_add(&listener->counters.connections, (uint64_t)-1);
    if (!listener->count) fiber_queue_wake_all(&listener->drained);
}

/* Without a fiber there is nobody to wait: what does not fit into the socket's buffer is lost. */
static void say_busy(struct http_listener *listener, int fd) {
    counter_add(&listener->counters.refused, 1);
    (void)!send(fd, STATUS_BUSY_RESPONSE, sizeof STATUS_BUSY_RESPONSE - 1,
                MSG_DONTWAIT | MSG_NOSIGNAL);
}

static int begin_serving(struct http_connection *c, const void *data, size_t size) {
    struct http_session *session = session_take(c->listener);
    if (!session) return -ENOMEM;
    assert(size <= sizeof session->buffer);
    /* These are the bytes of a head, with perhaps the first of a body: the kernel's shared buffer
     * that they lie in must be given back now. */
    memcpy(session->buffer, data, size);
    session->end = (uint32_t)size;
    session->connection = c;
    c->session = session;
    c->state = CONNECTION_HEAD;
    int err = fiber_spawn("http", serve_connection, c);
    if (!err) return 0;
    c->state = CONNECTION_IDLE;
    session_give(c->listener, &c->session);
    return err;
}

static void on_idle_data(struct io_idle *idle, const void *data, ssize_t size) {
    struct http_connection *c =
        (struct http_connection *)((char *)idle - offsetof(struct http_connection, idle));
    struct http_listener *listener = c->listener;
    if (size > 0) counter_add(&listener->counters.bytes_in, (uint64_t)size);
    if (size > 0 && c->state == CONNECTION_IDLE && !listener->stopping) {
        if (begin_serving(c, data, (size_t)size) == 0) return;
        say_busy(listener, c->fd);
    }
    listener_close(&c);
}

static void wait_for_data(struct http_connection *c, uint64_t timeout_ms) {
    c->idle.on_data = on_idle_data;
    io_idle_start(&c->idle, c->fd, clock_deadline_ms(timeout_ms));
}

void listener_idle(struct http_connection *c) {
    assert(!c->session);
    c->fiber = NULL;
    c->state = CONNECTION_IDLE;
    if (c->listener->stopping)
        listener_close(&c);
    else
        wait_for_data(c, c->listener->server->options.idle_timeout_ms);
}

/* ---- accepting */

/* A close right after the 503 would reset the connection under a client that is still sending its
 * request, and take the answer away from it: keep it until its first bytes or its end have come. */
static void refuse(struct http_listener *listener, int fd) {
    say_busy(listener, fd);
    shutdown(fd, SHUT_WR);
    struct http_connection *c =
        listener->refused_open < REFUSED_OPEN_MAX ? connection_create(listener, fd) : NULL;
    if (!c) {
        close(fd);
        return;
    }
    c->state = CONNECTION_REFUSED;
    listener->refused_open++;
    wait_for_data(c, REFUSED_LINGER_MS);
}

static void on_accept(void *ctx, int fd, int err) {
    struct http_listener *listener = ctx;
    if (err == -ECANCELED) {
        assert(listener->stopping);
        listener->accepting = false;
        fiber_queue_wake_all(&listener->drained);
        return;
    }
    if (err) {
        log_warn("http: cannot accept: %s", strerror(-err));
        return;
    }
    if (listener->stopping) {
        close(fd);
        return;
    }
    counter_add(&listener->counters.accepted, 1);
    if (listener->count - listener->refused_open >= listener->server->options.connection_limit) {
        refuse(listener, fd);
        return;
    }
    struct http_connection *c = connection_create(listener, fd);
    if (c)
        listener_idle(c);
    else
        close(fd);
}

void listener_begin(struct http_listener *listener) {
    assert(reactor_self() == listener->reactor);
    listener->accepting = true;
    listener->accept = (struct io_accept){.on_accept = on_accept, .ctx = listener};
    io_accept_start(&listener->accept, listener->fd);
}

/* ---- stopping */

void listener_stop_begin(struct http_listener *listener) {
    assert(reactor_self() == listener->reactor);
    listener->stopping = true;
    io_accept_stop(&listener->accept);
    struct http_connection *next;
    for (struct http_connection *c = listener->connections; c; c = next) {
        next = c->next;
        if (c->state == CONNECTION_IDLE || c->state == CONNECTION_REFUSED)
            io_idle_cancel(&c->idle);
        else if (c->state == CONNECTION_HEAD && c->fiber)
            fiber_cancel(c->fiber);
    }
}

void listener_stop_await(struct http_listener *listener, uint64_t deadline_ns) {
    int err = 0;
    while ((listener->count || listener->accepting) && !err)
        err = fiber_queue_wait_await(&listener->drained, deadline_ns);
    listener->cancelling = true;
    for (struct http_connection *c = listener->connections; c; c = c->next) {
        if (c->fiber) fiber_cancel(c->fiber);
    }
    fiber_shield_begin();
    while (listener->count || listener->accepting)
        fiber_queue_wait_await(&listener->drained, NO_DEADLINE);
    fiber_shield_end();
    sessions_free(listener);
}

const char *listener_date(struct http_listener *listener) {
    int64_t now_ms = clock_wall_ms();
    if (now_ms / 1000 != listener->date_second || !listener->date[0]) {
        listener->date_second = now_ms / 1000;
        clock_format_http(now_ms, listener->date);
    }
    return listener->date;
}
