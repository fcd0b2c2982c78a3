/* Several threads over the pieces of one object. */
#include <stdlib.h>

#include "client/client.h"

struct parallel {
    pthread_mutex_t lock;
    parallel_fn *run;
    void *ctx;
    uint64_t next, count;
    int err;
    ps_result *result; /* the first error's, else some piece's */
    bool one_fell_back;
};

struct parallel_thread {
    pthread_t thread;
    struct parallel *shared;
    unsigned index;
    bool started;
};

static bool next_index(struct parallel *shared, uint64_t *index) {
    pthread_mutex_lock(&shared->lock);
    bool more = !shared->err && shared->next < shared->count;
    if (more) *index = shared->next++;
    pthread_mutex_unlock(&shared->lock);
    return more;
}

/* Keeps the first error; of successes the first, and one that fell back before one that did not. */
static void keep_result(struct parallel *shared, int err, const ps_result *result, bool first) {
    pthread_mutex_lock(&shared->lock);
    bool fell_back = result->fallback_reason[0] != '\0';
    if (!shared->err && (err || first || (fell_back && !shared->one_fell_back)))
        *shared->result = *result;
    if (!shared->err) shared->err = err;
    shared->one_fell_back |= fell_back;
    pthread_mutex_unlock(&shared->lock);
}

static void work(struct parallel *shared, unsigned worker) {
    uint64_t index;
    while (next_index(shared, &index)) {
        ps_result result = {0};
        int err = shared->run(shared->ctx, worker, index, &result);
        keep_result(shared, err, &result, index == 0);
    }
}

static void *thread_main(void *arg) {
    struct parallel_thread *thread = arg;
    work(thread->shared, thread->index);
    return NULL;
}

int parallel_run(unsigned threads, uint64_t count, parallel_fn *run, void *ctx, ps_result *result) {
    if (threads > count) threads = (unsigned)count;
    if (threads > CLIENT_PARALLEL_MAX) threads = CLIENT_PARALLEL_MAX;
    struct parallel shared = {.run = run, .ctx = ctx, .count = count, .result = result};
    pthread_mutex_init(&shared.lock, NULL);
    struct parallel_thread others[CLIENT_PARALLEL_MAX] = {0};
    /* The calling thread is worker 0; a thread that cannot be had only makes it slower. */
    for (unsigned i = 1; i < threads; i++) {
        others[i] = (struct parallel_thread){.shared = &shared, .index = i};
        others[i].started = !pthread_create(&others[i].thread, NULL, thread_main, &others[i]);
    }
    work(&shared, 0);
    for (unsigned i = 1; i < threads; i++)
        if (others[i].started) pthread_join(others[i].thread, NULL);
    pthread_mutex_destroy(&shared.lock);
    return shared.err;
}
