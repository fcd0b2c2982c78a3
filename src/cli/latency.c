/* A log-linear histogram: the power of two, and 32 steps inside it. */
#include "cli/bench.h"

static unsigned bucket_of(uint64_t ns) {
    if (ns < 32) return (unsigned)ns;
    unsigned power = 63 - (unsigned)__builtin_clzll(ns);
    return (power - 4) * 32 + (unsigned)((ns >> (power - 5)) & 31);
}

/* The middle of a bucket's range. */
static double bucket_ns(unsigned bucket) {
    if (bucket < 32) return bucket;
    unsigned power = bucket / 32 + 4;
    double width = (double)(1ull << (power - 5));
    return (double)(1ull << power) + ((double)(bucket % 32) + 0.5) * width;
}

void latency_add(struct latency *latency, uint64_t ns) {
    latency->counts[bucket_of(ns)]++;
    latency->total++;
}

void latency_merge(struct latency *into, const struct latency *from) {
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) into->counts[i] += from->counts[i];
    into->total += from->total;
}

double latency_percentile_ms(const struct latency *latency, double percent) {
    uint64_t wanted = (uint64_t)((double)latency->total * percent / 100.0);
    uint64_t seen = 0;
    for (unsigned i = 0; i < LATENCY_BUCKETS; i++) {
        seen += latency->counts[i];
        if (seen > wanted) return bucket_ns(i) / 1e6;
    }
    return 0;
}
