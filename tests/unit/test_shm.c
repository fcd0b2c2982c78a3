/* Same-host transfers over a real Unix socket: a client that is introduced registers memory, the
 * server moves bytes to and from it, and nothing that a client does reaches further than itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/error.h"
#include "runtime/reactor.h"
#include "transfer/shm_tickets.h"
#include "transfer/transfer.h"

#include "shm_client.h"

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)

struct world {
    struct runtime *runtime;
    struct pool *pool;
    struct transfer_service *service;
    char directory[64];
};
static struct world world;

/* Small limits, so that tests can reach them. */
static int setup(void **state) {
    struct runtime_options options = {.reactors = 2, .workers = 1};
    strcpy(world.directory, "/tmp/penstock-test-XXXXXX");
    assert_non_null(mkdtemp(world.directory));
    assert_int_equal(runtime_start(&options, &world.runtime), 0);
    assert_int_equal(pool_create(16 * MIB, &world.pool), 0);
    struct transfer_options limits = {.socket_directory = world.directory,
                                      .session_limit = 4,
                                      .session_limit_identity = 3,
                                      .registered_limit_bytes = 8 * MIB};
    assert_int_equal(transfer_start(world.runtime, world.pool, &limits, &world.service), 0);
    return 0;
}

static int teardown(void **state) {
    transfer_stop(&world.service);
    runtime_stop(&world.runtime);
    pool_destroy(&world.pool);
    assert_int_equal(rmdir(world.directory), 0); /* the socket is gone as well */
    return 0;
}

static struct transfer_stats stats(void) {
    struct transfer_stats s;
    transfer_stats(world.service, &s);
    return s;
}

/* Sessions end in their own time after a close: wait for it. */
static void wait_for_sessions(uint64_t count) {
    for (int i = 0; i < 5000 && stats().sessions != count; i++) usleep(1000);
    assert_int_equal(stats().sessions, count);
}

static void assert_refused(const char *token, const char *identity, const char *field) {
    struct transfer_target *target = NULL;
    const char *detail = NULL;
    int err = transfer_open(world.service, slice_of(token), identity, &target, &detail);
    assert_int_equal(err, ERR_INVALID_RDMA_TOKEN);
    assert_null(target);
    assert_non_null(detail);
    if (strncmp(detail, field, strlen(field))) fail_msg("%s: %s, not %s", token, detail, field);
}

static struct transfer_target *opened(const char *token, const char *identity) {
    struct transfer_target *target = NULL;
    const char *detail = NULL;
    int err = transfer_open(world.service, slice_of(token), identity, &target, &detail);
    if (err) fail_msg("%s: %s", token, detail ? detail : error_text(err));
    return target;
}

/* ---- moving bytes, from a fiber of the reactor that a test chooses */

struct move {
    struct transfer_target *target;
    uint64_t offset;
    uint32_t block_offset;
    uint64_t size;
    uint8_t *data; /* what is pushed, or what was pulled */
    bool pull;
    int err;
};

static uint64_t smaller(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static void push_fiber(struct move *m) {
    struct block *blocks[16] = {0};
    unsigned count = (unsigned)((m->block_offset + m->size + 256 * KIB - 1) / (256 * KIB));
    m->err = pool_try_take(world.pool, BLOCK_256K, count, blocks);
    if (m->err) return;
    for (unsigned i = 0; i < count; i++) {
        uint64_t from = i == 0 ? m->block_offset : 0;
        uint64_t before = i == 0 ? 0 : i * 256 * KIB - m->block_offset;
        uint64_t length = smaller(256 * KIB - from, m->size - before);
        memcpy(blocks[i]->data + from, m->data + before, length);
        blocks[i]->size = (uint32_t)(from + length);
    }
    m->err = transfer_push_await(m->target, m->offset, blocks, count, m->block_offset, m->size);
    for (unsigned i = 0; i < count; i++) block_unref(&blocks[i]);
}

static void pull_fiber(struct move *m) {
    struct block *block;
    m->err = pool_try_take(world.pool, BLOCK_256K, 1, &block);
    for (uint64_t done = 0; !m->err && done < m->size;) {
        uint32_t length = (uint32_t)smaller(256 * KIB, m->size - done);
        m->err = transfer_pull_await(m->target, m->offset + done, block, length);
        if (!m->err) memcpy(m->data + done, block->data, length);
        done += length;
    }
    block_unref(&block);
}

static void move_fiber(void *arg) {
    struct move *m = arg;
    if (m->pull)
        pull_fiber(m);
    else
        push_fiber(m);
}

static int run_move(struct move *m, unsigned reactor) {
    assert_int_equal(reactor_run(runtime_reactor(world.runtime, reactor), "move", move_fiber, m),
                     0);
    return m->err;
}

static uint8_t *pattern(uint64_t size) {
    uint8_t *data = malloc(size);
    assert_non_null(data);
    for (uint64_t i = 0; i < size; i++) data[i] = (uint8_t)(i * 31 + i / 4093);
    return data;
}

/* ---- the stories */

static void bytes_move_to_and_from_the_clients_memory(void **state) {
    struct client client = connect_client(world.service, "alice");
    struct memory m = register_memory(&client, 2 * MIB);
    static const struct {
        uint64_t token_offset, token_size, offset, size;
        uint32_t block_offset;
    } cases[] = {
        {0, 2 * MIB, 0, 2 * MIB, 0},     {0, 1, 0, 1, 0},
        {4096, 100000, 1, 99999, 0},     {5, MIB, 3, 700001, 4097},
        {7, 64 * KIB, 0, 64 * KIB, 100},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t *data = pattern(cases[i].size), *back = calloc(1, cases[i].size);
        memset(m.data, 0xee, m.size);
        struct transfer_target *target =
            opened(token_of(&client, &m, cases[i].token_offset, cases[i].token_size), "alice");
        assert_int_equal(transfer_size(target), cases[i].token_size);
        assert_string_equal(transfer_name(target), "shm");
        struct move push = {.target = target,
                            .offset = cases[i].offset,
                            .size = cases[i].size,
                            .block_offset = cases[i].block_offset,
                            .data = data};
        assert_int_equal(run_move(&push, i % 2), 0);
        uint64_t at = cases[i].token_offset + cases[i].offset;
        assert_memory_equal(m.data + at, data, cases[i].size);
        if (at) assert_int_equal(m.data[at - 1], 0xee);
        if (at + cases[i].size < m.size) assert_int_equal(m.data[at + cases[i].size], 0xee);

        struct move pull = {.target = target,
                            .offset = cases[i].offset,
                            .size = cases[i].size,
                            .data = back,
                            .pull = true};
        assert_int_equal(run_move(&pull, (i + 1) % 2), 0);
        assert_memory_equal(back, data, cases[i].size);
        transfer_close(&target);
        assert_null(target);
        free(data);
        free(back);
    }
    close(client.fd);
    drop_memory(&m);
}

static void every_byte_is_copied_once_and_counted(void **state) {
    struct client client = connect_client(world.service, "alice");
    struct memory m = register_memory(&client, MIB);
    struct transfer_target *target = opened(token_of(&client, &m, 0, MIB), "alice");
    uint8_t *data = pattern(MIB);
    struct move move = {.target = target, .size = MIB, .data = data};
    assert_int_equal(run_move(&move, 0), 0);
    move.pull = true;
    move.size = 1000;
    assert_int_equal(run_move(&move, 0), 0);
    struct transfer_stats s = stats();
    assert_int_equal(s.sessions, 1);
    assert_int_equal(s.regions, 1);
    assert_int_equal(s.registered_bytes, MIB);
    assert_int_equal(s.pushes, 1);
    assert_int_equal(s.pulls, 1);
    assert_int_equal(s.bytes_pushed, MIB);
    assert_int_equal(s.bytes_pulled, 1000);
    assert_int_equal(s.payload_copies_bytes, MIB + 1000);
    transfer_close(&target);
    free(data);
    close(client.fd);
    drop_memory(&m);
}

static void nothing_moves_beyond_the_token(void **state) {
    struct client client = connect_client(world.service, "alice");
    struct memory m = register_memory(&client, MIB);
    struct transfer_target *target = opened(token_of(&client, &m, 0, 1000), "alice");
    uint8_t *data = pattern(2000);
    struct move move = {.target = target, .size = 1001, .data = data};
    assert_int_equal(run_move(&move, 0), ERR_RDMA_TRANSFER_FAILED);
    move = (struct move){.target = target, .offset = 1, .size = 1000, .data = data};
    assert_int_equal(run_move(&move, 0), ERR_RDMA_TRANSFER_FAILED);
    move = (struct move){.target = target, .offset = UINT64_MAX, .size = 2, .data = data};
    assert_int_equal(run_move(&move, 0), ERR_RDMA_TRANSFER_FAILED);
    move.pull = true;
    assert_int_equal(run_move(&move, 0), ERR_RDMA_TRANSFER_FAILED);
    for (unsigned i = 0; i < 2000; i++) assert_int_equal(m.data[i], 0);
    assert_int_equal(stats().transfers_failed, 4);
    transfer_close(&target);
    free(data);
    close(client.fd);
    drop_memory(&m);
}

static void a_token_is_bounded_by_its_registration(void **state) {
    struct client client = connect_client(world.service, "alice");
    struct memory m = register_memory(&client, MIB);
    assert_refused(token_of(&client, &m, MIB, 1), "alice", "offset");
    assert_refused(token_of(&client, &m, 0, MIB + 1), "alice", "length");
    assert_refused(token_of(&client, &m, MIB - 1, 2), "alice", "length");
    assert_refused(token_of(&client, &m, 0, 0), "alice", "length");
    assert_refused(token_of(&client, &m, UINT64_MAX, 2), "alice", "length");
    struct memory other = {.region = m.region ^ 1};
    assert_refused(token_of(&client, &other, 0, 1), "alice", "region");
    struct transfer_target *target = opened(token_of(&client, &m, MIB - 1, 1), "alice");
    transfer_close(&target);
    assert_int_equal(stats().tokens_refused, 6);
    close(client.fd);
    drop_memory(&m);
}

static void a_session_of_another_identity_looks_like_none(void **state) {
    struct client client = connect_client(world.service, "alice");
    struct memory m = register_memory(&client, MIB);
    assert_refused(token_of(&client, &m, 0, 1), "mallory", "session");
    struct client unknown = {.session = client.session ^ 1};
    assert_refused(token_of(&unknown, &m, 0, 1), "alice", "session");
    close(client.fd);
    drop_memory(&m);
}

static void other_kinds_of_token_are_declined_not_refused(void **state) {
    static const char dc[] =
        "0102030405060708:01020304:01020304:0102:010203:1:0102030405060708090a0b0c0d0e0f10";
    struct transfer_target *target = NULL;
    const char *detail = NULL;
    assert_int_equal(transfer_open(world.service, slice_of(dc), "alice", &target, &detail),
                     ERR_RDMA_NOT_SUPPORTED);
    assert_non_null(detail);
    assert_null(target);
    assert_refused("nonsense", "alice", "form");
}

static void a_ticket_works_once(void **state) {
    struct introduction i = introduce(world.service, "alice");
    int first = connect_name(&i), second = connect_name(&i);
    assert_int_equal(hello(first, i.ticket).type, SHM_WELCOME);
    assert_int_equal(hello(second, i.ticket).type, SHM_ERROR);
    assert_ended(second);
    i.ticket[0] ^= 1;
    int third = connect_name(&i);
    assert_int_equal(hello(third, i.ticket).type, SHM_ERROR);
    assert_ended(third);
    close(first);
    close(second);
    close(third);
}

static void tickets_expire_and_are_bounded(void **state) {
    struct shm_tickets *tickets;
    char identity[TRANSFER_IDENTITY_MAX + 1];
    uint8_t a[SHM_TICKET_SIZE], b[SHM_TICKET_SIZE], c[SHM_TICKET_SIZE];
    uint64_t second = NS_PER_S;
    assert_int_equal(shm_tickets_create(2, &tickets), 0);
    assert_int_equal(shm_tickets_issue(tickets, "alice", 1 * second, a), 0);
    assert_int_equal(shm_tickets_redeem(tickets, a, 31 * second, identity), ERR_ACCESS_DENIED);
    /* A third one of the same identity takes the place of its oldest. */
    assert_int_equal(shm_tickets_issue(tickets, "alice", 40 * second, a), 0);
    assert_int_equal(shm_tickets_issue(tickets, "alice", 41 * second, b), 0);
    assert_int_equal(shm_tickets_issue(tickets, "alice", 42 * second, c), 0);
    assert_int_equal(shm_tickets_redeem(tickets, a, 43 * second, identity), ERR_ACCESS_DENIED);
    assert_int_equal(shm_tickets_redeem(tickets, b, 43 * second, identity), 0);
    assert_string_equal(identity, "alice");
    /* All zeros is what an unused entry holds, and no ticket. */
    memset(a, 0, sizeof(a));
    assert_int_equal(shm_tickets_redeem(tickets, a, 43 * second, identity), ERR_ACCESS_DENIED);
    int err = 0;
    unsigned issued = 0;
    for (char name[16]; !err && issued < 10000; issued++) {
        snprintf(name, sizeof(name), "user%u", issued);
        err = shm_tickets_issue(tickets, name, 43 * second, a);
    }
    assert_int_equal(err, ERR_SLOW_DOWN);
    shm_tickets_destroy(&tickets);
    assert_null(tickets);
}

static void expect_refusal(struct client *client, int fd, uint64_t length, const char *word) {
    struct shm_message answer = offer(client, fd, length);
    assert_int_equal(answer.type, SHM_ERROR);
    if (!strstr(answer.text, word)) fail_msg("'%s' does not speak of '%s'", answer.text, word);
}

static void only_memory_that_cannot_go_away_is_taken(void **state) {
    struct client client = connect_client(world.service, "alice");
    struct memory unsealed = make_memory(MIB, F_SEAL_GROW);
    expect_refusal(&client, unsealed.fd, MIB, "shrinking");
    struct memory sealed = make_memory(MIB, GOOD_SEALS);
    expect_refusal(&client, sealed.fd, 2 * MIB, "size");
    expect_refusal(&client, sealed.fd, 0, "size");
    struct memory frozen = make_memory(MIB, F_SEAL_SHRINK | F_SEAL_FUTURE_WRITE);
    expect_refusal(&client, frozen.fd, MIB, "writing");
    struct memory holes = make_memory(MIB, GOOD_SEALS);
    assert_int_equal(madvise(holes.data, 4096, MADV_REMOVE), 0);
    expect_refusal(&client, holes.fd, MIB, "holes");
    int file = open(world.directory, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (file >= 0) {
        assert_int_equal(ftruncate(file, MIB), 0);
        struct shm_message answer = offer(&client, file, MIB);
        assert_int_equal(answer.type, SHM_ERROR);
        close(file);
    }
    expect_refusal(&client, client.fd, MIB, "memfd");
    say(client.fd, (struct shm_message){.type = SHM_REGISTER, .value = MIB}, NULL, 0);
    assert_int_equal(hear(client.fd).type, SHM_ERROR);
    /* None of it ended the session. */
    assert_int_equal(offer(&client, sealed.fd, MIB).type, SHM_REGISTERED);
    assert_int_equal(stats().regions, 1);
    close(client.fd);
    drop_memory(&unsealed);
    drop_memory(&sealed);
    drop_memory(&frozen);
    drop_memory(&holes);
}

static void huge_page_memory_is_refused(void **state) {
    int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
    if (fd < 0) skip();
    struct client client = connect_client(world.service, "alice");
    assert_int_equal(ftruncate(fd, 2 * MIB), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, GOOD_SEALS), 0);
    expect_refusal(&client, fd, 2 * MIB, "plain");
    close(client.fd);
    close(fd);
}

static void sessions_and_memory_are_limited(void **state) {
    struct client clients[4];
    for (int i = 0; i < 3; i++) clients[i] = connect_client(world.service, "alice");
    struct introduction i = introduce(world.service, "alice");
    int fourth = connect_name(&i);
    assert_int_equal(hello(fourth, i.ticket).type, SHM_ERROR); /* three for each identity */
    assert_ended(fourth);
    clients[3] = connect_client(world.service, "bob");
    i = introduce(world.service, "carol");
    int fifth = connect_name(&i);
    assert_int_equal(hello(fifth, i.ticket).type, SHM_ERROR); /* four in all */
    assert_ended(fifth);

    struct memory most = register_memory(&clients[0], 7 * MIB);
    struct memory more = make_memory(2 * MIB, GOOD_SEALS);
    expect_refusal(&clients[0], more.fd, 2 * MIB, "limit");
    assert_int_equal(offer(&clients[1], more.fd, 2 * MIB).type, SHM_REGISTERED);
    expect_refusal(&clients[2], more.fd, UINT64_MAX, "limit");
    for (int c = 0; c < 4; c++) close(clients[c].fd);
    wait_for_sessions(0);
    assert_int_equal(stats().registered_bytes, 0);
    close(fourth);
    close(fifth);
    drop_memory(&most);
    drop_memory(&more);
}

static void unregistered_memory_is_unknown(void **state) {
    struct client client = connect_client(world.service, "alice");
    struct memory a = register_memory(&client, MIB), b = register_memory(&client, MIB);
    struct transfer_target *held = opened(token_of(&client, &a, 0, MIB), "alice");
    say(client.fd, (struct shm_message){.type = SHM_UNREGISTER, .value = a.region}, NULL, 0);
    assert_int_equal(hear(client.fd).type, SHM_UNREGISTERED);
    assert_refused(token_of(&client, &a, 0, 1), "alice", "region");
    uint8_t *data = pattern(10);
    struct move move = {.target = held, .size = 10, .data = data};
    assert_int_equal(run_move(&move, 1), ERR_RDMA_TRANSFER_FAILED);
    transfer_close(&held);
    struct transfer_target *target = opened(token_of(&client, &b, 0, MIB), "alice");
    move.target = target;
    assert_int_equal(run_move(&move, 1), 0);
    transfer_close(&target);
    say(client.fd, (struct shm_message){.type = SHM_UNREGISTER, .value = a.region}, NULL, 0);
    assert_int_equal(hear(client.fd).type, SHM_ERROR);
    free(data);
    close(client.fd);
    drop_memory(&a);
    drop_memory(&b);
}

/* ---- ends in the middle */

struct stream {
    struct transfer_target *target;
    struct fiber *fiber;
    atomic_uint rounds;
    int err;
};

/* Pushes until that fails. */
static void stream_fiber(void *arg) {
    struct stream *s = arg;
    struct block *block;
    struct block *blocks[8];
    s->fiber = fiber_self();
    s->err = pool_try_take(world.pool, BLOCK_256K, 1, &block);
    if (s->err) return;
    block->size = block->capacity;
    for (unsigned i = 0; i < 8; i++) blocks[i] = block;
    while (!s->err) {
        s->err = transfer_push_await(s->target, 0, blocks, 8, 0, 2 * MIB);
        atomic_fetch_add(&s->rounds, 1);
        fiber_yield_await();
    }
    block_unref(&block);
}

struct streamer {
    pthread_t thread;
    unsigned reactor;
    struct stream stream;
};

static void *run_streamer(void *arg) {
    struct streamer *s = arg;
    reactor_run(runtime_reactor(world.runtime, s->reactor), "stream", stream_fiber, &s->stream);
    return NULL;
}

static void begin_streamer(struct streamer *s) {
    assert_int_equal(pthread_create(&s->thread, NULL, run_streamer, s), 0);
    while (atomic_load(&s->stream.rounds) < 2) usleep(100);
}

static void a_client_that_goes_away_ends_its_transfers(void **state) {
    struct client client = connect_client(world.service, "alice");
    struct client other = connect_client(world.service, "bob");
    struct memory m = register_memory(&client, 2 * MIB), safe = register_memory(&other, MIB);
    struct streamer streamers[2];
    for (unsigned i = 0; i < 2; i++) {
        streamers[i] = (struct streamer){
            .reactor = i,
            .stream.target = opened(token_of(&client, &m, 0, 2 * MIB), "alice"),
        };
        begin_streamer(&streamers[i]);
    }
    close(client.fd);
    drop_memory(&m);
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(streamers[i].thread, NULL);
        assert_int_equal(streamers[i].stream.err, ERR_RDMA_TRANSFER_FAILED);
        transfer_close(&streamers[i].stream.target);
    }
    assert_refused(token_of(&client, &m, 0, 1), "alice", "session");
    struct transfer_target *target = opened(token_of(&other, &safe, 0, 1), "bob");
    transfer_close(&target);
    close(other.fd);
    drop_memory(&safe);
}

static void cancel_fiber(void *arg) {
    fiber_cancel(arg);
}

static void a_cancelled_request_stops_between_pieces(void **state) {
    struct client client = connect_client(world.service, "alice");
    struct memory m = register_memory(&client, 2 * MIB);
    struct streamer s = {.reactor = 1,
                         .stream.target = opened(token_of(&client, &m, 0, 2 * MIB), "alice")};
    begin_streamer(&s);
    assert_int_equal(
        reactor_run(runtime_reactor(world.runtime, 1), "cancel", cancel_fiber, s.stream.fiber), 0);
    pthread_join(s.thread, NULL);
    assert_int_equal(s.stream.err, -ECANCELED);
    assert_int_equal(stats().transfers_failed, 0);
    transfer_close(&s.stream.target);
    close(client.fd);
    drop_memory(&m);
}

/* ---- peers that do not keep to the protocol */

static void garbage_ends_the_connection_only(void **state) {
    struct introduction i = introduce(world.service, "alice");
    char noise[sizeof(struct shm_message)];
    memset(noise, 0x5a, sizeof(noise));
    int fd = connect_name(&i);
    assert_int_equal(send(fd, noise, sizeof(noise), 0), sizeof(noise));
    assert_int_equal(hear(fd).type, SHM_ERROR);
    assert_ended(fd);
    close(fd);

    /* Speaking before the ticket was shown. */
    fd = connect_name(&i);
    say(fd, (struct shm_message){.type = SHM_REGISTER, .value = 1}, NULL, 0);
    assert_int_equal(hear(fd).type, SHM_ERROR);
    assert_ended(fd);
    close(fd);

    /* Half a message, then the end. */
    fd = connect_name(&i);
    assert_int_equal(send(fd, noise, 10, 0), 10);
    close(fd);

    fd = connect_name(&i);
    assert_int_equal(hello(fd, i.ticket).type, SHM_WELCOME);
    say(fd, (struct shm_message){.type = 99}, NULL, 0);
    assert_int_equal(hear(fd).type, SHM_ERROR);
    assert_ended(fd);
    close(fd);
    wait_for_sessions(0);
}

static unsigned open_descriptors(void) {
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++)
        if (fcntl(fd, F_GETFD) >= 0) count++;
    return count;
}

static void descriptors_that_nobody_asked_for_are_closed(void **state) {
    struct memory m = make_memory(MIB, GOOD_SEALS);
    const int many[] = {m.fd, m.fd, m.fd, m.fd, m.fd, m.fd};
    unsigned before = open_descriptors();
    for (unsigned count = 2; count <= 6; count++) {
        struct client client = connect_client(world.service, "alice");
        say(client.fd, (struct shm_message){.type = SHM_UNREGISTER}, many, count);
        char byte;
        while (recv(client.fd, &byte, 1, 0) > 0) continue;
        close(client.fd);
        wait_for_sessions(0);
    }
    /* The server closes its end of the last socket just after the session. */
    for (int i = 0; i < 5000 && open_descriptors() != before; i++) usleep(1000);
    assert_int_equal(open_descriptors(), before);
    drop_memory(&m);
}

/* ---- finding the socket */

static void the_socket_in_the_directory_is_for_everybody(void **state) {
    struct introduction i = introduce(world.service, "alice");
    struct stat st;
    assert_int_equal(stat(i.path, &st), 0);
    assert_true(S_ISSOCK(st.st_mode));
    assert_int_equal(st.st_mode & 0777, 0666);
    int fd = connect_address(i.path, 0);
    assert_int_equal(hello(fd, i.ticket).type, SHM_WELCOME);
    close(fd);
}

static void a_socket_that_a_killed_server_left_is_replaced(void **state) {
    struct introduction i = introduce(world.service, "alice");
    transfer_stop(&world.service);
    int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, i.path, sizeof(address.sun_path));
    assert_int_equal(bind(left, (struct sockaddr *)&address, sizeof(address)), 0);
    close(left);
    struct transfer_options limits = {.socket_directory = world.directory};
    assert_int_equal(transfer_start(world.runtime, world.pool, &limits, &world.service), 0);
    i = introduce(world.service, "alice");
    int fd = connect_address(i.path, 0);
    assert_int_equal(hello(fd, i.ticket).type, SHM_WELCOME);
    close(fd);
}

static void a_second_server_does_not_steal_the_socket(void **state) {
    struct transfer_options limits = {.socket_directory = world.directory};
    struct transfer_service *second;
    assert_int_equal(transfer_start(world.runtime, world.pool, &limits, &second), 0);
    struct introduction i = introduce(second, "alice");
    assert_string_equal(i.path, "");
    int fd = connect_name(&i);
    assert_int_equal(hello(fd, i.ticket).type, SHM_WELCOME);
    close(fd);
    transfer_stop(&second);
    i = introduce(world.service, "alice");
    fd = connect_address(i.path, 0);
    close(fd);
}

static void stopping_ends_the_sessions(void **state) {
    struct client client = connect_client(world.service, "alice");
    struct memory m = register_memory(&client, MIB);
    struct introduction i = introduce(world.service, "bob");
    int silent = connect_name(&i); /* has not said anything yet */
    transfer_stop(&world.service);
    assert_null(world.service);
    assert_ended(client.fd);
    close(silent);
    close(client.fd);
    drop_memory(&m);
    struct transfer_options limits = {0};
    assert_int_equal(transfer_start(world.runtime, world.pool, &limits, &world.service), 0);
    assert_refused(token_of(&client, &m, 0, 1), "alice", "session");
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        STORY(bytes_move_to_and_from_the_clients_memory),
        STORY(every_byte_is_copied_once_and_counted),
        STORY(nothing_moves_beyond_the_token),
        STORY(a_token_is_bounded_by_its_registration),
        STORY(a_session_of_another_identity_looks_like_none),
        STORY(other_kinds_of_token_are_declined_not_refused),
        STORY(a_ticket_works_once),
        cmocka_unit_test(tickets_expire_and_are_bounded),
        STORY(only_memory_that_cannot_go_away_is_taken),
        STORY(huge_page_memory_is_refused),
        STORY(sessions_and_memory_are_limited),
        STORY(unregistered_memory_is_unknown),
        STORY(a_client_that_goes_away_ends_its_transfers),
        STORY(a_cancelled_request_stops_between_pieces),
        STORY(garbage_ends_the_connection_only),
        STORY(descriptors_that_nobody_asked_for_are_closed),
        STORY(the_socket_in_the_directory_is_for_everybody),
        STORY(a_socket_that_a_killed_server_left_is_replaced),
        STORY(a_second_server_does_not_steal_the_socket),
        STORY(stopping_ends_the_sessions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
