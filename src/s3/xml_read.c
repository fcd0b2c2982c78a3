/* libxml2's pull reader behind our narrower contract. An element is held back until it is known
 * whether text or another element follows: that makes it a leaf or an open one. */
#include "s3/xml_read.h"

#include <libxml/xmlreader.h>
#include <stdlib.h>

#include "base/error.h"

struct xml_reader {
    xmlTextReaderPtr libxml;
    bool holds;       /* an element whose nature is not known yet */
    bool holds_empty; /* and it was written <name/> */
    char held[XML_NAME_MAX + 1];
    unsigned held_depth;
    struct text text;
};

static void ignore_error(void *ctx, xmlErrorPtr error) {
    (void)ctx;
    (void)error; /* the caller only needs to know that there was one */
}

int xml_reader_open(struct slice document, struct xml_reader **reader) {
    *reader = NULL;
    /* Cheaper and surer than to let a document type be parsed before it is refused. */
    if (!document.size || document.size > INT32_MAX ||
        memmem(document.data, document.size, "<!DOCTYPE", 9))
        return ERR_MALFORMED_XML;
    struct xml_reader *new = calloc(1, sizeof *new);
    if (!new) return -ENOMEM;
    int options = XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING;
    new->libxml = xmlReaderForMemory(document.data, (int)document.size, NULL, "UTF-8", options);
    if (!new->libxml) {
        free(new);
        return -ENOMEM;
    }
    xmlTextReaderSetStructuredErrorHandler(new->libxml, ignore_error, NULL);
    *reader = new;
    return 0;
}

void xml_reader_close(struct xml_reader **reader) {
    if (!*reader) return;
    xmlFreeTextReader((*reader)->libxml);
    text_deinit(&(*reader)->text);
    free(*reader);
    *reader = NULL;
}

static int set_event(struct xml_event *event, enum xml_event_kind kind, const char *name,
                     unsigned depth) {
    size_t size = strlen(name);
    if (size > XML_NAME_MAX) return ERR_MALFORMED_XML;
    event->kind = kind;
    event->depth = depth;
    memcpy(event->name, name, size + 1);
    event->text = (struct slice){"", 0};
    return 0;
}

static int emit_leaf(struct xml_reader *r, struct xml_event *event) {
    r->holds = r->holds_empty = false;
    if (r->text.failed) return -ENOMEM;
    int err = set_event(event, XML_LEAF, r->held, r->held_depth);
    if (r->text.size) event->text = text_slice(&r->text);
    return err;
}

/* Hold the element that starts here. An element held before it turns out to be an open one:
 * *emitted tells that it went into the event. */
static int hold_element(struct xml_reader *r, struct xml_event *event, bool *emitted) {
    const char *name = (const char *)xmlTextReaderConstLocalName(r->libxml);
    int depth = xmlTextReaderDepth(r->libxml) + 1;
    if (!name || strlen(name) > XML_NAME_MAX || depth < 1 || depth > XML_DEPTH_MAX)
        return ERR_MALFORMED_XML;
    *emitted = r->holds;
    int err = r->holds ? set_event(event, XML_OPEN, r->held, r->held_depth) : 0;
    memcpy(r->held, name, strlen(name) + 1);
    r->held_depth = (unsigned)depth;
    r->holds = true;
    r->holds_empty = xmlTextReaderIsEmptyElement(r->libxml) == 1;
    text_clear(&r->text);
    return err;
}

static int take_text(struct xml_reader *r) {
    const char *value = (const char *)xmlTextReaderConstValue(r->libxml);
    if (!value) return 0;
    if (r->holds) {
        text_append_string(&r->text, value);
        return 0;
    }
    /* Between elements there may be white space only. */
    return value[strspn(value, " \t\r\n")] ? ERR_MALFORMED_XML : 0;
}

int xml_next(struct xml_reader *r, struct xml_event *event) {
    if (r->holds_empty) return emit_leaf(r, event);
    for (;;) {
        int more = xmlTextReaderRead(r->libxml);
        if (more < 0) return ERR_MALFORMED_XML;
        if (more == 0) return set_event(event, XML_END, "", 0);
        int err = 0;
        bool emitted = false;
        switch (xmlTextReaderNodeType(r->libxml)) {
        case XML_READER_TYPE_ELEMENT:
            err = hold_element(r, event, &emitted);
            if (err || emitted) return err;
            if (r->holds_empty) return emit_leaf(r, event);
            break;
        case XML_READER_TYPE_END_ELEMENT:
            if (r->holds) return emit_leaf(r, event);
            return set_event(event, XML_CLOSE, (const char *)xmlTextReaderConstLocalName(r->libxml),
                             (unsigned)xmlTextReaderDepth(r->libxml) + 1);
        case XML_READER_TYPE_TEXT:
        case XML_READER_TYPE_CDATA:
        case XML_READER_TYPE_WHITESPACE:
        case XML_READER_TYPE_SIGNIFICANT_WHITESPACE:
            err = take_text(r);
            if (err) return err;
            break;
        case XML_READER_TYPE_COMMENT:
        case XML_READER_TYPE_PROCESSING_INSTRUCTION:
        case XML_READER_TYPE_XML_DECLARATION: break;
        default: /* a document type, an entity reference: nothing that S3 knows */
            return ERR_MALFORMED_XML;
        }
    }
}
