/* From a secret key to a signature: signing keys, with their cache, and the string to sign. */
#ifndef PENSTOCK_AUTH_SIGNATURE_H
#define PENSTOCK_AUTH_SIGNATURE_H

#include "auth/auth.h"

#define SIGNATURE_SIZE 64 /* hexadecimal digits */
#define EMPTY_SHA256   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* scope: DAY/REGION/SERVICE/aws4_request. The key is derived, or comes from this thread's cache. */
void signing_key(const struct identity *identity, const char *scope, struct hmac_key *key);

/* Signs the lines algorithm, date, scope and rest; rest may hold several lines and ends in none. */
void signature_of(const struct hmac_key *key, const char *algorithm, const char *date,
                  const char *scope, struct slice rest, char hex[SIGNATURE_SIZE + 1]);

#endif
