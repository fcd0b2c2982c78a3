/* Where a store lies: the directory for metadata, keys and the lock, and the path of the volume. */
#ifndef PENSTOCK_SERVER_DATA_DIR_H
#define PENSTOCK_SERVER_DATA_DIR_H

#include "server/config.h"

struct data_dir {
    char directory[CONFIG_TEXT_MAX];     /* metadata, credentials, lock, socket */
    char meta_path[CONFIG_TEXT_MAX + 8]; /* DIRECTORY/meta */
    char volume_path[CONFIG_TEXT_MAX];   /* what blob_store_open wants: directory or device */
    int lock_fd;
};

/* Makes the directory where it is missing (0700), and locks it: one process a store. One line on
 * stderr and a negative code on failure. */
int data_dir_open(const struct server_config *config, bool create, struct data_dir *dir);
void data_dir_close(struct data_dir *dir);

#endif
