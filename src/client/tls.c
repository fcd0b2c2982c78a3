/* OpenSSL's own socket BIO writes without MSG_NOSIGNAL, and a library must not let its host die of
 * SIGPIPE: so the BIO is ours. */
#include "client/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static SSL_CTX *context;
static BIO_METHOD *socket_method;

/* ---- the socket below */

static int fd_of(BIO *bio) {
    return (int)(intptr_t)BIO_get_data(bio);
}

static int socket_write(BIO *bio, const char *data, int size) {
    ssize_t sent;
    do {
        sent = send(fd_of(bio), data, (size_t)size, MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return (int)sent;
}

static int socket_read(BIO *bio, char *data, int size) {
    ssize_t got;
    do {
        got = recv(fd_of(bio), data, (size_t)size, 0);
    } while (got < 0 && errno == EINTR);
    return (int)got;
}

static long socket_control(BIO *bio, int command, long number, void *pointer) {
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static void begin(void) {
    context = SSL_CTX_new(TLS_client_method());
    socket_method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "penstock socket");
    if (!context || !socket_method) return;
    BIO_meth_set_write(socket_method, socket_write);
    BIO_meth_set_read(socket_method, socket_read);
    BIO_meth_set_ctrl(socket_method, socket_control);
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_default_verify_paths(context);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
}

/* ---- opening */

static bool fail(SSL **tls, const char *what, char reason[160]) {
    long verified = *tls ? SSL_get_verify_result(*tls) : X509_V_OK;
    unsigned long code = ERR_get_error();
    snprintf(reason, 160, "%s: %s", what,
             verified != X509_V_OK ? X509_verify_cert_error_string(verified)
             : code                ? ERR_reason_error_string(code)
                                   : "the connection was closed");
    SSL_free(*tls);
    *tls = NULL;
    return false;
}

/* The name that the certificate must be for; a literal address is matched as one. */
static bool expect_host(SSL *tls, const char *host) {
    unsigned char address[16];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(tls), host);
    return SSL_set_tlsext_host_name(tls, host) && SSL_set1_host(tls, host);
}

bool tls_open(int fd, const char *host, SSL **tls, char reason[160]) {
    pthread_once(&once, begin);
    ERR_clear_error();
    *tls = context && socket_method ? SSL_new(context) : NULL;
    BIO *bio = *tls ? BIO_new(socket_method) : NULL;
    if (!bio || !expect_host(*tls, host)) {
        BIO_free(bio);
        return fail(tls, "no session", reason);
    }
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(*tls, bio, bio);
    return SSL_connect(*tls) == 1 || fail(tls, "handshake", reason);
}

void tls_close(SSL **tls) {
    if (!*tls) return;
    SSL_shutdown(*tls);
    SSL_free(*tls);
    *tls = NULL;
}

/* ---- bytes */

static ssize_t tls_error(SSL *tls, int done) {
    int saved = errno, kind = SSL_get_error(tls, done);
    ERR_clear_error();
    if (kind == SSL_ERROR_ZERO_RETURN) return 0;
    if (kind != SSL_ERROR_SYSCALL) return -EPROTO;
    return saved == EAGAIN || saved == EWOULDBLOCK ? -ETIMEDOUT : saved ? -saved : 0;
}

static int at_most(size_t size) {
    return size > (1u << 30) ? 1 << 30 : (int)size;
}

ssize_t tls_send(SSL *tls, const void *data, size_t size) {
    errno = 0;
    int sent = SSL_write(tls, data, at_most(size));
    if (sent > 0) return sent;
    ssize_t err = tls_error(tls, sent);
    return err ? err : -EPIPE;
}

ssize_t tls_receive(SSL *tls, void *data, size_t size) {
    errno = 0;
    int got = SSL_read(tls, data, at_most(size));
    return got > 0 ? got : tls_error(tls, got);
}
