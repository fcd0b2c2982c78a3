/* The server as a whole: defaults, listening sockets (one a reactor, sharing the port), start, stop
 * and the sum of the counters. What happens on a reactor is listener.c's. */
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/connection.h"

/* ---- sockets */

struct bind_address {
    struct sockaddr_storage address;
    socklen_t size;
};

static void set_port(struct bind_address *at, uint16_t port) {
    if (at->address.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&at->address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&at->address)->sin_port = htons(port);
}

static uint16_t get_port(int fd) {
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size)) return 0;
    if (address.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

static int address_parse(const char *host, struct bind_address *out) {
    *out = (struct bind_address){0};
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&out->address;
    struct sockaddr_in *v4 = (struct sockaddr_in *)&out->address;
    if (!*host || inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6; /* zeroes: all addresses */
        out->size = sizeof *v6;
        return 0;
    }
    if (inet_pton(AF_INET, host, &v4->sin_addr) != 1) return -EINVAL;
    v4->sin_family = AF_INET;
    out->size = sizeof *v4;
    return 0;
}

/* Accepted sockets inherit TCP_NODELAY from the listening one. */
static int set_options(int fd, int family) {
    int on = 1, off = 0;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on))
        return -errno;
    if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off))
        return -errno;
    return 0;
}

static int listen_on(const struct bind_address *at, int *out) {
    int fd = socket(at->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    int err = set_options(fd, at->address.ss_family);
    if (!err && bind(fd, (const struct sockaddr *)&at->address, at->size)) err = -errno;
    if (!err && listen(fd, LISTEN_BACKLOG)) err = -errno;
    if (err) {
        close(fd);
        return err;
    }
    *out = fd;
    return 0;
}

/* All addresses means IPv6 with mapped IPv4; where the kernel has no IPv6, IPv4 alone. */
static int listen_first(const char *host, struct bind_address *at, uint16_t port, int *fd) {
    int err = address_parse(host, at);
    if (err) return err;
    set_port(at, port);
    err = listen_on(at, fd);
    if (err != -EAFNOSUPPORT || *host) return err;
    address_parse("0.0.0.0", at);
    set_port(at, port);
    return listen_on(at, fd);
}

static int open_sockets(struct http_server *server) {
    struct bind_address at;
    int err =
        listen_first(server->options.host, &at, server->options.port, &server->listeners[0].fd);
    if (err) return err;
    server->port = get_port(server->listeners[0].fd);
    set_port(&at, server->port);
    for (unsigned i = 1; i < server->count && !err; i++)
        err = listen_on(&at, &server->listeners[i].fd);
    return err;
}

/* ---- start */

static void fill_defaults(struct http_server_options *o) {
    if (!o->host) o->host = "";
    if (!o->connection_limit) o->connection_limit = CONNECTION_LIMIT_DEFAULT;
    if (!o->idle_timeout_ms) o->idle_timeout_ms = IDLE_TIMEOUT_DEFAULT_MS;
    if (!o->head_timeout_ms) o->head_timeout_ms = HEAD_TIMEOUT_DEFAULT_MS;
    if (!o->body_timeout_ms) o->body_timeout_ms = BODY_TIMEOUT_DEFAULT_MS;
}

static void server_free(struct http_server *server) {
    for (unsigned i = 0; i < server->count; i++) {
        if (server->listeners[i].fd >= 0) close(server->listeners[i].fd);
    }
    free(server->listeners);
    free(server);
}

static struct http_server *server_create(struct runtime *runtime,
                                         const struct http_server_options *options) {
    struct http_server *server = calloc(1, sizeof *server);
    if (!server) return NULL;
    server->runtime = runtime;
    server->options = *options;
    fill_defaults(&server->options);
    unsigned count = runtime_reactor_count(runtime);
    server->listeners = aligned_alloc(64, count * sizeof *server->listeners);
    if (!server->listeners) {
        free(server);
        return NULL;
    }
    memset(server->listeners, 0, count * sizeof *server->listeners);
    server->count = count;
    for (unsigned i = 0; i < count; i++) {
        server->listeners[i].server = server;
        server->listeners[i].reactor = runtime_reactor(runtime, i);
        server->listeners[i].fd = -1;
    }
    return server;
}

static void run_begin(void *listener) {
    listener_begin(listener);
}

static void run_stop_begin(void *listener) {
    if (((struct http_listener *)listener)->accepting) listener_stop_begin(listener);
}

struct stop_call {
    struct http_listener *listener;
    uint64_t deadline_ns;
};

static void run_stop(void *arg) {
    struct stop_call *call = arg;
    listener_stop_await(call->listener, call->deadline_ns);
}

/* A reactor that is out of fibers has some again soon: requests are under way there. */
static void run_surely(struct reactor *reactor, fiber_fn *fn, void *arg) {
    while (reactor_run(reactor, "http-stop", fn, arg)) usleep(1000);
}

/* All reactors stop accepting before any of them is waited for. */
static void stop_listeners(struct http_server *server, uint64_t grace_ms) {
    uint64_t deadline_ns = clock_deadline_ms(grace_ms);
    for (unsigned i = 0; i < server->count; i++)
        run_surely(server->listeners[i].reactor, run_stop_begin, &server->listeners[i]);
    for (unsigned i = 0; i < server->count; i++) {
        struct stop_call call = {&server->listeners[i], deadline_ns};
        run_surely(server->listeners[i].reactor, run_stop, &call);
    }
}

int http_server_start(struct runtime *runtime, const struct http_server_options *options,
                      struct http_server **out) {
    assert(!reactor_self() && options->handler);
    struct http_server *server = server_create(runtime, options);
    if (!server) return -ENOMEM;
    int err = open_sockets(server);
    if (err) {
        server_free(server);
        return err;
    }
    for (unsigned i = 0; i < server->count && !err; i++)
        err = reactor_run(server->listeners[i].reactor, "http-start", run_begin,
                          &server->listeners[i]);
    if (err) {
        stop_listeners(server, 0);
        server_free(server);
        return err;
    }
    *out = server;
    return 0;
}

uint16_t http_server_port(const struct http_server *server) {
    return server->port;
}

void http_server_stop(struct http_server **server, uint64_t grace_ms) {
    if (!*server) return;
    assert(!reactor_self());
    stop_listeners(*server, grace_ms);
    server_free(*server);
    *server = NULL;
}

static uint64_t counter_get(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void http_server_stats(struct http_server *server, struct http_stats *stats) {
    *stats = (struct http_stats){0};
    for (unsigned i = 0; i < server->count; i++) {
        const struct listener_counters *c = &server->listeners[i].counters;
        stats->connections += counter_get(&c->connections);
        stats->accepted += counter_get(&c->accepted);
        stats->requests += counter_get(&c->requests);
        stats->bytes_in += counter_get(&c->bytes_in);
        stats->bytes_out += counter_get(&c->bytes_out);
        stats->parse_errors += counter_get(&c->parse_errors);
        stats->refused += counter_get(&c->refused);
    }
}
