/* What goes with an HTTP status: its reason phrase, and for the refusals that net itself gives, the
 * S3 error code and a sentence. */
#ifndef PENSTOCK_NET_STATUS_H
#define PENSTOCK_NET_STATUS_H

const char *status_reason(int status);  /* "OK"; never NULL */
const char *status_code(int status);    /* "InvalidRequest" */
const char *status_message(int status); /* a sentence for a person */

/* A whole response, for refusals before there is a fiber to send one. */
#define STATUS_BUSY_XML                                                                            \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"                                                 \
    "<Error><Code>SlowDown</Code><Message>The server has no room for another "                     \
    "request.</Message></Error>"
#define STATUS_BUSY_RESPONSE                                                                       \
    "HTTP/1.1 503 Service Unavailable\r\nServer: penstock\r\nContent-Type: application/xml\r\n"    \
    "Content-Length: 137\r\nRetry-After: 1\r\nConnection: close\r\n\r\n" STATUS_BUSY_XML
_Static_assert(sizeof STATUS_BUSY_XML - 1 == 137, "as declared in the response");

#endif
