/* Listings: buckets, and the objects of one bucket page by page. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "client/answer.h"
#include "client/client.h"

struct listing {
    ps_list_fn fn;
    void *ctx;
    int stopped; /* what fn returned */
};

/* "2026-12-01T06:30:00.123Z" in milliseconds since the epoch; 0 when it is none. */
static int64_t parse_time(const char *text) {
    char compact[17] = "";
    unsigned year, month, day, hour, minute, second, milliseconds = 0;
    if (sscanf(text, "%4u-%2u-%2uT%2u:%2u:%2u.%3u", &year, &month, &day, &hour, &minute, &second,
               &milliseconds) < 6)
        return 0;
    snprintf(compact, sizeof(compact), "%04u%02u%02uT%02u%02u%02uZ", year % 10000, month % 100,
             day % 100, hour % 100, minute % 100, second % 100);
    int64_t wall_ms;
    return clock_parse_amz(slice_of(compact), &wall_ms) ? wall_ms + milliseconds : 0;
}

static void emit(struct listing *listing, const char *name, bool is_prefix, const char *size,
                 const char *modified, char *etag) {
    size_t length = strlen(etag);
    bool quoted = length >= 2 && etag[0] == '"' && etag[length - 1] == '"';
    if (quoted) etag[length - 1] = '\0';
    listing->stopped = listing->fn(listing->ctx, name, is_prefix, strtoull(size, NULL, 10),
                                   parse_time(modified), etag + quoted);
}

static void emit_node(struct listing *listing, const xmlNode *node, const char *name_field,
                      const char *time_field, bool is_prefix) {
    char *name = answer_text(node, name_field), *size = answer_text(node, "Size");
    char *modified = answer_text(node, time_field), *etag = answer_text(node, "ETag");
    if (name && size && modified && etag) emit(listing, name, is_prefix, size, modified, etag);
    free(name);
    free(size);
    free(modified);
    free(etag);
}

/* Keys and prefixes of one page, merged back into one order. */
static void emit_page(struct listing *listing, const xmlNode *root) {
    xmlNode *key = answer_first(root, "Contents"), *prefix = answer_first(root, "CommonPrefixes");
    while ((key || prefix) && !listing->stopped) {
        char *key_name = answer_text(key, "Key"), *prefix_name = answer_text(prefix, "Prefix");
        bool take_prefix =
            !key || (prefix && key_name && prefix_name && strcmp(prefix_name, key_name) < 0);
        free(key_name);
        free(prefix_name);
        if (take_prefix) {
            emit_node(listing, prefix, "Prefix", "LastModified", true);
            prefix = answer_next(prefix, "CommonPrefixes");
        } else {
            emit_node(listing, key, "Key", "LastModified", false);
            key = answer_next(key, "Contents");
        }
    }
}

static void add_parameter(struct text *query, const char *name, const char *value) {
    if (query->size) text_append_string(query, "&");
    text_append_string(query, name);
    text_append_string(query, "=");
    text_append_uri(query, slice_of(value), false);
}

/* One page; *token is the next page's, or NULL at the end. */
static int list_page(ps_client *client, const char *bucket, const char *prefix,
                     const char *delimiter, char **token, struct listing *listing,
                     ps_result *result) {
    struct call call _cleanup_call_ = {.method = "GET", .bucket = bucket};
    add_parameter(&call.query, "list-type", "2");
    if (*token) add_parameter(&call.query, "continuation-token", *token);
    if (delimiter && *delimiter) add_parameter(&call.query, "delimiter", delimiter);
    if (prefix && *prefix) add_parameter(&call.query, "prefix", prefix);
    free(*token);
    *token = NULL;
    int err = call_perform(client, &call, result);
    if (err) return err;
    xmlDoc *doc = answer_parse(text_slice(&call.text));
    xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
    if (!root || strcmp((const char *)root->name, "ListBucketResult")) {
        xmlFreeDoc(doc);
        return result_fail(result, PS_ERR_PROTOCOL, "the answer is not a listing");
    }
    emit_page(listing, root);
    char *truncated = answer_text(root, "IsTruncated");
    if (truncated && !strcmp(truncated, "true") && !listing->stopped)
        *token = answer_text(root, "NextContinuationToken");
    free(truncated);
    xmlFreeDoc(doc);
    return 0;
}

PS_API int ps_list_objects(ps_client *client, const char *bucket, const char *prefix,
                           const char *delimiter, ps_list_fn fn, void *ctx, ps_result *given) {
    ps_result own, *result = result_begin(given, &own);
    struct listing listing = {fn, ctx, 0};
    char *token = NULL;
    int err;
    do {
        err = list_page(client, bucket, prefix, delimiter, &token, &listing, result);
    } while (!err && token && *token);
    free(token);
    return err;
}

PS_API int ps_list_buckets(ps_client *client, ps_list_fn fn, void *ctx, ps_result *given) {
    ps_result own, *result = result_begin(given, &own);
    struct call call _cleanup_call_ = {.method = "GET"};
    int err = call_perform(client, &call, result);
    if (err) return err;
    xmlDoc *doc = answer_parse(text_slice(&call.text));
    xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
    xmlNode *buckets = answer_first(root, "Buckets");
    struct listing listing = {fn, ctx, 0};
    for (xmlNode *node = answer_first(buckets, "Bucket"); node && !listing.stopped;
         node = answer_next(node, "Bucket"))
        emit_node(&listing, node, "Name", "CreationDate", false);
    xmlFreeDoc(doc);
    return buckets ? 0
                   : result_fail(result, PS_ERR_PROTOCOL, "the answer is not a list of buckets");
}
