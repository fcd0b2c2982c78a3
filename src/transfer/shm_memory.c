/* Checks of a memfd from a stranger. The seal against shrinking is what makes mapping it safe: once
 * there, it cannot be taken off, and no page of the mapping can fall behind the end of the file. */
#include "transfer/shm_memory.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

static bool refuse(const char **why, const char *sentence) {
    *why = sentence;
    return false;
}

bool shm_memory_check(int fd, uint64_t length, const char **why) {
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0) return refuse(why, "the descriptor is not a memfd that allows sealing");
    struct statfs fs;
    if (fstatfs(fd, &fs)) return refuse(why, "the descriptor cannot be examined");
    if (fs.f_type != TMPFS_MAGIC)
        return refuse(why, "the memory is not on plain shared-memory pages");
    if (!(seals & F_SEAL_SHRINK)) return refuse(why, "the memory is not sealed against shrinking");
    if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
        return refuse(why, "the memory is sealed against writing");
    struct stat st;
    if (fstat(fd, &st) || st.st_size < 0 || (uint64_t)st.st_size != length || length == 0)
        return refuse(why, "the size of the memory is not the registered length");
    /* A page that does not exist yet would be made, and paid for, by the first who touches it:
     * that must be the client. */
    if ((uint64_t)st.st_blocks * 512 < length)
        return refuse(why, "the memory has holes: allocate all of it first");
    return true;
}

int shm_memory_map(int fd, uint64_t length, void **base) {
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (memory == MAP_FAILED) return -errno;
    madvise(memory, length, MADV_DONTDUMP); /* a client's data has no place in our core file */
    *base = memory;
    return 0;
}

void shm_memory_unmap(void *base, uint64_t length) {
    int failed = munmap(base, length);
    assert(!failed);
    (void)failed;
}
