/* penstock serve and penstock fsck: the commands that are the server's. */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "server/server.h"

static bool wants_help(int argc, char **argv) {
    for (int i = 0; i < argc; i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
    return false;
}

int command_serve(int argc, char **argv) {
    if (wants_help(argc, argv)) {
        config_help(stdout);
        return EXIT_DONE;
    }
    static struct server_config config;
    if (config_load(&config, argc, argv)) return EXIT_USAGE;
    return server_run(&config);
}

int command_fsck(int argc, char **argv) {
    if (wants_help(argc, argv)) {
        printf("usage: penstock fsck [--quick] [--data PATH] [--meta DIR]\n\n"
               "Check a store that no server has open: records, space and, without --quick, every\n"
               "byte's checksum. Prints one line for each finding; exits 0 when there is none.\n");
        return EXIT_DONE;
    }
    bool verify_data = true;
    int kept = 0;
    for (int i = 0; i < argc; i++) {
        if (!strcmp(argv[i], "--quick"))
            verify_data = false;
        else
            argv[kept++] = argv[i];
    }
    static struct server_config config;
    if (config_load(&config, kept, argv)) return EXIT_USAGE;
    return server_fsck(&config, verify_data);
}
