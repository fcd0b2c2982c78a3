/* Responses: the head is written into the session's memory and leaves together with the first
 * payload, in one system call; blocks go out as they lie in the pool. */
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "net/connection.h"
#include "net/status.h"

static struct http_session *session_of(const struct http_exchange *x) {
    return x->connection->session;
}

/* ---- the head's memory */

void response_begin(struct http_session *s) {
    s->response = (struct response){.head = s->head_small, .head_capacity = RESPONSE_HEAD_SMALL};
}

void response_deinit(struct http_session *s) {
    if (s->response.head != s->head_small) free(s->response.head);
    s->response.head = NULL;
}

/* Room for `size` more bytes, or NULL: the head is beyond its limit then and will not be sent. */
static char *head_reserve(struct http_session *s, size_t size) {
    struct response *r = &s->response;
    if (r->overflow) return NULL;
    size_t needed = r->head_size + size;
    if (needed > r->head_capacity) {
        size_t capacity = r->head_capacity;
        while (capacity < needed) capacity *= 2;
        char *grown = capacity <= RESPONSE_HEAD_MAX ? malloc(capacity) : NULL;
        if (!grown) {
            r->overflow = true;
            return NULL;
        }
        memcpy(grown, r->head, r->head_size);
        if (r->head != s->head_small) free(r->head);
        r->head = grown;
        r->head_capacity = (uint32_t)capacity;
    }
    return r->head + r->head_size;
}

static void head_append(struct http_session *s, const char *data, size_t size) {
    char *at = head_reserve(s, size);
    if (!at) return;
    memcpy(at, data, size);
    s->response.head_size += (uint32_t)size;
}

static void head_append_string(struct http_session *s, const char *text) {
    head_append(s, text, strlen(text));
}

/* Every answer has some, and printf is slow at it. */
static void head_append_number(struct http_session *s, uint64_t value) {
    char digits[20];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    head_append(s, digits + at, sizeof digits - at);
}

/* A value that a client once sent must not end its line and begin another. */
static void clean_value(char *value, size_t size) {
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)value[i];
        if ((c < 0x20 && c != '\t') || c == 0x7f) value[i] = ' ';
    }
}

/* ---- building */

void http_respond(struct http_exchange *x, int status) {
    struct http_session *s = session_of(x);
    struct response *r = &s->response;
    assert(!r->head_sent && status >= 200 && status <= 999);
    r->status = status;
    r->framed = r->stream = r->overflow = false;
    r->left = 0;
    r->head_size = 0;
    r->no_body = x->request.method == HTTP_HEAD || status == 204 || status == 304;
    head_append_string(s, "HTTP/1.1 ");
    head_append_number(s, (uint64_t)status);
    head_append_string(s, " ");
    head_append_string(s, status_reason(status));
    head_append_string(s, "\r\nServer: penstock\r\nDate: ");
    head_append_string(s, listener_date(x->connection->listener));
    head_append_string(s, "\r\n");
}

void http_respond_header_slice(struct http_exchange *x, const char *name, struct slice value) {
    struct http_session *s = session_of(x);
    assert(s->response.status && !s->response.framed);
    head_append_string(s, name);
    head_append_string(s, ": ");
    char *at = head_reserve(s, value.size + 2);
    if (!at) return;
    if (value.size) memcpy(at, value.data, value.size);
    clean_value(at, value.size);
    memcpy(at + value.size, "\r\n", 2);
    s->response.head_size += (uint32_t)value.size + 2;
}

void http_respond_header(struct http_exchange *x, const char *name, const char *format, ...) {
    char small[512];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(small, sizeof small, format, arguments);
    va_end(arguments);
    assert(size >= 0);
    if ((size_t)size < sizeof small) {
        http_respond_header_slice(x, name, (struct slice){small, (size_t)size});
        return;
    }
    char *large = malloc((size_t)size + 1);
    if (!large) {
        session_of(x)->response.overflow = true;
        return;
    }
    va_start(arguments, format);
    vsnprintf(large, (size_t)size + 1, format, arguments);
    va_end(arguments);
    http_respond_header_slice(x, name, (struct slice){large, (size_t)size});
    free(large);
}

static bool must_close(const struct http_session *s) {
    return s->close || s->connection->listener->stopping || !body_may_drain(s);
}

/* Declare the body's length and end the head. */
static void head_frame(struct http_exchange *x, uint64_t size) {
    struct http_session *s = session_of(x);
    struct response *r = &s->response;
    assert(r->status && !r->framed);
    r->left = r->no_body ? 0 : size;
    if (r->status != 204 && r->status != 304) {
        head_append_string(s, "Content-Length: ");
        head_append_number(s, size);
        head_append_string(s, "\r\n");
    }
    if (must_close(s)) {
        s->close = true;
        head_append_string(s, "Connection: close\r\n");
    }
    head_append_string(s, "\r\n");
    r->framed = true;
}

/* ---- sending */

static void iov_advance(struct iovec **iov, unsigned *count, size_t size) {
    while (*count && size >= (*iov)->iov_len) {
        size -= (*iov)->iov_len;
        ++*iov;
        --*count;
    }
    if (!size) return;
    (*iov)->iov_base = (char *)(*iov)->iov_base + size;
    (*iov)->iov_len -= size;
}

/* Send all; the deadline is for progress, so each part that leaves begins a new one. */
int session_send_await(struct http_session *s, struct iovec *iov, unsigned count) {
    struct http_listener *listener = s->connection->listener;
    uint64_t timeout_ms = listener->server->options.body_timeout_ms;
    iov_advance(&iov, &count, 0);
    while (count) {
        struct msghdr message = {.msg_iov = iov, .msg_iovlen = count};
        ssize_t sent = io_sendmsg_await(s->connection->fd, &message, MSG_WAITALL | MSG_NOSIGNAL,
                                        clock_deadline_ms(timeout_ms));
        if (sent <= 0) {
            s->response.broken = true;
            return sent == -ETIME ? ERR_REQUEST_TIMEOUT : sent ? (int)sent : -EPIPE;
        }
        counter_add(&listener->counters.bytes_out, (uint64_t)sent);
        iov_advance(&iov, &count, (size_t)sent);
    }
    return 0;
}

static void write_refusal(struct http_session *s, int status) {
    struct http_exchange *x = &s->exchange;
    char xml[512];
    int size = snprintf(xml, sizeof xml,
                        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                        "<Error><Code>%s</Code><Message>%s</Message></Error>",
                        status_code(status), status_message(status));
    assert(size > 0 && (size_t)size < sizeof xml);
    s->close = true;
    http_respond(x, status);
    http_respond_header(x, "Content-Type", "application/xml");
    head_frame(x, (uint64_t)size);
    if (s->response.left) head_append(s, xml, (size_t)size);
    s->response.sent = s->response.left;
    s->response.left = 0;
}

void response_refuse_await(struct http_session *s, int status) {
    write_refusal(s, status);
    struct iovec iov = {s->response.head, s->response.head_size};
    s->response.head_sent = true;
    session_send_await(s, &iov, 1);
}

/* The head as the first piece of a message. A head beyond its limit is our own mistake: the client
 * gets a 500 in its place, and the handler an error. */
static int head_piece_await(struct http_session *s, struct iovec *piece) {
    struct response *r = &s->response;
    assert(r->framed);
    *piece = (struct iovec){0};
    if (r->head_sent) return 0;
    if (r->overflow) {
        log_error("http: a response head is larger than %u bytes", RESPONSE_HEAD_MAX);
        response_refuse_await(s, 500);
        return ERR_INTERNAL;
    }
    *piece = (struct iovec){r->head, r->head_size};
    r->head_sent = true;
    return 0;
}

int http_respond_body_await(struct http_exchange *x, const void *data, size_t size) {
    struct http_session *s = session_of(x);
    struct iovec iov[2] = {{0}};
    head_frame(x, size);
    int err = head_piece_await(s, &iov[0]);
    if (err) return err;
    size_t body_size = (size_t)s->response.left;
    iov[1] = (struct iovec){(void *)data, body_size};
    err = session_send_await(s, iov, 2);
    if (err) return err;
    s->response.sent += body_size;
    s->response.left = 0;
    return 0;
}

void http_respond_stream(struct http_exchange *x, uint64_t size) {
    head_frame(x, size);
    session_of(x)->response.stream = true;
}

/* Where in the blocks the next piece starts. */
struct block_cursor {
    struct block *const *blocks;
    unsigned count;
    uint32_t offset;
};

static unsigned gather(struct block_cursor *cursor, struct iovec *iov, unsigned limit,
                       uint64_t *size) {
    unsigned n = 0;
    uint64_t gathered = 0;
    while (gathered < *size && n < limit && gathered < SEND_MAX) {
        assert(cursor->count > 0);
        const struct block *block = *cursor->blocks;
        assert(cursor->offset <= block->size);
        uint64_t piece = block->size - cursor->offset;
        if (piece > *size - gathered) piece = *size - gathered;
        iov[n++] = (struct iovec){block->data + cursor->offset, (size_t)piece};
        gathered += piece;
        cursor->blocks++;
        cursor->count--;
        cursor->offset = 0;
    }
    *size = gathered;
    return n;
}

int http_send_blocks_await(struct http_exchange *x, struct block *const *blocks, unsigned count,
                           uint32_t offset, uint64_t size) {
    struct http_session *s = session_of(x);
    struct response *r = &s->response;
    if (r->broken || !r->stream) return -EPIPE; /* not a stream: a 500 took its place */
    assert(size <= r->left);
    struct block_cursor cursor = {blocks, count, offset};
    while (size) {
        struct iovec iov[SEND_IOV_MAX + 1];
        uint64_t step = size;
        int err = head_piece_await(s, &iov[0]);
        if (err) return err;
        unsigned pieces = gather(&cursor, iov + 1, SEND_IOV_MAX, &step);
        err = session_send_await(s, iov, pieces + 1);
        if (err) return err;
        r->left -= step;
        r->sent += step;
        size -= step;
    }
    return 0;
}

/* After the handler: send what it left, or say 500 where it said nothing that can be kept. */
void response_end_await(struct http_session *s) {
    struct response *r = &s->response;
    struct http_exchange *x = &s->exchange;
    if (fiber_cancelled() && !r->head_sent) r->broken = true;
    if (!r->broken && !r->head_sent) {
        if (!r->status || (r->stream && r->left)) {
            response_refuse_await(s, 500);
            return;
        }
        struct iovec piece;
        if (!r->framed) head_frame(x, 0);
        if (head_piece_await(s, &piece) == 0) session_send_await(s, &piece, 1);
    }
    if (r->left) r->broken = true; /* only an early end tells the client that the body is short */
}

/* ---- looking, watching */

struct slice http_header(const struct http_request *request, const char *name) {
    for (unsigned i = 0; i < request->header_count; i++) {
        if (slice_is(request->headers[i].name, name)) return request->headers[i].value;
    }
    return (struct slice){0};
}

bool http_response_started(const struct http_exchange *x) {
    return session_of(x)->response.head_sent;
}

void http_close_after(struct http_exchange *x) {
    session_of(x)->close = true;
}

struct slice http_response_head(const struct http_exchange *x) {
    const struct response *r = &session_of(x)->response;
    const char *end = r->head_size ? memchr(r->head, '\r', r->head_size) : NULL;
    return (struct slice){r->head, end ? (size_t)(end - r->head) : 0};
}

int http_response_status(const struct http_exchange *x) {
    return session_of(x)->response.status;
}

uint64_t http_response_bytes(const struct http_exchange *x) {
    return session_of(x)->response.sent;
}

void http_watch_client_begin(struct http_exchange *x) {
    struct http_session *s = session_of(x);
    assert(!s->watching);
    s->watching = true;
    s->watch = (struct io_watch){.fiber = fiber_self()};
    io_watch_begin(&s->watch, x->connection->fd);
}

void http_watch_client_end_await(struct http_exchange *x) {
    struct http_session *s = session_of(x);
    assert(s->watching);
    io_watch_end_await(&s->watch);
    s->watching = false;
}
