/* Growing arrays and offset slices for listings. */
#include "object/page.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

struct slice page_keep(struct text *bytes, struct slice value) {
    struct slice kept = {(const char *)(uintptr_t)bytes->size, value.size};
    text_append_slice(bytes, value);
    return kept;
}

void page_resolve(const struct text *bytes, struct slice *kept) {
    kept->data = kept->size ? bytes->data + (uintptr_t)kept->data : "";
}

int page_grow(void **entries, unsigned count, unsigned *capacity, size_t size) {
    if (count < *capacity) return 0;
    unsigned wanted = *capacity ? 2 * *capacity : 32;
    void *grown = realloc(*entries, wanted * size);
    if (!grown) return -ENOMEM;
    *entries = grown;
    *capacity = wanted;
    return 0;
}
