/* Finding, making and locking the place of a store. */
#include "server/data_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int resolve(const struct server_config *config, struct data_dir *dir) {
    struct stat info;
    bool exists = stat(config->data, &info) == 0;
    if (exists && !S_ISDIR(info.st_mode) && !S_ISBLK(info.st_mode)) {
        fprintf(stderr, "penstock: --data %s is neither a directory nor a block device\n",
                config->data);
        return -ENOTDIR;
    }
    if (exists && S_ISBLK(info.st_mode) && !config->meta[0]) {
        fprintf(stderr,
                "penstock: --data %s is a block device: say with --meta DIR where metadata and "
                "keys go\n",
                config->data);
        return -EINVAL;
    }
    strcpy(dir->directory, config->meta[0] ? config->meta : config->data);
    strcpy(dir->volume_path, config->data);
    snprintf(dir->meta_path, sizeof(dir->meta_path), "%s/meta", dir->directory);
    return 0;
}

static int make_directory(const char *path, bool create) {
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) return 0;
    if (create && mkdir(path, 0700) == 0) return 0;
    int err = create ? -errno : -ENOENT;
    fprintf(stderr, create ? "penstock: cannot make the directory %s: %s\n" : "penstock: %s: %s\n",
            path, strerror(-err));
    return err;
}

static int take_lock(struct data_dir *dir) {
    char path[CONFIG_TEXT_MAX + 8];
    snprintf(path, sizeof(path), "%s/lock", dir->directory);
    dir->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (dir->lock_fd < 0) {
        int err = -errno;
        fprintf(stderr, "penstock: cannot open %s: %s\n", path, strerror(-err));
        return err;
    }
    if (flock(dir->lock_fd, LOCK_EX | LOCK_NB) == 0) return 0;
    fprintf(stderr, "penstock: %s is in use by another penstock process\n", dir->directory);
    data_dir_close(dir);
    return -EBUSY;
}

int data_dir_open(const struct server_config *config, bool create, struct data_dir *dir) {
    dir->lock_fd = -1;
    int err = resolve(config, dir);
    if (!err) err = make_directory(dir->directory, create);
    if (!err && strcmp(dir->directory, dir->volume_path)) {
        struct stat info;
        bool device = stat(dir->volume_path, &info) == 0 && S_ISBLK(info.st_mode);
        if (!device) err = make_directory(dir->volume_path, create);
    }
    if (!err) err = take_lock(dir);
    return err;
}

void data_dir_close(struct data_dir *dir) {
    if (dir->lock_fd >= 0) close(dir->lock_fd);
    dir->lock_fd = -1;
}
