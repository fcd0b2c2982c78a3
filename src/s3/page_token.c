/* Continuation tokens. */
#include "s3/page_token.h"

#include "base/encode.h"
#include "base/error.h"

#define CHECK_SIZE    4u
#define NAME_MAX_SIZE OBJECT_KEY_MAX
#define TOKEN_MAX     (BASE64_SIZE(CHECK_SIZE + NAME_MAX_SIZE))

static void put_check(struct slice after, uint8_t out[CHECK_SIZE]) {
    uint32_t crc = checksum_crc32c(0, after.data, after.size);
    for (unsigned i = 0; i < CHECK_SIZE; i++) out[i] = (uint8_t)(crc >> 8 * i);
}

void page_token_append(struct text *out, struct slice after) {
    uint8_t raw[CHECK_SIZE + NAME_MAX_SIZE];
    char token[TOKEN_MAX];
    if (after.size > NAME_MAX_SIZE) {
        out->failed = true;
        return;
    }
    put_check(after, raw);
    if (after.size) memcpy(raw + CHECK_SIZE, after.data, after.size);
    base64_encode(raw, CHECK_SIZE + after.size, token);
    size_t size = strcspn(token, "=");
    for (size_t i = 0; i < size; i++) {
        if (token[i] == '+') token[i] = '-';
        if (token[i] == '/') token[i] = '_';
    }
    text_append(out, token, size);
}

int page_token_decode(struct slice token, struct text *out) {
    char padded[TOKEN_MAX + 4];
    uint8_t raw[CHECK_SIZE + NAME_MAX_SIZE], check[CHECK_SIZE];
    if (token.size >= TOKEN_MAX) return ERR_INVALID_ARGUMENT;
    size_t size = 0;
    for (; size < token.size; size++) {
        char c = token.data[size];
        if (c == '+' || c == '/') return ERR_INVALID_ARGUMENT;
        padded[size] = (char)(c == '-' ? '+' : c == '_' ? '/' : c);
    }
    while (size % 4) padded[size++] = '=';
    ssize_t raw_size = base64_decode((struct slice){padded, size}, raw, sizeof raw);
    if (raw_size < (ssize_t)CHECK_SIZE) return ERR_INVALID_ARGUMENT;
    struct slice after = {(const char *)raw + CHECK_SIZE, (size_t)raw_size - CHECK_SIZE};
    put_check(after, check);
    if (memcmp(check, raw, CHECK_SIZE) != 0) return ERR_INVALID_ARGUMENT;
    text_append_slice(out, after);
    return out->failed ? -ENOMEM : 0;
}

int page_token_parameter(struct s3_request *req, const char *name, struct text *out) {
    struct slice token = request_parameter(req, name);
    if (!token.size) return 0;
    int err = page_token_decode(token, out);
    if (err != ERR_INVALID_ARGUMENT) return err;
    return request_invalid_argument(req, name, token,
                                    "The continuation token provided is incorrect");
}
