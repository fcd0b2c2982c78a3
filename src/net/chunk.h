/* Chunked transfer coding as a pure state machine: it eats framing and says where payload is; the
 * payload itself never passes through it. Extensions and trailers are read, limited and ignored. */
#ifndef PENSTOCK_NET_CHUNK_H
#define PENSTOCK_NET_CHUNK_H

#include <stddef.h>
#include <stdint.h>

enum chunk_result {
    CHUNK_MORE,    /* all input was framing, and more is needed */
    CHUNK_PAYLOAD, /* `remaining` bytes of payload come next: pass them with chunk_skip() */
    CHUNK_END,     /* the body is over; what follows is not ours */
    CHUNK_BAD
};

struct chunk_decoder {
    uint64_t remaining; /* payload bytes left in this chunk */
    uint32_t line;      /* bytes of the present line, or of all trailers */
    uint8_t state;
    uint8_t digits;
};

void chunk_init(struct chunk_decoder *decoder);
/* Eat framing from data; *eaten says how much. */
enum chunk_result chunk_decode(struct chunk_decoder *decoder, const char *data, size_t size,
                               size_t *eaten);
void chunk_skip(struct chunk_decoder *decoder, uint64_t size); /* size <= remaining */

#endif
