/* Settings: one table, three sources. Parsing only; what a value means is checked by whoever uses
 * it, except for numbers and switches, whose form is checked here. */
#include "server/config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum setting_kind { SETTING_TEXT, SETTING_SIZE, SETTING_COUNT, SETTING_SWITCH };

struct setting {
    const char *name; /* as on the command line, with '-' */
    enum setting_kind kind;
    size_t offset;
    const char *value_name, *help;
};

#define SETTING(name, kind, field, value_name, help)                                               \
    { name, kind, offsetof(struct server_config, field), value_name, help }

static const struct setting settings[] = {
    SETTING("config", SETTING_TEXT, config_file, "FILE", "read settings from FILE (name = value)"),
    SETTING("data", SETTING_TEXT, data, "PATH",
            "directory or block device that holds the objects [./penstock-data]"),
    SETTING("meta", SETTING_TEXT, meta, "DIR",
            "directory for metadata and keys; needed when --data is a block device"),
    SETTING("listen", SETTING_TEXT, listen, "HOST:PORT",
            "address to serve on; port 0 picks a free one [127.0.0.1:9000]"),
    SETTING("ready-file", SETTING_TEXT, ready_file, "FILE",
            "write the server's URL to FILE when it is ready"),
    SETTING("memory", SETTING_SIZE, memory, "SIZE",
            "bound on buffers and caches, e.g. 8GiB [a quarter of RAM, at most 1GiB]"),
    SETTING("capacity", SETTING_SIZE, capacity, "SIZE",
            "largest size of the volume file [what the file system has]"),
    SETTING("reactors", SETTING_COUNT, reactors, "N",
            "event loops, one thread each [one per core]"),
    SETTING("workers", SETTING_COUNT, workers, "N", "threads for work that blocks [2 per core]"),
    SETTING("durability", SETTING_TEXT, durability, "LEVEL",
            "durable: an answered write survives power loss; crash: it survives the death of the "
            "process, and a power loss may lose the last seconds [durable]"),
    SETTING("region", SETTING_TEXT, region, "NAME", "region that clients sign for [us-east-1]"),
    SETTING("domain", SETTING_TEXT, domain, "NAME", "also accept bucket.NAME as the host"),
    SETTING("socket-dir", SETTING_TEXT, socket_dir, "DIR",
            "where same-host clients find the transfer socket [the data directory]"),
    SETTING("access-key", SETTING_TEXT, access_key, "KEY",
            "root access key [made at random on the first start]"),
    SETTING("secret-key", SETTING_TEXT, secret_key, "KEY",
            "root secret key; rather give it as PENSTOCK_SECRET_KEY"),
    SETTING("log-level", SETTING_TEXT, log_level, "LEVEL", "error, warn, info or debug [info]"),
    SETTING("access-log", SETTING_SWITCH, access_log, NULL, "log one line a request"),
    SETTING("buffered-io", SETTING_SWITCH, buffered_io, NULL,
            "do not use O_DIRECT (for file systems that refuse it)"),
};
#define SETTING_TOTAL (sizeof(settings) / sizeof(settings[0]))

bool config_parse_size(const char *text, uint64_t *bytes) {
    if (!isdigit((unsigned char)text[0])) return false;
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno) return false;
    unsigned shift = 0;
    switch (tolower((unsigned char)*end)) {
    case 'k': shift = 10; break;
    case 'm': shift = 20; break;
    case 'g': shift = 30; break;
    case 't': shift = 40; break;
    case '\0': break;
    default: return false;
    }
    if (shift) end++;
    if (shift && tolower((unsigned char)*end) == 'i') end++;
    if (tolower((unsigned char)*end) == 'b') end++;
    if (*end || (shift && number > (UINT64_MAX >> shift))) return false;
    *bytes = (uint64_t)number << shift;
    return true;
}

static bool parse_switch(const char *text, bool *on) {
    if (!strcmp(text, "1") || !strcmp(text, "true") || !strcmp(text, "yes") ||
        !strcmp(text, "on")) {
        *on = true;
        return true;
    }
    if (!strcmp(text, "0") || !strcmp(text, "false") || !strcmp(text, "no") ||
        !strcmp(text, "off")) {
        *on = false;
        return true;
    }
    return false;
}

static int setting_set(struct server_config *config, const struct setting *setting,
                       const char *value, const char *source) {
    char *field = (char *)config + setting->offset;
    bool ok = true;
    switch (setting->kind) {
    case SETTING_TEXT:
        ok = strlen(value) < CONFIG_TEXT_MAX;
        if (ok) strcpy(field, value);
        break;
    case SETTING_SIZE: ok = config_parse_size(value, (uint64_t *)field); break;
    case SETTING_COUNT: {
        char *end;
        errno = 0;
        *(uint64_t *)field = strtoull(value, &end, 10);
        ok = isdigit((unsigned char)value[0]) && !*end && !errno;
        break;
    }
    case SETTING_SWITCH: ok = parse_switch(value, (bool *)field); break;
    }
    if (ok) return 0;
    fprintf(stderr, "penstock: %s: '%s' is not a valid value for %s\n", source, value,
            setting->name);
    return -EINVAL;
}

static const struct setting *setting_find(const char *name) {
    for (size_t i = 0; i < SETTING_TOTAL; i++)
        if (!strcmp(settings[i].name, name)) return &settings[i];
    return NULL;
}

struct file_context {
    struct server_config *config;
    const char *path;
    bool reported;
};

static int on_file_entry(void *user, const char *section, const char *name, const char *value) {
    struct file_context *file = user;
    const struct setting *setting = setting_find(name);
    if (!setting || !strcmp(name, "config")) {
        fprintf(stderr, "penstock: %s: there is no setting '%s'\n", file->path, name);
    } else if (!setting_set(file->config, setting, value, file->path)) {
        return 1;
    }
    file->reported = true;
    return 0;
}

static int load_file(struct server_config *config, const char *path) {
    struct file_context file = {.config = config, .path = path};
    int line = ini_parse(path, on_file_entry, &file);
    if (line == 0) return 0;
    if (line < 0) {
        fprintf(stderr, "penstock: cannot read the configuration file %s\n", path);
    } else if (!file.reported) {
        fprintf(stderr, "penstock: %s:%d: expected 'name = value'\n", path, line);
    }
    return -EINVAL;
}

static int load_environment(struct server_config *config) {
    for (size_t i = 0; i < SETTING_TOTAL; i++) {
        char variable[64] = "PENSTOCK_";
        size_t n = strlen(variable);
        for (const char *c = settings[i].name; *c; c++)
            variable[n++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
        variable[n] = '\0';
        const char *value = getenv(variable);
        if (!value || !*value) continue;
        int err = setting_set(config, &settings[i], value, variable);
        if (err) return err;
    }
    return 0;
}

/* Applies every argument, or (with only_config) just --config, which must be known first. */
static int load_arguments(struct server_config *config, int argc, char **argv, bool only_config) {
    for (int i = 0; i < argc; i++) {
        const char *argument = argv[i];
        char name[64];
        const char *equals = strchr(argument, '=');
        size_t size = equals ? (size_t)(equals - argument) : strlen(argument);
        if (strncmp(argument, "--", 2) || size < 3 || size - 2 >= sizeof(name)) {
            fprintf(stderr, "penstock: unexpected argument '%s' (see penstock serve --help)\n",
                    argument);
            return -EINVAL;
        }
        memcpy(name, argument + 2, size - 2);
        name[size - 2] = '\0';
        const struct setting *setting = setting_find(name);
        if (!setting) {
            fprintf(stderr, "penstock: there is no option --%s (see penstock serve --help)\n",
                    name);
            return -EINVAL;
        }
        const char *value = equals ? equals + 1 : NULL;
        if (!value && setting->kind == SETTING_SWITCH) value = "1";
        if (!value && i + 1 < argc) value = argv[++i];
        if (!value) {
            fprintf(stderr, "penstock: --%s needs a value\n", name);
            return -EINVAL;
        }
        if (only_config && strcmp(name, "config")) continue;
        int err = setting_set(config, setting, value, "command line");
        if (err) return err;
    }
    return 0;
}

int config_load(struct server_config *config, int argc, char **argv) {
    *config = (struct server_config){
        .data = "./penstock-data",
        .listen = "127.0.0.1:9000",
        .region = "us-east-1",
        .log_level = "info",
        .durability = "durable",
    };
    const char *file = getenv("PENSTOCK_CONFIG");
    if (file && strlen(file) < CONFIG_TEXT_MAX) strcpy(config->config_file, file);
    int err = load_arguments(config, argc, argv, true);
    if (!err && config->config_file[0]) {
        char path[CONFIG_TEXT_MAX];
        strcpy(path, config->config_file);
        err = load_file(config, path);
    }
    if (!err) err = load_environment(config);
    if (!err) err = load_arguments(config, argc, argv, false);
    return err;
}

void config_help(FILE *out) {
    fprintf(out,
            "usage: penstock serve [option ...]\n\n"
            "Serve S3 over HTTP, with one-sided transfers for clients that register memory.\n"
            "Every option is also a variable (--ready-file: PENSTOCK_READY_FILE) and a key of\n"
            "the configuration file (ready-file = ...).\n\n");
    for (size_t i = 0; i < SETTING_TOTAL; i++) {
        char left[48];
        snprintf(left, sizeof(left), "--%s%s%s", settings[i].name,
                 settings[i].value_name ? " " : "",
                 settings[i].value_name ? settings[i].value_name : "");
        fprintf(out, "  %-24s %s\n", left, settings[i].help);
    }
}
