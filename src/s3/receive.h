/* The bytes of a PutObject or UploadPart: from the body, or from the memory that the client
 * registered, into a blob that nothing refers to yet. The operation commits or discards it. */
#ifndef PENSTOCK_S3_RECEIVE_H
#define PENSTOCK_S3_RECEIVE_H

#include "s3/integrity.h"
#include "s3/request.h"

struct received {
    struct blob_writer *writer;
    uint64_t size;
    char etag[OBJECT_ETAG_MAX + 1];
    struct object_checksum checksum; /* kind 0: none */
    bool one_sided;
};

/* declared: the algorithm of the upload that a part belongs to, or 0. It is computed where the
 * client did not send it; a part that brings another one is ERR_INVALID_REQUEST. On an error
 * nothing is left to discard. */
int receive_await(struct s3_request *req, enum digest_kind declared, struct received *received);
void received_discard_await(struct received *received);
/* 200 with ETag, checksums and what a one-sided transfer adds; no body. */
int received_respond_await(struct s3_request *req, const struct received *received);

#endif
