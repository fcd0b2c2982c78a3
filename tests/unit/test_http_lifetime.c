/* The HTTP server's connections through their life: clients that go away or are slow, many idle
 * ones, one too many, and the end of the server itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>

#include "http_world.h"

static struct http_server *start_hasty_server(void) {
    return start_server(runtime, (struct http_server_options){.idle_timeout_ms = 60,
                                                              .head_timeout_ms = 60,
                                                              .body_timeout_ms = 60});
}

/* ---- clients that go away */

static void a_client_may_vanish_in_its_body(void **state) {
    struct client c;
    open_default(&c);
    client_send(&c, ECHO(100000, "only the beginning"));
    wait_for(&entered, 1);
    client_vanish(&c);
    wait_for(&finished, 1);
    assert_int_equal(last_error, ERR_INCOMPLETE_BODY);
    wait_for_connections(server, 0);
}

static void a_client_that_ends_its_body_early_is_told(void **state) {
    struct client c;
    open_default(&c);
    client_send(&c, ECHO(100000, "only the beginning"));
    shutdown(c.fd, SHUT_WR);
    expect_answer(&c, 400, "ERR_INCOMPLETE_BODY");
    client_close(&c);
}

static void a_client_may_vanish_in_the_response(void **state) {
    struct client c;
    open_default(&c);
    client_send(&c, "GET /stream?4000 HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_true(client_receive(&c));
    client_vanish(&c);
    wait_for(&finished, 1);
    assert_true(last_error < 0);
    wait_for_connections(server, 0);
}

static void a_watched_client_that_vanishes_cancels_its_request(void **state) {
    struct client c;
    open_default(&c);
    client_send(&c, "GET /watch HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_for(&entered, 1);
    client_vanish(&c);
    wait_for(&finished, 1);
    assert_int_equal(last_error, -ECANCELED);
    wait_for_connections(server, 0);
}

/* ---- time-outs */

static void an_idle_connection_is_closed_in_time(void **state) {
    struct http_server *hasty = start_hasty_server();
    struct client c;
    reset_marks();
    client_open(&c, http_server_port(hasty));
    assert_true(client_at_end(&c));
    client_close(&c);
    http_server_stop(&hasty, 0);
}

static void a_slow_head_is_refused_in_time(void **state) {
    struct http_server *hasty = start_hasty_server();
    struct client c;
    reset_marks();
    client_open(&c, http_server_port(hasty));
    client_send(&c, "GET /ignore HTTP/1.1\r\nHos");
    expect_answer(&c, 408, NULL);
    assert_true(client_at_end(&c));
    client_close(&c);
    http_server_stop(&hasty, 0);
}

static void a_body_without_progress_ends_in_time(void **state) {
    struct http_server *hasty = start_hasty_server();
    struct client c;
    reset_marks();
    client_open(&c, http_server_port(hasty));
    client_send(&c, ECHO(100, "slow"));
    expect_answer(&c, 400, "ERR_REQUEST_TIMEOUT");
    assert_true(client_at_end(&c));
    client_close(&c);
    http_server_stop(&hasty, 0);
}

/* Slower than the time-out as a whole, but never without progress: also where one receive waits
 * for many bytes. */
static void a_slow_body_with_progress_is_served(void **state) {
    struct http_server *patient =
        start_server(runtime, (struct http_server_options){.body_timeout_ms = 250});
    struct client c;
    struct answer a;
    char piece[10000];
    memset(piece, 'p', sizeof piece);
    reset_marks();
    client_open(&c, http_server_port(patient));
    client_send(&c, ECHO(40000, ""));
    for (unsigned i = 0; i < 4; i++) {
        usleep(100000);
        client_send_bytes(&c, piece, sizeof piece);
    }
    client_read(&c, &a, false);
    assert_int_equal(a.status, 200);
    assert_int_equal(a.size, 40000);
    answer_end(&a);
    client_close(&c);
    http_server_stop(&patient, 0);
}

static void a_response_that_nobody_reads_ends_in_time(void **state) {
    struct http_server *hasty = start_hasty_server();
    struct client c;
    reset_marks();
    client_open(&c, http_server_port(hasty));
    client_send(&c, "GET /stream?4000 HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_for(&finished, 1);
    assert_int_equal(last_error, ERR_REQUEST_TIMEOUT);
    wait_for_connections(hasty, 0);
    client_close(&c);
    http_server_stop(&hasty, 0);
}

/* ---- many connections */

static size_t resident_bytes(void) {
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %lu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

#define IDLE_CONNECTIONS 1000

/* Each has served a request before, so what a request needed must be gone. */
static void a_thousand_idle_connections_cost_little(void **state) {
    static int fds[IDLE_CONNECTIONS];
    struct client c;
    open_default(&c);
    client_send(&c, ECHO(2, "ok"));
    expect_answer(&c, 200, "ok");
    size_t before = 0;
    for (unsigned i = 0; i < IDLE_CONNECTIONS; i++) {
        struct client idle;
        client_open(&idle, http_server_port(server));
        client_send(&idle, ECHO(2, "ok"));
        expect_answer(&idle, 200, "ok");
        free(idle.data);
        fds[i] = idle.fd;
        if (i == 0) before = resident_bytes(); /* by now this client's own memory is there */
    }
    size_t after = resident_bytes();
    assert_int_equal(open_connections(server), IDLE_CONNECTIONS + 1);
#ifdef __SANITIZE_ADDRESS__
    (void)before; /* its quarantine and shadow memory say nothing about the server */
    (void)after;
#else
    assert_true(after <= before + (size_t)(IDLE_CONNECTIONS - 1) * 8192);
#endif
    client_send(&c, ECHO(2, "ok"));
    expect_answer(&c, 200, "ok");
    for (unsigned i = 0; i < IDLE_CONNECTIONS; i++) close(fds[i]);
    client_close(&c);
    wait_for_connections(server, 0);
}

static void one_connection_too_many_is_turned_away(void **state) {
    struct runtime *alone = start_runtime(1);
    struct http_server *small =
        start_server(alone, (struct http_server_options){.connection_limit = 2});
    struct client first, second, third;
    reset_marks();
    client_open(&first, http_server_port(small));
    client_open(&second, http_server_port(small));
    client_send(&first, ECHO(2, "ok"));
    expect_answer(&first, 200, "ok");
    client_send(&second, ECHO(2, "ok"));
    expect_answer(&second, 200, "ok");
    client_open(&third, http_server_port(small));
    client_send(&third, ECHO(2, "ok"));
    expect_answer(&third, 503, NULL);
    assert_true(client_at_end(&third));
    client_close(&third);
    client_close(&first);
    wait_for_connections(small, 1);
    client_open(&third, http_server_port(small));
    client_send(&third, ECHO(2, "ok"));
    expect_answer(&third, 200, "ok");
    client_close(&second);
    client_close(&third);
    http_server_stop(&small, 0);
    runtime_stop(&alone);
}

/* ---- stopping */

static void *open_the_gate(void *unused) {
    usleep(30000);
    gate_open = true;
    return NULL;
}

static void a_stop_lets_a_request_finish(void **state) {
    struct http_server *s = start_server(runtime, (struct http_server_options){0});
    struct client busy, idle, half;
    struct answer a;
    pthread_t thread;
    reset_marks();
    client_open(&idle, http_server_port(s));
    client_open(&half, http_server_port(s));
    client_send(&half, "GET /ig");
    client_open(&busy, http_server_port(s));
    client_send(&busy, "GET /gate HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_for(&entered, 1);
    pthread_create(&thread, NULL, open_the_gate, NULL);
    http_server_stop(&s, 20000);
    pthread_join(thread, NULL);
    assert_null(s);
    client_read(&busy, &a, false);
    assert_string_equal(a.body, "through");
    assert_string_equal(answer_header(&a, "Connection"), "close");
    answer_end(&a);
    assert_true(client_at_end(&busy));
    assert_true(client_at_end(&idle));
    client_close(&busy);
    client_close(&idle);
    client_close(&half);
}

static void a_stop_cancels_what_outlasts_its_grace(void **state) {
    struct http_server *s = start_server(runtime, (struct http_server_options){0});
    struct client busy;
    reset_marks();
    client_open(&busy, http_server_port(s));
    client_send(&busy, "GET /gate HTTP/1.1\r\nHost: h\r\n\r\n");
    wait_for(&entered, 1);
    http_server_stop(&s, 20);
    assert_int_equal(finished, 1);
    assert_int_equal(last_error, -ECANCELED);
    assert_true(client_at_end(&busy));
    client_close(&busy);
}

static void wrong_addresses_are_errors(void **state) {
    struct http_server *s;
    struct http_server_options options = {.host = "localhost", .handler = handler};
    assert_int_equal(http_server_start(runtime, &options, &s), -EINVAL);
    options.host = "192.0.2.1";
    assert_int_equal(http_server_start(runtime, &options, &s), -EADDRNOTAVAIL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_may_vanish_in_its_body),
        cmocka_unit_test(a_client_that_ends_its_body_early_is_told),
        cmocka_unit_test(a_client_may_vanish_in_the_response),
        cmocka_unit_test(a_watched_client_that_vanishes_cancels_its_request),
        cmocka_unit_test(an_idle_connection_is_closed_in_time),
        cmocka_unit_test(a_slow_head_is_refused_in_time),
        cmocka_unit_test(a_body_without_progress_ends_in_time),
        cmocka_unit_test(a_slow_body_with_progress_is_served),
        cmocka_unit_test(a_response_that_nobody_reads_ends_in_time),
        cmocka_unit_test(a_thousand_idle_connections_cost_little),
        cmocka_unit_test(one_connection_too_many_is_turned_away),
        cmocka_unit_test(a_stop_lets_a_request_finish),
        cmocka_unit_test(a_stop_cancels_what_outlasts_its_grace),
        cmocka_unit_test(wrong_addresses_are_errors),
    };
    return cmocka_run_group_tests(tests, world_begin, world_end);
}
