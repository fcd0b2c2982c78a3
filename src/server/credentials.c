/* The root key pair. The file is written whole under another name and renamed, so that a crash on
 * the first start leaves no half-written secret that later starts would trust. */
#include "server/credentials.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checksum.h"

static void random_key(const char *alphabet, char *out, size_t size) {
    size_t letters = strlen(alphabet);
    uint8_t bytes[64];
    random_bytes(bytes, size);
    /* 32 letters divide 256 evenly, 64 too: no letter is likelier than another. */
    for (size_t i = 0; i < size; i++) out[i] = alphabet[bytes[i] % letters];
    out[size] = '\0';
}

static int read_pair(FILE *file, struct server_config *config) {
    char line[CONFIG_TEXT_MAX];
    while (fgets(line, sizeof(line), file)) {
        char value[CONFIG_TEXT_MAX];
        if (sscanf(line, "access_key = %511s", value) == 1) strcpy(config->access_key, value);
        if (sscanf(line, "secret_key = %511s", value) == 1) strcpy(config->secret_key, value);
    }
    return config->access_key[0] && config->secret_key[0] ? 0 : -EINVAL;
}

static int write_pair(const struct server_config *config, const char *path) {
    char temporary[CONFIG_TEXT_MAX + 32];
    snprintf(temporary, sizeof(temporary), "%s.new", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) return -errno;
    int err = 0;
    if (dprintf(fd, "access_key = %s\nsecret_key = %s\n", config->access_key, config->secret_key) <
            0 ||
        fsync(fd))
        err = -errno;
    close(fd);
    if (!err && rename(temporary, path)) err = -errno;
    return err;
}

static int make_pair(struct server_config *config, const char *path) {
    random_key("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", config->access_key, 20);
    random_key("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-",
               config->secret_key, 40);
    int err = write_pair(config, path);
    if (err) {
        fprintf(stderr, "penstock: cannot write %s: %s\n", path, strerror(-err));
        return err;
    }
    printf("penstock: new root key, stored in %s and not shown again\n"
           "penstock: access key %s\npenstock: secret key %s\n",
           path, config->access_key, config->secret_key);
    return 0;
}

int credentials_load(struct server_config *config, const char *directory) {
    if (config->access_key[0] && config->secret_key[0]) return 0;
    if (config->access_key[0] || config->secret_key[0]) {
        fprintf(stderr,
                "penstock: give both PENSTOCK_ACCESS_KEY and PENSTOCK_SECRET_KEY, or neither\n");
        return -EINVAL;
    }
    char path[CONFIG_TEXT_MAX + 16];
    snprintf(path, sizeof(path), "%s/credentials", directory);
    FILE *file = fopen(path, "re");
    if (!file && errno == ENOENT) return make_pair(config, path);
    if (!file) {
        fprintf(stderr, "penstock: cannot read %s: %s\n", path, strerror(errno));
        return -EACCES;
    }
    int err = read_pair(file, config);
    fclose(file);
    if (err) fprintf(stderr, "penstock: %s holds no access_key and secret_key\n", path);
    return err;
}
