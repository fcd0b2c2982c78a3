/* One connection to the endpoint: TCP, and TLS above it for https. Blocking; a wait ends after the
 * client's timeout without progress. One thread at a time uses a connection. */
#ifndef PENSTOCK_CLIENT_CONNECTION_H
#define PENSTOCK_CLIENT_CONNECTION_H

#include <openssl/types.h>
#include <sys/uio.h>

#include "client/client.h"

#define CONNECTION_BUFFER (16u * 1024)

struct connection {
    int fd;
    SSL *tls;                /* NULL for http */
    bool reused;             /* has served a request before: the server may have closed it since */
    struct connection *next; /* in client->idle */
    struct text head;        /* of the request; its memory is kept */
    char buffer[CONNECTION_BUFFER];
};

/* An idle connection, or a new one; PS_ERR_CONNECT, PS_ERR_MEMORY with a sentence. */
int connection_take(ps_client *client, struct connection **connection, ps_result *result);
/* A new one in any case. */
int connection_open(ps_client *client, struct connection **connection, ps_result *result);
/* Back to the idle ones when it is good for another request, else closed; nulls. */
void connection_give(ps_client *client, struct connection **connection, bool good);
void connections_close(ps_client *client);

/* Sends all of it: 0, -ETIMEDOUT, -EPIPE, -ECONNRESET ... An answer that arrives while a long body
 * is still being sent ends the sending with -ECANCELED: it is a refusal. Changes the iovecs. */
int connection_send(struct connection *connection, struct iovec *parts, unsigned count);
/* Receives some, or with `all` as much as it can without losing sight of the timeout: > 0, 0 at the
 * end, or a negative error. */
ssize_t connection_receive(struct connection *connection, void *data, size_t size, bool all);

#endif
