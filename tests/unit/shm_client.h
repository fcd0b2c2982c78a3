/* A same-host client for tests, spoken by hand: one function a message, with blocking sockets. */
#ifndef PENSTOCK_TESTS_SHM_CLIENT_H
#define PENSTOCK_TESTS_SHM_CLIENT_H

#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/encode.h"
#include "base/shm_wire.h"
#include "transfer/transfer.h"

struct introduction {
    char path[108], name[64];
    uint8_t ticket[SHM_TICKET_SIZE];
};

/* The value of a string member; the server's JSON is simple enough to find it by its name. */
static inline void member(const char *json, const char *name, char *out, size_t size) {
    char quoted[64];
    snprintf(quoted, sizeof(quoted), "\"%s\": \"", name);
    const char *at = strstr(json, quoted);
    assert_non_null(at);
    at += strlen(quoted);
    const char *end = strchr(at, '"');
    assert_true(end && (size_t)(end - at) < size);
    memcpy(out, at, (size_t)(end - at));
    out[end - at] = '\0';
}

static inline struct introduction introduce(struct transfer_service *service,
                                            const char *identity) {
    struct introduction i;
    struct text json _cleanup_text_ = {0};
    char ticket[2 * SHM_TICKET_SIZE + 1];
    assert_int_equal(transfer_introduce(service, identity, &json), 0);
    member(json.data, "socket", i.path, sizeof(i.path));
    member(json.data, "abstract", i.name, sizeof(i.name));
    member(json.data, "ticket", ticket, sizeof(ticket));
    assert_int_equal(hex_decode(slice_of(ticket), i.ticket, sizeof(i.ticket)), SHM_TICKET_SIZE);
    return i;
}

static inline int connect_address(const char *text, int skip) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(text);
    memcpy(address.sun_path + skip, text, size);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)skip + size);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, length), 0);
    return fd;
}

static inline int connect_name(const struct introduction *i) {
    return connect_address(i->name, 1);
}

/* Send a message with any number of descriptors. */
static inline void say(int fd, struct shm_message message, const int *passed, unsigned count) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(8 * sizeof(int))];
    } control = {0};
    struct iovec part = {&message, sizeof(message)};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    message.magic = SHM_MAGIC;
    message.version = SHM_VERSION;
    if (count) {
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(rights), passed, count * sizeof(int));
    }
    assert_int_equal(sendmsg(fd, &header, MSG_NOSIGNAL), sizeof(message));
}

static inline struct shm_message hear(int fd) {
    struct shm_message message;
    assert_int_equal(recv(fd, &message, sizeof(message), MSG_WAITALL), sizeof(message));
    assert_int_equal(message.magic, SHM_MAGIC);
    assert_int_equal(message.version, SHM_VERSION);
    return message;
}

static inline void assert_ended(int fd) {
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
}

static inline struct shm_message hello(int fd, const uint8_t ticket[SHM_TICKET_SIZE]) {
    struct shm_message message = {.type = SHM_HELLO};
    memcpy(message.ticket, ticket, SHM_TICKET_SIZE);
    say(fd, message, NULL, 0);
    return hear(fd);
}

struct client {
    int fd;
    uint64_t session;
};

static inline struct client connect_client(struct transfer_service *service, const char *identity) {
    struct introduction i = introduce(service, identity);
    struct client client = {.fd = connect_name(&i)};
    struct shm_message welcome = hello(client.fd, i.ticket);
    assert_int_equal(welcome.type, SHM_WELCOME);
    client.session = welcome.value;
    return client;
}

static inline struct shm_message offer(struct client *client, int memory, uint64_t length) {
    say(client->fd, (struct shm_message){.type = SHM_REGISTER, .value = length}, &memory, 1);
    return hear(client->fd);
}

#define GOOD_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct memory {
    int fd;
    uint8_t *data;
    uint64_t size, region;
};

static inline struct memory make_memory(uint64_t size, int seals) {
    struct memory m = {.fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), .size = size};
    assert_true(m.fd >= 0);
    assert_int_equal(ftruncate(m.fd, (off_t)size), 0);
    m.data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, m.fd, 0);
    assert_ptr_not_equal(m.data, MAP_FAILED);
    memset(m.data, 0, size);
    assert_int_equal(fcntl(m.fd, F_ADD_SEALS, seals), 0);
    return m;
}

static inline void drop_memory(struct memory *m) {
    munmap(m->data, m->size);
    close(m->fd);
}

static inline struct memory register_memory(struct client *client, uint64_t size) {
    struct memory m = make_memory(size, GOOD_SEALS);
    struct shm_message answer = offer(client, m.fd, size);
    if (answer.type == SHM_ERROR) fail_msg("%s", answer.text);
    assert_int_equal(answer.type, SHM_REGISTERED);
    m.region = answer.value;
    return m;
}

static inline const char *token_of(const struct client *client, const struct memory *m,
                                   uint64_t offset, uint64_t length) {
    static char text[128];
    snprintf(text, sizeof(text), "shm1:%016llx:%016llx:%016llx:%016llx",
             (unsigned long long)client->session, (unsigned long long)m->region,
             (unsigned long long)offset, (unsigned long long)length);
    return text;
}

#endif
