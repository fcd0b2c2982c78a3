/* The canonical request of SigV4, as its SHA-256: what both ends of a signature must agree on. */
#ifndef PENSTOCK_AUTH_CANONICAL_H
#define PENSTOCK_AUTH_CANONICAL_H

#include "auth/auth.h"

/* The first header of that name (lower case), or NULL. */
const struct auth_header *header_find(const struct auth_request *request, struct slice name);

/* Takes the next name off a list separated by ';'. False at the end. */
bool signed_headers_next(struct slice *list, struct slice *name);
bool signed_headers_contain(struct slice list, struct slice name);

/* signed_headers: the list in its canonical form. X-Amz-Signature is left out of the query. Errors:
 * ERR_INVALID_URI; ERR_SIGNATURE_MISMATCH when a signed header is not there. */
int canonical_hash(const struct auth_request *request, struct slice signed_headers,
                   struct slice payload_hash, char hex[2 * SHA256_SIZE + 1]);

#endif
