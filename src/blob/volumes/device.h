/* A device: an array of bytes that outlives the process. A table of functions, so that tests can
 * put one that fails, tears or delays in front of the real one (a file or a block device through
 * the reactor's io_uring).
 *
 * Offsets, sizes and buffers are multiples of DEVICE_ALIGNMENT. *_await functions and the starts
 * run in a fiber; *_blocking ones on a worker thread or at start. Nothing here keeps state about
 * what is stored where. */
#ifndef PENSTOCK_BLOB_VOLUMES_DEVICE_H
#define PENSTOCK_BLOB_VOLUMES_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/reactor.h"

#define DEVICE_ALIGNMENT 4096u
#define DEVICE_GROW_STEP (64ull << 20)
/* Left free in the file system for the metadata, which shares it and must be able to delete. */
#define DEVICE_RESERVE_BYTES (64ull << 20)

static inline uint64_t device_round_up(uint64_t size) {
    return (size + DEVICE_ALIGNMENT - 1) / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
}

struct device;

/* One operation in flight: the caller's memory until device_op_await() returned. */
struct device_op {
    struct io_op io;
    uint8_t *data;
    uint64_t offset;
    uint32_t size;
    bool is_write;
    int injected; /* for devices that pretend */
};

struct device_ops {
    void (*start)(struct device *device, struct device_op *op);
    bool (*done)(const struct device *device, const struct device_op *op);
    int (*wait)(struct device *device, struct device_op *op);
    int (*flush_await)(struct device *device);
    int (*read_blocking)(struct device *device, void *data, uint32_t size, uint64_t offset);
    int (*write_blocking)(struct device *device, const void *data, uint32_t size, uint64_t offset);
    int (*flush_blocking)(struct device *device);
    int (*grow_blocking)(struct device *device, uint64_t size);
    uint64_t (*limit)(struct device *device);
    void (*close)(struct device *device);
};

struct device {
    const struct device_ops *ops;
    _Atomic uint64_t size; /* bytes that can be used now; changed by device_grow_blocking() only */
};

/* path: a directory, which gets the growing file volume0, or a block device. Errors: errno. */
struct device_options {
    const char *path;
    uint64_t capacity_bytes; /* of the growing file; 0: what the file system has */
    bool direct_io;          /* falls back with one warning */
    bool read_only;          /* and never creates */
};
int device_open(const struct device_options *options, struct device **device);
void device_close(struct device **device); /* nulls; NULL is fine */

void device_read_start(struct device *device, struct device_op *op, void *data, uint32_t size,
                       uint64_t offset);
void device_write_start(struct device *device, struct device_op *op, const void *data,
                        uint32_t size, uint64_t offset);
/* Would waiting return at once? */
bool device_op_done(const struct device *device, const struct device_op *op);
/* 0 when the whole size was moved, else an error. Shielded from cancellation. */
int device_op_await(struct device *device, struct device_op *op);
/* What was written is on the drive when this returns 0. */
int device_flush_await(struct device *device);

int device_read_blocking(struct device *device, void *data, uint32_t size, uint64_t offset);
int device_write_blocking(struct device *device, const void *data, uint32_t size, uint64_t offset);
int device_flush_blocking(struct device *device);
/* Make the device at least `size` bytes. ERR_STORAGE_FULL leaves it as it was. */
int device_grow_blocking(struct device *device, uint64_t size);
/* How far it could grow now; never less than its size. One quick system call. */
uint64_t device_limit(struct device *device);

#endif
