/* Fuzzes auth_verify(). An input is a request in lines: method, path, query, then "name:value" for
 * each header. Whatever it says, an answer must come; a request that passes must be whole; and what
 * auth_sign() signs must never be a mismatch to auth_verify(). */
#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/auth.h"
#include "base/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADERS_MAX 32
#define NOW_MS      1369353600000ll /* 2013-05-24T00:00:00Z, the day of the corpus */

static struct keyring *keyring;

static struct slice take_line(struct slice *rest) {
    const char *end = rest->size ? memchr(rest->data, '\n', rest->size) : NULL;
    size_t size = end ? (size_t)(end - rest->data) : rest->size;
    struct slice line = {rest->data, size};
    size += end != NULL;
    rest->data += size;
    rest->size -= size;
    return line;
}

/* As net/ hands them over: names in lower case, of visible characters; values trimmed. */
static bool parse_header(struct slice line, struct auth_header *header) {
    const char *colon = line.size ? memchr(line.data, ':', line.size) : NULL;
    if (!colon || colon == line.data) return false;
    header->name = (struct slice){line.data, (size_t)(colon - line.data)};
    header->value = slice_trim((struct slice){colon + 1, line.size - header->name.size - 1});
    for (size_t i = 0; i < header->name.size; i++) {
        char c = header->name.data[i];
        if (c <= ' ' || c > '~' || (c >= 'A' && c <= 'Z')) return false;
    }
    return true;
}

static void check_result(const struct auth_result *result) {
    assert(result->identity);
    assert(strlen(result->seed_signature) == 64);
    assert(strlen(result->date) == 16);
    assert(strlen(result->scope) < sizeof(result->scope));
    assert(auth_header_is_signed(result, "host"));
}

static void fuzz_verify(const struct auth_request *request) {
    struct auth_result result;
    const char *detail;
    int err = auth_verify(keyring, request, &result, &detail);
    assert(err == 0 || (err > ERR_BASE && err < ERR_END));
    if (err == 0)
        check_result(&result);
    else
        assert(result.identity == NULL);
}

static bool is_ours(struct slice name) {
    return slice_is(name, "authorization") || slice_is(name, "host") ||
           slice_is(name, "x-amz-date") || slice_is(name, "x-amz-content-sha256") ||
           memchr(name.data, ';', name.size) || memchr(name.data, ',', name.size);
}

/* Signs the request with whatever else its headers say, and verifies it. */
static void fuzz_round_trip(struct auth_request request) {
    struct auth_header headers[HEADERS_MAX + 4];
    unsigned count = 0;
    for (unsigned i = 0; i < request.header_count; i++)
        if (!is_ours(request.headers[i].name)) headers[count++] = request.headers[i];
    headers[count++] = (struct auth_header){SLICE_LITERAL("host"), SLICE_LITERAL("h:9000")};
    headers[count++] =
        (struct auth_header){SLICE_LITERAL("x-amz-date"), SLICE_LITERAL("20130524T000000Z")};
    headers[count++] = (struct auth_header){SLICE_LITERAL("x-amz-content-sha256"),
                                            SLICE_LITERAL("UNSIGNED-PAYLOAD")};
    request.headers = headers;
    request.header_count = count;

    char authorization[AUTH_HEADER_MAX];
    const struct identity *identity = keyring_find(keyring, SLICE_LITERAL("AKIAIOSFODNN7EXAMPLE"));
    int err = auth_sign(identity, &request, SLICE_LITERAL("s3"), SLICE_LITERAL("UNSIGNED-PAYLOAD"),
                        authorization);
    if (err) return;
    headers[count] = (struct auth_header){SLICE_LITERAL("authorization"), slice_of(authorization)};
    request.header_count++;
    struct auth_result result;
    const char *detail;
    err = auth_verify(keyring, &request, &result, &detail);
    /* The query may say that it is presigned, too. */
    assert(err == 0 || err == ERR_INVALID_ARGUMENT);
    if (err == 0) check_result(&result);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!keyring) {
        if (keyring_create(&keyring) != 0) abort();
        if (keyring_add(keyring, "AKIAIOSFODNN7EXAMPLE",
                        "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY") != 0)
            abort();
    }
    struct auth_header headers[HEADERS_MAX];
    struct slice rest = {(const char *)data, size};
    struct auth_request request = {
        .headers = headers, .now_ms = NOW_MS, .region = SLICE_LITERAL("us-east-1")};
    request.method = take_line(&rest);
    request.path = take_line(&rest);
    request.query = take_line(&rest);
    while (rest.size > 0 && request.header_count < HEADERS_MAX)
        if (parse_header(take_line(&rest), &headers[request.header_count])) request.header_count++;

    fuzz_verify(&request);
    fuzz_round_trip(request);
    return 0;
}
