/* The CRC of a whole object from the CRCs of its parts, without reading a byte again. */
#ifndef PENSTOCK_OBJECT_CHECKSUM_COMBINE_H
#define PENSTOCK_OBJECT_CHECKSUM_COMBINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/checksum.h"

/* Only CRCs can be combined. */
bool checksum_can_combine(enum digest_kind kind);
/* value (of a) becomes the value of a+b; both as S3 writes them, big-endian. */
void checksum_combine(enum digest_kind kind, uint8_t *value, const uint8_t *value_b,
                      uint64_t size_b);

#endif
