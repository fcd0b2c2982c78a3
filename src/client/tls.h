/* TLS for https endpoints, by OpenSSL: the peer's certificate is verified against the system's
 * authorities (or SSL_CERT_FILE) and the endpoint's name, always. */
#ifndef PENSTOCK_CLIENT_TLS_H
#define PENSTOCK_CLIENT_TLS_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Above a connected socket, which stays the caller's. False with a sentence. */
bool tls_open(int fd, const char *host, SSL **tls, char reason[160]);
void tls_close(SSL **tls); /* nulls; NULL is fine */
/* As connection_send() and connection_receive(): bytes, 0 at the end, or a negative errno. */
ssize_t tls_send(SSL *tls, const void *data, size_t size);
ssize_t tls_receive(SSL *tls, void *data, size_t size);

#endif
