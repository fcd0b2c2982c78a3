/* The query of a request, parameter by parameter, as sent: without decoding it into memory. */
#ifndef PENSTOCK_AUTH_QUERY_H
#define PENSTOCK_AUTH_QUERY_H

#include "base/slice.h"

struct parameter {
    struct slice name, value; /* percent-encoded, as sent */
};

/* Takes the next parameter off the query. False at the end. */
bool query_next(struct slice *query, struct parameter *parameter);

/* Percent encoding as SigV4 wants it, byte by byte: what was sent is decoded and encoded again, so
 * that all ways to write a byte come out as one. */
struct encoder {
    struct slice rest;
    bool plus_is_space, keep_slash;
    char pending[2];
    unsigned pending_count;
};
struct encoder encoder_of_path(struct slice path);
struct encoder encoder_of_query(struct slice part);
int encoder_next(struct encoder *encoder); /* a byte, or -1 at the end */

bool escapes_valid(struct slice text);                   /* each % with two hex digits */
bool encoded_is(struct slice encoded, const char *text); /* equal once decoded; text is ASCII */
int encoded_compare(struct slice a, struct slice b);     /* the order of the canonical query */

#endif
