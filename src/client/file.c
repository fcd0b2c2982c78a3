/* Whole files: pieces of a bounded size through a few transfer buffers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"
#include "client/client.h"

struct file_transfer {
    ps_client *client;
    const char *bucket, *key, *path;
    int fd;
    uint64_t size, chunk;
    enum ps_via via;
    const char *etag;                        /* GET: every piece must be of this version */
    struct multipart *upload;                /* PUT: NULL for a single PUT */
    ps_buffer *buffers[CLIENT_PARALLEL_MAX]; /* one a worker */
    pthread_mutex_t lock;                    /* of what follows */
    ps_progress progress;
    void *ctx;
    uint64_t done;
};

static uint64_t piece_count(const struct file_transfer *file) {
    return (file->size + file->chunk - 1) / file->chunk;
}

static uint64_t piece_length(const struct file_transfer *file, uint64_t index) {
    uint64_t left = file->size - index * file->chunk;
    return left < file->chunk ? left : file->chunk;
}

static void advance(struct file_transfer *file, uint64_t bytes) {
    pthread_mutex_lock(&file->lock);
    file->done += bytes;
    if (file->progress) file->progress(file->ctx, file->done, file->size);
    pthread_mutex_unlock(&file->lock);
}

static int file_error(const struct file_transfer *file, const char *what, ps_result *result) {
    return result_fail(result, PS_ERR_IO, "cannot %s %.150s: %s", what, file->path,
                       strerror(errno));
}

static int worker_buffer(struct file_transfer *file, unsigned worker, ps_result *result) {
    if (file->buffers[worker]) return 0;
    return buffer_take(file->client, file->chunk, &file->buffers[worker], result);
}

static struct piece piece_of(const struct file_transfer *file, unsigned worker, uint64_t index) {
    return (struct piece){
        .bucket = file->bucket,
        .key = file->key,
        .buffer = file->buffers[worker],
        .offset = index * file->chunk,
        .length = piece_length(file, index),
        .if_match = file->etag,
        .upload_id = file->upload ? file->upload->upload_id : NULL,
        .part_number = (unsigned)index + 1,
        .via = file->via,
    };
}

static bool transfer_file(int fd, char *data, uint64_t size, uint64_t offset, bool write) {
    while (size) {
        ssize_t n =
            write ? pwrite(fd, data, size, (off_t)offset) : pread(fd, data, size, (off_t)offset);
        if (n < 0 && errno == EINTR) continue;
        if (n == 0) errno = EIO; /* the file became shorter while it was read */
        if (n <= 0) return false;
        data += n;
        size -= (uint64_t)n;
        offset += (uint64_t)n;
    }
    return true;
}

static void begin(struct file_transfer *file) {
    pthread_mutex_init(&file->lock, NULL);
    file->chunk = file->client->file_chunk;
}

static void finish(struct file_transfer *file) {
    for (unsigned i = 0; i < CLIENT_PARALLEL_MAX; i++)
        if (file->buffers[i]) buffer_give(&file->buffers[i]);
    pthread_mutex_destroy(&file->lock);
    if (file->fd >= 0) close(file->fd);
}

/* ---- GET */

static int get_piece(void *ctx, unsigned worker, uint64_t index, ps_result *result) {
    struct file_transfer *file = ctx;
    int err = worker_buffer(file, worker, result);
    if (err) return err;
    struct piece piece = piece_of(file, worker, index);
    err = piece_get(file->client, &piece, result);
    if (err) return err;
    if (result->bytes != piece.length)
        return result_fail(result, PS_ERR_PROTOCOL, "the server moved %llu bytes of %llu",
                           (unsigned long long)result->bytes, (unsigned long long)piece.length);
    if (!transfer_file(file->fd, piece.buffer->data, piece.length, piece.offset, true))
        return file_error(file, "write", result);
    advance(file, piece.length);
    return 0;
}

/* The file appears under its name when it is whole. It is opened by hand, as mkstemp() would give
 * it a mode that no other program gives a file, and umask() cannot be read without changing it for
 * every thread. What is there and is no file (a device, a pipe) is not replaced. */
static int open_temporary(struct file_transfer *file, char temporary[4096 + 32],
                          ps_result *result) {
    struct stat info;
    if (strlen(file->path) >= 4096)
        return result_fail(result, PS_ERR_ARGUMENT, "the path is too long");
    if (stat(file->path, &info) == 0 && !S_ISREG(info.st_mode))
        return result_fail(result, PS_ERR_IO, "%.150s is not a regular file", file->path);
    uint32_t suffix;
    random_bytes(&suffix, sizeof(suffix));
    sprintf(temporary, "%s.part-%08x", file->path, suffix);
    file->fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return file->fd < 0 ? file_error(file, "write", result) : 0;
}

PS_API int ps_get_file(ps_client *client, const char *bucket, const char *key, const char *path,
                       enum ps_via via, ps_progress progress, void *ctx, ps_result *given) {
    ps_result own, *result = result_begin(given, &own);
    ps_object_stat stat;
    int err = ps_stat(client, bucket, key, &stat, result);
    if (err) return err;
    struct file_transfer file = {
        .client = client,
        .bucket = bucket,
        .key = key,
        .path = path,
        .fd = -1,
        .size = stat.size,
        .via = via,
        .etag = stat.etag[0] ? stat.etag : NULL,
        .progress = progress,
        .ctx = ctx,
    };
    char temporary[4096 + 32];
    begin(&file);
    err = open_temporary(&file, temporary, result);
    bool made = !err;
    if (!err && file.size)
        err = parallel_run(client->parallel, piece_count(&file), get_piece, &file, result);
    if (!err && rename(temporary, path)) err = file_error(&file, "write", result);
    if (err && made) unlink(temporary);
    if (!file.size) strcpy(result->transfer, "http");
    finish(&file);
    result->bytes = err ? 0 : stat.size;
    result->size = stat.size;
    return err;
}

/* ---- PUT */

static int put_piece(void *ctx, unsigned worker, uint64_t index, ps_result *result) {
    struct file_transfer *file = ctx;
    int err = worker_buffer(file, worker, result);
    if (err) return err;
    struct piece piece = piece_of(file, worker, index);
    if (!transfer_file(file->fd, piece.buffer->data, piece.length, piece.offset, false))
        return file_error(file, "read", result);
    err = piece_put(file->client, &piece, result);
    if (err) return err;
    if (file->upload) memcpy(file->upload->etags[index], result->etag, sizeof(result->etag));
    advance(file, piece.length);
    return 0;
}

static int put_parts(struct file_transfer *file, ps_result *result) {
    struct multipart upload = {
        .client = file->client,
        .bucket = file->bucket,
        .key = file->key,
        .parts = (unsigned)piece_count(file),
    };
    int err = multipart_begin(&upload, result);
    if (err) return err;
    file->upload = &upload;
    err = parallel_run(file->client->parallel, upload.parts, put_piece, file, result);
    if (!err) err = multipart_complete(&upload, result);
    if (err) multipart_abort(&upload);
    file->upload = NULL;
    free(upload.etags);
    return err;
}

static int open_source(struct file_transfer *file, ps_result *result) {
    struct stat info;
    file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
    if (file->fd < 0 || fstat(file->fd, &info)) return file_error(file, "read", result);
    if (!S_ISREG(info.st_mode))
        return result_fail(result, PS_ERR_IO, "%.150s is not a regular file", file->path);
    file->size = (uint64_t)info.st_size;
    return 0;
}

PS_API int ps_put_file(ps_client *client, const char *bucket, const char *key, const char *path,
                       enum ps_via via, ps_progress progress, void *ctx, ps_result *given) {
    ps_result own, *result = result_begin(given, &own);
    struct file_transfer file = {
        .client = client,
        .bucket = bucket,
        .key = key,
        .path = path,
        .fd = -1,
        .via = via,
        .progress = progress,
        .ctx = ctx,
    };
    begin(&file);
    int err = open_source(&file, result);
    if (!err) {
        file.chunk = multipart_part_size(file.size, file.chunk);
        err = file.size > file.chunk ? put_parts(&file, result) : put_piece(&file, 0, 0, result);
    }
    finish(&file);
    result->bytes = result->size = err ? 0 : file.size;
    return err;
}
