/* From an error code to what S3 clients understand. */
#ifndef PENSTOCK_S3_ERRORS_H
#define PENSTOCK_S3_ERRORS_H

#include "s3/request.h"

struct s3_error {
    int err;
    int status;
    const char *code;
};

/* Never NULL: what S3 has no name for is InternalError. */
const struct s3_error *errors_find(int err);
/* Answer the error, if it can still be answered; otherwise the connection is closed. */
void errors_respond_await(struct s3_request *req, int err);
/* <Code> and <Message> of an error about one key of many. */
void errors_append_code(struct text *xml, int err);

#endif
