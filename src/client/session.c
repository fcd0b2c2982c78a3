/* The same-host session: introduced by a signed request, then a Unix socket on which memory is
 * registered. The conversation is in base/shm_wire.h and docs/protocol.md. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encode.h"
#include "base/shm_wire.h"
#include "client/client.h"

/* After a failure: long enough not to slow a job down, short enough to find a server that came. */
#define RETRY_MS         10000
#define SOCKET_TIMEOUT_S 10

struct introduction {
    char path[108], abstract[108];
    uint8_t ticket[SHM_TICKET_SIZE];
};

void session_init(struct session *session) {
    pthread_mutex_init(&session->lock, NULL);
    session->fd = -1;
    session->generation = 1;
}

void session_deinit(struct session *session) {
    if (session->fd >= 0) close(session->fd);
    pthread_mutex_destroy(&session->lock);
}

static bool give_up(struct session *session, const char *what, const char *why) {
    if (session->fd >= 0) close(session->fd);
    session->fd = -1;
    session->retry_ns = clock_deadline_ms(RETRY_MS);
    snprintf(session->reason, sizeof(session->reason), "%s%s%.100s", what, *why ? ": " : "", why);
    return false;
}

/* ---- the socket */

static bool send_message(int fd, const struct shm_message *message, int passed_fd) {
    struct iovec part = {(void *)message, sizeof(*message)};
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    if (passed_fd >= 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(rights), &passed_fd, sizeof(int));
    }
    return sendmsg(fd, &header, MSG_NOSIGNAL) == (ssize_t)sizeof(*message);
}

/* One question, one answer. False with the reason; the session goes on only when it was a
 * registration that was refused. */
static bool ask(struct session *session, struct shm_message *message, int passed_fd,
                enum shm_message_type wanted) {
    message->magic = SHM_MAGIC;
    message->version = SHM_VERSION;
    if (!send_message(session->fd, message, passed_fd) ||
        recv(session->fd, message, sizeof(*message), MSG_WAITALL) != (ssize_t)sizeof(*message))
        return give_up(session, "the transfer socket was closed", "");
    if (message->magic != SHM_MAGIC || message->version != SHM_VERSION)
        return give_up(session, "the transfer socket speaks another protocol", "");
    if (message->type == wanted) return true;
    if (message->type != SHM_ERROR) return give_up(session, "the transfer socket is confused", "");
    message->text[SHM_TEXT_SIZE - 1] = '\0';
    if (wanted == SHM_WELCOME)
        return give_up(session, "the server refused a session", message->text);
    snprintf(session->reason, sizeof(session->reason), "the server refused the memory: %s",
             message->text);
    return false;
}

static int connect_to(const char *name, bool abstract) {
    size_t size = strlen(name);
    if (!size) return -ENOENT;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    struct timeval timeout = {.tv_sec = SOCKET_TIMEOUT_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path + abstract, name, size);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + abstract + size);
    if (connect(fd, (struct sockaddr *)&address, length) == 0) return fd;
    int err = -errno;
    close(fd);
    return err;
}

/* ---- the introduction */

static bool copy_name(const json_t *told, const char *field, char out[108]) {
    const char *name = json_string_value(json_object_get(told, field));
    if (!name || strlen(name) > 106) return false;
    strcpy(out, name);
    return true;
}

static bool read_introduction(struct slice text, struct introduction *introduction) {
    json_t *told = json_loadb(text.data, text.size, 0, NULL);
    const char *ticket = json_string_value(json_object_get(told, "ticket"));
    bool ok =
        told && ticket && copy_name(told, "socket", introduction->path) &&
        copy_name(told, "abstract", introduction->abstract) &&
        hex_decode(slice_of(ticket), introduction->ticket, SHM_TICKET_SIZE) == SHM_TICKET_SIZE;
    json_decref(told);
    return ok;
}

static bool introduce(ps_client *client, struct introduction *introduction) {
    struct session *session = &client->session;
    struct call call _cleanup_call_ = {.method = "POST", .bucket = ".penstock", .key = "shm"};
    ps_result result = {0};
    int err = call_perform(client, &call, &result);
    if (err == PS_ERR_S3 && strcmp(result.code, "SlowDown") &&
        strcmp(result.code, "ServiceUnavailable")) {
        session->never = true;
        snprintf(session->reason, sizeof(session->reason),
                 "the endpoint offers no same-host transfer (%.60s)", result.code);
        return false;
    }
    if (err) return give_up(session, "introduction failed", result.message);
    if (!read_introduction(text_slice(&call.text), introduction)) {
        session->never = true;
        return give_up(session, "the endpoint offers no same-host transfer", "");
    }
    return true;
}

/* With the lock held: makes sure that there is a session. */
static bool session_ensure(ps_client *client) {
    struct session *session = &client->session;
    if (session->fd >= 0) return true;
    if (session->never || clock_now_ns() < session->retry_ns) return false;
    struct introduction introduction;
    if (!introduce(client, &introduction)) return false;
    session->fd = connect_to(introduction.path, false);
    if (session->fd < 0) session->fd = connect_to(introduction.abstract, true);
    if (session->fd < 0)
        return give_up(session,
                       "no way to the server's transfer socket (another host or container?)",
                       strerror(-session->fd));
    struct shm_message message = {.type = SHM_HELLO};
    memcpy(message.ticket, introduction.ticket, SHM_TICKET_SIZE);
    if (!ask(session, &message, -1, SHM_WELCOME)) return false;
    session->id = message.value;
    session->generation++;
    session->reason[0] = '\0';
    return true;
}

static bool register_buffer(ps_buffer *buffer) {
    struct session *session = &buffer->client->session;
    if (buffer->generation == session->generation) return true;
    struct shm_message message = {.type = SHM_REGISTER,
                                  .value = (buffer->size + 4095) / 4096 * 4096};
    /* The server takes no memory with holes: their pages would be made at its expense. Until it is
     * registered, a buffer costs only the pages that were written. */
    if (fallocate(buffer->fd, 0, 0, (off_t)message.value)) {
        snprintf(session->reason, sizeof(session->reason), "the memory cannot be allocated: %s",
                 strerror(errno));
        return false;
    }
    if (!ask(session, &message, buffer->fd, SHM_REGISTERED)) return false;
    buffer->region = message.value;
    buffer->generation = session->generation;
    return true;
}

bool session_token(ps_buffer *buffer, uint64_t offset, uint64_t length,
                   char token[CLIENT_TOKEN_MAX], uint32_t *generation, char reason[160]) {
    struct session *session = &buffer->client->session;
    pthread_mutex_lock(&session->lock);
    bool ok = session_ensure(buffer->client) && register_buffer(buffer);
    if (ok) {
        snprintf(token, CLIENT_TOKEN_MAX, "shm1:%016llx:%016llx:%016llx:%016llx",
                 (unsigned long long)session->id, (unsigned long long)buffer->region,
                 (unsigned long long)offset, (unsigned long long)length);
        *generation = session->generation;
    } else {
        memcpy(reason, session->reason, sizeof(session->reason));
    }
    pthread_mutex_unlock(&session->lock);
    return ok;
}

void session_lost(ps_client *client, uint32_t generation) {
    struct session *session = &client->session;
    pthread_mutex_lock(&session->lock);
    /* Several threads may report the same loss: only the first ends the session. */
    if (session->fd >= 0 && session->generation == generation) {
        close(session->fd);
        session->fd = -1;
    }
    pthread_mutex_unlock(&session->lock);
}

void session_unregister(ps_buffer *buffer) {
    struct session *session = &buffer->client->session;
    pthread_mutex_lock(&session->lock);
    if (session->fd >= 0 && buffer->generation == session->generation) {
        struct shm_message message = {.type = SHM_UNREGISTER, .value = buffer->region};
        ask(session, &message, -1, SHM_UNREGISTERED);
    }
    buffer->generation = 0;
    pthread_mutex_unlock(&session->lock);
}
