/* What x-amz-rdma-token asks for: the payload moves between pool blocks and the client's memory,
 * the HTTP exchange only says how it went. The protocol's answers are made here; how bytes move is
 * transfer/'s. */
#ifndef PENSTOCK_S3_ONE_SIDED_H
#define PENSTOCK_S3_ONE_SIDED_H

#include "s3/headers.h"
#include "s3/integrity.h"
#include "s3/receive.h"

/* The token, or the empty slice (data NULL). */
struct slice one_sided_token(const struct s3_request *req);
/* First thing of a PUT: with a token no body comes, whatever Content-Length says. */
void one_sided_expect_no_body(struct s3_request *req);

/* Pull the object out of the client's memory. A decline is ERR_RDMA_NOT_SUPPORTED, answered as
 * 501 without an ETag, so that the client sends the object again over HTTP. declared: as with
 * receive_await. */
int one_sided_receive_await(struct s3_request *req, struct slice token, struct integrity *integrity,
                            enum digest_kind declared, struct received *received);
void one_sided_respond(struct s3_request *req, const struct received *received);

/* Push the range into the client's memory and answer. *declined: the answer is still to be given,
 * over HTTP, with the whole body. */
int one_sided_send_await(struct s3_request *req, struct slice token, struct object *object,
                         const struct read_range *range, bool *declined);

#endif
