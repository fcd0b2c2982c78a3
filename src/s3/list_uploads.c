/* ListMultipartUploads. */
#include "base/error.h"
#include "s3/operations.h"
#include "s3/xml_write.h"

struct upload_listing {
    struct upload_list_query query;
    bool url;
};

static int parse(struct s3_request *req, struct upload_listing *listing) {
    struct upload_list_query *query = &listing->query;
    query->prefix = request_parameter(req, "prefix");
    query->delimiter = request_parameter(req, "delimiter");
    query->key_marker = request_parameter(req, "key-marker");
    /* Without a key marker, an upload id says nothing about where to go on. */
    if (query->key_marker.size)
        query->upload_id_marker = request_parameter(req, "upload-id-marker");
    if (query->prefix.size > OBJECT_KEY_MAX || query->delimiter.size > OBJECT_KEY_MAX ||
        query->key_marker.size > OBJECT_KEY_MAX)
        return ERR_KEY_TOO_LONG;
    int err = request_parameter_encoding(req, &listing->url);
    if (err) return err;
    return request_parameter_number(req, "max-uploads", 0, S3_LIST_MAX, S3_LIST_MAX, &query->max);
}

static void append_upload(struct text *xml, const struct upload_list_entry *entry, bool url) {
    xml_open(xml, "Upload");
    xml_element_key(xml, "Key", entry->key, url);
    xml_element(xml, "UploadId", slice_of(entry->id));
    xml_owner(xml, "Initiator");
    xml_owner(xml, "Owner");
    text_append_string(xml, "<StorageClass>STANDARD</StorageClass>");
    xml_element_time(xml, "Initiated", entry->created_ms);
    xml_close(xml, "Upload");
}

static void append_entries(struct text *xml, const struct upload_list *list, bool url) {
    for (unsigned i = 0; i < list->count; i++)
        if (!list->entries[i].is_prefix) append_upload(xml, &list->entries[i], url);
    for (unsigned i = 0; i < list->count; i++) {
        if (!list->entries[i].is_prefix) continue;
        xml_open(xml, "CommonPrefixes");
        xml_element_key(xml, "Prefix", list->entries[i].key, url);
        xml_close(xml, "CommonPrefixes");
    }
}

static void build(struct s3_request *req, const struct upload_listing *listing,
                  const struct upload_list *list, struct text *xml) {
    const struct upload_list_query *query = &listing->query;
    xml_begin(xml);
    xml_open_root(xml, "ListMultipartUploadsResult");
    xml_element(xml, "Bucket", req->target.bucket);
    xml_element_key(xml, "KeyMarker", query->key_marker, listing->url);
    xml_element(xml, "UploadIdMarker", query->upload_id_marker);
    if (list->truncated) {
        xml_element_key(xml, "NextKeyMarker", list->next_key, listing->url);
        xml_element(xml, "NextUploadIdMarker", slice_of(list->next_upload_id));
    }
    xml_element_key(xml, "Prefix", query->prefix, listing->url);
    if (query->delimiter.size) xml_element_key(xml, "Delimiter", query->delimiter, listing->url);
    if (listing->url) xml_element(xml, "EncodingType", SLICE_LITERAL("url"));
    xml_element_u64(xml, "MaxUploads", query->max);
    xml_element_bool(xml, "IsTruncated", list->truncated);
    append_entries(xml, list, listing->url);
    xml_close(xml, "ListMultipartUploadsResult");
}

int s3_list_uploads_await(struct s3_request *req) {
    struct upload_listing listing = {0};
    struct bucket bucket;
    struct upload_list list = {0};
    int err = parse(req, &listing);
    if (!err) err = bucket_get_await(request_store(req), req->target.bucket, &bucket);
    if (!err) err = upload_list_await(request_store(req), &bucket, &listing.query, &list);
    if (err) return err;
    struct text xml _cleanup_text_ = {0};
    build(req, &listing, &list, &xml);
    upload_list_deinit(&list);
    return respond_xml_await(req, &xml);
}
