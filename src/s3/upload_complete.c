/* CompleteMultipartUpload: the list of parts is read, and object/ makes the object of them. */
#include <stdlib.h>

#include "base/error.h"
#include "s3/body.h"
#include "s3/integrity.h"
#include "s3/operations.h"
#include "s3/preconditions.h"
#include "s3/uploads.h"
#include "s3/xml_read.h"
#include "s3/xml_write.h"

struct part_list {
    struct part_info *parts;
    size_t count, capacity;
};

static int add_part(struct part_list *list) {
    if (list->count == OBJECT_PARTS_MAX) return ERR_MALFORMED_XML;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        struct part_info *grown = realloc(list->parts, capacity * sizeof *grown);
        if (!grown) return -ENOMEM;
        list->parts = grown;
        list->capacity = capacity;
    }
    memset(&list->parts[list->count++], 0, sizeof list->parts[0]);
    return 0;
}

static int set_etag(struct part_info *part, struct slice etag) {
    if (etag.size >= 2 && etag.data[0] == '"' && etag.data[etag.size - 1] == '"')
        etag = (struct slice){etag.data + 1, etag.size - 2};
    if (!etag.size || etag.size > OBJECT_ETAG_MAX) return ERR_INVALID_PART;
    memcpy(part->etag, etag.data, etag.size);
    part->etag[etag.size] = 0;
    return 0;
}

static int set_number(struct part_info *part, struct slice text) {
    unsigned long long number;
    if (!slice_to_u64(slice_trim(text), &number)) return ERR_MALFORMED_XML;
    if (number < 1 || number > OBJECT_PARTS_MAX) return ERR_INVALID_PART;
    part->number = (unsigned)number;
    return 0;
}

/* A field of the part that is open. What is not known here can be ignored: it names no bytes. */
static int set_field(struct part_info *part, const struct xml_event *event) {
    struct slice name = slice_of(event->name);
    if (slice_is(name, "PartNumber")) return set_number(part, event->text);
    if (slice_is(name, "ETag")) return set_etag(part, event->text);
    const struct checksum_name *checksum = checksum_by_element(event->name);
    if (checksum && event->text.size) return checksum_parse(checksum, event->text, &part->checksum);
    return 0;
}

static int take_event(struct part_list *list, const struct xml_event *event) {
    if (event->depth == 1)
        return slice_is(slice_of(event->name), "CompleteMultipartUpload") ? 0 : ERR_MALFORMED_XML;
    if (xml_is_open(event, 2, "Part")) return add_part(list);
    if (xml_is_close(event, 2, "Part")) {
        const struct part_info *part = &list->parts[list->count - 1];
        return part->number && part->etag[0] ? 0 : ERR_MALFORMED_XML;
    }
    if (event->kind == XML_LEAF && event->depth == 3 && list->count)
        return set_field(&list->parts[list->count - 1], event);
    return ERR_MALFORMED_XML;
}

static int parse_parts(struct slice document, struct part_list *list) {
    struct xml_reader *reader = NULL;
    struct xml_event event = {0};
    int err = xml_reader_open(document, &reader);
    while (!err && !(err = xml_next(reader, &event)) && event.kind != XML_END)
        err = take_event(list, &event);
    xml_reader_close(&reader);
    if (!err && !list->count) err = ERR_MALFORMED_XML;
    return err;
}

static int read_parts_await(struct s3_request *req, struct part_list *list) {
    char *document = NULL;
    size_t size = 0;
    struct integrity integrity;
    int err = integrity_parse_digests(req, &integrity);
    if (!err)
        err = payload_read_document_await(req, &integrity, S3_LONG_DOCUMENT_MAX, &document, &size);
    if (!err) err = parse_parts((struct slice){document, size}, list);
    free(document);
    return err;
}

/* Which object checksum does the client expect? Here the header speaks of the object to be made,
 * not of the request's body, which is why read_parts_await() parsed the body's digests only. */
static int parse_expected(struct s3_request *req, struct object_checksum *expected) {
    const struct http_request *http = &req->x->request;
    memset(expected, 0, sizeof *expected);
    for (unsigned i = 0; i < http->header_count; i++) {
        const struct checksum_name *name = checksum_by_header(http->headers[i].name);
        if (!name) continue;
        if (expected->kind)
            return request_fail(req, ERR_INVALID_REQUEST,
                                "Expecting a single x-amz-checksum- header.");
        if (checksum_parse(name, http->headers[i].value, expected))
            return request_fail(req, ERR_INVALID_REQUEST, "Value for %s header is invalid.",
                                name->header);
    }
    return 0;
}

/* The upload declared its checksum when it was created; a client that names another type now has
 * something else in mind. */
static int check_declared(struct s3_request *req, const struct upload_info *upload) {
    struct slice type = request_header(req, "x-amz-checksum-type");
    if (!type.size || !upload->checksum_kind) return 0;
    const char *declared = uploads_checksum_type(upload->checksum_composite);
    if (slice_equal_nocase(type, slice_of(declared))) return 0;
    return request_fail(req, ERR_INVALID_REQUEST,
                        "The upload was created using the %s checksum mode. The complete request "
                        "must use the same checksum mode.",
                        declared);
}

static void append_location(struct s3_request *req, struct text *xml) {
    struct slice host = request_header(req, "host");
    xml_open(xml, "Location");
    text_append_string(xml, "http://");
    text_append_xml(xml, host);
    text_append_xml(xml, req->target.path);
    xml_close(xml, "Location");
}

static int respond_await(struct s3_request *req, const char *etag,
                         const struct object_checksum *checksum, size_t part_count) {
    struct text xml _cleanup_text_ = {0};
    xml_begin(&xml);
    xml_open_root(&xml, "CompleteMultipartUploadResult");
    append_location(req, &xml);
    xml_element(&xml, "Bucket", req->target.bucket);
    xml_element(&xml, "Key", req->target.key);
    xml_element_etag(&xml, slice_of(etag));
    const struct checksum_name *name = checksum_by_kind(checksum->kind);
    if (name) {
        char text[CHECKSUM_TEXT_SIZE];
        checksum_format(checksum, (unsigned)part_count, text);
        xml_element(&xml, name->element, slice_of(text));
        xml_element(&xml, "ChecksumType", slice_of(uploads_checksum_type(checksum->composite)));
    }
    xml_close(&xml, "CompleteMultipartUploadResult");
    return respond_xml_await(req, &xml);
}

static int complete_open_await(struct s3_request *req, const struct bucket *bucket,
                               struct upload *upload, const struct part_list *list,
                               char etag[OBJECT_ETAG_MAX + 1], struct object_checksum *checksum) {
    struct object_checksum expected;
    struct write_precondition precondition;
    int err = preconditions_write(req, &precondition);
    if (!err) err = parse_expected(req, &expected);
    if (!err) err = check_declared(req, upload_info(upload));
    if (err) return err;
    return upload_complete_await(request_store(req), bucket, upload, list->parts, list->count,
                                 &precondition.condition, &expected, etag, checksum);
}

static int complete_await(struct s3_request *req, const struct part_list *list,
                          char etag[OBJECT_ETAG_MAX + 1], struct object_checksum *checksum) {
    struct bucket bucket;
    struct upload *upload = NULL;
    int err = uploads_open_await(req, &bucket, &upload);
    /* A client that did not hear the answer asks again: the object that its upload became is the
     * answer still. */
    if (err == ERR_NO_SUCH_UPLOAD)
        return upload_completed_await(request_store(req), &bucket, req->target.key,
                                      request_parameter(req, "uploadId"), etag, checksum);
    if (!err) err = complete_open_await(req, &bucket, upload, list, etag, checksum);
    upload_close(&upload);
    return err;
}

int s3_upload_complete_await(struct s3_request *req) {
    struct part_list list = {0};
    char etag[OBJECT_ETAG_MAX + 1] = "";
    struct object_checksum checksum = {0};
    int err = read_parts_await(req, &list);
    if (!err) err = complete_await(req, &list, etag, &checksum);
    free(list.parts);
    return err ? err : respond_await(req, etag, &checksum, list.count);
}
