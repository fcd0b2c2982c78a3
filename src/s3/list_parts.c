/* ListParts. */
#include <stdlib.h>

#include "s3/integrity.h"
#include "s3/operations.h"
#include "s3/uploads.h"
#include "s3/xml_write.h"

struct part_listing {
    unsigned after, max;
    bool url;
    struct part_info *parts;
    size_t count;
    bool truncated;
};

static int parse(struct s3_request *req, struct part_listing *listing) {
    int err = request_parameter_encoding(req, &listing->url);
    if (!err)
        err = request_parameter_number(req, "part-number-marker", 0, OBJECT_PARTS_MAX, 0,
                                       &listing->after);
    if (err) return err;
    return request_parameter_number(req, "max-parts", 0, S3_LIST_MAX, S3_LIST_MAX, &listing->max);
}

static void append_part(struct text *xml, const struct part_info *part) {
    xml_open(xml, "Part");
    xml_element_u64(xml, "PartNumber", part->number);
    xml_element_time(xml, "LastModified", part->modified_ms);
    xml_element_etag(xml, slice_of(part->etag));
    xml_element_u64(xml, "Size", part->size);
    const struct checksum_name *name = checksum_by_kind(part->checksum.kind);
    if (name) {
        char text[CHECKSUM_TEXT_SIZE];
        checksum_format(&part->checksum, 0, text);
        xml_element(xml, name->element, slice_of(text));
    }
    xml_close(xml, "Part");
}

static void append_checksum(struct text *xml, const struct upload_info *upload) {
    const struct checksum_name *name = checksum_by_kind(upload->checksum_kind);
    if (!name) return;
    xml_element(xml, "ChecksumAlgorithm", slice_of(name->algorithm));
    xml_element(xml, "ChecksumType", slice_of(uploads_checksum_type(upload->checksum_composite)));
}

static void build(struct s3_request *req, const struct upload_info *upload,
                  const struct part_listing *listing, struct text *xml) {
    xml_begin(xml);
    xml_open_root(xml, "ListPartsResult");
    xml_element(xml, "Bucket", req->target.bucket);
    xml_element_key(xml, "Key", req->target.key, listing->url);
    xml_element(xml, "UploadId", slice_of(upload->id));
    xml_owner(xml, "Initiator");
    xml_owner(xml, "Owner");
    text_append_string(xml, "<StorageClass>STANDARD</StorageClass>");
    append_checksum(xml, upload);
    xml_element_u64(xml, "PartNumberMarker", listing->after);
    if (listing->count)
        xml_element_u64(xml, "NextPartNumberMarker", listing->parts[listing->count - 1].number);
    xml_element_u64(xml, "MaxParts", listing->max);
    if (listing->url) xml_element(xml, "EncodingType", SLICE_LITERAL("url"));
    xml_element_bool(xml, "IsTruncated", listing->truncated);
    for (size_t i = 0; i < listing->count; i++) append_part(xml, &listing->parts[i]);
    xml_close(xml, "ListPartsResult");
}

int s3_list_parts_await(struct s3_request *req) {
    struct part_listing listing = {0};
    struct bucket bucket;
    struct upload *upload = NULL;
    struct text xml _cleanup_text_ = {0};
    int err = parse(req, &listing);
    if (!err) err = uploads_open_await(req, &bucket, &upload);
    if (err) return err;
    err = upload_list_parts_await(request_store(req), upload, listing.after, listing.max,
                                  &listing.parts, &listing.count, &listing.truncated);
    if (!err) build(req, upload_info(upload), &listing, &xml);
    free(listing.parts);
    upload_close(&upload);
    return err ? err : respond_xml_await(req, &xml);
}
