/* Reading S3's XML answers. */
#ifndef PENSTOCK_CLIENT_XML_H
#define PENSTOCK_CLIENT_XML_H

#include <libxml/tree.h>

#include "base/slice.h"
#include "penstock.h"

/* NULL when the text is not XML. Free with xmlFreeDoc. */
xmlDoc *xml_parse(struct slice text);
xmlNode *xml_first(const xmlNode *parent, const char *name);
xmlNode *xml_next(const xmlNode *node, const char *name);
/* The text of parent's first child of that name, "" when there is none; the caller frees it. */
char *xml_text(const xmlNode *parent, const char *name);

/* <Error>: fills code and message; leaves them empty when the text is none. */
void xml_read_error(struct slice text, ps_result *result);

#endif
