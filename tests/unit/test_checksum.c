/* Checksums against published vectors, against each other, and in pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "base/checksum.h"
#include "base/crc64nvme.h"
#include "base/encode.h"

static const char check[] = "123456789"; /* the "check" input of the catalogues of CRCs */

static void fill(uint8_t *bytes, size_t size) {
    uint32_t x = 2463534242u; /* xorshift: the same bytes in every run */
    for (size_t i = 0; i < size; i++) {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        bytes[i] = (uint8_t)x;
    }
}

static void crcs_match_their_published_check_values(void **state) {
    assert_int_equal(checksum_crc32(0, check, 9), 0xCBF43926);
    assert_int_equal(checksum_crc32c(0, check, 9), 0xE3069283);
    assert_true(checksum_crc64nvme(0, check, 9) == 0xAE8B14860A799888ull);
}

static void crcs_match_the_vectors_of_their_standards(void **state) {
    uint8_t zeros[4096] = {0}, ones[4096], rising[32];
    memset(ones, 0xff, sizeof(ones));
    for (size_t i = 0; i < sizeof(rising); i++) rising[i] = (uint8_t)i;
    /* RFC 3720, B.4 */
    assert_int_equal(checksum_crc32c(0, zeros, 32), 0x8A9136AA);
    assert_int_equal(checksum_crc32c(0, ones, 32), 0x62A8AB43);
    assert_int_equal(checksum_crc32c(0, rising, 32), 0x46DD794E);
    /* NVM Command Set Specification, 64b CRC test cases */
    assert_true(checksum_crc64nvme(0, zeros, 4096) == 0x6482D367EB22B64Eull);
    assert_true(checksum_crc64nvme(0, ones, 4096) == 0xC0DDBA7302ECA3ACull);
}

static void nothing_changes_nothing(void **state) {
    assert_int_equal(checksum_crc32(5, NULL, 0), 5);
    assert_int_equal(checksum_crc32c(5, NULL, 0), 5);
    assert_true(checksum_crc64nvme(5, "", 0) == 5);
}

static void crcs_continue_over_pieces(void **state) {
    uint8_t bytes[3000];
    fill(bytes, sizeof(bytes));
    uint32_t crc32 = checksum_crc32(0, bytes, sizeof(bytes));
    uint32_t crc32c = checksum_crc32c(0, bytes, sizeof(bytes));
    uint64_t crc64 = checksum_crc64nvme(0, bytes, sizeof(bytes));
    for (size_t cut = 0; cut <= sizeof(bytes); cut += 7) {
        size_t rest = sizeof(bytes) - cut;
        assert_int_equal(checksum_crc32(checksum_crc32(0, bytes, cut), bytes + cut, rest), crc32);
        assert_int_equal(checksum_crc32c(checksum_crc32c(0, bytes, cut), bytes + cut, rest),
                         crc32c);
        assert_true(checksum_crc64nvme(checksum_crc64nvme(0, bytes, cut), bytes + cut, rest) ==
                    crc64);
    }
}

/* The definition, bit by bit: what the fast ways must agree with. */
static uint64_t crc64nvme_bitwise(uint64_t crc, const uint8_t *bytes, size_t size) {
    crc = ~crc;
    for (size_t i = 0; i < size; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x9A6C9329AC4BC9B5ull : 0);
    }
    return ~crc;
}

static void all_ways_to_crc64nvme_agree_at_every_length_and_alignment(void **state) {
    enum { LONGEST = 1100, ALIGNMENTS = 64 };
    uint8_t *bytes = aligned_alloc(64, 1216), *exact = NULL;
    assert_non_null(bytes);
    fill(bytes, LONGEST + ALIGNMENTS);
    for (size_t size = 0; size <= LONGEST; size++) {
        uint64_t start = size * 0x9E3779B97F4A7C15ull;
        for (size_t offset = 0; offset < ALIGNMENTS; offset += size % 3 + 1) {
            const uint8_t *at = bytes + offset;
            uint64_t expected = crc64nvme_table(start, at, size);
            if (offset == 0) assert_true(crc64nvme_bitwise(start, at, size) == expected);
            if (crc64nvme_has_pclmul()) assert_true(crc64nvme_pclmul(start, at, size) == expected);
            if (crc64nvme_has_vpclmul())
                assert_true(crc64nvme_vpclmul(start, at, size) == expected);
        }
        /* In a block of exactly this size a sanitizer sees a read past the end. */
        exact = malloc(size + 1);
        assert_non_null(exact);
        memcpy(exact + 1, bytes, size);
        assert_true(checksum_crc64nvme(0, exact + 1, size) == crc64nvme_table(0, bytes, size));
        free(exact);
    }
    free(bytes);
}

static void all_ways_to_crc64nvme_agree_over_a_megabyte(void **state) {
    size_t size = (1 << 20) + 77;
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    fill(bytes, size);
    uint64_t expected = crc64nvme_bitwise(0, bytes, size);
    assert_true(crc64nvme_table(0, bytes, size) == expected);
    if (crc64nvme_has_pclmul()) assert_true(crc64nvme_pclmul(0, bytes, size) == expected);
    if (crc64nvme_has_vpclmul()) assert_true(crc64nvme_vpclmul(0, bytes, size) == expected);
    free(bytes);
}

static void the_crc_of_an_object_follows_from_those_of_its_parts(void **state) {
    uint8_t bytes[5000];
    fill(bytes, sizeof(bytes));
    uint64_t whole = checksum_crc64nvme(0, bytes, sizeof(bytes));
    for (size_t cut = 0; cut <= sizeof(bytes); cut += 13) {
        uint64_t a = checksum_crc64nvme(0, bytes, cut);
        uint64_t b = checksum_crc64nvme(0, bytes + cut, sizeof(bytes) - cut);
        assert_true(checksum_crc64nvme_combine(a, b, sizeof(bytes) - cut) == whole);
    }
    /* Sizes beyond any buffer: combining is associative. */
    uint64_t a = 1, b = 2, c = 3, size_b = 5ull << 40, size_c = (1ull << 50) + 3;
    uint64_t left = checksum_crc64nvme_combine(checksum_crc64nvme_combine(a, b, size_b), c, size_c);
    uint64_t right =
        checksum_crc64nvme_combine(a, checksum_crc64nvme_combine(b, c, size_c), size_b + size_c);
    assert_true(left == right);
}

static void expect_digest(struct digest *digest, enum digest_kind kind, const char *hex) {
    uint8_t out[DIGEST_MAX_SIZE];
    char text[2 * DIGEST_MAX_SIZE + 1];
    size_t size = digest_final(digest, kind, out);
    assert_int_equal(size, digest_size(kind));
    hex_encode(out, size, text);
    assert_string_equal(text, hex);
}

static void one_stream_feeds_several_digests(void **state) {
    struct digest *digest = NULL;
    unsigned all =
        DIGEST_MD5 | DIGEST_SHA1 | DIGEST_SHA256 | DIGEST_CRC32 | DIGEST_CRC32C | DIGEST_CRC64NVME;
    assert_int_equal(digest_create(all, &digest), 0);
    digest_update(digest, check, 4);
    digest_update(digest, check, 0);
    digest_update(digest, check + 4, 5);
    expect_digest(digest, DIGEST_MD5, "25f9e794323b453885f5181f1b624d0b");
    expect_digest(digest, DIGEST_SHA1, "f7c3bc1d808e04732adf679965ccc34ca7ae3441");
    expect_digest(digest, DIGEST_SHA256,
                  "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225");
    expect_digest(digest, DIGEST_CRC32, "cbf43926");
    expect_digest(digest, DIGEST_CRC32C, "e3069283");
    expect_digest(digest, DIGEST_CRC64NVME, "ae8b14860a799888");
    digest_destroy(&digest);
    assert_null(digest);
}

static void a_digest_of_nothing_is_that_of_the_empty_string(void **state) {
    struct digest *digest = NULL;
    assert_int_equal(digest_create(DIGEST_MD5 | DIGEST_CRC32, &digest), 0);
    expect_digest(digest, DIGEST_MD5, "d41d8cd98f00b204e9800998ecf8427e");
    expect_digest(digest, DIGEST_CRC32, "00000000");
    digest_destroy(&digest);
    digest_destroy(&digest); /* of nothing: allowed */
}

static void sha256_in_pieces_equals_sha256_at_once(void **state) {
    uint8_t bytes[1000], whole[SHA256_SIZE], pieces[SHA256_SIZE];
    fill(bytes, sizeof(bytes));
    sha256(bytes, sizeof(bytes), whole);
    struct sha256_stream stream;
    sha256_init(&stream);
    for (size_t i = 0; i < sizeof(bytes); i += 125) sha256_update(&stream, bytes + i, 125);
    sha256_final(&stream, pieces);
    assert_memory_equal(whole, pieces, SHA256_SIZE);
}

static void expect_hmac(const void *secret, size_t secret_size, const void *data, size_t size,
                        const char *hex) {
    struct hmac_key key;
    uint8_t out[SHA256_SIZE];
    char text[2 * SHA256_SIZE + 1];
    hmac_key_init(&key, secret, secret_size);
    for (int again = 0; again < 2; again++) { /* a key may be used many times */
        hmac_sha256(&key, data, size, out);
        hex_encode(out, sizeof(out), text);
        assert_string_equal(text, hex);
    }
}

static void hmac_matches_rfc_4231(void **state) {
    uint8_t key[131], data[50];
    memset(key, 0x0b, 20);
    expect_hmac(key, 20, "Hi There", 8,
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    expect_hmac("Jefe", 4, "what do ya want for nothing?", 28,
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof(key));
    memset(data, 0xdd, sizeof(data));
    expect_hmac(key, 20, data, 50,
                "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    const char *long_key = "Test Using Larger Than Block-Size Key - Hash Key First";
    expect_hmac(key, 131, long_key, strlen(long_key),
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void secrets_compare_equal_only_when_all_bytes_are(void **state) {
    assert_true(constant_time_equal("abcdef", "abcdef", 6));
    assert_false(constant_time_equal("abcdef", "abcdeg", 6));
    assert_false(constant_time_equal("xbcdef", "abcdef", 6));
    assert_true(constant_time_equal("a", "b", 0));
}

static void random_bytes_fill_the_whole_buffer(void **state) {
    uint8_t a[64] = {0}, b[64] = {0}, zero[16] = {0};
    random_bytes(a, sizeof(a));
    random_bytes(b, sizeof(b));
    assert_memory_not_equal(a, b, sizeof(a));
    for (size_t i = 0; i < sizeof(a); i += 16) assert_memory_not_equal(a + i, zero, 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crcs_match_their_published_check_values),
        cmocka_unit_test(crcs_match_the_vectors_of_their_standards),
        cmocka_unit_test(nothing_changes_nothing),
        cmocka_unit_test(crcs_continue_over_pieces),
        cmocka_unit_test(all_ways_to_crc64nvme_agree_at_every_length_and_alignment),
        cmocka_unit_test(all_ways_to_crc64nvme_agree_over_a_megabyte),
        cmocka_unit_test(the_crc_of_an_object_follows_from_those_of_its_parts),
        cmocka_unit_test(one_stream_feeds_several_digests),
        cmocka_unit_test(a_digest_of_nothing_is_that_of_the_empty_string),
        cmocka_unit_test(sha256_in_pieces_equals_sha256_at_once),
        cmocka_unit_test(hmac_matches_rfc_4231),
        cmocka_unit_test(secrets_compare_equal_only_when_all_bytes_are),
        cmocka_unit_test(random_bytes_fill_the_whole_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
