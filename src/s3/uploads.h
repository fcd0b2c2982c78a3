/* What the operations on one multipart upload share. */
#ifndef PENSTOCK_S3_UPLOADS_H
#define PENSTOCK_S3_UPLOADS_H

#include "s3/request.h"

/* The upload that ?uploadId names, and its bucket. The caller closes it. */
int uploads_open_await(struct s3_request *req, struct bucket *bucket, struct upload **upload);
/* x-amz-checksum-algorithm and -type, as requests declare them: kind 0 for none.
 * ERR_INVALID_REQUEST, ERR_NOT_IMPLEMENTED. */
int uploads_parse_checksum(struct s3_request *req, enum digest_kind *kind, bool *composite);
const char *uploads_checksum_type(bool composite);

#endif
