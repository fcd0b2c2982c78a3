/* The RocksDB engine: one column family for each key space. Reads, one merged write for a group of
 * batches, cursors, opening and closing, and what RocksDB's error sentences mean. Its settings are
 * in rocksdb_options.c; guards, caching and grouping are above. */
#include <assert.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <rocksdb/c.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "meta/batch.h"
#include "meta/engine.h"
#include "meta/rocksdb_options.h"

#define READ_TIER_MEMORY 1 /* kBlockCacheTier */
/* A group larger than this gives its memory back after it has been written. */
#define WRITE_BATCH_KEPT_BYTES (8u * 1024 * 1024)

struct rocks {
    struct meta meta; /* first */
    struct rocksdb_setup setup;
    rocksdb_t *db;
    rocksdb_column_family_handle_t *families[ROCKSDB_FAMILIES];
    rocksdb_readoptions_t *read_any, *read_memory;
    rocksdb_writeoptions_t *write_sync, *write_async;
    rocksdb_writebatch_t *batch; /* the committer's, used again for every group */
    bool full;                   /* the last write found no space: say so once */
};

struct rocks_cursor {
    struct meta_cursor cursor; /* first */
    rocksdb_readoptions_t *options;
    rocksdb_iterator_t *iterator;
    char *error; /* the first one; a later seek would hide it */
};

static struct rocks *rocks_of(struct meta *meta) {
    return (struct rocks *)meta;
}

/* ---- errors */

static void free_error(char **error) {
    if (*error) rocksdb_free(*error);
}
#define _cleanup_error_ __attribute__((cleanup(free_error)))

/* RocksDB's C interface has no codes: the class of an error is how its sentence starts. */
static int error_code(const char *error) {
    struct slice text = slice_of(error);
    if (slice_starts_with(text, SLICE_LITERAL("Result incomplete"))) return -EAGAIN;
    if (slice_starts_with(text, SLICE_LITERAL("Corruption"))) return ERR_STORE_CORRUPT;
    if (slice_starts_with(text, SLICE_LITERAL("IO error: No space left on device"))) {
        return ERR_STORAGE_FULL;
    }
    return -EIO;
}

static int read_error(const char *error) {
    int err = error_code(error);
    if (err != -EAGAIN) log_error("metadata: a read failed: %s", error);
    return err;
}

/* ---- reads */

/* The one copy of a value on its way out of the engine: what RocksDB pins is a block of its cache,
 * which a caller must not hold for long. */
static int copy_value(const rocksdb_pinnableslice_t *pinned, struct meta_value **value) {
    size_t size;
    const char *data = rocksdb_pinnableslice_value(pinned, &size);
    struct meta_value *copy = meta_value_create(size);
    if (!copy) return -ENOMEM;
    if (size) memcpy(copy->data, data, size);
    *value = copy;
    return 0;
}

/* Takes up to 16 KiB of stack inside RocksDB: a fiber has room for it. */
static int rocks_get(struct meta *meta, enum meta_space space, struct slice key,
                     enum meta_read from, struct meta_value **value) {
    struct rocks *rocks = rocks_of(meta);
    const rocksdb_readoptions_t *options =
        from == META_READ_MEMORY ? rocks->read_memory : rocks->read_any;
    char *error _cleanup_error_ = NULL;
    rocksdb_pinnableslice_t *pinned = rocksdb_get_pinned_cf(
        rocks->db, options, rocks->families[space], key.data, key.size, &error);
    if (error) return read_error(error);
    if (!pinned) return ERR_NOT_FOUND;
    int err = copy_value(pinned, value);
    rocksdb_pinnableslice_destroy(pinned);
    return err;
}

/* ---- writes */

static void add_batch(struct rocks *rocks, const struct meta_batch *batch) {
    for (size_t i = 0; i < batch->op_count; i++) {
        const struct batch_op *op = &batch->ops[i];
        rocksdb_column_family_handle_t *family = rocks->families[op->space];
        if (op->value) {
            rocksdb_writebatch_put_cf(rocks->batch, family, op->key.data, op->key.size,
                                      (const char *)op->value->data, op->value->size);
        } else {
            rocksdb_writebatch_delete_cf(rocks->batch, family, op->key.data, op->key.size);
        }
    }
}

static void clear_batch(struct rocks *rocks, size_t bytes) {
    if (bytes <= WRITE_BATCH_KEPT_BYTES) {
        rocksdb_writebatch_clear(rocks->batch);
        return;
    }
    rocksdb_writebatch_destroy(rocks->batch);
    rocks->batch = rocksdb_writebatch_create();
}

/* A log that could not grow ends in a torn record, which no restart takes for a commit; RocksDB
 * then refuses writes until it has room again and has started a new log. But when a sync finds no
 * space the record may stand in the log whole and come back after a crash: that is an unknown
 * state. */
static int write_error(const char *error) {
    struct slice text = slice_of(error);
    bool sync_failed =
        slice_starts_with(text,
                          SLICE_LITERAL("IO error: No space left on device: While fdatasync")) ||
        slice_starts_with(text, SLICE_LITERAL("IO error: No space left on device: While fsync"));
    return error_code(error) == ERR_STORAGE_FULL && !sync_failed ? ERR_STORAGE_FULL : -EIO;
}

static int rocks_write(struct meta *meta, struct meta_batch *const *batches, size_t count,
                       bool sync) {
    struct rocks *rocks = rocks_of(meta);
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        add_batch(rocks, batches[i]);
        bytes += batches[i]->bytes;
    }
    char *error _cleanup_error_ = NULL;
    rocksdb_write(rocks->db, sync ? rocks->write_sync : rocks->write_async, rocks->batch, &error);
    clear_batch(rocks, bytes);
    int err = error ? write_error(error) : 0;
    if (err == ERR_STORAGE_FULL && !rocks->full) log_warn("metadata: no space left: %s", error);
    rocks->full = err == ERR_STORAGE_FULL;
    if (!err || rocks->full) return err;
    log_error("metadata: a write failed: %s", error);
    return err;
}

/* ---- cursors */

static struct rocks_cursor *cursor_of(struct meta_cursor *cursor) {
    return (struct rocks_cursor *)cursor;
}

static rocksdb_iterator_t *iterator_of(const struct meta_cursor *cursor) {
    return ((const struct rocks_cursor *)cursor)->iterator;
}

static int rocks_cursor_open(struct meta *meta, enum meta_space space, struct slice end,
                             struct meta_cursor **out) {
    struct rocks *rocks = rocks_of(meta);
    struct rocks_cursor *cursor = calloc(1, sizeof(*cursor));
    if (!cursor) return -ENOMEM;
    cursor->cursor.ops = meta->ops;
    cursor->options = rocksdb_readoptions_create();
    if (end.size) rocksdb_readoptions_set_iterate_upper_bound(cursor->options, end.data, end.size);
    cursor->iterator =
        rocksdb_create_iterator_cf(rocks->db, cursor->options, rocks->families[space]);
    *out = &cursor->cursor;
    return 0;
}

static void note_error(struct rocks_cursor *cursor) {
    if (!cursor->error && !rocksdb_iter_valid(cursor->iterator)) {
        rocksdb_iter_get_error(cursor->iterator, &cursor->error);
    }
}

static int rocks_cursor_close(struct meta_cursor **pointer) {
    struct rocks_cursor *cursor = cursor_of(*pointer);
    *pointer = NULL;
    char *error _cleanup_error_ = cursor->error;
    rocksdb_iter_destroy(cursor->iterator);
    rocksdb_readoptions_destroy(cursor->options);
    free(cursor);
    return error ? read_error(error) : 0;
}

static void rocks_cursor_seek(struct meta_cursor *cursor, struct slice key) {
    rocksdb_iter_seek(iterator_of(cursor), key.data, key.size);
    note_error(cursor_of(cursor));
}

static void rocks_cursor_seek_before(struct meta_cursor *cursor, struct slice key) {
    rocksdb_iter_seek_for_prev(iterator_of(cursor), key.data, key.size);
    note_error(cursor_of(cursor));
}

static bool rocks_cursor_valid(const struct meta_cursor *cursor) {
    return rocksdb_iter_valid(iterator_of(cursor));
}

static void rocks_cursor_next(struct meta_cursor *cursor) {
    rocksdb_iter_next(iterator_of(cursor));
    note_error(cursor_of(cursor));
}

static struct slice rocks_cursor_key(const struct meta_cursor *cursor) {
    size_t size;
    const char *data = rocksdb_iter_key(iterator_of(cursor), &size);
    return (struct slice){data, size};
}

static struct slice rocks_cursor_value(const struct meta_cursor *cursor) {
    size_t size;
    const char *data = rocksdb_iter_value(iterator_of(cursor), &size);
    return (struct slice){data, size};
}

/* ---- open and close */

static void rocks_close(struct meta *meta) {
    struct rocks *rocks = rocks_of(meta);
    if (rocks->batch) rocksdb_writebatch_destroy(rocks->batch);
    if (rocks->read_any) rocksdb_readoptions_destroy(rocks->read_any);
    if (rocks->read_memory) rocksdb_readoptions_destroy(rocks->read_memory);
    if (rocks->write_sync) rocksdb_writeoptions_destroy(rocks->write_sync);
    if (rocks->write_async) rocksdb_writeoptions_destroy(rocks->write_async);
    if (rocks->db) {
        for (unsigned i = 0; i < ROCKSDB_FAMILIES; i++) {
            rocksdb_column_family_handle_destroy(rocks->families[i]);
        }
        rocksdb_close(rocks->db);
    }
    rocksdb_setup_deinit(&rocks->setup);
    free(rocks);
}

static const struct meta_ops rocks_ops = {
    .get = rocks_get,
    .write = rocks_write,
    .cursor_open = rocks_cursor_open,
    .cursor_close = rocks_cursor_close,
    .cursor_seek = rocks_cursor_seek,
    .cursor_seek_before = rocks_cursor_seek_before,
    .cursor_valid = rocks_cursor_valid,
    .cursor_next = rocks_cursor_next,
    .cursor_key = rocks_cursor_key,
    .cursor_value = rocks_cursor_value,
    .close = rocks_close,
};

/* RocksDB syncs what it creates inside its directory; the directory's own entry is ours. */
static int make_directory(const char *directory) {
    if (mkdir(directory, 0700)) return errno == EEXIST ? 0 : -errno;
    char path[PATH_MAX];
    if (strlen(directory) >= sizeof(path)) return -ENAMETOOLONG;
    strcpy(path, directory);
    int fd = open(dirname(path), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -errno;
    int err = fsync(fd) ? -errno : 0;
    close(fd);
    return err;
}

static int open_error(const char *directory, const char *error) {
    log_error("metadata: cannot open %s: %s", directory, error);
    struct slice text = slice_of(error);
    if (slice_starts_with(text, SLICE_LITERAL("IO error: While lock file")) ||
        slice_starts_with(text, SLICE_LITERAL("IO error: lock "))) {
        return -EBUSY;
    }
    /* A column family that we do not know: a newer version made it. */
    if (slice_starts_with(text, SLICE_LITERAL("Invalid argument: Column families not opened"))) {
        return ERR_UNSUPPORTED_FORMAT;
    }
    return error_code(error);
}

/* The library may have been built without LZ4; the store is then written without compression. */
static int open_database(struct rocks *rocks, const char *directory, uint64_t cache_bytes) {
    for (bool compress = true;; compress = false) {
        char *error _cleanup_error_ = NULL;
        rocksdb_setup_init(&rocks->setup, cache_bytes, compress);
        rocks->db = rocksdb_open_column_families(
            rocks->setup.database, directory, ROCKSDB_FAMILIES, rocks->setup.names,
            (const rocksdb_options_t *const *)rocks->setup.families, rocks->families, &error);
        if (!error) return 0;
        if (!compress || !strstr(error, "not linked")) return open_error(directory, error);
        log_warn("metadata: this RocksDB has no LZ4; records are stored uncompressed");
        rocksdb_setup_deinit(&rocks->setup);
    }
}

static void make_options(struct rocks *rocks) {
    rocks->batch = rocksdb_writebatch_create();
    rocks->read_any = rocksdb_readoptions_create();
    rocks->read_memory = rocksdb_readoptions_create();
    rocksdb_readoptions_set_read_tier(rocks->read_memory, READ_TIER_MEMORY);
    rocks->write_sync = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(rocks->write_sync, 1);
    rocks->write_async = rocksdb_writeoptions_create();
}

int meta_rocksdb_open(const char *directory, uint64_t cache_bytes, struct meta **meta) {
    int err = make_directory(directory);
    if (err) {
        log_error("metadata: cannot make %s: %s", directory, error_text(err));
        return err;
    }
    struct rocks *rocks = aligned_alloc(alignof(struct rocks), sizeof(*rocks));
    if (!rocks) return -ENOMEM;
    memset(rocks, 0, sizeof(*rocks));
    err = open_database(rocks, directory, cache_bytes);
    if (!err) {
        make_options(rocks);
        err = meta_init(&rocks->meta, &rocks_ops, cache_bytes);
    }
    if (err) {
        rocks_close(&rocks->meta);
        return err;
    }
    *meta = &rocks->meta;
    return 0;
}
