/* Buckets and objects over meta/ and blob/: S3's rules about names, versions of an object (the
 * latest only, so far), multipart uploads and listings, written once for every engine.
 *
 * All functions may be called from any reactor. An opened object is one immutable version: it can
 * be read to its end whatever happens to the name meanwhile. Names and times are what S3 shows;
 * XML, headers and authorisation are s3/'s. */
#ifndef PENSTOCK_OBJECT_OBJECT_H
#define PENSTOCK_OBJECT_OBJECT_H

#include <stdint.h>

#include "base/checksum.h"
#include "base/text.h"
#include "blob/blob.h"

#define OBJECT_KEY_MAX     1024
#define OBJECT_PART_MIN    (5ull << 20) /* all parts but the last, at completion */
#define OBJECT_PARTS_MAX   10000
#define OBJECT_SIZE_MAX    (5ull << 40)
#define OBJECT_HEADERS_MAX 16384 /* serialised; user metadata alone is held to 2 KiB by s3/ */
#define OBJECT_ETAG_MAX    64

struct store;

/* Opens the format record (or writes it on a new store): ERR_UNSUPPORTED_FORMAT. Blocking. */
int store_open(struct meta *meta, struct blob_store *blobs, enum meta_durability durability,
               struct store **store);
void store_close(struct store **store);

/* ---- buckets */
#define BUCKET_NAME_MAX 63
struct bucket {
    uint64_t id; /* never used twice: a bucket made again under a name is another one */
    char name[BUCKET_NAME_MAX + 1];
    int64_t created_ms;
    char region[32];
};
bool bucket_name_valid(struct slice name); /* the rules of general-purpose buckets */
int bucket_create_await(struct store *store, struct slice name,
                        const char *region); /* ERR_BUCKET_ALREADY_OWNED, ERR_INVALID_BUCKET_NAME */
int bucket_get_await(struct store *store, struct slice name,
                     struct bucket *bucket); /* ERR_NO_SUCH_BUCKET */
int bucket_delete_await(struct store *store,
                        struct slice name); /* ERR_BUCKET_NOT_EMPTY: objects or uploads */
/* All buckets in order of name. The array is the caller's (free()). */
int bucket_list_await(struct store *store, struct bucket **buckets, size_t *count);

/* ---- object records */
/* Stored response headers: content-type, cache-control, content-disposition, content-encoding,
 * content-language, expires, x-amz-meta-*, x-amz-storage-class... in the order given. */
struct object_header {
    struct slice name; /* lower case */
    struct slice value;
};

struct object_checksum {
    enum digest_kind kind; /* 0: none. Never MD5 */
    bool composite;        /* of the parts' checksums, shown as "value-N" */
    uint8_t value[DIGEST_MAX_SIZE];
};

struct object_info {
    uint64_t size;
    int64_t modified_ms;
    char etag[OBJECT_ETAG_MAX + 1]; /* without quotes */
    struct object_checksum checksum;
    unsigned part_count; /* 0 when not made by multipart */
    const struct object_header *headers;
    unsigned header_count;
};

/* ---- reading */
struct object; /* opened: pinned */
int object_open_await(struct store *store, const struct bucket *bucket, struct slice key,
                      struct object **object); /* ERR_NO_SUCH_KEY */
const struct object_info *object_info(const struct object *object);
/* Where part `number` (1..part_count) lies. ERR_INVALID_PART. Not multipart: part 1 is the whole.
 */
int object_part_range(const struct object *object, unsigned number, uint64_t *offset,
                      uint64_t *size);
void object_close(struct object **object); /* nulls; NULL is fine */

/* Across parts; the contract of blob_reader_*. The object must stay open. */
struct object_reader;
int object_reader_open_await(struct object *object, uint64_t offset, uint64_t length,
                             struct object_reader **reader);
int object_reader_next_await(struct object_reader *reader, struct block **blocks, unsigned max,
                             unsigned *count, uint32_t *offset, uint64_t *size);
void object_reader_close_await(struct object_reader **reader);

/* ---- conditions of a write or delete, checked inside the commit */
struct object_condition {
    bool if_none_match_any; /* If-None-Match: * -> ERR_PRECONDITION_FAILED when it exists */
    const char *if_match;   /* ETag without quotes, or "*": ERR_NO_SUCH_KEY when there is none,
                             * ERR_PRECONDITION_FAILED when it differs; NULL for none */
};

/* ---- writing: fill a blob_writer (blob_writer_open(store_blobs(store), ..)), then make it the
 * object. On success the writer is consumed; on failure it is the caller's to abort (it may be NULL
 * by then, which is fine: after an I/O error nobody knows whether the commit is on the drive, and
 * the space must not be used again before the next start has looked). An overwrite
 * frees the old bytes after their last reader. A race of two writers ends with one of the two whole
 * objects; a conflict is retried inside. */
struct blob_store *store_blobs(struct store *store);
struct object_write {
    struct slice key;
    struct object_info info; /* size and modified_ms are filled in on success */
    struct object_condition condition;
};
int object_commit_await(struct store *store, const struct bucket *bucket,
                        struct object_write *write, struct blob_writer **writer);
/* Deleting what is not there succeeds (without conditions). */
int object_delete_await(struct store *store, const struct bucket *bucket, struct slice key,
                        const struct object_condition *condition);

/* ---- listing (ListObjectsV2). Keys and prefixes together count towards max. */
struct object_list_query {
    struct slice prefix, delimiter; /* delimiter may have several bytes; empty for none */
    struct slice after; /* start after this key or common prefix; empty from the start */
    unsigned max;       /* 0..1000 */
};
struct object_list_entry {
    struct slice key; /* a key, or a common prefix */
    bool is_prefix;
    uint64_t size;
    int64_t modified_ms;
    struct slice etag;
    struct object_checksum checksum;
};
struct object_list {
    struct object_list_entry *entries; /* in byte order, keys and prefixes merged */
    unsigned count;
    bool truncated;
    struct slice next; /* `after` of the next page when truncated */
    void *memory;      /* what the slices point into */
};
int object_list_await(struct store *store, const struct bucket *bucket,
                      const struct object_list_query *query, struct object_list *list);
void object_list_deinit(struct object_list *list);

/* ---- multipart uploads */
#define UPLOAD_ID_SIZE 32 /* lower-case hexadecimal */
struct upload_info {
    char id[UPLOAD_ID_SIZE + 1];
    struct slice key;
    int64_t created_ms;
    enum digest_kind checksum_kind; /* declared at creation; 0: none */
    bool checksum_composite;
    const struct object_header *headers;
    unsigned header_count;
};
int upload_create_await(struct store *store, const struct bucket *bucket,
                        struct upload_info *upload /* key, checksum, headers in; id, time out */);
/* Opened so that its slices stay valid. ERR_NO_SUCH_UPLOAD. */
struct upload;
int upload_open_await(struct store *store, const struct bucket *bucket, struct slice key,
                      struct slice upload_id, struct upload **upload);
const struct upload_info *upload_info(const struct upload *upload);
void upload_close(struct upload **upload);

struct part_info {
    unsigned number;
    uint64_t size;
    int64_t modified_ms;
    char etag[OBJECT_ETAG_MAX + 1];
    struct object_checksum checksum;
};
/* A part with the same number is replaced. The writer's fate as with object_commit_await.
 * ERR_NO_SUCH_UPLOAD when the upload ended meanwhile. */
int upload_put_part_await(struct store *store, struct upload *upload, struct part_info *part,
                          struct blob_writer **writer);
/* Parts in order with number > after, at most max. The array is the caller's (free()). */
int upload_list_parts_await(struct store *store, struct upload *upload, unsigned after,
                            unsigned max, struct part_info **parts, size_t *count, bool *truncated);
/* parts: numbers ascending (ERR_INVALID_PART_ORDER), with the ETags (and checksums where kind is
 * not 0) that the client claims: ERR_INVALID_PART, ERR_ENTITY_TOO_SMALL. Makes the object: ETag
 * is MD5 of the parts' MD5s "-N" where all parts have an MD5 ETag, else an opaque one "-N".
 * Completing an upload again that this call already completed answers the same object.
 * expected_checksum (kind 0 for none) is compared: ERR_BAD_DIGEST. */
int upload_complete_await(struct store *store, const struct bucket *bucket, struct upload *upload,
                          const struct part_info *parts, size_t count,
                          const struct object_condition *condition,
                          const struct object_checksum *expected_checksum,
                          char etag[OBJECT_ETAG_MAX + 1], struct object_checksum *checksum);
int upload_abort_await(struct store *store, struct upload *upload);
/* After upload_open_await() said ERR_NO_SUCH_UPLOAD: was it this upload that made the object which
 * is there now? Then a completion is being repeated, and this answers as the first one did; else
 * ERR_NO_SUCH_UPLOAD. */
int upload_completed_await(struct store *store, const struct bucket *bucket, struct slice key,
                           struct slice upload_id, char etag[OBJECT_ETAG_MAX + 1],
                           struct object_checksum *checksum);

struct upload_list_query {
    struct slice prefix, delimiter;
    struct slice key_marker, upload_id_marker;
    unsigned max;
};
struct upload_list_entry {
    struct slice key; /* or a common prefix */
    bool is_prefix;
    char id[UPLOAD_ID_SIZE + 1];
    int64_t created_ms;
};
struct upload_list {
    struct upload_list_entry *entries;
    unsigned count;
    bool truncated;
    struct slice next_key;
    char next_upload_id[UPLOAD_ID_SIZE + 1];
    void *memory;
};
int upload_list_await(struct store *store, const struct bucket *bucket,
                      const struct upload_list_query *query, struct upload_list *list);
void upload_list_deinit(struct upload_list *list);

/* ---- offline check of the whole store: records parse, blobs owned once, nothing lost or doubly
 * used, checksums right. Returns the number of findings through *findings. Blocking. */
int store_fsck(struct meta *meta, const char *volume_path, bool verify_data, blob_report_fn *report,
               void *ctx, uint64_t *findings);

#endif
