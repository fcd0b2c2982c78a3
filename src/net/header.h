/* A header line of a request, and the limits of a request's head. A file of its own because the
 * head parser must not see http.h: http-parser's own header claims the same names. */
#ifndef PENSTOCK_NET_HEADER_H
#define PENSTOCK_NET_HEADER_H

#include "base/slice.h"

/* S3 allows 8 KiB of headers, 2 KiB of metadata among them; presigned targets and proxies add. */
#define HTTP_HEAD_MAX    (32u * 1024)
#define HTTP_HEADERS_MAX 100
/* A key of 1,024 bytes, each of them escaped, and a long query. */
#define HTTP_TARGET_MAX (8u * 1024)

struct http_header {
    struct slice name;  /* lower case */
    struct slice value; /* trimmed */
};

#endif
