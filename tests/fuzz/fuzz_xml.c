/* Any bytes as an XML body: every event must fit those before it, whatever the document. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "s3/xml_read.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct nesting {
    char names[XML_DEPTH_MAX + 1][XML_NAME_MAX + 1];
    unsigned depth;
};

static void check_event(struct nesting *nesting, const struct xml_event *event) {
    assert(strlen(event->name) <= XML_NAME_MAX);
    switch (event->kind) {
    case XML_OPEN:
        assert(event->depth == nesting->depth + 1 && event->depth < XML_DEPTH_MAX);
        nesting->depth = event->depth;
        strcpy(nesting->names[event->depth], event->name);
        break;
    case XML_LEAF:
        assert(event->depth == nesting->depth + 1 && event->depth <= XML_DEPTH_MAX);
        assert(event->text.data);
        break;
    case XML_CLOSE:
        assert(event->depth == nesting->depth && nesting->depth > 0);
        assert(!strcmp(nesting->names[event->depth], event->name));
        nesting->depth--;
        break;
    case XML_END: assert(nesting->depth == 0); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* An exact copy on the heap, so that ASan sees a read beyond its end. */
    char *copy = malloc(size ? size : 1);
    assert(copy);
    memcpy(copy, data, size);
    struct xml_reader *reader = NULL;
    struct xml_event event = {0};
    struct nesting nesting = {0};
    int err = xml_reader_open((struct slice){copy, size}, &reader);
    while (!err && !(err = xml_next(reader, &event))) {
        check_event(&nesting, &event);
        if (event.kind == XML_END) break;
    }
    assert(!err || err == ERR_MALFORMED_XML);
    xml_reader_close(&reader);
    free(copy);
    return 0;
}
