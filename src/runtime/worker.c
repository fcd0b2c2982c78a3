/* Worker threads: a FIFO of jobs under one mutex. A job travels as a message, first to the workers,
 * then back to the reactor it came from, so that `done` and `waiter` are touched by that reactor
 * only. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "runtime/internal.h"

/* ---- the reactor's side */

static void on_job_done(void *arg) {
    struct worker_job *job = arg;
    job->done = true;
    if (job->waiter) fiber_release(job->waiter);
}

void worker_job_start(struct worker_job *job, void (*fn)(void *arg), void *arg) {
    struct reactor *reactor = reactor_self();
    assert(reactor && fn);
    *job = (struct worker_job){.fn = fn, .arg = arg, .reactor = reactor};
    job->message = (struct message){.fn = on_job_done, .arg = job};
    counter_add(&reactor->counters.worker_jobs, 1);

    struct worker_pool *pool = &reactor->runtime->workers;
    pthread_mutex_lock(&pool->mutex);
    if (pool->tail)
        pool->tail->next = &job->message;
    else
        pool->head = &job->message;
    pool->tail = &job->message;
    bool wake = pool->waiting > 0;
    pthread_mutex_unlock(&pool->mutex);
    if (wake) pthread_cond_signal(&pool->work);
}

void worker_job_await(struct worker_job *job) {
    struct fiber *fiber = fiber_self();
    assert(fiber && fiber->reactor == job->reactor && !job->waiter);
    if (!job->done) {
        job->waiter = fiber;
        fiber_hold_await(fiber);
    }
    assert(job->done);
}

void worker_call_await(void (*fn)(void *arg), void *arg) {
    struct worker_job job;
    worker_job_start(&job, fn, arg);
    worker_job_await(&job);
}

/* ---- the workers' side */

static struct worker_job *take_job(struct worker_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    while (!pool->head && !pool->quit) {
        pool->waiting++;
        pthread_cond_wait(&pool->work, &pool->mutex);
        pool->waiting--;
    }
    struct message *message = pool->head;
    if (message) {
        pool->head = message->next;
        if (!pool->head) pool->tail = NULL;
    }
    pthread_mutex_unlock(&pool->mutex);
    return message ? message->arg : NULL;
}

static void *worker_main(void *arg) {
    struct worker_pool *pool = arg;
    pthread_setname_np(pthread_self(), "penstock-worker");
    runtime_block_signals();
    struct worker_job *job;
    while ((job = take_job(pool))) {
        job->fn(job->arg);
        reactor_post(job->reactor, &job->message);
    }
    return NULL;
}

int worker_start(struct worker_pool *pool, unsigned count) {
    pthread_mutex_init(&pool->mutex, NULL);
    pthread_cond_init(&pool->work, NULL);
    pool->threads = calloc(count, sizeof *pool->threads);
    if (!pool->threads) return -ENOMEM;
    for (; pool->thread_count < count; pool->thread_count++) {
        int err = pthread_create(&pool->threads[pool->thread_count], NULL, worker_main, pool);
        if (err) return -err;
    }
    return 0;
}

void worker_stop(struct worker_pool *pool) {
    pthread_mutex_lock(&pool->mutex);
    pool->quit = true;
    pthread_cond_broadcast(&pool->work);
    pthread_mutex_unlock(&pool->mutex);
    for (unsigned i = 0; i < pool->thread_count; i++) pthread_join(pool->threads[i], NULL);
    free(pool->threads);
    pthread_cond_destroy(&pool->work);
    pthread_mutex_destroy(&pool->mutex);
}
