/* Counters as JSON. Each layer counts for itself; here they only get their names. */
#include "server/admin.h"

#include <jansson.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"

static void add(json_t *object, const char *name, uint64_t value) {
    json_object_set_new(object, name, json_integer((json_int_t)value));
}

static json_t *process_stats(void) {
    json_t *object = json_object();
    json_object_set_new(object, "cpu_s", json_real((double)clock_process_cpu_ns() / NS_PER_S));
    return object;
}

static json_t *runtime_counters(const struct admin *admin) {
    struct runtime_stats s;
    runtime_stats(admin->runtime, &s);
    json_t *object = json_object();
    add(object, "fibers_alive", s.fibers_alive);
    add(object, "fibers_started", s.fibers_started);
    add(object, "switches", s.switches);
    add(object, "sqes", s.sqes);
    add(object, "enters", s.enters);
    add(object, "messages", s.messages);
    add(object, "worker_jobs", s.worker_jobs);
    json_object_set_new(object, "fixed_buffers", json_boolean(s.fixed_buffers));
    return object;
}

static json_t *memory_counters(const struct admin *admin) {
    struct pool_stats s;
    pool_stats(admin->pool, &s);
    json_t *object = json_object();
    add(object, "memory_bytes", s.memory_bytes);
    add(object, "huge_page_bytes", s.huge_page_bytes);
    add(object, "blocks_4k_free", s.blocks_free[BLOCK_4K]);
    add(object, "blocks_32k_free", s.blocks_free[BLOCK_32K]);
    add(object, "blocks_256k_free", s.blocks_free[BLOCK_256K]);
    add(object, "blocks_256k_total", s.blocks_total[BLOCK_256K]);
    add(object, "waits", s.waits);
    add(object, "wait_timeouts", s.wait_timeouts);
    add(object, "reclaims", s.reclaims);
    return object;
}

static json_t *cache_counters(const struct admin *admin) {
    struct cache_stats s;
    cache_stats(admin->cache, &s);
    json_t *object = json_object();
    add(object, "entries", s.entries);
    add(object, "bytes", s.bytes);
    add(object, "hits", s.hits);
    add(object, "misses", s.misses);
    add(object, "inserts", s.inserts);
    add(object, "evictions", s.evictions);
    return object;
}

static json_t *meta_counters(const struct admin *admin) {
    struct meta_stats s;
    meta_stats(admin->meta, &s);
    json_t *object = json_object();
    add(object, "commits", s.commits);
    add(object, "groups", s.groups);
    add(object, "conflicts", s.conflicts);
    add(object, "gets", s.gets);
    add(object, "cache_hits", s.cache_hits);
    add(object, "engine_gets", s.engine_gets);
    add(object, "worker_gets", s.worker_gets);
    add(object, "scans", s.scans);
    add(object, "cache_bytes", s.cache_bytes);
    return object;
}

static json_t *blob_counters(const struct admin *admin) {
    struct blob_stats s;
    blob_stats(admin->blobs, &s);
    json_t *object = json_object();
    add(object, "capacity_bytes", s.capacity_bytes);
    add(object, "used_bytes", s.used_bytes);
    add(object, "free_bytes", s.free_bytes);
    add(object, "extents_free", s.extents_free);
    add(object, "bytes_written", s.bytes_written);
    add(object, "bytes_read", s.bytes_read);
    add(object, "checksum_errors", s.checksum_errors);
    add(object, "payload_copies_bytes", s.payload_copies_bytes);
    return object;
}

static json_t *transfer_counters(const struct admin *admin) {
    struct transfer_stats s;
    transfer_stats(admin->transfers, &s);
    json_t *object = json_object();
    add(object, "sessions", s.sessions);
    add(object, "regions", s.regions);
    add(object, "registered_bytes", s.registered_bytes);
    add(object, "pushes", s.pushes);
    add(object, "pulls", s.pulls);
    add(object, "bytes_pushed", s.bytes_pushed);
    add(object, "bytes_pulled", s.bytes_pulled);
    add(object, "tokens_refused", s.tokens_refused);
    add(object, "transfers_failed", s.transfers_failed);
    add(object, "payload_copies_bytes", s.payload_copies_bytes);
    return object;
}

static json_t *s3_counters(const struct admin *admin) {
    struct s3_stats s;
    s3_stats(admin->s3, &s);
    json_t *object = json_object();
    add(object, "requests", s.requests);
    add(object, "errors_4xx", s.errors_4xx);
    add(object, "errors_5xx", s.errors_5xx);
    add(object, "one_sided_get", s.one_sided_get);
    add(object, "one_sided_put", s.one_sided_put);
    add(object, "declined", s.declined);
    return object;
}

static json_t *http_counters(const struct admin *admin) {
    struct http_stats s;
    http_server_stats(admin->http, &s);
    json_t *object = json_object();
    add(object, "connections", s.connections);
    add(object, "accepted", s.accepted);
    add(object, "requests", s.requests);
    add(object, "bytes_in", s.bytes_in);
    add(object, "bytes_out", s.bytes_out);
    add(object, "parse_errors", s.parse_errors);
    add(object, "refused", s.refused);
    return object;
}

int admin_handle(void *ctx, enum http_method method, struct slice name,
                 const struct identity *identity, struct text *out) {
    const struct admin *admin = ctx;
    if (!slice_is(name, "stats")) return ERR_NOT_FOUND;
    if (method != HTTP_GET) return ERR_METHOD_NOT_ALLOWED;
    json_t *all = json_object();
    json_object_set_new(all, "process", process_stats());
    json_object_set_new(all, "runtime", runtime_counters(admin));
    json_object_set_new(all, "pool", memory_counters(admin));
    json_object_set_new(all, "cache", cache_counters(admin));
    json_object_set_new(all, "meta", meta_counters(admin));
    json_object_set_new(all, "blob", blob_counters(admin));
    json_object_set_new(all, "transfer", transfer_counters(admin));
    json_object_set_new(all, "s3", s3_counters(admin));
    json_object_set_new(all, "http", http_counters(admin));
    char *text = json_dumps(all, JSON_COMPACT);
    json_decref(all);
    if (!text) return -ENOMEM;
    text_append_string(out, text);
    free(text);
    return out->failed ? -ENOMEM : 0;
}
