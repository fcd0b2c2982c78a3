/* Memory of one page of a listing: entries and the bytes they point into, gathered while a cursor
 * walks and given to the caller in two allocations. */
#ifndef PENSTOCK_OBJECT_PAGE_H
#define PENSTOCK_OBJECT_PAGE_H

#include "base/text.h"

/* The bytes may move while they grow, so a slice made here holds an offset until it is resolved. */
struct slice page_keep(struct text *bytes, struct slice value);
void page_resolve(const struct text *bytes, struct slice *kept);

/* Room for one more entry of `size` bytes in a growing array. -ENOMEM. */
int page_grow(void **entries, unsigned count, unsigned *capacity, size_t size);

#endif
