/* The penstock command: finds the command and hands over. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
} commands[] = {
    {"serve", command_serve, "run the server"},
    {"fsck", command_fsck, "check a store that no server has open"},
    {"put", command_put, "upload files"},
    {"get", command_get, "download objects"},
    {"ls", command_ls, "list buckets or objects"},
    {"rm", command_rm, "delete objects"},
    {"mb", command_mb, "make a bucket"},
    {"rb", command_rb, "remove a bucket"},
    {"stat", command_stat, "show what is known about an object"},
    {"bench", command_bench, "measure an S3 endpoint"},
};

static void usage(FILE *out) {
    fprintf(out, "usage: penstock COMMAND [argument ...]\n\n");
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].help);
    fprintf(out, "\npenstock COMMAND --help says more; penstock --version prints the version.\n"
                 "Clients find the server by PENSTOCK_ENDPOINT (or --endpoint) and their keys by\n"
                 "PENSTOCK_ACCESS_KEY and PENSTOCK_SECRET_KEY (or the AWS_ variables).\n");
}

int main(int argc, char **argv) {
    if (argc < 2) {
        usage(stderr);
        return EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        usage(stdout);
        return EXIT_DONE;
    }
    if (!strcmp(argv[1], "--version")) {
        printf("penstock %s\n", ps_version());
        return EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
        if (!strcmp(argv[1], commands[i].name)) return commands[i].run(argc - 2, argv + 2);
    fprintf(stderr, "penstock: there is no command '%s' (see penstock --help)\n", argv[1]);
    return EXIT_USAGE;
}
