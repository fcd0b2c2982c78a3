/* Continuation tokens: where a listing goes on. Opaque to clients, and checked, so that a made-up
 * one is an error and not a place in the middle of nowhere. */
#ifndef PENSTOCK_S3_PAGE_TOKEN_H
#define PENSTOCK_S3_PAGE_TOKEN_H

#include "s3/request.h"

/* base64url of CRC32C and name. */
void page_token_append(struct text *out, struct slice after);
/* Appends the name to out. ERR_INVALID_ARGUMENT, -ENOMEM. */
int page_token_decode(struct slice token, struct text *out);
/* The same of a query parameter; absent or empty leaves out as it is. */
int page_token_parameter(struct s3_request *req, const char *name, struct text *out);

#endif
