/* Where same-host clients connect: a Unix socket in a directory, which other network namespaces
 * reach when they share the directory, and one with an abstract name, which other users reach when
 * the directory is closed to them. Either may be missing; who may do what is decided by tickets. */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utlist.h>

#include "base/checksum.h"
#include "base/encode.h"
#include "base/error.h"
#include "base/log.h"
#include "transfer/shm.h"

#define SOCKET_NAME "transfer.sock"
#define BACKLOG     128

static int listen_at(const struct sockaddr_un *address, socklen_t size) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    if (bind(fd, (const struct sockaddr *)address, size) || listen(fd, BACKLOG)) {
        int err = -errno;
        close(fd);
        return err;
    }
    return fd;
}

static int listen_by_name(struct shm *shm) {
    uint8_t random[8];
    char digits[2 * sizeof(random) + 1];
    random_bytes(random, sizeof(random));
    hex_encode(random, sizeof(random), digits);
    snprintf(shm->name, sizeof(shm->name), "penstock-%s", digits);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(shm->name);
    memcpy(address.sun_path + 1, shm->name, size);
    return listen_at(&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size));
}

/* Does somebody answer at this path? If so it is another server's. */
static bool is_served(const struct sockaddr_un *address) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return false;
    bool served =
        connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 || errno == EAGAIN;
    close(fd);
    return served;
}

/* What a server that was killed left behind is removed, but never anything that is no socket. */
static int clear_path(const struct sockaddr_un *address) {
    struct stat st;
    if (lstat(address->sun_path, &st)) return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode)) return -EEXIST;
    if (is_served(address)) return -EADDRINUSE;
    return unlink(address->sun_path) ? -errno : 0;
}

static int listen_by_path(struct shm *shm, const char *directory) {
    char absolute[PATH_MAX];
    if (!realpath(directory, absolute)) return -errno;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int size = snprintf(address.sun_path, sizeof(address.sun_path), "%s/" SOCKET_NAME, absolute);
    if (size < 0 || (size_t)size >= sizeof(address.sun_path)) return -ENAMETOOLONG;
    int err = clear_path(&address);
    if (err) return err;
    int fd = listen_at(&address, sizeof(address));
    if (fd < 0) return fd;
    /* Everybody who gets as far as the directory may connect, under any user id. */
    if (chmod(address.sun_path, 0666)) log_warn("transfer: chmod %s: %m", address.sun_path);
    memcpy(shm->path, address.sun_path, sizeof(shm->path));
    return fd;
}

static void read_boot_id(struct shm *shm) {
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file) return;
    if (fgets(shm->host, sizeof(shm->host), file)) shm->host[strcspn(shm->host, "\n")] = '\0';
    fclose(file);
}

int shm_listener_open(struct shm *shm, const char *socket_directory) {
    read_boot_id(shm);
    int *fds = shm->listen_fds;
    fds[SHM_BY_PATH] = -1;
    fds[SHM_BY_NAME] = listen_by_name(shm);
    if (fds[SHM_BY_NAME] < 0) {
        log_warn("transfer: no abstract socket: %s", error_text(fds[SHM_BY_NAME]));
        shm->name[0] = '\0';
    }
    if (socket_directory && socket_directory[0]) {
        fds[SHM_BY_PATH] = listen_by_path(shm, socket_directory);
        if (fds[SHM_BY_PATH] < 0)
            log_warn("transfer: no socket in %s: %s", socket_directory,
                     error_text(fds[SHM_BY_PATH]));
    }
    return fds[SHM_BY_PATH] < 0 && fds[SHM_BY_NAME] < 0 ? fds[SHM_BY_NAME] : 0;
}

void shm_listener_close(struct shm *shm) {
    if (shm->path[0]) unlink(shm->path);
    for (unsigned i = 0; i < SHM_LISTENERS; i++) {
        if (shm->listen_fds[i] >= 0) close(shm->listen_fds[i]);
        shm->listen_fds[i] = -1;
    }
}

static void connection_fiber(void *arg) {
    struct shm_connection *c = arg;
    struct shm *shm = c->shm;
    c->fiber = fiber_self();
    if (!shm->stopping) shm_session_serve_await(c);
    shm_session_close(shm->registry, &c->session);
    close(c->fd);
    DL_DELETE(shm->connections, c);
    shm->connection_count--;
    free(c);
    shm_check_stopped(shm);
}

static bool start_connection(struct shm *shm, int fd) {
    if (shm->stopping || shm->connection_count >= shm->limits.session_limit + SHM_STRANGERS_LIMIT)
        return false;
    struct shm_connection *c = calloc(1, sizeof(*c));
    if (!c) return false;
    *c = (struct shm_connection){.shm = shm, .fd = fd};
    if (fiber_spawn("shm-session", connection_fiber, c)) {
        free(c);
        return false;
    }
    DL_APPEND(shm->connections, c);
    shm->connection_count++;
    return true;
}

static void on_accept(void *ctx, int fd, int err) {
    struct shm *shm = ctx;
    if (fd >= 0) {
        if (!start_connection(shm, fd)) close(fd);
    } else if (err == -ECANCELED) {
        assert(shm->accepting > 0);
        shm->accepting--;
        shm_check_stopped(shm);
    } else {
        log_warn("transfer: accept: %s", error_text(err));
    }
}

void shm_listener_begin(struct shm *shm) {
    for (unsigned i = 0; i < SHM_LISTENERS; i++) {
        if (shm->listen_fds[i] < 0) continue;
        shm->accepts[i] = (struct io_accept){.on_accept = on_accept, .ctx = shm};
        shm->accepting++;
        io_accept_start(&shm->accepts[i], shm->listen_fds[i]);
    }
}

void shm_listener_end(struct shm *shm) {
    for (unsigned i = 0; i < SHM_LISTENERS; i++)
        if (shm->listen_fds[i] >= 0) io_accept_stop(&shm->accepts[i]);
}
