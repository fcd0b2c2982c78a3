/* auth_verify(): is the claim of a request true? The cheap questions come first (form, key, scope,
 * time), the signature last, so that a stranger cannot make the server hash. */
#include <assert.h>

#include "auth/auth.h"
#include "auth/canonical.h"
#include "auth/claim.h"
#include "auth/signature.h"
#include "base/clock.h"
#include "base/encode.h"
#include "base/error.h"

#define SKEW_MAX_MS (15 * 60 * 1000ll)

static int fail(int err, const char *sentence, const char **detail) {
    *detail = sentence;
    return err;
}

static void copy_slice(char *out, size_t capacity, struct slice s) {
    assert(s.size < capacity);
    memcpy(out, s.data, s.size);
    out[s.size] = '\0';
}

/* ---- scope and time */

static int check_scope(const struct auth_request *request, const struct claim *claim,
                       const struct auth_result *result, const char **detail) {
    int malformed = claim->presigned ? ERR_AUTH_QUERY_MALFORMED : ERR_AUTH_HEADER_MALFORMED;
    if (!slice_equal(claim->day, (struct slice){result->date, 8}))
        return fail(malformed, "Invalid credential date; it is not the day of the request.",
                    detail);
    if (!slice_equal(claim->region, request->region))
        return fail(malformed, "The region of the credential is not this server's.", detail);
    if (!slice_is(claim->service, "s3") && !slice_is(claim->service, "s3express"))
        return fail(malformed, "The service of the credential must be s3 or s3express.", detail);
    return 0;
}

static int check_time(const struct auth_request *request, const struct claim *claim) {
    int64_t age_ms = request->now_ms - claim->date_ms;
    if (age_ms < -SKEW_MAX_MS) return ERR_REQUEST_TIME_SKEWED;
    if (claim->presigned) return age_ms > (int64_t)claim->expires_s * 1000 ? ERR_EXPIRED_TOKEN : 0;
    return age_ms > SKEW_MAX_MS ? ERR_REQUEST_TIME_SKEWED : 0;
}

/* ---- headers that no one may add to a signed request */

static int check_signed_headers(const struct auth_request *request, struct slice list,
                                const char **detail) {
    if (!header_find(request, SLICE_LITERAL("host")))
        return fail(ERR_MISSING_SECURITY_HEADER, "The request has no Host header.", detail);
    for (unsigned i = 0; i < request->header_count; i++) {
        struct slice name = request->headers[i].name;
        if (!slice_is(name, "host") && !slice_starts_with(name, SLICE_LITERAL("x-amz-"))) continue;
        if (!signed_headers_contain(list, name))
            return fail(ERR_ACCESS_DENIED,
                        "There were headers present in the request which were not signed", detail);
    }
    return 0;
}

/* ---- payload */

/* What stands in the last line of the canonical request. */
static struct slice payload_text(const struct auth_request *request, const struct claim *claim) {
    const struct auth_header *header = header_find(request, SLICE_LITERAL("x-amz-content-sha256"));
    if (header) return header->value;
    if (!claim->presigned) return SLICE_LITERAL(EMPTY_SHA256);
    return claim->content_sha256.size ? claim->content_sha256 : SLICE_LITERAL("UNSIGNED-PAYLOAD");
}

static int parse_payload(struct slice text, struct auth_result *result, const char **detail) {
    static const struct {
        const char *text;
        enum payload_kind kind;
    } kinds[] = {
        {"UNSIGNED-PAYLOAD", PAYLOAD_UNSIGNED},
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD", PAYLOAD_CHUNKED_SIGNED},
        {"STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER", PAYLOAD_CHUNKED_SIGNED_TRAILER},
        {"STREAMING-UNSIGNED-PAYLOAD-TRAILER", PAYLOAD_CHUNKED_UNSIGNED_TRAILER},
    };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (!slice_is(text, kinds[i].text)) continue;
        result->payload = kinds[i].kind;
        return 0;
    }
    result->payload = PAYLOAD_HASH;
    if (hex_decode(text, result->payload_sha256, SHA256_SIZE) == SHA256_SIZE) return 0;
    return fail(ERR_INVALID_ARGUMENT,
                "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, "
                "STREAMING-AWS4-HMAC-SHA256-PAYLOAD, STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER, "
                "STREAMING-UNSIGNED-PAYLOAD-TRAILER or a valid sha256 value.",
                detail);
}

/* ---- the whole */

static int check_signature(const struct auth_request *request, const struct claim *claim,
                           struct auth_result *result, struct slice payload) {
    char hash[2 * SHA256_SIZE + 1];
    int err = canonical_hash(request, claim->signed_headers, payload, hash);
    if (err) return err;
    signing_key(result->identity, result->scope, &result->signing_key);
    signature_of(&result->signing_key, "AWS4-HMAC-SHA256", result->date, result->scope,
                 slice_of(hash), result->seed_signature);
    bool same = claim->signature.size == SIGNATURE_SIZE &&
                constant_time_equal(claim->signature.data, result->seed_signature, SIGNATURE_SIZE);
    return same ? 0 : ERR_SIGNATURE_MISMATCH;
}

static int verify(const struct keyring *keyring, const struct auth_request *request,
                  struct auth_result *result, const char **detail) {
    struct claim claim;
    char date[CLOCK_TEXT_SIZE];
    int err = claim_parse(request, &claim, detail);
    if (err) return err;

    clock_format_amz(claim.date_ms, date);
    copy_slice(result->date, sizeof(result->date), slice_of(date));
    err = check_scope(request, &claim, result, detail);
    if (err) return err;
    copy_slice(result->scope, sizeof(result->scope), claim.scope);
    copy_slice(result->service, sizeof(result->service), claim.service);
    copy_slice(result->signed_headers, sizeof(result->signed_headers), claim.signed_headers);
    result->presigned = claim.presigned;

    result->identity = keyring_find(keyring, claim.access_key);
    if (!result->identity) return ERR_INVALID_ACCESS_KEY;
    err = check_time(request, &claim);
    if (!err) err = check_signed_headers(request, claim.signed_headers, detail);
    if (err) return err;

    struct slice payload = payload_text(request, &claim);
    err = parse_payload(payload, result, detail);
    if (err) return err;
    return check_signature(request, &claim, result, payload);
}

int auth_verify(const struct keyring *keyring, const struct auth_request *request,
                struct auth_result *result, const char **detail) {
    *detail = NULL;
    memset(result, 0, sizeof(*result));
    int err = verify(keyring, request, result, detail);
    /* Nobody may read an identity or a key out of a request that was refused. */
    if (err) explicit_bzero(result, sizeof(*result));
    return err;
}

bool auth_header_is_signed(const struct auth_result *result, const char *name) {
    return signed_headers_contain(slice_of(result->signed_headers), slice_of(name));
}
