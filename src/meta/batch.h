/* What is inside a batch, for the committer and the engines. Keys and values stay where they are
 * until the batch is destroyed. */
#ifndef PENSTOCK_META_BATCH_H
#define PENSTOCK_META_BATCH_H

#include "meta/meta.h"

#define BATCH_INLINE_OPS    6
#define BATCH_INLINE_GUARDS 4
#define BATCH_INLINE_BYTES  1536

struct batch_op {
    enum meta_space space;
    struct slice key;
    struct meta_value *value; /* NULL: delete. The record cache takes a reference, not a copy. */
};

enum batch_guard_kind { GUARD_ABSENT, GUARD_PRESENT, GUARD_EQUALS, GUARD_EMPTY };

struct batch_guard {
    enum batch_guard_kind kind;
    enum meta_space space;
    struct slice key;   /* GUARD_EMPTY: the start */
    struct slice other; /* GUARD_EQUALS: the value; GUARD_EMPTY: the end */
};

struct batch_chunk {
    struct batch_chunk *next;
    char bytes[];
};

/* A batch of the usual size is one allocation and one more for each value. */
struct meta_batch {
    int err; /* the first thing that went wrong while building */
    size_t bytes;
    struct batch_op *ops;
    size_t op_count, op_capacity;
    struct batch_guard *guards;
    size_t guard_count, guard_capacity;
    struct batch_chunk *chunks;
    char *free_bytes;
    size_t free_size;
    struct batch_op inline_ops[BATCH_INLINE_OPS];
    struct batch_guard inline_guards[BATCH_INLINE_GUARDS];
    char inline_bytes[BATCH_INLINE_BYTES];
};

#endif
