/* The service over all kinds: parses a token, finds the kind that serves it, checks every range
 * against the token and counts. How bytes move is in the kinds. */
#include "transfer/transfer.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/error.h"
#include "transfer/kind.h"

#define SESSION_LIMIT_DEFAULT          1024u
#define SESSION_LIMIT_IDENTITY_DEFAULT 256u
#define REGISTERED_LIMIT_DEFAULT       (64ull << 30)

static const struct transfer_kind *const kinds[] = {&shm_kind};
#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

struct transfer_service {
    struct transfer_context context;
    void *states[KIND_COUNT];
    atomic_uint_fast64_t moves[2], bytes[2], copied, refused, failed; /* by direction */
};

static void add(atomic_uint_fast64_t *counter, uint64_t value) {
    atomic_fetch_add_explicit(counter, value, memory_order_relaxed);
}

static void set_defaults(struct transfer_options *options) {
    if (!options->session_limit) options->session_limit = SESSION_LIMIT_DEFAULT;
    if (!options->session_limit_identity)
        options->session_limit_identity = SESSION_LIMIT_IDENTITY_DEFAULT;
    if (!options->registered_limit_bytes)
        options->registered_limit_bytes = REGISTERED_LIMIT_DEFAULT;
}

int transfer_start(struct runtime *runtime, struct pool *pool,
                   const struct transfer_options *options, struct transfer_service **service) {
    struct transfer_service *s = calloc(1, sizeof(*s));
    if (!s) return -ENOMEM;
    s->context = (struct transfer_context){.runtime = runtime, .pool = pool, .options = *options};
    set_defaults(&s->context.options);
    for (unsigned i = 0; i < KIND_COUNT; i++) {
        int err = kinds[i]->start(&s->context, &s->states[i]);
        if (err) {
            transfer_stop(&s);
            return err;
        }
    }
    *service = s;
    return 0;
}

void transfer_stop(struct transfer_service **service) {
    struct transfer_service *s = *service;
    if (!s) return;
    *service = NULL;
    for (unsigned i = 0; i < KIND_COUNT; i++)
        if (s->states[i]) kinds[i]->stop(&s->states[i]);
    free(s);
}

static int open_token(struct transfer_service *service, struct slice text, const char *identity,
                      struct transfer_target **target, const char **detail) {
    struct token token;
    int err = token_parse(text, &token, detail);
    if (err) return err;
    for (unsigned i = 0; i < KIND_COUNT; i++) {
        if (!(kinds[i]->forms & 1u << token.form)) continue;
        struct transfer_target *t = NULL;
        err = kinds[i]->open(service->states[i], &token, identity, &t, detail);
        if (err) return err;
        t->kind = kinds[i];
        t->service = service;
        t->size = token.size;
        *target = t;
        return 0;
    }
    *detail = "this server has no way to reach memory named by a token of this form";
    return ERR_RDMA_NOT_SUPPORTED;
}

int transfer_open(struct transfer_service *service, struct slice token, const char *identity,
                  struct transfer_target **target, const char **detail) {
    *target = NULL;
    *detail = NULL;
    int err = open_token(service, token, identity, target, detail);
    if (err) add(&service->refused, 1);
    return err;
}

uint64_t transfer_size(const struct transfer_target *target) {
    return target->size;
}

const char *transfer_name(const struct transfer_target *target) {
    return target->kind->name;
}

void transfer_close(struct transfer_target **target) {
    struct transfer_target *t = *target;
    if (!t) return;
    *target = NULL;
    t->kind->close(t);
}

static bool in_range(const struct transfer_target *target, uint64_t offset, uint64_t size) {
    return offset <= target->size && size <= target->size - offset;
}

static int count_move(struct transfer_service *service, enum transfer_direction direction,
                      uint64_t size, bool copies, int err) {
    if (err) {
        if (err != -ECANCELED) add(&service->failed, 1);
        return err;
    }
    add(&service->moves[direction], 1);
    add(&service->bytes[direction], size);
    if (copies) add(&service->copied, size);
    return 0;
}

static int push_await(struct transfer_target *target, uint64_t offset, struct block *const *blocks,
                      unsigned count, uint32_t block_offset, uint64_t size) {
    unsigned next = 0;
    while (size > 0) {
        struct iovec runs[TRANSFER_RUNS_MAX];
        unsigned gathered = 0;
        uint64_t bytes = 0;
        for (; gathered < TRANSFER_RUNS_MAX && size > 0 && next < count; next++) {
            const struct block *block = blocks[next];
            assert(block_offset <= block->size && block->size <= block->capacity);
            uint64_t length = block->size - block_offset;
            if (length > size) length = size;
            runs[gathered++] = (struct iovec){block->data + block_offset, length};
            block_offset = 0;
            bytes += length;
            size -= length;
        }
        assert(gathered > 0 && "the blocks hold fewer bytes than were to be pushed");
        int err = target->kind->move_await(target, TRANSFER_PUSH, offset, runs, gathered);
        if (err) return err;
        offset += bytes;
    }
    return 0;
}

int transfer_push_await(struct transfer_target *target, uint64_t offset,
                        struct block *const *blocks, unsigned count, uint32_t block_offset,
                        uint64_t size) {
    int err = in_range(target, offset, size)
                  ? push_await(target, offset, blocks, count, block_offset, size)
                  : ERR_RDMA_TRANSFER_FAILED;
    return count_move(target->service, TRANSFER_PUSH, size, target->kind->copies, err);
}

int transfer_pull_await(struct transfer_target *target, uint64_t offset, struct block *block,
                        uint32_t size) {
    assert(size <= block->capacity);
    struct iovec run = {block->data, size};
    int err = in_range(target, offset, size)
                  ? target->kind->move_await(target, TRANSFER_PULL, offset, &run, 1)
                  : ERR_RDMA_TRANSFER_FAILED;
    return count_move(target->service, TRANSFER_PULL, size, target->kind->copies, err);
}

int transfer_introduce(struct transfer_service *service, const char *identity, struct text *out) {
    text_append_string(out, "{");
    int err = 0;
    bool first = true;
    for (unsigned i = 0; i < KIND_COUNT && !err; i++) {
        if (!kinds[i]->introduce) continue;
        if (!first) text_append_string(out, ", ");
        first = false;
        err = kinds[i]->introduce(service->states[i], identity, out);
    }
    text_append_string(out, "}");
    if (!err && out->failed) err = -ENOMEM;
    return err;
}

static uint64_t load(atomic_uint_fast64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void transfer_stats(struct transfer_service *service, struct transfer_stats *stats) {
    *stats = (struct transfer_stats){
        .pushes = load(&service->moves[TRANSFER_PUSH]),
        .pulls = load(&service->moves[TRANSFER_PULL]),
        .bytes_pushed = load(&service->bytes[TRANSFER_PUSH]),
        .bytes_pulled = load(&service->bytes[TRANSFER_PULL]),
        .tokens_refused = load(&service->refused),
        .transfers_failed = load(&service->failed),
        .payload_copies_bytes = load(&service->copied),
    };
    for (unsigned i = 0; i < KIND_COUNT; i++)
        if (kinds[i]->count) kinds[i]->count(service->states[i], stats);
}
