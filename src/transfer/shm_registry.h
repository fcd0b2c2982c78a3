/* Who has registered what: sessions (one for each connected client, bound to an identity) and
 * their regions (mapped memory). Looked up from every reactor under one short lock; a region stays
 * mapped while somebody holds a reference, and says when its session has ended. */
#ifndef PENSTOCK_TRANSFER_SHM_REGISTRY_H
#define PENSTOCK_TRANSFER_SHM_REGISTRY_H

#include <stdatomic.h>
#include <stdint.h>
#include <uthash.h>

#include "runtime/reactor.h"
#include "transfer/transfer.h"

#define SHM_REGIONS_PER_SESSION 1024  /* registrations of one client */
#define SHM_REGIONS_TOTAL       16384 /* well below the kernel's 65,530 mappings a process */

struct shm_registry;
struct shm_session;

struct shm_region {
    struct shm_region_key {
        uint64_t session, region;
    } key;
    uint8_t *base;
    uint64_t length;
    atomic_bool gone; /* unregistered, or its session has ended: stop using it */
    atomic_uint refs;
    struct shm_session *session; /* valid while the registry has the region */
    struct shm_registry *registry;
    struct shm_region *prev, *next; /* of the session */
    UT_hash_handle hh;
    struct message message; /* these two: for whoever unmaps it */
    void *owner;
};

/* Called without the lock, from any thread, when the last reference is dropped: the region is the
 * callee's to unmap and free(). */
typedef void shm_release_fn(void *ctx, struct shm_region *region);

int shm_registry_create(const struct transfer_options *limits, shm_release_fn *release, void *ctx,
                        struct shm_registry **registry);
void shm_registry_destroy(struct shm_registry **registry); /* no sessions, no references left */

/* ERR_SLOW_DOWN at a limit of sessions. */
int shm_session_open(struct shm_registry *registry, const char *identity,
                     struct shm_session **session);
/* Its regions are found no more; nulls. */
void shm_session_close(struct shm_registry *registry, struct shm_session **session);
uint64_t shm_session_id(const struct shm_session *session);

/* Would a region of this length fit the session's limits? */
bool shm_session_has_room(struct shm_registry *registry, const struct shm_session *session,
                          uint64_t length);
/* Add a mapping; the registry owns it from here on. -ENOMEM: nothing was added. */
int shm_region_add(struct shm_registry *registry, struct shm_session *session, void *base,
                   uint64_t length, uint64_t *region);
bool shm_region_remove(struct shm_registry *registry, struct shm_session *session, uint64_t region);

/* A reference to the region, or NULL: *known_session tells an unknown region from an unknown
 * session. A session of another identity is as unknown as any. */
struct shm_region *shm_region_find(struct shm_registry *registry, struct shm_region_key key,
                                   const char *identity, bool *known_session);
void shm_region_unref(struct shm_region **region); /* nulls */

void shm_registry_count(struct shm_registry *registry, struct transfer_stats *stats);

#endif
