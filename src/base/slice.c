/* The parts of slice.h that are too long to inline. All of them treat bytes as ASCII and never
 * look at the locale. */
#include "base/slice.h"

#include <limits.h>

static unsigned char lower(char c) {
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

bool slice_equal_nocase(struct slice a, struct slice b) {
    if (a.size != b.size) return false;
    for (size_t i = 0; i < a.size; i++)
        if (lower(a.data[i]) != lower(b.data[i])) return false;
    return true;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

struct slice slice_trim(struct slice a) {
    while (a.size > 0 && is_blank(a.data[0])) {
        a.data++;
        a.size--;
    }
    while (a.size > 0 && is_blank(a.data[a.size - 1])) a.size--;
    return a;
}

bool slice_to_u64(struct slice a, unsigned long long *value) {
    unsigned long long sum = 0;
    if (a.size == 0) return false;
    for (size_t i = 0; i < a.size; i++) {
        if (a.data[i] < '0' || a.data[i] > '9') return false;
        unsigned digit = (unsigned)(a.data[i] - '0');
        if (sum > (ULLONG_MAX - digit) / 10) return false;
        sum = sum * 10 + digit;
    }
    *value = sum;
    return true;
}
