/* What the server tells about itself under /.penstock/: stats as JSON. */
#ifndef PENSTOCK_SERVER_ADMIN_H
#define PENSTOCK_SERVER_ADMIN_H

#include "s3/s3.h"

/* Everything that counts something; borrowed for the life of the server. */
struct admin {
    struct runtime *runtime;
    struct pool *pool;
    struct cache *cache;
    struct meta *meta;
    struct blob_store *blobs;
    struct transfer_service *transfers;
    struct s3_service *s3;
    struct http_server *http;
};

int admin_handle(void *admin, enum http_method method, struct slice name,
                 const struct identity *identity, struct text *out); /* an s3_admin_fn */

#endif
