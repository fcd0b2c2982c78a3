/* Copies between the server's memory and a mapping that another process shares: if the memory
 * behind the mapping goes away in the middle (SIGBUS, SIGSEGV), the copy fails, not the server. */
#ifndef PENSTOCK_TRANSFER_GUARDED_COPY_H
#define PENSTOCK_TRANSFER_GUARDED_COPY_H

#include <stddef.h>

/* The shared mapping that a copy may fault in. */
struct guarded_mapping {
    void *base;
    size_t size;
};

/* Install the signal handlers, once in a process; later calls have no effect. Signals that do not
 * come from a guarded copy go to whoever handled them before. 0 or a negative errno. */
int guarded_copy_install(void);

/* Copy; one of the two sides lies inside the mapping. 0, or -EFAULT when the mapping failed: then
 * part of the destination may have been written. Does not wait, and must not be nested. */
int guarded_copy(void *to, const void *from, size_t size, const struct guarded_mapping *mapping);

#endif
