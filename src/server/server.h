/* The server process: settings in, a running store out. The only layer that names concrete engines.
 */
#ifndef PENSTOCK_SERVER_SERVER_H
#define PENSTOCK_SERVER_SERVER_H

#include "server/config.h"

/* Serve until SIGTERM or SIGINT, then drain. Returns the exit code: 0, or 1 after one line on
 * stderr. Prints "penstock: ready http://HOST:PORT" on stdout when requests are accepted. */
int server_run(const struct server_config *config);

/* Check a store that no server has open. Findings go to stdout, one a line. Returns the exit code:
 * 0 clean, 1 findings or failure. */
int server_fsck(const struct server_config *config, bool verify_data);

#endif
