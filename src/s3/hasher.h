/* Digests of a stream of blocks, computed beside the stream: a large block is hashed on a worker
 * thread while the fiber receives the next one. At most S3_HASH_QUEUE blocks wait and as many are
 * being hashed; what is small or quick is hashed at once, because a thread switch costs more. */
#ifndef PENSTOCK_S3_HASHER_H
#define PENSTOCK_S3_HASHER_H

#include "base/checksum.h"
#include "mem/pool.h"
#include "runtime/worker.h"

#define S3_HASH_QUEUE      2
#define S3_HASH_WORKER_MIN (64u * 1024)

struct hasher {
    struct digest *digest; /* NULL when nothing was asked for */
    bool slow;             /* MD5 or SHA is among the kinds */
    struct block *waiting[S3_HASH_QUEUE], *running[S3_HASH_QUEUE];
    unsigned waiting_count, running_count;
    struct worker_job job;
};

/* kinds: mask of digest_kind. On an error nothing needs to be ended. */
int hasher_init(struct hasher *hasher, unsigned kinds);
/* The block's bytes must not change any more; references are taken as needed. */
void hasher_update_await(struct hasher *hasher, struct block *block);
/* Wait until all is hashed; hasher->digest may be used then. */
void hasher_finish_await(struct hasher *hasher);
void hasher_deinit_await(struct hasher *hasher);

#endif
