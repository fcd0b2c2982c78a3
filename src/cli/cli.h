/* The penstock command: one file a group of commands, all listed in main.c's table. A command gets
 * what follows its name and returns an exit code: 0, 1 it failed, 2 wrong usage. */
#ifndef PENSTOCK_CLI_CLI_H
#define PENSTOCK_CLI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "penstock.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

int command_serve(int argc, char **argv);
int command_fsck(int argc, char **argv);
int command_put(int argc, char **argv);
int command_get(int argc, char **argv);
int command_ls(int argc, char **argv);
int command_rm(int argc, char **argv);
int command_mb(int argc, char **argv);
int command_rb(int argc, char **argv);
int command_stat(int argc, char **argv);
int command_bench(int argc, char **argv);

/* ---- options common to client commands: --endpoint, --via, --parallel, --part-size; and what else
 * the command's own table names. */
struct cli_option {
    const char *name;   /* "--via" */
    const char **value; /* set to the argument; for switches, to "1" */
    bool is_switch;
};
#define CLI_OPERANDS_MAX 64
struct cli_arguments {
    const char *operands[CLI_OPERANDS_MAX];
    int operand_count;
    ps_options options;
};
/* Parses; -1 and one line on stderr when an option is unknown or lacks its value. */
int cli_parse(int argc, char **argv, const struct cli_option *own, struct cli_arguments *arguments);
int cli_parse_via(const char *text, enum ps_via *via); /* auto, http, one-sided; -1 */

/* "s3://bucket/key" or "bucket/key" in two; key may be empty. False when there is no bucket. */
bool cli_split(const char *text, char bucket[256], const char **key);

/* Opens the client of the parsed options; NULL after one line on stderr. */
ps_client *cli_open(const struct cli_arguments *arguments);
/* "penstock: WHAT: S3CODE: sentence" on stderr; returns EXIT_FAILED. */
int cli_failed(const char *what, int err, const ps_result *result);

/* ---- a progress bar on stderr when it is a terminal, nothing otherwise. */
struct progress {
    const char *label;
    uint64_t started_ns, drawn_ns;
    bool enabled;
};
void progress_begin(struct progress *progress, const char *label);
void progress_update(void *progress, uint64_t done, uint64_t total); /* a ps_progress */
void progress_end(struct progress *progress);
void format_bytes(uint64_t bytes, char out[32]); /* "1.5 GiB" */

#endif
