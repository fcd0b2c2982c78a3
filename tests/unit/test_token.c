/* Tokens: the forms that clients send, field by field, and what is said about a wrong one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "transfer/token.h"

#define SHM "shm1:0102030405060708:1112131415161718:0000000000001000:0000000000200000"
#define DC  "0102030405060708:01020304:01020304:0102:010203:1:0102030405060708090a0b0c0d0e0f10"
/* transport, qpn, gid, rkey, addr, length, port, lid: little-endian */
#define HIP                                                                                        \
    "01"                                                                                           \
    "03020100"                                                                                     \
    "0102030405060708090a0b0c0d0e0f10"                                                             \
    "04030201"                                                                                     \
    "0807060504030201"                                                                             \
    "0000100000000000"                                                                             \
    "01"                                                                                           \
    "0201"
#define OFI "7f0000001000:40000:ofi1:tcp;ofi_rxm:0200a1b2:0011223344556677"
#define RC  "rc:conn-7:7f0000001000:40000:1a2b"

static int parse(const char *text, struct token *token, const char **detail) {
    return token_parse(slice_of(text), token, detail);
}

static struct token parsed(const char *text) {
    struct token token;
    const char *detail;
    int err = parse(text, &token, &detail);
    if (err) fail_msg("%s: %s", text, detail);
    assert_null(detail);
    return token;
}

static void assert_wrong(const char *text, const char *field) {
    struct token token;
    const char *detail = NULL;
    assert_int_equal(parse(text, &token, &detail), ERR_INVALID_RDMA_TOKEN);
    assert_non_null(detail);
    if (strncmp(detail, field, strlen(field))) fail_msg("%s: %s, not %s", text, detail, field);
}

static void our_form_has_four_fields(void **state) {
    struct token token = parsed(SHM);
    assert_int_equal(strlen(SHM), TOKEN_SHM_SIZE);
    assert_int_equal(token.form, TOKEN_SHM);
    assert_int_equal(token.session, 0x0102030405060708);
    assert_int_equal(token.region, 0x1112131415161718);
    assert_int_equal(token.address, 0x1000);
    assert_int_equal(token.size, 0x200000);
}

static void our_form_spans_whole_numbers_and_no_more(void **state) {
    char text[128];
    const char *format = "shm1:0000000000000000:ffffffffffffffff:%016llx:%016llx";
    snprintf(text, sizeof(text), format, 0xffffffffffff0000ull, 0xffffull);
    assert_int_equal(parsed(text).size, 0xffff);
    snprintf(text, sizeof(text), format, 0xffffffffffff0000ull, 0x10000ull);
    assert_wrong(text, "length");
    snprintf(text, sizeof(text), format, 0x1000ull, 0ull);
    assert_wrong(text, "length");
}

/* Each character of the golden token, changed: a digit may become another digit and nothing else,
 * and the complaint names the field that the character stands in. */
static void every_character_of_our_form_is_checked(void **state) {
    static const char bad[] = {'g', 'G', 'A', 'F', ' ', ':', '-', '+', '\n', '\x7f', '\xff'};
    static const char *const fields[] = {"session", "region", "offset", "length"};
    for (size_t at = 4; at < TOKEN_SHM_SIZE; at++) {
        for (size_t i = 0; i < sizeof(bad); i++) {
            char text[] = SHM;
            if (text[at] == bad[i]) continue;
            text[at] = bad[i];
            assert_wrong(text, fields[(at - 4) / 17]);
        }
    }
    char next_version[] = SHM;
    next_version[3] = '2';
    assert_wrong(next_version, "form");
}

static void our_form_has_one_length(void **state) {
    char text[TOKEN_SHM_SIZE + 1];
    for (size_t size = 0; size < TOKEN_SHM_SIZE; size++) {
        memcpy(text, SHM, size);
        text[size] = '\0';
        struct token token;
        const char *detail;
        assert_int_equal(parse(text, &token, &detail), ERR_INVALID_RDMA_TOKEN);
        assert_non_null(detail);
    }
    assert_wrong(SHM "0", "form");
    assert_wrong(SHM ":", "form");
}

static void dc_descriptor_is_81_characters(void **state) {
    static const uint8_t gid[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    struct token token = parsed(DC);
    assert_int_equal(strlen(DC), 81);
    assert_int_equal(token.form, TOKEN_DC);
    assert_int_equal(token.address, 0x0102030405060708);
    assert_int_equal(token.size, 0x01020304);
    assert_int_equal(token.rkey, 0x01020304);
    assert_int_equal(token.lid, 0x0102);
    assert_int_equal(token.queue, 0x010203);
    assert_true(token.has_gid);
    assert_memory_equal(token.gid, gid, sizeof(gid));
}

static void dc_suffix_must_agree(void **state) {
    parsed(DC ":0102030405060708:0000000001020304");
    parsed(DC ":0102030405060708:0000000001020304;");
    assert_wrong(DC ":0102030405060709:0000000001020304", "suffix address");
    assert_wrong(DC ":0102030405060708:0000000001020305", "suffix size");
    assert_wrong(DC ":0102030405060708:0000000001020304;;", "form");
    assert_wrong(DC ";", "suffix");
}

static void dc_fields_are_named(void **state) {
    static const struct {
        size_t at;
        const char *field;
    } places[] = {{0, "address"}, {15, "address"},  {17, "size"}, {26, "rkey"}, {35, "lid"},
                  {40, "dctn"},   {47, "gid flag"}, {49, "gid"},  {80, "gid"}};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        char text[] = DC;
        text[places[i].at] = 'X';
        assert_wrong(text, places[i].field);
    }
    char two[] = DC;
    two[47] = '2';
    assert_wrong(two, "gid flag");
    char empty[] = DC;
    memcpy(empty + 17, "00000000", 8);
    assert_wrong(empty, "length");
}

static void hip_descriptor_is_44_bytes(void **state) {
    struct token token = parsed(HIP);
    assert_int_equal(strlen(HIP), 88);
    assert_int_equal(token.form, TOKEN_HIP);
    assert_true(token.connected);
    assert_int_equal(token.queue, 0x010203);
    assert_int_equal(token.rkey, 0x01020304);
    assert_int_equal(token.address, 0x0102030405060708);
    assert_int_equal(token.size, 0x100000);
    assert_int_equal(token.port, 1);
    assert_int_equal(token.lid, 0x0102);
}

static void hip_override_is_used_unless_zero(void **state) {
    struct token token = parsed(HIP ":0000000000002000:0000000000000000");
    assert_int_equal(token.address, 0x2000);
    assert_int_equal(token.size, 0x100000);
    token = parsed(HIP ":0000000000000000:0000000000000010");
    assert_int_equal(token.address, 0x0102030405060708);
    assert_int_equal(token.size, 0x10);
    assert_wrong(HIP ":ffffffffffffffff:0000000000000010", "length");
    assert_wrong(HIP ":0000000000000000:000000000000001", "override length");
    char other[] = HIP;
    other[1] = '2';
    assert_wrong(other, "transport");
}

static void other_servers_forms_are_known(void **state) {
    struct token token = parsed(RC);
    assert_int_equal(token.form, TOKEN_RC_SHIM);
    assert_int_equal(token.address, 0x7f0000001000);
    assert_int_equal(token.size, 0x40000);
    assert_int_equal(token.rkey, 0x1a2b);
    assert_int_equal(parsed(OFI).form, TOKEN_LIBFABRIC);
    assert_int_equal(parsed(OFI).size, 0x40000);
    assert_wrong("rc::7f0000001000:40000:1a2b", "connection");
    assert_wrong("rc:a b:7f0000001000:40000:1a2b", "connection");
    assert_wrong("rc:a:7f0000001000:0:1a2b", "length");
    assert_wrong("rc:a:7f0000001000:10:1a2b1a2b1", "rkey");
    assert_wrong("zz:40000:ofi1:tcp:02:00", "base");
    assert_wrong("10:40000:ofi1:tcp:020:00", "endpoint");
    assert_wrong("10:40000:ofi1:tcp:02:0", "key");
}

static void anything_else_is_no_token(void **state) {
    char long_one[TOKEN_SIZE_MAX + 2];
    memset(long_one, 'a', sizeof(long_one));
    long_one[sizeof(long_one) - 1] = '\0';
    assert_wrong("", "form");
    assert_wrong("hello", "form");
    assert_wrong(long_one, "form");
    const struct slice zeros = {"shm1:\0\0\0\0", 9};
    struct token token;
    const char *detail;
    assert_int_equal(token_parse(zeros, &token, &detail), ERR_INVALID_RDMA_TOKEN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_form_has_four_fields),
        cmocka_unit_test(our_form_spans_whole_numbers_and_no_more),
        cmocka_unit_test(every_character_of_our_form_is_checked),
        cmocka_unit_test(our_form_has_one_length),
        cmocka_unit_test(dc_descriptor_is_81_characters),
        cmocka_unit_test(dc_suffix_must_agree),
        cmocka_unit_test(dc_fields_are_named),
        cmocka_unit_test(hip_descriptor_is_44_bytes),
        cmocka_unit_test(hip_override_is_used_unless_zero),
        cmocka_unit_test(other_servers_forms_are_known),
        cmocka_unit_test(anything_else_is_no_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
