/* Multipart uploads: finding one, and the checksum it declares. */
#include "s3/uploads.h"

#include "base/error.h"
#include "s3/integrity.h"

int uploads_open_await(struct s3_request *req, struct bucket *bucket, struct upload **upload) {
    *upload = NULL;
    int err = bucket_get_await(request_store(req), req->target.bucket, bucket);
    if (err) return err;
    return upload_open_await(request_store(req), bucket, req->target.key,
                             request_parameter(req, "uploadId"), upload);
}

const char *uploads_checksum_type(bool composite) {
    return composite ? "COMPOSITE" : "FULL_OBJECT";
}

static int refuse_type(struct s3_request *req, const char *type, const struct checksum_name *name) {
    return request_fail(req, ERR_INVALID_REQUEST,
                        "The %s checksum type cannot be used with the %s checksum algorithm.", type,
                        name->algorithm);
}

/* S3's rules: CRC64NVME is of the full object only, SHA of the parts' only; the 32-bit CRCs may be
 * either, and are of the parts' unless the client says otherwise. */
static int parse_type(struct s3_request *req, const struct checksum_name *name, bool *composite) {
    struct slice type = request_header(req, "x-amz-checksum-type");
    bool full_only = name->kind == DIGEST_CRC64NVME;
    bool composite_only = name->kind == DIGEST_SHA1 || name->kind == DIGEST_SHA256;
    *composite = !full_only;
    if (!type.size) return 0;
    if (slice_equal_nocase(type, SLICE_LITERAL("COMPOSITE")))
        return full_only ? refuse_type(req, "COMPOSITE", name) : 0;
    if (!slice_equal_nocase(type, SLICE_LITERAL("FULL_OBJECT")))
        return request_fail(req, ERR_INVALID_REQUEST,
                            "Value for x-amz-checksum-type header is invalid.");
    *composite = false;
    return composite_only ? refuse_type(req, "FULL_OBJECT", name) : 0;
}

int uploads_parse_checksum(struct s3_request *req, enum digest_kind *kind, bool *composite) {
    struct slice algorithm = request_header(req, "x-amz-checksum-algorithm");
    *kind = 0;
    *composite = false;
    if (!algorithm.size) {
        if (!request_header(req, "x-amz-checksum-type").size) return 0;
        return request_fail(req, ERR_INVALID_REQUEST,
                            "The x-amz-checksum-type header can only be used with the "
                            "x-amz-checksum-algorithm header.");
    }
    const struct checksum_name *name = checksum_by_algorithm(algorithm);
    if (!name)
        return request_fail(req, ERR_NOT_IMPLEMENTED,
                            "The checksum algorithm %.*s is not implemented.", (int)algorithm.size,
                            algorithm.data);
    *kind = name->kind;
    return parse_type(req, name, composite);
}
