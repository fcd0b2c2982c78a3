/* The table of operations: method, what it is applied to, and the sub-resource, which is the query
 * parameter that makes another operation of it. */
#include "s3/route.h"

#include "base/error.h"
#include "s3/operations.h"

enum level { LEVEL_SERVICE, LEVEL_BUCKET, LEVEL_OBJECT };

/* Every sub-resource that S3 knows. One that is in no route is refused by name: to ignore it would
 * be to carry out another operation than the client asked for. */
static const char *const sub_resources[] = {
    "uploadId",
    "uploads",
    "delete",
    "location",
    "versioning",
    "versions",
    "acl",
    "policy",
    "tagging",
    "cors",
    "lifecycle",
    "encryption",
    "website",
    "logging",
    "notification",
    "replication",
    "requestPayment",
    "object-lock",
    "ownershipControls",
    "publicAccessBlock",
    "policyStatus",
    "accelerate",
    "analytics",
    "inventory",
    "metrics",
    "intelligent-tiering",
    "attributes",
    "legal-hold",
    "retention",
    "restore",
    "select",
    "torrent",
    "renameObject",
    "session",
    "append",
    "metadataTable",
    "metadataConfiguration",
    "metadataInventoryTable",
    "metadataJournalTable",
    "abac",
    "annotation",
    "encryptionConfiguration",
};

static const struct entry {
    enum level level;
    enum http_method method;
    const char *sub_resource; /* NULL for none */
    struct route route;
} table[] = {
    {LEVEL_SERVICE, HTTP_GET, NULL, {"ListBuckets", s3_list_buckets_await}},

    {LEVEL_BUCKET, HTTP_PUT, NULL, {"CreateBucket", s3_bucket_create_await}},
    {LEVEL_BUCKET, HTTP_HEAD, NULL, {"HeadBucket", s3_bucket_head_await}},
    {LEVEL_BUCKET, HTTP_DELETE, NULL, {"DeleteBucket", s3_bucket_delete_await}},
    {LEVEL_BUCKET, HTTP_GET, NULL, {"ListObjects", s3_list_objects_await}},
    {LEVEL_BUCKET, HTTP_GET, "location", {"GetBucketLocation", s3_bucket_location_await}},
    {LEVEL_BUCKET, HTTP_GET, "versioning", {"GetBucketVersioning", s3_bucket_versioning_await}},
    {LEVEL_BUCKET, HTTP_GET, "uploads", {"ListMultipartUploads", s3_list_uploads_await}},
    {LEVEL_BUCKET, HTTP_POST, "delete", {"DeleteObjects", s3_delete_objects_await}},

    {LEVEL_OBJECT, HTTP_GET, NULL, {"GetObject", s3_object_get_await}},
    {LEVEL_OBJECT, HTTP_HEAD, NULL, {"HeadObject", s3_object_head_await}},
    {LEVEL_OBJECT, HTTP_PUT, NULL, {"PutObject", s3_object_put_await}},
    {LEVEL_OBJECT, HTTP_DELETE, NULL, {"DeleteObject", s3_object_delete_await}},
    {LEVEL_OBJECT, HTTP_POST, "uploads", {"CreateMultipartUpload", s3_upload_create_await}},
    {LEVEL_OBJECT, HTTP_PUT, "uploadId", {"UploadPart", s3_upload_part_await}},
    {LEVEL_OBJECT, HTTP_POST, "uploadId", {"CompleteMultipartUpload", s3_upload_complete_await}},
    {LEVEL_OBJECT, HTTP_DELETE, "uploadId", {"AbortMultipartUpload", s3_upload_abort_await}},
    {LEVEL_OBJECT, HTTP_GET, "uploadId", {"ListParts", s3_list_parts_await}},
};

static const char *find_sub_resource(const struct s3_target *target) {
    if (!target->parameter_count) return NULL;
    for (size_t i = 0; i < sizeof sub_resources / sizeof sub_resources[0]; i++)
        if (target_parameter(target, sub_resources[i]).data) return sub_resources[i];
    return NULL;
}

static enum level level_of(const struct s3_target *target) {
    if (!target->bucket.size) return LEVEL_SERVICE;
    return target->key.size ? LEVEL_OBJECT : LEVEL_BUCKET;
}

static bool same_sub_resource(const char *a, const char *b) {
    return a && b ? !strcmp(a, b) : a == b;
}

const struct route *route_find(enum http_method method, const struct s3_target *target, int *err,
                               const char **sub_resource) {
    const char *found = *sub_resource = find_sub_resource(target);
    enum level level = level_of(target);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct entry *entry = &table[i];
        if (entry->level == level && entry->method == method &&
            same_sub_resource(entry->sub_resource, found))
            return &entry->route;
    }
    /* POST to a bucket is a browser's form: an operation of S3, though not of ours. */
    bool form = level == LEVEL_BUCKET && method == HTTP_POST;
    *err = found || form ? ERR_NOT_IMPLEMENTED : ERR_METHOD_NOT_ALLOWED;
    return NULL;
}
