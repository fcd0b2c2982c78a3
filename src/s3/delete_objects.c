/* DeleteObjects: up to 1,000 keys in one request. Each is deleted for itself and has its own
 * answer; some fibers share the work, so that the store can commit many deletions with one flush.
 */
#include <stdlib.h>

#include "base/error.h"
#include "runtime/fiber.h"
#include "s3/body.h"
#include "s3/errors.h"
#include "s3/operations.h"
#include "s3/xml_read.h"
#include "s3/xml_write.h"

#define DELETE_KEYS_MAX 1000
#define DELETE_FIBERS   32

struct deletion {
    size_t key_offset, key_size; /* in the batch's text, which moves as it grows */
    char etag[OBJECT_ETAG_MAX + 1];
    bool has_etag, has_version;
    int result;
};

struct batch {
    struct store *store;
    struct bucket bucket;
    struct text keys;
    struct deletion deletions[DELETE_KEYS_MAX];
    unsigned count, next, fibers;
    struct fiber_queue finished;
    bool quiet;
};

static struct slice key_of(const struct batch *batch, const struct deletion *deletion) {
    return (struct slice){batch->keys.data + deletion->key_offset, deletion->key_size};
}

/* ---- the document */

static int set_etag(struct deletion *deletion, struct slice etag) {
    if (etag.size >= 2 && etag.data[0] == '"' && etag.data[etag.size - 1] == '"')
        etag = (struct slice){etag.data + 1, etag.size - 2};
    if (etag.size > OBJECT_ETAG_MAX) return ERR_MALFORMED_XML;
    if (etag.size) memcpy(deletion->etag, etag.data, etag.size);
    deletion->has_etag = true;
    return 0;
}

static int set_key(struct batch *batch, struct deletion *deletion, struct slice key) {
    deletion->key_offset = batch->keys.size;
    deletion->key_size = key.size;
    text_append_slice(&batch->keys, key);
    return batch->keys.failed ? -ENOMEM : 0;
}

/* A condition that is not understood must not be skipped: it would delete too much. */
static int set_field(struct batch *batch, const struct xml_event *event) {
    struct deletion *deletion = &batch->deletions[batch->count - 1];
    struct slice name = slice_of(event->name);
    if (slice_is(name, "Key")) return set_key(batch, deletion, event->text);
    if (slice_is(name, "ETag")) return set_etag(deletion, event->text);
    if (slice_is(name, "VersionId")) {
        deletion->has_version = event->text.size && !slice_is(event->text, "null");
        return 0;
    }
    return ERR_NOT_IMPLEMENTED;
}

static int take_event(struct batch *batch, const struct xml_event *event) {
    if (event->depth == 1) return slice_is(slice_of(event->name), "Delete") ? 0 : ERR_MALFORMED_XML;
    if (xml_is_leaf(event, 2, "Quiet")) {
        batch->quiet = slice_equal_nocase(slice_trim(event->text), SLICE_LITERAL("true"));
        return 0;
    }
    if (xml_is_open(event, 2, "Object")) {
        if (batch->count == DELETE_KEYS_MAX) return ERR_MALFORMED_XML;
        batch->count++;
        return 0;
    }
    if (xml_is_close(event, 2, "Object"))
        return batch->deletions[batch->count - 1].key_size ? 0 : ERR_MALFORMED_XML;
    if (event->kind == XML_LEAF && event->depth == 3 && batch->count)
        return set_field(batch, event);
    return ERR_MALFORMED_XML;
}

static int parse(struct batch *batch, struct slice document) {
    struct xml_reader *reader = NULL;
    struct xml_event event = {0};
    int err = xml_reader_open(document, &reader);
    while (!err && !(err = xml_next(reader, &event)) && event.kind != XML_END)
        err = take_event(batch, &event);
    xml_reader_close(&reader);
    return !err && !batch->count ? ERR_MALFORMED_XML : err;
}

static int read_batch_await(struct s3_request *req, struct batch *batch) {
    char *document = NULL;
    size_t size = 0;
    struct integrity integrity;
    int err = integrity_parse(req, &integrity);
    if (!err)
        err = payload_read_document_await(req, &integrity, S3_LONG_DOCUMENT_MAX, &document, &size);
    if (!err) err = parse(batch, (struct slice){document, size});
    free(document);
    return err;
}

/* ---- the work */

static int delete_one_await(struct batch *batch, const struct deletion *deletion) {
    struct object_condition condition = {.if_match = deletion->has_etag ? deletion->etag : NULL};
    if (deletion->key_size > OBJECT_KEY_MAX) return ERR_KEY_TOO_LONG;
    if (deletion->has_version) return ERR_INVALID_ARGUMENT;
    return object_delete_await(batch->store, &batch->bucket, key_of(batch, deletion), &condition);
}

static void delete_some_await(struct batch *batch) {
    while (batch->next < batch->count) {
        struct deletion *deletion = &batch->deletions[batch->next++];
        deletion->result = delete_one_await(batch, deletion);
    }
}

static void helper_fiber(void *arg) {
    struct batch *batch = arg;
    delete_some_await(batch);
    if (--batch->fibers == 0) fiber_queue_wake_all(&batch->finished);
}

/* Helpers that cannot be had are no error: this fiber does what they do not. It must outlive them,
 * because they work on its batch. */
static void delete_all_await(struct batch *batch) {
    unsigned wanted = batch->count < DELETE_FIBERS ? batch->count : DELETE_FIBERS;
    for (unsigned i = 1; i < wanted; i++)
        if (!fiber_spawn("delete objects", helper_fiber, batch)) batch->fibers++;
    delete_some_await(batch);
    fiber_shield_begin();
    while (batch->fibers) fiber_queue_wait_await(&batch->finished, UINT64_MAX);
    fiber_shield_end();
}

/* ---- the answer */

static void append_result(struct text *xml, const struct batch *batch,
                          const struct deletion *deletion) {
    if (!deletion->result && batch->quiet) return;
    const char *element = deletion->result ? "Error" : "Deleted";
    xml_open(xml, element);
    xml_element(xml, "Key", key_of(batch, deletion));
    if (deletion->result) errors_append_code(xml, deletion->result);
    xml_close(xml, element);
}

static int respond_await(struct s3_request *req, const struct batch *batch) {
    struct text xml _cleanup_text_ = {0};
    xml_begin(&xml);
    xml_open_root(&xml, "DeleteResult");
    for (unsigned i = 0; i < batch->count; i++) append_result(&xml, batch, &batch->deletions[i]);
    xml_close(&xml, "DeleteResult");
    return respond_xml_await(req, &xml);
}

int s3_delete_objects_await(struct s3_request *req) {
    struct batch *batch = calloc(1, sizeof *batch); /* 100 KiB: too large for a fiber's stack */
    if (!batch) return -ENOMEM;
    batch->store = request_store(req);
    int err = bucket_get_await(batch->store, req->target.bucket, &batch->bucket);
    if (!err) err = read_batch_await(req, batch);
    if (!err) {
        delete_all_await(batch);
        err = respond_await(req, batch);
    }
    text_deinit(&batch->keys);
    free(batch);
    return err;
}
