/* Target and Host to bucket, key and parameters. Keys are bytes: no "." or "//" is ever folded,
 * because to S3 these are ordinary characters of a key. */
#include "s3/uri.h"

#include <stdlib.h>

#include "base/encode.h"
#include "base/error.h"

#define SYSTEM_PREFIX "/.penstock/"

/* Absolute-form targets name scheme and host again: what is signed and routed is the rest. */
static struct slice without_authority(struct slice path) {
    if (path.size && path.data[0] == '/') return path;
    const char *scheme = memmem(path.data, path.size, "://", 3);
    if (!scheme) return path;
    const char *authority = scheme + 3;
    size_t left = path.size - (size_t)(authority - path.data);
    const char *slash = memchr(authority, '/', left);
    if (!slash) return SLICE_LITERAL("/");
    return (struct slice){slash, path.size - (size_t)(slash - path.data)};
}

static struct slice without_port(struct slice host) {
    if (host.size && host.data[host.size - 1] == ']') return host;
    for (size_t i = host.size; i > 0; i--) {
        if (host.data[i - 1] == ':') return (struct slice){host.data, i - 1};
        if (host.data[i - 1] < '0' || host.data[i - 1] > '9') break;
    }
    return host;
}

/* The bucket of "bucket.DOMAIN:port"; empty when the request is addressed by path. */
static struct slice virtual_bucket(struct slice host, const char *domain) {
    if (!domain || !*domain) return (struct slice){0};
    struct slice name = without_port(host);
    struct slice suffix = slice_of(domain);
    if (name.size <= suffix.size + 1) return (struct slice){0};
    size_t bucket_size = name.size - suffix.size - 1;
    struct slice tail = {name.data + bucket_size + 1, suffix.size};
    if (name.data[bucket_size] != '.' || !slice_equal_nocase(tail, suffix)) {
        return (struct slice){0};
    }
    return (struct slice){name.data, bucket_size};
}

static int set_bucket(struct s3_target *target, struct slice encoded) {
    if (encoded.size > sizeof target->bucket_memory) return ERR_INVALID_BUCKET_NAME;
    if (encoded.size) memcpy(target->bucket_memory, encoded.data, encoded.size);
    ssize_t size = uri_decode(target->bucket_memory, encoded.size, false);
    if (size < 0) return ERR_INVALID_URI;
    target->bucket = (struct slice){target->bucket_memory, (size_t)size};
    return utf8_valid(target->bucket) ? 0 : ERR_INVALID_BUCKET_NAME;
}

static int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decoded one byte at a time, because an encoded key may be three times as long as its memory. */
static int set_key(struct s3_target *target, struct slice encoded) {
    size_t size = 0;
    for (size_t i = 0; i < encoded.size; i++) {
        char c = encoded.data[i];
        if (c == '%') {
            int high = i + 2 < encoded.size ? hex_value(encoded.data[i + 1]) : -1;
            int low = i + 2 < encoded.size ? hex_value(encoded.data[i + 2]) : -1;
            if (high < 0 || low < 0) return ERR_INVALID_URI;
            c = (char)(high << 4 | low);
            i += 2;
        }
        /* XML has no way to say NUL, so such a key could never be listed. */
        if (!c) return ERR_INVALID_URI;
        if (size == sizeof target->key_memory) return ERR_KEY_TOO_LONG;
        target->key_memory[size++] = c;
    }
    target->key = (struct slice){target->key_memory, size};
    return utf8_valid(target->key) ? 0 : ERR_INVALID_URI;
}

static int set_path(struct s3_target *target, struct slice bucket) {
    struct slice path = target->path;
    if (!path.size || path.data[0] != '/') return ERR_INVALID_URI;
    struct slice rest = {path.data + 1, path.size - 1};
    if (!bucket.size) {
        if (slice_starts_with(path, SLICE_LITERAL(SYSTEM_PREFIX))) {
            size_t skip = sizeof SYSTEM_PREFIX - 1;
            target->system = (struct slice){path.data + skip, path.size - skip};
            return 0;
        }
        const char *slash = memchr(rest.data, '/', rest.size);
        bucket = (struct slice){rest.data, slash ? (size_t)(slash - rest.data) : rest.size};
        size_t skip = bucket.size + (slash ? 1 : 0);
        rest = (struct slice){rest.data + skip, rest.size - skip};
    }
    int err = set_bucket(target, bucket);
    if (!err && !target->bucket.size && rest.size) err = ERR_INVALID_URI;
    return err ? err : set_key(target, rest);
}

/* One "name=value", decoded in place. */
static int add_parameter(struct s3_target *target, char *text, size_t size) {
    if (!size) return 0;
    if (target->parameter_count == URI_PARAMETERS_MAX) return ERR_INVALID_URI;
    char *equals = memchr(text, '=', size);
    char *value = equals ? equals + 1 : text + size;
    size_t name_size = equals ? (size_t)(equals - text) : size;
    ssize_t name_decoded = uri_decode(text, name_size, true);
    ssize_t value_decoded = uri_decode(value, size - (size_t)(value - text), true);
    if (name_decoded < 0 || value_decoded < 0) return ERR_INVALID_URI;
    target->parameters[target->parameter_count++] = (struct s3_parameter){
        .name = {text, (size_t)name_decoded}, .value = {value, (size_t)value_decoded}};
    return 0;
}

static int set_query(struct s3_target *target, struct slice query) {
    if (!query.size) return 0;
    char *memory = target->query_memory;
    if (query.size > sizeof target->query_memory) {
        memory = target->query_heap = malloc(query.size);
        if (!memory) return -ENOMEM;
    }
    memcpy(memory, query.data, query.size);
    for (size_t start = 0; start < query.size;) {
        char *ampersand = memchr(memory + start, '&', query.size - start);
        size_t end = ampersand ? (size_t)(ampersand - memory) : query.size;
        int err = add_parameter(target, memory + start, end - start);
        if (err) return err;
        start = end + 1;
    }
    return 0;
}

int target_parse(struct s3_target *target, struct slice path, struct slice query, struct slice host,
                 const char *domain) {
    target->path = without_authority(path);
    int err = set_query(target, query);
    return err ? err : set_path(target, virtual_bucket(host, domain));
}

void target_deinit(struct s3_target *target) {
    free(target->query_heap);
    target->query_heap = NULL;
}

struct slice target_parameter(const struct s3_target *target, const char *name) {
    for (unsigned i = 0; i < target->parameter_count; i++)
        if (slice_is(target->parameters[i].name, name)) return target->parameters[i].value;
    return (struct slice){0};
}
