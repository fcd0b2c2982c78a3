/* Any bytes as a request's target: path, query and Host, each on its line. Beyond not crashing, an
 * accepted target must keep what s3 promises to the layers below: keys of 1..1024 bytes of UTF-8
 * without NUL. The query also serves as a Range and as a continuation token. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/encode.h"
#include "s3/page_token.h"
#include "s3/range.h"
#include "s3/uri.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An exact copy on the heap, so that ASan sees a read beyond its end. */
static struct slice copy_line(const char **at, const char *end) {
    const char *newline = *at < end ? memchr(*at, '\n', (size_t)(end - *at)) : NULL;
    size_t size = (size_t)((newline ? newline : end) - *at);
    char *copy = malloc(size ? size : 1);
    assert(copy);
    memcpy(copy, *at, size);
    *at = newline ? newline + 1 : end;
    return (struct slice){copy, size};
}

static void check_target(struct slice path, struct slice query, struct slice host) {
    struct s3_target *target = calloc(1, sizeof *target);
    assert(target);
    if (target_parse(target, path, query, host, "s3.example") == 0) {
        assert(target->key.size <= OBJECT_KEY_MAX && utf8_valid(target->key));
        assert(!target->key.size || !memchr(target->key.data, 0, target->key.size));
        assert(target->bucket.size || !target->key.size);
        assert(utf8_valid(target->bucket));
        for (unsigned i = 0; i < target->parameter_count; i++)
            assert(target->parameters[i].value.data);
    }
    target_deinit(target);
    free(target);
}

static void check_range(struct slice text) {
    const uint64_t sizes[] = {0, 1, 10, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t offset, size;
        if (range_parse(text, sizes[i], &offset, &size) != RANGE_PART) continue;
        assert(size > 0 && offset < sizes[i] && size <= sizes[i] - offset);
    }
}

/* What decodes must encode to the same token, so that there is one for each name. */
static void check_token(struct slice token) {
    struct text name _cleanup_text_ = {0}, again _cleanup_text_ = {0};
    if (page_token_decode(token, &name)) return;
    page_token_append(&again, text_slice(&name));
    assert(token.size >= again.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *at = (const char *)data, *end = at + size;
    struct slice path = copy_line(&at, end);
    struct slice query = copy_line(&at, end);
    struct slice host = copy_line(&at, end);
    check_target(path, query, host);
    check_range(query);
    check_token(query);
    free((char *)path.data);
    free((char *)query.data);
    free((char *)host.data);
    return 0;
}
