/* How the RocksDB engine is set up: one column family for each key space, and why each setting is
 * what it is. */
#ifndef PENSTOCK_META_ROCKSDB_OPTIONS_H
#define PENSTOCK_META_ROCKSDB_OPTIONS_H

#include <rocksdb/c.h>
#include <stdbool.h>
#include <stdint.h>

#include "meta/meta.h"

/* RocksDB insists on a family called "default"; nothing is stored in it. */
#define ROCKSDB_FAMILIES       (META_SPACES + 1)
#define ROCKSDB_DEFAULT_FAMILY META_SPACES

/* Made in one piece and kept until the database is closed. */
struct rocksdb_setup {
    rocksdb_cache_t *cache; /* blocks, indexes, filters and blob values share its bound */
    rocksdb_options_t *database;
    const char *names[ROCKSDB_FAMILIES];
    rocksdb_options_t *families[ROCKSDB_FAMILIES];
};

/* RocksDB aborts when it has no memory, so there is no error to return. */
void rocksdb_setup_init(struct rocksdb_setup *setup, uint64_t cache_bytes, bool compress);
void rocksdb_setup_deinit(struct rocksdb_setup *setup);

#endif
