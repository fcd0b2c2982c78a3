/* THE table from error codes to HTTP status and S3 code, and the XML of an error answer. */
#include "s3/errors.h"

#include "base/error.h"
#include "base/log.h"
#include "s3/xml_write.h"

static const struct s3_error table[] = {
    {ERR_ACCESS_DENIED, 403, "AccessDenied"},
    {ERR_AUTH_HEADER_MALFORMED, 400, "AuthorizationHeaderMalformed"},
    {ERR_AUTH_QUERY_MALFORMED, 400, "AuthorizationQueryParametersError"},
    {ERR_BAD_DIGEST, 400, "BadDigest"},
    {ERR_BUCKET_ALREADY_EXISTS, 409, "BucketAlreadyExists"},
    {ERR_BUCKET_ALREADY_OWNED, 409, "BucketAlreadyOwnedByYou"},
    {ERR_BUCKET_NOT_EMPTY, 409, "BucketNotEmpty"},
    {ERR_CONFLICT, 409, "OperationAborted"},
    {ERR_CONTENT_SHA256_MISMATCH, 400, "XAmzContentSHA256Mismatch"},
    {ERR_ENTITY_TOO_LARGE, 400, "EntityTooLarge"},
    {ERR_ENTITY_TOO_SMALL, 400, "EntityTooSmall"},
    /* A presigned URL past its time; S3 uses ExpiredToken for session tokens only. */
    {ERR_EXPIRED_TOKEN, 403, "AccessDenied"},
    {ERR_INCOMPLETE_BODY, 400, "IncompleteBody"},
    {ERR_INVALID_ACCESS_KEY, 403, "InvalidAccessKeyId"},
    {ERR_INVALID_ARGUMENT, 400, "InvalidArgument"},
    {ERR_INVALID_BUCKET_NAME, 400, "InvalidBucketName"},
    {ERR_INVALID_DIGEST, 400, "InvalidDigest"},
    {ERR_INVALID_LOCATION, 400, "IllegalLocationConstraintException"},
    {ERR_INVALID_PART, 400, "InvalidPart"},
    {ERR_INVALID_PART_ORDER, 400, "InvalidPartOrder"},
    {ERR_INVALID_RANGE, 416, "InvalidRange"},
    {ERR_INVALID_RDMA_TOKEN, 400, "InvalidRDMAToken"},
    {ERR_INVALID_REQUEST, 400, "InvalidRequest"},
    {ERR_INVALID_URI, 400, "InvalidURI"},
    {ERR_KEY_TOO_LONG, 400, "KeyTooLongError"},
    {ERR_MALFORMED_XML, 400, "MalformedXML"},
    {ERR_METADATA_TOO_LARGE, 400, "MetadataTooLarge"},
    {ERR_METHOD_NOT_ALLOWED, 405, "MethodNotAllowed"},
    {ERR_MISSING_CONTENT_LENGTH, 411, "MissingContentLength"},
    {ERR_MISSING_SECURITY_HEADER, 400, "MissingSecurityHeader"},
    {ERR_NOT_FOUND, 404, "NotFound"},
    {ERR_NOT_IMPLEMENTED, 501, "NotImplemented"},
    {ERR_NOT_MODIFIED, 304, "NotModified"},
    {ERR_NO_SUCH_BUCKET, 404, "NoSuchBucket"},
    {ERR_NO_SUCH_KEY, 404, "NoSuchKey"},
    {ERR_NO_SUCH_UPLOAD, 404, "NoSuchUpload"},
    {ERR_PRECONDITION_FAILED, 412, "PreconditionFailed"},
    {ERR_RDMA_NOT_SUPPORTED, 501, "RDMANotSupported"},
    {ERR_RDMA_TRANSFER_FAILED, 500, "RDMATransferFailed"},
    {ERR_REQUEST_TIME_SKEWED, 403, "RequestTimeTooSkewed"},
    {ERR_REQUEST_TIMEOUT, 400, "RequestTimeout"},
    {ERR_SIGNATURE_MISMATCH, 403, "SignatureDoesNotMatch"},
    {ERR_SLOW_DOWN, 503, "SlowDown"},
    /* S3 never fills up, so it has no code for this; the status is WebDAV's. Clients do not retry
     * an unknown code under 507, and people can read it. */
    {ERR_STORAGE_FULL, 507, "InsufficientCapacity"},
    {ERR_TOO_MANY_PARTS, 400, "InvalidArgument"},
    {-ENOSPC, 507, "InsufficientCapacity"},
    {-EDQUOT, 507, "InsufficientCapacity"},
    {-ENOMEM, 503, "SlowDown"},
    {-EAGAIN, 503, "SlowDown"},
    {-ETIME, 503, "SlowDown"},
    {-ECANCELED, 503, "ServiceUnavailable"},
};

const struct s3_error *errors_find(int err) {
    static const struct s3_error internal = {ERR_INTERNAL, 500, "InternalError"};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (table[i].err == err) return &table[i];
    return &internal;
}

/* What went wrong inside is for the log: a client is told that it was not his doing. */
static const char *sentence(int err, const struct s3_error *known) {
    if (err == -ENOSPC || err == -EDQUOT) return error_text(ERR_STORAGE_FULL);
    if (known->status == 503) return error_text(ERR_SLOW_DOWN);
    return error_text(known->err);
}

void errors_append_code(struct text *xml, int err) {
    const struct s3_error *known = errors_find(err);
    xml_element(xml, "Code", slice_of(known->code));
    xml_element(xml, "Message", slice_of(sentence(err, known)));
}

/* The names that S3 repeats in the errors about them. */
static void append_subject(struct s3_request *req, struct text *xml, int err) {
    switch (err) {
    case ERR_NO_SUCH_KEY: xml_element(xml, "Key", req->target.key); break;
    case ERR_NO_SUCH_UPLOAD:
        xml_element(xml, "UploadId", request_parameter(req, "uploadId"));
        break;
    case ERR_NO_SUCH_BUCKET:
    case ERR_BUCKET_NOT_EMPTY:
    case ERR_BUCKET_ALREADY_EXISTS:
    case ERR_BUCKET_ALREADY_OWNED:
    case ERR_INVALID_BUCKET_NAME: xml_element(xml, "BucketName", req->target.bucket); break;
    default: break;
    }
}

static void build_document(struct s3_request *req, const struct s3_error *known, int err,
                           struct text *xml) {
    xml_begin(xml);
    xml_open(xml, "Error");
    xml_element(xml, "Code", slice_of(known->code));
    xml_element(xml, "Message", slice_of(req->message ? req->message : sentence(err, known)));
    append_subject(req, xml, err);
    for (unsigned i = 0; i < req->extra_count; i++)
        xml_element(xml, req->extras[i].name, req->extras[i].value);
    xml_element(xml, "Resource", req->target.path);
    xml_element(xml, "RequestId", slice_of(req->id));
    xml_element(xml, "HostId", slice_of(req->service->host_id));
    xml_close(xml, "Error");
}

/* Some errors are read by programs, from headers. */
static void respond_hints(struct s3_request *req, int err) {
    if (err == ERR_RDMA_NOT_SUPPORTED)
        http_respond_header_slice(req->x, "x-amz-rdma-reply", SLICE_LITERAL("501"));
    for (unsigned i = 0; err == ERR_INVALID_RANGE && i < req->extra_count; i++)
        if (!strcmp(req->extras[i].name, "ActualObjectSize"))
            http_respond_header(req->x, "Content-Range", "bytes */%.*s",
                                (int)req->extras[i].value.size, req->extras[i].value.data);
}

static bool client_gone(int err) {
    return err == -ECANCELED || err == -EPIPE || err == -ECONNRESET;
}

void errors_respond_await(struct s3_request *req, int err) {
    const struct s3_error *known = errors_find(err);
    req->code = known->code;
    if (known->status == 500) log_error("%s: %s: %s", req->id, error_name(err), error_text(err));
    /* Half an answer cannot be taken back and must not be filled up: the client sees it is short.
     */
    if (http_response_started(req->x) || client_gone(err)) {
        http_close_after(req->x);
        return;
    }
    struct text xml _cleanup_text_ = {0};
    build_document(req, known, err, &xml);
    respond_begin(req, known->status);
    respond_hints(req, err);
    http_respond_header_slice(req->x, "Content-Type", SLICE_LITERAL("application/xml"));
    int failed = http_respond_body_await(req->x, xml.data, xml.failed ? 0 : xml.size);
    if (failed) http_close_after(req->x);
}
