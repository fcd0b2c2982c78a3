/* penstock put, get, rm, stat: objects. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "cli/cli.h"

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int usage(const char *text) {
    fprintf(stderr, "usage: %s\n", text);
    return EXIT_USAGE;
}

static bool help_asked(int argc, char **argv, const char *text) {
    if (argc < 1 || (strcmp(argv[0], "--help") && strcmp(argv[0], "-h"))) return false;
    printf("usage: %s\n", text);
    return true;
}

/* What was moved and how, on stdout; a fall-back says why. */
static void report(const char *verb, const char *from, const char *to, const ps_result *result,
                   uint64_t started_ns) {
    char moved[32];
    double seconds = (double)(clock_now_ns() - started_ns) / NS_PER_S;
    format_bytes(result->bytes, moved);
    printf("%s: %s -> %s (%s, %.2f GB/s, %s%s%s)\n", verb, from, to, moved,
           seconds > 0 ? (double)result->bytes / seconds / 1e9 : 0.0, result->transfer,
           result->fallback_reason[0] ? "; not one-sided: " : "", result->fallback_reason);
}

static int put_one(ps_client *client, const char *path, const char *target, enum ps_via via) {
    char bucket[256], full_key[1100];
    const char *key;
    if (!cli_split(target, bucket, &key)) return usage("penstock put FILE ... BUCKET/KEY");
    /* A target that is a bucket or ends in '/' keeps the file's own name. */
    bool folder = !*key || key[strlen(key) - 1] == '/';
    snprintf(full_key, sizeof(full_key), "%s%s", key, folder ? base_name(path) : "");
    struct progress progress;
    ps_result result;
    uint64_t started = clock_now_ns();
    progress_begin(&progress, path);
    int err = ps_put_file(client, bucket, full_key, path, via, progress_update, &progress, &result);
    progress_end(&progress);
    if (err) return cli_failed(path, err, &result);
    char shown[1400];
    snprintf(shown, sizeof(shown), "%s/%s", bucket, full_key);
    report("put", path, shown, &result, started);
    return EXIT_DONE;
}

int command_put(int argc, char **argv) {
    static const char text[] = "penstock put [--via auto|http|one-sided] [--endpoint URL] "
                               "[--parallel N] [--part-size SIZE] FILE ... BUCKET[/KEY]";
    if (help_asked(argc, argv, text)) return EXIT_DONE;
    struct cli_arguments arguments;
    if (cli_parse(argc, argv, NULL, &arguments)) return EXIT_USAGE;
    if (arguments.operand_count < 2) return usage(text);
    const char *target = arguments.operands[arguments.operand_count - 1];
    bool to_folder = !strchr(target, '/') || target[strlen(target) - 1] == '/';
    if (arguments.operand_count > 2 && !to_folder) {
        fprintf(stderr, "penstock: several files go to BUCKET or BUCKET/PREFIX/, not to one key\n");
        return EXIT_USAGE;
    }
    ps_client *client = cli_open(&arguments);
    int code = client ? EXIT_DONE : EXIT_FAILED;
    for (int i = 0; client && i < arguments.operand_count - 1; i++) {
        int one = put_one(client, arguments.operands[i], target, arguments.options.via);
        if (one) code = one;
    }
    ps_close(&client);
    return code;
}

static int get_one(ps_client *client, const char *source, const char *path, enum ps_via via) {
    char bucket[256], full_path[4096];
    const char *key;
    if (!cli_split(source, bucket, &key) || !*key) {
        fprintf(stderr, "penstock: '%s' is not BUCKET/KEY\n", source);
        return EXIT_USAGE;
    }
    struct stat info;
    bool folder = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    snprintf(full_path, sizeof(full_path), "%s%s%s", path, folder ? "/" : "",
             folder ? base_name(key) : "");
    struct progress progress;
    ps_result result;
    uint64_t started = clock_now_ns();
    progress_begin(&progress, source);
    int err = ps_get_file(client, bucket, key, full_path, via, progress_update, &progress, &result);
    progress_end(&progress);
    if (err) return cli_failed(source, err, &result);
    report("get", source, full_path, &result, started);
    return EXIT_DONE;
}

int command_get(int argc, char **argv) {
    static const char text[] = "penstock get [--via auto|http|one-sided] [--endpoint URL] "
                               "[--parallel N] BUCKET/KEY ... FILE-or-DIR";
    if (help_asked(argc, argv, text)) return EXIT_DONE;
    struct cli_arguments arguments;
    if (cli_parse(argc, argv, NULL, &arguments)) return EXIT_USAGE;
    if (arguments.operand_count < 2) return usage(text);
    const char *target = arguments.operands[arguments.operand_count - 1];
    struct stat info;
    if (arguments.operand_count > 2 && (stat(target, &info) || !S_ISDIR(info.st_mode))) {
        fprintf(stderr, "penstock: several objects need a directory to go to\n");
        return EXIT_USAGE;
    }
    ps_client *client = cli_open(&arguments);
    int code = client ? EXIT_DONE : EXIT_FAILED;
    for (int i = 0; client && i < arguments.operand_count - 1; i++) {
        int one = get_one(client, arguments.operands[i], target, arguments.options.via);
        if (one) code = one;
    }
    ps_close(&client);
    return code;
}

int command_rm(int argc, char **argv) {
    static const char text[] = "penstock rm [--endpoint URL] BUCKET/KEY ...";
    if (help_asked(argc, argv, text)) return EXIT_DONE;
    struct cli_arguments arguments;
    if (cli_parse(argc, argv, NULL, &arguments)) return EXIT_USAGE;
    if (arguments.operand_count < 1) return usage(text);
    ps_client *client = cli_open(&arguments);
    int code = client ? EXIT_DONE : EXIT_FAILED;
    for (int i = 0; client && i < arguments.operand_count; i++) {
        char bucket[256];
        const char *key;
        ps_result result = {0};
        int err = cli_split(arguments.operands[i], bucket, &key) && *key
                      ? ps_delete(client, bucket, key, &result)
                      : PS_ERR_ARGUMENT;
        if (err) code = cli_failed(arguments.operands[i], err, &result);
    }
    ps_close(&client);
    return code;
}

int command_stat(int argc, char **argv) {
    static const char text[] = "penstock stat [--endpoint URL] BUCKET/KEY";
    if (help_asked(argc, argv, text)) return EXIT_DONE;
    struct cli_arguments arguments;
    if (cli_parse(argc, argv, NULL, &arguments)) return EXIT_USAGE;
    char bucket[256], when[CLOCK_TEXT_SIZE];
    const char *key;
    if (arguments.operand_count != 1 || !cli_split(arguments.operands[0], bucket, &key) || !*key)
        return usage(text);
    ps_client *client = cli_open(&arguments);
    if (!client) return EXIT_FAILED;
    ps_object_stat info;
    ps_result result;
    int err = ps_stat(client, bucket, key, &info, &result);
    ps_close(&client);
    if (err) return cli_failed(arguments.operands[0], err, &result);
    clock_format_iso8601(info.modified_ms, when);
    printf("size          %llu\nmodified      %s\netag          %s\ncontent-type  %s\n",
           (unsigned long long)info.size, when, info.etag, info.content_type);
    return EXIT_DONE;
}
