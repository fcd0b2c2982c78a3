/* Reading the XML that clients send: elements and their text, one event after the other.
 *
 * No DTD, no entities beyond XML's own five and character references, no network, no attributes,
 * eight levels. A document with any of what is refused is ERR_MALFORMED_XML. */
#ifndef PENSTOCK_S3_XML_READ_H
#define PENSTOCK_S3_XML_READ_H

#include "base/text.h"

#define XML_DEPTH_MAX 8
#define XML_NAME_MAX  63

enum xml_event_kind {
    XML_OPEN,  /* an element that holds others */
    XML_LEAF,  /* an element that holds text, perhaps none */
    XML_CLOSE, /* of an XML_OPEN */
    XML_END,   /* of the document, which was well formed */
};

struct xml_event {
    enum xml_event_kind kind;
    unsigned depth;              /* 1 for the root */
    char name[XML_NAME_MAX + 1]; /* without namespace prefix */
    struct slice text;           /* of a leaf: valid until the next event */
};

struct xml_reader;
/* document must stay valid while the reader is open. Not closed on errors of xml_next. */
int xml_reader_open(struct slice document, struct xml_reader **reader);
int xml_next(struct xml_reader *reader, struct xml_event *event);
void xml_reader_close(struct xml_reader **reader); /* nulls; NULL is fine */

static inline bool xml_is_leaf(const struct xml_event *event, unsigned depth, const char *name) {
    return event->kind == XML_LEAF && event->depth == depth &&
           slice_is(slice_of(event->name), name);
}
static inline bool xml_is_open(const struct xml_event *event, unsigned depth, const char *name) {
    return event->kind == XML_OPEN && event->depth == depth &&
           slice_is(slice_of(event->name), name);
}
static inline bool xml_is_close(const struct xml_event *event, unsigned depth, const char *name) {
    return event->kind == XML_CLOSE && event->depth == depth &&
           slice_is(slice_of(event->name), name);
}

#endif
