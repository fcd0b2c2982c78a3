/* Hashing that overlaps receiving and writing. One job at a time keeps the blocks in order. */
#include "s3/hasher.h"

#include <assert.h>
#include <string.h>

int hasher_init(struct hasher *hasher, unsigned kinds) {
    memset(hasher, 0, sizeof *hasher);
    hasher->slow = kinds & (DIGEST_MD5 | DIGEST_SHA1 | DIGEST_SHA256);
    return kinds ? digest_create(kinds, &hasher->digest) : 0;
}

static void hash_running(void *arg) {
    struct hasher *hasher = arg;
    for (unsigned i = 0; i < hasher->running_count; i++)
        digest_update(hasher->digest, hasher->running[i]->data, hasher->running[i]->size);
}

static void collect_await(struct hasher *hasher) {
    if (!hasher->running_count) return;
    worker_job_await(&hasher->job);
    for (unsigned i = 0; i < hasher->running_count; i++) block_unref(&hasher->running[i]);
    hasher->running_count = 0;
}

static void start(struct hasher *hasher) {
    assert(!hasher->running_count);
    if (!hasher->waiting_count) return;
    memcpy(hasher->running, hasher->waiting, sizeof hasher->running);
    hasher->running_count = hasher->waiting_count;
    hasher->waiting_count = 0;
    memset(&hasher->job, 0, sizeof hasher->job);
    worker_job_start(&hasher->job, hash_running, hasher);
}

void hasher_update_await(struct hasher *hasher, struct block *block) {
    if (!hasher->digest) return;
    bool idle = !hasher->running_count && !hasher->waiting_count;
    if (idle && (!hasher->slow || block->size < S3_HASH_WORKER_MIN)) {
        digest_update(hasher->digest, block->data, block->size);
        return;
    }
    block_ref(block);
    hasher->waiting[hasher->waiting_count++] = block;
    if (hasher->waiting_count == S3_HASH_QUEUE) collect_await(hasher);
    if (!hasher->running_count) start(hasher);
}

void hasher_finish_await(struct hasher *hasher) {
    collect_await(hasher);
    start(hasher);
    collect_await(hasher);
}

void hasher_deinit_await(struct hasher *hasher) {
    collect_await(hasher);
    for (unsigned i = 0; i < hasher->waiting_count; i++) block_unref(&hasher->waiting[i]);
    hasher->waiting_count = 0;
    digest_destroy(&hasher->digest);
}
