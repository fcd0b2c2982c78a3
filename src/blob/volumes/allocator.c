/* Free extents in two structures over the same nodes: a treap by offset, whose neighbours are
 * merged when an extent comes back, and bins by length. Bins are exact up to the largest extent
 * anyone may take, so the first bin that has something is the best fit. */
#include "blob/volumes/allocator.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"

#define EXACT_BINS        (ALLOCATOR_EXTENT_MAX / ALLOCATOR_GRAIN)
#define BINS_PER_DOUBLING 4u
#define BIN_COUNT         (EXACT_BINS + 44 * BINS_PER_DOUBLING)
#define BIN_WORDS         ((BIN_COUNT + 63) / 64)

struct node {
    struct extent extent;
    uint64_t priority;
    struct node *left, *right;
    struct node *bin_next, **bin_link; /* what points to this node in its bin */
};

struct allocator {
    pthread_mutex_t lock;
    uint64_t start, fresh, grown, limit;
    struct node *root;
    struct node *bins[BIN_COUNT];
    uint64_t filled[BIN_WORDS]; /* one bit for each bin that has something */
    uint64_t tree_bytes, tree_extents, tree_units;
    uint64_t reserved;  /* units promised to all callers */
    struct node *spare; /* nodes to use again, by `right` */
};

static uint64_t units_in(uint64_t length) {
    return length / ALLOCATOR_UNIT;
}

static uint64_t units_for(uint64_t length) {
    return (length + ALLOCATOR_UNIT - 1) / ALLOCATOR_UNIT;
}

static uint64_t extent_end(struct extent extent) {
    return extent.offset + extent.length;
}

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- by length */

static unsigned bin_of(uint64_t length) {
    uint64_t grains = length / ALLOCATOR_GRAIN;
    if (grains <= EXACT_BINS) return (unsigned)grains - 1;
    unsigned doubling = 63u - (unsigned)__builtin_clzll(grains);
    unsigned quarter = (unsigned)(grains >> (doubling - 2)) & 3;
    return EXACT_BINS + (doubling - 10) * BINS_PER_DOUBLING + quarter;
}

static void bin_insert(struct allocator *a, struct node *node) {
    unsigned bin = bin_of(node->extent.length);
    node->bin_next = a->bins[bin];
    node->bin_link = &a->bins[bin];
    if (node->bin_next) node->bin_next->bin_link = &node->bin_next;
    a->bins[bin] = node;
    a->filled[bin / 64] |= 1ull << (bin % 64);
    a->tree_bytes += node->extent.length;
    a->tree_units += units_in(node->extent.length);
    a->tree_extents++;
}

static void bin_remove(struct allocator *a, struct node *node) {
    unsigned bin = bin_of(node->extent.length);
    *node->bin_link = node->bin_next;
    if (node->bin_next) node->bin_next->bin_link = node->bin_link;
    if (!a->bins[bin]) a->filled[bin / 64] &= ~(1ull << (bin % 64));
    a->tree_bytes -= node->extent.length;
    a->tree_units -= units_in(node->extent.length);
    a->tree_extents--;
}

/* The shortest extent that holds `length`, at most ALLOCATOR_EXTENT_MAX; NULL when none does. */
static struct node *best_fit(const struct allocator *a, uint64_t length) {
    unsigned bin = bin_of(length);
    uint64_t word = a->filled[bin / 64] & (~0ull << (bin % 64));
    for (unsigned i = bin / 64;;) {
        if (word) return a->bins[i * 64 + (unsigned)__builtin_ctzll(word)];
        if (++i == BIN_WORDS) return NULL;
        word = a->filled[i];
    }
}

/* The longest extent, or one of the longest bin. */
static struct node *longest(const struct allocator *a) {
    for (unsigned i = BIN_WORDS; i-- > 0;)
        if (a->filled[i]) return a->bins[i * 64 + 63 - (unsigned)__builtin_clzll(a->filled[i])];
    return NULL;
}

/* ---- by offset */

/* splitmix64: priorities only have to be unrelated to the order of offsets. */
static uint64_t scramble(uint64_t x) {
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static void tree_split(struct node *node, uint64_t offset, struct node **low, struct node **high) {
    while (node) {
        if (node->extent.offset < offset) {
            *low = node;
            low = &node->right;
            node = node->right;
        } else {
            *high = node;
            high = &node->left;
            node = node->left;
        }
    }
    *low = *high = NULL;
}

static void tree_join(struct node **at, struct node *low, struct node *high) {
    while (low && high) {
        if (low->priority > high->priority) {
            *at = low;
            at = &low->right;
            low = low->right;
        } else {
            *at = high;
            at = &high->left;
            high = high->left;
        }
    }
    *at = low ? low : high;
}

static void tree_insert(struct allocator *a, struct node *node) {
    struct node **at = &a->root;
    while (*at && (*at)->priority > node->priority)
        at = node->extent.offset < (*at)->extent.offset ? &(*at)->left : &(*at)->right;
    tree_split(*at, node->extent.offset, &node->left, &node->right);
    *at = node;
}

static void tree_remove(struct allocator *a, struct node *node) {
    struct node **at = &a->root;
    while (*at != node)
        at = node->extent.offset < (*at)->extent.offset ? &(*at)->left : &(*at)->right;
    tree_join(at, node->left, node->right);
}

static void tree_neighbours(const struct allocator *a, uint64_t offset, struct node **before,
                            struct node **after) {
    *before = *after = NULL;
    for (struct node *node = a->root; node;) {
        if (node->extent.offset < offset) {
            *before = node;
            node = node->right;
        } else {
            *after = node;
            node = node->left;
        }
    }
}

/* ---- nodes */

static struct node *node_create(struct allocator *a) {
    struct node *node = a->spare;
    if (node)
        a->spare = node->right;
    else
        node = malloc(sizeof(*node));
    return node;
}

static void node_recycle(struct allocator *a, struct node *node) {
    node->right = a->spare;
    a->spare = node;
}

static int insert_extent(struct allocator *a, struct extent extent) {
    struct node *node = node_create(a);
    if (!node) return -ENOMEM;
    *node = (struct node){.extent = extent, .priority = scramble(extent.offset)};
    tree_insert(a, node);
    bin_insert(a, node);
    return 0;
}

static void remove_node(struct allocator *a, struct node *node) {
    tree_remove(a, node);
    bin_remove(a, node);
    node_recycle(a, node);
}

/* ---- making */

int allocator_create(uint64_t start, uint64_t grown, uint64_t limit, struct allocator **allocator) {
    struct allocator *a = calloc(1, sizeof(*a));
    if (!a) return -ENOMEM;
    pthread_mutex_init(&a->lock, NULL);
    if (grown < start) grown = start;
    a->start = a->fresh = start;
    a->grown = grown;
    a->limit = limit > grown ? limit : grown;
    *allocator = a;
    return 0;
}

static void free_tree(struct allocator *a) {
    while (a->root) remove_node(a, a->root);
    while (a->spare) {
        struct node *node = a->spare;
        a->spare = node->right;
        free(node);
    }
}

void allocator_destroy(struct allocator **allocator) {
    struct allocator *a = *allocator;
    *allocator = NULL;
    if (!a) return;
    free_tree(a);
    pthread_mutex_destroy(&a->lock);
    free(a);
}

int allocator_load(struct allocator *a, const struct extent *used, size_t count, size_t *bad) {
    int err = 0;
    pthread_mutex_lock(&a->lock);
    assert(a->fresh == a->start && !a->root);
    for (size_t i = 0; i < count && !err; i++) {
        *bad = i;
        bool inside = used[i].length > 0 && used[i].length <= a->grown &&
                      used[i].offset <= a->grown - used[i].length;
        bool whole = (used[i].offset | used[i].length) % ALLOCATOR_GRAIN == 0;
        if (!inside || !whole || used[i].offset < a->fresh) {
            err = ERR_STORE_CORRUPT;
            break;
        }
        struct extent gap = {a->fresh, used[i].offset - a->fresh};
        if (gap.length) err = insert_extent(a, gap);
        a->fresh = extent_end(used[i]);
    }
    pthread_mutex_unlock(&a->lock);
    return err;
}

/* ---- promises */

static uint64_t usable_units(const struct allocator *a, uint64_t end) {
    return a->tree_units + units_in(end - a->fresh);
}

int allocator_reserve(struct allocator *a, uint64_t size, uint64_t *units) {
    uint64_t need = units_for(size);
    pthread_mutex_lock(&a->lock);
    uint64_t usable = usable_units(a, a->limit);
    bool fits = usable >= a->reserved && usable - a->reserved >= need;
    if (fits) a->reserved += need;
    pthread_mutex_unlock(&a->lock);
    *units = fits ? need : 0;
    return fits ? 0 : ERR_STORAGE_FULL;
}

void allocator_unreserve(struct allocator *a, uint64_t *units) {
    pthread_mutex_lock(&a->lock);
    assert(a->reserved >= *units);
    a->reserved -= *units;
    pthread_mutex_unlock(&a->lock);
    *units = 0;
}

bool allocator_needs_growth(struct allocator *a, uint64_t size) {
    pthread_mutex_lock(&a->lock);
    bool needs = usable_units(a, a->grown) < a->reserved + units_for(size);
    pthread_mutex_unlock(&a->lock);
    return needs;
}

/* How many units the holder of `own` promises may take. When more was promised than there is now
 * (the file system lost room to others), who comes first is served. */
static uint64_t allowance(const struct allocator *a, uint64_t own) {
    uint64_t usable = usable_units(a, a->limit);
    uint64_t others = a->reserved - own;
    uint64_t unpromised = usable > others ? usable - others : 0;
    uint64_t owned = smaller(own, usable);
    return unpromised > owned ? unpromised : owned;
}

/* ---- taking */

static struct extent cut_front(struct allocator *a, struct node *node, uint64_t length) {
    struct extent taken = {node->extent.offset, length};
    bin_remove(a, node);
    if (node->extent.length == length) {
        tree_remove(a, node);
        node_recycle(a, node);
    } else {
        /* Only the start moves, and not past a neighbour: the node keeps its place in the tree. */
        node->extent.offset += length;
        node->extent.length -= length;
        bin_insert(a, node);
    }
    return taken;
}

/* From space that was used before; false when nothing there is long enough to be worth a cut. */
static bool take_used(struct allocator *a, uint64_t want, uint64_t allowed, struct extent *extent) {
    uint64_t length = smaller(want, allowed * ALLOCATOR_UNIT);
    struct node *node = best_fit(a, length ? length : want);
    if (!length) {
        /* Nothing is left that was not promised, except scraps too short to have been counted. */
        if (!node || units_in(node->extent.length) != units_in(node->extent.length - want))
            return false;
        length = want;
    }
    if (!node) {
        node = longest(a);
        if (!node || units_in(node->extent.length) == 0) return false;
        length = units_in(node->extent.length) * ALLOCATOR_UNIT;
    }
    *extent = cut_front(a, node, length);
    return true;
}

static int take_fresh(struct allocator *a, uint64_t want, uint64_t allowed, struct extent *extent,
                      uint64_t *grow_to) {
    uint64_t length = smaller(want, allowed * ALLOCATOR_UNIT);
    if (!length) return ERR_STORAGE_FULL;
    uint64_t most = a->limit - a->fresh;
    if (length > most) length = units_in(most) * ALLOCATOR_UNIT;
    if (!length) return ERR_STORAGE_FULL;
    if (a->fresh + length > a->grown) {
        *grow_to = a->fresh + length;
        return -EAGAIN;
    }
    *extent = (struct extent){a->fresh, length};
    a->fresh += length;
    return 0;
}

int allocator_take(struct allocator *a, uint64_t want, uint64_t *units, struct extent *extent,
                   uint64_t *grow_to) {
    assert(want > 0 && want % ALLOCATOR_GRAIN == 0);
    want = smaller(want, ALLOCATOR_EXTENT_MAX);
    pthread_mutex_lock(&a->lock);
    assert(a->reserved >= *units);
    uint64_t allowed = allowance(a, *units);
    int err = 0;
    if (!take_used(a, want, allowed, extent)) err = take_fresh(a, want, allowed, extent, grow_to);
    if (!err) {
        uint64_t spent = smaller(units_for(extent->length), *units);
        a->reserved -= spent;
        *units -= spent;
    }
    pthread_mutex_unlock(&a->lock);
    return err;
}

/* ---- giving back */

static int give_locked(struct allocator *a, struct extent extent) {
    struct node *before, *after;
    tree_neighbours(a, extent.offset, &before, &after);
    assert(extent.offset >= a->start && extent_end(extent) <= a->fresh);
    assert(!before || extent_end(before->extent) <= extent.offset);
    assert(!after || extent_end(extent) <= after->extent.offset);
    bool joins_before = before && extent_end(before->extent) == extent.offset;
    bool joins_after = after && extent_end(extent) == after->extent.offset;
    if (!joins_before && !joins_after) return insert_extent(a, extent);
    if (joins_before && joins_after) {
        extent.length += after->extent.length;
        remove_node(a, after);
    }
    struct node *node = joins_before ? before : after;
    bin_remove(a, node);
    if (!joins_before) node->extent.offset = extent.offset;
    node->extent.length += extent.length;
    bin_insert(a, node);
    return 0;
}

void allocator_give(struct allocator *a, struct extent extent) {
    if (!extent.length) return;
    assert((extent.offset | extent.length) % ALLOCATOR_GRAIN == 0);
    pthread_mutex_lock(&a->lock);
    int err = give_locked(a, extent);
    pthread_mutex_unlock(&a->lock);
    /* Nothing refers to the space, so the next start finds it again. */
    if (err)
        log_error("no memory to note %llu free bytes; they come back at the next start",
                  (unsigned long long)extent.length);
}

/* ---- bounds */

void allocator_grown(struct allocator *a, uint64_t grown) {
    pthread_mutex_lock(&a->lock);
    if (grown > a->grown) a->grown = grown;
    if (a->limit < a->grown) a->limit = a->grown;
    pthread_mutex_unlock(&a->lock);
}

void allocator_set_limit(struct allocator *a, uint64_t limit) {
    pthread_mutex_lock(&a->lock);
    a->limit = limit > a->grown ? limit : a->grown;
    pthread_mutex_unlock(&a->lock);
}

void allocator_stats(struct allocator *a, struct allocator_stats *stats) {
    pthread_mutex_lock(&a->lock);
    *stats = (struct allocator_stats){
        .limit = a->limit,
        .grown = a->grown,
        .fresh = a->fresh,
        .free_bytes = a->tree_bytes + (a->limit - a->fresh),
        .extents_free = a->tree_extents,
        .reserved_units = a->reserved,
    };
    pthread_mutex_unlock(&a->lock);
}
