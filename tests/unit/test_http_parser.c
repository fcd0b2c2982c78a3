/* The head of a request and chunked framing, byte by byte and without sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/chunk.h"
#include "net/head.h"

struct parsed {
    char *data; /* an exact copy, so that a read past its end is seen by ASan */
    struct http_header headers[HTTP_HEADERS_MAX];
    struct head head;
    struct head_scan scan;
    int status; /* 0, a refusal, or -1 when the head is not whole */
};

/* The caller frees data. */
static void parse_bytes(struct parsed *p, const char *text, size_t size) {
    memset(p, 0, sizeof *p);
    p->data = malloc(size ? size : 1);
    assert_non_null(p->data);
    memcpy(p->data, text, size);
    head_scan_init(&p->scan);
    switch (head_scan(&p->scan, p->data, size)) {
    case HEAD_MORE: p->status = -1; return;
    case HEAD_REFUSED: p->status = p->scan.status; return;
    case HEAD_WHOLE: break;
    }
    p->status =
        head_parse(p->data + p->scan.start, p->scan.position - p->scan.start, p->headers, &p->head);
}

static int status_of_bytes(const char *text, size_t size) {
    struct parsed p;
    parse_bytes(&p, text, size);
    free(p.data);
    return p.status;
}

static int status_of(const char *text) {
    return status_of_bytes(text, strlen(text));
}

/* A request with these headers behind Host. */
static int status_with(const char *headers) {
    char text[2048];
    snprintf(text, sizeof text, "PUT /b/k HTTP/1.1\r\nHost: h\r\n%s\r\n", headers);
    return status_of(text);
}

#define assert_slice(slice, text) assert_true(slice_is((slice), (text)))

static void a_head_is_taken_apart(void **state) {
    struct parsed p;
    const char *text = "PUT /bucket/a%20key?partNumber=1&x HTTP/1.1\r\nHost: example:9000\r\n"
                       "X-Amz-Meta-Name:  some value \t\r\nEmpty:\r\nContent-Length: 42\r\n"
                       "Expect: 100-Continue\r\n\r\nBODY";
    parse_bytes(&p, text, strlen(text));
    assert_int_equal(p.status, 0);
    assert_int_equal(p.scan.position, strlen(text) - 4);
    assert_slice(p.head.method, "PUT");
    assert_slice(p.head.path, "/bucket/a%20key");
    assert_slice(p.head.query, "partNumber=1&x");
    assert_int_equal(p.head.header_count, 5);
    assert_slice(p.headers[0].name, "host");
    assert_slice(p.headers[1].name, "x-amz-meta-name");
    assert_slice(p.headers[1].value, "some value");
    assert_slice(p.headers[2].value, "");
    assert_true(p.head.has_content_length);
    assert_int_equal(p.head.content_length, 42);
    assert_true(p.head.expect_continue);
    assert_false(p.head.chunked || p.head.close);
    free(p.data);
}

static void a_head_may_arrive_byte_by_byte(void **state) {
    const char *text = "\r\nGET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n";
    struct head_scan scan;
    head_scan_init(&scan);
    for (size_t size = 0; size < strlen(text); size++)
        assert_int_equal(head_scan(&scan, text, size), HEAD_MORE);
    assert_int_equal(head_scan(&scan, text, strlen(text)), HEAD_WHOLE);
    assert_int_equal(scan.start, 2); /* one empty line before the request is forgiven */
    assert_int_equal(status_of("\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
}

static void methods(void **state) {
    assert_int_equal(status_of("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
    assert_int_equal(status_of("PATCH /x HTTP/1.1\r\nHost: h\r\n\r\n"), 0);
    assert_int_equal(status_of("BREW /x HTTP/1.1\r\nHost: h\r\n\r\n"), 501);
    assert_int_equal(status_of("CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n"), 501);
    assert_int_equal(status_of("G{T /x HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(status_of(" GET /x HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
}

static void versions(void **state) {
    assert_int_equal(status_of("GET / HTTP/1.0\r\n\r\n"), 0);
    assert_int_equal(status_of("GET / HTTP/1.2\r\nHost: h\r\n\r\n"), 505);
    assert_int_equal(status_of("GET / HTTP/2.0\r\nHost: h\r\n\r\n"), 505);
    assert_int_equal(status_of("GET /\r\n\r\n"), 505);
    assert_int_equal(status_of("GET / http/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(status_of("GET /  HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(status_of("GET / HTTP/1.1 \r\nHost: h\r\n\r\n"), 400);
    struct parsed p;
    parse_bytes(&p, "GET / HTTP/1.0\r\n\r\n", 18);
    assert_true(p.head.http_1_0 && p.head.close);
    free(p.data);
}

static void targets(void **state) {
    struct parsed p;
    const char *absolute = "GET http://H:80/a?b HTTP/1.1\r\nHost: h:80\r\n\r\n";
    parse_bytes(&p, absolute, strlen(absolute));
    assert_int_equal(p.status, 0);
    assert_slice(p.head.path, "/a");
    assert_slice(p.head.query, "b");
    free(p.data);
    assert_int_equal(status_of("GET http://other/a HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(status_of("GET a HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(status_of("GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(status_of("GET * HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(status_of("GET /\xc3\xa4 HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
    assert_int_equal(status_of("GET /a\tb HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
}

static void hosts(void **state) {
    assert_int_equal(status_of("GET / HTTP/1.1\r\n\r\n"), 400);
    assert_int_equal(status_of("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400);
    assert_int_equal(status_of("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
    assert_int_equal(status_of("GET / HTTP/1.1\r\nHost: a b\r\n\r\n"), 400);
    assert_int_equal(status_of("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400);
    assert_int_equal(status_of("GET / HTTP/1.1\r\nHost: [::1]:9000\r\n\r\n"), 0);
}

static void lengths_that_two_servers_could_read_differently(void **state) {
    assert_int_equal(status_with("Content-Length: 5\r\n"), 0);
    assert_int_equal(status_with("Content-Length: 5\r\nContent-Length: 5\r\n"), 400);
    assert_int_equal(status_with("Content-Length: 5, 5\r\n"), 400);
    assert_int_equal(status_with("Content-Length: +5\r\n"), 400);
    assert_int_equal(status_with("Content-Length: -5\r\n"), 400);
    assert_int_equal(status_with("Content-Length: 0x5\r\n"), 400);
    assert_int_equal(status_with("Content-Length: 5 5\r\n"), 400);
    assert_int_equal(status_with("Content-Length:\r\n"), 400);
    assert_int_equal(status_with("Content-Length: 18446744073709551616\r\n"), 400);
    assert_int_equal(status_with("Content-Length : 5\r\n"), 400);
    assert_int_equal(status_with("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400);
    assert_int_equal(status_with("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n"), 400);
}

static void transfer_codings(void **state) {
    assert_int_equal(status_with("Transfer-Encoding: Chunked\r\n"), 0);
    assert_int_equal(status_with("Transfer-Encoding: gzip\r\n"), 501);
    assert_int_equal(status_with("Transfer-Encoding: gzip, chunked\r\n"), 501);
    assert_int_equal(status_with("Transfer-Encoding: chunked, identity\r\n"), 501);
    assert_int_equal(status_with("Transfer-Encoding: xchunked\r\n"), 501);
    assert_int_equal(status_with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"),
                     400);
    assert_int_equal(status_of("PUT / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
}

static void lines_end_in_crlf_and_nothing_else(void **state) {
    assert_int_equal(status_of("GET / HTTP/1.1\nHost: h\n\n"), 400);
    assert_int_equal(status_with("A: b\n"), 400);
    assert_int_equal(status_with("A: b\rC: d\r\n"), 400);
    assert_int_equal(status_with("A: b\r\n folded\r\n"), 400);
    assert_int_equal(status_with("A: b\r\n\tfolded\r\n"), 400);
    assert_int_equal(status_with("A: b\001\r\n"), 400);
    assert_int_equal(status_with("A: b\177\r\n"), 400);
    assert_int_equal(status_with("A\r\n"), 400);
    assert_int_equal(status_with(": b\r\n"), 400);
    assert_int_equal(status_with("A b: c\r\n"), 400);
    const char nul[] = "GET / HTTP/1.1\r\nHost: h\r\nA: \0\r\n\r\n";
    assert_int_equal(status_of_bytes(nul, sizeof nul - 1), 400);
    const char nul_name[] = "GET / HTTP/1.1\r\nHost: h\r\nA\0: b\r\n\r\n";
    assert_int_equal(status_of_bytes(nul_name, sizeof nul_name - 1), 400);
}

static void expectations_and_connection(void **state) {
    struct parsed p;
    assert_int_equal(status_with("Expect: a-miracle\r\n"), 417);
    const char *text = "GET / HTTP/1.1\r\nHost: h\r\nConnection: TE , Close\r\n\r\n";
    parse_bytes(&p, text, strlen(text));
    assert_true(p.status == 0 && p.head.close);
    free(p.data);
    text = "GET / HTTP/1.1\r\nHost: h\r\nConnection: closed\r\n\r\n";
    parse_bytes(&p, text, strlen(text));
    assert_true(p.status == 0 && !p.head.close);
    free(p.data);
}

static void limits(void **state) {
    size_t size = HTTP_HEAD_MAX * 2;
    char *text = malloc(size);
    assert_non_null(text);
    memset(text, 'a', size);
    memcpy(text, "GET /", 5);
    assert_int_equal(status_of_bytes(text, HTTP_TARGET_MAX + 100), 414);
    int start = sprintf(text, "GET / HTTP/1.1\r\nHost: h\r\nA: ");
    text[start] = 'a';
    assert_int_equal(status_of_bytes(text, size), 431);
    free(text);

    char many[4096];
    int used = sprintf(many, "GET / HTTP/1.1\r\nHost: h\r\n");
    for (unsigned i = 1; i < HTTP_HEADERS_MAX; i++) used += sprintf(many + used, "a: b\r\n");
    memcpy(many + used, "\r\n", 3);
    assert_int_equal(status_of(many), 0);
    memcpy(many + used, "c: d\r\n\r\n", 9);
    assert_int_equal(status_of(many), 431);
}

/* ---- chunks */

/* Decode text in two pieces cut at `cut`; what the body was goes to out. Returns the last result.
 */
static enum chunk_result decode(const char *text, size_t cut, char *out, size_t *left) {
    struct chunk_decoder decoder;
    chunk_init(&decoder);
    const char *ends[2] = {text + cut, text + strlen(text)};
    size_t used = 0;
    enum chunk_result result = CHUNK_MORE;
    for (unsigned piece = 0; piece < 2; piece++) {
        while (text < ends[piece]) {
            size_t eaten;
            result = chunk_decode(&decoder, text, (size_t)(ends[piece] - text), &eaten);
            text += eaten;
            if (result == CHUNK_END || result == CHUNK_BAD) goto out;
            if (result != CHUNK_PAYLOAD) continue;
            size_t size = (size_t)(ends[piece] - text);
            if (size > decoder.remaining) size = decoder.remaining;
            memcpy(out + used, text, size);
            used += size;
            text += size;
            chunk_skip(&decoder, size);
        }
    }
out:
    out[used] = 0;
    *left = strlen(text);
    return result;
}

static void chunks_are_joined_wherever_they_are_cut(void **state) {
    const char *text = "5;ext=\"v\"\r\nhello\r\n0A\r\n, chunked \r\n6\r\nworld!\r\n"
                       "0\r\nX-Trailer: ignored\r\nY: z\r\n\r\nNEXT";
    for (size_t cut = 0; cut <= strlen(text); cut++) {
        char out[64];
        size_t left;
        assert_int_equal(decode(text, cut, out, &left), CHUNK_END);
        assert_string_equal(out, "hello, chunked world!");
        assert_int_equal(left, 4);
    }
}

static void bad_chunks_are_refused(void **state) {
    static const char *const bad[] = {"\r\n",
                                      "g\r\n",
                                      "-1\r\n",
                                      "0x5\r\nhello",
                                      "5 \r\nhello\r\n",
                                      " 5\r\nhello",
                                      "5\nhello\r\n",
                                      "5\r\rhello",
                                      "5\r\nhelloX",
                                      "5\r\nhello\rX",
                                      "5\r\nhello\n0",
                                      "0\r\n\n",
                                      "0\r\n \r\n",
                                      ";a\r\n",
                                      "0\r\nA: \001\r\n\r\n",
                                      "1;\001\r\nx",
                                      "0\r\nA: b\n",
                                      "0\r\nA\rb\n",
                                      "ffffffffffffffff\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (size_t cut = 0; cut <= strlen(bad[i]); cut++) {
            char out[64];
            size_t left;
            assert_int_equal(decode(bad[i], cut, out, &left), CHUNK_BAD);
        }
    }
}

static void chunk_framing_has_limits(void **state) {
    static char text[20000];
    char out[64];
    size_t left;
    int start = sprintf(text, "5;");
    memset(text + start, 'e', 1000);
    assert_int_equal(decode(text, 0, out, &left), CHUNK_BAD);
    memset(text, 0, sizeof text);
    int used = sprintf(text, "0\r\n");
    while (used < 10000) used += sprintf(text + used, "trailer: of some length\r\n");
    assert_int_equal(decode(text, 0, out, &left), CHUNK_BAD);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_head_is_taken_apart),
        cmocka_unit_test(a_head_may_arrive_byte_by_byte),
        cmocka_unit_test(methods),
        cmocka_unit_test(versions),
        cmocka_unit_test(targets),
        cmocka_unit_test(hosts),
        cmocka_unit_test(lengths_that_two_servers_could_read_differently),
        cmocka_unit_test(transfer_codings),
        cmocka_unit_test(lines_end_in_crlf_and_nothing_else),
        cmocka_unit_test(expectations_and_connection),
        cmocka_unit_test(limits),
        cmocka_unit_test(chunks_are_joined_wherever_they_are_cut),
        cmocka_unit_test(bad_chunks_are_refused),
        cmocka_unit_test(chunk_framing_has_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
