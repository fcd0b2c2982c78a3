/* Transfer memory: a sealed memfd, so that it can be passed to a server on this host, which maps it
 * once. The seals promise the server that it cannot shrink. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/client.h"

#define PAGE      4096ull
#define HUGE_PAGE (2ull << 20)

static int make_memory(ps_buffer *buffer, uint64_t bytes) {
    buffer->fd = memfd_create("penstock-buffer", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (buffer->fd < 0) return -errno;
    if (ftruncate(buffer->fd, (off_t)bytes) ||
        fcntl(buffer->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return -errno;
    buffer->data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, buffer->fd, 0);
    if (buffer->data == MAP_FAILED) {
        buffer->data = NULL;
        return -errno;
    }
    /* Advice only: fewer page faults and TLB misses where shmem may use huge pages. */
    if (bytes >= HUGE_PAGE) madvise(buffer->data, bytes, MADV_HUGEPAGE);
    return 0;
}

PS_API int ps_buffer_alloc(ps_client *client, uint64_t size, ps_buffer **out, ps_result *given) {
    ps_result own, *result = result_begin(given, &own);
    if (size == 0 || size > (uint64_t)INT64_MAX - PAGE)
        return result_fail(result, PS_ERR_ARGUMENT, "a buffer has at least 1 byte");
    ps_buffer *buffer = calloc(1, sizeof(*buffer));
    if (!buffer) return result_fail(result, PS_ERR_MEMORY, "out of memory");
    buffer->client = client;
    buffer->size = size;
    buffer->fd = -1;
    pthread_mutex_init(&buffer->lock, NULL);
    int err = make_memory(buffer, (size + PAGE - 1) / PAGE * PAGE);
    if (err) {
        ps_buffer_free(&buffer);
        return result_fail(result, PS_ERR_MEMORY, "cannot allocate %llu bytes: %s",
                           (unsigned long long)size, strerror(-err));
    }
    *out = buffer;
    return 0;
}

PS_API void *ps_buffer_data(ps_buffer *buffer) {
    return buffer->data;
}

PS_API uint64_t ps_buffer_size(const ps_buffer *buffer) {
    return buffer->size;
}

PS_API void ps_buffer_free(ps_buffer **buffer) {
    if (!buffer || !*buffer) return;
    session_unregister(*buffer);
    if ((*buffer)->data) munmap((*buffer)->data, ((*buffer)->size + PAGE - 1) / PAGE * PAGE);
    if ((*buffer)->fd >= 0) close((*buffer)->fd);
    pthread_mutex_destroy(&(*buffer)->lock);
    free(*buffer);
    *buffer = NULL;
}

int buffer_take(ps_client *client, uint64_t size, ps_buffer **buffer, ps_result *result) {
    pthread_mutex_lock(&client->lock);
    ps_buffer **at = &client->spare;
    while (*at && (*at)->size < size) at = &(*at)->next;
    ps_buffer *found = *at;
    if (found) *at = found->next;
    pthread_mutex_unlock(&client->lock);
    if (!found) return ps_buffer_alloc(client, size, buffer, result);
    *buffer = found;
    return 0;
}

void buffer_give(ps_buffer **buffer) {
    if (!*buffer) return;
    ps_client *client = (*buffer)->client;
    pthread_mutex_lock(&client->lock);
    (*buffer)->next = client->spare;
    client->spare = *buffer;
    pthread_mutex_unlock(&client->lock);
    *buffer = NULL;
}
