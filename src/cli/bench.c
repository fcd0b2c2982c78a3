/* penstock bench: the table of cells, and how it is printed. */
#include "cli/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/config.h"

#define LIST_MAX 16
#define KEYS_MAX 1000000000ul

static const char help[] =
    "usage: penstock bench [option ...]\n\n"
    "Measure an S3 endpoint: throughput, latency, and CPU seconds per GB (10^9 bytes) of this "
    "client\n"
    "and, where the server is a Penstock, of the server. Lists are separated by commas; every\n"
    "combination is a row.\n\n"
    "  --op LIST           get, put [get,put]\n"
    "  --size LIST         object sizes [64MiB]\n"
    "  --concurrency LIST  threads, each with its own connection and buffer [1]\n"
    "  --via LIST          http, one-sided, auto [auto]; the table shows the way really taken\n"
    "  --duration SECONDS  of each row [5]\n"
    "  --bucket NAME       made when missing [penstock-bench]\n"
    "  --keys N            different objects for each thread [16, or 1 above 1 MiB]\n"
    "  --no-prepare        GET objects that are there already (bench-SIZE/THREAD-N)\n"
    "  --json              one JSON object a line instead of the table\n"
    "  --endpoint URL      http://host:port [PENSTOCK_ENDPOINT]\n";

/* Splits a comma-separated list in place. -1 when it has too many items. */
static int split_list(char *text, char *items[LIST_MAX]) {
    int count = 0;
    for (char *item = strtok(text, ","); item; item = strtok(NULL, ",")) {
        if (count == LIST_MAX) return -1;
        items[count++] = item;
    }
    return count ? count : -1;
}

struct bench_plan {
    enum bench_op ops[LIST_MAX];
    enum ps_via vias[LIST_MAX];
    uint64_t sizes[LIST_MAX];
    unsigned concurrencies[LIST_MAX];
    int op_count, via_count, size_count, concurrency_count;
};

static int wrong(const char *option, const char *value) {
    fprintf(stderr, "penstock: --%s: '%s' is not valid (see penstock bench --help)\n", option,
            value);
    return -1;
}

static int plan_ops(const char *text, struct bench_plan *plan) {
    char copy[256], *items[LIST_MAX];
    snprintf(copy, sizeof(copy), "%s", text);
    plan->op_count = split_list(copy, items);
    for (int i = 0; i < plan->op_count; i++) {
        if (!strcmp(items[i], "get"))
            plan->ops[i] = BENCH_GET;
        else if (!strcmp(items[i], "put"))
            plan->ops[i] = BENCH_PUT;
        else
            return wrong("op", items[i]);
    }
    return plan->op_count < 0 ? wrong("op", text) : 0;
}

static int plan_vias(const char *text, struct bench_plan *plan) {
    char copy[256], *items[LIST_MAX];
    snprintf(copy, sizeof(copy), "%s", text);
    plan->via_count = split_list(copy, items);
    for (int i = 0; i < plan->via_count; i++)
        if (cli_parse_via(items[i], &plan->vias[i])) return wrong("via", items[i]);
    return plan->via_count < 0 ? wrong("via", text) : 0;
}

static int plan_sizes(const char *text, struct bench_plan *plan) {
    char copy[256], *items[LIST_MAX];
    snprintf(copy, sizeof(copy), "%s", text);
    plan->size_count = split_list(copy, items);
    for (int i = 0; i < plan->size_count; i++)
        if (!config_parse_size(items[i], &plan->sizes[i])) return wrong("size", items[i]);
    return plan->size_count < 0 ? wrong("size", text) : 0;
}

static int plan_concurrencies(const char *text, struct bench_plan *plan) {
    char copy[256], *items[LIST_MAX];
    snprintf(copy, sizeof(copy), "%s", text);
    plan->concurrency_count = split_list(copy, items);
    for (int i = 0; i < plan->concurrency_count; i++) {
        char *end;
        unsigned long n = strtoul(items[i], &end, 10);
        if (*end || n < 1 || n > 1024) return wrong("concurrency", items[i]);
        plan->concurrencies[i] = (unsigned)n;
    }
    return plan->concurrency_count < 0 ? wrong("concurrency", text) : 0;
}

static void print_json(const struct bench_cell *cell, const struct bench_result *r) {
    printf("{\"op\": \"%s\", \"via\": \"%s\", \"size_bytes\": %llu, \"concurrency\": %u, "
           "\"gb_per_s\": %.4f, \"ops_per_s\": %.1f, \"p50_ms\": %.4f, \"p99_ms\": %.4f, "
           "\"client_cpu_s_per_gb\": %.5f, \"server_cpu_s_per_gb\": ",
           cell->op == BENCH_GET ? "get" : "put", r->via, (unsigned long long)cell->size_bytes,
           cell->concurrency, r->gb_per_s, r->ops_per_s, r->p50_ms, r->p99_ms,
           r->client_cpu_s_per_gb);
    if (r->server_cpu_s_per_gb < 0)
        printf("null");
    else
        printf("%.5f", r->server_cpu_s_per_gb);
    printf(", \"errors\": %llu}\n", (unsigned long long)r->errors);
}

static void print_header(void) {
    printf("%-4s %-10s %10s %5s %8s %10s %9s %9s %11s %11s %6s\n", "op", "via", "size", "conc",
           "GB/s", "ops/s", "p50 ms", "p99 ms", "client s/GB", "server s/GB", "errors");
}

static void print_row(const struct bench_cell *cell, const struct bench_result *r) {
    char size[32], server[32] = "-";
    format_bytes(cell->size_bytes, size);
    if (r->server_cpu_s_per_gb >= 0)
        snprintf(server, sizeof(server), "%.4f", r->server_cpu_s_per_gb);
    printf("%-4s %-10s %10s %5u %8.3f %10.1f %9.3f %9.3f %11.4f %11s %6llu\n",
           cell->op == BENCH_GET ? "get" : "put", r->via, size, cell->concurrency, r->gb_per_s,
           r->ops_per_s, r->p50_ms, r->p99_ms, r->client_cpu_s_per_gb, server,
           (unsigned long long)r->errors);
}

/* The row, and on stderr what a reader must know about it. */
static void show(const struct bench_cell *cell, const struct bench_result *result, bool json) {
    if (json)
        print_json(cell, result);
    else
        print_row(cell, result);
    fflush(stdout);
    if (result->errors) fprintf(stderr, "penstock: bench: first error: %s\n", result->first_error);
    if (result->fallback_reason[0])
        fprintf(stderr, "penstock: bench: not one-sided: %s\n", result->fallback_reason);
}

static int run_plan(ps_client *client, const struct bench_plan *plan, struct bench_cell cell,
                    bool json) {
    int code = EXIT_DONE;
    if (!json) print_header();
    for (int o = 0; o < plan->op_count; o++)
        for (int s = 0; s < plan->size_count; s++)
            for (int c = 0; c < plan->concurrency_count; c++)
                for (int v = 0; v < plan->via_count; v++) {
                    struct bench_result result;
                    cell.op = plan->ops[o];
                    cell.size_bytes = plan->sizes[s];
                    cell.concurrency = plan->concurrencies[c];
                    cell.via = plan->vias[v];
                    if (bench_run(client, &cell, &result)) return EXIT_FAILED;
                    show(&cell, &result, json);
                    if (result.errors) code = EXIT_FAILED;
                }
    return code;
}

static int ensure_bucket(ps_client *client, const char *bucket) {
    ps_result result;
    int err = ps_bucket_create(client, bucket, &result);
    if (!err || !strcmp(result.code, "BucketAlreadyOwnedByYou")) return 0;
    return cli_failed(bucket, err, &result);
}

int command_bench(int argc, char **argv) {
    if (argc > 0 && (!strcmp(argv[0], "--help") || !strcmp(argv[0], "-h"))) {
        fputs(help, stdout);
        return EXIT_DONE;
    }
    const char *op = "get,put", *size = "64MiB", *concurrency = "1", *via = "auto", *duration = "5";
    const char *keys = "0";
    const char *bucket = "penstock-bench", *no_prepare = NULL, *json = NULL;
    const struct cli_option own[] = {{"--op", &op, false},
                                     {"--size", &size, false},
                                     {"--concurrency", &concurrency, false},
                                     {"--via", &via, false},
                                     {"--duration", &duration, false},
                                     {"--keys", &keys, false},
                                     {"--bucket", &bucket, false},
                                     {"--no-prepare", &no_prepare, true},
                                     {"--json", &json, true},
                                     {0}};
    struct cli_arguments arguments;
    if (cli_parse(argc, argv, own, &arguments)) return EXIT_USAGE;
    if (arguments.operand_count) return wrong("bench", arguments.operands[0]), EXIT_USAGE;
    struct bench_plan plan;
    if (plan_ops(op, &plan) || plan_vias(via, &plan) || plan_sizes(size, &plan) ||
        plan_concurrencies(concurrency, &plan))
        return EXIT_USAGE;
    char *end;
    struct bench_cell cell = {
        .bucket = bucket, .prepare = !no_prepare, .duration_s = strtod(duration, &end)};
    if (*end || !(cell.duration_s > 0) || cell.duration_s > 3600)
        return wrong("duration", duration), EXIT_USAGE;
    unsigned long key_count = strtoul(keys, &end, 10);
    if (*end || key_count > KEYS_MAX) return wrong("keys", keys), EXIT_USAGE;
    cell.keys = (unsigned)key_count;
    ps_client *client = cli_open(&arguments);
    if (!client) return EXIT_FAILED;
    int code = cell.prepare ? ensure_bucket(client, bucket) : EXIT_DONE;
    if (!code) code = run_plan(client, &plan, cell, json != NULL);
    ps_close(&client);
    return code;
}
