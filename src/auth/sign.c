/* auth_sign(): the client's side. It builds the same canonical request as auth_verify() does, over
 * all the headers it is given. */
#include <stdio.h>

#include "auth/auth.h"
#include "auth/canonical.h"
#include "auth/signature.h"
#include "base/clock.h"
#include "base/error.h"

/* The names of the headers, ascending, each once, separated by ';'. The next name is the smallest
 * one above the last: quadratic, for a dozen headers. */
static bool list_headers(const struct auth_request *request, char *list, size_t capacity) {
    struct slice last = {NULL, 0};
    size_t size = 0;
    for (;;) {
        const struct slice *next = NULL;
        for (unsigned i = 0; i < request->header_count; i++) {
            const struct slice *name = &request->headers[i].name;
            if (slice_compare(*name, last) <= 0) continue;
            if (!next || slice_compare(*name, *next) < 0) next = name;
        }
        if (!next) break;
        if (next->size + 2 > capacity - size) return false;
        if (size) list[size++] = ';';
        memcpy(list + size, next->data, next->size);
        size += next->size;
        last = *next;
    }
    list[size] = '\0';
    return size > 0;
}

static bool has_header(const struct auth_request *request, const char *name) {
    return header_find(request, slice_of(name)) != NULL;
}

int auth_sign(const struct identity *identity, const struct auth_request *request,
              struct slice service, struct slice payload_hash, char *out) {
    char list[sizeof(((struct auth_result *)0)->signed_headers)];
    char scope[sizeof(((struct auth_result *)0)->scope)];
    char date[CLOCK_TEXT_SIZE], hash[2 * SHA256_SIZE + 1], signature[SIGNATURE_SIZE + 1];
    const struct auth_header *date_header = header_find(request, SLICE_LITERAL("x-amz-date"));
    int64_t date_ms;
    if (!date_header || !clock_parse_amz(date_header->value, &date_ms)) return ERR_INVALID_ARGUMENT;
    if (!has_header(request, "host") || !has_header(request, "x-amz-content-sha256"))
        return ERR_INVALID_ARGUMENT;
    if (!list_headers(request, list, sizeof(list))) return ERR_INVALID_ARGUMENT;

    clock_format_amz(date_ms, date);
    int size =
        snprintf(scope, sizeof(scope), "%.8s/%.*s/%.*s/aws4_request", date,
                 (int)request->region.size, request->region.data, (int)service.size, service.data);
    if (size < 0 || (size_t)size >= sizeof(scope)) return ERR_INVALID_ARGUMENT;
    int err = canonical_hash(request, slice_of(list), payload_hash, hash);
    if (err) return err;

    struct hmac_key key;
    signing_key(identity, scope, &key);
    signature_of(&key, "AWS4-HMAC-SHA256", date, scope, slice_of(hash), signature);
    size = snprintf(out, AUTH_HEADER_MAX,
                    "AWS4-HMAC-SHA256 Credential=%s/%s,SignedHeaders=%s,Signature=%s",
                    identity->access_key, scope, list, signature);
    return size > 0 && size < AUTH_HEADER_MAX ? 0 : ERR_INVALID_ARGUMENT;
}
