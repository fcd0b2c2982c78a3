/* Byte ranges as RFC 9110 and S3 understand them: one range or the whole object. */
#include "s3/range.h"

#include <stdio.h>

#include "base/error.h"
#include "s3/preconditions.h"

/* Positions beyond 64 bits are beyond every object. */
static bool parse_position(struct slice text, uint64_t *value) {
    if (!text.size) return false;
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9') return false;
    unsigned long long number;
    *value = slice_to_u64(text, &number) ? number : UINT64_MAX;
    return true;
}

static enum range_result suffix(uint64_t length, uint64_t object_size, uint64_t *offset,
                                uint64_t *size) {
    if (!length || !object_size) return RANGE_OUTSIDE;
    *size = length < object_size ? length : object_size;
    *offset = object_size - *size;
    return RANGE_PART;
}

enum range_result range_parse(struct slice text, uint64_t object_size, uint64_t *offset,
                              uint64_t *size) {
    struct slice unit = {text.data, text.size < 6 ? text.size : 6};
    if (!slice_equal_nocase(unit, SLICE_LITERAL("bytes="))) return RANGE_WHOLE;
    struct slice spec = slice_trim((struct slice){text.data + 6, text.size - 6});
    const char *dash = spec.size ? memchr(spec.data, '-', spec.size) : NULL;
    if (!dash) return RANGE_WHOLE;
    struct slice first_text = {spec.data, (size_t)(dash - spec.data)};
    struct slice last_text = {dash + 1, spec.size - first_text.size - 1};
    uint64_t first = 0, last = UINT64_MAX;
    bool has_last = parse_position(last_text, &last);
    if (!has_last && last_text.size) return RANGE_WHOLE;
    if (!first_text.size) return has_last ? suffix(last, object_size, offset, size) : RANGE_WHOLE;
    if (!parse_position(first_text, &first) || (has_last && last < first)) return RANGE_WHOLE;
    if (first >= object_size) return RANGE_OUTSIDE;
    if (last >= object_size) last = object_size - 1;
    *offset = first;
    *size = last - first + 1;
    return RANGE_PART;
}

/* The sizes go into the error document; errors.c adds the Content-Range of a 416 from them. */
static int outside(struct s3_request *req, uint64_t object_size, struct slice range) {
    int size = snprintf(req->extra_memory, sizeof req->extra_memory, "%llu",
                        (unsigned long long)object_size);
    request_add_extra(req, "ActualObjectSize", (struct slice){req->extra_memory, (size_t)size});
    request_add_extra(req, "RangeRequested", range);
    return ERR_INVALID_RANGE;
}

static int select_part(struct s3_request *req, const struct object *object, struct slice range_text,
                       struct read_range *range) {
    struct slice text = request_parameter(req, "partNumber");
    unsigned long long number;
    if (!slice_to_u64(text, &number) || number < 1 || number > OBJECT_PARTS_MAX)
        return request_invalid_argument(req, "partNumber", text, error_text(ERR_TOO_MANY_PARTS));
    if (range_text.data)
        return request_fail(req, ERR_INVALID_REQUEST,
                            "Cannot specify both Range header and partNumber query parameter");
    int err = object_part_range(object, (unsigned)number, &range->offset, &range->size);
    if (err == ERR_INVALID_PART) {
        req->message = "The requested partnumber is not satisfiable";
        return outside(req, object_info(object)->size, text);
    }
    range->part = (unsigned)number;
    range->partial = range->size > 0; /* no Content-Range can name zero bytes */
    return err;
}

int range_select(struct s3_request *req, const struct object *object, struct read_range *range) {
    const struct object_info *info = object_info(object);
    *range = (struct read_range){.size = info->size};
    struct slice text = request_header(req, "range");
    if (req->target.parameter_count && request_parameter(req, "partNumber").data)
        return select_part(req, object, text, range);
    if (!text.data || !preconditions_if_range(req, info)) return 0;
    switch (range_parse(text, info->size, &range->offset, &range->size)) {
    case RANGE_PART: range->partial = true; return 0;
    case RANGE_OUTSIDE: return outside(req, info->size, text);
    case RANGE_WHOLE: break;
    }
    *range = (struct read_range){.size = info->size};
    return 0;
}
