/* What a request is about, from its target and Host: bucket, key, and the parameters of the query,
 * all percent-decoded. Pure functions over bytes: no request, no store. */
#ifndef PENSTOCK_S3_URI_H
#define PENSTOCK_S3_URI_H

#include <stdint.h>

#include "object/object.h"

#define URI_PARAMETERS_MAX 64
#define URI_QUERY_MEMORY   512 /* queries up to this size are decoded without an allocation */
#define URI_BUCKET_MEMORY  256 /* longer ones are no bucket names */

struct s3_parameter {
    struct slice name, value; /* value is empty, but not NULL, for `name` and `name=` */
};

struct s3_target {
    struct slice path;   /* as sent, for the signature: without scheme and host */
    struct slice bucket; /* empty: the service itself */
    struct slice key;    /* empty: the bucket itself */
    struct slice system; /* NAME of /.penstock/NAME; data is NULL otherwise */
    struct s3_parameter parameters[URI_PARAMETERS_MAX];
    unsigned parameter_count;

    char bucket_memory[URI_BUCKET_MEMORY];
    char key_memory[OBJECT_KEY_MAX];
    char query_memory[URI_QUERY_MEMORY];
    char *query_heap; /* NULL while query_memory is enough */
};

/* domain: for virtual-host addressing, or NULL. target must be zeroed. Errors: ERR_INVALID_URI,
 * ERR_KEY_TOO_LONG, ERR_INVALID_BUCKET_NAME (cannot be one: the rules are object/'s), -ENOMEM. */
int target_parse(struct s3_target *target, struct slice path, struct slice query, struct slice host,
                 const char *domain);
void target_deinit(struct s3_target *target);
/* data is NULL when absent. The first of several wins. */
struct slice target_parameter(const struct s3_target *target, const char *name);

#endif
