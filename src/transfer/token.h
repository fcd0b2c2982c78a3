/* Tokens: the text in x-amz-rdma-token that says where a client's memory is. Parsed here in full,
 * with every field bounded; what the fields mean is up to the kind that serves the form. */
#ifndef PENSTOCK_TRANSFER_TOKEN_H
#define PENSTOCK_TRANSFER_TOKEN_H

#include <stdint.h>

#include "base/slice.h"

#define TOKEN_SIZE_MAX 2048 /* the longest form, libfabric's, stays well below */
#define TOKEN_SHM_SIZE 72   /* "shm1" and four fields of 16 digits, with a colon before each */

enum token_form {
    TOKEN_SHM,      /* ours: memory that this server has mapped */
    TOKEN_DC,       /* 81, 115 or 116 characters */
    TOKEN_HIP,      /* 88 or 122 characters; DC or RC */
    TOKEN_RC_SHIM,  /* rc:<connection>:<addr>:<size>:<rkey> */
    TOKEN_LIBFABRIC /* <base>:<size>:ofi1:<provider>:<endpoint>:<key> */
};

struct token {
    enum token_form form;
    uint64_t session, region; /* TOKEN_SHM */
    uint64_t address;         /* of the memory; for TOKEN_SHM its offset in the region */
    uint64_t size;            /* bytes, never 0; address + size does not overflow */
    uint32_t rkey;            /* TOKEN_DC, TOKEN_HIP, TOKEN_RC_SHIM */
    uint32_t queue;           /* DC target or queue pair number */
    uint16_t lid;
    uint8_t port;   /* TOKEN_HIP */
    bool connected; /* TOKEN_HIP: RC rather than DC */
    bool has_gid;
    uint8_t gid[16];
};

/* 0, or ERR_INVALID_RDMA_TOKEN with *detail (static text) naming the field that is wrong. */
int token_parse(struct slice text, struct token *token, const char **detail);

#endif
