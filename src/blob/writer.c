/* Writing a blob: blocks go to the drive from where they lie as they come, several at a time, into
 * room nothing refers to yet; the records go into the caller's commit. What is written enters the
 * cache at once: until the commit nobody knows the id, and the pool can have the memory back
 * however long the upload takes. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"
#include "blob/little_endian.h"
#include "blob/segment.h"
#include "blob/store.h"

#define WRITE_DEPTH 16u

struct write_slot {
    struct device_op op;
    struct block *block;
    uint32_t index; /* of the block in the blob */
};

struct blob_writer {
    struct blob_store *store;
    uint64_t id, size, expected_size;
    uint64_t units;     /* still promised by the allocator */
    struct extent room; /* what is left of the last extent taken */
    bool room_is_new;   /* no segment begins in it yet */
    bool ended;         /* the last block has come */
    bool flushed;
    int error; /* of a write; sticks */
    struct segment *segments;
    unsigned count, capacity;
    struct block *inline_block;
    uint32_t inline_crc;
    unsigned head, in_flight;
    struct write_slot slots[WRITE_DEPTH];
};

/* ---- opening */

/* When no whole unit is left, a blob shorter than one may still fit between two others. */
static int reserve_room(struct blob_writer *writer) {
    struct blob_store *store = writer->store;
    uint64_t size = device_round_up(writer->expected_size);
    int err = store_reserve(store, size, &writer->units);
    if (err != ERR_STORAGE_FULL || size > ALLOCATOR_UNIT) return err;
    uint64_t grow_to;
    err = allocator_take(store->allocator, size, &writer->units, &writer->room, &grow_to);
    writer->room_is_new = !err;
    return err ? ERR_STORAGE_FULL : 0;
}

int blob_writer_open(struct blob_store *store, uint64_t expected_size,
                     struct blob_writer **result) {
    bool known = expected_size != BLOB_SIZE_UNKNOWN;
    if (known && expected_size > BLOB_MAX_SIZE) return ERR_ENTITY_TOO_LARGE;
    struct blob_writer *writer = calloc(1, sizeof(*writer));
    if (!writer) return -ENOMEM;
    writer->store = store;
    writer->expected_size = expected_size;
    int err = known && expected_size > BLOB_INLINE_MAX ? reserve_room(writer) : 0;
    if (err) {
        free(writer);
        return err;
    }
    *result = writer;
    return 0;
}

/* ---- appending */

static void retire_oldest_await(struct blob_writer *writer) {
    struct write_slot *slot = &writer->slots[writer->head];
    struct blob_store *store = writer->store;
    int err = device_op_await(store->device, &slot->op);
    if (err) {
        log_error("data %llu: writing block %u failed: %s", (unsigned long long)writer->id,
                  slot->index, error_text(err));
        if (!writer->error) writer->error = err;
    } else {
        store->bytes_written += slot->block->size;
        cache_put(store->cache, writer->id, slot->index, slot->block);
    }
    block_unref(&slot->block);
    writer->head = (writer->head + 1) % WRITE_DEPTH;
    writer->in_flight--;
}

static void retire_all_await(struct blob_writer *writer) {
    while (writer->in_flight) retire_oldest_await(writer);
}

static void give_room_back(struct blob_writer *writer) {
    allocator_give(writer->store->allocator, writer->room);
    writer->room = (struct extent){0};
    writer->room_is_new = false;
}

/* As much as is expected, in one piece; with an unknown size, a whole segment. */
static uint64_t room_wanted(const struct blob_writer *writer, uint64_t padded) {
    uint64_t want = 0;
    if (writer->expected_size == BLOB_SIZE_UNKNOWN)
        want = padded == SEGMENT_UNIT ? BLOB_SEGMENT_SIZE : padded;
    else if (writer->expected_size > writer->size)
        want = device_round_up(writer->expected_size - writer->size);
    return want > padded ? want : padded;
}

static int begin_segment(struct blob_writer *writer) {
    if (writer->count == writer->capacity) {
        unsigned capacity = writer->capacity ? 2 * writer->capacity : 4;
        void *grown = realloc(writer->segments, capacity * sizeof(struct segment));
        if (!grown) return -ENOMEM;
        writer->segments = grown;
        writer->capacity = capacity;
    }
    writer->segments[writer->count++] = (struct segment){
        .id = writer->id,
        .blob_offset = writer->size,
        .device_offset = writer->room.offset,
    };
    writer->room_is_new = false;
    return 0;
}

static int make_room_await(struct blob_writer *writer, uint64_t padded) {
    if (writer->room.length < padded) {
        give_room_back(writer);
        int err = store_take_await(writer->store, room_wanted(writer, padded), &writer->units,
                                   &writer->room);
        if (err) return err;
        assert(writer->room.length >= padded);
        writer->room_is_new = true;
    }
    return writer->room_is_new ? begin_segment(writer) : 0;
}

static int append_data_await(struct blob_writer *writer, struct block *block) {
    uint64_t padded = device_round_up(block->size);
    assert(padded <= block->capacity);
    while (writer->in_flight &&
           (writer->in_flight == WRITE_DEPTH ||
            device_op_done(writer->store->device, &writer->slots[writer->head].op)))
        retire_oldest_await(writer);
    if (writer->error) return writer->error;
    int err = make_room_await(writer, padded);
    if (err) return err;

    memset(block->data + block->size, 0, padded - block->size);
    struct segment *segment = &writer->segments[writer->count - 1];
    segment->crcs[segment_units(segment)] = checksum_crc32c(0, block->data, block->size);
    segment->length += block->size;

    struct write_slot *slot = &writer->slots[(writer->head + writer->in_flight) % WRITE_DEPTH];
    block_ref(block);
    slot->block = block;
    slot->index = (uint32_t)(writer->size / SEGMENT_UNIT);
    device_write_start(writer->store->device, &slot->op, block->data, (uint32_t)padded,
                       writer->room.offset);
    writer->in_flight++;
    writer->room.offset += padded;
    writer->room.length -= padded;
    return 0;
}

/* A block shorter than a whole one is the last; so a first block that is small is all there is. */
int blob_writer_append_await(struct blob_writer *writer, struct block *block) {
    if (writer->error) return writer->error;
    if (block->size == 0) return 0;
    assert(!writer->ended && !writer->flushed && block->size <= SEGMENT_UNIT);
    if (writer->size + block->size > BLOB_MAX_SIZE) return ERR_ENTITY_TOO_LARGE;
    int err = writer->id ? 0 : ids_next_await(&writer->store->ids, &writer->id);
    if (err) return err;
    if (writer->size == 0 && block->size <= BLOB_INLINE_MAX) {
        block_ref(block);
        writer->inline_block = block;
        writer->inline_crc = checksum_crc32c(0, block->data, block->size);
    } else {
        err = append_data_await(writer, block);
        if (err) return err;
    }
    writer->size += block->size;
    writer->ended = block->size < SEGMENT_UNIT;
    return 0;
}

/* ---- finishing */

static int flush_await(struct blob_writer *writer) {
    struct blob_store *store = writer->store;
    if (writer->flushed || writer->count == 0) return 0;
    if (store->durability == META_DURABLE) {
        int err = store->flush_failed ? -EIO : device_flush_await(store->device);
        if (err && !atomic_exchange(&store->flush_failed, true))
            log_error("flushing the volume failed: %s; no more writes are accepted until a restart",
                      error_text(err));
        /* Another writer's flush may have been told of the failure of these bytes. */
        if (!err && store->flush_failed) err = -EIO;
        if (err) return err;
    }
    writer->flushed = true;
    return 0;
}

/* Two copies of at most 16 KiB: the batch takes one contiguous value, whose header and bytes come
 * from two places, and makes its own copy of it. Far less than a write of their own would cost. */
static int put_inline(struct blob_writer *writer, struct meta_batch *batch) {
    const struct block *block = writer->inline_block;
    size_t size = INLINE_HEADER_SIZE + block->size;
    uint8_t *value = malloc(size);
    if (!value) return -ENOMEM;
    le_put_u32(value, writer->inline_crc);
    memcpy(value + INLINE_HEADER_SIZE, block->data, block->size);
    uint8_t key[INLINE_KEY_SIZE];
    inline_key(writer->id, key);
    meta_batch_put(batch, META_INLINE, (struct slice){(char *)key, sizeof(key)},
                   (struct slice){(char *)value, size});
    free(value);
    writer->store->payload_copies_bytes += 2 * (uint64_t)block->size;
    return 0;
}

static void put_segments(const struct blob_writer *writer, struct meta_batch *batch) {
    for (unsigned i = 0; i < writer->count; i++) {
        const struct segment *segment = &writer->segments[i];
        uint8_t key[SEGMENT_KEY_SIZE], record[SEGMENT_RECORD_MAX];
        segment_key(segment->id, segment->blob_offset, key);
        size_t size = segment_encode(segment, record);
        meta_batch_put(batch, META_SEGMENTS, (struct slice){(char *)key, sizeof(key)},
                       (struct slice){(char *)record, size});
    }
}

int blob_writer_finish_await(struct blob_writer *writer, struct meta_batch *batch,
                             struct blob_ref *ref) {
    retire_all_await(writer);
    if (writer->error) return writer->error;
    give_room_back(writer);
    allocator_unreserve(writer->store->allocator, &writer->units);
    int err = flush_await(writer);
    if (!err && writer->inline_block) err = put_inline(writer, batch);
    if (err) return err;
    put_segments(writer, batch);
    *ref = (struct blob_ref){writer->size ? writer->id : 0, writer->size};
    return 0;
}

static void free_writer(struct blob_writer *writer) {
    block_unref(&writer->inline_block);
    free(writer->segments);
    free(writer);
}

void blob_writer_committed(struct blob_writer **result) {
    struct blob_writer *writer = *result;
    *result = NULL;
    assert(writer->in_flight == 0 && !writer->error && writer->room.length == 0);
    if (writer->inline_block) cache_put(writer->store->cache, writer->id, 0, writer->inline_block);
    free_writer(writer);
}

void blob_writer_abort_await(struct blob_writer **result) {
    struct blob_writer *writer = *result;
    *result = NULL;
    if (!writer) return;
    struct blob_store *store = writer->store;
    retire_all_await(writer);
    uint64_t blocks = (writer->size + SEGMENT_UNIT - 1) / SEGMENT_UNIT;
    if (writer->count) cache_drop(store->cache, writer->id, (uint32_t)blocks);
    give_room_back(writer);
    allocator_unreserve(store->allocator, &writer->units);
    for (unsigned i = 0; i < writer->count; i++) {
        const struct segment *segment = &writer->segments[i];
        allocator_give(store->allocator,
                       (struct extent){segment->device_offset, segment_device_size(segment)});
    }
    free_writer(writer);
}
