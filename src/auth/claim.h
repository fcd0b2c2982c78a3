/* What a request says about who signed it, parsed and checked for form, not yet for truth. */
#ifndef PENSTOCK_AUTH_CLAIM_H
#define PENSTOCK_AUTH_CLAIM_H

#include "auth/auth.h"

#define CLAIM_EXPIRES_MAX 604800u /* seconds */

struct claim {
    bool presigned;
    struct slice access_key, day, region, service, scope; /* of the credential */
    struct slice signed_headers, signature;
    struct slice content_sha256; /* presigned: X-Amz-Content-Sha256, if there */
    int64_t date_ms;
    uint64_t expires_s; /* presigned */
    /* private: decoded parameters, which the slices above point into */
    char decoded[4096];
    size_t decoded_size;
};

/* The slices point into the request or into the claim. Errors and *detail: as auth_verify(). */
int claim_parse(const struct auth_request *request, struct claim *claim, const char **detail);

#endif
