/* penstock ls, mb, rb: buckets and what is in them. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"

static int one_operand(int argc, char **argv, const char *text, struct cli_arguments *arguments) {
    if (argc > 0 && (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"))) {
        printf("usage: %s\n", text);
        return EXIT_DONE;
    }
    if (cli_parse(argc, argv, NULL, arguments)) return EXIT_USAGE;
    if (arguments->operand_count == 1) return -1; /* go on */
    fprintf(stderr, "usage: %s\n", text);
    return EXIT_USAGE;
}

static int on_bucket(int argc, char **argv, const char *text,
                     int (*call)(ps_client *, const char *, ps_result *)) {
    struct cli_arguments arguments;
    int code = one_operand(argc, argv, text, &arguments);
    if (code >= 0) return code;
    char bucket[256];
    const char *key;
    if (!cli_split(arguments.operands[0], bucket, &key) || *key) {
        fprintf(stderr, "penstock: '%s' is not a bucket\n", arguments.operands[0]);
        return EXIT_USAGE;
    }
    ps_client *client = cli_open(&arguments);
    if (!client) return EXIT_FAILED;
    ps_result result;
    int err = call(client, bucket, &result);
    ps_close(&client);
    return err ? cli_failed(bucket, err, &result) : EXIT_DONE;
}

int command_mb(int argc, char **argv) {
    return on_bucket(argc, argv, "penstock mb [--endpoint URL] BUCKET", ps_bucket_create);
}

int command_rb(int argc, char **argv) {
    return on_bucket(argc, argv, "penstock rb [--endpoint URL] BUCKET", ps_bucket_delete);
}

static int print_entry(void *ctx, const char *name, int is_prefix, uint64_t size,
                       int64_t modified_ms, const char *etag) {
    (void)ctx;
    (void)etag;
    char when[CLOCK_TEXT_SIZE] = "";
    if (!is_prefix) clock_format_iso8601(modified_ms, when);
    printf("%-24s  ", when);
    if (is_prefix)
        printf("%14s", "PRE");
    else
        printf("%14llu", (unsigned long long)size);
    printf("  %s\n", name);
    return 0;
}

int command_ls(int argc, char **argv) {
    static const char text[] = "penstock ls [--recursive] [--endpoint URL] [BUCKET[/PREFIX]]";
    if (argc > 0 && (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"))) {
        printf("usage: %s\n", text);
        return EXIT_DONE;
    }
    const char *recursive = NULL;
    const struct cli_option own[] = {{"--recursive", &recursive, true}, {0}};
    struct cli_arguments arguments;
    if (cli_parse(argc, argv, own, &arguments)) return EXIT_USAGE;
    char bucket[256] = "";
    const char *prefix = "";
    if (arguments.operand_count > 1 ||
        (arguments.operand_count == 1 && !cli_split(arguments.operands[0], bucket, &prefix))) {
        fprintf(stderr, "usage: %s\n", text);
        return EXIT_USAGE;
    }
    ps_client *client = cli_open(&arguments);
    if (!client) return EXIT_FAILED;
    ps_result result;
    int err = bucket[0] ? ps_list_objects(client, bucket, prefix, recursive ? "" : "/", print_entry,
                                          NULL, &result)
                        : ps_list_buckets(client, print_entry, NULL, &result);
    ps_close(&client);
    return err ? cli_failed(bucket[0] ? bucket : "ls", err, &result) : EXIT_DONE;
}
