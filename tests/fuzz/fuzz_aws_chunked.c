/* Fuzzes the aws-chunked decoder. The first byte of an input chooses the form of the body, its
 * first line (without that byte) is the announced trailer, the rest is the body. It is decoded in
 * one piece and in small ones: both must give the same payload, trailer and verdict. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "auth/auth.h"
#include "base/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct outcome {
    int err; /* 1: needs more bytes */
    size_t used, payload;
    uint32_t crc; /* of the payload */
    char trailer_name[64], trailer_value[128];
};

/* The chain of the documentation's examples begins here. */
static void seed(struct auth_result *auth, uint8_t form) {
    static const enum payload_kind kinds[] = {
        PAYLOAD_CHUNKED_UNSIGNED_TRAILER, PAYLOAD_CHUNKED_SIGNED, PAYLOAD_CHUNKED_SIGNED_TRAILER};
    static const char *const parts[] = {"20130524", "us-east-1", "s3", "aws4_request"};
    const char *secret = "AWS4wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
    uint8_t mac[SHA256_SIZE];
    memset(auth, 0, sizeof(*auth));
    auth->payload = kinds[form % 3];
    hmac_key_init(&auth->signing_key, secret, strlen(secret));
    for (int i = 0; i < 4; i++) {
        hmac_sha256(&auth->signing_key, parts[i], strlen(parts[i]), mac);
        hmac_key_init(&auth->signing_key, mac, sizeof(mac));
    }
    strcpy(auth->date, "20130524T000000Z");
    strcpy(auth->scope, "20130524/us-east-1/s3/aws4_request");
    strcpy(auth->seed_signature,
           auth->payload == PAYLOAD_CHUNKED_SIGNED
               ? "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
               : "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e");
}

static struct outcome decode(const struct auth_result *auth, struct slice trailer,
                             struct slice body, size_t piece) {
    struct outcome outcome = {.err = 1};
    struct aws_chunked d;
    aws_chunked_init(&d, auth, trailer);
    while (outcome.used < body.size && !d.finished) {
        const char *at = body.data + outcome.used;
        size_t size = body.size - outcome.used;
        if (size > piece) size = piece;
        if (d.payload_remaining) {
            if (size > d.payload_remaining) size = (size_t)d.payload_remaining;
            aws_chunked_payload(&d, at, size);
            outcome.crc = checksum_crc32(outcome.crc, at, size);
            outcome.payload += size;
        } else {
            ssize_t used = aws_chunked_feed(&d, (struct slice){at, size});
            if (used < 0) {
                outcome.err = (int)used;
                outcome.used = 0; /* depends on the pieces */
                return outcome;
            }
            assert(used > 0 && (size_t)used <= size);
            size = (size_t)used;
        }
        outcome.used += size;
    }
    if (d.finished) outcome.err = 0;
    assert(!(d.finished && d.payload_remaining));
    memcpy(outcome.trailer_name, d.trailer_name, sizeof(outcome.trailer_name));
    memcpy(outcome.trailer_value, d.trailer_value, sizeof(outcome.trailer_value));
    assert(memchr(outcome.trailer_name, '\0', sizeof(outcome.trailer_name)));
    assert(memchr(outcome.trailer_value, '\0', sizeof(outcome.trailer_value)));
    return outcome;
}

static void expect_same(const struct outcome *a, const struct outcome *b) {
    assert(a->err == b->err && a->used == b->used);
    assert(a->payload == b->payload && a->crc == b->crc);
    assert(strcmp(a->trailer_name, b->trailer_name) == 0);
    assert(strcmp(a->trailer_value, b->trailer_value) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct auth_result auth;
    const uint8_t *newline = size ? memchr(data, '\n', size) : NULL;
    if (!newline) return 0;
    seed(&auth, data[0]);
    size_t first_line = (size_t)(newline - data);
    struct slice trailer = {(const char *)data + 1, first_line ? first_line - 1 : 0};
    struct slice body = {(const char *)newline + 1, size - first_line - 1};

    struct outcome whole = decode(&auth, trailer, body, SIZE_MAX);
    struct outcome bytes = decode(&auth, trailer, body, 1);
    struct outcome pieces = decode(&auth, trailer, body, 1 + data[0] % 61);
    expect_same(&whole, &bytes);
    expect_same(&whole, &pieces);
    return 0;
}
