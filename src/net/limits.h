/* The limits of a connection that are not part of net's contract, each with its reason. Those of a
 * request's head stand in header.h. */
#ifndef PENSTOCK_NET_LIMITS_H
#define PENSTOCK_NET_LIMITS_H

#include "net/header.h"

#define LISTEN_BACKLOG 4096

/* For each reactor; as many as most limits of open files allow. */
#define CONNECTION_LIMIT_DEFAULT 20000u
/* Connections kept for a moment so that their 503 can be read. */
#define REFUSED_OPEN_MAX  64u
#define REFUSED_LINGER_MS 1000u

#define IDLE_TIMEOUT_DEFAULT_MS 60000u
/* A whole head, from its first byte: against slow-loris. */
#define HEAD_TIMEOUT_DEFAULT_MS 30000u
/* Without any progress, receiving and sending. */
#define BODY_TIMEOUT_DEFAULT_MS 30000u

/* The receive buffer holds a whole head and, behind it, body bytes or the next request. */
#define RECEIVE_SIZE (HTTP_HEAD_MAX + 16u * 1024)
/* Received while only chunk framing is wanted: the payload that comes with it must be copied. */
#define FRAMING_RECEIVE_SIZE 4096u
/* From here on one receive waits for all of its bytes. */
#define WAIT_ALL_MIN (16u * 1024)
/* In one operation, so that progress can be seen. */
#define RECEIVE_MAX  (1024u * 1024)
#define SEND_MAX     (1024u * 1024)
#define SEND_IOV_MAX 64u
/* Idle sessions that a reactor keeps for reuse: 14 MiB. */
#define SESSIONS_KEPT 256u

#define RESPONSE_HEAD_SMALL 4096u
#define RESPONSE_HEAD_MAX   (64u * 1024)

/* Of an unread body, to save the connection. */
#define DRAIN_MAX        (64u * 1024)
#define DRAIN_TIMEOUT_MS 2000u
/* Read and dropped at the end of a connection, so that its last answer is not reset. */
#define LINGER_MAX (16u * 1024 * 1024)
#define LINGER_MS  2000u

/* A chunk's size and its extensions; all trailers. */
#define CHUNK_LINE_MAX    256u
#define CHUNK_TRAILER_MAX 8192u

#endif
