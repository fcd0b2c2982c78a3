/* The buffer pool: one region, three classes of blocks, a free list and a FIFO of waiting fibers
 * for each class. Blocks that were never used are handed out last-resort and in order, so a pool
 * that is larger than its load never touches its far pages. What is cached is cache.c's business.
 *
 * Waiting: a waiter lives on its fiber's stack and is linked into its class's FIFO. Whoever returns
 * blocks hands them to the first waiters under the class's lock (nobody can overtake) and then
 * posts the waiter's message to the waiter's reactor, where it opens the waiter's gate. A waiter
 * that runs into its deadline or is cancelled unlinks itself under the lock; when it finds itself
 * granted already, a message to its stack is on the way, so it waits for that one, shielded, and
 * keeps the blocks. */
#include "mem/pool.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/fiber.h"
#include "runtime/reactor.h"

#define POOL_MIN_BYTES (16ull << 20)
#define POOL_SHARES    16u /* the region is cut into this many equal shares */

static const uint32_t class_size[BLOCK_CLASSES] = {4096, 32768, 262144};
/* Small objects and inner records need few bytes; bulk transfers need nearly all of them. */
static const unsigned class_shares[BLOCK_CLASSES] = {1, 3, 12};

/* A share is a whole number of the largest blocks, and the region a whole number of 2 MiB pages. */
#define POOL_UNIT_BYTES ((uint64_t)POOL_SHARES * BLOCK_MAX_SIZE)

struct pool_waiter {
    struct pool_waiter *previous, *next;
    struct block **blocks;
    unsigned count;
    bool queued;    /* in the FIFO; guarded by the class's lock */
    bool delivered; /* the message has run; only the waiter's reactor looks */
    struct reactor *reactor;
    struct fiber_queue gate;
    struct message message;
};

struct pool_class {
    pthread_mutex_t lock;
    uint8_t *base;
    struct block *blocks; /* descriptors; those from `fresh` on were never used */
    uint64_t total, fresh;
    struct block *free;
    uint64_t free_count; /* on the free list and fresh ones together */
    struct pool_waiter *first, *last;
    atomic_uint waiting; /* length of the FIFO, readable without the lock */
    uint64_t waits, timeouts, reclaims;
};

struct pool {
    struct pool_region region;
    uint64_t huge_page_bytes;
    pool_reclaim_fn *_Atomic reclaim;
    void *_Atomic reclaim_ctx;
    struct pool_class classes[BLOCK_CLASSES];
};

/* ---- the region */

#define HUGE_PAGE_BYTES ((uint64_t)2 << 20)

static void *map_anonymous(uint64_t size, int flags) {
    void *base =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    return base == MAP_FAILED ? NULL : base;
}

/* On a 2 MiB boundary, so that transparent huge pages can cover all of it. */
static uint8_t *map_aligned(uint64_t size) {
    uint8_t *base = map_anonymous(size + HUGE_PAGE_BYTES, 0);
    if (!base) return NULL;
    uint64_t before = -(uintptr_t)base & (HUGE_PAGE_BYTES - 1);
    if (before) munmap(base, before);
    munmap(base + before + size, HUGE_PAGE_BYTES - before);
    return base + before;
}

/* Mapping reserved huge pages takes all of them or fails, so trying is the test. Pages of either
 * kind come into being when the region is registered, not here. */
static int region_create(struct pool *pool) {
    uint64_t size = pool->region.size;
    unsigned long long mib = size >> 20;
    pool->region.base = map_anonymous(size, MAP_HUGETLB);
    if (pool->region.base) {
        pool->huge_page_bytes = size;
        log_info("pool: %llu MiB on reserved huge pages", mib);
        return 0;
    }
    pool->region.base = map_aligned(size);
    if (!pool->region.base) {
        log_error("pool: cannot map %llu MiB of memory", mib);
        return -ENOMEM;
    }
    bool transparent = madvise(pool->region.base, size, MADV_HUGEPAGE) == 0;
    log_info("pool: %llu MiB on %s (fewer than that in free reserved huge pages)", mib,
             transparent ? "transparent huge pages where the kernel has them" : "plain pages");
    return 0;
}

static void region_destroy(struct pool_region *region) {
    if (region->base) munmap(region->base, region->size);
}

/* ---- creation */

static int class_init(struct pool_class *c, enum block_class class, uint8_t *base, uint64_t size) {
    pthread_mutex_init(&c->lock, NULL);
    c->base = base;
    c->total = c->free_count = size / class_size[class];
    c->blocks = calloc(c->total, sizeof *c->blocks);
    return c->blocks ? 0 : -ENOMEM;
}

static void pool_free(struct pool *pool) {
    for (unsigned i = 0; i < BLOCK_CLASSES; i++) {
        if (!pool->classes[i].base) continue;
        free(pool->classes[i].blocks);
        pthread_mutex_destroy(&pool->classes[i].lock);
    }
    region_destroy(&pool->region);
    free(pool);
}

int pool_create(uint64_t memory_bytes, struct pool **out) {
    struct pool *pool = calloc(1, sizeof *pool);
    if (!pool) return -ENOMEM;
    if (memory_bytes < POOL_MIN_BYTES) memory_bytes = POOL_MIN_BYTES;
    pool->region.size = memory_bytes / POOL_UNIT_BYTES * POOL_UNIT_BYTES;
    int err = region_create(pool);
    uint8_t *base = pool->region.base;
    for (unsigned i = 0; i < BLOCK_CLASSES && !err; i++) {
        uint64_t size = pool->region.size / POOL_SHARES * class_shares[i];
        err = class_init(&pool->classes[i], i, base, size);
        base += size;
    }
    if (err) {
        pool_free(pool);
        return err;
    }
    *out = pool;
    return 0;
}

void pool_destroy(struct pool **pool) {
    if (!*pool) return;
    for (unsigned i = 0; i < BLOCK_CLASSES; i++) {
        assert((*pool)->classes[i].free_count == (*pool)->classes[i].total);
        assert(!(*pool)->classes[i].first);
    }
    pool_free(*pool);
    *pool = NULL;
}

void pool_set_reclaim(struct pool *pool, pool_reclaim_fn *fn, void *ctx) {
    atomic_store(&pool->reclaim_ctx, ctx);
    atomic_store(&pool->reclaim, fn);
}

/* ---- blocks; what ends in _locked wants the class's lock held */

static struct block *class_pop_locked(struct pool *pool, struct pool_class *c) {
    struct block *block = c->free;
    if (block) {
        c->free = block->next;
    } else {
        assert(c->fresh < c->total);
        unsigned class = (unsigned)(c - pool->classes);
        block = &c->blocks[c->fresh];
        block->pool = pool;
        block->data = c->base + c->fresh++ * class_size[class];
        block->capacity = class_size[class];
        block->class = (uint8_t) class;
    }
    block->next = NULL;
    block->size = 0;
    atomic_store_explicit(&block->refs, 1, memory_order_relaxed);
    c->free_count--;
    return block;
}

static void class_pop_many_locked(struct pool *pool, struct pool_class *c, unsigned count,
                                  struct block **blocks) {
    assert(c->free_count >= count);
    for (unsigned i = 0; i < count; i++) blocks[i] = class_pop_locked(pool, c);
}

static void class_unlink_locked(struct pool_class *c, struct pool_waiter *waiter) {
    assert(waiter->queued);
    *(waiter->previous ? &waiter->previous->next : &c->first) = waiter->next;
    *(waiter->next ? &waiter->next->previous : &c->last) = waiter->previous;
    waiter->previous = waiter->next = NULL;
    waiter->queued = false;
    atomic_fetch_sub(&c->waiting, 1);
}

static void class_link_locked(struct pool_class *c, struct pool_waiter *waiter) {
    waiter->previous = c->last;
    *(c->last ? &c->last->next : &c->first) = waiter;
    c->last = waiter;
    waiter->queued = true;
    atomic_fetch_add(&c->waiting, 1);
    c->waits++;
}

/* Serve the waiters that can be served, in order. Returns them as a list through `next`. */
static struct pool_waiter *class_grant_locked(struct pool *pool, struct pool_class *c) {
    struct pool_waiter *granted = NULL, **tail = &granted;
    while (c->first && c->first->count <= c->free_count) {
        struct pool_waiter *waiter = c->first;
        class_unlink_locked(c, waiter);
        class_pop_many_locked(pool, c, waiter->count, waiter->blocks);
        *tail = waiter;
        tail = &waiter->next;
    }
    return granted;
}

/* After its message is posted a waiter may be gone at any moment: look at `next` before. */
static void post_granted(struct pool_waiter *granted) {
    while (granted) {
        struct pool_waiter *next = granted->next;
        reactor_post(granted->reactor, &granted->message);
        granted = next;
    }
}

static void waiter_deliver(void *arg) {
    struct pool_waiter *waiter = arg;
    waiter->delivered = true;
    fiber_queue_wake_one(&waiter->gate);
}

/* ---- taking */

/* Nobody overtakes a waiter, even one that wants more than there is. */
static bool class_try_take(struct pool *pool, struct pool_class *c, unsigned count,
                           struct block **blocks) {
    pthread_mutex_lock(&c->lock);
    bool taken = !c->first && c->free_count >= count;
    if (taken) class_pop_many_locked(pool, c, count, blocks);
    pthread_mutex_unlock(&c->lock);
    return taken;
}

static unsigned pool_reclaim(struct pool *pool, enum block_class class, unsigned count) {
    pool_reclaim_fn *fn = atomic_load(&pool->reclaim);
    unsigned dropped = fn ? fn(atomic_load(&pool->reclaim_ctx), class, count) : 0;
    if (!dropped) return 0;
    struct pool_class *c = &pool->classes[class];
    pthread_mutex_lock(&c->lock);
    c->reclaims += dropped;
    pthread_mutex_unlock(&c->lock);
    return dropped;
}

/* Cached blocks may be in use by others as well, so one round of reclaiming may free nothing: go
 * on until the cache has none left. */
static bool class_take_now(struct pool *pool, enum block_class class, unsigned count,
                           struct block **blocks) {
    struct pool_class *c = &pool->classes[class];
    do {
        if (class_try_take(pool, c, count, blocks)) return true;
        if (atomic_load(&c->waiting)) return false;
    } while (pool_reclaim(pool, class, count));
    return class_try_take(pool, c, count, blocks);
}

static bool take_is_sound(const struct pool *pool, enum block_class class, unsigned count) {
    return class < BLOCK_CLASSES && count <= pool->classes[class].total;
}

int pool_try_take(struct pool *pool, enum block_class class, unsigned count,
                  struct block **blocks) {
    if (!take_is_sound(pool, class, count)) return -EINVAL;
    return class_take_now(pool, class, count, blocks) ? 0 : -EAGAIN;
}

/* Leave the FIFO after `err`; 0 when the blocks had come already. */
static int waiter_withdraw_await(struct pool *pool, struct pool_class *c,
                                 struct pool_waiter *waiter, int err) {
    pthread_mutex_lock(&c->lock);
    bool withdrawn = waiter->queued;
    struct pool_waiter *granted = NULL;
    if (withdrawn) {
        class_unlink_locked(c, waiter);
        if (err == -ETIME) c->timeouts++;
        granted = class_grant_locked(pool, c); /* it may have held up smaller wishes */
    }
    pthread_mutex_unlock(&c->lock);
    post_granted(granted);
    if (withdrawn) return err;
    fiber_shield_begin();
    while (!waiter->delivered) fiber_queue_wait_await(&waiter->gate, NO_DEADLINE);
    fiber_shield_end();
    return 0;
}

int pool_take_await(struct pool *pool, enum block_class class, unsigned count,
                    struct block **blocks, uint64_t deadline_ns) {
    if (!take_is_sound(pool, class, count)) return -EINVAL;
    if (class_take_now(pool, class, count, blocks)) return 0;
    assert(fiber_self());

    struct pool_class *c = &pool->classes[class];
    struct pool_waiter waiter = {.blocks = blocks, .count = count, .reactor = reactor_self()};
    waiter.message = (struct message){.fn = waiter_deliver, .arg = &waiter};
    pthread_mutex_lock(&c->lock);
    class_link_locked(c, &waiter);
    struct pool_waiter *granted = class_grant_locked(pool, c);
    pthread_mutex_unlock(&c->lock);
    post_granted(granted);

    /* The cache puts nothing in while somebody waits, but it may have done so just before the
     * waiter could be seen: ask once more, now that it can. */
    while (pool_reclaim(pool, class, count)) {
        if (!atomic_load(&c->waiting)) break;
    }

    while (!waiter.delivered) {
        int err = fiber_queue_wait_await(&waiter.gate, deadline_ns);
        if (err && !waiter.delivered) return waiter_withdraw_await(pool, c, &waiter, err);
    }
    return 0;
}

/* ---- returning */

void block_ref(struct block *block) {
    unsigned before = atomic_fetch_add_explicit(&block->refs, 1, memory_order_relaxed);
    assert(before > 0);
    (void)before;
}

static void block_return(struct block *block) {
    struct pool *pool = block->pool;
    struct pool_class *c = &pool->classes[block->class];
    pthread_mutex_lock(&c->lock);
    block->next = c->free;
    c->free = block;
    c->free_count++;
    struct pool_waiter *granted = class_grant_locked(pool, c);
    pthread_mutex_unlock(&c->lock);
    post_granted(granted);
}

void block_unref(struct block **block) {
    struct block *b = *block;
    *block = NULL;
    if (!b) return;
    unsigned before = atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before == 1) block_return(b);
}

/* ---- looking */

enum block_class pool_class_for(uint64_t size) {
    if (size <= class_size[BLOCK_4K]) return BLOCK_4K;
    if (size <= class_size[BLOCK_32K]) return BLOCK_32K;
    return BLOCK_256K;
}

bool pool_is_waited_for(const struct pool *pool, enum block_class class) {
    return atomic_load(&pool->classes[class].waiting) > 0;
}

struct pool_region pool_region(const struct pool *pool) {
    return pool->region;
}

void pool_stats(struct pool *pool, struct pool_stats *stats) {
    *stats = (struct pool_stats){.memory_bytes = pool->region.size,
                                 .huge_page_bytes = pool->huge_page_bytes};
    for (unsigned i = 0; i < BLOCK_CLASSES; i++) {
        struct pool_class *c = &pool->classes[i];
        pthread_mutex_lock(&c->lock);
        stats->blocks_total[i] = c->total;
        stats->blocks_free[i] = c->free_count;
        stats->waits += c->waits;
        stats->wait_timeouts += c->timeouts;
        stats->reclaims += c->reclaims;
        pthread_mutex_unlock(&c->lock);
    }
}
