/* The single ways to compute CRC64NVME, for the test that compares them. Everybody else calls
 * checksum_crc64nvme(), which takes the machine's best. */
#ifndef PENSTOCK_BASE_CRC64NVME_H
#define PENSTOCK_BASE_CRC64NVME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool crc64nvme_has_pclmul(void);
bool crc64nvme_has_vpclmul(void);
uint64_t crc64nvme_table(uint64_t crc, const void *data, size_t size);
uint64_t crc64nvme_pclmul(uint64_t crc, const void *data, size_t size);  /* only where it has */
uint64_t crc64nvme_vpclmul(uint64_t crc, const void *data, size_t size); /* only where it has */

#endif
