/* The scan over a request's head: finds its end and enforces its grammar byte by byte, stricter
 * than http-parser: CRLF line ends only, no folding, no NUL and no control bytes, names that are
 * tokens, no space before a colon. What two servers could read differently ends here. */
#include <assert.h>
#include <string.h>

#include "net/head.h"

enum scan_state {
    AT_START,
    START_CR, /* of the one empty line that is forgiven */
    IN_METHOD,
    IN_TARGET,
    IN_VERSION,
    LINE_CR, /* CR seen: LF must follow */
    AT_NAME, /* first byte of a header line, or of the empty line */
    IN_NAME,
    IN_VALUE,
    END_CR
};

/* RFC 9110 token characters. */
static bool is_token(unsigned char c) {
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
    return c != 0 && strchr("!#$%&'*+-.^_`|~", c) != NULL;
}

static bool is_value_byte(unsigned char c) {
    return c == '\t' || (c >= 0x20 && c != 0x7f);
}

void head_scan_init(struct head_scan *scan) {
    *scan = (struct head_scan){.state = AT_START};
}

static int refuse(struct head_scan *scan, int status) {
    scan->status = status;
    return -1;
}

/* One state is one function's case; each returns 0 to go on, -1 after refuse(). */
static int scan_method(struct head_scan *scan, unsigned char c) {
    if (c == ' ') {
        if (scan->position == scan->mark) return refuse(scan, 400);
        scan->mark = scan->position + 1;
        scan->state = IN_TARGET;
        return 0;
    }
    return is_token(c) ? 0 : refuse(scan, 400);
}

static int scan_target(struct head_scan *scan, unsigned char c) {
    if (c == ' ' || c == '\r') {
        if (scan->position == scan->mark) return refuse(scan, 400);
        if (c == '\r') return refuse(scan, 505); /* no version: HTTP/0.9 */
        scan->mark = scan->position + 1;
        scan->state = IN_VERSION;
        return 0;
    }
    if (scan->position - scan->mark >= HTTP_TARGET_MAX) return refuse(scan, 414);
    return c > 0x20 && c < 0x7f ? 0 : refuse(scan, 400);
}

static int scan_version(struct head_scan *scan, const char *data, unsigned char c) {
    size_t size = scan->position - scan->mark;
    if (c != '\r') return c > 0x20 && c < 0x7f && size < 16 ? 0 : refuse(scan, 400);
    struct slice version = {data + scan->mark, size};
    if (!slice_is(version, "HTTP/1.1") && !slice_is(version, "HTTP/1.0"))
        return refuse(scan, slice_starts_with(version, SLICE_LITERAL("HTTP/")) ? 505 : 400);
    scan->state = LINE_CR;
    return 0;
}

static int scan_byte(struct head_scan *scan, const char *data, unsigned char c) {
    switch ((enum scan_state)scan->state) {
    case AT_START:
        if (c == '\r' && scan->position == 0) {
            scan->state = START_CR;
            return 0;
        }
        scan->start = scan->mark = scan->position;
        scan->state = IN_METHOD;
        return scan_method(scan, c);
    case START_CR: scan->state = AT_START; return c == '\n' ? 0 : refuse(scan, 400);
    case IN_METHOD: return scan_method(scan, c);
    case IN_TARGET: return scan_target(scan, c);
    case IN_VERSION: return scan_version(scan, data, c);
    case LINE_CR: scan->state = AT_NAME; return c == '\n' ? 0 : refuse(scan, 400);
    case AT_NAME:
        if (c == '\r') {
            scan->state = END_CR;
            return 0;
        }
        scan->state = IN_NAME;
        return is_token(c) ? 0 : refuse(scan, 400); /* a leading space is a folded line */
    case IN_NAME:
        if (c == ':') {
            scan->state = IN_VALUE;
            return 0;
        }
        return is_token(c) ? 0 : refuse(scan, 400);
    case IN_VALUE:
        if (c == '\r') {
            scan->state = LINE_CR;
            return 0;
        }
        return is_value_byte(c) ? 0 : refuse(scan, 400);
    case END_CR: return c == '\n' ? 0 : refuse(scan, 400);
    }
    assert(false);
    return -1;
}

/* Most of a head is values: what of one is at hand is passed over at once. */
static void skip_value(struct head_scan *scan, const char *data, size_t size) {
    size_t end = size < HTTP_HEAD_MAX - 1 ? size : HTTP_HEAD_MAX - 1;
    while (scan->position < end && is_value_byte((unsigned char)data[scan->position]))
        scan->position++;
}

enum head_result head_scan(struct head_scan *scan, const char *data, size_t size) {
    if (scan->status) return HEAD_REFUSED;
    while (scan->position < size) {
        if (scan->state == IN_VALUE) skip_value(scan, data, size);
        if (scan->position == size) break;
        unsigned char c = (unsigned char)data[scan->position];
        bool last = scan->state == END_CR;
        if (scan_byte(scan, data, c)) return HEAD_REFUSED;
        scan->position++;
        if (last) return HEAD_WHOLE;
        if (scan->position >= HTTP_HEAD_MAX) {
            refuse(scan, 431);
            return HEAD_REFUSED;
        }
    }
    return HEAD_MORE;
}
