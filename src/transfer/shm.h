/* Private to the shm kind: what its listener, its sessions and its table of functions share. All of
 * the socket side lives on reactor 0, so the fields here need no lock; the registry and the tickets
 * have their own. */
#ifndef PENSTOCK_TRANSFER_SHM_H
#define PENSTOCK_TRANSFER_SHM_H

#include <sys/un.h>

#include "transfer/kind.h"
#include "transfer/shm_registry.h"
#include "transfer/shm_tickets.h"

/* Connections that have not yet shown a ticket, beyond the limit of sessions. */
#define SHM_STRANGERS_LIMIT 64
/* A message must be whole, a stranger must have spoken, and an answer must be taken by then. */
#define SHM_MESSAGE_TIMEOUT_MS 5000

enum { SHM_BY_PATH, SHM_BY_NAME, SHM_LISTENERS };

struct shm_connection {
    struct shm *shm;
    struct fiber *fiber; /* NULL until it runs */
    int fd;
    struct shm_session *session; /* NULL until WELCOME */
    struct shm_connection *prev, *next;
};

struct shm {
    struct reactor *home; /* reactor 0 */
    struct transfer_options limits;
    struct shm_tickets *tickets;
    struct shm_registry *registry;

    int listen_fds[SHM_LISTENERS]; /* -1: not listening there */
    struct io_accept accepts[SHM_LISTENERS];
    unsigned accepting; /* of them, those that have not had their last call */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)]; /* "" when there is none */
    char name[40];                                          /* abstract */
    char host[64];                                          /* boot id: tells hosts apart */

    unsigned cores;
    atomic_uint moving; /* moves under way, on any reactor */

    struct shm_connection *connections;
    unsigned connection_count;
    uint64_t mapped; /* regions that are mapped, registered or not */
    bool stopping;
    struct fiber_queue stopper;
};

/* shm_listener.c. open: from outside the reactors. */
int shm_listener_open(struct shm *shm, const char *socket_directory);
void shm_listener_close(struct shm *shm); /* closes the sockets, removes the path */
void shm_listener_begin(struct shm *shm); /* on reactor 0 */
void shm_listener_end(struct shm *shm);   /* on reactor 0; `accepting` reaches 0 later */

/* shm_session.c: serve one connection, from its own fiber, to its end. */
void shm_session_serve_await(struct shm_connection *connection);

/* shm.c: look whether a stop that is waiting can go on. */
void shm_check_stopped(struct shm *shm);

#endif
