/* Conditional requests: RFC 9110's order on reads, S3's two forms on writes and deletes. */
#ifndef PENSTOCK_S3_PRECONDITIONS_H
#define PENSTOCK_S3_PRECONDITIONS_H

#include "s3/request.h"

/* The headers of a conditional read; data NULL where absent. */
struct read_conditions {
    struct slice if_match, if_none_match, if_modified_since, if_unmodified_since;
};
/* 0, ERR_NOT_MODIFIED or ERR_PRECONDITION_FAILED; *failed names the header that did not hold. */
int preconditions_evaluate(const struct read_conditions *conditions, struct slice etag,
                           int64_t modified_ms, const char **failed);

/* For a GET or HEAD. A 304 is answered by the caller, because it describes the object. */
int preconditions_read(struct s3_request *req, const struct object_info *info);
/* Does If-Range, if there is one, still hold? */
bool preconditions_if_range(struct s3_request *req, const struct object_info *info);

struct write_precondition {
    struct object_condition condition; /* for the commit */
    char etag[OBJECT_ETAG_MAX + 1];
};
/* From If-Match and If-None-Match. ERR_NOT_IMPLEMENTED for If-None-Match with an ETag, as in S3. */
int preconditions_write(struct s3_request *req, struct write_precondition *precondition);
/* Does it hold now? Saves a client from sending a body for nothing; the commit decides. */
int preconditions_check_early_await(struct s3_request *req, const struct bucket *bucket,
                                    const struct object_condition *condition);

#endif
