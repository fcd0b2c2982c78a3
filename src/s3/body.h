/* The payload of a request: its bytes without framing, whichever way they were framed. */
#ifndef PENSTOCK_S3_BODY_H
#define PENSTOCK_S3_BODY_H

#include "s3/integrity.h"
#include "s3/request.h"

struct payload {
    struct s3_request *req;
    uint64_t size;  /* bytes to come in all, or BLOB_SIZE_UNKNOWN */
    uint64_t limit; /* more than this is ERR_ENTITY_TOO_LARGE */
    uint64_t received;
    bool framed; /* aws-chunked */
    struct aws_chunked framing;
};

/* From the headers, before anything is read: ERR_MISSING_CONTENT_LENGTH, ERR_ENTITY_TOO_LARGE,
 * ERR_INVALID_ARGUMENT. */
int payload_open(struct s3_request *req, uint64_t limit, struct payload *payload);
/* Receive into data: `size` bytes, fewer only at the end of the payload, 0 after it. The end has
 * been checked: size, framing, chunk signatures. */
ssize_t payload_read_await(struct payload *payload, void *data, size_t size);
/* The checksum trailer, when the framing brought one; both "" otherwise. */
const char *payload_trailer_name(const struct payload *payload);
const char *payload_trailer_value(const struct payload *payload);

/* A whole body of at most `limit` bytes (an XML document), verified against everything the client
 * said about it in integrity, which the caller parsed. The caller free()s *data; it is NULL for an
 * empty body. */
int payload_read_document_await(struct s3_request *req, struct integrity *integrity, size_t limit,
                                char **data, size_t *size);

#endif
