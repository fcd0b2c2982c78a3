/* A fast keyed hash of (space, key) for the tables in memory. Clients choose the keys, so the seed
 * is random for each table: nobody outside can aim at one bucket. Never stored. */
#ifndef PENSTOCK_META_KEY_HASH_H
#define PENSTOCK_META_KEY_HASH_H

#include <stdint.h>

#include "meta/meta.h"

static inline uint64_t key_hash_fold(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t key_hash(const uint64_t seed[2], enum meta_space space, struct slice key) {
    uint64_t hash = seed[0] ^ key.size ^ ((uint64_t)space << 32);
    size_t at = 0;
    for (; at + 8 <= key.size; at += 8) {
        uint64_t word;
        memcpy(&word, key.data + at, 8);
        hash = key_hash_fold(hash ^ word, seed[1] | 1) + seed[0];
    }
    uint64_t tail = 0;
    if (at < key.size) memcpy(&tail, key.data + at, key.size - at);
    hash = key_hash_fold(hash ^ tail, seed[1] | 1) + seed[0];
    return key_hash_fold(hash ^ (hash >> 32), 0x9e3779b97f4a7c15ull);
}

#endif
