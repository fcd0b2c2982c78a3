/* The shm kind: one-sided transfers on one host. The client's memory is mapped once, when it is
 * registered; a token only names it, so nothing of a token is ever used as an address or a key. A
 * transfer is a copy by this process, with the client passive. */
#include "transfer/shm.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/encode.h"
#include "base/error.h"
#include "runtime/worker.h"
#include "transfer/guarded_copy.h"
#include "transfer/shared_copy.h"
#include "transfer/shm_memory.h"

struct shm_target {
    struct transfer_target base;
    struct shm *shm;
    struct shm_region *region;
    uint64_t offset; /* of the token, in the region */
};

/* ---- the end of a region */

static void run_unmap(void *arg) {
    const struct shm_region *region = arg;
    shm_memory_unmap(region->base, region->length);
}

static void finish_unmap(struct shm_region *region) {
    struct shm *shm = region->owner;
    free(region);
    assert(shm->mapped > 0);
    shm->mapped--;
    shm_check_stopped(shm);
}

static void unmap_fiber(void *arg) {
    worker_call_await(run_unmap, arg);
    finish_unmap(arg);
}

/* Unmapping gigabytes takes milliseconds: a worker does it, unless there is no fiber to wait. */
static void on_released(void *arg) {
    if (fiber_spawn("shm-unmap", unmap_fiber, arg) == 0) return;
    run_unmap(arg);
    finish_unmap(arg);
}

static void release_region(void *ctx, struct shm_region *region) {
    struct shm *shm = ctx;
    region->owner = shm;
    region->message = (struct message){.fn = on_released, .arg = region};
    reactor_post(shm->home, &region->message);
}

/* ---- start and stop */

static void destroy(struct shm *shm) {
    shm_listener_close(shm);
    shm_registry_destroy(&shm->registry);
    shm_tickets_destroy(&shm->tickets);
    free(shm);
}

static void begin_fiber(void *arg) {
    shm_listener_begin(arg);
}

static int shm_start(const struct transfer_context *context, void **state) {
    struct shm *shm = calloc(1, sizeof(*shm));
    if (!shm) return -ENOMEM;
    shm->home = runtime_reactor(context->runtime, 0);
    shm->limits = context->options;
    shm->cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    for (unsigned i = 0; i < SHM_LISTENERS; i++) shm->listen_fds[i] = -1;
    int err = guarded_copy_install();
    if (!err) err = shm_tickets_create(shm->limits.session_limit_identity, &shm->tickets);
    if (!err) err = shm_registry_create(&shm->limits, release_region, shm, &shm->registry);
    if (!err) err = shm_listener_open(shm, shm->limits.socket_directory);
    if (!err) err = reactor_run(shm->home, "shm-start", begin_fiber, shm);
    if (err) {
        destroy(shm);
        return err;
    }
    *state = shm;
    return 0;
}

static bool is_stopped(const struct shm *shm) {
    return shm->accepting == 0 && !shm->connections && shm->mapped == 0;
}

void shm_check_stopped(struct shm *shm) {
    if (shm->stopping && is_stopped(shm)) fiber_queue_wake_all(&shm->stopper);
}

static void end_fiber(void *arg) {
    struct shm *shm = arg;
    shm->stopping = true;
    shm_listener_end(shm);
    for (struct shm_connection *c = shm->connections; c; c = c->next)
        if (c->fiber) fiber_cancel(c->fiber);
    while (!is_stopped(shm)) fiber_queue_wait_await(&shm->stopper, NO_DEADLINE);
}

static void shm_stop(void **state) {
    struct shm *shm = *state;
    *state = NULL;
    int err = reactor_run(shm->home, "shm-stop", end_fiber, shm);
    assert(!err);
    (void)err;
    destroy(shm);
}

/* ---- targets */

static int shm_open_target(void *state, const struct token *token, const char *identity,
                           struct transfer_target **target, const char **detail) {
    struct shm *shm = state;
    bool known_session;
    struct shm_region *region =
        shm_region_find(shm->registry, (struct shm_region_key){token->session, token->region},
                        identity, &known_session);
    if (!region) {
        *detail = known_session ? "region: it is not registered" : "session: it is not known";
        return ERR_INVALID_RDMA_TOKEN;
    }
    if (token->address >= region->length)
        *detail = "offset: it is beyond the registered length";
    else if (token->size > region->length - token->address)
        *detail = "length: it goes beyond the registered length";
    struct shm_target *t = *detail ? NULL : malloc(sizeof(*t));
    if (!t) {
        shm_region_unref(&region);
        return *detail ? ERR_INVALID_RDMA_TOKEN : -ENOMEM;
    }
    *t = (struct shm_target){.shm = shm, .region = region, .offset = token->address};
    *target = &t->base;
    return 0;
}

static void shm_close_target(struct transfer_target *target) {
    struct shm_target *t = (struct shm_target *)target;
    shm_region_unref(&t->region);
    free(t);
}

static uint64_t total_of(const struct iovec *runs, unsigned count) {
    uint64_t total = 0;
    for (unsigned i = 0; i < count; i++) total += runs[i].iov_len;
    return total;
}

/* Cores that no other move needs: many streams are parallel enough without helpers. */
static unsigned helpers_for(const struct shm *shm, uint64_t size, unsigned moving) {
    if (size < SHARED_COPY_MIN || moving >= shm->cores) return 0;
    unsigned helpers = shm->cores / moving - 1;
    return helpers < SHARED_COPY_HELPERS_MAX ? helpers : SHARED_COPY_HELPERS_MAX;
}

static int shm_move_await(struct transfer_target *target, enum transfer_direction direction,
                          uint64_t offset, const struct iovec *runs, unsigned count) {
    const struct shm_target *t = (const struct shm_target *)target;
    struct shm *shm = t->shm;
    unsigned moving = atomic_fetch_add(&shm->moving, 1) + 1;
    int err = shared_copy_await(t->region, direction, t->region->base + t->offset + offset, runs,
                                count, helpers_for(shm, total_of(runs, count), moving));
    atomic_fetch_sub(&shm->moving, 1);
    return err;
}

/* ---- introductions */

static void append_json_string(struct text *out, const char *s) {
    text_append_string(out, "\"");
    for (; *s; s++) {
        unsigned char ch = (unsigned char)*s;
        if (ch == '"' || ch == '\\' || ch < 0x20)
            text_append_format(out, "\\u%04x", ch);
        else
            text_append(out, s, 1);
    }
    text_append_string(out, "\"");
}

static int shm_introduce(void *state, const char *identity, struct text *out) {
    struct shm *shm = state;
    uint8_t ticket[SHM_TICKET_SIZE];
    char digits[2 * SHM_TICKET_SIZE + 1];
    int err = shm_tickets_issue(shm->tickets, identity, clock_now_ns(), ticket);
    if (err) return err;
    hex_encode(ticket, sizeof(ticket), digits);
    text_append_string(out, "\"socket\": ");
    append_json_string(out, shm->path);
    text_append_format(out, ", \"abstract\": \"%s\", \"ticket\": \"%s\", \"expires_s\": %d",
                       shm->name, digits, SHM_TICKET_LIFE_S);
    text_append_string(out, ", \"host\": ");
    append_json_string(out, shm->host);
    return 0;
}

static void shm_count(void *state, struct transfer_stats *stats) {
    struct shm *shm = state;
    shm_registry_count(shm->registry, stats);
}

const struct transfer_kind shm_kind = {
    .name = "shm",
    .forms = 1u << TOKEN_SHM,
    .copies = true,
    .start = shm_start,
    .stop = shm_stop,
    .open = shm_open_target,
    .close = shm_close_target,
    .introduce = shm_introduce,
    .count = shm_count,
    .move_await = shm_move_await,
};
