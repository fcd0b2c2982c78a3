/* Hexadecimal, base64 and percent encoding, and the UTF-8 check. Decoders reject what they do not
 * understand: they return the decoded size, or -1. */
#ifndef PENSTOCK_BASE_ENCODE_H
#define PENSTOCK_BASE_ENCODE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/slice.h"

void hex_encode(const void *data, size_t size, char *out);        /* lower case; 2*size + NUL */
ssize_t hex_decode(struct slice hex, void *out, size_t capacity); /* either case */
int hex_digit(char c);                                            /* its value, or -1 */
bool hex_to_u64(struct slice hex, uint64_t *value);               /* 1 to 16 digits */

#define BASE64_SIZE(n) (((n) + 2) / 3 * 4 + 1)
void base64_encode(const void *data, size_t size, char *out); /* padded; BASE64_SIZE(size) */
ssize_t base64_decode(struct slice text, void *out, size_t capacity); /* padding required */

bool uri_is_unreserved(char c); /* letters, digits and - . _ ~ */

/* Decode %XX in place; '+' becomes a space when plus_is_space. Returns the new size, or -1 for a
 * broken escape. */
ssize_t uri_decode(char *data, size_t size, bool plus_is_space);

/* Well-formed UTF-8: no overlong forms, no surrogates, nothing past U+10FFFF. A NUL is valid. */
bool utf8_valid(struct slice text);

#endif
