/* If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, If-Range. */
#include "s3/preconditions.h"

#include "base/clock.h"
#include "base/error.h"

static struct slice without_quotes(struct slice text) {
    if (text.size >= 2 && text.data[0] == '"' && text.data[text.size - 1] == '"')
        return (struct slice){text.data + 1, text.size - 2};
    return text;
}

/* One element of an ETag list. S3 clients also send ETags without quotes. Our ETags have no comma
 * in them, so that commas inside quotes need no care: such an ETag matches nothing anyway. */
static bool entry_matches(struct slice entry, struct slice etag, bool weak) {
    entry = slice_trim(entry);
    if (slice_is(entry, "*")) return true;
    if (slice_starts_with(entry, SLICE_LITERAL("W/"))) {
        if (!weak) return false;
        entry = (struct slice){entry.data + 2, entry.size - 2};
    }
    return slice_equal(without_quotes(entry), etag);
}

static bool list_matches(struct slice list, struct slice etag, bool weak) {
    for (size_t start = 0; start < list.size;) {
        const char *comma = memchr(list.data + start, ',', list.size - start);
        size_t end = comma ? (size_t)(comma - list.data) : list.size;
        if (entry_matches((struct slice){list.data + start, end - start}, etag, weak)) return true;
        start = end + 1;
    }
    return false;
}

/* HTTP dates have seconds only; what cannot be parsed is as if it were not there. */
static bool modified_after(struct slice date, int64_t modified_ms, bool *after) {
    int64_t date_ms;
    if (!date.data || !clock_parse_http(date, &date_ms)) return false;
    *after = modified_ms / 1000 > date_ms / 1000;
    return true;
}

int preconditions_evaluate(const struct read_conditions *conditions, struct slice etag,
                           int64_t modified_ms, const char **failed) {
    bool after;
    if (conditions->if_match.data) {
        *failed = "If-Match";
        if (!list_matches(conditions->if_match, etag, false)) return ERR_PRECONDITION_FAILED;
    } else if (modified_after(conditions->if_unmodified_since, modified_ms, &after) && after) {
        *failed = "If-Unmodified-Since";
        return ERR_PRECONDITION_FAILED;
    }
    if (conditions->if_none_match.data)
        return list_matches(conditions->if_none_match, etag, true) ? ERR_NOT_MODIFIED : 0;
    if (modified_after(conditions->if_modified_since, modified_ms, &after) && !after)
        return ERR_NOT_MODIFIED;
    return 0;
}

/* Most requests have none of the four, and should pay for one pass over their headers only. */
static bool find_conditions(const struct http_request *http, struct read_conditions *found) {
    memset(found, 0, sizeof *found);
    bool any = false;
    for (unsigned i = 0; i < http->header_count; i++) {
        struct slice name = http->headers[i].name, value = http->headers[i].value;
        if (name.size < 8 || name.data[0] != 'i' || name.data[1] != 'f') continue;
        any = true;
        if (slice_is(name, "if-match")) found->if_match = value;
        if (slice_is(name, "if-none-match")) found->if_none_match = value;
        if (slice_is(name, "if-modified-since")) found->if_modified_since = value;
        if (slice_is(name, "if-unmodified-since")) found->if_unmodified_since = value;
    }
    return any;
}

int preconditions_read(struct s3_request *req, const struct object_info *info) {
    struct read_conditions conditions;
    if (!find_conditions(&req->x->request, &conditions)) return 0;
    const char *failed = NULL;
    int err = preconditions_evaluate(&conditions, slice_of(info->etag), info->modified_ms, &failed);
    if (err == ERR_PRECONDITION_FAILED) request_add_extra(req, "Condition", slice_of(failed));
    return err;
}

bool preconditions_if_range(struct s3_request *req, const struct object_info *info) {
    struct slice value = request_header(req, "if-range");
    bool after;
    if (!value.data) return true;
    if (modified_after(value, info->modified_ms, &after)) return !after;
    return entry_matches(value, slice_of(info->etag), false);
}

int preconditions_write(struct s3_request *req, struct write_precondition *precondition) {
    memset(&precondition->condition, 0, sizeof precondition->condition);
    struct slice none_match = request_header(req, "if-none-match");
    struct slice match = request_header(req, "if-match");
    if (none_match.data && !slice_is(none_match, "*")) {
        request_add_extra(req, "Header", SLICE_LITERAL("If-None-Match"));
        return request_fail(req, ERR_NOT_IMPLEMENTED,
                            "If-None-Match on a write is implemented for * only.");
    }
    precondition->condition.if_none_match_any = none_match.data;
    if (!match.data) return 0;
    struct slice etag = without_quotes(match);
    /* No ETag is that long: one that never matches stands for it. */
    if (etag.size > OBJECT_ETAG_MAX) etag = SLICE_LITERAL("\"");
    if (etag.size) memcpy(precondition->etag, etag.data, etag.size);
    precondition->etag[etag.size] = 0;
    precondition->condition.if_match = precondition->etag;
    return 0;
}

int preconditions_check_early_await(struct s3_request *req, const struct bucket *bucket,
                                    const struct object_condition *condition) {
    if (!condition->if_none_match_any && !condition->if_match) return 0;
    struct object *object = NULL;
    int err = object_open_await(request_store(req), bucket, req->target.key, &object);
    if (err == ERR_NO_SUCH_KEY) return condition->if_match ? err : 0;
    if (err) return err;
    const char *etag = object_info(object)->etag;
    bool matches = condition->if_match &&
                   (!strcmp(condition->if_match, "*") || !strcmp(condition->if_match, etag));
    object_close(&object);
    if (condition->if_none_match_any || !matches) {
        request_add_extra(req, "Condition",
                          slice_of(condition->if_none_match_any ? "If-None-Match" : "If-Match"));
        return ERR_PRECONDITION_FAILED;
    }
    return 0;
}
