/* The headers that live with an object: taken from the request that makes it, given back by every
 * read of it. */
#ifndef PENSTOCK_S3_HEADERS_H
#define PENSTOCK_S3_HEADERS_H

#include "s3/request.h"

/* What a PUT or a new upload stores. Slices point into the request, or into this struct. */
struct stored_headers {
    struct object_header list[HTTP_HEADERS_MAX];
    unsigned count;
    char content_encoding[256]; /* without aws-chunked, which describes the transport */
};

/* Refuses what asks for something that would silently not happen (encryption, locks, tags, copies):
 * ERR_NOT_IMPLEMENTED with the header's name. */
int headers_refuse_unsupported(struct s3_request *req);
/* ERR_METADATA_TOO_LARGE over S3_METADATA_MAX. */
int headers_collect(struct s3_request *req, struct stored_headers *headers);

/* The part of an object that an answer is about. */
struct read_range {
    uint64_t offset, size;
    bool partial;  /* 206 with Content-Range */
    unsigned part; /* partNumber, or 0 */
};

/* Status 200 or 206 and everything that describes the object, but no Content-Length: GET, HEAD and
 * the one-sided GET share it. Overrides (response-content-type=...) must have been checked. */
void headers_describe(struct s3_request *req, const struct object_info *info,
                      const struct read_range *range);
/* Last-Modified, ETag: what also a 304 carries. */
void headers_describe_version(struct s3_request *req, const struct object_info *info);
/* ERR_INVALID_ARGUMENT for an override that is no header value. */
int headers_check_overrides(struct s3_request *req);

#endif
