/* What fibers ask of the kernel: deadlines, cancellation, sockets and files; and the callbacks that
 * serve connections without a fiber. */
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "runtime/worker.h"

static struct runtime *start(unsigned reactors) {
    struct runtime_options options = {.reactors = reactors, .workers = 1};
    struct runtime *runtime;
    assert_int_equal(runtime_start(&options, &runtime), 0);
    return runtime;
}

static void tell(fiber_fn *fn, void *arg) {
    struct runtime *runtime = start(1);
    assert_int_equal(reactor_run(runtime_reactor(runtime, 0), "test", fn, arg), 0);
    runtime_stop(&runtime);
    assert_null(runtime);
}

static void turns(unsigned count) {
    while (count--) fiber_yield_await();
}

static uint64_t soon(void) {
    return clock_deadline_ms(5);
}

static uint64_t late(void) {
    return clock_deadline_ms(20000);
}

static void socket_pair(int ends[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
}

static void close_pair(int ends[2]) {
    if (ends[0] >= 0) close(ends[0]);
    if (ends[1] >= 0) close(ends[1]);
}

/* ---- deadlines and cancellation in the kernel */

static void recv_deadline_story(void *arg) {
    int ends[2];
    socket_pair(ends);
    char data[8] = "before!";
    assert_int_equal(io_recv_await(ends[0], data, sizeof data, 0, soon()), -ETIME);
    /* What comes now is for the next call: the kernel has let go of the buffer. */
    assert_int_equal(io_send_await(ends[1], "after..", 8, 0, late()), 8);
    turns(5);
    assert_string_equal(data, "before!");
    assert_int_equal(io_recv_await(ends[0], data, sizeof data, 0, late()), 8);
    assert_string_equal(data, "after..");
    close_pair(ends);
}

static void a_receive_ends_at_its_deadline_and_leaves_the_buffer_alone(void **state) {
    tell(recv_deadline_story, NULL);
}

static void past_deadline_story(void *arg) {
    int ends[2];
    socket_pair(ends);
    char byte;
    assert_int_equal(io_recv_await(ends[0], &byte, 1, 0, 1), -ETIME);
    assert_int_equal(io_send_await(ends[1], "x", 1, 0, late()), 1);
    /* What is there already is taken, however late it is. */
    assert_int_equal(io_recv_await(ends[0], &byte, 1, 0, 1), 1);
    close_pair(ends);
}

static void a_success_is_never_disowned(void **state) {
    tell(past_deadline_story, NULL);
}

struct receiver {
    struct fiber *fiber;
    int fd;
    bool shielded, ended;
    ssize_t result, again;
    char byte;
};

static void receiver_fiber(void *arg) {
    struct receiver *r = arg;
    r->fiber = fiber_self();
    if (r->shielded) fiber_shield_begin();
    r->result = io_recv_await(r->fd, &r->byte, 1, 0, late());
    if (r->shielded) fiber_shield_end();
    r->again = io_recv_await(r->fd, &r->byte, 1, 0, late());
    r->ended = true;
}

static void cancel_recv_story(void *arg) {
    int ends[2];
    socket_pair(ends);
    struct receiver r = {.fd = ends[0]};
    assert_int_equal(fiber_spawn("receiver", receiver_fiber, &r), 0);
    turns(4);
    fiber_cancel(r.fiber);
    fiber_cancel(r.fiber); /* twice is once */
    while (!r.ended) fiber_yield_await();
    assert_int_equal(r.result, -ECANCELED);
    assert_int_equal(r.again, -ECANCELED);
    close_pair(ends);
}

static void a_receive_is_cancelled(void **state) {
    tell(cancel_recv_story, NULL);
}

static void shielded_recv_story(void *arg) {
    int ends[2];
    socket_pair(ends);
    struct receiver r = {.fd = ends[0], .shielded = true};
    assert_int_equal(fiber_spawn("receiver", receiver_fiber, &r), 0);
    turns(4);
    fiber_cancel(r.fiber);
    turns(4);
    assert_false(r.ended);
    assert_int_equal(io_send_await(ends[1], "x", 1, 0, late()), 1);
    while (!r.ended) fiber_yield_await();
    assert_int_equal(r.result, 1);
    assert_int_equal(r.again, -ECANCELED);
    close_pair(ends);
}

static void a_shielded_receive_is_not(void **state) {
    tell(shielded_recv_story, NULL);
}

static void peer_gone_story(void *arg) {
    int ends[2];
    socket_pair(ends);
    close(ends[1]);
    ends[1] = -1;
    char byte;
    assert_int_equal(io_recv_await(ends[0], &byte, 1, 0, late()), 0);
    assert_int_equal(io_send_await(ends[0], "x", 1, 0, late()), -EPIPE); /* and no SIGPIPE */
    struct iovec part = {&byte, 1};
    struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
    assert_int_equal(io_sendmsg_await(ends[0], &msg, 0, late()), -EPIPE);
    assert_int_equal(io_poll_await(ends[0], POLLIN, late()) & POLLHUP, POLLHUP);
    close_pair(ends);
    assert_int_equal(io_recv_await(-1, &byte, 1, 0, late()), -EBADF);
}

static void the_peers_end_is_an_answer_and_not_a_signal(void **state) {
    tell(peer_gone_story, NULL);
}

/* More operations at once than the submission queue has entries. */
#define CROWD 700
static void crowd_story(void *arg) {
    static struct receiver receivers[CROWD];
    memset(receivers, 0, sizeof receivers);
    int ends[2];
    socket_pair(ends);
    for (unsigned i = 0; i < CROWD; i++) {
        receivers[i].fd = ends[0];
        assert_int_equal(fiber_spawn("receiver", receiver_fiber, &receivers[i]), 0);
    }
    turns(3);
    for (unsigned i = 0; i < CROWD; i++) fiber_cancel(receivers[i].fiber);
    for (unsigned i = 0; i < CROWD; i++) {
        while (!receivers[i].ended) fiber_yield_await();
        assert_int_equal(receivers[i].result, -ECANCELED);
    }
    close_pair(ends);
}

static void a_full_submission_queue_is_no_obstacle(void **state) {
    tell(crowd_story, NULL);
}

/* ---- sockets */

static int listen_on_loopback(struct sockaddr_in *address) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof *address;
    assert_int_equal(bind(fd, (struct sockaddr *)address, size), 0);
    assert_int_equal(listen(fd, 512), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)address, &size), 0);
    return fd;
}

static int connect_to(const struct sockaddr_in *address) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(
        io_connect_await(fd, (const struct sockaddr *)address, sizeof *address, late()), 0);
    return fd;
}

static void echo_once_fiber(void *arg) {
    int fd = io_accept_await(*(int *)arg, SOCK_CLOEXEC, late());
    assert_true(fd >= 0);
    char data[16];
    struct iovec part = {data, sizeof data};
    struct msghdr msg = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t size = io_recvmsg_await(fd, &msg, 0, late());
    assert_int_equal(size, 5);
    part.iov_len = (size_t)size;
    assert_int_equal(io_sendmsg_await(fd, &msg, 0, late()), 5);
    close(fd);
}

static void echo_story(void *arg) {
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address);
    assert_int_equal(io_accept_await(listener, 0, soon()), -ETIME);
    assert_int_equal(fiber_spawn("echo", echo_once_fiber, &listener), 0);
    int fd = connect_to(&address);
    char data[16];
    assert_int_equal(io_send_await(fd, "hello", 5, 0, late()), 5);
    assert_int_equal(io_recv_await(fd, data, 5, MSG_WAITALL, late()), 5);
    assert_memory_equal(data, "hello", 5);
    assert_int_equal(io_recv_await(fd, data, 5, 0, late()), 0);
    close(fd);
    close(listener);
}

static void two_fibers_talk_over_a_socket(void **state) {
    tell(echo_story, NULL);
}

/* A server without fibers: accept, wait idle, answer by a plain send from the callback. */
#define CLIENTS 300 /* more than there are shared buffers */

struct connection {
    struct io_idle idle;
    struct server *server;
    int fd;
};

struct server {
    struct io_accept accept;
    struct connection connections[CLIENTS];
    unsigned count, ended, requests;
    bool stopped;
};

static void on_request(struct io_idle *idle, const void *data, ssize_t size) {
    struct connection *connection = (struct connection *)idle;
    if (size <= 0) {
        assert_int_equal(size, 0);
        connection->server->ended++;
        close(connection->fd);
        return;
    }
    assert_int_equal(size, 4);
    assert_memory_equal(data, "ping", 4);
    connection->server->requests++;
    assert_int_equal(send(connection->fd, "pong", 4, MSG_NOSIGNAL), 4);
    io_idle_start(idle, connection->fd, late()); /* from within its own callback */
}

static void on_accept(void *ctx, int fd, int err) {
    struct server *server = ctx;
    if (err) {
        assert_int_equal(err, -ECANCELED);
        assert_int_equal(fd, -1);
        assert_false(server->stopped);
        server->stopped = true;
        return;
    }
    struct connection *connection = &server->connections[server->count++];
    *connection = (struct connection){.idle.on_data = on_request, .server = server, .fd = fd};
    io_idle_start(&connection->idle, fd, late());
}

static void server_story(void *arg) {
    static struct server server;
    server = (struct server){.accept = {.on_accept = on_accept, .ctx = &server}};
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address);
    io_accept_start(&server.accept, listener);
    static int clients[CLIENTS];
    for (unsigned i = 0; i < CLIENTS; i++) clients[i] = connect_to(&address);
    for (unsigned round = 1; round <= 3; round++) {
        for (unsigned i = 0; i < CLIENTS; i++)
            assert_int_equal(send(clients[i], "ping", 4, 0), 4); /* all at once */
        char answer[4];
        for (unsigned i = 0; i < CLIENTS; i++)
            assert_int_equal(io_recv_await(clients[i], answer, 4, MSG_WAITALL, late()), 4);
        assert_int_equal(server.requests, round * CLIENTS);
    }
    for (unsigned i = 0; i < CLIENTS; i++) close(clients[i]);
    while (server.ended < CLIENTS) fiber_yield_await();
    io_accept_stop(&server.accept);
    assert_false(server.stopped); /* the last call comes from the loop */
    while (!server.stopped) fiber_yield_await();
    close(listener);
}

static void idle_connections_share_their_buffers(void **state) {
    tell(server_story, NULL);
}

struct outcome {
    struct io_idle idle;
    ssize_t size;
    unsigned calls;
    char data[8];
};

static void on_outcome(struct io_idle *idle, const void *data, ssize_t size) {
    struct outcome *outcome = (struct outcome *)idle;
    outcome->calls++;
    outcome->size = size;
    if (size > 0)
        memcpy(outcome->data, data, (size_t)size);
    else
        assert_null(data);
}

static void await_outcome(struct outcome *outcome) {
    while (!outcome->calls) fiber_sleep_await(1);
    turns(3);
    assert_int_equal(outcome->calls, 1);
    outcome->calls = 0;
}

static void idle_end_story(void *arg) {
    int ends[2];
    socket_pair(ends);
    struct outcome outcome = {.idle.on_data = on_outcome};
    io_idle_start(&outcome.idle, ends[0], soon());
    await_outcome(&outcome);
    assert_int_equal(outcome.size, -ETIME);

    io_idle_start(&outcome.idle, ends[0], late());
    turns(2);
    io_idle_cancel(&outcome.idle);
    io_idle_cancel(&outcome.idle);
    assert_int_equal(outcome.calls, 0);
    await_outcome(&outcome);
    assert_int_equal(outcome.size, -ECANCELED);

    /* Bytes that came before the cancellation are not lost. */
    io_idle_start(&outcome.idle, ends[0], late());
    turns(2);
    assert_int_equal(send(ends[1], "bytes", 5, 0), 5);
    io_idle_cancel(&outcome.idle);
    await_outcome(&outcome);
    if (outcome.size == -ECANCELED) {
        outcome.size = io_recv_await(ends[0], outcome.data, 5, 0, late());
    }
    assert_int_equal(outcome.size, 5);
    assert_memory_equal(outcome.data, "bytes", 5);
    close_pair(ends);
}

static void an_idle_wait_ends_exactly_once(void **state) {
    tell(idle_end_story, NULL);
}

struct acceptor {
    struct io_accept accept;
    int last_err, fd;
    unsigned errors, ends;
    bool stop_in_callback;
};

static void on_accept_simple(void *ctx, int fd, int err) {
    struct acceptor *acceptor = ctx;
    if (fd >= 0) {
        acceptor->fd = fd;
    } else if (err == -ECANCELED) {
        acceptor->ends++;
    } else {
        acceptor->errors++;
        acceptor->last_err = err;
        if (acceptor->stop_in_callback) io_accept_stop(&acceptor->accept);
    }
}

static void accept_error_story(void *arg) {
    /* A socket that does not listen is an error, then a pause; a stop in the pause ends it. */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int in_callback = 0; in_callback < 2; in_callback++) {
        struct acceptor acceptor = {.stop_in_callback = in_callback};
        acceptor.accept = (struct io_accept){.on_accept = on_accept_simple, .ctx = &acceptor};
        io_accept_start(&acceptor.accept, fd);
        while (!acceptor.errors) fiber_yield_await();
        assert_int_equal(acceptor.last_err, -EINVAL);
        if (!in_callback) io_accept_stop(&acceptor.accept);
        while (!acceptor.ends) fiber_yield_await();
        turns(5);
        assert_int_equal(acceptor.ends, 1);
        assert_int_equal(acceptor.errors, 1);
    }
    close(fd);
}

static void accepting_goes_on_after_an_error_until_it_is_stopped(void **state) {
    tell(accept_error_story, NULL);
}

struct watched {
    struct fiber *fiber;
    int fd;
    int slept;
    bool ended;
};

static void watched_fiber(void *arg) {
    struct watched *w = arg;
    w->fiber = fiber_self();
    struct io_watch watch = {.fiber = fiber_self()};
    io_watch_begin(&watch, w->fd);
    w->slept = fiber_sleep_await(3600 * 1000);
    io_watch_end_await(&watch);
    w->ended = true;
}

static void watch_story(void *arg) {
    struct sockaddr_in address;
    int listener = listen_on_loopback(&address);
    int client = connect_to(&address);
    struct watched w = {.fd = io_accept_await(listener, 0, late())};
    assert_true(w.fd >= 0);
    assert_int_equal(fiber_spawn("watched", watched_fiber, &w), 0);
    turns(3);
    assert_int_equal(io_send_await(client, "x", 1, 0, late()), 1);
    turns(5);
    assert_false(w.ended); /* bytes are no end */
    close(client);
    while (!w.ended) fiber_yield_await();
    assert_int_equal(w.slept, -ECANCELED);
    close(w.fd);
    close(listener);
}

static void the_peers_end_cancels_a_watched_fiber(void **state) {
    tell(watch_story, NULL);
}

static void unwatch_story(void *arg) {
    int ends[2];
    socket_pair(ends);
    struct io_watch watch = {.fiber = fiber_self()};
    for (unsigned i = 0; i < 3; i++) {
        io_watch_begin(&watch, ends[0]);
        turns(i);
        io_watch_end_await(&watch);
    }
    close_pair(ends);
    turns(3);
    assert_false(fiber_cancelled());
}

static void a_watch_that_was_ended_cancels_nobody(void **state) {
    tell(unwatch_story, NULL);
}

/* ---- files */

#define BLOCK  4096
#define BLOCKS 16

static int temporary_file(void) {
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static void file_story(void *arg) {
    char *blocks = arg;
    int fd = temporary_file();
    struct io_op ops[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        memset(blocks + i * BLOCK, 'a' + (int)i, BLOCK);
        io_write_start(&ops[i], fd, blocks + i * BLOCK, BLOCK, (uint64_t)i * BLOCK);
    }
    for (unsigned i = BLOCKS; i-- > 0;) assert_int_equal(io_op_await(&ops[i]), BLOCK);
    assert_int_equal(io_fsync_await(fd, true, late()), 0);

    memset(blocks, 0, BLOCK * BLOCKS);
    for (unsigned i = 0; i < BLOCKS; i++)
        io_read_start(&ops[i], fd, blocks + i * BLOCK, BLOCK, (uint64_t)i * BLOCK);
    for (unsigned i = 0; i < BLOCKS; i++) {
        assert_int_equal(io_op_await(&ops[i]), BLOCK);
        assert_int_equal(blocks[i * BLOCK], 'a' + (int)i);
        assert_int_equal(blocks[(i + 1) * BLOCK - 1], 'a' + (int)i);
    }
    /* One that begins in the registered memory, and one that does not. */
    char outside[3];
    assert_int_equal(io_write_await(fd, blocks + 1, 3, 10, late()), 3);
    assert_int_equal(io_read_await(fd, outside, 3, 10, late()), 3);
    assert_memory_equal(outside, "aaa", 3);
    assert_int_equal(io_read_await(fd, blocks, BLOCK, BLOCKS * BLOCK, late()), 0); /* the end */
    close(fd);
    io_read_start(&ops[0], -1, blocks, BLOCK, 0);
    assert_int_equal(io_op_await(&ops[0]), -EBADF);
}

/* The registration holds the pages themselves, so it works while the addresses are out of reach. */
static void fixed_story(void *arg) {
    int fd = temporary_file();
    assert_int_equal(mprotect(arg, BLOCK, PROT_NONE), 0);
    ssize_t written = io_write_await(fd, arg, BLOCK, 0, late());
    ssize_t got = io_read_await(fd, arg, BLOCK, 0, late());
    assert_int_equal(mprotect(arg, BLOCK, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(written, BLOCK);
    assert_int_equal(got, BLOCK);
    close(fd);
}

static void files_are_written_and_read_through_registered_memory(void **state) {
    size_t size = BLOCK * BLOCKS;
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(memory != MAP_FAILED);
    struct runtime_options options = {
        .reactors = 2, .workers = 1, .fixed_base = memory, .fixed_size = size};
    struct runtime *runtime;
    assert_int_equal(runtime_start(&options, &runtime), 0);
    struct runtime_stats stats;
    runtime_stats(runtime, &stats);
    assert_true(stats.fixed_buffers);
    assert_int_equal(reactor_run(runtime_reactor(runtime, 0), "fixed", fixed_story, memory), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(reactor_run(runtime_reactor(runtime, i), "file", file_story, memory), 0);
    runtime_stop(&runtime);
    munmap(memory, size);
}

static void memory_that_cannot_be_registered_is_used_plainly(void **state) {
    size_t size = BLOCK * BLOCKS;
    /* Memory without access cannot be registered: it fails as a memlock limit would make it. */
    void *wrong = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(wrong != MAP_FAILED);
    struct runtime_options options = {
        .reactors = 2, .workers = 1, .fixed_base = wrong, .fixed_size = size};
    struct runtime *runtime;
    log_set_level(LOG_ERROR);
    assert_int_equal(runtime_start(&options, &runtime), 0);
    log_set_level(LOG_INFO);
    struct runtime_stats stats;
    runtime_stats(runtime, &stats);
    assert_false(stats.fixed_buffers);
    assert_int_equal(mprotect(wrong, size, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(reactor_run(runtime_reactor(runtime, 0), "file", file_story, wrong), 0);
    runtime_stop(&runtime);
    munmap(wrong, size);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_receive_ends_at_its_deadline_and_leaves_the_buffer_alone),
        cmocka_unit_test(a_success_is_never_disowned),
        cmocka_unit_test(a_receive_is_cancelled),
        cmocka_unit_test(a_shielded_receive_is_not),
        cmocka_unit_test(the_peers_end_is_an_answer_and_not_a_signal),
        cmocka_unit_test(a_full_submission_queue_is_no_obstacle),
        cmocka_unit_test(two_fibers_talk_over_a_socket),
        cmocka_unit_test(idle_connections_share_their_buffers),
        cmocka_unit_test(an_idle_wait_ends_exactly_once),
        cmocka_unit_test(accepting_goes_on_after_an_error_until_it_is_stopped),
        cmocka_unit_test(the_peers_end_cancels_a_watched_fiber),
        cmocka_unit_test(a_watch_that_was_ended_cancels_nobody),
        cmocka_unit_test(files_are_written_and_read_through_registered_memory),
        cmocka_unit_test(memory_that_cannot_be_registered_is_used_plainly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
