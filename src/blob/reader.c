/* Reading a range of a blob: whole blocks, from the cache or from the drive, with a window of reads
 * in flight ahead of the consumer. The unit of checksum, cache and read is the block: a small range
 * costs one block's read, and the next small range beside it none.
 *
 * Records are looked up only when a block is not in the cache, so a hot blob never enters the
 * metadata. Only the first block of an empty window waits for memory; reading ahead takes what is
 * there, so readers cannot starve each other by what they hold. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "blob/segment.h"
#include "blob/store.h"

#define READ_AHEAD   16u /* 4 MiB */
#define SEGMENT_PAGE 64u /* records loaded at once: 256 MiB of a blob */

struct read_slot {
    struct device_op op;
    struct block *block;
    uint64_t index;
    uint64_t device_offset;
    uint32_t crc;
    bool reading; /* the device has the block; else it is good */
};

struct blob_reader {
    struct blob_store *store;
    struct blob_ref ref;
    uint64_t position, end;
    uint64_t next_index, end_index; /* blocks to bring into the window */
    struct segment *segments;       /* a page of them, or none yet */
    unsigned segment_count;
    int error; /* what stopped the window; reported when the consumer gets there */
    unsigned head, count;
    struct read_slot slots[READ_AHEAD];
};

static uint32_t block_bytes(const struct blob_reader *reader, uint64_t index) {
    uint64_t left = reader->ref.size - index * SEGMENT_UNIT;
    return left < SEGMENT_UNIT ? (uint32_t)left : SEGMENT_UNIT;
}

static int take_block_await(struct blob_reader *reader, uint32_t size, bool wait,
                            struct block **block) {
    struct pool *pool = reader->store->pool;
    enum block_class class = pool_class_for(device_round_up(size));
    int err = pool_try_take(pool, class, 1, block);
    if (err == -EAGAIN && wait)
        err = pool_take_await(pool, class, 1, block, clock_deadline_ms(BLOB_POOL_WAIT_MS));
    if (!err) (*block)->size = size;
    return err;
}

/* ---- small blobs */

static int report_damage(struct blob_reader *reader, uint64_t index, const char *what) {
    reader->store->checksum_errors++;
    log_error("data %llu, offset %llu: %s", (unsigned long long)reader->ref.id,
              (unsigned long long)(index * SEGMENT_UNIT), what);
    return ERR_CHECKSUM_MISMATCH_ON_DISK;
}

/* One copy of at most 16 KiB: the value is the metadata's, and what is sent must lie in the pool.
 * It happens once; from then on the cached block is served. */
static int copy_inline_await(struct blob_reader *reader, const struct meta_value *value,
                             struct block **block) {
    struct slice bytes;
    int err = inline_decode(meta_value_slice(value), &bytes);
    if (err) return report_damage(reader, 0, "the stored bytes do not match their checksum");
    if (bytes.size != reader->ref.size) {
        log_error("data %llu has %zu bytes, not %llu", (unsigned long long)reader->ref.id,
                  bytes.size, (unsigned long long)reader->ref.size);
        return ERR_STORE_CORRUPT;
    }
    err = take_block_await(reader, (uint32_t)bytes.size, true, block);
    if (err) return err;
    memcpy((*block)->data, bytes.data, bytes.size);
    reader->store->payload_copies_bytes += bytes.size;
    cache_put(reader->store->cache, reader->ref.id, 0, *block);
    return 0;
}

static int load_inline_await(struct blob_reader *reader, struct block **block) {
    struct blob_store *store = reader->store;
    uint8_t key[INLINE_KEY_SIZE];
    inline_key(reader->ref.id, key);
    struct meta_value *value = NULL;
    int err =
        meta_get_await(store->meta, META_INLINE, (struct slice){(char *)key, sizeof(key)}, &value);
    if (err == ERR_NOT_FOUND && pins_find_inline(&store->pins, reader->ref.id, &value, block))
        err = 0; /* deleted a moment ago, and still pinned */
    if (err || *block) return err;
    err = copy_inline_await(reader, value, block);
    meta_value_unref(&value);
    return err;
}

/* ---- segments */

static int load_segments_await(struct blob_reader *reader, uint64_t offset) {
    struct blob_store *store = reader->store;
    uint64_t id = reader->ref.id;
    free(reader->segments);
    reader->segments = NULL;
    reader->segment_count = 0;
    int err = segment_load_await(store->meta, id, offset, SEGMENT_PAGE, false, &reader->segments,
                                 &reader->segment_count);
    if (err) {
        log_error("data %llu, offset %llu: the segment records cannot be read: %s",
                  (unsigned long long)id, (unsigned long long)offset, error_text(err));
        return err;
    }
    if (reader->segment_count) return 0;
    bool deleted = pins_find_segments(&store->pins, id, offset, SEGMENT_PAGE, &reader->segments,
                                      &reader->segment_count);
    return deleted ? 0 : ERR_NOT_FOUND;
}

static int find_segment_await(struct blob_reader *reader, uint64_t index,
                              const struct segment **segment) {
    uint64_t offset = index * SEGMENT_UNIT;
    *segment = segment_find(reader->segments, reader->segment_count, offset);
    if (!*segment) {
        int err = load_segments_await(reader, offset);
        if (err) return err;
        *segment = segment_find(reader->segments, reader->segment_count, offset);
    }
    uint64_t end = offset + block_bytes(reader, index);
    if (*segment && end - (*segment)->blob_offset <= (*segment)->length) return 0;
    log_error("data %llu has no segment for offset %llu", (unsigned long long)reader->ref.id,
              (unsigned long long)offset);
    return ERR_STORE_CORRUPT;
}

static void start_read(struct blob_reader *reader, struct read_slot *slot) {
    device_read_start(reader->store->device, &slot->op, slot->block->data,
                      (uint32_t)device_round_up(slot->block->size), slot->device_offset);
}

/* ---- the window */

static int fill_slot_await(struct blob_reader *reader, struct read_slot *slot, bool wait) {
    uint64_t index = slot->index;
    slot->block = cache_get(reader->store->cache, reader->ref.id, (uint32_t)index);
    if (slot->block) return 0;
    if (reader->ref.size <= BLOB_INLINE_MAX) return load_inline_await(reader, &slot->block);
    const struct segment *segment;
    int err = find_segment_await(reader, index, &segment);
    if (!err) err = take_block_await(reader, block_bytes(reader, index), wait, &slot->block);
    if (err) return err;
    /* Taking a block may have waited, but only this fiber changes the page of segments. */
    uint64_t inside = index * SEGMENT_UNIT - segment->blob_offset;
    slot->device_offset = segment->device_offset + inside;
    slot->crc = segment->crcs[inside / SEGMENT_UNIT];
    slot->reading = true;
    start_read(reader, slot);
    return 0;
}

/* Bring blocks into the window. `wait`: for memory, if the window is empty. */
static void fill_window_await(struct blob_reader *reader, bool wait) {
    while (!reader->error && reader->count < READ_AHEAD && reader->next_index < reader->end_index) {
        struct read_slot *slot = &reader->slots[(reader->head + reader->count) % READ_AHEAD];
        *slot = (struct read_slot){.index = reader->next_index};
        bool may_wait = wait && reader->count == 0;
        int err = fill_slot_await(reader, slot, may_wait);
        if (err == -EAGAIN && !may_wait) return;
        if (err) {
            reader->error = err;
            return;
        }
        reader->count++;
        reader->next_index++;
    }
}

static bool checksum_holds(const struct read_slot *slot) {
    return checksum_crc32c(0, slot->block->data, slot->block->size) == slot->crc;
}

/* Wait for the oldest read and check it. One mismatch may be the wire's or the controller's fault,
 * so it is read once more; a second one is the medium's. */
static int complete_oldest_await(struct blob_reader *reader) {
    struct read_slot *slot = &reader->slots[reader->head];
    struct blob_store *store = reader->store;
    if (!slot->reading) return 0;
    int err = device_op_await(store->device, &slot->op);
    if (!err && !checksum_holds(slot)) {
        report_damage(reader, slot->index, "bytes read do not match their checksum; reading again");
        start_read(reader, slot);
        err = device_op_await(store->device, &slot->op);
        if (!err && !checksum_holds(slot))
            err =
                report_damage(reader, slot->index, "the stored bytes do not match their checksum");
    } else if (err) {
        log_error("data %llu, offset %llu: read failed: %s", (unsigned long long)reader->ref.id,
                  (unsigned long long)(slot->index * SEGMENT_UNIT), error_text(err));
    }
    slot->reading = false;
    if (err) return err;
    store->bytes_read += slot->block->size;
    cache_put(store->cache, reader->ref.id, (uint32_t)slot->index, slot->block);
    return 0;
}

static bool oldest_is_ready(const struct blob_reader *reader) {
    const struct read_slot *slot = &reader->slots[reader->head];
    return !slot->reading || device_op_done(reader->store->device, &slot->op);
}

/* The oldest block's reference goes to the caller. */
static struct block *pop_oldest(struct blob_reader *reader) {
    struct block *block = reader->slots[reader->head].block;
    reader->slots[reader->head].block = NULL;
    reader->head = (reader->head + 1) % READ_AHEAD;
    reader->count--;
    return block;
}

static void close_window_await(struct blob_reader *reader) {
    while (reader->count) {
        struct read_slot *slot = &reader->slots[reader->head];
        /* The drive owns the block until then; what it answers no longer matters. */
        if (slot->reading) device_op_await(reader->store->device, &slot->op);
        struct block *block = pop_oldest(reader);
        block_unref(&block);
    }
    reader->next_index = reader->end_index;
}

/* ---- what the caller sees */

int blob_reader_open_await(struct blob_store *store, struct blob_ref ref, uint64_t offset,
                           uint64_t length, struct blob_reader **result) {
    if (offset > ref.size || length > ref.size - offset) return ERR_INVALID_RANGE;
    struct blob_reader *reader = calloc(1, sizeof(*reader));
    if (!reader) return -ENOMEM;
    reader->store = store;
    reader->ref = ref;
    reader->position = offset;
    reader->end = offset + length;
    reader->next_index = offset / SEGMENT_UNIT;
    reader->end_index =
        length ? (reader->end + SEGMENT_UNIT - 1) / SEGMENT_UNIT : reader->next_index;
    fill_window_await(reader, true);
    if (reader->error && reader->count == 0) {
        int err = reader->error;
        blob_reader_close_await(&reader);
        return err;
    }
    *result = reader;
    return 0;
}

int blob_reader_next_await(struct blob_reader *reader, struct block **blocks, unsigned max,
                           unsigned *count, uint32_t *offset, uint64_t *size) {
    assert(max > 0);
    *count = 0;
    *offset = (uint32_t)(reader->position % SEGMENT_UNIT);
    *size = 0;
    if (reader->position == reader->end) return 0;
    if (reader->count == 0) fill_window_await(reader, true);
    if (reader->count == 0) return reader->error;
    do {
        int err = complete_oldest_await(reader);
        if (err) {
            close_window_await(reader);
            reader->error = err;
            break;
        }
        blocks[*count] = pop_oldest(reader);
        *size += blocks[(*count)++]->size;
    } while (*count < max && reader->count && oldest_is_ready(reader));
    if (*count == 0) return reader->error;

    *size -= *offset;
    if (*size > reader->end - reader->position) *size = reader->end - reader->position;
    reader->position += *size;
    fill_window_await(reader, false);
    return 0;
}

void blob_reader_close_await(struct blob_reader **result) {
    struct blob_reader *reader = *result;
    *result = NULL;
    if (!reader) return;
    close_window_await(reader);
    free(reader->segments);
    free(reader);
}
