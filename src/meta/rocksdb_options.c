/* The settings of the RocksDB engine. What they serve: many small durable commits, point reads of
 * hot records, ordered scans, and values of a few KiB that compaction does not rewrite. */
#include "meta/rocksdb_options.h"

#define KIB 1024ull
#define MIB (1024ull * 1024)

#define WRITE_BUFFER_BYTES     (32 * MIB)
#define WRITE_BUFFERS          3
#define ALL_WRITE_BUFFER_BYTES (128 * MIB) /* over all spaces together */
#define LOG_BYTES_MAX          (64 * MIB)  /* what a restart replays: half a second of it */
#define BLOCK_CACHE_BYTES_MIN  (8 * MIB)
#define BLOCK_BYTES            (8 * KIB)
#define BLOB_VALUE_BYTES_MIN   1024
#define BLOOM_BITS_PER_KEY     10
#define INFO_LOG_WARN          2

static const char *const family_names[ROCKSDB_FAMILIES] = {
    [META_SYSTEM] = "system",   [META_BUCKETS] = "buckets",
    [META_OBJECTS] = "objects", [META_UPLOADS] = "uploads",
    [META_PARTS] = "parts",     [META_SEGMENTS] = "segments",
    [META_INLINE] = "inline",   [ROCKSDB_DEFAULT_FAMILY] = "default",
};

static rocksdb_options_t *database_options(void) {
    rocksdb_options_t *options = rocksdb_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_create_missing_column_families(options, 1);
    rocksdb_options_set_paranoid_checks(options, 1);
    rocksdb_options_set_max_background_jobs(options, 2);
    rocksdb_options_set_db_write_buffer_size(options, ALL_WRITE_BUFFER_BYTES);
    rocksdb_options_set_max_total_wal_size(options, LOG_BYTES_MAX);

    /* After a power cut the log may end in a record that is cut short, or whole in length and
     * wrong in content. Point-in-time recovery stops before either and keeps all that was synced,
     * because the log is one stream and a sync covers everything before it. Tolerating only a tail
     * that is cut short would refuse to open the store in the second case. (Recycled logs are
     * incompatible with every mode that can tell a torn tail from damage.) */
    rocksdb_options_set_wal_recovery_mode(options, rocksdb_point_in_time_recovery);

    /* A reader that drops the last reference to old files must not delete them itself: it may be
     * a reactor. */
    rocksdb_options_set_avoid_unnecessary_blocking_io(options, 1);
    /* Table files go to the drive as they are written, not in one burst that delays commits. */
    rocksdb_options_set_bytes_per_sync(options, 1 * MIB);
    /* One thread writes. */
    rocksdb_options_set_allow_concurrent_memtable_write(options, 0);

    rocksdb_options_set_info_log_level(options, INFO_LOG_WARN);
    rocksdb_options_set_max_log_file_size(options, 1 * MIB);
    rocksdb_options_set_keep_log_file_num(options, 2);
    rocksdb_options_set_stats_dump_period_sec(options, 0);
    rocksdb_options_set_stats_persist_period_sec(options, 0);
    return options;
}

/* Filters answer for keys that do not exist; with indexes they live in the block cache, so that
 * memory is bounded, but are the last to leave it. */
static void set_table(rocksdb_options_t *options, rocksdb_cache_t *cache) {
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(table, cache);
    rocksdb_block_based_options_set_block_size(table, BLOCK_BYTES);
    rocksdb_block_based_options_set_format_version(table, 5);
    rocksdb_block_based_options_set_filter_policy(
        table, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS_PER_KEY));
    rocksdb_block_based_options_set_whole_key_filtering(table, 1);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
    rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(table, 1);
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
    rocksdb_options_set_block_based_table_factory(options, table);
    rocksdb_block_based_options_destroy(table);
}

/* Values of a KiB and more stand in files of their own, which compaction leaves alone until a good
 * part of them is dead. The cache holds them too: a read of one from memory never blocks. */
static void set_blobs(rocksdb_options_t *options, rocksdb_cache_t *cache, int compression) {
    rocksdb_options_set_enable_blob_files(options, 1);
    rocksdb_options_set_min_blob_size(options, BLOB_VALUE_BYTES_MIN);
    rocksdb_options_set_blob_compression_type(options, compression);
    rocksdb_options_set_blob_cache(options, cache);
    rocksdb_options_set_enable_blob_gc(options, 1);
    rocksdb_options_set_blob_gc_age_cutoff(options, 0.25);
    rocksdb_options_set_blob_gc_force_threshold(options, 0.5);
}

static rocksdb_options_t *family_options(enum meta_space space, rocksdb_cache_t *cache,
                                         bool compress) {
    rocksdb_options_t *options = rocksdb_options_create();
    /* Small objects are the client's bytes: often compressed already, and wanted back fast. */
    int compression =
        compress && space != META_INLINE ? rocksdb_lz4_compression : rocksdb_no_compression;
    rocksdb_options_set_compression(options, compression);
    rocksdb_options_set_write_buffer_size(options, WRITE_BUFFER_BYTES);
    rocksdb_options_set_max_write_buffer_number(options, WRITE_BUFFERS);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
    set_table(options, cache);
    if (space == META_OBJECTS || space == META_INLINE) set_blobs(options, cache, compression);
    return options;
}

void rocksdb_setup_init(struct rocksdb_setup *setup, uint64_t cache_bytes, bool compress) {
    if (cache_bytes < BLOCK_CACHE_BYTES_MIN) cache_bytes = BLOCK_CACHE_BYTES_MIN;
    setup->cache = rocksdb_cache_create_lru(cache_bytes);
    setup->database = database_options();
    for (unsigned i = 0; i < ROCKSDB_FAMILIES; i++) {
        setup->names[i] = family_names[i];
        setup->families[i] = family_options((enum meta_space)i, setup->cache, compress);
    }
}

void rocksdb_setup_deinit(struct rocksdb_setup *setup) {
    for (unsigned i = 0; i < ROCKSDB_FAMILIES; i++) rocksdb_options_destroy(setup->families[i]);
    rocksdb_options_destroy(setup->database);
    rocksdb_cache_destroy(setup->cache);
}
