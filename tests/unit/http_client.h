/* A deliberately simple HTTP client for tests: blocking, over 127.0.0.1, with every byte it sends
 * under the test's control. */
#ifndef PENSTOCK_TESTS_HTTP_CLIENT_H
#define PENSTOCK_TESTS_HTTP_CLIENT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MAX (8u << 20)

struct client {
    int fd;
    char *data; /* bytes received and not used yet */
    size_t size;
};

struct answer {
    int status; /* 0: the connection ended before a whole answer */
    char head[4096];
    char *body; /* NUL-terminated; the caller frees it by answer_end() */
    size_t size;
};

static inline void client_open(struct client *c, uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    c->data = malloc(ANSWER_MAX);
    c->size = 0;
    struct timeval timeout = {.tv_sec = 20};
    int on = 1;
    setsockopt(c->fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    assert_non_null(c->data);
    assert_int_equal(connect(c->fd, (struct sockaddr *)&address, sizeof address), 0);
}

static inline void client_close(struct client *c) {
    close(c->fd);
    free(c->data);
    *c = (struct client){.fd = -1};
}

/* Go away with a reset. */
static inline void client_vanish(struct client *c) {
    struct linger linger = {.l_onoff = 1};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    client_close(c);
}

/* The server may have ended the connection already, which is for the answer to show. */
static inline void client_send_bytes(struct client *c, const char *data, size_t size) {
    while (size) {
        ssize_t sent = send(c->fd, data, size, MSG_NOSIGNAL);
        if (sent <= 0) return;
        data += sent;
        size -= (size_t)sent;
    }
}

static inline void client_send(struct client *c, const char *text) {
    client_send_bytes(c, text, strlen(text));
}

static inline bool client_receive(struct client *c) {
    assert_true(c->size < ANSWER_MAX);
    ssize_t got = recv(c->fd, c->data + c->size, ANSWER_MAX - c->size, 0);
    if (got > 0) c->size += (size_t)got;
    return got > 0;
}

static inline void client_use(struct client *c, size_t size) {
    assert_true(size <= c->size);
    memmove(c->data, c->data + size, c->size - size);
    c->size -= size;
}

/* The value of a header of the answer into out, "" when absent. */
static inline const char *answer_header(const struct answer *a, const char *name) {
    static char value[512];
    char line[128];
    snprintf(line, sizeof line, "\r\n%s: ", name);
    const char *at = strcasestr(a->head, line);
    value[0] = 0;
    if (at) {
        at += strlen(line);
        snprintf(value, sizeof value, "%.*s", (int)strcspn(at, "\r\n"), at);
    }
    return value;
}

static inline void answer_end(struct answer *a) {
    free(a->body);
    a->body = NULL;
}

static inline void client_read(struct client *c, struct answer *a, bool head_only) {
    *a = (struct answer){0};
    char *end;
    while (!(end = memmem(c->data, c->size, "\r\n\r\n", 4))) {
        if (!client_receive(c)) return;
    }
    size_t head_size = (size_t)(end + 4 - c->data);
    assert_true(head_size < sizeof a->head);
    memcpy(a->head, c->data, head_size);
    client_use(c, head_size);
    size_t size = head_only ? 0 : strtoull(answer_header(a, "Content-Length"), NULL, 10);
    while (c->size < size) {
        if (!client_receive(c)) return;
    }
    a->body = malloc(size + 1);
    assert_non_null(a->body);
    memcpy(a->body, c->data, size);
    a->body[size] = 0;
    a->size = size;
    client_use(c, size);
    assert_int_equal(sscanf(a->head, "HTTP/1.1 %d", &a->status), 1);
}

/* Nothing more comes, and the connection ends. */
static inline bool client_at_end(struct client *c) {
    char byte;
    if (c->size) return false;
    return recv(c->fd, &byte, 1, 0) == 0;
}

#endif
