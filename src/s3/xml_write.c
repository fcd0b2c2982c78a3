/* Writing S3's XML into a growable text. */
#include "s3/xml_write.h"

#include "base/clock.h"
#include "s3/request.h"

void xml_begin(struct text *xml) {
    text_append_string(xml, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
}

void xml_open_root(struct text *xml, const char *name) {
    text_append_string(xml, "<");
    text_append_string(xml, name);
    text_append_string(xml, " xmlns=\"" S3_NAMESPACE "\">");
}

void xml_open(struct text *xml, const char *name) {
    text_append_string(xml, "<");
    text_append_string(xml, name);
    text_append_string(xml, ">");
}

void xml_close(struct text *xml, const char *name) {
    text_append_string(xml, "</");
    text_append_string(xml, name);
    text_append_string(xml, ">");
}

void xml_element(struct text *xml, const char *name, struct slice value) {
    xml_open(xml, name);
    text_append_xml(xml, value);
    xml_close(xml, name);
}

void xml_element_u64(struct text *xml, const char *name, uint64_t value) {
    xml_open(xml, name);
    text_append_u64(xml, value);
    xml_close(xml, name);
}

void xml_element_bool(struct text *xml, const char *name, bool value) {
    xml_element(xml, name, slice_of(value ? "true" : "false"));
}

void xml_element_time(struct text *xml, const char *name, int64_t wall_ms) {
    char time[CLOCK_TEXT_SIZE];
    clock_format_iso8601(wall_ms, time);
    xml_element(xml, name, slice_of(time));
}

void xml_element_etag(struct text *xml, struct slice etag) {
    text_append_string(xml, "<ETag>&quot;");
    text_append_xml(xml, etag);
    text_append_string(xml, "&quot;</ETag>");
}

void xml_element_key(struct text *xml, const char *name, struct slice key, bool url) {
    xml_open(xml, name);
    if (url) {
        text_append_uri(xml, key, true);
    } else {
        text_append_xml(xml, key);
    }
    xml_close(xml, name);
}

void xml_owner(struct text *xml, const char *element) {
    xml_open(xml, element);
    xml_element(xml, "ID", SLICE_LITERAL(S3_OWNER_ID));
    xml_element(xml, "DisplayName", SLICE_LITERAL(S3_OWNER_NAME));
    xml_close(xml, element);
}
