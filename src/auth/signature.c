/* Signing keys are four HMACs away from the secret and hold for a day, so each thread keeps those
 * it used last. A thread's cache needs no lock; an entry is found by everything that the key
 * depends on, so a changed secret never meets an old key. */
#include "auth/signature.h"

#include <assert.h>
#include <stdio.h>

#include "base/encode.h"

#define CACHE_ENTRIES 32 /* a power of two */

struct cached_key {
    char secret[SECRET_KEY_MAX + 1];
    char scope[sizeof(((struct auth_result *)0)->scope)];
    struct hmac_key key;
};

static uint32_t text_hash(uint32_t hash, const char *text) {
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

/* kSigning = HMAC(HMAC(HMAC(HMAC("AWS4" + secret, day), region), service), "aws4_request") */
static void key_derive(const char *secret, const char *scope, struct hmac_key *key) {
    char seed[4 + SECRET_KEY_MAX + 1];
    uint8_t mac[SHA256_SIZE];
    int size = snprintf(seed, sizeof(seed), "AWS4%s", secret);
    hmac_key_init(key, seed, (size_t)size);
    for (;;) {
        size_t part = strcspn(scope, "/");
        hmac_sha256(key, scope, part, mac);
        hmac_key_init(key, mac, sizeof(mac));
        if (scope[part] == '\0') break;
        scope += part + 1;
    }
    explicit_bzero(seed, sizeof(seed));
    explicit_bzero(mac, sizeof(mac));
}

void signing_key(const struct identity *identity, const char *scope, struct hmac_key *key) {
    static _Thread_local struct cached_key cache[CACHE_ENTRIES];
    uint32_t hash = text_hash(text_hash(2166136261u, identity->access_key), scope);
    struct cached_key *entry = &cache[(hash ^ hash >> 16) % CACHE_ENTRIES];
    assert(strlen(scope) < sizeof(entry->scope));

    if (strcmp(entry->scope, scope) != 0 || strcmp(entry->secret, identity->secret_key) != 0) {
        strcpy(entry->secret, identity->secret_key);
        strcpy(entry->scope, scope);
        key_derive(entry->secret, entry->scope, &entry->key);
    }
    *key = entry->key;
}

/* A few short pieces for each request: joined by hand, because printf takes longer than the hash.
 */
static size_t put_line(char *text, size_t size, struct slice line) {
    memcpy(text + size, line.data, line.size);
    text[size + line.size] = '\n';
    return size + line.size + 1;
}

void signature_of(const struct hmac_key *key, const char *algorithm, const char *date,
                  const char *scope, struct slice rest, char hex[SIGNATURE_SIZE + 1]) {
    char text[512];
    uint8_t mac[SHA256_SIZE];
    struct slice lines[] = {slice_of(algorithm), slice_of(date), slice_of(scope)};
    size_t size = 0;
    assert(lines[0].size + lines[1].size + lines[2].size + rest.size + 3 <= sizeof(text));
    for (unsigned i = 0; i < 3; i++) size = put_line(text, size, lines[i]);
    memcpy(text + size, rest.data, rest.size);
    hmac_sha256(key, text, size + rest.size, mac);
    hex_encode(mac, sizeof(mac), hex);
}
