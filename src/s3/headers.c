/* System and user metadata: in from a request, out to every answer that describes an object. */
#include "s3/headers.h"

#include "base/clock.h"
#include "base/error.h"
#include "s3/integrity.h"

#define USER_PREFIX "x-amz-meta-"

static const char *const system_headers[] = {
    "content-type",     "cache-control", "content-disposition",
    "content-language", "expires",       "x-amz-website-redirect-location",
};

/* Response headers that a signed query may replace, by the parameter that does. */
static const struct override {
    const char *parameter, *name;
} overrides[] = {
    {"response-content-type", "content-type"},
    {"response-cache-control", "cache-control"},
    {"response-content-disposition", "content-disposition"},
    {"response-content-encoding", "content-encoding"},
    {"response-content-language", "content-language"},
    {"response-expires", "expires"},
};
#define OVERRIDES (sizeof overrides / sizeof overrides[0])

/* Headers whose meaning is a promise that Penstock cannot keep yet. A name that ends in '-' stands
 * for every name that begins with it; the value, where there is one, is harmless. */
static const struct refused {
    const char *name, *harmless, *harmless_too;
} refused[] = {
    {"x-amz-copy-source", NULL, NULL},
    {"x-amz-server-side-encryption", NULL, NULL},
    {"x-amz-server-side-encryption-", NULL, NULL},
    {"x-amz-object-lock-", NULL, NULL},
    {"x-amz-bucket-object-lock-enabled", "false", NULL},
    {"x-amz-object-ownership", "BucketOwnerEnforced", NULL},
    {"x-amz-tagging", "", NULL},
    {"x-amz-acl", "private", "bucket-owner-full-control"},
    {"x-amz-grant-", NULL, NULL},
    {"x-amz-storage-class", "STANDARD", NULL},
    {"x-amz-write-offset-bytes", NULL, NULL},
    {"x-amz-expected-bucket-owner", NULL, NULL},
    {"x-amz-if-match-", NULL, NULL},
    {"x-amz-mfa", NULL, NULL},
};

static const struct refused *refusal(struct slice name) {
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct slice known = slice_of(refused[i].name);
        bool prefix = known.data[known.size - 1] == '-';
        if (prefix ? slice_starts_with(name, known) : slice_equal(name, known)) return &refused[i];
    }
    return NULL;
}

int headers_refuse_unsupported(struct s3_request *req) {
    const struct http_request *http = &req->x->request;
    for (unsigned i = 0; i < http->header_count; i++) {
        struct slice name = http->headers[i].name, value = http->headers[i].value;
        if (!slice_starts_with(name, SLICE_LITERAL("x-amz-"))) continue;
        const struct refused *found = refusal(name);
        if (!found) continue;
        if (found->harmless && slice_equal_nocase(value, slice_of(found->harmless))) continue;
        if (found->harmless_too && slice_equal_nocase(value, slice_of(found->harmless_too)))
            continue;
        request_add_extra(req, "Header", name);
        return request_fail(req, ERR_NOT_IMPLEMENTED, "The header %.*s: %.*s is not implemented.",
                            (int)name.size, name.data, (int)value.size, value.data);
    }
    return 0;
}

static void keep(struct stored_headers *headers, struct slice name, struct slice value) {
    headers->list[headers->count++] = (struct object_header){name, value};
}

static bool is_system_header(struct slice name) {
    for (size_t i = 0; i < sizeof system_headers / sizeof system_headers[0]; i++)
        if (slice_is(name, system_headers[i])) return true;
    return false;
}

/* Content-Encoding without its aws-chunked: "gzip,aws-chunked" is a gzip object. */
static int keep_content_encoding(struct s3_request *req, struct stored_headers *headers,
                                 struct slice value) {
    size_t size = 0;
    for (size_t start = 0; start <= value.size;) {
        const char *comma = memchr(value.data + start, ',', value.size - start);
        size_t end = comma ? (size_t)(comma - value.data) : value.size;
        struct slice token = slice_trim((struct slice){value.data + start, end - start});
        start = end + 1;
        if (!token.size || slice_equal_nocase(token, SLICE_LITERAL("aws-chunked"))) continue;
        if (size + token.size + 1 > sizeof headers->content_encoding)
            return request_invalid_argument(req, "Content-Encoding", value, "Too long.");
        if (size) headers->content_encoding[size++] = ',';
        memcpy(headers->content_encoding + size, token.data, token.size);
        size += token.size;
    }
    if (size)
        keep(headers, SLICE_LITERAL("content-encoding"),
             (struct slice){headers->content_encoding, size});
    return 0;
}

int headers_collect(struct s3_request *req, struct stored_headers *headers) {
    const struct http_request *http = &req->x->request;
    size_t total_size = 0, user_size = 0;
    headers->count = 0;
    for (unsigned i = 0; i < http->header_count; i++) {
        struct slice name = http->headers[i].name, value = http->headers[i].value;
        bool user = slice_starts_with(name, SLICE_LITERAL(USER_PREFIX));
        if (slice_is(name, "content-encoding")) {
            int err = keep_content_encoding(req, headers, value);
            if (err) return err;
        } else if (user || (value.size && is_system_header(name))) {
            keep(headers, name, value);
        } else {
            continue;
        }
        total_size += name.size + value.size + 8;
        if (user) user_size += name.size - (sizeof USER_PREFIX - 1) + value.size;
    }
    if (user_size <= S3_METADATA_MAX && total_size <= OBJECT_HEADERS_MAX) return 0;
    request_add_extra(req, "MaxSizeAllowed", SLICE_LITERAL("2048"));
    return ERR_METADATA_TOO_LARGE;
}

/* ---- out */

int headers_check_overrides(struct s3_request *req) {
    if (!req->target.parameter_count) return 0;
    for (size_t i = 0; i < OVERRIDES; i++) {
        struct slice value = request_parameter(req, overrides[i].parameter);
        for (size_t j = 0; j < value.size; j++) {
            unsigned char c = (unsigned char)value.data[j];
            if ((c < 0x20 && c != '\t') || c == 0x7F)
                return request_invalid_argument(req, overrides[i].parameter, value,
                                                "Control characters are not allowed.");
        }
    }
    return 0;
}

static bool overridden(struct s3_request *req, struct slice name) {
    if (!req->target.parameter_count) return false;
    for (size_t i = 0; i < OVERRIDES; i++)
        if (slice_is(name, overrides[i].name))
            return request_parameter(req, overrides[i].parameter).size > 0;
    return false;
}

void headers_describe_version(struct s3_request *req, const struct object_info *info) {
    char modified[CLOCK_TEXT_SIZE];
    clock_format_http(info->modified_ms, modified);
    http_respond_header_slice(req->x, "Last-Modified", slice_of(modified));
    char quoted[OBJECT_ETAG_MAX + 2];
    size_t size = strlen(info->etag);
    quoted[0] = quoted[size + 1] = '"';
    memcpy(quoted + 1, info->etag, size);
    http_respond_header_slice(req->x, "ETag", (struct slice){quoted, size + 2});
}

/* Stored names are slices, the response wants strings. */
static void respond_stored(struct s3_request *req, struct slice name, struct slice value) {
    char text[256];
    if (name.size >= sizeof text) {
        http_respond_header(req->x, "x-amz-missing-meta", "1");
        return;
    }
    memcpy(text, name.data, name.size);
    text[name.size] = 0;
    http_respond_header_slice(req->x, text, value);
}

static void describe_stored(struct s3_request *req, const struct object_info *info) {
    bool typed = false;
    for (unsigned i = 0; i < info->header_count; i++) {
        struct slice name = info->headers[i].name;
        if (slice_is(name, "content-type")) typed = true;
        if (!overridden(req, name)) respond_stored(req, name, info->headers[i].value);
    }
    if (!typed && !overridden(req, SLICE_LITERAL("content-type")))
        http_respond_header_slice(req->x, "Content-Type", SLICE_LITERAL(S3_DEFAULT_CONTENT_TYPE));
    for (size_t i = 0; req->target.parameter_count && i < OVERRIDES; i++) {
        struct slice value = request_parameter(req, overrides[i].parameter);
        if (value.size) http_respond_header_slice(req->x, overrides[i].name, value);
    }
}

void headers_describe(struct s3_request *req, const struct object_info *info,
                      const struct read_range *range) {
    respond_begin(req, range->partial ? 206 : 200);
    headers_describe_version(req, info);
    http_respond_header_slice(req->x, "Accept-Ranges", SLICE_LITERAL("bytes"));
    if (range->partial)
        http_respond_header(
            req->x, "Content-Range", "bytes %llu-%llu/%llu", (unsigned long long)range->offset,
            (unsigned long long)(range->offset + range->size - 1), (unsigned long long)info->size);
    if (range->part && info->part_count)
        http_respond_header(req->x, "x-amz-mp-parts-count", "%u", info->part_count);
    describe_stored(req, info);
    /* A client compares this with what it received, so it must be of all of that. */
    if (!range->partial && info->checksum.kind &&
        slice_equal_nocase(request_header(req, "x-amz-checksum-mode"), SLICE_LITERAL("enabled")))
        integrity_respond_checksum(req, &info->checksum, info->part_count);
    if (req->rdma_declined)
        http_respond_header_slice(req->x, "x-amz-rdma-reply", SLICE_LITERAL("501"));
}
