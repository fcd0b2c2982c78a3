/* The HTTP server over real sockets: requests, responses, bodies and refusals. Requests are cut and
 * pipelined at every point that has its own code. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "http_world.h"

/* ---- requests and responses */

static void a_connection_serves_one_request_after_another(void **state) {
    struct client c;
    open_default(&c);
    for (unsigned i = 0; i < 20; i++) {
        struct answer a;
        client_send(&c, "PUT /echo?q HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
        client_read(&c, &a, false);
        assert_int_equal(a.status, 200);
        assert_string_equal(a.body, "hello");
        assert_string_equal(answer_header(&a, "X-Query"), "q");
        assert_string_equal(answer_header(&a, "Server"), "penstock");
        assert_int_equal(strlen(answer_header(&a, "Date")), 29);
        assert_string_equal(answer_header(&a, "Connection"), "");
        answer_end(&a);
    }
    assert_int_equal(entered, 20);
    client_close(&c);
}

static void fifty_requests_in_one_write_are_answered_in_order(void **state) {
    struct client c;
    char text[8192];
    size_t used = 0;
    open_default(&c);
    for (int i = 10; i < 60; i++) used += (size_t)sprintf(text + used, ECHO(2, "%d"), i);
    client_send(&c, text);
    for (int i = 10; i < 60; i++) {
        char expected[3];
        sprintf(expected, "%d", i);
        expect_answer(&c, 200, expected);
    }
    client_close(&c);
}

static void a_head_may_come_byte_by_byte(void **state) {
    struct client c;
    open_default(&c);
    const char *text = "GET /ignore HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n";
    for (size_t i = 0; i < strlen(text); i++) {
        client_send_bytes(&c, text + i, 1);
        if (i % 8 == 0) usleep(200);
    }
    expect_answer(&c, 200, "ignored");
    client_close(&c);
}

static void head_declares_a_length_and_sends_nothing(void **state) {
    struct client c;
    struct answer a;
    open_default(&c);
    client_send(&c, "HEAD /ignore HTTP/1.1\r\nHost: h\r\n\r\n");
    client_read(&c, &a, true);
    assert_int_equal(a.status, 200);
    assert_string_equal(answer_header(&a, "Content-Length"), "7");
    answer_end(&a);
    client_send(&c, "HEAD /stream?16 HTTP/1.1\r\nHost: h\r\n\r\n");
    client_read(&c, &a, true);
    assert_string_equal(answer_header(&a, "Content-Length"), "4194204");
    answer_end(&a);
    client_send(&c, ECHO(2, "ok"));
    expect_answer(&c, 200, "ok");
    client_close(&c);
}

static void answers_without_content(void **state) {
    struct client c;
    struct answer a;
    open_default(&c);
    client_send(&c, "GET /no-content HTTP/1.1\r\nHost: h\r\n\r\n"
                    "GET /not-modified HTTP/1.1\r\nHost: h\r\n\r\n" ECHO(2, "ok"));
    client_read(&c, &a, false);
    assert_int_equal(a.status, 204);
    assert_string_equal(answer_header(&a, "Content-Length"), "");
    answer_end(&a);
    expect_answer(&c, 304, "");
    expect_answer(&c, 200, "ok");
    client_close(&c);
}

static void blocks_are_streamed_whole(void **state) {
    struct client c;
    struct answer a;
    open_default(&c);
    client_send(&c, "GET /stream?20 HTTP/1.1\r\nHost: h\r\n\r\n");
    client_read(&c, &a, false);
    assert_int_equal(a.status, 206);
    assert_int_equal(a.size, 20 * BLOCK_MAX_SIZE - 100);
    for (size_t i = 0; i < a.size; i++) {
        if ((uint8_t)a.body[i] != (i + 100) % BLOCK_MAX_SIZE % 251) fail_msg("byte %zu", i);
    }
    answer_end(&a);
    client_close(&c);
}

static void a_large_body_arrives_whole(void **state) {
    struct client c;
    struct answer a;
    char *body = malloc(3 * MIB);
    for (size_t i = 0; i < 3 * MIB; i++) body[i] = (char)(i % 253);
    open_default(&c);
    client_send(&c, ECHO(3145728, ""));
    client_send_bytes(&c, body, 3 * MIB);
    client_read(&c, &a, false);
    assert_int_equal(a.size, 3 * MIB);
    assert_memory_equal(a.body, body, 3 * MIB);
    answer_end(&a);
    free(body);
    client_close(&c);
}

static void http_1_0_is_served_once(void **state) {
    struct client c;
    struct answer a;
    open_default(&c);
    client_send(&c, "GET /ignore HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    client_read(&c, &a, false);
    assert_string_equal(a.body, "ignored");
    assert_string_equal(answer_header(&a, "Connection"), "close");
    answer_end(&a);
    assert_true(client_at_end(&c));
    client_close(&c);
}

static void a_client_that_asks_for_it_is_closed(void **state) {
    struct client c;
    open_default(&c);
    client_send(&c, "GET /ignore HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    expect_answer(&c, 200, "ignored");
    assert_true(client_at_end(&c));
    client_close(&c);
}

/* ---- chunked bodies */

#define CHUNKED(path)                                                                              \
    "PUT " path " HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"                       \
    "5\r\nhello\r\n8;x=y\r\n chunked\r\n0\r\nTrailer: t\r\n\r\n" ECHO(2, "ok")

static void cut_everywhere(const char *text) {
    for (size_t cut = 1; cut < strlen(text); cut++) {
        struct client c;
        open_default(&c);
        client_send_bytes(&c, text, cut);
        usleep(300);
        client_send(&c, text + cut);
        expect_answer(&c, 200, "hello chunked");
        expect_answer(&c, 200, "ok");
        client_close(&c);
    }
}

static void chunked_bodies_may_be_cut_at_every_byte(void **state) {
    cut_everywhere(CHUNKED("/echo"));
}

static void a_view_of_chunks_may_be_cut_at_every_byte(void **state) {
    cut_everywhere(CHUNKED("/peek"));
}

static void a_bad_chunk_ends_the_connection(void **state) {
    struct client c;
    open_default(&c);
    client_send(&c, "PUT /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nnonsense");
    expect_answer(&c, 400, "ERR_INVALID_REQUEST");
    assert_true(client_at_end(&c));
    client_close(&c);
}

/* ---- 100-continue and unread bodies */

static void continue_is_sent_when_the_body_is_wanted(void **state) {
    struct client c;
    struct answer a;
    open_default(&c);
    for (unsigned i = 0; i < 2; i++) {
        client_send(&c, "PUT /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n"
                        "Expect: 100-continue\r\n\r\n");
        client_read(&c, &a, true);
        assert_int_equal(a.status, 100);
        answer_end(&a);
        client_send(&c, "body");
        expect_answer(&c, 200, "body");
    }
    client_close(&c);
}

/* Also in front of an error: what matters is that the final answer never comes first. */
static void continue_is_sent_for_an_empty_body(void **state) {
    static const char *const paths[] = {"/echo", "/ignore"};
    struct client c;
    struct answer a;
    open_default(&c);
    for (unsigned i = 0; i < 4; i++) {
        char request[160];
        snprintf(request, sizeof request,
                 "PUT %s HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n"
                 "Expect: 100-continue\r\n\r\n",
                 paths[i % 2]);
        client_send(&c, request);
        client_read(&c, &a, true);
        assert_int_equal(a.status, 100);
        answer_end(&a);
        expect_answer(&c, 200, i % 2 ? "ignored" : "");
    }
    client_close(&c);
}

static void an_answer_without_the_body_saves_sending_it(void **state) {
    struct client c;
    struct answer a;
    open_default(&c);
    client_send(&c, "PUT /ignore HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n"
                    "Expect: 100-continue\r\n\r\n");
    client_read(&c, &a, false);
    assert_int_equal(a.status, 200);
    assert_string_equal(answer_header(&a, "Connection"), "close");
    answer_end(&a);
    assert_true(client_at_end(&c));
    client_close(&c);
}

static void a_small_unread_body_is_dropped(void **state) {
    struct client c;
    open_default(&c);
    client_send(&c, "PUT /ignore HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    client_send(&c, "PUT /ignore HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "5\r\nhello\r\n0\r\n\r\n" ECHO(2, "ok"));
    expect_answer(&c, 200, "ignored");
    expect_answer(&c, 200, "ignored");
    expect_answer(&c, 200, "ok");
    client_close(&c);
}

static void a_large_unread_body_ends_the_connection_after_the_answer(void **state) {
    struct client c;
    struct answer a;
    char *body = calloc(1, MIB);
    open_default(&c);
    client_send(&c, "PUT /ignore HTTP/1.1\r\nHost: h\r\nContent-Length: 1048576\r\n\r\n");
    client_send_bytes(&c, body, MIB);
    client_read(&c, &a, false);
    assert_string_equal(a.body, "ignored");
    assert_string_equal(answer_header(&a, "Connection"), "close");
    answer_end(&a);
    assert_true(client_at_end(&c));
    free(body);
    client_close(&c);
}

static void a_body_that_never_comes_is_not_waited_for(void **state) {
    struct client c;
    open_default(&c);
    client_send(&c, "PUT /token HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n");
    expect_answer(&c, 200, "done");
    assert_true(client_at_end(&c)); /* what follows could be the body or a request */
    client_close(&c);
}

/* ---- refusals */

static void expect_refusal(const char *text, size_t size, int status) {
    struct client c;
    struct answer a;
    open_default(&c);
    client_send_bytes(&c, text, size);
    client_read(&c, &a, false);
    if (a.status != status) fail_msg("%d, not %d, for:\n%.300s", a.status, status, text);
    assert_string_equal(answer_header(&a, "Connection"), "close");
    assert_non_null(strstr(a.body, "<Error><Code>"));
    answer_end(&a);
    assert_true(client_at_end(&c));
    assert_int_equal(entered, 0);
    client_close(&c);
}

static void what_could_be_read_in_two_ways_is_refused(void **state) {
    static const struct {
        int status;
        const char *text;
    } cases[] = {
        {400,
         "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"},
        {400, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\n"},
        {400, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: +4\r\n\r\n"},
        {400, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 4 4\r\n\r\n"},
        {400, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: four\r\n\r\n"},
        {501, "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n"},
        {400, "GET / HTTP/1.1\nHost: h\n\n"},
        {400, "GET / HTTP/1.1\r\nHost: h\rA: b\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: h\r\nA: \001\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\n\r\n"},
        {400, "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n"},
        {505, "GET / HTTP/3.0\r\nHost: h\r\n\r\n"},
        {501, "BREW / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {417, "GET / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\n\r\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(cases[i].text, strlen(cases[i].text), cases[i].status);
    const char nul[] = "GET / HTTP/1.1\r\nHost: h\r\nA: \0\r\n\r\n";
    expect_refusal(nul, sizeof nul - 1, 400);
}

static void what_is_too_large_is_refused(void **state) {
    size_t size = 64 * 1024;
    char *text = malloc(size);
    memset(text, 'a', size);
    memcpy(text, "GET /", 5);
    expect_refusal(text, size, 414);
    memset(text, 'a', size);
    int start = sprintf(text, "GET / HTTP/1.1\r\nHost: h\r\nA: ");
    text[start] = 'a';
    expect_refusal(text, size, 431);
    free(text);
}

static void a_refused_head_request_gets_no_body(void **state) {
    struct client c;
    struct answer a;
    open_default(&c);
    client_send(&c, "HEAD / HTTP/1.1\r\n\r\n");
    client_read(&c, &a, true);
    assert_int_equal(a.status, 400);
    answer_end(&a);
    assert_true(client_at_end(&c));
    client_close(&c);
}

/* ---- handlers that err */

static void a_handler_that_says_nothing_becomes_a_500(void **state) {
    struct client c;
    open_default(&c);
    client_send(&c, "GET /silent HTTP/1.1\r\nHost: h\r\n\r\n");
    expect_answer(&c, 500, NULL);
    assert_true(client_at_end(&c));
    client_close(&c);
}

static void a_stream_that_never_begins_becomes_a_500(void **state) {
    struct client c;
    open_default(&c);
    client_send(&c, "GET /short HTTP/1.1\r\nHost: h\r\n\r\n");
    expect_answer(&c, 500, NULL);
    client_close(&c);
}

static void a_value_cannot_end_its_line(void **state) {
    struct client c;
    struct answer a;
    open_default(&c);
    client_send(&c, "GET /inject HTTP/1.1\r\nHost: h\r\n\r\n");
    client_read(&c, &a, false);
    assert_string_equal(a.body, "odd");
    assert_string_equal(answer_header(&a, "Set-Cookie"), "");
    assert_string_equal(answer_header(&a, "X-Value"), "a  Set-Cookie: b    <html>");
    answer_end(&a);
    client_close(&c);
}

static void response_heads_grow_up_to_a_limit(void **state) {
    struct client c;
    open_default(&c);
    client_send(&c, "GET /longer-head HTTP/1.1\r\nHost: h\r\n\r\n");
    while (!memmem(c.data, c.size, "\r\n\r\nodd", 7)) assert_true(client_receive(&c));
    assert_true(c.size > 6000);
    c.size = 0;
    client_send(&c, "GET /long-head HTTP/1.1\r\nHost: h\r\n\r\n");
    expect_answer(&c, 500, NULL);
    client_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_serves_one_request_after_another),
        cmocka_unit_test(fifty_requests_in_one_write_are_answered_in_order),
        cmocka_unit_test(a_head_may_come_byte_by_byte),
        cmocka_unit_test(head_declares_a_length_and_sends_nothing),
        cmocka_unit_test(answers_without_content),
        cmocka_unit_test(blocks_are_streamed_whole),
        cmocka_unit_test(a_large_body_arrives_whole),
        cmocka_unit_test(http_1_0_is_served_once),
        cmocka_unit_test(a_client_that_asks_for_it_is_closed),
        cmocka_unit_test(chunked_bodies_may_be_cut_at_every_byte),
        cmocka_unit_test(a_view_of_chunks_may_be_cut_at_every_byte),
        cmocka_unit_test(a_bad_chunk_ends_the_connection),
        cmocka_unit_test(continue_is_sent_when_the_body_is_wanted),
        cmocka_unit_test(continue_is_sent_for_an_empty_body),
        cmocka_unit_test(an_answer_without_the_body_saves_sending_it),
        cmocka_unit_test(a_small_unread_body_is_dropped),
        cmocka_unit_test(a_large_unread_body_ends_the_connection_after_the_answer),
        cmocka_unit_test(a_body_that_never_comes_is_not_waited_for),
        cmocka_unit_test(what_could_be_read_in_two_ways_is_refused),
        cmocka_unit_test(what_is_too_large_is_refused),
        cmocka_unit_test(a_refused_head_request_gets_no_body),
        cmocka_unit_test(a_handler_that_says_nothing_becomes_a_500),
        cmocka_unit_test(a_stream_that_never_begins_becomes_a_500),
        cmocka_unit_test(a_value_cannot_end_its_line),
        cmocka_unit_test(response_heads_grow_up_to_a_limit),
    };
    return cmocka_run_group_tests(tests, world_begin, world_end);
}
