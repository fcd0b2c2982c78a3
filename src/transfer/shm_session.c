/* One client on the same-host socket, from its HELLO to its end. The flow is one fiber; nothing a
 * peer sends can do more than end its own connection. */
#include <assert.h>
#include <errno.h>
#include <stdalign.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/shm_wire.h"
#include "runtime/worker.h"
#include "transfer/shm.h"
#include "transfer/shm_memory.h"

/* ---- messages */

/* Keep the first descriptor that came and close the others: one is all that a message may carry. */
static void take_descriptors(struct msghdr *header, int *fd) {
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int received;
            memcpy(&received, CMSG_DATA(c) + i * sizeof(int), sizeof(received));
            if (*fd < 0)
                *fd = received;
            else
                close(received);
        }
    }
}

/* The next whole message, and the descriptor with it or -1. The first byte may take until the
 * deadline, the rest SHM_MESSAGE_TIMEOUT_MS. -ENODATA at the peer's end. *fd is the caller's to
 * close, also after an error. */
static int receive_await(int socket, struct shm_message *message, int *fd, uint64_t deadline_ns) {
    size_t received = 0;
    *fd = -1;
    while (received < sizeof(*message)) {
        alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int))];
        struct iovec rest = {(char *)message + received, sizeof(*message) - received};
        struct msghdr header = {.msg_iov = &rest,
                                .msg_iovlen = 1,
                                .msg_control = control,
                                .msg_controllen = sizeof(control)};
        ssize_t size = io_recvmsg_await(socket, &header, MSG_CMSG_CLOEXEC, deadline_ns);
        if (size < 0) return (int)size;
        take_descriptors(&header, fd);
        if (size == 0) return -ENODATA;
        if (header.msg_flags & MSG_CTRUNC) return ERR_INVALID_REQUEST;
        if (received == 0) deadline_ns = clock_deadline_ms(SHM_MESSAGE_TIMEOUT_MS);
        received += (size_t)size;
    }
    bool ours = message->magic == SHM_MAGIC && message->version == SHM_VERSION;
    return ours ? 0 : ERR_INVALID_REQUEST;
}

static int send_await(int socket, const struct shm_message *message) {
    uint64_t deadline_ns = clock_deadline_ms(SHM_MESSAGE_TIMEOUT_MS);
    size_t sent = 0;
    while (sent < sizeof(*message)) {
        ssize_t size = io_send_await(socket, (const char *)message + sent, sizeof(*message) - sent,
                                     MSG_NOSIGNAL, deadline_ns);
        if (size < 0) return (int)size;
        sent += (size_t)size;
    }
    return 0;
}

static int answer_await(struct shm_connection *c, enum shm_message_type type, uint64_t value) {
    struct shm_message message = {
        .magic = SHM_MAGIC,
        .version = SHM_VERSION,
        .type = (uint16_t)type,
        .value = value,
        .limit = c->shm->limits.registered_limit_bytes,
    };
    return send_await(c->fd, &message);
}

static int refuse_await(struct shm_connection *c, const char *sentence) {
    struct shm_message message = {.magic = SHM_MAGIC, .version = SHM_VERSION, .type = SHM_ERROR};
    snprintf(message.text, sizeof(message.text), "%s", sentence);
    log_debug("transfer: same-host client refused: %s", sentence);
    return send_await(c->fd, &message);
}

/* ---- requests */

static int hello_await(struct shm_connection *c) {
    struct shm_message message;
    int fd;
    int err = receive_await(c->fd, &message, &fd, clock_deadline_ms(SHM_MESSAGE_TIMEOUT_MS));
    if (fd >= 0) close(fd);
    if (err == ERR_INVALID_REQUEST || (!err && (message.type != SHM_HELLO || fd >= 0))) {
        refuse_await(c, "a HELLO of version 1 was expected");
        return ERR_INVALID_REQUEST;
    }
    if (err) return err;
    char identity[TRANSFER_IDENTITY_MAX + 1];
    err = shm_tickets_redeem(c->shm->tickets, message.ticket, clock_now_ns(), identity);
    if (err) {
        refuse_await(c, "the ticket is unknown, used or expired");
        return err;
    }
    err = shm_session_open(c->shm->registry, identity, &c->session);
    if (err) {
        refuse_await(c, "too many clients are connected");
        return err;
    }
    return answer_await(c, SHM_WELCOME, shm_session_id(c->session));
}

struct map_job {
    int fd;
    uint64_t length;
    void *base;
    int err;
};

static void run_map(void *arg) {
    struct map_job *job = arg;
    job->err = shm_memory_map(job->fd, job->length, &job->base);
}

static void run_unmap(void *arg) {
    const struct map_job *job = arg;
    shm_memory_unmap(job->base, job->length);
}

static int register_await(struct shm_connection *c, int fd, uint64_t length) {
    const char *why = NULL;
    if (fd < 0) return refuse_await(c, "no descriptor came with the registration");
    if (!shm_session_has_room(c->shm->registry, c->session, length))
        return refuse_await(c, "the limit of registered memory is reached");
    if (!shm_memory_check(fd, length, &why)) return refuse_await(c, why);
    struct map_job job = {.fd = fd, .length = length};
    worker_call_await(run_map, &job);
    if (job.err) return refuse_await(c, error_text(job.err));

    uint64_t region = 0;
    if (shm_region_add(c->shm->registry, c->session, job.base, length, &region)) {
        worker_call_await(run_unmap, &job);
        return refuse_await(c, error_text(-ENOMEM));
    }
    c->shm->mapped++;
    return answer_await(c, SHM_REGISTERED, region);
}

static int unregister_await(struct shm_connection *c, uint64_t region) {
    if (!shm_region_remove(c->shm->registry, c->session, region))
        return refuse_await(c, "no such region");
    return answer_await(c, SHM_UNREGISTERED, region);
}

static int request_await(struct shm_connection *c, const struct shm_message *message, int fd) {
    if (message->type == SHM_REGISTER) return register_await(c, fd, message->value);
    if (message->type == SHM_UNREGISTER && fd < 0) return unregister_await(c, message->value);
    refuse_await(c, "a REGISTER or UNREGISTER was expected");
    return ERR_INVALID_REQUEST;
}

void shm_session_serve_await(struct shm_connection *connection) {
    int err = hello_await(connection);
    while (!err) {
        struct shm_message message;
        int fd;
        err = receive_await(connection->fd, &message, &fd, NO_DEADLINE);
        if (!err) err = request_await(connection, &message, fd);
        if (fd >= 0) close(fd);
    }
    if (err != -ENODATA && err != -ECANCELED)
        log_debug("transfer: same-host client dropped: %s", error_text(err));
}
