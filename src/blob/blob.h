/* Bytes at rest. A blob is an immutable run of bytes under a data id that is never used twice: the
 * data of an object, or of one part of a multipart upload. Small ones (BLOB_INLINE_MAX) live in the
 * metadata store; others in segments on the volume, with a CRC32C for each pool block.
 *
 * Writing never touches bytes that something refers to. The order that keeps every acknowledged
 * byte: data written, data flushed, then one metadata commit (by the caller, with the records this
 * layer adds to his batch). Space of a deleted blob is given back when its commit is durable and
 * its last reader has closed. */
#ifndef PENSTOCK_BLOB_BLOB_H
#define PENSTOCK_BLOB_BLOB_H

#include <stdint.h>

#include "mem/cache.h"
#include "mem/pool.h"
#include "meta/meta.h"

#define BLOB_INLINE_MAX   (16u * 1024)
#define BLOB_SEGMENT_SIZE (4u * 1024 * 1024)
#define BLOB_MAX_SIZE     (5ull << 30) /* one PUT or part */
#define BLOB_SIZE_UNKNOWN UINT64_MAX

struct blob_store;

struct blob_ref {
    uint64_t id;   /* 0: no data (an empty object) */
    uint64_t size; /* bytes */
};

struct blob_options {
    const char *path; /* a directory (the volume is a growing file in it) or a block device */
    uint64_t capacity_bytes; /* limit for the growing file; 0: what the file system has */
    enum meta_durability durability;
    bool direct_io; /* O_DIRECT; falls back with one warning where the file system refuses */
};

/* Opens or creates the volume, and derives the free space from the metadata. Blocks: at start,
 * outside the reactors. ERR_UNSUPPORTED_FORMAT, ERR_STORE_CORRUPT (not this store's volume),
 * -EEXIST (a new store was pointed at a volume that holds something else; the log says so). */
int blob_store_open(const struct blob_options *options, struct meta *meta, struct pool *pool,
                    struct cache *cache, struct blob_store **store);
void blob_store_close(struct blob_store **store);

struct blob_stats {
    uint64_t capacity_bytes, used_bytes, free_bytes, extents_free;
    uint64_t bytes_written, bytes_read, checksum_errors, payload_copies_bytes;
};
void blob_stats(struct blob_store *store, struct blob_stats *stats);

/* ---- writing. expected_size lets space be reserved at once (ERR_STORAGE_FULL before the client
 * sends a byte) and small blobs go inline; with BLOB_SIZE_UNKNOWN both are decided on the way. */
struct blob_writer;
int blob_writer_open(struct blob_store *store, uint64_t expected_size, struct blob_writer **writer);
/* Append block->size bytes; every block but the last must be a full BLOCK_256K. A reference is
 * taken; the bytes must not change any more, and those of the block behind them, up to a multiple
 * of 4096, become zeros. The write goes on in the background (bounded depth), so the caller can
 * receive the next block meanwhile. ERR_STORAGE_FULL, ERR_ENTITY_TOO_LARGE, -EIO. */
int blob_writer_append_await(struct blob_writer *writer, struct block *block);
/* Wait for the writes, flush as the durability asks, and add this blob's records to the batch. May
 * be called again with another batch when the commit met a conflict. */
int blob_writer_finish_await(struct blob_writer *writer, struct meta_batch *batch,
                             struct blob_ref *ref);
/* The batch was committed: the blob exists, its blocks enter the cache. Frees the writer. */
void blob_writer_committed(struct blob_writer **writer);
/* Give everything back. Waits for writes under way. Nulls; NULL is fine; not after committed. */
void blob_writer_abort_await(struct blob_writer **writer);

/* ---- reading. A blob must be pinned while a reader is open on it. */
void blob_pin(struct blob_store *store, uint64_t id);
void blob_unpin(struct blob_store *store, uint64_t id);

struct blob_reader;
/* Bytes offset..offset+length of the blob, which must lie inside it. ERR_NOT_FOUND when the blob
 * has been deleted. */
int blob_reader_open_await(struct blob_store *store, struct blob_ref ref, uint64_t offset,
                           uint64_t length, struct blob_reader **reader);
/* The next run of bytes: up to `max` blocks (each with a reference for the caller), starting at
 * *offset inside the first, *size bytes in all; count 0 at the end. The following blocks are
 * already being read meanwhile. ERR_CHECKSUM_MISMATCH_ON_DISK, -EIO, -ETIME, -ECANCELED. */
int blob_reader_next_await(struct blob_reader *reader, struct block **blocks, unsigned max,
                           unsigned *count, uint32_t *offset, uint64_t *size);
void blob_reader_close_await(struct blob_reader **reader);

/* ---- deleting. Adds the removal of the blob's records to the batch; after the batch is durable
 * call released (space comes back after the last reader), or discard when it was not committed. */
struct blob_unlink;
int blob_unlink_prepare_await(struct blob_store *store, struct blob_ref ref,
                              struct meta_batch *batch, struct blob_unlink **unlink);
void blob_unlink_released(struct blob_store *store, struct blob_unlink **unlink);
void blob_unlink_discard(struct blob_unlink **unlink);

/* ---- offline check: every segment inside the volume, none overlapping, checksums of all data
 * right (when verify_data), no record without an owner. `owned` answers whether an object or part
 * refers to a data id; it is asked once for each blob found, and told how many bytes there are of
 * it, so that it can also tell what is short or missing. One line for each finding through report.
 * Blocking. */
typedef bool blob_owned_fn(void *ctx, uint64_t id, uint64_t bytes);
typedef void blob_report_fn(void *ctx, const char *finding);
int blob_fsck(const char *path, struct meta *meta, bool verify_data, blob_owned_fn *owned,
              blob_report_fn *report, void *ctx, uint64_t *bytes_used);

#endif
