/* The growable string of text.h. Memory doubles, so that appends cost constant time on average; a
 * failure is remembered and reported once, by whoever looks at `failed` at the end. */
#include "base/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/encode.h"

#define TEXT_MIN_CAPACITY 64
#define TEXT_MAX_SIZE     (1ull << 32) /* far more than any header or listing needs */

/* Room for `more` bytes and the NUL. */
static bool text_reserve(struct text *t, size_t more) {
    if (t->failed) return false;
    if (more < t->capacity && t->size < t->capacity - more) return true;
    if (more > TEXT_MAX_SIZE || t->size + more >= TEXT_MAX_SIZE) {
        t->failed = true;
        return false;
    }
    size_t capacity = t->capacity ? t->capacity : TEXT_MIN_CAPACITY;
    while (capacity <= t->size + more) capacity *= 2;
    char *data = realloc(t->data, capacity);
    if (!data) {
        t->failed = true;
        return false;
    }
    t->data = data;
    t->capacity = capacity;
    return true;
}

void text_append(struct text *t, const void *data, size_t size) {
    if (!text_reserve(t, size)) return;
    if (size) memcpy(t->data + t->size, data, size); /* text, not payload */
    t->size += size;
    t->data[t->size] = '\0';
}

void text_append_slice(struct text *t, struct slice s) {
    text_append(t, s.data, s.size);
}

void text_append_string(struct text *t, const char *s) {
    text_append(t, s, strlen(s));
}

void text_append_u64(struct text *t, uint64_t value) {
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    text_append(t, digits + at, sizeof(digits) - at);
}

void text_append_format(struct text *t, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (size < 0) {
        t->failed = true;
    } else if (text_reserve(t, (size_t)size)) {
        vsnprintf(t->data + t->size, (size_t)size + 1, format, again);
        t->size += (size_t)size;
    }
    va_end(again);
}

/* A reference for a byte that XML cannot carry as it is, or NULL. S3 writes control characters as
 * numeric references too, although XML 1.0 has no place for most of them. */
static const char *xml_reference(unsigned char c, char buffer[8]) {
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: break;
    }
    if (c >= 0x20 && c != 0x7f) return NULL;
    snprintf(buffer, 8, "&#x%X;", c);
    return buffer;
}

void text_append_xml(struct text *t, struct slice s) {
    char buffer[8];
    size_t plain = 0; /* where the bytes not yet appended begin */
    for (size_t i = 0; i < s.size; i++) {
        const char *reference = xml_reference((unsigned char)s.data[i], buffer);
        if (!reference) continue;
        text_append(t, s.data + plain, i - plain);
        text_append_string(t, reference);
        plain = i + 1;
    }
    if (plain < s.size)
        text_append(t, s.data + plain, s.size - plain);
    else
        text_append(t, "", 0);
}

void text_append_uri(struct text *t, struct slice s, bool keep_slash) {
    static const char digits[] = "0123456789ABCDEF";
    if (!text_reserve(t, s.size)) return;
    for (size_t i = 0; i < s.size; i++) {
        char c = s.data[i];
        unsigned char byte = (unsigned char)c;
        if (uri_is_unreserved(c) || (c == '/' && keep_slash)) {
            text_append(t, &c, 1);
        } else {
            char escape[3] = {'%', digits[byte >> 4], digits[byte & 15]};
            text_append(t, escape, sizeof(escape));
        }
    }
    text_append(t, "", 0);
}

void text_clear(struct text *t) {
    t->size = 0;
    t->failed = false;
    if (t->data) t->data[0] = '\0';
}

void text_deinit(struct text *t) {
    free(t->data);
    *t = (struct text){0};
}

struct slice text_slice(const struct text *t) {
    assert(t->size == 0 || t->data);
    return (struct slice){t->data, t->size};
}
