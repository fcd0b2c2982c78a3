/* Start and stop: every layer is opened in the order of src/LAYERS and closed in the reverse. */
#include "server/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "server/admin.h"
#include "server/credentials.h"
#include "server/data_dir.h"

#define DRAIN_MS           10000
#define MEMORY_MIN         (64ull << 20)
#define MEMORY_DEFAULT_MAX (1ull << 30)

struct server {
    struct server_config config;
    struct data_dir dir;
    struct admin parts; /* what was opened; admin/ counts the same things */
    struct store *store;
    struct keyring *keyring;
    enum meta_durability durability;
    char host[CONFIG_TEXT_MAX];
    uint16_t port;
};

/* One line a failed step, which says what was being done and why it failed. */
static int step(const char *what, int err) {
    if (err) fprintf(stderr, "penstock: cannot %s: %s\n", what, error_text(err));
    return err;
}

static uint64_t default_memory(void) {
    struct sysinfo info;
    if (sysinfo(&info)) return MEMORY_MIN;
    uint64_t quarter = (uint64_t)info.totalram * info.mem_unit / 4;
    if (quarter < MEMORY_MIN) return MEMORY_MIN;
    return quarter < MEMORY_DEFAULT_MAX ? quarter : MEMORY_DEFAULT_MAX;
}

static int parse_listen(struct server *server) {
    const char *listen = server->config.listen;
    const char *colon = strrchr(listen, ':');
    char *end = NULL;
    unsigned long port = colon ? strtoul(colon + 1, &end, 10) : 0;
    if (!colon || end == colon + 1 || *end || port > 65535) {
        fprintf(stderr, "penstock: --listen %s: expected HOST:PORT\n", listen);
        return -EINVAL;
    }
    size_t size = (size_t)(colon - listen);
    bool bracketed = size >= 2 && listen[0] == '[' && colon[-1] == ']';
    snprintf(server->host, sizeof(server->host), "%.*s", (int)(bracketed ? size - 2 : size),
             bracketed ? listen + 1 : listen);
    if (!strcmp(server->host, "localhost")) strcpy(server->host, "127.0.0.1");
    uint8_t address[16];
    if (server->host[0] && inet_pton(AF_INET, server->host, address) != 1 &&
        inet_pton(AF_INET6, server->host, address) != 1) {
        fprintf(stderr, "penstock: --listen %s: the host must be an IP address or localhost\n",
                listen);
        return -EINVAL;
    }
    server->port = (uint16_t)port;
    return 0;
}

static int check_config(struct server *server) {
    struct server_config *config = &server->config;
    enum log_level level;
    if (log_level_parse(config->log_level, &level)) {
        fprintf(stderr, "penstock: --log-level %s: expected error, warn, info or debug\n",
                config->log_level);
        return -EINVAL;
    }
    log_set_level(level);
    if (!strcmp(config->durability, "crash")) {
        server->durability = META_CRASH;
        log_warn(
            "durability is 'crash': a power loss may lose writes answered in the last seconds");
    } else if (strcmp(config->durability, "durable")) {
        fprintf(stderr, "penstock: --durability %s: expected durable or crash\n",
                config->durability);
        return -EINVAL;
    }
    if (!config->memory) config->memory = default_memory();
    if (config->memory < MEMORY_MIN) {
        fprintf(stderr, "penstock: --memory: at least 64MiB\n");
        return -EINVAL;
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (!config->reactors) config->reactors = cores > 0 ? (uint64_t)cores : 1;
    if (!config->workers) config->workers = 2 * (cores > 0 ? (uint64_t)cores : 1);
    if (config->reactors > REACTOR_LIMIT || config->workers > REACTOR_LIMIT) {
        fprintf(stderr, "penstock: --reactors and --workers: at most %d\n", REACTOR_LIMIT);
        return -EINVAL;
    }
    return parse_listen(server);
}

/* Thousands of connections and pinned buffers: take what the system allows this process. */
static void raise_limits(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    struct rlimit locked = {RLIM_INFINITY, RLIM_INFINITY};
    if (setrlimit(RLIMIT_MEMLOCK, &locked) && getrlimit(RLIMIT_MEMLOCK, &locked) == 0) {
        locked.rlim_cur = locked.rlim_max;
        setrlimit(RLIMIT_MEMLOCK, &locked);
    }
}

static int open_memory(struct server *server) {
    struct admin *parts = &server->parts;
    /* Three quarters for payload; the record cache and the engine's cache share the rest. */
    int err =
        step("allocate the buffer pool", pool_create(server->config.memory / 4 * 3, &parts->pool));
    if (!err) err = step("make the cache", cache_create(parts->pool, &parts->cache));
    if (err) return err;
    struct pool_region region = pool_region(parts->pool);
    struct runtime_options options = {
        .reactors = (unsigned)server->config.reactors,
        .workers = (unsigned)server->config.workers,
        .fixed_base = region.base,
        .fixed_size = region.size,
    };
    return step("start the reactors", runtime_start(&options, &parts->runtime));
}

static int open_store(struct server *server) {
    struct admin *parts = &server->parts;
    int err =
        step("open the metadata store",
             meta_rocksdb_open(server->dir.meta_path, server->config.memory / 8, &parts->meta));
    struct blob_options options = {
        .path = server->dir.volume_path,
        .capacity_bytes = server->config.capacity,
        .durability = server->durability,
        .direct_io = !server->config.buffered_io,
    };
    if (!err)
        err = step("open the volume", blob_store_open(&options, parts->meta, parts->pool,
                                                      parts->cache, &parts->blobs));
    if (!err)
        err = step("open the store",
                   store_open(parts->meta, parts->blobs, server->durability, &server->store));
    return err;
}

static int open_keys(struct server *server) {
    int err = credentials_load(&server->config, server->dir.directory);
    if (err) return err;
    err = keyring_create(&server->keyring);
    if (!err)
        err = keyring_add(server->keyring, server->config.access_key, server->config.secret_key);
    return step("use the root key", err);
}

static int open_network(struct server *server) {
    struct admin *parts = &server->parts;
    struct transfer_options transfer = {
        .socket_directory =
            server->config.socket_dir[0] ? server->config.socket_dir : server->dir.directory,
    };
    int err = step("start transfers",
                   transfer_start(parts->runtime, parts->pool, &transfer, &parts->transfers));
    struct s3_options s3 = {
        .store = server->store,
        .pool = parts->pool,
        .keyring = server->keyring,
        .transfers = parts->transfers,
        .region = server->config.region,
        .domain = server->config.domain[0] ? server->config.domain : NULL,
        .admin = admin_handle,
        .admin_ctx = parts,
        .access_log = server->config.access_log,
    };
    if (!err) err = step("start the S3 service", s3_create(&s3, &parts->s3));
    struct http_server_options http = {
        .host = server->host,
        .port = server->port,
        .handler = s3_handle,
        .ctx = parts->s3,
    };
    if (err) return err;
    err = http_server_start(parts->runtime, &http, &parts->http);
    if (err)
        fprintf(stderr, "penstock: cannot listen on %s: %s\n", server->config.listen,
                error_text(err));
    return err;
}

static int announce(const struct server *server) {
    bool v6 = strchr(server->host, ':') != NULL;
    char url[CONFIG_TEXT_MAX + 32];
    snprintf(url, sizeof(url), v6 ? "http://[%s]:%u" : "http://%s:%u",
             server->host[0] ? server->host : "0.0.0.0", http_server_port(server->parts.http));
    const char *path = server->config.ready_file;
    if (path[0]) {
        char temporary[CONFIG_TEXT_MAX + 8];
        snprintf(temporary, sizeof(temporary), "%s.new", path);
        FILE *file = fopen(temporary, "we");
        bool written = file && fprintf(file, "%s\n", url) > 0;
        if (file && fclose(file)) written = false;
        if (!written || rename(temporary, path)) {
            fprintf(stderr, "penstock: cannot write %s: %s\n", path, strerror(errno));
            return -EIO;
        }
    }
    printf("penstock: ready %s\n", url);
    fflush(stdout);
    return 0;
}

static void close_all(struct server *server) {
    struct admin *parts = &server->parts;
    if (parts->http) http_server_stop(&parts->http, DRAIN_MS);
    if (parts->transfers) transfer_stop(&parts->transfers);
    if (parts->runtime) runtime_stop(&parts->runtime);
    if (parts->s3) s3_destroy(&parts->s3);
    if (server->store) store_close(&server->store);
    if (parts->blobs) blob_store_close(&parts->blobs);
    if (parts->meta) meta_close(&parts->meta);
    if (parts->cache) cache_destroy(&parts->cache);
    if (parts->pool) pool_destroy(&parts->pool);
    if (server->keyring) keyring_destroy(&server->keyring);
    data_dir_close(&server->dir);
}

static void wait_for_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    int signal_number;
    while (sigwait(&set, &signal_number)) {
    }
    log_info("stopping on %s", signal_number == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* Threads inherit the mask, so that only the main thread, in sigwait, sees these. */
static void block_signals(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int server_run(const struct server_config *config) {
    static struct server server; /* large, and there is one */
    server = (struct server){.config = *config, .dir.lock_fd = -1};
    block_signals();
    raise_limits();
    int err = check_config(&server);
    if (!err) err = data_dir_open(&server.config, true, &server.dir);
    if (!err) err = open_keys(&server);
    if (!err) err = open_memory(&server);
    if (!err) err = open_store(&server);
    if (!err) err = open_network(&server);
    if (!err) err = announce(&server);
    if (!err) wait_for_signal();
    close_all(&server);
    return err ? 1 : 0;
}
