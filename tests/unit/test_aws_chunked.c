/* aws-chunked bodies: the documentation's examples byte for byte, what clients really send, and
 * streams that were cut, changed or reordered on the way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "auth/auth.h"
#include "base/encode.h"
#include "base/error.h"
#include "base/text.h"

#define NOW_MS 1369353600000ll
#define CREDENTIAL                                                                                 \
    "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"

static struct keyring *keyring;
static struct auth_result signed_body, signed_trailer, unsigned_trailer;

/* The seed requests of the two examples; verifying them yields the key and the first signature. */
static int verify(const struct auth_header *headers, unsigned count, struct auth_result *result) {
    struct auth_request request = {.method = SLICE_LITERAL("PUT"),
                                   .path = SLICE_LITERAL("/examplebucket/chunkObject.txt"),
                                   .headers = headers,
                                   .header_count = count,
                                   .now_ms = NOW_MS,
                                   .region = SLICE_LITERAL("us-east-1")};
    const char *detail;
    return auth_verify(keyring, &request, result, &detail);
}

#define HEADER(name, value)                                                                        \
    { SLICE_LITERAL(name), SLICE_LITERAL(value) }

static int setup(void **state) {
    const struct auth_header plain[] = {
        HEADER("host", "s3.amazonaws.com"),
        HEADER("x-amz-date", "20130524T000000Z"),
        HEADER("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        HEADER("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
        HEADER("content-encoding", "aws-chunked"),
        HEADER("x-amz-decoded-content-length", "66560"),
        HEADER("content-length", "66824"),
        HEADER("authorization",
               CREDENTIAL "SignedHeaders=content-encoding;content-length;host;x-amz-content-sha256;"
                          "x-amz-date;x-amz-decoded-content-length;x-amz-storage-class,Signature="
                          "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9")};
    const struct auth_header trailer[] = {
        HEADER("host", "s3.amazonaws.com"),
        HEADER("x-amz-date", "20130524T000000Z"),
        HEADER("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        HEADER("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"),
        HEADER("content-encoding", "aws-chunked"),
        HEADER("x-amz-decoded-content-length", "66560"),
        HEADER("x-amz-trailer", "x-amz-checksum-crc32c"),
        HEADER("content-length", "66824"),
        HEADER("authorization", CREDENTIAL
               "SignedHeaders=content-encoding;host;x-amz-content-sha256;x-amz-date;"
               "x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer,Signature="
               "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e")};
    assert_int_equal(keyring_create(&keyring), 0);
    assert_int_equal(
        keyring_add(keyring, "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        0);
    assert_int_equal(verify(plain, 8, &signed_body), 0);
    assert_int_equal(verify(trailer, 9, &signed_trailer), 0);
    assert_int_equal(signed_body.payload, PAYLOAD_CHUNKED_SIGNED);
    assert_int_equal(signed_trailer.payload, PAYLOAD_CHUNKED_SIGNED_TRAILER);
    unsigned_trailer.payload = PAYLOAD_CHUNKED_UNSIGNED_TRAILER;
    return 0;
}

static int teardown(void **state) {
    keyring_destroy(&keyring);
    return 0;
}

/* Receives a body as a connection would: never more than `piece` bytes at once, each piece in
 * memory of its own, so that a sanitizer sees a read past it. */
static int receive(struct aws_chunked *d, struct slice body, size_t piece, struct text *payload) {
    size_t at = 0;
    while (at < body.size && !d->finished) {
        size_t size = body.size - at < piece ? body.size - at : piece;
        if (d->payload_remaining && size > d->payload_remaining) size = d->payload_remaining;
        char *bytes = malloc(size);
        assert_non_null(bytes);
        memcpy(bytes, body.data + at, size);
        ssize_t used = (ssize_t)size;
        if (d->payload_remaining) {
            aws_chunked_payload(d, bytes, size);
            text_append(payload, bytes, size);
        } else {
            used = aws_chunked_feed(d, (struct slice){bytes, size});
        }
        free(bytes);
        if (used < 0) return (int)used;
        assert_true(used > 0);
        at += (size_t)used;
    }
    return d->finished ? (at == body.size ? 0 : 1) : ERR_INCOMPLETE_BODY;
}

static struct aws_chunked decoder;

static int decode(const struct auth_result *auth, const char *announced, struct slice body,
                  size_t piece, struct text *payload) {
    text_clear(payload);
    aws_chunked_init(&decoder, auth, slice_of(announced));
    return receive(&decoder, body, piece, payload);
}

static int decode_string(const struct auth_result *auth, const char *announced, const char *body) {
    struct text payload _cleanup_text_ = {0};
    return decode(auth, announced, slice_of(body), 4096, &payload);
}

static void append_a(struct text *t, unsigned count) {
    for (unsigned i = 0; i < count; i++) text_append(t, "a", 1);
}

#define SIGNED_CHUNK_1                                                                             \
    "10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648\r\n"
#define SIGNED_CHUNK_2                                                                             \
    "400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497\r\n"
#define SIGNED_CHUNK_3                                                                             \
    "0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9\r\n"

static void documented_body(struct text *t) {
    text_append_string(t, SIGNED_CHUNK_1);
    append_a(t, 65536);
    text_append_string(t, "\r\n" SIGNED_CHUNK_2);
    append_a(t, 1024);
    text_append_string(t, "\r\n" SIGNED_CHUNK_3 "\r\n");
}

static void the_documented_signed_stream_is_decoded(void **state) {
    struct text body _cleanup_text_ = {0}, payload _cleanup_text_ = {0},
                     expected _cleanup_text_ = {0};
    documented_body(&body);
    append_a(&expected, 66560);
    assert_int_equal(body.size, 66824); /* as its Content-Length says */
    const size_t pieces[] = {1, 7, 1000, 65536, 1 << 20};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
        assert_int_equal(decode(&signed_body, "", text_slice(&body), pieces[i], &payload), 0);
        assert_true(slice_equal(text_slice(&payload), text_slice(&expected)));
        assert_string_equal(decoder.trailer_name, "");
    }
}

#define TRAILER_CHUNK_1                                                                            \
    "10000;chunk-signature=b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2\r\n"
#define TRAILER_CHUNK_2                                                                            \
    "400;chunk-signature=1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7\r\n"
#define TRAILER_CHUNK_3                                                                            \
    "0;chunk-signature=2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992\r\n"
#define TRAILER_SIGNATURE                                                                          \
    "x-amz-trailer-signature:d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435\r\n"

static void documented_trailer_body(struct text *t, const char *trailers) {
    text_append_string(t, TRAILER_CHUNK_1);
    append_a(t, 65536);
    text_append_string(t, "\r\n" TRAILER_CHUNK_2);
    append_a(t, 1024);
    text_append_string(t, "\r\n" TRAILER_CHUNK_3);
    text_append_string(t, trailers);
}

static int decode_trailers(const char *announced, const char *trailers) {
    struct text body _cleanup_text_ = {0}, payload _cleanup_text_ = {0};
    documented_trailer_body(&body, trailers);
    return decode(&signed_trailer, announced, text_slice(&body), 997, &payload);
}

static void the_documented_signed_trailer_is_verified(void **state) {
    assert_int_equal(decode_trailers("x-amz-checksum-crc32c",
                                     "x-amz-checksum-crc32c:sOO8/Q==\r\n" TRAILER_SIGNATURE "\r\n"),
                     0);
    assert_string_equal(decoder.trailer_name, "x-amz-checksum-crc32c");
    assert_string_equal(decoder.trailer_value, "sOO8/Q==");
}

static void minio_go_ends_trailers_with_a_bare_line_feed(void **state) {
    assert_int_equal(decode_trailers("x-amz-checksum-crc32c",
                                     "x-amz-checksum-crc32c:sOO8/Q==\n\r\n" TRAILER_SIGNATURE
                                     "\r\n"),
                     0);
    assert_string_equal(decoder.trailer_value, "sOO8/Q==");
    assert_int_equal(decode_string(&unsigned_trailer, "x-amz-checksum-crc32",
                                   "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\n\r\n\r\n"),
                     0);
}

static void a_changed_trailer_or_signature_is_refused(void **state) {
    assert_int_equal(decode_trailers("x-amz-checksum-crc32c",
                                     "x-amz-checksum-crc32c:sOO8/g==\r\n" TRAILER_SIGNATURE "\r\n"),
                     ERR_SIGNATURE_MISMATCH);
    assert_int_equal(decode_trailers("x-amz-checksum-crc32c", "x-amz-checksum-crc32c:sOO8/Q==\r\n"
                                                              "x-amz-trailer-signature:00\r\n\r\n"),
                     ERR_SIGNATURE_MISMATCH);
    /* Without its signature a trailer proves nothing. */
    assert_int_equal(decode_trailers("x-amz-checksum-crc32c", "x-amz-checksum-crc32c:sOO8/Q==\r\n"
                                                              "\r\n"),
                     ERR_SIGNATURE_MISMATCH);
    assert_int_equal(decode_trailers("x-amz-checksum-crc32c", "\r\n"), ERR_SIGNATURE_MISMATCH);
    /* After the signature only the end may come. */
    assert_int_equal(decode_trailers("x-amz-checksum-crc32c",
                                     "x-amz-checksum-crc32c:sOO8/Q==\r\n" TRAILER_SIGNATURE
                                     "x-amz-meta-a:b\r\n\r\n"),
                     ERR_INVALID_REQUEST);
}

static void botocores_unsigned_trailer_is_decoded(void **state) {
    struct text payload _cleanup_text_ = {0};
    struct slice body = SLICE_LITERAL("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n");
    for (size_t piece = 1; piece <= body.size; piece++) {
        assert_int_equal(decode(&unsigned_trailer, "x-amz-checksum-crc32", body, piece, &payload),
                         0);
        assert_string_equal(payload.data, "hello");
        assert_string_equal(decoder.trailer_name, "x-amz-checksum-crc32");
        assert_string_equal(decoder.trailer_value, "NhCmhg==");
    }
}

static void names_of_trailers_have_no_case_and_values_are_trimmed(void **state) {
    assert_int_equal(decode_string(&unsigned_trailer, "X-Amz-Checksum-CRC32",
                                   "0\r\nx-amz-CHECKSUM-crc32: \tAAAAAA== \r\n\r\n"),
                     0);
    assert_string_equal(decoder.trailer_name, "x-amz-checksum-crc32");
    assert_string_equal(decoder.trailer_value, "AAAAAA==");
}

static void trailers_come_as_they_were_announced(void **state) {
    const char *trailer = "0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n";
    assert_int_equal(decode_string(&unsigned_trailer, "", trailer), ERR_INVALID_ARGUMENT);
    assert_int_equal(decode_string(&unsigned_trailer, "x-amz-checksum-crc32c", trailer),
                     ERR_INVALID_ARGUMENT);
    assert_int_equal(decode_string(&unsigned_trailer, "a, x-amz-checksum-crc32 ,b", trailer), 0);
    /* A promised checksum that does not come is an error, not an absence. */
    assert_int_equal(decode_string(&unsigned_trailer, "x-amz-checksum-crc32", "0\r\n\r\n"),
                     ERR_INVALID_REQUEST);
    assert_int_equal(decode_string(&unsigned_trailer, "", "0\r\n\r\n"), 0);
    assert_int_equal(decode_string(&unsigned_trailer, "a,,b", "0\r\n:x\r\n\r\n"),
                     ERR_INVALID_ARGUMENT);
    assert_int_equal(decode_string(&unsigned_trailer, "x-amz-checksum-crc32",
                                   "0\r\nx-amz-checksum-crc32:AAAAAA==\r\n"
                                   "x-amz-checksum-crc32:BBBBBB==\r\n\r\n"),
                     ERR_INVALID_REQUEST);
}

static void every_byte_of_a_signed_stream_counts(void **state) {
    struct text body _cleanup_text_ = {0}, payload _cleanup_text_ = {0};
    documented_body(&body);
    const size_t places[] = {0,     3,     5,     30,    80,    86,    87,    90,    40000, 65622,
                             65623, 65630, 65680, 66000, 66735, 66740, 66800, 66821, 66823};
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        body.data[places[i]] ^= 1;
        int err = decode(&signed_body, "", text_slice(&body), 4096, &payload);
        body.data[places[i]] ^= 1;
        assert_true(err == ERR_SIGNATURE_MISMATCH || err == ERR_INVALID_REQUEST ||
                    err == ERR_INCOMPLETE_BODY);
    }
}

static void a_cut_stream_never_finishes(void **state) {
    struct text body _cleanup_text_ = {0}, payload _cleanup_text_ = {0};
    documented_body(&body);
    const size_t sizes[] = {0,     1,     50,    87,    88,    1000, 65623,
                            65625, 65700, 66735, 66800, 66822, 66823};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        struct slice cut = {body.data, sizes[i]};
        assert_int_equal(decode(&signed_body, "", cut, 4096, &payload), ERR_INCOMPLETE_BODY);
    }
}

static void dropped_repeated_and_early_last_chunks_break_the_chain(void **state) {
    struct text body _cleanup_text_ = {0}, payload _cleanup_text_ = {0};
    text_append_string(&body, SIGNED_CHUNK_2); /* the second comes first */
    append_a(&body, 1024);
    text_append_string(&body, "\r\n" SIGNED_CHUNK_3 "\r\n");
    assert_int_equal(decode(&signed_body, "", text_slice(&body), 4096, &payload),
                     ERR_SIGNATURE_MISMATCH);
    text_clear(&body);
    text_append_string(&body, SIGNED_CHUNK_1);
    append_a(&body, 65536);
    text_append_string(&body, "\r\n" SIGNED_CHUNK_3 "\r\n"); /* the second is missing */
    assert_int_equal(decode(&signed_body, "", text_slice(&body), 4096, &payload),
                     ERR_SIGNATURE_MISMATCH);
    assert_int_equal(decode_string(&signed_body, "", SIGNED_CHUNK_3 "\r\n"),
                     ERR_SIGNATURE_MISMATCH);
}

static void broken_framing_is_refused(void **state) {
    const char *bad[] = {"\r\n",
                         "x\r\n",
                         "-1\r\n",
                         "5 \r\n",
                         " 5\r\n",
                         "0x5\r\n",
                         "5\n",
                         "\n",
                         "5;ext=1\r\n",
                         "ffffffffffffffff\r\n",
                         "00000000000000005\r\n",
                         "10000000001\r\n",
                         "5\r\nhello!\r\n",
                         "5\r\nhello\n",
                         "5\r\nhello0\r\n",
                         "0\r\nno colon\r\n"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(decode_string(&unsigned_trailer, "", bad[i]), ERR_INVALID_REQUEST);
    assert_int_equal(decode_string(&signed_body, "", "5\r\n"), ERR_INVALID_REQUEST);
    assert_int_equal(decode_string(&signed_body, "", "5;chunk-sig=00\r\n"), ERR_INVALID_REQUEST);
    assert_int_equal(decode_string(&signed_body, "", "5;chunk-signature=00\r\n"),
                     ERR_SIGNATURE_MISMATCH);
}

static void an_error_is_final(void **state) {
    assert_int_equal(decode_string(&unsigned_trailer, "", "x\r\n"), ERR_INVALID_REQUEST);
    assert_int_equal(aws_chunked_feed(&decoder, SLICE_LITERAL("0\r\n\r\n")), ERR_INVALID_REQUEST);
    assert_false(decoder.finished);
}

static void lines_have_a_limit(void **state) {
    struct text body _cleanup_text_ = {0}, payload _cleanup_text_ = {0};
    text_append_string(&body, "0\r\nx-amz-checksum-crc32:");
    append_a(&body, 5000);
    for (size_t piece = 1; piece < 6000; piece = piece * 3 + 1)
        assert_int_equal(
            decode(&unsigned_trailer, "x-amz-checksum-crc32", text_slice(&body), piece, &payload),
            ERR_INVALID_REQUEST);
}

static void what_follows_the_body_is_left_alone(void **state) {
    aws_chunked_init(&decoder, &unsigned_trailer, SLICE_LITERAL(""));
    assert_int_equal(aws_chunked_feed(&decoder, SLICE_LITERAL("0\r\n\r\nGET / HTTP/1.1\r\n")), 5);
    assert_true(decoder.finished);
    assert_int_equal(aws_chunked_feed(&decoder, SLICE_LITERAL("GET")), 0);
}

static void payload_is_never_taken_for_framing(void **state) {
    aws_chunked_init(&decoder, &unsigned_trailer, SLICE_LITERAL(""));
    assert_int_equal(aws_chunked_feed(&decoder, SLICE_LITERAL("3\r\n0\r\n\r\n")), 3);
    assert_true(decoder.payload_remaining == 3);
    assert_int_equal(aws_chunked_feed(&decoder, SLICE_LITERAL("0\r\n")), 0);
    aws_chunked_payload(&decoder, "0\r", 2);
    assert_true(decoder.payload_remaining == 1);
    aws_chunked_payload(&decoder, "\n", 1);
    assert_int_equal(aws_chunked_feed(&decoder, SLICE_LITERAL("\r\n0\r\n\r\n")), 7);
    assert_true(decoder.finished);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_documented_signed_stream_is_decoded),
        cmocka_unit_test(the_documented_signed_trailer_is_verified),
        cmocka_unit_test(minio_go_ends_trailers_with_a_bare_line_feed),
        cmocka_unit_test(a_changed_trailer_or_signature_is_refused),
        cmocka_unit_test(botocores_unsigned_trailer_is_decoded),
        cmocka_unit_test(names_of_trailers_have_no_case_and_values_are_trimmed),
        cmocka_unit_test(trailers_come_as_they_were_announced),
        cmocka_unit_test(every_byte_of_a_signed_stream_counts),
        cmocka_unit_test(a_cut_stream_never_finishes),
        cmocka_unit_test(dropped_repeated_and_early_last_chunks_break_the_chain),
        cmocka_unit_test(broken_framing_is_refused),
        cmocka_unit_test(an_error_is_final),
        cmocka_unit_test(lines_have_a_limit),
        cmocka_unit_test(what_follows_the_body_is_left_alone),
        cmocka_unit_test(payload_is_never_taken_for_framing),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
