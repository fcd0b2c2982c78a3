/* Any bytes as a request: head scan, head parse, chunk framing. Beyond not crashing, what is found
 * must not depend on how the bytes arrive, and an accepted head must keep what net promises. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/chunk.h"
#include "net/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An exact copy on the heap, so that ASan sees a read beyond its end. */
static char *copy_of(const char *data, size_t size) {
    char *copy = malloc(size ? size : 1);
    assert(copy);
    memcpy(copy, data, size);
    return copy;
}

static enum head_result scan_in_pieces(struct head_scan *scan, const char *data, size_t size,
                                       size_t step) {
    enum head_result result = HEAD_MORE;
    head_scan_init(scan);
    for (size_t end = step; result == HEAD_MORE && end < size + step; end += step)
        result = head_scan(scan, data, end < size ? end : size);
    return result;
}

static void check_inside(struct slice s, const char *data, size_t size) {
    if (s.size) assert(s.data >= data && s.data + s.size <= data + size);
}

static void check_header(const struct http_header *h) {
    assert(h->name.size);
    for (size_t i = 0; i < h->name.size; i++) {
        unsigned char c = (unsigned char)h->name.data[i];
        assert(c > ' ' && c < 0x7f && c != ':' && !(c >= 'A' && c <= 'Z'));
    }
    for (size_t i = 0; i < h->value.size; i++) {
        unsigned char c = (unsigned char)h->value.data[i];
        assert((c >= ' ' || c == '\t') && c != 0x7f);
    }
    if (h->value.size) assert(h->value.data[0] != ' ' && h->value.data[h->value.size - 1] != ' ');
}

static void check_head(const struct head *head, const char *data, size_t size) {
    unsigned hosts = 0, lengths = 0, codings = 0;
    check_inside(head->method, data, size);
    check_inside(head->path, data, size);
    check_inside(head->query, data, size);
    assert(head->method.size && head->path.size && head->header_count <= HTTP_HEADERS_MAX);
    assert(head->path.data[0] == '/' || slice_is(head->path, "*"));
    for (unsigned i = 0; i < head->header_count; i++) {
        const struct http_header *h = &head->headers[i];
        check_inside(h->name, data, size);
        check_inside(h->value, data, size);
        check_header(h);
        hosts += slice_is(h->name, "host");
        lengths += slice_is(h->name, "content-length");
        codings += slice_is(h->name, "transfer-encoding");
    }
    assert(hosts == 1 || (hosts == 0 && head->http_1_0));
    assert(lengths + codings <= 1);
    assert(lengths == head->has_content_length && codings == head->chunked);
}

struct decoded {
    enum chunk_result result;
    size_t used;    /* input bytes until the end or the error */
    uint64_t bytes; /* payload */
    uint64_t mark;  /* depends on every payload byte and its position */
};

static struct decoded decode(const char *data, size_t size, size_t step) {
    struct decoded d = {.result = CHUNK_MORE};
    struct chunk_decoder decoder;
    chunk_init(&decoder);
    while (d.used < size) {
        size_t limit = size - d.used < step ? size - d.used : step, eaten;
        d.result = chunk_decode(&decoder, data + d.used, limit, &eaten);
        d.used += eaten;
        limit -= eaten;
        if (d.result == CHUNK_BAD || d.result == CHUNK_END) break;
        if (d.result != CHUNK_PAYLOAD) continue;
        size_t take = limit < decoder.remaining ? limit : (size_t)decoder.remaining;
        for (size_t i = 0; i < take; i++)
            d.mark = d.mark * 1099511628211u + (uint8_t)data[d.used + i] + ++d.bytes;
        d.used += take;
        chunk_skip(&decoder, take);
    }
    return d;
}

static void fuzz_chunks(const char *data, size_t size, size_t step) {
    struct decoded whole = decode(data, size, size ? size : 1);
    struct decoded pieces = decode(data, size, step);
    assert(whole.used == pieces.used && whole.bytes == pieces.bytes && whole.mark == pieces.mark);
    assert((whole.result == CHUNK_END) == (pieces.result == CHUNK_END));
    assert((whole.result == CHUNK_BAD) == (pieces.result == CHUNK_BAD));
}

static void fuzz_head(char *data, size_t size, size_t step) {
    static struct http_header headers[HTTP_HEADERS_MAX];
    struct head_scan scan, pieces;
    struct head head;
    head_scan_init(&scan);
    enum head_result result = size ? head_scan(&scan, data, size) : HEAD_MORE;
    assert(scan_in_pieces(&pieces, data, size, step) == result);
    assert(pieces.position == scan.position && pieces.status == scan.status);
    if (result == HEAD_REFUSED) assert(scan.status >= 400 && scan.status <= 505);
    if (result != HEAD_WHOLE) return;
    int status = head_parse(data + scan.start, scan.position - scan.start, headers, &head);
    assert(status == 0 || (status >= 400 && status <= 505));
    if (status) return;
    check_head(&head, data, size);
    if (head.chunked) fuzz_chunks(data + scan.position, size - scan.position, step);
}

/* The first byte says how large the pieces are that the rest comes in. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size) return 0;
    size_t step = 1 + data[0] % 32;
    char *copy = copy_of((const char *)data + 1, size - 1);
    fuzz_chunks(copy, size - 1, step);
    fuzz_head(copy, size - 1, step);
    free(copy);
    return 0;
}
