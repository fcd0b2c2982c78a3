/* A fixed table of tickets. It is searched whole for each redemption, in constant time for each
 * entry: connecting is rare, and nothing about a near miss may show. */
#include "transfer/shm_tickets.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/error.h"

#define TICKET_LIMIT 2048

struct ticket {
    uint8_t secret[SHM_TICKET_SIZE];
    uint64_t expires_ns; /* 0: the entry is free */
    char identity[TRANSFER_IDENTITY_MAX + 1];
};

struct shm_tickets {
    pthread_mutex_t lock;
    unsigned identity_limit;
    struct ticket entries[TICKET_LIMIT];
};

int shm_tickets_create(unsigned identity_limit, struct shm_tickets **tickets) {
    assert(identity_limit > 0);
    struct shm_tickets *t = calloc(1, sizeof(*t));
    if (!t) return -ENOMEM;
    pthread_mutex_init(&t->lock, NULL);
    t->identity_limit = identity_limit;
    *tickets = t;
    return 0;
}

void shm_tickets_destroy(struct shm_tickets **tickets) {
    if (!*tickets) return;
    pthread_mutex_destroy(&(*tickets)->lock);
    free(*tickets);
    *tickets = NULL;
}

/* Where the next ticket of this identity goes, or NULL. Expired ones are freed on the way. */
static struct ticket *choose_entry(struct shm_tickets *t, const char *identity, uint64_t now_ns) {
    struct ticket *available = NULL, *oldest = NULL;
    unsigned own = 0;
    for (struct ticket *e = t->entries; e < t->entries + TICKET_LIMIT; e++) {
        if (e->expires_ns && e->expires_ns <= now_ns) *e = (struct ticket){0};
        if (!e->expires_ns) {
            if (!available) available = e;
        } else if (strcmp(e->identity, identity) == 0) {
            own++;
            if (!oldest || e->expires_ns < oldest->expires_ns) oldest = e;
        }
    }
    return own >= t->identity_limit ? oldest : available;
}

int shm_tickets_issue(struct shm_tickets *tickets, const char *identity, uint64_t now_ns,
                      uint8_t ticket[SHM_TICKET_SIZE]) {
    size_t size = strlen(identity);
    if (size > TRANSFER_IDENTITY_MAX) return -EINVAL;
    random_bytes(ticket, SHM_TICKET_SIZE);
    pthread_mutex_lock(&tickets->lock);
    struct ticket *entry = choose_entry(tickets, identity, now_ns);
    if (entry) {
        memcpy(entry->secret, ticket, SHM_TICKET_SIZE);
        memcpy(entry->identity, identity, size + 1);
        entry->expires_ns = now_ns + SHM_TICKET_LIFE_S * NS_PER_S;
    }
    pthread_mutex_unlock(&tickets->lock);
    return entry ? 0 : ERR_SLOW_DOWN;
}

int shm_tickets_redeem(struct shm_tickets *tickets, const uint8_t ticket[SHM_TICKET_SIZE],
                       uint64_t now_ns, char identity[TRANSFER_IDENTITY_MAX + 1]) {
    struct ticket *found = NULL;
    pthread_mutex_lock(&tickets->lock);
    for (struct ticket *e = tickets->entries; e < tickets->entries + TICKET_LIMIT; e++) {
        bool equal = constant_time_equal(e->secret, ticket, SHM_TICKET_SIZE);
        if (equal && e->expires_ns > now_ns) found = e;
    }
    if (found) {
        memcpy(identity, found->identity, sizeof(found->identity));
        *found = (struct ticket){0};
    }
    pthread_mutex_unlock(&tickets->lock);
    return found ? 0 : ERR_ACCESS_DENIED;
}
