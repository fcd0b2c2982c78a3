/* One-time tickets: what ties a connection on the same-host socket to the identity that signed an
 * HTTP request. Thread-safe. */
#ifndef PENSTOCK_TRANSFER_SHM_TICKETS_H
#define PENSTOCK_TRANSFER_SHM_TICKETS_H

#include "base/shm_wire.h"
#include "transfer/transfer.h"

#define SHM_TICKET_LIFE_S 30

struct shm_tickets;

/* identity_limit: outstanding ones of one identity; beyond it, its oldest is forgotten. */
int shm_tickets_create(unsigned identity_limit, struct shm_tickets **tickets);
void shm_tickets_destroy(struct shm_tickets **tickets);

/* ERR_SLOW_DOWN when too many tickets are outstanding in all; -EINVAL: the identity is too long. */
int shm_tickets_issue(struct shm_tickets *tickets, const char *identity, uint64_t now_ns,
                      uint8_t ticket[SHM_TICKET_SIZE]);

/* Use a ticket up. ERR_ACCESS_DENIED when it is unknown, used or expired; they look the same. */
int shm_tickets_redeem(struct shm_tickets *tickets, const uint8_t ticket[SHM_TICKET_SIZE],
                       uint64_t now_ns, char identity[TRANSFER_IDENTITY_MAX + 1]);

#endif
