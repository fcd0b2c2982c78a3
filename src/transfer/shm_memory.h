/* Memory that a client passed as a file descriptor: what is accepted, and mapping it. */
#ifndef PENSTOCK_TRANSFER_SHM_MEMORY_H
#define PENSTOCK_TRANSFER_SHM_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* May this descriptor be mapped for `length` bytes without any risk that its pages go away? If not,
 * *why (static text) says so. Does not block. */
bool shm_memory_check(int fd, uint64_t length, const char **why);

/* Map it for reading and writing and touch every page: blocks for long, for a worker thread.
 * Returns 0 or a negative errno. */
int shm_memory_map(int fd, uint64_t length, void **base);
void shm_memory_unmap(void *base, uint64_t length); /* blocks as well */

#endif
