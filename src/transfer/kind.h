/* A kind of one-sided transfer is a table of functions, found by the token forms that it serves.
 * transfer.c owns what all kinds share (parsing, choosing, ranges against the token, counting); a
 * kind owns its peers and moves bytes. Adding one means a file with such a table, and a line in
 * transfer.c.
 *
 * move_await is given whole runs of memory rather than pieces, so that a kind with a NIC below it
 * can post all of them and wait once, while one that copies cuts them as it likes. */
#ifndef PENSTOCK_TRANSFER_KIND_H
#define PENSTOCK_TRANSFER_KIND_H

#include <stdint.h>
#include <sys/uio.h>

#include "transfer/token.h"
#include "transfer/transfer.h"

/* What every kind is started with. Everything outlives the kind. */
struct transfer_context {
    struct runtime *runtime;
    struct pool *pool;
    struct transfer_options options; /* defaults filled in */
};

/* Runs are gathered this many at a time; a block holds at most 256 KiB, so a round is 4 MiB. */
#define TRANSFER_RUNS_MAX 16

enum transfer_direction { TRANSFER_PUSH, TRANSFER_PULL };

/* Kinds embed this as the first member of their own target. Fields are set by transfer.c. */
struct transfer_target {
    const struct transfer_kind *kind;
    struct transfer_service *service;
    uint64_t size;
};

struct transfer_kind {
    const char *name;
    unsigned forms; /* mask of 1 << enum token_form */
    bool copies;    /* the processor copies the payload (once) */

    /* From outside the reactors. */
    int (*start)(const struct transfer_context *context, void **state);
    void (*stop)(void **state);

    /* From any reactor. open: the token is well-formed; ERR_INVALID_RDMA_TOKEN with *detail,
     * ERR_RDMA_NOT_SUPPORTED. introduce may be NULL: appends the members of a JSON object. */
    int (*open)(void *state, const struct token *token, const char *identity,
                struct transfer_target **target, const char **detail);
    void (*close)(struct transfer_target *target);
    int (*introduce)(void *state, const char *identity, struct text *out);
    void (*count)(void *state, struct transfer_stats *stats); /* sessions, regions, bytes: adds */

    /* Move between the runs and target bytes offset..; the range was checked against the token. */
    int (*move_await)(struct transfer_target *target, enum transfer_direction direction,
                      uint64_t offset, const struct iovec *runs, unsigned count);
};

extern const struct transfer_kind shm_kind;

#endif
