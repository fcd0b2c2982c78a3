/* Which operation is this? */
#ifndef PENSTOCK_S3_ROUTE_H
#define PENSTOCK_S3_ROUTE_H

#include "s3/request.h"

struct route {
    const char *operation; /* S3's name for it */
    s3_operation_fn *run;
};
/* NULL with *err ERR_METHOD_NOT_ALLOWED or ERR_NOT_IMPLEMENTED, for the latter with the
 * sub-resource, when one is the reason. */
const struct route *route_find(enum http_method method, const struct s3_target *target, int *err,
                               const char **sub_resource);

#endif
