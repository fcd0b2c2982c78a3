/* What GET and HEAD have in common: everything up to the first byte. */
#ifndef PENSTOCK_S3_OBJECT_READ_H
#define PENSTOCK_S3_OBJECT_READ_H

#include "s3/headers.h"

/* Look up the object and what of it is asked for. When the answer was a 304, it has been given, and
 * *object is NULL. Otherwise the caller closes *object. */
int object_read_open_await(struct s3_request *req, struct object **object,
                           struct read_range *range);

#endif
