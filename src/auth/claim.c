/* Parses the Authorization header, or the X-Amz-* parameters of a presigned URL, into a claim. The
 * two never come together, and a request with neither is refused: nothing here is anonymous. */
#include "auth/claim.h"

#include "auth/canonical.h"
#include "auth/query.h"
#include "base/clock.h"
#include "base/encode.h"
#include "base/error.h"

#define ALGORITHM "AWS4-HMAC-SHA256"

static int fail(int err, const char *sentence, const char **detail) {
    *detail = sentence;
    return err;
}

/* ---- parts that both forms share */

/* Takes what follows the last '/' off the text. */
static bool take_last(struct slice *text, struct slice *part) {
    const char *slash = text->size ? memrchr(text->data, '/', text->size) : NULL;
    if (!slash) return false;
    size_t before = (size_t)(slash - text->data);
    *part = (struct slice){slash + 1, text->size - before - 1};
    text->size = before;
    return part->size > 0;
}

/* KEY/DAY/REGION/SERVICE/aws4_request */
static bool parse_credential(struct slice text, struct claim *claim) {
    struct slice last, rest = text;
    if (!take_last(&rest, &last) || !slice_is(last, "aws4_request")) return false;
    if (!take_last(&rest, &claim->service) || !take_last(&rest, &claim->region) ||
        !take_last(&rest, &claim->day))
        return false;
    if (rest.size == 0 || rest.size > ACCESS_KEY_MAX || claim->day.size != 8) return false;
    claim->access_key = rest;
    claim->scope = (struct slice){claim->day.data, text.size - rest.size - 1};
    return claim->scope.size < sizeof(((struct auth_result *)0)->scope);
}

/* Lower case, ascending and without repetition: the only form that AWS's own canonical request
 * can have, and one that bounds the work for a signature. */
static bool signed_headers_valid(struct slice list) {
    struct slice name, previous = {NULL, 0};
    if (list.size == 0 || list.size >= sizeof(((struct auth_result *)0)->signed_headers))
        return false;
    if (list.data[list.size - 1] == ';') return false;
    while (signed_headers_next(&list, &name)) {
        if (slice_compare(previous, name) >= 0) return false; /* an empty name, too */
        for (size_t i = 0; i < name.size; i++)
            if (name.data[i] <= ' ' || name.data[i] > '~' ||
                (name.data[i] >= 'A' && name.data[i] <= 'Z'))
                return false;
        previous = name;
    }
    return true;
}

/* ---- the Authorization header */

/* Takes the next NAME=VALUE off a list separated by commas and blanks. */
static bool take_field(struct slice *text, struct slice *name, struct slice *value) {
    const char *comma = memchr(text->data, ',', text->size);
    size_t size = comma ? (size_t)(comma - text->data) : text->size;
    struct slice field = slice_trim((struct slice){text->data, size});
    size += comma != NULL;
    text->data += size;
    text->size -= size;

    const char *equals = field.size ? memchr(field.data, '=', field.size) : NULL;
    if (!equals) return false;
    *name = (struct slice){field.data, (size_t)(equals - field.data)};
    *value = (struct slice){equals + 1, field.size - name->size - 1};
    return value->size > 0;
}

static bool parse_fields(struct slice text, struct claim *claim) {
    struct slice name, value, credential = {NULL, 0};
    while (text.size > 0) {
        if (!take_field(&text, &name, &value)) return false;
        struct slice *field = slice_is(name, "Credential")      ? &credential
                              : slice_is(name, "SignedHeaders") ? &claim->signed_headers
                              : slice_is(name, "Signature")     ? &claim->signature
                                                                : NULL;
        if (!field || field->size) return false; /* unknown, or repeated */
        *field = value;
    }
    return credential.size && claim->signature.size && parse_credential(credential, claim) &&
           signed_headers_valid(claim->signed_headers);
}

/* x-amz-date, or Date where a client cannot set the former. */
static int parse_header_date(const struct auth_request *request, struct claim *claim,
                             const char **detail) {
    const struct auth_header *date = header_find(request, SLICE_LITERAL("x-amz-date"));
    bool ok;
    if (date) {
        ok = clock_parse_amz(date->value, &claim->date_ms);
    } else {
        date = header_find(request, SLICE_LITERAL("date"));
        if (!date)
            return fail(ERR_MISSING_SECURITY_HEADER,
                        "AWS authentication requires a valid Date or x-amz-date header", detail);
        ok = clock_parse_http(date->value, &claim->date_ms) ||
             clock_parse_amz(date->value, &claim->date_ms);
    }
    if (ok) return 0;
    return fail(ERR_AUTH_HEADER_MALFORMED,
                "AWS authentication requires a valid Date or x-amz-date header", detail);
}

static int parse_header(const struct auth_request *request, struct slice value, struct claim *claim,
                        const char **detail) {
    const struct slice scheme = SLICE_LITERAL(ALGORITHM " ");
    if (slice_starts_with(value, SLICE_LITERAL("AWS ")))
        return fail(ERR_ACCESS_DENIED,
                    "The authorization mechanism you have provided is not supported. Please use "
                    "AWS4-HMAC-SHA256.",
                    detail);
    if (!slice_starts_with(value, scheme))
        return fail(ERR_INVALID_ARGUMENT, "Unsupported Authorization Type", detail);
    value.data += scheme.size;
    value.size -= scheme.size;
    if (!parse_fields(value, claim))
        return fail(ERR_AUTH_HEADER_MALFORMED,
                    "The authorization header is malformed; it needs Credential, SignedHeaders and "
                    "Signature, each in its form.",
                    detail);
    return parse_header_date(request, claim, detail);
}

/* ---- the query */

/* Decodes a parameter into the claim's memory. */
static bool decode_parameter(struct claim *claim, struct slice encoded, struct slice *out) {
    char *at = claim->decoded + claim->decoded_size;
    if (encoded.size > sizeof(claim->decoded) - claim->decoded_size) return false;
    memcpy(at, encoded.data, encoded.size);
    ssize_t size = uri_decode(at, encoded.size, true);
    if (size < 0) return false;
    claim->decoded_size += (size_t)size;
    *out = (struct slice){at, (size_t)size};
    return true;
}

struct presigned {
    struct slice algorithm, credential, date, expires;
};

/* Every parameter of a presigned URL once, the required ones not empty. */
static bool collect_parameters(struct slice query, struct presigned *p, struct claim *claim) {
    struct {
        const char *name;
        struct slice *value;
        bool optional, seen;
    } known[] = {{"X-Amz-Algorithm", &p->algorithm, false, false},
                 {"X-Amz-Credential", &p->credential, false, false},
                 {"X-Amz-Date", &p->date, false, false},
                 {"X-Amz-Expires", &p->expires, false, false},
                 {"X-Amz-SignedHeaders", &claim->signed_headers, false, false},
                 {"X-Amz-Signature", &claim->signature, false, false},
                 {"X-Amz-Content-Sha256", &claim->content_sha256, true, false}};
    const size_t count = sizeof(known) / sizeof(*known);
    struct parameter next;
    while (query_next(&query, &next)) {
        for (size_t i = 0; i < count; i++) {
            if (!encoded_is(next.name, known[i].name)) continue;
            if (known[i].seen || !decode_parameter(claim, next.value, known[i].value)) return false;
            known[i].seen = true;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (!known[i].optional && known[i].value->size == 0) return false;
    return true;
}

static int parse_query(struct slice query, struct claim *claim, const char **detail) {
    const int malformed = ERR_AUTH_QUERY_MALFORMED;
    struct presigned p = {0};
    claim->presigned = true;
    if (!collect_parameters(query, &p, claim))
        return fail(malformed,
                    "Query-string authentication version 4 requires the X-Amz-Algorithm, "
                    "X-Amz-Credential, X-Amz-Signature, X-Amz-Date, X-Amz-SignedHeaders, and "
                    "X-Amz-Expires parameters.",
                    detail);
    if (!slice_is(p.algorithm, ALGORITHM))
        return fail(malformed, "X-Amz-Algorithm only supports \"AWS4-HMAC-SHA256\"", detail);
    if (!parse_credential(p.credential, claim))
        return fail(malformed,
                    "Error parsing the X-Amz-Credential parameter; the Credential is mal-formed; "
                    "expecting \"<YOUR-AKID>/YYYYMMDD/REGION/SERVICE/aws4_request\".",
                    detail);
    if (!signed_headers_valid(claim->signed_headers))
        return fail(malformed,
                    "X-Amz-SignedHeaders must be sorted, in lower case and without repetition.",
                    detail);
    if (!clock_parse_amz(p.date, &claim->date_ms))
        return fail(malformed,
                    "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"",
                    detail);
    unsigned long long expires;
    if (!slice_to_u64(p.expires, &expires))
        return fail(malformed, "X-Amz-Expires should be a number", detail);
    if (expires > CLAIM_EXPIRES_MAX)
        return fail(malformed,
                    "X-Amz-Expires must be less than a week (in seconds); that is, the given "
                    "X-Amz-Expires must be less than 604800 seconds",
                    detail);
    claim->expires_s = expires;
    return 0;
}

/* ---- which form is it? */

enum query_form { QUERY_PLAIN, QUERY_VERSION_2, QUERY_VERSION_4 };

static enum query_form query_form(struct slice query) {
    enum query_form form = QUERY_PLAIN;
    struct parameter next;
    while (query_next(&query, &next)) {
        if (encoded_is(next.name, "X-Amz-Algorithm") || encoded_is(next.name, "X-Amz-Signature") ||
            encoded_is(next.name, "X-Amz-Credential"))
            return QUERY_VERSION_4;
        if (encoded_is(next.name, "AWSAccessKeyId")) form = QUERY_VERSION_2;
    }
    return form;
}

/* The only Authorization header, if there is one; false when there are more. */
static bool find_authorization(const struct auth_request *request, struct slice *value) {
    bool found = false;
    for (unsigned i = 0; i < request->header_count; i++) {
        if (!slice_is(request->headers[i].name, "authorization")) continue;
        if (found) return false;
        *value = request->headers[i].value;
        found = true;
    }
    return true;
}

int claim_parse(const struct auth_request *request, struct claim *claim, const char **detail) {
    struct slice authorization = {NULL, 0};
    memset(claim, 0, offsetof(struct claim, decoded));
    claim->decoded_size = 0;
    if (!escapes_valid(request->query)) return ERR_INVALID_URI;
    if (!find_authorization(request, &authorization))
        return fail(ERR_AUTH_HEADER_MALFORMED, "Only one Authorization header is allowed", detail);

    enum query_form form = query_form(request->query);
    if (authorization.size && form != QUERY_PLAIN)
        return fail(ERR_INVALID_ARGUMENT,
                    "Only one auth mechanism allowed; only the X-Amz-Algorithm query parameter, "
                    "Signature query string parameter or the Authorization header should be "
                    "specified",
                    detail);
    if (authorization.size) return parse_header(request, authorization, claim, detail);
    if (form == QUERY_VERSION_4) return parse_query(request->query, claim, detail);
    if (form == QUERY_VERSION_2)
        return fail(ERR_ACCESS_DENIED,
                    "Query-string authentication of version 2 is not supported; presign with "
                    "AWS4-HMAC-SHA256.",
                    detail);
    return ERR_ACCESS_DENIED;
}
