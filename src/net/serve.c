/* The fiber of a connection that has data: head, handler, response, as long as bytes are there;
 * then back to idle, or a close that lets the client read the last answer. */
#include <assert.h>
#include <string.h>

#include "net/connection.h"

ssize_t session_receive_await(struct http_session *s, size_t limit, uint64_t deadline_ns) {
    size_t room = sizeof s->buffer - s->end;
    assert(room > 0 && limit > 0);
    ssize_t got = io_recv_await(s->connection->fd, s->buffer + s->end, limit < room ? limit : room,
                                0, deadline_ns);
    if (got > 0) {
        s->end += (uint32_t)got;
        counter_add(&s->connection->listener->counters.bytes_in, (uint64_t)got);
    }
    return got;
}

static const struct http_server_options *options_of(const struct http_session *s) {
    return &s->connection->listener->server->options;
}

/* ---- the head */

/* What is left of the last exchange are the first bytes of the next head. */
static void move_to_front(struct http_session *s) {
    size_t size = s->end - s->start;
    if (size && s->start) memmove(s->buffer, s->buffer + s->start, size);
    s->start = 0;
    s->end = (uint32_t)size;
    s->head_size = 0;
}

/* Returns 0 with a whole head, the status of a refusal, or a negative error: just close then. */
static int read_head_await(struct http_session *s, struct head_scan *scan) {
    uint64_t deadline_ns = clock_deadline_ms(options_of(s)->head_timeout_ms);
    move_to_front(s);
    head_scan_init(scan);
    for (;;) {
        enum head_result result = head_scan(scan, s->buffer, s->end);
        if (result == HEAD_WHOLE) return 0;
        if (result == HEAD_REFUSED) return scan->status;
        ssize_t got = session_receive_await(s, sizeof s->buffer, deadline_ns);
        if (got == -ETIME) return 408;
        if (got <= 0) return got ? (int)got : -ENODATA;
    }
}

static enum http_method method_of(struct slice name) {
    static const struct {
        const char *name;
        enum http_method method;
    } methods[] = {{"GET", HTTP_GET},   {"HEAD", HTTP_HEAD},     {"PUT", HTTP_PUT},
                   {"POST", HTTP_POST}, {"DELETE", HTTP_DELETE}, {"OPTIONS", HTTP_OPTIONS}};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (slice_is(name, methods[i].name)) return methods[i].method;
    }
    return HTTP_OTHER;
}

static void fill_request(struct http_session *s, const struct head *head) {
    struct http_request *r = &s->exchange.request;
    r->method = method_of(head->method);
    r->method_name = head->method;
    r->path = head->path;
    r->query = head->query;
    r->header_count = head->header_count;
    r->chunked = head->chunked;
    r->has_content_length = head->has_content_length;
    r->content_length = head->content_length;
    r->peer = s->connection->peer;
    s->exchange.connection = s->connection;
}

/* ---- the request */

/* A refused head may have been a HEAD request, whose answer has no body. */
static void refuse_await(struct http_session *s, int status) {
    struct http_listener *listener = s->connection->listener;
    counter_add(&listener->counters.parse_errors, 1);
    s->linger = true;
    bool is_head = s->end >= 5 && memcmp(s->buffer, "HEAD ", 5) == 0;
    s->exchange.connection = s->connection;
    s->exchange.request.method = is_head ? HTTP_HEAD : HTTP_OTHER;
    s->body = (struct request_body){.ended = true};
    response_begin(s);
    response_refuse_await(s, status);
    response_deinit(s);
}

static void handle_await(struct http_session *s) {
    const struct http_server_options *options = options_of(s);
    s->connection->state = CONNECTION_BUSY;
    counter_add(&s->connection->listener->counters.requests, 1);
    body_continue_empty_await(s);
    options->handler(&s->exchange, options->ctx);
    assert(!s->watching);
    response_end_await(s);
    if (s->response.broken || !body_drain_await(s)) s->close = true;
    s->linger = !s->response.broken && (!s->body.ended || s->body.forgotten || s->start < s->end);
    response_deinit(s);
    s->connection->state = CONNECTION_HEAD;
}

/* One request; true when the connection is good for another. */
static bool serve_one_await(struct http_session *s) {
    struct head_scan scan;
    struct head head;
    s->linger = false;
    int status = read_head_await(s, &scan);
    if (status < 0) return false;
    s->head_size = s->start = scan.position;
    if (!status)
        status = head_parse(s->buffer + scan.start, scan.position - scan.start,
                            s->exchange.request.headers, &head);
    if (status) {
        refuse_await(s, status);
        return false;
    }
    fill_request(s, &head);
    s->close = head.close;
    body_begin(s, &head);
    response_begin(s);
    handle_await(s);
    return !s->close && !s->connection->listener->stopping;
}

/* Closing a socket that bytes are unread on, or still come to, resets it, and the reset may take
 * the answer away from the client: end our side, and read on for a bounded while until the client
 * ends its own. */
static void linger_await(struct http_session *s) {
    if (fiber_cancelled() || shutdown(s->connection->fd, SHUT_WR)) return;
    uint64_t deadline_ns = clock_deadline_ms(LINGER_MS);
    uint64_t dropped = 0;
    while (dropped < LINGER_MAX) {
        s->start = s->end = s->head_size = 0;
        ssize_t got = session_receive_await(s, sizeof s->buffer, deadline_ns);
        if (got <= 0) return;
        dropped += (uint64_t)got;
    }
}

void serve_connection(void *arg) {
    struct http_connection *c = arg;
    struct http_session *s = c->session;
    struct http_listener *listener = c->listener;
    c->fiber = fiber_self();
    bool good = !listener->stopping;
    while (good) {
        good = serve_one_await(s);
        if (good && s->start == s->end) break;
    }
    if (!good && s->linger) linger_await(s);
    c->fiber = NULL;
    session_give(listener, &c->session);
    if (good)
        listener_idle(c);
    else
        listener_close(&c);
}
