/* ListObjectsV2, and ListObjects as older clients know it: one listing, two ways to name where it
 * goes on. */
#include "base/error.h"
#include "s3/integrity.h"
#include "s3/operations.h"
#include "s3/page_token.h"
#include "s3/xml_write.h"

struct listing {
    bool version_two, url, fetch_owner;
    struct slice prefix, delimiter, marker, start_after, token;
    unsigned max;
    struct text after; /* of the token */
};

static int parse_version(struct s3_request *req, struct listing *listing) {
    struct slice type = request_parameter(req, "list-type");
    listing->version_two = slice_is(type, "2");
    if (!type.data || listing->version_two) return 0;
    return request_invalid_argument(req, "list-type", type,
                                    "Invalid List Type specified in Request");
}

/* Names beyond what a key can be match nothing, but are no names. */
static int check_sizes(struct s3_request *req, const struct listing *listing) {
    const struct slice all[] = {listing->prefix, listing->delimiter, listing->marker,
                                listing->start_after};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (all[i].size > OBJECT_KEY_MAX) return ERR_KEY_TOO_LONG;
    return 0;
}

static int parse(struct s3_request *req, struct listing *listing) {
    listing->prefix = request_parameter(req, "prefix");
    listing->delimiter = request_parameter(req, "delimiter");
    listing->marker = request_parameter(req, "marker");
    listing->start_after = request_parameter(req, "start-after");
    listing->token = request_parameter(req, "continuation-token");
    listing->fetch_owner = slice_is(request_parameter(req, "fetch-owner"), "true");
    int err = parse_version(req, listing);
    if (!err) err = request_parameter_encoding(req, &listing->url);
    if (!err)
        err = request_parameter_number(req, "max-keys", 0, S3_LIST_MAX, S3_LIST_MAX, &listing->max);
    if (!err && listing->version_two && listing->token.data && !listing->token.size)
        err = request_invalid_argument(req, "continuation-token", listing->token,
                                       "The continuation token provided is incorrect");
    if (!err && listing->version_two)
        err = page_token_parameter(req, "continuation-token", &listing->after);
    return err ? err : check_sizes(req, listing);
}

/* A token, which comes from us, counts before start-after, which every page repeats. */
static struct slice position(const struct listing *listing) {
    if (!listing->version_two) return listing->marker;
    return listing->token.size ? text_slice(&listing->after) : listing->start_after;
}

static void append_object(struct text *xml, const struct listing *listing,
                          const struct object_list_entry *entry) {
    xml_open(xml, "Contents");
    xml_element_key(xml, "Key", entry->key, listing->url);
    xml_element_time(xml, "LastModified", entry->modified_ms);
    xml_element_etag(xml, entry->etag);
    const struct checksum_name *name = checksum_by_kind(entry->checksum.kind);
    if (name) {
        xml_element(xml, "ChecksumAlgorithm", slice_of(name->algorithm));
        xml_element(xml, "ChecksumType",
                    slice_of(entry->checksum.composite ? "COMPOSITE" : "FULL_OBJECT"));
    }
    xml_element_u64(xml, "Size", entry->size);
    if (listing->fetch_owner || !listing->version_two) xml_owner(xml, "Owner");
    text_append_string(xml, "<StorageClass>STANDARD</StorageClass>");
    xml_close(xml, "Contents");
}

static void append_entries(struct text *xml, const struct listing *listing,
                           const struct object_list *list) {
    for (unsigned i = 0; i < list->count; i++)
        if (!list->entries[i].is_prefix) append_object(xml, listing, &list->entries[i]);
    for (unsigned i = 0; i < list->count; i++) {
        if (!list->entries[i].is_prefix) continue;
        xml_open(xml, "CommonPrefixes");
        xml_element_key(xml, "Prefix", list->entries[i].key, listing->url);
        xml_close(xml, "CommonPrefixes");
    }
}

static void append_position_v1(struct text *xml, const struct listing *listing,
                               const struct object_list *list) {
    xml_element_key(xml, "Marker", listing->marker, listing->url);
    if (list->truncated && listing->delimiter.size)
        xml_element_key(xml, "NextMarker", list->next, listing->url);
}

static void append_position_v2(struct text *xml, const struct listing *listing,
                               const struct object_list *list) {
    xml_element_u64(xml, "KeyCount", list->count);
    if (listing->start_after.size)
        xml_element_key(xml, "StartAfter", listing->start_after, listing->url);
    if (listing->token.size) xml_element(xml, "ContinuationToken", listing->token);
    if (!list->truncated) return;
    xml_open(xml, "NextContinuationToken");
    page_token_append(xml, list->next);
    xml_close(xml, "NextContinuationToken");
}

static void build(struct s3_request *req, const struct listing *listing,
                  const struct object_list *list, struct text *xml) {
    xml_begin(xml);
    xml_open_root(xml, "ListBucketResult");
    xml_element(xml, "Name", req->target.bucket);
    xml_element_key(xml, "Prefix", listing->prefix, listing->url);
    if (listing->version_two) {
        append_position_v2(xml, listing, list);
    } else {
        append_position_v1(xml, listing, list);
    }
    xml_element_u64(xml, "MaxKeys", listing->max);
    if (listing->delimiter.size)
        xml_element_key(xml, "Delimiter", listing->delimiter, listing->url);
    if (listing->url) xml_element(xml, "EncodingType", SLICE_LITERAL("url"));
    xml_element_bool(xml, "IsTruncated", list->truncated);
    append_entries(xml, listing, list);
    xml_close(xml, "ListBucketResult");
}

static int list_await(struct s3_request *req, struct listing *listing, struct text *xml) {
    struct bucket bucket;
    struct object_list list = {0};
    int err = parse(req, listing);
    if (!err) err = bucket_get_await(request_store(req), req->target.bucket, &bucket);
    if (err) return err;
    struct object_list_query query = {.prefix = listing->prefix,
                                      .delimiter = listing->delimiter,
                                      .after = position(listing),
                                      .max = listing->max};
    err = object_list_await(request_store(req), &bucket, &query, &list);
    if (err) return err;
    build(req, listing, &list, xml);
    object_list_deinit(&list);
    return 0;
}

int s3_list_objects_await(struct s3_request *req) {
    struct listing listing = {0};
    struct text xml _cleanup_text_ = {0};
    int err = list_await(req, &listing, &xml);
    text_deinit(&listing.after);
    return err ? err : respond_xml_await(req, &xml);
}
