/* Hashes the canonical request while building it: method, path, query, headers, the list of signed
 * headers and the payload's hash, one a line. S3's variant of SigV4: the path is encoded once and
 * not normalised, because "a//b" and "a/../b" are keys. */
#include "auth/canonical.h"

#include "auth/query.h"
#include "base/encode.h"
#include "base/error.h"

/* Bytes come one by one and are hashed in runs. */
struct writer {
    struct sha256_stream hash;
    unsigned size;
    char bytes[256];
};

static void writer_flush(struct writer *w) {
    sha256_update(&w->hash, w->bytes, w->size);
    w->size = 0;
}

static void put(struct writer *w, char c) {
    if (w->size == sizeof(w->bytes)) writer_flush(w);
    w->bytes[w->size++] = c;
}

static void put_slice(struct writer *w, struct slice s) {
    for (size_t i = 0; i < s.size; i++) put(w, s.data[i]);
}

static void put_encoded(struct writer *w, struct encoder encoder) {
    for (int c; (c = encoder_next(&encoder)) >= 0;) put(w, (char)c);
}

/* ---- query */

static int parameter_compare(const struct parameter *a, const struct parameter *b) {
    int order = encoded_compare(a->name, b->name);
    return order ? order : encoded_compare(a->value, b->value);
}

/* Insertion by binary search: few comparisons, which are what costs here, and no memory. */
static void parameter_insert(struct parameter *sorted, unsigned count, struct parameter added) {
    unsigned low = 0, high = count;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (parameter_compare(&sorted[middle], &added) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    memmove(sorted + low + 1, sorted + low, (count - low) * sizeof(*sorted));
    sorted[low] = added;
}

static int put_query(struct writer *w, struct slice query) {
    struct parameter sorted[AUTH_PARAMETERS_MAX], next;
    unsigned count = 0;
    if (!escapes_valid(query)) return ERR_INVALID_URI;
    while (query_next(&query, &next)) {
        if (encoded_is(next.name, "X-Amz-Signature")) continue;
        if (count == AUTH_PARAMETERS_MAX) return ERR_INVALID_URI;
        parameter_insert(sorted, count++, next);
    }
    for (unsigned i = 0; i < count; i++) {
        if (i) put(w, '&');
        put_encoded(w, encoder_of_query(sorted[i].name));
        put(w, '=');
        put_encoded(w, encoder_of_query(sorted[i].value));
    }
    put(w, '\n');
    return 0;
}

/* ---- headers */

const struct auth_header *header_find(const struct auth_request *request, struct slice name) {
    for (unsigned i = 0; i < request->header_count; i++)
        if (slice_equal(request->headers[i].name, name)) return &request->headers[i];
    return NULL;
}

bool signed_headers_next(struct slice *list, struct slice *name) {
    if (list->size == 0) return false;
    const char *end = memchr(list->data, ';', list->size);
    size_t size = end ? (size_t)(end - list->data) : list->size;
    *name = (struct slice){list->data, size};
    size += end != NULL;
    list->data += size;
    list->size -= size;
    return true;
}

bool signed_headers_contain(struct slice list, struct slice name) {
    struct slice next;
    while (signed_headers_next(&list, &next))
        if (slice_equal_nocase(next, name)) return true;
    return false;
}

/* Runs of spaces count as one, and blanks at the ends not at all. */
static void put_header_value(struct writer *w, struct slice value) {
    value = slice_trim(value);
    for (size_t i = 0; i < value.size; i++)
        if (value.data[i] != ' ' || value.data[i - 1] != ' ') put(w, value.data[i]);
}

/* A header that came several times is one line, its values in the order they came. */
static bool put_header(struct writer *w, const struct auth_request *request, struct slice name) {
    bool found = false;
    for (unsigned i = 0; i < request->header_count; i++) {
        if (!slice_equal(request->headers[i].name, name)) continue;
        if (!found) put_slice(w, name);
        put(w, found ? ',' : ':');
        put_header_value(w, request->headers[i].value);
        found = true;
    }
    put(w, '\n');
    return found;
}

int canonical_hash(const struct auth_request *request, struct slice signed_headers,
                   struct slice payload_hash, char hex[2 * SHA256_SIZE + 1]) {
    struct writer w;
    sha256_init(&w.hash);
    w.size = 0;

    put_slice(&w, request->method);
    put(&w, '\n');
    if (!escapes_valid(request->path)) return ERR_INVALID_URI;
    if (request->path.size == 0) put(&w, '/');
    put_encoded(&w, encoder_of_path(request->path));
    put(&w, '\n');
    int err = put_query(&w, request->query);
    if (err) return err;

    struct slice list = signed_headers, name;
    while (signed_headers_next(&list, &name))
        if (!put_header(&w, request, name)) return ERR_SIGNATURE_MISMATCH;
    put(&w, '\n');
    put_slice(&w, signed_headers);
    put(&w, '\n');
    put_slice(&w, payload_hash);
    writer_flush(&w);

    uint8_t hash[SHA256_SIZE];
    sha256_final(&w.hash, hash);
    hex_encode(hash, sizeof(hash), hex);
    return 0;
}
