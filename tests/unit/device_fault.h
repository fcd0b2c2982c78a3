/* A device that fails, tears, corrupts or delays: a wrapper in front of a real one, behind the same
 * table of functions that the product uses. What it does next follows from a seed, or from the
 * switches a test sets. For one test program: everything is static. */
#ifndef PENSTOCK_TESTS_UNIT_DEVICE_FAULT_H
#define PENSTOCK_TESTS_UNIT_DEVICE_FAULT_H

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "blob/volumes/device.h"

struct fault_device {
    struct device device;
    struct device *inner;
    uint64_t seed;
    /* One in so many goes wrong; 0 never, 1 always. */
    unsigned fail_writes, tear_writes, fail_reads, corrupt_reads, delay;
    bool fail_flush, fail_grow, corrupt_once;
    unsigned writes, reads, flushes; /* asked for since the start */
};

enum fault_kind { FAULT_NONE, FAULT_FAIL, FAULT_TEAR, FAULT_CORRUPT };

static uint64_t fault_random(struct fault_device *fault) {
    fault->seed ^= fault->seed << 13;
    fault->seed ^= fault->seed >> 7;
    fault->seed ^= fault->seed << 17;
    return fault->seed;
}

static bool fault_happens(struct fault_device *fault, unsigned one_in) {
    return one_in && fault_random(fault) % one_in == 0;
}

static enum fault_kind fault_choose(struct fault_device *fault, const struct device_op *op) {
    if (op->is_write) {
        if (fault_happens(fault, fault->fail_writes)) return FAULT_FAIL;
        return fault_happens(fault, fault->tear_writes) ? FAULT_TEAR : FAULT_NONE;
    }
    if (fault_happens(fault, fault->fail_reads)) return FAULT_FAIL;
    bool corrupt = fault->corrupt_once || fault_happens(fault, fault->corrupt_reads);
    fault->corrupt_once = false;
    return corrupt ? FAULT_CORRUPT : FAULT_NONE;
}

/* A failing operation never reaches the drive, a torn one reaches it in half. A delayed one is only
 * begun when it is waited for: later ones overtake it. */
static void fault_start(struct device *device, struct device_op *op) {
    struct fault_device *fault = (struct fault_device *)device;
    if (op->is_write)
        fault->writes++;
    else
        fault->reads++;
    op->injected = (int)fault_choose(fault, op);
    if (op->injected == FAULT_FAIL) return;
    if (op->injected == FAULT_TEAR) op->size = op->size / 2 / DEVICE_ALIGNMENT * DEVICE_ALIGNMENT;
    if (op->size == 0)
        op->injected = FAULT_FAIL;
    else if (fault_happens(fault, fault->delay))
        op->injected |= 1 << 8;
    else
        fault->inner->ops->start(fault->inner, op);
}

static bool fault_done(const struct device *device, const struct device_op *op) {
    const struct fault_device *fault = (const struct fault_device *)device;
    if (op->injected == FAULT_FAIL) return true;
    return !(op->injected >> 8) && fault->inner->ops->done(fault->inner, op);
}

static int fault_wait(struct device *device, struct device_op *op) {
    struct fault_device *fault = (struct fault_device *)device;
    enum fault_kind kind = (enum fault_kind)(op->injected & 0xff);
    if (kind == FAULT_FAIL) return -EIO;
    uint8_t *data = op->data;
    if (op->injected >> 8) {
        fiber_yield_await();
        fault->inner->ops->start(fault->inner, op);
    }
    int err = fault->inner->ops->wait(fault->inner, op);
    if (kind == FAULT_TEAR) return -EIO;
    if (!err && kind == FAULT_CORRUPT) data[fault_random(fault) % 512] ^= 0x10;
    return err;
}

static int fault_flush_await(struct device *device) {
    struct fault_device *fault = (struct fault_device *)device;
    fault->flushes++;
    return fault->fail_flush ? -EIO : fault->inner->ops->flush_await(fault->inner);
}

static int fault_read_blocking(struct device *device, void *data, uint32_t size, uint64_t offset) {
    struct fault_device *fault = (struct fault_device *)device;
    return fault->inner->ops->read_blocking(fault->inner, data, size, offset);
}

static int fault_write_blocking(struct device *device, const void *data, uint32_t size,
                                uint64_t offset) {
    struct fault_device *fault = (struct fault_device *)device;
    return fault->inner->ops->write_blocking(fault->inner, data, size, offset);
}

static int fault_flush_blocking(struct device *device) {
    struct fault_device *fault = (struct fault_device *)device;
    return fault->inner->ops->flush_blocking(fault->inner);
}

static int fault_grow_blocking(struct device *device, uint64_t size) {
    struct fault_device *fault = (struct fault_device *)device;
    return fault->fail_grow ? ERR_STORAGE_FULL : device_grow_blocking(fault->inner, size);
}

static uint64_t fault_limit(struct device *device) {
    return device_limit(((struct fault_device *)device)->inner);
}

static void fault_close(struct device *device) {
    device_close(&((struct fault_device *)device)->inner);
    free(device);
}

static const struct device_ops fault_ops = {
    .start = fault_start,
    .done = fault_done,
    .wait = fault_wait,
    .flush_await = fault_flush_await,
    .read_blocking = fault_read_blocking,
    .write_blocking = fault_write_blocking,
    .flush_blocking = fault_flush_blocking,
    .grow_blocking = fault_grow_blocking,
    .limit = fault_limit,
    .close = fault_close,
};

/* Owns inner from here on. Does nothing wrong until told to. */
static struct fault_device *fault_wrap(struct device *inner, uint64_t seed) {
    struct fault_device *fault = calloc(1, sizeof(*fault));
    if (!fault) abort();
    *fault = (struct fault_device){
        .device = {.ops = &fault_ops, .size = inner->size}, .inner = inner, .seed = seed | 1};
    return fault;
}

#endif
