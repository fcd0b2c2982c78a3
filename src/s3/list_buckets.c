/* ListBuckets: all of them, or the pages that newer clients ask for. */
#include <stdlib.h>

#include "s3/operations.h"
#include "s3/page_token.h"
#include "s3/xml_write.h"

#define MAX_BUCKETS 10000

static void append_bucket(struct text *xml, const struct bucket *bucket) {
    xml_open(xml, "Bucket");
    xml_element(xml, "Name", slice_of(bucket->name));
    xml_element_time(xml, "CreationDate", bucket->created_ms);
    xml_element(xml, "BucketRegion", slice_of(bucket->region));
    xml_close(xml, "Bucket");
}

/* The names are in order, so a page is a run of them: those that begin with the prefix and come
 * after the last page's end. */
static void append_page(struct text *xml, const struct bucket *buckets, size_t count,
                        struct slice prefix, struct slice after, unsigned max) {
    const char *last = NULL;
    bool truncated = false;
    xml_open(xml, "Buckets");
    for (size_t i = 0; i < count && !truncated; i++) {
        struct slice name = slice_of(buckets[i].name);
        if (!slice_starts_with(name, prefix) || slice_compare(name, after) <= 0) continue;
        truncated = max == 0;
        if (truncated) break;
        append_bucket(xml, &buckets[i]);
        last = buckets[i].name;
        max--;
    }
    xml_close(xml, "Buckets");
    if (truncated && last) {
        xml_open(xml, "ContinuationToken");
        page_token_append(xml, slice_of(last));
        xml_close(xml, "ContinuationToken");
    }
}

int s3_list_buckets_await(struct s3_request *req) {
    unsigned max;
    struct slice prefix = request_parameter(req, "prefix");
    struct text after _cleanup_text_ = {0};
    int err = request_parameter_number(req, "max-buckets", 1, MAX_BUCKETS, UINT32_MAX, &max);
    if (!err) err = page_token_parameter(req, "continuation-token", &after);
    if (err) return err;

    struct bucket *buckets = NULL;
    size_t count = 0;
    err = bucket_list_await(request_store(req), &buckets, &count);
    if (err) return err;
    struct text xml _cleanup_text_ = {0};
    xml_begin(&xml);
    xml_open_root(&xml, "ListAllMyBucketsResult");
    xml_owner(&xml, "Owner");
    append_page(&xml, buckets, count, prefix, text_slice(&after), max);
    if (prefix.size) xml_element(&xml, "Prefix", prefix);
    xml_close(&xml, "ListAllMyBucketsResult");
    free(buckets);
    return respond_xml_await(req, &xml);
}
