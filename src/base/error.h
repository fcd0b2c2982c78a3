/* One error type for the whole of Penstock.
 *
 * A function that can fail returns int: 0, or a negative code. System failures keep their errno
 * (-EIO, -ENOSPC, -ETIME for a deadline, -ECANCELED for a client that went away); everything that
 * S3 or the store gives a name to has a code below. Functions never print: error_text() says what
 * a code means, s3/ turns it into a status and an S3 code at the edge. */
#ifndef PENSTOCK_BASE_ERROR_H
#define PENSTOCK_BASE_ERROR_H

#include <errno.h>

/* name, sentence for a person. The S3 code and HTTP status stand in s3/errors.c. */
#define ERROR_TABLE(X)                                                                             \
    X(ERR_ACCESS_DENIED, "Access Denied")                                                          \
    X(ERR_AUTH_HEADER_MALFORMED, "The authorization header that you provided is not valid.")       \
    X(ERR_AUTH_QUERY_MALFORMED, "The query-string authentication parameters are not valid.")       \
    X(ERR_BAD_DIGEST, "The Content-MD5 or checksum value that you specified did not match what "   \
                      "the server received.")                                                      \
    X(ERR_BUCKET_ALREADY_EXISTS, "The requested bucket name is not available.")                    \
    X(ERR_BUCKET_ALREADY_OWNED, "Your previous request to create the named bucket succeeded and "  \
                                "you already own it.")                                             \
    X(ERR_BUCKET_NOT_EMPTY, "The bucket that you tried to delete is not empty.")                   \
    X(ERR_CHECKSUM_MISMATCH_ON_DISK, "Stored bytes do not match their checksum.")                  \
    X(ERR_CONFLICT, "A conflicting operation changed the same key; try again.")                    \
    X(ERR_CONTENT_SHA256_MISMATCH, "The provided 'x-amz-content-sha256' header does not match "    \
                                   "what was computed.")                                           \
    X(ERR_ENTITY_TOO_LARGE, "Your proposed upload exceeds the maximum allowed object size.")       \
    X(ERR_ENTITY_TOO_SMALL, "Your proposed upload is smaller than the minimum allowed object "     \
                            "size.")                                                               \
    X(ERR_EXPIRED_TOKEN, "Request has expired")                                                    \
    X(ERR_INCOMPLETE_BODY, "You did not provide the number of bytes specified by the "             \
                           "Content-Length HTTP header.")                                          \
    X(ERR_INTERNAL, "We encountered an internal error. Please try again.")                         \
    X(ERR_INVALID_ACCESS_KEY, "The AWS access key ID that you provided does not exist in our "     \
                              "records.")                                                          \
    X(ERR_INVALID_ARGUMENT, "Invalid Argument")                                                    \
    X(ERR_INVALID_BUCKET_NAME, "The specified bucket is not valid.")                               \
    X(ERR_INVALID_DIGEST, "The Content-MD5 or checksum value that you specified is not valid.")    \
    X(ERR_INVALID_LOCATION, "The specified location constraint is not valid.")                     \
    X(ERR_INVALID_PART, "One or more of the specified parts could not be found.")                  \
    X(ERR_INVALID_PART_ORDER, "The list of parts was not in ascending order.")                     \
    X(ERR_INVALID_RANGE, "The requested range is not satisfiable")                                 \
    X(ERR_INVALID_RDMA_TOKEN, "The x-amz-rdma-token is not valid.")                                \
    X(ERR_INVALID_REQUEST, "Invalid Request")                                                      \
    X(ERR_INVALID_URI, "Couldn't parse the specified URI.")                                        \
    X(ERR_KEY_TOO_LONG, "Your key is too long.")                                                   \
    X(ERR_MALFORMED_XML, "The XML that you provided was not well formed or did not validate "      \
                         "against our published schema.")                                          \
    X(ERR_METADATA_TOO_LARGE, "Your metadata headers exceed the maximum allowed metadata size.")   \
    X(ERR_METHOD_NOT_ALLOWED, "The specified method is not allowed against this resource.")        \
    X(ERR_MISSING_CONTENT_LENGTH, "You must provide the Content-Length HTTP header.")              \
    X(ERR_MISSING_SECURITY_HEADER, "Your request is missing a required header.")                   \
    X(ERR_NOT_FOUND, "Not found.")                                                                 \
    X(ERR_NOT_IMPLEMENTED, "A header or operation that you provided implies functionality that "   \
                           "is not implemented.")                                                  \
    X(ERR_NOT_MODIFIED, "Not Modified")                                                            \
    X(ERR_NO_SUCH_BUCKET, "The specified bucket does not exist")                                   \
    X(ERR_NO_SUCH_KEY, "The specified key does not exist.")                                        \
    X(ERR_NO_SUCH_UPLOAD, "The specified multipart upload does not exist. The upload ID might be " \
                          "invalid, or the upload might have been aborted or completed.")          \
    X(ERR_PRECONDITION_FAILED, "At least one of the preconditions you specified did not hold.")    \
    X(ERR_RDMA_NOT_SUPPORTED, "One-sided transfer to the given memory is not supported here.")     \
    X(ERR_RDMA_TRANSFER_FAILED, "The one-sided transfer failed.")                                  \
    X(ERR_REQUEST_TIME_SKEWED, "The difference between the request time and the server's time is " \
                               "too large.")                                                       \
    X(ERR_REQUEST_TIMEOUT, "Your socket connection to the server was not read from or written to " \
                           "within the timeout period.")                                           \
    X(ERR_SIGNATURE_MISMATCH, "The request signature that the server calculated does not match "   \
                              "the signature that you provided. Check your key and signing "       \
                              "method.")                                                           \
    X(ERR_SLOW_DOWN, "Please reduce your request rate.")                                           \
    X(ERR_STORAGE_FULL, "The store has no space left for this object; nothing was stored.")        \
    X(ERR_STORE_CORRUPT, "The store on disk is damaged; run 'penstock fsck'.")                     \
    X(ERR_TOO_MANY_PARTS, "Part number must be an integer between 1 and 10000.")                   \
    X(ERR_UNSUPPORTED_FORMAT, "The store was written by a newer version of Penstock.")

enum error_code {
    ERR_BASE = -5000, /* clear of every errno, so that -EIO and these share one int */
#define ERROR_ENUM(name, text) name,
    ERROR_TABLE(ERROR_ENUM)
#undef ERROR_ENUM
        ERR_END
};

/* The sentence for a code: ours, or strerror() for an errno. Never NULL. */
const char *error_text(int err);

/* The symbolic name of one of our codes ("ERR_NO_SUCH_KEY") or "errno N" in a static
 * thread-local buffer; for logs. */
const char *error_name(int err);

#endif
