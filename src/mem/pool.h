/* The buffer pool: one region of memory, sized at start, that payload lives in.
 *
 * The region is anonymous memory (reserved huge pages where there are enough, else transparent ones
 * where the kernel gives them, else plain pages; the log says which), mapped once, so that it can
 * be registered once with everyone who does DMA: each reactor's io_uring (as fixed buffers of at
 * most 1 GiB), and later verbs and SPDK. It is cut into page-aligned blocks of three classes.
 * Blocks are reference-counted; a block goes back to the pool when its last reference is dropped,
 * from any thread.
 *
 * The pool never grows. When it is empty, first the cache is asked to give blocks up (the reclaim
 * function), then the fiber waits in FIFO order: back-pressure, with a deadline. Take everything a
 * step needs in one call: two fibers that take one by one can starve each other for ever. */
#ifndef PENSTOCK_MEM_POOL_H
#define PENSTOCK_MEM_POOL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Block classes. The shares of the region are fixed (see pool.c), so that small cached objects can
 * never fragment the memory that large transfers need. */
enum block_class { BLOCK_4K, BLOCK_32K, BLOCK_256K, BLOCK_CLASSES };
#define BLOCK_MAX_SIZE (256u * 1024)

struct pool;

struct block {
    uint8_t *data;     /* page-aligned, inside the region */
    uint32_t capacity; /* bytes: 4096, 32768 or 262144 */
    uint32_t size;     /* bytes in use; the owner's to set */
    atomic_uint refs;
    uint8_t class;
    struct block *next; /* free list; meaningless to owners */
    struct pool *pool;  /* where it goes back to */
};

struct pool_stats {
    uint64_t memory_bytes, huge_page_bytes; /* region size; part of it on huge pages */
    uint64_t blocks_total[BLOCK_CLASSES], blocks_free[BLOCK_CLASSES];
    uint64_t waits, wait_timeouts, reclaims; /* since start */
};

/* memory_bytes is rounded down to whole blocks, but up to 16 MiB. Returns -ENOMEM with nothing
 * allocated. */
int pool_create(uint64_t memory_bytes, struct pool **pool);
void pool_destroy(struct pool **pool); /* every block must be back: asserts it */

/* Give up cached blocks of `class` when the pool is empty: return how many references were
 * dropped. Called from any thread, outside the pool's lock. */
typedef unsigned pool_reclaim_fn(void *ctx, enum block_class class, unsigned count);
void pool_set_reclaim(struct pool *pool, pool_reclaim_fn *fn, void *ctx);

/* Take `count` blocks of `class`, each with one reference and size 0, all or none. May suspend the
 * calling fiber. Errors: -ETIME at the deadline, -ECANCELED, -EINVAL if the pool could never. */
int pool_take_await(struct pool *pool, enum block_class class, unsigned count,
                    struct block **blocks, uint64_t deadline_ns);
/* The same without waiting: -EAGAIN when the pool (and the cache) cannot. */
int pool_try_take(struct pool *pool, enum block_class class, unsigned count, struct block **blocks);

/* Somebody is waiting for blocks of `class`: the wrong moment to keep any for later. */
bool pool_is_waited_for(const struct pool *pool, enum block_class class);

void block_ref(struct block *block);
void block_unref(struct block **block); /* nulls; NULL is fine */

/* The smallest class that holds `size` bytes (BLOCK_256K for anything larger). */
enum block_class pool_class_for(uint64_t size);

/* The region, for registration. */
struct pool_region {
    uint8_t *base;
    uint64_t size;
};
struct pool_region pool_region(const struct pool *pool);
void pool_stats(struct pool *pool, struct pool_stats *stats);

#endif
