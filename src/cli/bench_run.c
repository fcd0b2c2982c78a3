/* Runs one cell: threads that do one operation after another until the time is over, and what that
 * cost both sides. The way that payload really took is counted from every result. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/bench.h"

/* Small objects are read from many keys, large ones from one a thread: what a cache would hold. */
#define KEYS_PER_THREAD_SMALL 16
#define SMALL_BYTES           (1u << 20)

struct bench_thread {
    pthread_t thread;
    const struct bench_cell *cell;
    ps_client *client;
    ps_buffer *buffer;
    unsigned index;
    uint64_t stop_ns;
    struct latency latency;
    uint64_t operations, bytes, errors, one_sided;
    char first_error[320], fallback_reason[160];
};

static unsigned keys_per_thread(const struct bench_cell *cell) {
    if (cell->keys) return cell->keys;
    return cell->size_bytes <= SMALL_BYTES ? KEYS_PER_THREAD_SMALL : 1;
}

static void key_name(const struct bench_cell *cell, unsigned thread, uint64_t sequence,
                     char out[96]) {
    snprintf(out, 96, "bench-%llu/%u-%u", (unsigned long long)cell->size_bytes, thread,
             (unsigned)(sequence % keys_per_thread(cell)));
}

static void note_error(struct bench_thread *thread, int err, const ps_result *result) {
    if (!thread->errors++)
        snprintf(thread->first_error, sizeof(thread->first_error), "%s: %s",
                 result->code[0] ? result->code : "error",
                 result->message[0] ? result->message : ps_error_text(err));
}

static int one_operation(struct bench_thread *thread, uint64_t sequence, ps_result *result) {
    const struct bench_cell *cell = thread->cell;
    char key[96];
    key_name(cell, thread->index, sequence, key);
    int err = cell->op == BENCH_GET ? ps_get(thread->client, cell->bucket, key, 0, 0,
                                             thread->buffer, 0, cell->via, result)
                                    : ps_put(thread->client, cell->bucket, key, thread->buffer, 0,
                                             cell->size_bytes, cell->via, result);
    if (!err && result->bytes != cell->size_bytes) {
        snprintf(result->message, sizeof(result->message), "%s has %llu bytes, not %llu", key,
                 (unsigned long long)result->bytes, (unsigned long long)cell->size_bytes);
        return PS_ERR_PROTOCOL;
    }
    return err;
}

static void *thread_main(void *arg) {
    struct bench_thread *thread = arg;
    uint64_t now = clock_now_ns();
    for (uint64_t i = 0; now < thread->stop_ns; i++) {
        ps_result result = {0};
        int err = one_operation(thread, i, &result);
        uint64_t end = clock_now_ns();
        if (err) {
            note_error(thread, err, &result);
            if (thread->errors > 100) break; /* a broken endpoint: enough said */
        } else {
            latency_add(&thread->latency, end - now);
            thread->operations++;
            thread->bytes += result.bytes;
            thread->one_sided += result.via == PS_VIA_ONE_SIDED;
            if (result.fallback_reason[0])
                memcpy(thread->fallback_reason, result.fallback_reason,
                       sizeof(thread->fallback_reason));
        }
        now = end;
    }
    return NULL;
}

static bool server_cpu(ps_client *client, double *seconds) {
    char *json = NULL;
    if (ps_server_stats(client, &json, NULL)) return false;
    const char *field = strstr(json, "\"cpu_s\":");
    bool found = field != NULL;
    if (found) *seconds = strtod(field + strlen("\"cpu_s\":"), NULL);
    free(json);
    return found;
}

/* Makes what GET reads and reads it once, or does one PUT, so that connections, registered memory
 * and caches are warm when the clock starts. */
static int warm_up(struct bench_thread *thread) {
    const struct bench_cell *cell = thread->cell;
    memset(ps_buffer_data(thread->buffer), 0x5a + (int)thread->index, cell->size_bytes);
    unsigned count = cell->op == BENCH_GET ? keys_per_thread(cell) : 1;
    for (unsigned i = 0; i < count; i++) {
        ps_result result = {0};
        char key[96];
        key_name(cell, thread->index, i, key);
        int err = 0;
        if (cell->op == BENCH_GET && cell->prepare)
            err = ps_put(thread->client, cell->bucket, key, thread->buffer, 0, cell->size_bytes,
                         PS_VIA_AUTO, &result);
        if (!err) err = one_operation(thread, i, &result);
        if (err) {
            cli_failed("bench", err, &result);
            return -1;
        }
    }
    return 0;
}

static void summarise(struct bench_thread *threads, const struct bench_cell *cell,
                      struct bench_result *result, uint64_t *bytes) {
    static struct latency all; /* 16 KiB; one cell at a time */
    all = (struct latency){0};
    uint64_t one_sided = 0;
    for (unsigned i = 0; i < cell->concurrency; i++) {
        latency_merge(&all, &threads[i].latency);
        result->operations += threads[i].operations;
        result->errors += threads[i].errors;
        one_sided += threads[i].one_sided;
        *bytes += threads[i].bytes;
        if (threads[i].first_error[0] && !result->first_error[0])
            strcpy(result->first_error, threads[i].first_error);
        if (threads[i].fallback_reason[0])
            strcpy(result->fallback_reason, threads[i].fallback_reason);
    }
    strcpy(result->via, one_sided == 0                    ? "http"
                        : one_sided == result->operations ? "one-sided"
                                                          : "mixed");
    result->p50_ms = latency_percentile_ms(&all, 50);
    result->p99_ms = latency_percentile_ms(&all, 99);
}

static int start_threads(ps_client *client, const struct bench_cell *cell,
                         struct bench_thread *threads) {
    for (unsigned i = 0; i < cell->concurrency; i++) {
        threads[i] = (struct bench_thread){.cell = cell, .client = client, .index = i};
        ps_result result = {0};
        int err = ps_buffer_alloc(client, cell->size_bytes ? cell->size_bytes : 1,
                                  &threads[i].buffer, &result);
        if (err) {
            cli_failed("bench: transfer memory", err, &result);
            return -1;
        }
        if (warm_up(&threads[i])) return -1;
    }
    return 0;
}

static void run_threads(struct bench_thread *threads, const struct bench_cell *cell) {
    uint64_t stop = clock_now_ns() + (uint64_t)(cell->duration_s * 1e9);
    for (unsigned i = 0; i < cell->concurrency; i++) {
        threads[i].stop_ns = stop;
        if (pthread_create(&threads[i].thread, NULL, thread_main, &threads[i]))
            threads[i].thread = 0;
    }
    for (unsigned i = 0; i < cell->concurrency; i++)
        if (threads[i].thread) pthread_join(threads[i].thread, NULL);
}

int bench_run(ps_client *client, const struct bench_cell *cell, struct bench_result *result) {
    *result = (struct bench_result){0};
    struct bench_thread *threads = calloc(cell->concurrency, sizeof(*threads));
    if (!threads) return -1;
    int err = start_threads(client, cell, threads);
    if (!err) {
        double server_before = 0, server_after = 0;
        bool server_tells = server_cpu(client, &server_before);
        uint64_t cpu = clock_process_cpu_ns(), start = clock_now_ns(), bytes = 0;
        run_threads(threads, cell);
        result->elapsed_s = (double)(clock_now_ns() - start) / 1e9;
        double client_cpu_s = (double)(clock_process_cpu_ns() - cpu) / 1e9;
        server_tells = server_tells && server_cpu(client, &server_after);
        summarise(threads, cell, result, &bytes);
        double gigabytes = (double)bytes / 1e9;
        result->gb_per_s = gigabytes / result->elapsed_s;
        result->ops_per_s = (double)result->operations / result->elapsed_s;
        result->client_cpu_s_per_gb = gigabytes > 0 ? client_cpu_s / gigabytes : 0;
        result->server_cpu_s_per_gb =
            server_tells && gigabytes > 0 ? (server_after - server_before) / gigabytes : -1;
    }
    for (unsigned i = 0; i < cell->concurrency; i++)
        if (threads[i].buffer) ps_buffer_free(&threads[i].buffer);
    free(threads);
    return err;
}
