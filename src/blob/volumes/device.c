/* Files and block devices behind device.h, by the reactor's io_uring (which picks fixed buffers by
 * itself) with O_DIRECT: the pool is the cache, so the page cache would only hold everything
 * twice. */
#include "blob/volumes/device.h"

#include <assert.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#define FILE_NAME "volume0"

struct file_device {
    struct device device;
    int fd;
    bool is_block;
    uint64_t capacity_bytes;
};

static const struct file_device *file_const(const struct device *device) {
    return (const struct file_device *)device;
}

static int file_fd(const struct device *device) {
    return file_const(device)->fd;
}

/* ---- in fibers */

static void file_start(struct device *device, struct device_op *op) {
    if (op->is_write)
        io_write_start(&op->io, file_fd(device), op->data, op->size, op->offset);
    else
        io_read_start(&op->io, file_fd(device), op->data, op->size, op->offset);
}

static bool file_done(const struct device *device, const struct device_op *op) {
    (void)device;
    return op->io.done;
}

/* The kernel may move less than asked for; the rest is asked for again, until nothing moves. */
static int file_wait(struct device *device, struct device_op *op) {
    for (;;) {
        ssize_t moved = io_op_await(&op->io);
        if (moved == -EINTR || moved == -EAGAIN)
            moved = 0;
        else if (moved < 0)
            return moved == -ENOSPC ? ERR_STORAGE_FULL : (int)moved;
        else if (moved == 0)
            return -EIO; /* a read past the end, or a device that takes nothing */
        op->data += moved;
        op->offset += (uint64_t)moved;
        op->size -= (uint32_t)moved;
        if (op->size == 0) return 0;
        file_start(device, op);
    }
}

static int file_flush_await(struct device *device) {
    fiber_shield_begin();
    int err = io_fsync_await(file_fd(device), true, NO_DEADLINE);
    fiber_shield_end();
    return err;
}

/* ---- blocking */

static int file_read_blocking(struct device *device, void *data, uint32_t size, uint64_t offset) {
    uint8_t *next = data;
    while (size) {
        ssize_t moved = pread(file_fd(device), next, size, (off_t)offset);
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0) return -errno;
        if (moved == 0) return -EIO;
        next += moved;
        offset += (uint64_t)moved;
        size -= (uint32_t)moved;
    }
    return 0;
}

static int file_write_blocking(struct device *device, const void *data, uint32_t size,
                               uint64_t offset) {
    const uint8_t *next = data;
    while (size) {
        ssize_t moved = pwrite(file_fd(device), next, size, (off_t)offset);
        if (moved < 0 && errno == EINTR) continue;
        if (moved < 0) return errno == ENOSPC ? ERR_STORAGE_FULL : -errno;
        next += moved;
        offset += (uint64_t)moved;
        size -= (uint32_t)moved;
    }
    return 0;
}

static int file_flush_blocking(struct device *device) {
    return fsync(file_fd(device)) ? -errno : 0;
}

static int file_grow_blocking(struct device *device, uint64_t size) {
    if (file_const(device)->is_block) return ERR_STORAGE_FULL;
    off_t have = (off_t)device->size, more = (off_t)(size - device->size);
    int err;
    do {
        err = fallocate(file_fd(device), 0, have, more) ? -errno : 0;
    } while (err == -EINTR);
    /* Some file systems cannot allocate ahead; then the writes find out whether there is room. */
    if (err == -EOPNOTSUPP) err = ftruncate(file_fd(device), (off_t)size) ? -errno : 0;
    if (err == -ENOSPC || err == -EFBIG || err == -EDQUOT) return ERR_STORAGE_FULL;
    return err;
}

static uint64_t file_limit(struct device *device) {
    const struct file_device *file = file_const(device);
    struct statvfs info;
    if (file->is_block || fstatvfs(file->fd, &info)) return device->size;
    uint64_t available = (uint64_t)info.f_bavail * info.f_frsize;
    uint64_t limit = device->size;
    if (available > DEVICE_RESERVE_BYTES) limit += available - DEVICE_RESERVE_BYTES;
    if (file->capacity_bytes && limit > file->capacity_bytes) limit = file->capacity_bytes;
    limit = limit / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
    return limit > device->size ? limit : device->size;
}

static void file_close(struct device *device) {
    close(file_fd(device));
    free(device);
}

static const struct device_ops file_ops = {
    .start = file_start,
    .done = file_done,
    .wait = file_wait,
    .flush_await = file_flush_await,
    .read_blocking = file_read_blocking,
    .write_blocking = file_write_blocking,
    .flush_blocking = file_flush_blocking,
    .grow_blocking = file_grow_blocking,
    .limit = file_limit,
    .close = file_close,
};

/* ---- opening */

static int open_path(const struct device_options *options, const char *path, bool is_block) {
    int flags = O_CLOEXEC | (options->read_only ? O_RDONLY : O_RDWR);
    if (is_block && !options->read_only) flags |= O_EXCL; /* not while it is mounted */
    if (!is_block && !options->read_only) flags |= O_CREAT;
    if (options->direct_io) {
        int fd = open(path, flags | O_DIRECT, 0600);
        if (fd >= 0 || errno != EINVAL) return fd >= 0 ? fd : -errno;
        log_warn("%s: direct I/O is refused by the file system; going through the page cache",
                 path);
    }
    int fd = open(path, flags, 0600);
    return fd >= 0 ? fd : -errno;
}

/* The name of a new file must be as durable as what is written to it. */
static int sync_directory(const char *path) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int err = fsync(fd) ? -errno : 0;
    close(fd);
    return err;
}

static int read_size(struct file_device *file) {
    uint64_t size = 0;
    struct stat info;
    if (file->is_block) {
        if (ioctl(file->fd, BLKGETSIZE64, &size)) return -errno;
    } else {
        if (fstat(file->fd, &info)) return -errno;
        size = (uint64_t)info.st_size;
    }
    file->device.size = size / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
    return 0;
}

int device_open(const struct device_options *options, struct device **device) {
    struct stat info;
    if (stat(options->path, &info)) return -errno;
    bool is_block = S_ISBLK(info.st_mode);
    if (!is_block && !S_ISDIR(info.st_mode)) return -ENOTDIR;

    char *path = NULL;
    if (asprintf(&path, is_block ? "%s" : "%s/" FILE_NAME, options->path) < 0) return -ENOMEM;
    struct file_device *file = calloc(1, sizeof(*file));
    int fd = file ? open_path(options, path, is_block) : -ENOMEM;
    free(path);
    if (fd < 0) {
        free(file);
        return fd;
    }
    *file = (struct file_device){
        .device.ops = &file_ops,
        .fd = fd,
        .is_block = is_block,
        .capacity_bytes = options->capacity_bytes,
    };
    int err = read_size(file);
    if (!err && !is_block && !options->read_only) err = sync_directory(options->path);
    if (err) {
        file_close(&file->device);
        return err;
    }
    *device = &file->device;
    return 0;
}

/* ---- what everyone calls */

static bool aligned(const void *data, uint32_t size, uint64_t offset) {
    return ((uintptr_t)data | size | offset) % DEVICE_ALIGNMENT == 0 && size > 0;
}

void device_close(struct device **device) {
    if (*device) (*device)->ops->close(*device);
    *device = NULL;
}

void device_read_start(struct device *device, struct device_op *op, void *data, uint32_t size,
                       uint64_t offset) {
    assert(aligned(data, size, offset));
    *op = (struct device_op){.data = data, .size = size, .offset = offset};
    device->ops->start(device, op);
}

void device_write_start(struct device *device, struct device_op *op, const void *data,
                        uint32_t size, uint64_t offset) {
    assert(aligned(data, size, offset));
    /* The cast drops const for one field that serves both directions; writes never store to it. */
    *op = (struct device_op){
        .data = (uint8_t *)(uintptr_t)data, .size = size, .offset = offset, .is_write = true};
    device->ops->start(device, op);
}

bool device_op_done(const struct device *device, const struct device_op *op) {
    return device->ops->done(device, op);
}

int device_op_await(struct device *device, struct device_op *op) {
    return device->ops->wait(device, op);
}

int device_flush_await(struct device *device) {
    return device->ops->flush_await(device);
}

int device_read_blocking(struct device *device, void *data, uint32_t size, uint64_t offset) {
    assert(aligned(data, size, offset));
    return device->ops->read_blocking(device, data, size, offset);
}

int device_write_blocking(struct device *device, const void *data, uint32_t size, uint64_t offset) {
    assert(aligned(data, size, offset));
    return device->ops->write_blocking(device, data, size, offset);
}

int device_flush_blocking(struct device *device) {
    return device->ops->flush_blocking(device);
}

int device_grow_blocking(struct device *device, uint64_t size) {
    assert(size % DEVICE_ALIGNMENT == 0);
    if (size <= device->size) return 0;
    int err = device->ops->grow_blocking(device, size);
    if (!err) device->size = size;
    return err;
}

uint64_t device_limit(struct device *device) {
    return device->ops->limit(device);
}
