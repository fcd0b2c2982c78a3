/* Tokens from a hostile client: any text is parsed or refused with a reason, and what is accepted
 * keeps the promises that transfers rely on. */
#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transfer/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Our own form has exactly one spelling. */
static void check_shm(const struct token *token, struct slice text) {
    char again[TOKEN_SHM_SIZE + 1];
    snprintf(again, sizeof(again), "shm1:%016llx:%016llx:%016llx:%016llx",
             (unsigned long long)token->session, (unsigned long long)token->region,
             (unsigned long long)token->address, (unsigned long long)token->size);
    assert(slice_is(text, again));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* A copy of the exact size, so that a sanitizer sees one byte too far. */
    char *copy = malloc(size ? size : 1);
    if (!copy) return 0;
    memcpy(copy, data, size);
    struct slice text = {copy, size};
    struct token token;
    const char *detail;
    int err = token_parse(text, &token, &detail);
    if (err) {
        assert(err == ERR_INVALID_RDMA_TOKEN && detail && detail[0]);
    } else {
        assert(!detail && token.size > 0 && token.address + token.size > token.address);
        assert(size <= TOKEN_SIZE_MAX);
        if (token.form == TOKEN_SHM) check_shm(&token, text);
    }
    free(copy);
    return 0;
}
