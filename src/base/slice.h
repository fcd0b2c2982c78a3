/* A borrowed, immutable run of bytes. Whoever makes one says how long it stays valid. */
#ifndef PENSTOCK_BASE_SLICE_H
#define PENSTOCK_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct slice {
    const char *data; /* not NUL-terminated; may be NULL only when size is 0 */
    size_t size;
};

#define SLICE_LITERAL(text) ((struct slice){(text), sizeof(text) - 1})

static inline struct slice slice_of(const char *text) {
    return (struct slice){text, text ? strlen(text) : 0};
}

static inline bool slice_equal(struct slice a, struct slice b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool slice_is(struct slice a, const char *text) {
    return slice_equal(a, slice_of(text));
}

static inline bool slice_starts_with(struct slice a, struct slice prefix) {
    return a.size >= prefix.size &&
           (prefix.size == 0 || memcmp(a.data, prefix.data, prefix.size) == 0);
}

/* Byte order, shorter first on a tie: the order of S3 keys and of the metadata store. */
static inline int slice_compare(struct slice a, struct slice b) {
    size_t common = a.size < b.size ? a.size : b.size;
    int order = common ? memcmp(a.data, b.data, common) : 0;
    if (order) return order;
    return (a.size > b.size) - (a.size < b.size);
}

bool slice_equal_nocase(struct slice a, struct slice b); /* ASCII only */
struct slice slice_trim(struct slice a);                 /* without leading/trailing SP and HTAB */
bool slice_to_u64(struct slice a,
                  unsigned long long *value); /* digits only, no sign, no overflow */

#endif
