/* Operations of one request: stat, delete, buckets, the server's counters. */
#include <stdlib.h>
#include <string.h>

#include "client/client.h"

static int simple(ps_client *client, const char *method, const char *bucket, const char *key,
                  ps_result *given) {
    ps_result own, *result = result_begin(given, &own);
    struct call call _cleanup_call_ = {.method = method, .bucket = bucket, .key = key};
    return call_perform(client, &call, result);
}

/* An answer to HEAD has no body to say which error it is. Of a GET that fails alike, it has. */
static void explain_head(ps_client *client, const char *bucket, const char *key,
                         ps_result *result) {
    struct call call _cleanup_call_ = {.method = "GET", .bucket = bucket, .key = key};
    call_header(&call, "range", "bytes=0-0");
    ps_result told = {0};
    if (call_perform(client, &call, &told) == PS_ERR_S3) *result = told;
}

PS_API int ps_stat(ps_client *client, const char *bucket, const char *key, ps_object_stat *stat,
                   ps_result *given) {
    ps_result own, *result = result_begin(given, &own);
    struct call call _cleanup_call_ = {.method = "HEAD", .bucket = bucket, .key = key};
    int err = call_perform(client, &call, result);
    if (err == PS_ERR_S3) explain_head(client, bucket, key, result);
    if (err) return err;
    *stat = (ps_object_stat){.size = call.content_length, .modified_ms = call.modified_ms};
    memcpy(stat->etag, call.etag, sizeof(stat->etag));
    memcpy(stat->content_type, call.content_type, sizeof(stat->content_type));
    result->size = call.content_length;
    return 0;
}

PS_API int ps_delete(ps_client *client, const char *bucket, const char *key, ps_result *result) {
    return simple(client, "DELETE", bucket, key, result);
}

PS_API int ps_bucket_create(ps_client *client, const char *bucket, ps_result *result) {
    return simple(client, "PUT", bucket, NULL, result);
}

PS_API int ps_bucket_delete(ps_client *client, const char *bucket, ps_result *result) {
    return simple(client, "DELETE", bucket, NULL, result);
}

PS_API int ps_server_stats(ps_client *client, char **json, ps_result *given) {
    ps_result own, *result = result_begin(given, &own);
    struct call call _cleanup_call_ = {.method = "GET", .bucket = ".penstock", .key = "stats"};
    int err = call_perform(client, &call, result);
    if (err) return err;
    *json = call.text.size ? strndup(call.text.data, call.text.size) : NULL;
    return *json ? 0 : result_fail(result, PS_ERR_PROTOCOL, "the endpoint has no counters");
}
