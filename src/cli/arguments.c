/* Command-line arguments of the client commands, and how their failures are shown. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "server/config.h"

static const struct cli_option *find(const struct cli_option *options, const char *name,
                                     size_t size) {
    for (; options && options->name; options++)
        if (strlen(options->name) == size && !strncmp(options->name, name, size)) return options;
    return NULL;
}

int cli_parse_via(const char *text, enum ps_via *via) {
    if (!strcmp(text, "auto"))
        *via = PS_VIA_AUTO;
    else if (!strcmp(text, "http"))
        *via = PS_VIA_HTTP;
    else if (!strcmp(text, "one-sided"))
        *via = PS_VIA_ONE_SIDED;
    else
        return -1;
    return 0;
}

static int apply_common(const char *via, const char *parallel, const char *part_size,
                        ps_options *options) {
    if (via && cli_parse_via(via, &options->via)) {
        fprintf(stderr, "penstock: --via %s: expected auto, http or one-sided\n", via);
        return -1;
    }
    if (parallel) {
        char *end;
        unsigned long n = strtoul(parallel, &end, 10);
        if (*end || n < 1 || n > 256) {
            fprintf(stderr, "penstock: --parallel %s: expected 1 to 256\n", parallel);
            return -1;
        }
        options->parallel = (unsigned)n;
    }
    if (part_size &&
        (!config_parse_size(part_size, &options->part_size) || options->part_size < 5 << 20)) {
        fprintf(stderr, "penstock: --part-size %s: expected a size of at least 5MiB\n", part_size);
        return -1;
    }
    return 0;
}

int cli_parse(int argc, char **argv, const struct cli_option *own,
              struct cli_arguments *arguments) {
    *arguments = (struct cli_arguments){0};
    const char *via = NULL, *parallel = NULL, *part_size = NULL;
    const struct cli_option common[] = {{"--endpoint", &arguments->options.endpoint, false},
                                        {"--via", &via, false},
                                        {"--parallel", &parallel, false},
                                        {"--part-size", &part_size, false},
                                        {0}};
    bool only_operands = false;
    for (int i = 0; i < argc; i++) {
        const char *argument = argv[i];
        if (only_operands || argument[0] != '-' || !argument[1]) {
            if (arguments->operand_count == CLI_OPERANDS_MAX) {
                fprintf(stderr, "penstock: at most %d operands\n", CLI_OPERANDS_MAX);
                return -1;
            }
            arguments->operands[arguments->operand_count++] = argument;
            continue;
        }
        if (!strcmp(argument, "--")) {
            only_operands = true;
            continue;
        }
        const char *equals = strchr(argument, '=');
        size_t size = equals ? (size_t)(equals - argument) : strlen(argument);
        const struct cli_option *option = find(own, argument, size);
        if (!option) option = find(common, argument, size);
        if (!option) {
            fprintf(stderr, "penstock: there is no option %.*s\n", (int)size, argument);
            return -1;
        }
        const char *value = option->is_switch ? "1" : equals ? equals + 1 : NULL;
        if (!value && i + 1 < argc) value = argv[++i];
        if (!value) {
            fprintf(stderr, "penstock: %s needs a value\n", option->name);
            return -1;
        }
        *option->value = value;
    }
    return apply_common(via, parallel, part_size, &arguments->options);
}

bool cli_split(const char *text, char bucket[256], const char **key) {
    if (!strncmp(text, "s3://", 5)) text += 5;
    const char *slash = strchr(text, '/');
    size_t size = slash ? (size_t)(slash - text) : strlen(text);
    if (size == 0 || size >= 256) return false;
    memcpy(bucket, text, size);
    bucket[size] = '\0';
    *key = slash ? slash + 1 : text + strlen(text);
    return true;
}

ps_client *cli_open(const struct cli_arguments *arguments) {
    ps_client *client = NULL;
    ps_result result;
    int err = ps_open(&arguments->options, &client, &result);
    if (err) cli_failed("open", err, &result);
    return client;
}

int cli_failed(const char *what, int err, const ps_result *result) {
    const char *sentence = result->message[0] ? result->message : ps_error_text(err);
    if (result->code[0])
        fprintf(stderr, "penstock: %s: %s: %s\n", what, result->code, sentence);
    else
        fprintf(stderr, "penstock: %s: %s\n", what, sentence);
    return EXIT_FAILED;
}
