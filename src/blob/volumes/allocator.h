/* Where there is room on a volume: free extents, found by offset (to merge neighbours) and by
 * length (to fit), and the room at the end that was never used. Nothing is stored: the state is
 * derived at start from the segments that exist.
 *
 * Space that has been used is taken before space that has not, because rewriting is faster than
 * filling new extents of a file. A reservation promises room without saying where. It is counted in
 * units of ALLOCATOR_UNIT that lie in one piece, and every extent taken under it is a whole number
 * of units or the blob's tail, so that what is promised can always be placed however the free space
 * is cut up. All functions may be called from any thread and never wait for I/O. */
#ifndef PENSTOCK_BLOB_VOLUMES_ALLOCATOR_H
#define PENSTOCK_BLOB_VOLUMES_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ALLOCATOR_GRAIN      4096u
#define ALLOCATOR_UNIT       (256u * 1024)
#define ALLOCATOR_EXTENT_MAX (4u * 1024 * 1024)

struct extent {
    uint64_t offset, length; /* bytes, multiples of ALLOCATOR_GRAIN */
};

struct allocator;

/* An allocator of the bytes start..limit, of which those below `grown` exist on the device. */
int allocator_create(uint64_t start, uint64_t grown, uint64_t limit, struct allocator **allocator);
void allocator_destroy(struct allocator **allocator);

/* Say once, before anything is taken, what is in use: sorted by offset. ERR_STORE_CORRUPT when two
 * overlap or one lies outside; then *bad is its index. */
int allocator_load(struct allocator *allocator, const struct extent *used, size_t count,
                   size_t *bad);

/* Promise room for `size` bytes and return it in *units. ERR_STORAGE_FULL. */
int allocator_reserve(struct allocator *allocator, uint64_t size, uint64_t *units);
void allocator_unreserve(struct allocator *allocator, uint64_t *units); /* zeroes */
/* Would the reservation count on room that the device has yet to grow by? */
bool allocator_needs_growth(struct allocator *allocator, uint64_t size);

/* Take one extent of at most `want` bytes (and at most ALLOCATOR_EXTENT_MAX): all of it in one
 * piece where there is such a piece, else the largest whole number of units. *units is the caller's
 * reservation, used up first; without one only room that nobody was promised is given.
 * -EAGAIN: grow the device to at least *grow_to and say so; ERR_STORAGE_FULL. */
int allocator_take(struct allocator *allocator, uint64_t want, uint64_t *units,
                   struct extent *extent, uint64_t *grow_to);
/* Give back an extent, or any part of one. */
void allocator_give(struct allocator *allocator, struct extent extent);

void allocator_grown(struct allocator *allocator, uint64_t grown);
void allocator_set_limit(struct allocator *allocator, uint64_t limit); /* never below grown */

struct allocator_stats {
    uint64_t limit, grown, fresh; /* fresh: where never-used room begins */
    uint64_t free_bytes;          /* up to the limit, promised room included */
    uint64_t extents_free;        /* pieces below fresh */
    uint64_t reserved_units;
};
void allocator_stats(struct allocator *allocator, struct allocator_stats *stats);

#endif
