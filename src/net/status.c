/* Status lines and the refusals of net itself. */
#include "net/status.h"

#include <stddef.h>

struct status_text {
    int status;
    const char *reason;
    const char *code, *message; /* NULL where net never refuses with it */
};

static const struct status_text texts[] = {
    {200, "OK", NULL, NULL},
    {201, "Created", NULL, NULL},
    {202, "Accepted", NULL, NULL},
    {204, "No Content", NULL, NULL},
    {206, "Partial Content", NULL, NULL},
    {301, "Moved Permanently", NULL, NULL},
    {302, "Found", NULL, NULL},
    {303, "See Other", NULL, NULL},
    {304, "Not Modified", NULL, NULL},
    {307, "Temporary Redirect", NULL, NULL},
    {400, "Bad Request", "InvalidRequest", "The request is not well-formed HTTP."},
    {401, "Unauthorized", NULL, NULL},
    {403, "Forbidden", NULL, NULL},
    {404, "Not Found", NULL, NULL},
    {405, "Method Not Allowed", NULL, NULL},
    {408, "Request Timeout", "RequestTimeout",
     "The request's head did not arrive within the timeout period."},
    {409, "Conflict", NULL, NULL},
    {411, "Length Required", NULL, NULL},
    {412, "Precondition Failed", NULL, NULL},
    {413, "Content Too Large", NULL, NULL},
    {414, "URI Too Long", "KeyTooLongError", "The request's target is too long."},
    {416, "Range Not Satisfiable", NULL, NULL},
    {417, "Expectation Failed", "InvalidRequest", "The expectation cannot be met."},
    {429, "Too Many Requests", NULL, NULL},
    {431, "Request Header Fields Too Large", "RequestHeaderSectionTooLarge",
     "The request's headers exceed the maximum allowed size or number."},
    {500, "Internal Server Error", "InternalError",
     "We encountered an internal error. Please try again."},
    {501, "Not Implemented", "NotImplemented",
     "The method or transfer coding of the request is not implemented."},
    {502, "Bad Gateway", NULL, NULL},
    {503, "Service Unavailable", "SlowDown", "Please reduce your request rate."},
    {504, "Gateway Timeout", NULL, NULL},
    {505, "HTTP Version Not Supported", "NotImplemented", "Only HTTP/1.1 and 1.0 are spoken here."},
    {507, "Insufficient Storage", NULL, NULL},
};

static const struct status_text *find(int status) {
    static const struct status_text unknown = {0, "Unknown", "InternalError", "Unknown"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (texts[i].status == status) return &texts[i];
    }
    return &unknown;
}

const char *status_reason(int status) {
    return find(status)->reason;
}

const char *status_code(int status) {
    const char *code = find(status)->code;
    return code ? code : "InternalError";
}

const char *status_message(int status) {
    const char *message = find(status)->message;
    return message ? message : status_reason(status);
}
