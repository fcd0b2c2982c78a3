/* Range, If-Range and partNumber: which bytes of an object a read is about. */
#ifndef PENSTOCK_S3_RANGE_H
#define PENSTOCK_S3_RANGE_H

#include "s3/headers.h"

enum range_result {
    RANGE_WHOLE,   /* no range, several, or nothing that RFC 9110 calls a byte range */
    RANGE_PART,    /* *offset and *size are set; size > 0 */
    RANGE_OUTSIDE, /* 416 */
};
enum range_result range_parse(struct slice text, uint64_t object_size, uint64_t *offset,
                              uint64_t *size);
/* For a request: ERR_INVALID_RANGE (with what a 416 must say already noted), ERR_INVALID_REQUEST,
 * ERR_INVALID_ARGUMENT. */
int range_select(struct s3_request *req, const struct object *object, struct read_range *range);

#endif
