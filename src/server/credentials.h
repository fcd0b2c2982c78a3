/* The root key pair: given, stored, or made on the first start. */
#ifndef PENSTOCK_SERVER_CREDENTIALS_H
#define PENSTOCK_SERVER_CREDENTIALS_H

#include "server/config.h"

/* Fills in config->access_key and secret_key: what was given; else what DIRECTORY/credentials says;
 * else a random pair, stored there with mode 0600 and printed once. One line on stderr and a
 * negative code on failure. */
int credentials_load(struct server_config *config, const char *directory);

#endif
