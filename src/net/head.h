/* The head of a request, as pure functions over bytes: first a scan that says whether the head is
 * whole and refuses what could be read in two ways, then http-parser, then the framing rules. No
 * sockets, no allocation. */
#ifndef PENSTOCK_NET_HEAD_H
#define PENSTOCK_NET_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/header.h"

enum head_result { HEAD_MORE, HEAD_WHOLE, HEAD_REFUSED };

/* Resumable: every byte is looked at once, however slowly the head arrives. */
struct head_scan {
    uint32_t start;    /* of the request line, behind an empty line that is forgiven */
    uint32_t position; /* next byte to look at; the head's end when whole */
    uint32_t mark;     /* where the present part of the request line or header began */
    uint8_t state;
    int status; /* of the answer, when refused */
};

void head_scan_init(struct head_scan *scan);
/* data[0..size): all bytes of the head so far. */
enum head_result head_scan(struct head_scan *scan, const char *data, size_t size);

struct head {
    struct slice method, path, query;
    struct http_header *headers; /* the caller's array of HTTP_HEADERS_MAX */
    unsigned header_count;
    bool http_1_0;
    bool close; /* the client wants the connection closed, or speaks 1.0 */
    bool expect_continue;
    bool chunked, has_content_length;
    uint64_t content_length;
};

/* Parse a head that head_scan() found whole: data[scan.start..scan.position). Header names are
 * lowered in place; the slices point into data. Returns 0, or the HTTP status of the refusal. */
int head_parse(char *data, size_t size, struct http_header *headers, struct head *head);

#endif
