/* The tables behind tokens. Ids are random, so that a token of an earlier run of the server, or of
 * a session that ended, names nothing; they are not secrets, the identity is what counts. */
#include "transfer/shm_registry.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#include "base/checksum.h"
#include "base/error.h"

struct shm_session {
    uint64_t id;
    char identity[TRANSFER_IDENTITY_MAX + 1];
    struct shm_region *regions;
    unsigned region_count;
    uint64_t registered_bytes;
    UT_hash_handle hh;
};

struct shm_registry {
    pthread_mutex_t lock; /* over everything below; held for a few table steps, never over a wait */
    struct shm_session *sessions; /* hash by id */
    struct shm_region *regions;   /* hash by key */
    uint64_t registered_bytes;
    struct transfer_options limits;
    shm_release_fn *release;
    void *ctx;
};

int shm_registry_create(const struct transfer_options *limits, shm_release_fn *release, void *ctx,
                        struct shm_registry **registry) {
    struct shm_registry *r = calloc(1, sizeof(*r));
    if (!r) return -ENOMEM;
    pthread_mutex_init(&r->lock, NULL);
    r->limits = *limits;
    r->release = release;
    r->ctx = ctx;
    *registry = r;
    return 0;
}

void shm_registry_destroy(struct shm_registry **registry) {
    struct shm_registry *r = *registry;
    if (!r) return;
    assert(!r->sessions && !r->regions);
    pthread_mutex_destroy(&r->lock);
    free(r);
    *registry = NULL;
}

static unsigned sessions_of(struct shm_registry *r, const char *identity) {
    unsigned count = 0;
    for (struct shm_session *s = r->sessions; s; s = s->hh.next)
        if (strcmp(s->identity, identity) == 0) count++;
    return count;
}

int shm_session_open(struct shm_registry *registry, const char *identity,
                     struct shm_session **session) {
    struct shm_session *s = calloc(1, sizeof(*s));
    if (!s) return -ENOMEM;
    size_t size = strlen(identity);
    assert(size <= TRANSFER_IDENTITY_MAX);
    memcpy(s->identity, identity, size + 1);
    random_bytes(&s->id, sizeof(s->id));

    pthread_mutex_lock(&registry->lock);
    struct shm_session *same = NULL;
    HASH_FIND(hh, registry->sessions, &s->id, sizeof(s->id), same);
    bool fits = !same && HASH_COUNT(registry->sessions) < registry->limits.session_limit &&
                sessions_of(registry, identity) < registry->limits.session_limit_identity;
    if (fits) HASH_ADD(hh, registry->sessions, id, sizeof(s->id), s);
    pthread_mutex_unlock(&registry->lock);
    if (!fits) {
        free(s);
        return ERR_SLOW_DOWN;
    }
    *session = s;
    return 0;
}

/* With the lock held. The registry's own reference goes to the caller. */
static void take_out(struct shm_registry *r, struct shm_session *session,
                     struct shm_region *region) {
    HASH_DELETE(hh, r->regions, region);
    DL_DELETE(session->regions, region);
    session->region_count--;
    session->registered_bytes -= region->length;
    r->registered_bytes -= region->length;
    region->session = NULL;
    atomic_store(&region->gone, true);
}

void shm_session_close(struct shm_registry *registry, struct shm_session **session) {
    struct shm_session *s = *session;
    if (!s) return;
    *session = NULL;
    pthread_mutex_lock(&registry->lock);
    HASH_DELETE(hh, registry->sessions, s);
    struct shm_region *ended = NULL, *region;
    while ((region = s->regions)) {
        take_out(registry, s, region);
        DL_APPEND(ended, region);
    }
    pthread_mutex_unlock(&registry->lock);
    assert(s->region_count == 0 && s->registered_bytes == 0);
    free(s);
    while ((region = ended)) {
        DL_DELETE(ended, region);
        shm_region_unref(&region);
    }
}

uint64_t shm_session_id(const struct shm_session *session) {
    return session->id;
}

bool shm_session_has_room(struct shm_registry *registry, const struct shm_session *session,
                          uint64_t length) {
    uint64_t limit = registry->limits.registered_limit_bytes;
    pthread_mutex_lock(&registry->lock);
    bool fits = session->region_count < SHM_REGIONS_PER_SESSION &&
                HASH_COUNT(registry->regions) < SHM_REGIONS_TOTAL && length <= limit &&
                session->registered_bytes <= limit - length;
    pthread_mutex_unlock(&registry->lock);
    return fits;
}

int shm_region_add(struct shm_registry *registry, struct shm_session *session, void *base,
                   uint64_t length, uint64_t *region) {
    struct shm_region *new = calloc(1, sizeof(*new));
    if (!new) return -ENOMEM;
    new->base = base;
    new->length = length;
    new->session = session;
    new->registry = registry;
    new->key.session = session->id;
    atomic_init(&new->refs, 1);

    pthread_mutex_lock(&registry->lock);
    struct shm_region *same;
    do {
        random_bytes(&new->key.region, sizeof(new->key.region));
        HASH_FIND(hh, registry->regions, &new->key, sizeof(new->key), same);
    } while (same);
    HASH_ADD(hh, registry->regions, key, sizeof(new->key), new);
    DL_APPEND(session->regions, new);
    session->region_count++;
    session->registered_bytes += length;
    registry->registered_bytes += length;
    *region = new->key.region;
    pthread_mutex_unlock(&registry->lock);
    return 0;
}

bool shm_region_remove(struct shm_registry *registry, struct shm_session *session,
                       uint64_t region) {
    struct shm_region_key key = {session->id, region};
    struct shm_region *found = NULL;
    pthread_mutex_lock(&registry->lock);
    HASH_FIND(hh, registry->regions, &key, sizeof(key), found);
    if (found) take_out(registry, session, found);
    pthread_mutex_unlock(&registry->lock);
    if (!found) return false;
    shm_region_unref(&found);
    return true;
}

struct shm_region *shm_region_find(struct shm_registry *registry, struct shm_region_key key,
                                   const char *identity, bool *known_session) {
    struct shm_region *region = NULL;
    struct shm_session *session = NULL;
    pthread_mutex_lock(&registry->lock);
    HASH_FIND(hh, registry->sessions, &key.session, sizeof(key.session), session);
    *known_session = session && strcmp(session->identity, identity) == 0;
    if (*known_session) HASH_FIND(hh, registry->regions, &key, sizeof(key), region);
    if (region) atomic_fetch_add(&region->refs, 1);
    pthread_mutex_unlock(&registry->lock);
    return region;
}

void shm_region_unref(struct shm_region **region) {
    struct shm_region *r = *region;
    *region = NULL;
    unsigned before = atomic_fetch_sub(&r->refs, 1);
    assert(before > 0);
    if (before == 1) r->registry->release(r->registry->ctx, r);
}

void shm_registry_count(struct shm_registry *registry, struct transfer_stats *stats) {
    pthread_mutex_lock(&registry->lock);
    stats->sessions += HASH_COUNT(registry->sessions);
    stats->regions += HASH_COUNT(registry->regions);
    stats->registered_bytes += registry->registered_bytes;
    pthread_mutex_unlock(&registry->lock);
}
