/* One measurement of penstock bench: a cell of the table. */
#ifndef PENSTOCK_CLI_BENCH_H
#define PENSTOCK_CLI_BENCH_H

#include "cli/cli.h"

enum bench_op { BENCH_GET, BENCH_PUT };

struct bench_cell {
    enum bench_op op;
    enum ps_via via; /* as asked */
    uint64_t size_bytes;
    unsigned concurrency; /* threads, each with its own buffer and connection */
    unsigned keys;        /* of each thread; 0: 16 of small objects, 1 of large ones */
    double duration_s;
    const char *bucket;
    bool prepare; /* make the objects that GET reads */
};

struct bench_result {
    char via[24]; /* as taken: http, one-sided or mixed */
    double elapsed_s, gb_per_s, ops_per_s, p50_ms, p99_ms;
    double client_cpu_s_per_gb;
    double server_cpu_s_per_gb; /* negative where the server does not tell */
    uint64_t operations, errors;
    char first_error[320];
    char fallback_reason[160];
};

/* -1 and one line on stderr when nothing could be measured. */
int bench_run(ps_client *client, const struct bench_cell *cell, struct bench_result *result);

/* ---- latencies, in a histogram whose buckets are at most 3 % wide. Nanoseconds. */
#define LATENCY_BUCKETS (64 * 32)
struct latency {
    uint64_t counts[LATENCY_BUCKETS], total;
};
void latency_add(struct latency *latency, uint64_t ns);
void latency_merge(struct latency *into, const struct latency *from);
double latency_percentile_ms(const struct latency *latency, double percent);

#endif
