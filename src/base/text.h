/* A growable string for building headers, XML and log lines. Always NUL-terminated when data is
 * not NULL. Allocation failure sets `failed` and later appends do nothing, so that a builder needs
 * one check at its end. */
#ifndef PENSTOCK_BASE_TEXT_H
#define PENSTOCK_BASE_TEXT_H

#include <stdint.h>

#include "base/slice.h"

struct text {
    char *data;
    size_t size;
    size_t capacity;
    bool failed;
};

void text_append(struct text *t, const void *data, size_t size);
void text_append_slice(struct text *t, struct slice s);
void text_append_string(struct text *t, const char *s);
void text_append_u64(struct text *t, uint64_t value);
void text_append_format(struct text *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void text_append_xml(struct text *t, struct slice s); /* escapes & < > " ' and control bytes */
void text_append_uri(struct text *t, struct slice s,
                     bool keep_slash); /* RFC 3986, as SigV4 wants */
void text_clear(struct text *t);       /* keeps the memory */
void text_deinit(struct text *t);
struct slice text_slice(const struct text *t);

#define _cleanup_text_ __attribute__((cleanup(text_deinit)))

#endif
