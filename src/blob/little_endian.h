/* Fixed-width integers in stored records: little-endian values, big-endian keys (so that the order
 * of bytes is the order of numbers). */
#ifndef PENSTOCK_BLOB_LITTLE_ENDIAN_H
#define PENSTOCK_BLOB_LITTLE_ENDIAN_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline void le_put_u16(uint8_t *out, uint16_t value) {
    value = htole16(value);
    memcpy(out, &value, sizeof(value));
}

static inline void le_put_u32(uint8_t *out, uint32_t value) {
    value = htole32(value);
    memcpy(out, &value, sizeof(value));
}

static inline void le_put_u64(uint8_t *out, uint64_t value) {
    value = htole64(value);
    memcpy(out, &value, sizeof(value));
}

static inline uint16_t le_get_u16(const void *in) {
    uint16_t value;
    memcpy(&value, in, sizeof(value));
    return le16toh(value);
}

static inline uint32_t le_get_u32(const void *in) {
    uint32_t value;
    memcpy(&value, in, sizeof(value));
    return le32toh(value);
}

static inline uint64_t le_get_u64(const void *in) {
    uint64_t value;
    memcpy(&value, in, sizeof(value));
    return le64toh(value);
}

static inline void be_put_u64(uint8_t *out, uint64_t value) {
    value = htobe64(value);
    memcpy(out, &value, sizeof(value));
}

static inline uint64_t be_get_u64(const void *in) {
    uint64_t value;
    memcpy(&value, in, sizeof(value));
    return be64toh(value);
}

#endif
