/* Starting and stopping: the reactors' threads go in step, and the end is found by asking. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"
#include "runtime/internal.h"

#define STOP_WARNING_MS 10000

/* Signals are the main thread's, except those that a thread brings on itself. */
void runtime_block_signals(void) {
    static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, SIGPROF};
    sigset_t set;
    sigfillset(&set);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) sigdelset(&set, own[i]);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* ---- in step */

static int first_error(const struct runtime *runtime) {
    for (unsigned i = 0; i < runtime->reactor_count; i++) {
        if (runtime->reactors[i].start_error) return runtime->reactors[i].start_error;
    }
    return 0;
}

int runtime_reactor_up(struct runtime *runtime, int err) {
    struct reactor *self = reactor_self();
    pthread_mutex_lock(&runtime->mutex);
    self->start_error = err;
    runtime->reactors_up++;
    pthread_cond_broadcast(&runtime->changed);
    while (runtime->reactors_up < runtime->reactor_count)
        pthread_cond_wait(&runtime->changed, &runtime->mutex);
    err = first_error(runtime);
    pthread_mutex_unlock(&runtime->mutex);
    return err;
}

void runtime_reactor_left(struct runtime *runtime) {
    pthread_mutex_lock(&runtime->mutex);
    runtime->reactors_left++;
    pthread_cond_broadcast(&runtime->changed);
    while (runtime->reactors_left < runtime->reactor_count)
        pthread_cond_wait(&runtime->changed, &runtime->mutex);
    pthread_mutex_unlock(&runtime->mutex);
}

/* ---- start */

static void pin(struct reactor *reactor) {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) || !CPU_COUNT(&allowed)) return;
    unsigned wanted = reactor->index % (unsigned)CPU_COUNT(&allowed);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed) || wanted-- > 0) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        int err = pthread_setaffinity_np(reactor->thread, sizeof one, &one);
        if (err)
            log_warn("runtime: reactor %u is not pinned: %s", reactor->index, error_text(-err));
        return;
    }
}

/* A thread that could not be made counts as one that came up with an error and has left. */
static void count_missing(struct runtime *runtime, struct reactor *reactor, int err) {
    pthread_mutex_lock(&runtime->mutex);
    reactor->start_error = err;
    runtime->reactors_up++;
    runtime->reactors_left++;
    pthread_cond_broadcast(&runtime->changed);
    pthread_mutex_unlock(&runtime->mutex);
}

static int start_threads(struct runtime *runtime) {
    for (unsigned i = 0; i < runtime->reactor_count; i++) {
        struct reactor *reactor = &runtime->reactors[i];
        int err = runtime->threads_started == i ? message_init(reactor) : -ECANCELED;
        if (!err) err = -pthread_create(&reactor->thread, NULL, reactor_main, reactor);
        if (err) {
            count_missing(runtime, reactor, err);
            continue;
        }
        runtime->threads_started++;
        if (runtime->options.pin_threads) pin(reactor);
    }
    pthread_mutex_lock(&runtime->mutex);
    while (runtime->reactors_up < runtime->reactor_count)
        pthread_cond_wait(&runtime->changed, &runtime->mutex);
    int err = first_error(runtime);
    pthread_mutex_unlock(&runtime->mutex);
    return err;
}

static void destroy(struct runtime **runtime_ref) {
    struct runtime *runtime = *runtime_ref;
    *runtime_ref = NULL;
    for (unsigned i = 0; i < runtime->threads_started; i++)
        pthread_join(runtime->reactors[i].thread, NULL);
    worker_stop(&runtime->workers);
    for (unsigned i = 0; i < runtime->reactor_count; i++) message_deinit(&runtime->reactors[i]);
    pthread_cond_destroy(&runtime->changed);
    pthread_mutex_destroy(&runtime->mutex);
    free(runtime->reactors);
    free(runtime);
}

static struct runtime *allocate(const struct runtime_options *options) {
    struct runtime *runtime = calloc(1, sizeof *runtime);
    if (!runtime) return NULL;
    size_t size = options->reactors * sizeof(struct reactor);
    runtime->reactors = aligned_alloc(_Alignof(struct reactor), size);
    if (!runtime->reactors) {
        free(runtime);
        return NULL;
    }
    runtime->options = *options;
    runtime->reactor_count = options->reactors;
    for (unsigned i = 0; i < options->reactors; i++)
        runtime->reactors[i] = (struct reactor){.runtime = runtime, .index = i, .wake_fd = -1};
    pthread_mutex_init(&runtime->mutex, NULL);
    pthread_cond_init(&runtime->changed, NULL);
    return runtime;
}

static void quit_message(void *arg) {
    struct reactor *reactor = arg;
    reactor->quit = true;
}

static void quit_all(struct runtime *runtime) {
    struct message quit[REACTOR_LIMIT];
    for (unsigned i = 0; i < runtime->threads_started; i++) {
        struct reactor *reactor = &runtime->reactors[i];
        quit[i] = (struct message){.fn = quit_message, .arg = reactor};
        reactor_post(reactor, &quit[i]);
    }
    pthread_mutex_lock(&runtime->mutex);
    while (runtime->reactors_left < runtime->reactor_count)
        pthread_cond_wait(&runtime->changed, &runtime->mutex);
    pthread_mutex_unlock(&runtime->mutex);
}

int runtime_start(const struct runtime_options *options, struct runtime **runtime) {
    *runtime = NULL;
    if (options->reactors < 1 || options->reactors > REACTOR_LIMIT || options->workers < 1)
        return -EINVAL;
    struct runtime *made = allocate(options);
    if (!made) return -ENOMEM;
    int err = worker_start(&made->workers, options->workers);
    if (err) {
        made->reactor_count = 0;
        destroy(&made);
        return err;
    }
    err = start_threads(made);
    if (err) {
        destroy(&made);
        return err;
    }
    *runtime = made;
    return 0;
}

/* ---- stop */

/* What one reactor says of itself, asked by a message. */
struct probe {
    struct message message;
    struct reactor *reactor;
    uint64_t fibers, callbacks, messages;
    const char *example; /* the name of a fiber that lives */
    bool answered;
};

static void cancel_everything(struct reactor *reactor) {
    reactor->stopping = true;
    accept_cancel_all(reactor);
    idle_cancel_all(reactor);
    fiber_cancel_all(reactor);
}

static void probe_message(void *arg) {
    struct probe *probe = arg;
    struct reactor *reactor = probe->reactor;
    if (!reactor->stopping) cancel_everything(reactor);
    probe->fibers = reactor->counters.fibers_alive;
    probe->callbacks = (reactor->accepts != NULL) + (reactor->idles != NULL);
    probe->messages = reactor->counters.messages;
    probe->example = reactor->alive ? reactor->alive->name : NULL;

    pthread_mutex_lock(&reactor->runtime->mutex);
    probe->answered = true;
    pthread_cond_broadcast(&reactor->runtime->changed);
    pthread_mutex_unlock(&reactor->runtime->mutex);
}

struct survey {
    uint64_t alive, messages;
    const char *example;
};

static struct survey survey(struct runtime *runtime) {
    struct survey sum = {0};
    for (unsigned i = 0; i < runtime->reactor_count; i++) {
        struct probe probe = {.reactor = &runtime->reactors[i]};
        probe.message = (struct message){.fn = probe_message, .arg = &probe};
        reactor_post(probe.reactor, &probe.message);
        pthread_mutex_lock(&runtime->mutex);
        while (!probe.answered) pthread_cond_wait(&runtime->changed, &runtime->mutex);
        pthread_mutex_unlock(&runtime->mutex);
        sum.alive += probe.fibers + probe.callbacks;
        sum.messages += probe.messages;
        if (probe.example) sum.example = probe.example;
    }
    return sum;
}

/* Fibers of one reactor may wait for another's, so no reactor leaves before all are done. A message
 * may be under way between two that were asked one after the other: all are done when two surveys
 * find nothing alive, and between them no message ran but the survey's own. */
static void wait_until_done(struct runtime *runtime) {
    uint64_t warn_at = clock_deadline_ms(STOP_WARNING_MS);
    struct survey before = survey(runtime);
    for (;;) {
        struct survey now = survey(runtime);
        uint64_t foreign = now.messages - before.messages - runtime->reactor_count;
        if (before.alive == 0 && now.alive == 0 && foreign == 0) return;
        before = now;
        if (now.alive && clock_now_ns() > warn_at) {
            log_warn("runtime: still waiting for %llu fibers to end, one of them '%s'",
                     (unsigned long long)now.alive, now.example ? now.example : "(a callback)");
            warn_at = clock_deadline_ms(STOP_WARNING_MS);
        }
        struct timespec pause = {.tv_nsec = NS_PER_MS / 2};
        nanosleep(&pause, NULL);
    }
}

void runtime_stop(struct runtime **runtime) {
    assert(!reactor_self());
    if (!*runtime) return;
    wait_until_done(*runtime);
    quit_all(*runtime);
    destroy(runtime);
}

/* ---- questions */

unsigned runtime_reactor_count(const struct runtime *runtime) {
    return runtime->reactor_count;
}

struct reactor *runtime_reactor(struct runtime *runtime, unsigned index) {
    assert(index < runtime->reactor_count);
    return &runtime->reactors[index];
}

void runtime_stats(struct runtime *runtime, struct runtime_stats *stats) {
    *stats = (struct runtime_stats){.fixed_buffers = true};
    for (unsigned i = 0; i < runtime->reactor_count; i++) {
        const struct reactor *reactor = &runtime->reactors[i];
        const struct counters *counters = &reactor->counters;
        stats->fibers_alive += counters->fibers_alive;
        stats->fibers_started += counters->fibers_started;
        stats->switches += counters->switches;
        stats->sqes += counters->sqes;
        stats->enters += counters->enters;
        stats->messages += counters->messages;
        stats->worker_jobs += counters->worker_jobs;
        stats->stacks += counters->stacks;
        if (!reactor->fixed_segments) stats->fixed_buffers = false;
    }
}
