/* The conversation on the same-host socket: fixed-size messages between a client that registers
 * shared memory (client/) and the server that maps it (transfer/). Both ends are one machine, so
 * fields are in its byte order (little-endian wherever Penstock runs) and sizes are fixed.
 *
 * The client speaks first: HELLO with the ticket that it was given over HTTP, answered by WELCOME.
 * Then any number of REGISTER (a memfd rides along as SCM_RIGHTS) and UNREGISTER, each answered in
 * order by its own type or by ERROR. An error in answer to HELLO, or of the framing, is followed by
 * the end of the connection; a refused REGISTER is not. Everything ends with the socket. */
#ifndef PENSTOCK_BASE_SHM_WIRE_H
#define PENSTOCK_BASE_SHM_WIRE_H

#include <assert.h>
#include <stdint.h>

#define SHM_MAGIC   0x6d687350u /* "Pshm" */
#define SHM_VERSION 1

enum shm_message_type {
    SHM_HELLO = 1,      /* ticket */
    SHM_WELCOME = 2,    /* value: session id; limit: bytes that may be registered */
    SHM_REGISTER = 3,   /* value: length; one file descriptor */
    SHM_REGISTERED = 4, /* value: region id */
    SHM_UNREGISTER = 5, /* value: region id */
    SHM_UNREGISTERED = 6,
    SHM_ERROR = 7, /* text: a sentence, NUL-terminated */
};

#define SHM_TICKET_SIZE 16
#define SHM_TEXT_SIZE   96

struct shm_message {
    uint32_t magic;
    uint16_t version;
    uint16_t type; /* enum shm_message_type */
    uint64_t value;
    uint64_t limit;
    union {
        uint8_t ticket[SHM_TICKET_SIZE];
        char text[SHM_TEXT_SIZE];
    };
    uint64_t reserved; /* zero */
};
static_assert(sizeof(struct shm_message) == 128, "the message is a contract between processes");

#endif
