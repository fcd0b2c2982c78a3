/* Identity of the volume. At creation the metadata first learns who the volume will be (state
 * CREATING), then the page is written, then the state becomes READY: a crash anywhere between is
 * finished by the next start, and a page that the metadata never heard of belongs to someone else.
 */
#include "blob/volumes/superblock.h"

#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "blob/little_endian.h"

static const char magic[8] = "PENSTOCK";
#define PAGE_CRC_AT (SUPERBLOCK_SIZE - 4)

/* META_SYSTEM: version u16, state u16, volume number u16, zero u16, creation time u64, both uuids.
 */
#define IDENTITY_KEY     SLICE_LITERAL("blob/volume/0")
#define IDENTITY_SIZE    (16 + 2 * SUPERBLOCK_UUID_SIZE)
#define IDENTITY_VERSION 1
enum identity_state { STATE_CREATING = 1, STATE_READY = 2 };

void superblock_encode(const struct superblock *superblock, uint8_t page[SUPERBLOCK_SIZE]) {
    memset(page, 0, SUPERBLOCK_SIZE);
    memcpy(page, magic, sizeof(magic));
    le_put_u32(page + 8, SUPERBLOCK_VERSION);
    le_put_u16(page + 12, superblock->volume);
    memcpy(page + 16, superblock->store_uuid, SUPERBLOCK_UUID_SIZE);
    memcpy(page + 32, superblock->volume_uuid, SUPERBLOCK_UUID_SIZE);
    le_put_u64(page + 48, superblock->created_ms);
    le_put_u32(page + PAGE_CRC_AT, checksum_crc32c(0, page, PAGE_CRC_AT));
}

int superblock_decode(const uint8_t page[SUPERBLOCK_SIZE], struct superblock *superblock) {
    if (memcmp(page, magic, sizeof(magic))) return ERR_NOT_FOUND;
    if (le_get_u32(page + PAGE_CRC_AT) != checksum_crc32c(0, page, PAGE_CRC_AT))
        return ERR_STORE_CORRUPT;
    if (le_get_u32(page + 8) != SUPERBLOCK_VERSION) return ERR_UNSUPPORTED_FORMAT;
    *superblock = (struct superblock){
        .volume = le_get_u16(page + 12),
        .created_ms = le_get_u64(page + 48),
    };
    memcpy(superblock->store_uuid, page + 16, SUPERBLOCK_UUID_SIZE);
    memcpy(superblock->volume_uuid, page + 32, SUPERBLOCK_UUID_SIZE);
    return 0;
}

static bool same_volume(const struct superblock *a, const struct superblock *b) {
    return !memcmp(a->store_uuid, b->store_uuid, SUPERBLOCK_UUID_SIZE) &&
           !memcmp(a->volume_uuid, b->volume_uuid, SUPERBLOCK_UUID_SIZE) && a->volume == b->volume;
}

/* ---- the metadata's side */

struct identity {
    struct superblock superblock;
    enum identity_state state;
};

static int identity_read(struct meta_cursor *cursor, void *arg) {
    struct identity *identity = arg;
    meta_cursor_seek(cursor, IDENTITY_KEY);
    if (!meta_cursor_valid(cursor) || !slice_equal(meta_cursor_key(cursor), IDENTITY_KEY))
        return ERR_NOT_FOUND;
    struct slice value = meta_cursor_value(cursor);
    if (value.size < 2) return ERR_STORE_CORRUPT;
    if (le_get_u16(value.data) != IDENTITY_VERSION) return ERR_UNSUPPORTED_FORMAT;
    if (value.size != IDENTITY_SIZE) return ERR_STORE_CORRUPT;
    identity->state = le_get_u16(value.data + 2);
    identity->superblock.volume = le_get_u16(value.data + 4);
    identity->superblock.created_ms = le_get_u64(value.data + 8);
    memcpy(identity->superblock.store_uuid, value.data + 16, SUPERBLOCK_UUID_SIZE);
    memcpy(identity->superblock.volume_uuid, value.data + 32, SUPERBLOCK_UUID_SIZE);
    if (identity->state != STATE_CREATING && identity->state != STATE_READY)
        return ERR_STORE_CORRUPT;
    return 0;
}

static int identity_write(struct meta *meta, const struct identity *identity) {
    uint8_t value[IDENTITY_SIZE] = {0};
    le_put_u16(value, IDENTITY_VERSION);
    le_put_u16(value + 2, (uint16_t)identity->state);
    le_put_u16(value + 4, identity->superblock.volume);
    le_put_u64(value + 8, identity->superblock.created_ms);
    memcpy(value + 16, identity->superblock.store_uuid, SUPERBLOCK_UUID_SIZE);
    memcpy(value + 32, identity->superblock.volume_uuid, SUPERBLOCK_UUID_SIZE);
    struct meta_batch *batch = NULL;
    int err = meta_batch_create(&batch);
    if (err) return err;
    meta_batch_put(batch, META_SYSTEM, IDENTITY_KEY, (struct slice){(char *)value, sizeof(value)});
    err = meta_commit_blocking(meta, batch);
    meta_batch_destroy(&batch);
    return err;
}

/* ---- the device's side */

static bool all_zero(const uint8_t *data, size_t size) {
    return data[0] == 0 && memcmp(data, data + 1, size - 1) == 0;
}

/* Reads the start of the device into area, as zeros where it has not grown yet. */
static int read_area(struct device *device, uint8_t *area) {
    uint64_t size = device->size < SUPERBLOCK_AREA ? device->size : SUPERBLOCK_AREA;
    memset(area, 0, SUPERBLOCK_AREA);
    return size ? device_read_blocking(device, area, (uint32_t)size, 0) : 0;
}

static int write_page(struct device *device, const struct superblock *superblock, uint8_t *area) {
    int err = device_grow_blocking(device, SUPERBLOCK_AREA);
    if (err) return err;
    superblock_encode(superblock, area);
    err = device_write_blocking(device, area, SUPERBLOCK_SIZE, 0);
    return err ? err : device_flush_blocking(device);
}

static int begin_identity(struct meta *meta, const uint8_t *area, struct identity *identity) {
    if (!all_zero(area, SUPERBLOCK_AREA)) {
        struct superblock other;
        bool foreign = superblock_decode(area, &other) != ERR_NOT_FOUND;
        log_error(foreign ? "the volume belongs to another Penstock store than the metadata; "
                            "nothing was changed"
                          : "the volume holds other data; wipe its first MiB to give it to "
                            "Penstock; nothing was changed");
        return -EEXIST;
    }
    identity->state = STATE_CREATING;
    identity->superblock.created_ms = (uint64_t)clock_wall_ms();
    random_bytes(identity->superblock.store_uuid, SUPERBLOCK_UUID_SIZE);
    random_bytes(identity->superblock.volume_uuid, SUPERBLOCK_UUID_SIZE);
    return identity_write(meta, identity);
}

static int compare(const uint8_t *area, const struct identity *identity) {
    struct superblock found;
    int err = superblock_decode(area, &found);
    if (err == ERR_UNSUPPORTED_FORMAT) return err;
    if (err)
        log_error("the volume has no valid superblock");
    else if (!same_volume(&found, &identity->superblock))
        log_error("the volume belongs to another Penstock store than the metadata");
    else
        return 0;
    return ERR_STORE_CORRUPT;
}

static int check(struct device *device, struct meta *meta, bool create, uint8_t *area) {
    struct identity identity = {0};
    int err = read_area(device, area);
    if (err) return err;
    err = meta_scan_blocking(meta, META_SYSTEM, identity_read, &identity);
    if (err == ERR_NOT_FOUND && create) err = begin_identity(meta, area, &identity);
    if (err) return err;
    if (!create || identity.state == STATE_READY) return compare(area, &identity);

    struct superblock found;
    if (superblock_decode(area, &found) == 0 && !same_volume(&found, &identity.superblock))
        return compare(area, &identity);
    err = write_page(device, &identity.superblock, area);
    identity.state = STATE_READY;
    return err ? err : identity_write(meta, &identity);
}

static int check_with_buffer(struct device *device, struct meta *meta, bool create) {
    uint8_t *area = aligned_alloc(DEVICE_ALIGNMENT, SUPERBLOCK_AREA);
    int err = area ? check(device, meta, create, area) : -ENOMEM;
    free(area);
    return err;
}

int superblock_check(struct device *device, struct meta *meta) {
    return check_with_buffer(device, meta, false);
}

int superblock_check_or_create(struct device *device, struct meta *meta) {
    return check_with_buffer(device, meta, true);
}
