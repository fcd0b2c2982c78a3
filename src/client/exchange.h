/* One HTTP/1.1 exchange on a connection: a head and a body out, an answer in. */
#ifndef PENSTOCK_CLIENT_EXCHANGE_H
#define PENSTOCK_CLIENT_EXCHANGE_H

#include "client/connection.h"

/* Sends connection->head and the call's body, and reads the answer into the call: its status,
 * header fields, and body, which goes to call->into when the status is 2xx (straight from the
 * socket where its length is declared), else to call->text.
 *
 * Returns 0 with *good when the connection may be used again; -ETIMEDOUT, -ECONNRESET, ... when the
 * connection failed; -ENODATA when it ended before the answer did (call->status is 0 when nothing
 * of it had come); -EPROTO for what is not HTTP; -EOVERFLOW for more than `into` holds; -EMSGSIZE
 * for more text than CALL_TEXT_MAX; -ENOMEM. */
int exchange_run(struct connection *connection, struct call *call, bool *good);

/* Takes one header field of an answer (call.c). */
void call_read_header(struct call *call, struct slice name, struct slice value);

#endif
