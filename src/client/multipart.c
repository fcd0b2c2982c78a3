/* Multipart uploads: begin, complete, abort. The parts themselves are pieces (move.c). */
#include <stdlib.h>
#include <string.h>

#include "client/answer.h"
#include "client/client.h"

uint64_t multipart_part_size(uint64_t size, uint64_t wanted) {
    uint64_t least = (size + CLIENT_PARTS_MAX - 1) / CLIENT_PARTS_MAX;
    uint64_t mebibyte = 1 << 20;
    least = (least + mebibyte - 1) / mebibyte * mebibyte;
    return wanted > least ? wanted : least;
}

int multipart_begin(struct multipart *upload, ps_result *result) {
    struct call call _cleanup_call_ = {
        .method = "POST", .bucket = upload->bucket, .key = upload->key};
    text_append_string(&call.query, "uploads=");
    int err = call_perform(upload->client, &call, result);
    if (err) return err;
    xmlDoc *doc = answer_parse(text_slice(&call.text));
    char *id = doc ? answer_text(xmlDocGetRootElement(doc), "UploadId") : NULL;
    bool ok = id && *id && strlen(id) < sizeof(upload->upload_id);
    if (ok) strcpy(upload->upload_id, id);
    free(id);
    xmlFreeDoc(doc);
    if (!ok) return result_fail(result, PS_ERR_PROTOCOL, "the answer names no upload");
    upload->etags = calloc(upload->parts, sizeof(*upload->etags));
    if (upload->etags) return 0;
    multipart_abort(upload);
    return result_fail(result, PS_ERR_MEMORY, "out of memory");
}

static void add_upload_id(struct call *call, const struct multipart *upload) {
    text_append_string(&call->query, "uploadId=");
    text_append_uri(&call->query, slice_of(upload->upload_id), false);
}

int multipart_complete(struct multipart *upload, ps_result *result) {
    struct text body _cleanup_text_ = {0};
    text_append_string(&body, "<CompleteMultipartUpload>");
    for (unsigned i = 0; i < upload->parts; i++)
        text_append_format(&body, "<Part><PartNumber>%u</PartNumber><ETag>\"%s\"</ETag></Part>",
                           i + 1, upload->etags[i]);
    text_append_string(&body, "</CompleteMultipartUpload>");
    if (body.failed) return result_fail(result, PS_ERR_MEMORY, "out of memory");
    struct call call _cleanup_call_ = {
        .method = "POST",
        .bucket = upload->bucket,
        .key = upload->key,
        .body = body.data,
        .body_size = body.size,
    };
    add_upload_id(&call, upload);
    ps_result answer = {0};
    int err = call_perform(upload->client, &call, &answer);
    xmlDoc *doc = err ? NULL : answer_parse(text_slice(&call.text));
    xmlNode *root = doc ? xmlDocGetRootElement(doc) : NULL;
    char *etag = root ? answer_text(root, "ETag") : NULL;
    /* S3 may answer 200 with an <Error> inside. */
    if (!err) answer_read_error(text_slice(&call.text), &answer);
    if (!err && answer.code[0]) err = PS_ERR_S3;
    if (!err && (!etag || !*etag))
        err = result_fail(&answer, PS_ERR_PROTOCOL, "the answer has no ETag");
    if (!err) {
        size_t size = strlen(etag);
        bool quoted = size >= 2 && etag[0] == '"' && etag[size - 1] == '"';
        if (quoted) etag[size - 1] = '\0';
        strncpy(result->etag, etag + quoted, sizeof(result->etag) - 1);
        result->status = answer.status;
        memcpy(result->request_id, answer.request_id, sizeof(result->request_id));
    } else {
        *result = answer;
    }
    free(etag);
    xmlFreeDoc(doc);
    return err;
}

void multipart_abort(struct multipart *upload) {
    struct call call _cleanup_call_ = {
        .method = "DELETE", .bucket = upload->bucket, .key = upload->key};
    add_upload_id(&call, upload);
    ps_result ignored = {0}; /* the failure that led here is what the caller reports */
    call_perform(upload->client, &call, &ignored);
}
