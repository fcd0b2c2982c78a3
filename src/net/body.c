/* Request bodies: identity and chunked, out of the receive buffer first and then straight from the
 * socket into the caller's memory; 100 Continue on the first pull; draining of small rests. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "net/connection.h"

static const char continue_line[] = "HTTP/1.1 100 Continue\r\n\r\n";

static struct http_session *session_of(const struct http_exchange *x) {
    return x->connection->session;
}

void body_begin(struct http_session *s, const struct head *head) {
    s->body = (struct request_body){.chunked = head->chunked,
                                    .ended = !head->chunked && !head->content_length,
                                    .remaining = head->content_length};
    s->body.expect_continue = head->expect_continue;
    if (head->chunked) chunk_init(&s->body.chunk);
}

static size_t buffered(const struct http_session *s) {
    return s->end - s->start;
}

/* Whatever goes wrong with a body spoils its connection, and is told again on every later call. */
static int body_fail(struct http_session *s, int err) {
    if (err == -ETIME) err = ERR_REQUEST_TIMEOUT;
    if (err != ERR_REQUEST_TIMEOUT && err != ERR_INVALID_REQUEST && err != -ECANCELED)
        err = ERR_INCOMPLETE_BODY;
    s->body.err = err;
    s->close = true;
    return err;
}

static uint64_t body_deadline(const struct http_session *s) {
    if (s->body.drain) return s->body.deadline_ns;
    return clock_deadline_ms(s->connection->listener->server->options.body_timeout_ms);
}

static int send_continue_await(struct http_session *s) {
    if (!s->body.expect_continue) return 0;
    s->body.expect_continue = false;
    if (s->response.head_sent) return 0; /* too late to ask for it */
    struct iovec iov = {(char *)continue_line, sizeof continue_line - 1};
    int err = session_send_await(s, &iov, 1);
    return err ? body_fail(s, err) : 0;
}

/* An empty body needs no 100, but botocore takes a final answer without one for the last word: it
 * then misreads the answer to the next request that expects one on this connection. */
void body_continue_empty_await(struct http_session *s) {
    if (s->body.ended) (void)send_continue_await(s);
}

/* Receive into the empty buffer. */
static int body_fill_await(struct http_session *s, size_t limit) {
    assert(!buffered(s));
    int err = send_continue_await(s);
    if (err) return err;
    s->start = s->end = s->head_size;
    ssize_t got = session_receive_await(s, limit, body_deadline(s));
    if (got > 0) return 0;
    return body_fail(s, got ? (int)got : -ENODATA);
}

/* Eat chunk framing until payload or the end is next. */
static int framing_await(struct http_session *s) {
    for (;;) {
        size_t eaten;
        enum chunk_result result =
            chunk_decode(&s->body.chunk, s->buffer + s->start, buffered(s), &eaten);
        s->start += (uint32_t)eaten;
        if (result == CHUNK_PAYLOAD) return 0;
        if (result == CHUNK_BAD) return body_fail(s, ERR_INVALID_REQUEST);
        if (result == CHUNK_END) {
            s->body.ended = true;
            return 0;
        }
        int err = body_fill_await(s, FRAMING_RECEIVE_SIZE);
        if (err) return err;
    }
}

/* How many payload bytes come next without framing in between: *run, 0 at the end. */
static int next_run_await(struct http_session *s, uint64_t *run) {
    *run = 0;
    if (s->body.err) return s->body.err;
    if (s->body.chunked && !s->body.ended) {
        int err = framing_await(s);
        if (err) return err;
    }
    if (!s->body.ended) *run = s->body.chunked ? s->body.chunk.remaining : s->body.remaining;
    return 0;
}

static void advance(struct http_session *s, uint64_t size) {
    if (s->body.chunked) {
        chunk_skip(&s->body.chunk, size);
        return;
    }
    assert(size <= s->body.remaining);
    s->body.remaining -= size;
    s->body.ended = !s->body.remaining;
}

static ssize_t receive_straight_await(struct http_session *s, void *data, size_t size, bool all) {
    int err = send_continue_await(s);
    if (err) return err;
    if (size > RECEIVE_MAX) size = RECEIVE_MAX;
    int flags = all && size >= WAIT_ALL_MIN ? MSG_WAITALL : 0;
    ssize_t got = io_recv_await(s->connection->fd, data, size, flags, body_deadline(s));
    if (got <= 0) return body_fail(s, got ? (int)got : -ENODATA);
    counter_add(&s->connection->listener->counters.bytes_in, (uint64_t)got);
    return got;
}

static ssize_t read_await(struct http_session *s, void *data, size_t size, bool all) {
    assert(size > 0);
    uint64_t run;
    int err = next_run_await(s, &run);
    if (err || !run) return err;
    if (size > run) size = (size_t)run;
    ssize_t got;
    if (buffered(s)) {
        /* A copy, of what came in the same segment as the head or chunk framing: at most a receive
         * buffer of it for each request. */
        got = (ssize_t)(size < buffered(s) ? size : buffered(s));
        memcpy(data, s->buffer + s->start, (size_t)got);
        s->start += (uint32_t)got;
    } else {
        got = receive_straight_await(s, data, size, all);
        if (got < 0) return got;
    }
    advance(s, (uint64_t)got);
    return got;
}

ssize_t http_body_read_await(struct http_exchange *x, void *data, size_t size) {
    return read_await(session_of(x), data, size, false);
}

ssize_t http_body_read_full_await(struct http_exchange *x, void *data, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t got = read_await(session_of(x), (char *)data + done, size - done, true);
        if (got < 0) return got;
        if (got == 0) break;
        done += (size_t)got;
    }
    return (ssize_t)done;
}

int http_body_peek_await(struct http_exchange *x, struct slice *view) {
    struct http_session *s = session_of(x);
    uint64_t run;
    int err = next_run_await(s, &run);
    if (err || !run) return err;
    if (!buffered(s)) {
        err = body_fill_await(s, sizeof s->buffer);
        if (err) return err;
    }
    size_t size = buffered(s) < run ? buffered(s) : (size_t)run;
    *view = (struct slice){s->buffer + s->start, size};
    return 1;
}

void http_body_consume(struct http_exchange *x, size_t size) {
    struct http_session *s = session_of(x);
    assert(size <= buffered(s));
    s->start += (uint32_t)size;
    if (size) advance(s, size);
}

void http_body_expect_none(struct http_exchange *x) {
    struct http_session *s = session_of(x);
    if (s->body.ended) return;
    s->body.ended = s->body.forgotten = true;
    s->body.expect_continue = false;
    /* Should the body come all the same, it must not be read as the next request. */
    s->close = true;
}

/* ---- rests */

bool body_may_drain(const struct http_session *s) {
    if (s->body.ended) return true;
    if (s->body.err || s->body.expect_continue) return false;
    return s->body.chunked || s->body.remaining <= DRAIN_MAX;
}

bool body_drain_await(struct http_session *s) {
    if (s->body.err || s->close) return false;
    if (!body_may_drain(s)) return false;
    s->body.drain = true;
    s->body.deadline_ns = clock_deadline_ms(DRAIN_TIMEOUT_MS);
    uint64_t dropped = 0;
    struct slice view;
    int more = 0;
    while (dropped <= DRAIN_MAX && (more = http_body_peek_await(&s->exchange, &view)) > 0) {
        http_body_consume(&s->exchange, view.size);
        dropped += view.size;
    }
    return more == 0 && s->body.ended;
}
