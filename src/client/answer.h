/* Reading S3's XML answers. */
#ifndef PENSTOCK_CLIENT_ANSWER_H
#define PENSTOCK_CLIENT_ANSWER_H

#include <libxml/tree.h>

#include "base/slice.h"
#include "penstock.h"

/* NULL when the text is not XML. Free with xmlFreeDoc. */
xmlDoc *answer_parse(struct slice text);
xmlNode *answer_first(const xmlNode *parent, const char *name);
xmlNode *answer_next(const xmlNode *node, const char *name);
/* The text of parent's first child of that name, "" when there is none; the caller frees it. */
char *answer_text(const xmlNode *parent, const char *name);

/* <Error>: fills code and message; leaves them empty when the text is none. */
void answer_read_error(struct slice text, ps_result *result);

#endif
