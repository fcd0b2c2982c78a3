/* The server's settings. Each stands once, in the table of config.c: its command-line option
 * (--name), its variable (PENSTOCK_NAME), its key in the configuration file (name = value), its
 * kind and its help line. Stronger first: command line, environment, file, default. */
#ifndef PENSTOCK_SERVER_CONFIG_H
#define PENSTOCK_SERVER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define CONFIG_TEXT_MAX 512

struct server_config {
    char config_file[CONFIG_TEXT_MAX];
    char data[CONFIG_TEXT_MAX];   /* directory or block device */
    char meta[CONFIG_TEXT_MAX];   /* directory for metadata and keys; empty: the data directory */
    char listen[CONFIG_TEXT_MAX]; /* host:port */
    char ready_file[CONFIG_TEXT_MAX]; /* receives the ready line's URL */
    char socket_dir[CONFIG_TEXT_MAX]; /* for the same-host socket; empty: the data directory */
    char region[CONFIG_TEXT_MAX];
    char domain[CONFIG_TEXT_MAX];
    char access_key[CONFIG_TEXT_MAX];
    char secret_key[CONFIG_TEXT_MAX];
    char log_level[CONFIG_TEXT_MAX];
    char durability[CONFIG_TEXT_MAX]; /* durable or crash */
    uint64_t memory;                  /* bytes */
    uint64_t capacity;                /* bytes; 0: what the file system has */
    uint64_t reactors;                /* 0: one per core */
    uint64_t workers;
    bool access_log;
    bool buffered_io;
};

/* Defaults, then file, environment and arguments. On an error one line has gone to stderr and
 * -EINVAL is returned. args are what follows "penstock serve". */
int config_load(struct server_config *config, int argc, char **argv);
void config_help(FILE *out);

/* "64MiB", "1g", "4096": bytes. False when it is not a size. */
bool config_parse_size(const char *text, uint64_t *bytes);

#endif
