/* Connecting, the pool of idle connections, and moving bytes. */
#include "client/connection.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "client/tls.h"

#define CONNECT_TIMEOUT_MS 5000
/* A long body is sent in steps, with a look between them for an answer that refuses it. */
#define SEND_STEP (1u << 20)

/* ---- connecting */

/* connect(), bounded: 0 or a negative errno. */
static int connect_within(int fd, const struct sockaddr *address, socklen_t length) {
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK)) return -errno;
    if (connect(fd, address, length) && errno != EINPROGRESS) return -errno;
    struct pollfd wait = {.fd = fd, .events = POLLOUT};
    int ready;
    do {
        ready = poll(&wait, 1, CONNECT_TIMEOUT_MS);
    } while (ready < 0 && errno == EINTR);
    if (ready <= 0) return ready ? -errno : -ETIMEDOUT;
    int err = 0;
    socklen_t size = sizeof(err);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &size)) return -errno;
    if (err) return -err;
    return fcntl(fd, F_SETFL, flags) ? -errno : 0;
}

static void set_options(int fd, unsigned timeout_ms) {
    int on = 1;
    struct timeval timeout = {timeout_ms / 1000, timeout_ms % 1000 * 1000};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
}

/* The descriptor, or the negative errno of the last address tried. */
static int connect_any(const struct addrinfo *addresses) {
    int err = -EADDRNOTAVAIL;
    for (const struct addrinfo *a = addresses; a; a = a->ai_next) {
        int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
        if (fd < 0) {
            err = -errno;
            continue;
        }
        err = connect_within(fd, a->ai_addr, a->ai_addrlen);
        if (!err) return fd;
        close(fd);
    }
    return err;
}

static int open_socket(ps_client *client, int *fd, ps_result *result) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *addresses;
    int failed = getaddrinfo(client->address, client->port, &hints, &addresses);
    if (failed)
        return result_fail(result, PS_ERR_CONNECT, "%.150s: %s", client->endpoint,
                           gai_strerror(failed));
    *fd = connect_any(addresses);
    freeaddrinfo(addresses);
    if (*fd < 0)
        return result_fail(result, PS_ERR_CONNECT, "%.150s: %s", client->endpoint, strerror(-*fd));
    set_options(*fd, client->timeout_ms);
    return 0;
}

static void connection_close(struct connection **connection) {
    struct connection *c = *connection;
    *connection = NULL;
    tls_close(&c->tls);
    close(c->fd);
    text_deinit(&c->head);
    free(c);
}

int connection_open(ps_client *client, struct connection **connection, ps_result *result) {
    struct connection *c = calloc(1, sizeof(*c));
    if (!c) return result_fail(result, PS_ERR_MEMORY, "out of memory");
    int err = open_socket(client, &c->fd, result);
    if (err) {
        free(c);
        return err;
    }
    char reason[160];
    if (client->secure && !tls_open(c->fd, client->address, &c->tls, reason)) {
        connection_close(&c);
        return result_fail(result, PS_ERR_CONNECT, "%.90s: TLS: %.150s", client->endpoint, reason);
    }
    *connection = c;
    return 0;
}

/* ---- the pool */

int connection_take(ps_client *client, struct connection **connection, ps_result *result) {
    pthread_mutex_lock(&client->lock);
    struct connection *c = client->idle;
    if (c) client->idle = c->next;
    pthread_mutex_unlock(&client->lock);
    *connection = c;
    return c ? 0 : connection_open(client, connection, result);
}

void connection_give(ps_client *client, struct connection **connection, bool good) {
    struct connection *c = *connection;
    if (!good) {
        connection_close(connection);
        return;
    }
    *connection = NULL;
    c->reused = true;
    pthread_mutex_lock(&client->lock);
    c->next = client->idle;
    client->idle = c;
    pthread_mutex_unlock(&client->lock);
}

void connections_close(ps_client *client) {
    while (client->idle) {
        struct connection *c = client->idle;
        client->idle = c->next;
        connection_close(&c);
    }
}

/* ---- bytes */

static int socket_error(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK ? -ETIMEDOUT : -errno;
}

static bool answer_waits(const struct connection *c) {
    char byte;
    return !c->tls && recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

static ssize_t send_some(struct connection *c, struct iovec *parts, unsigned count) {
    if (c->tls) return tls_send(c->tls, parts->iov_base, parts->iov_len);
    struct iovec last = parts[count - 1];
    if (last.iov_len > SEND_STEP) parts[count - 1].iov_len = SEND_STEP;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t sent;
    do {
        sent = sendmsg(c->fd, &message, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    parts[count - 1] = last;
    return sent < 0 ? socket_error() : sent;
}

int connection_send(struct connection *c, struct iovec *parts, unsigned count) {
    bool first = true;
    while (count) {
        if (!parts->iov_len) {
            parts++;
            count--;
            continue;
        }
        if (!first && answer_waits(c)) return -ECANCELED;
        first = false;
        ssize_t sent = send_some(c, parts, count);
        if (sent < 0) return (int)sent;
        for (size_t left = (size_t)sent; left;) {
            size_t step = left < parts->iov_len ? left : parts->iov_len;
            parts->iov_base = (char *)parts->iov_base + step;
            parts->iov_len -= step;
            left -= step;
            if (left) {
                parts++;
                count--;
            }
        }
    }
    return 0;
}

ssize_t connection_receive(struct connection *c, void *data, size_t size, bool all) {
    if (c->tls) return tls_receive(c->tls, data, size);
    ssize_t got;
    do {
        got = recv(c->fd, data, size, all ? MSG_WAITALL : 0);
    } while (got < 0 && errno == EINTR);
    return got < 0 ? socket_error() : got;
}
