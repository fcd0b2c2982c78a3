/* One-sided transfers: payload moves between pool blocks and memory that the client registered,
 * started by the server. Each kind is a table of functions (struct transfer_kind); the HTTP body is
 * not here: a request without a token is served by net/.
 *
 * Safety rule of every kind: nothing that a client sends, and nothing a client does to its memory,
 * can hurt the server or another client. Tokens are parsed and bounded by our own code; a token is
 * honoured only for the identity that registered the memory. */
#ifndef PENSTOCK_TRANSFER_TRANSFER_H
#define PENSTOCK_TRANSFER_TRANSFER_H

#include <stdint.h>

#include "base/slice.h"
#include "base/text.h"
#include "mem/pool.h"

/* Identity of the requester, as transfers see it: who may use which registration. */
#define TRANSFER_IDENTITY_MAX 128

struct runtime;
struct transfer_service; /* all kinds, once a server */
struct transfer_target;  /* memory named by one token, for one request */

struct transfer_options {
    const char *socket_directory; /* where the same-host Unix socket is made; NULL: abstract only */
    unsigned session_limit;       /* clients connected; 0: the default 1,024 */
    unsigned session_limit_identity; /* of one identity; 0: the default 256 */
    uint64_t registered_limit_bytes; /* of one session; 0: the default 64 GiB */
};

/* Call from outside the reactors; spawns its own fibers on the runtime. */
int transfer_start(struct runtime *runtime, struct pool *pool,
                   const struct transfer_options *options, struct transfer_service **service);
void transfer_stop(struct transfer_service **service);

/* Resolve a token. ERR_INVALID_RDMA_TOKEN with *detail naming the field; ERR_RDMA_NOT_SUPPORTED for
 * a well-formed token of a kind that this server cannot reach one-sidedly (the caller declines). */
int transfer_open(struct transfer_service *service, struct slice token, const char *identity,
                  struct transfer_target **target, const char **detail);
uint64_t transfer_size(const struct transfer_target *target);    /* bytes the token spans */
const char *transfer_name(const struct transfer_target *target); /* "shm", "ucx", ... for logs */

/* Move data[block_offset .. +size] of a run of blocks to/from target bytes offset..; the range is
 * checked against the token again. Yields between pieces. ERR_RDMA_TRANSFER_FAILED when the memory
 * or its client went away; -ECANCELED. */
int transfer_push_await(struct transfer_target *target, uint64_t offset,
                        struct block *const *blocks, unsigned count, uint32_t block_offset,
                        uint64_t size);
int transfer_pull_await(struct transfer_target *target, uint64_t offset, struct block *block,
                        uint32_t size);
void transfer_close(struct transfer_target **target); /* nulls; NULL is fine */

/* What a client needs to know to introduce itself over the same-host socket: a JSON object with a
 * one-time ticket for this identity, valid 30 s. Appended to out. */
int transfer_introduce(struct transfer_service *service, const char *identity, struct text *out);

struct transfer_stats {
    uint64_t sessions, regions, registered_bytes, pushes, pulls, bytes_pushed, bytes_pulled;
    uint64_t tokens_refused, transfers_failed, payload_copies_bytes;
};
void transfer_stats(struct transfer_service *service, struct transfer_stats *stats);

#endif
