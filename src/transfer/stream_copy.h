/* A memory copy for pieces that the copying core will not read again. */
#ifndef PENSTOCK_TRANSFER_STREAM_COPY_H
#define PENSTOCK_TRANSFER_STREAM_COPY_H

#include <stddef.h>

/* Smaller pieces stay in the cache, where the reader on this host finds them. */
#define STREAM_COPY_MIN ((size_t)64 * 1024)

/* memcpy by non-temporal stores where the processor has them and size is STREAM_COPY_MIN or more;
 * plain memcpy otherwise. The ranges must not overlap. */
void stream_copy(void *to, const void *from, size_t size);

#endif
