/* The access keys that this server knows, sorted, so that a look-up is a binary search. Filled at
 * start and never changed after it; that makes it safe for all threads without a lock. */
#include <stdlib.h>

#include "auth/auth.h"
#include "base/error.h"

struct keyring {
    struct identity **identities; /* each on its own: pointers stay valid while the ring grows */
    size_t count;
};

int keyring_create(struct keyring **keyring) {
    *keyring = calloc(1, sizeof(**keyring));
    return *keyring ? 0 : -ENOMEM;
}

/* Where the key stands, or would stand. */
static size_t keyring_position(const struct keyring *keyring, struct slice access_key) {
    size_t low = 0, high = keyring->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (slice_compare(slice_of(keyring->identities[middle]->access_key), access_key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct identity *keyring_find(const struct keyring *keyring, struct slice access_key) {
    size_t at = keyring_position(keyring, access_key);
    if (at == keyring->count) return NULL;
    const struct identity *identity = keyring->identities[at];
    return slice_is(access_key, identity->access_key) ? identity : NULL;
}

/* What can stand in a credential: visible ASCII, and no '/' or ',', which separate its parts. */
static bool access_key_valid(struct slice key) {
    if (key.size == 0 || key.size > ACCESS_KEY_MAX) return false;
    for (size_t i = 0; i < key.size; i++)
        if (key.data[i] <= ' ' || key.data[i] > '~' || key.data[i] == '/' || key.data[i] == ',')
            return false;
    return true;
}

int keyring_add(struct keyring *keyring, const char *access_key, const char *secret_key) {
    struct slice access = slice_of(access_key), secret = slice_of(secret_key);
    if (!access_key_valid(access)) return -EINVAL;
    if (secret.size == 0 || secret.size > SECRET_KEY_MAX) return -EINVAL;
    if (keyring_find(keyring, access)) return -EINVAL;

    size_t bytes = (keyring->count + 1) * sizeof(*keyring->identities);
    struct identity **grown = realloc(keyring->identities, bytes);
    if (!grown) return -ENOMEM;
    keyring->identities = grown;
    struct identity *identity = calloc(1, sizeof(*identity));
    if (!identity) return -ENOMEM;
    memcpy(identity->access_key, access.data, access.size);
    memcpy(identity->secret_key, secret.data, secret.size);

    size_t at = keyring_position(keyring, access);
    memmove(grown + at + 1, grown + at, (keyring->count - at) * sizeof(*grown));
    grown[at] = identity;
    keyring->count++;
    return 0;
}

void keyring_destroy(struct keyring **keyring) {
    if (!*keyring) return;
    for (size_t i = 0; i < (*keyring)->count; i++) {
        explicit_bzero((*keyring)->identities[i], sizeof(struct identity));
        free((*keyring)->identities[i]);
    }
    free((*keyring)->identities);
    free(*keyring);
    *keyring = NULL;
}
