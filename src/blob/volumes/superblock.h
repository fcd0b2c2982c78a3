/* Who a volume is: one page at its start, and the same identity in the metadata, so that data and
 * metadata of different stores are never mixed up. The first SUPERBLOCK_AREA bytes of a volume hold
 * nothing else. The page, little-endian:
 *   0 magic "PENSTOCK", 8 format version u32, 12 volume number u16, 14 zero u16, 16 store uuid,
 *   32 volume uuid, 48 creation time u64 (ms since the epoch), zeros, 4092 CRC32C of bytes 0..4091
 */
#ifndef PENSTOCK_BLOB_VOLUMES_SUPERBLOCK_H
#define PENSTOCK_BLOB_VOLUMES_SUPERBLOCK_H

#include <stdint.h>

#include "blob/volumes/device.h"
#include "meta/meta.h"

#define SUPERBLOCK_AREA      (1u << 20)
#define SUPERBLOCK_SIZE      4096u
#define SUPERBLOCK_VERSION   1u
#define SUPERBLOCK_UUID_SIZE 16u

struct superblock {
    uint8_t store_uuid[SUPERBLOCK_UUID_SIZE];
    uint8_t volume_uuid[SUPERBLOCK_UUID_SIZE];
    uint64_t created_ms;
    uint16_t volume;
};

void superblock_encode(const struct superblock *superblock, uint8_t page[SUPERBLOCK_SIZE]);
/* ERR_NOT_FOUND: not a superblock at all; ERR_STORE_CORRUPT: damaged; ERR_UNSUPPORTED_FORMAT. */
int superblock_decode(const uint8_t page[SUPERBLOCK_SIZE], struct superblock *superblock);

/* Is this device the volume that the metadata knows? Blocking, changes nothing. ERR_NOT_FOUND when
 * the metadata knows none yet, ERR_STORE_CORRUPT when they do not belong together. */
int superblock_check(struct device *device, struct meta *meta);
/* The same, but a new store gets its identity here. A device that holds anything else is refused
 * with -EEXIST, and the log says so. */
int superblock_check_or_create(struct device *device, struct meta *meta);

#endif
