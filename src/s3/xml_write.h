/* Writing S3's XML: elements and text, nothing else. */
#ifndef PENSTOCK_S3_XML_WRITE_H
#define PENSTOCK_S3_XML_WRITE_H

#include "base/text.h"

void xml_begin(struct text *xml);                       /* <?xml ...?> */
void xml_open_root(struct text *xml, const char *name); /* with S3's namespace */
void xml_open(struct text *xml, const char *name);
void xml_close(struct text *xml, const char *name);
void xml_element(struct text *xml, const char *name, struct slice value);
void xml_element_u64(struct text *xml, const char *name, uint64_t value);
void xml_element_bool(struct text *xml, const char *name, bool value);
void xml_element_time(struct text *xml, const char *name, int64_t wall_ms);
void xml_element_etag(struct text *xml, struct slice etag); /* ETag, in its quotes */
/* A key or prefix: percent-encoded when the client asked for encoding-type=url, which is the only
 * way that every key survives XML. */
void xml_element_key(struct text *xml, const char *name, struct slice key, bool url);
void xml_owner(struct text *xml, const char *element); /* Owner or Initiator */

#endif
