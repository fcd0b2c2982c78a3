/* The naming rules of general-purpose buckets. A name must be usable as one or more DNS labels. */
#include "object/object.h"

#define BUCKET_NAME_MIN 3

static bool is_letter_or_digit(char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool looks_like_ipv4(struct slice name) {
    unsigned dots = 0;
    for (size_t i = 0; i < name.size; i++) {
        if (name.data[i] == '.')
            dots++;
        else if (name.data[i] < '0' || name.data[i] > '9')
            return false;
    }
    return dots == 3;
}

static bool ends_with(struct slice name, struct slice suffix) {
    return name.size >= suffix.size &&
           !memcmp(name.data + name.size - suffix.size, suffix.data, suffix.size);
}

/* What S3 keeps for access points, directory buckets and the like. */
static bool is_reserved(struct slice name) {
    static const char *const prefixes[] = {"xn--", "sthree-", "amzn-s3-demo-"};
    static const char *const suffixes[] = {"-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"};
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        if (slice_starts_with(name, slice_of(prefixes[i]))) return true;
    for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
        if (ends_with(name, slice_of(suffixes[i]))) return true;
    return false;
}

bool bucket_name_valid(struct slice name) {
    if (name.size < BUCKET_NAME_MIN || name.size > BUCKET_NAME_MAX) return false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        if (!is_letter_or_digit(c) && c != '-' && c != '.') return false;
        if (c == '.' && i > 0 && name.data[i - 1] == '.') return false;
    }
    return is_letter_or_digit(name.data[0]) && is_letter_or_digit(name.data[name.size - 1]) &&
           !looks_like_ipv4(name) && !is_reserved(name);
}
