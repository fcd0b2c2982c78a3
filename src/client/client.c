/* Opening and closing a client; results. */
#include "client/connection.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *first_of(const char *given, const char *ours, const char *theirs) {
    if (given && *given) return given;
    const char *value = getenv(ours);
    if (value && *value) return value;
    return theirs ? getenv(theirs) : NULL;
}

/* "host", "host:port" or "[address]:port", as in a URL. */
static bool parse_host(ps_client *client, const char *host) {
    bool bracketed = *host == '[';
    const char *end = bracketed ? strchr(host, ']') : host + strcspn(host, ":");
    if (!end) return false;
    const char *rest = end + bracketed;
    const char *port = *rest == ':' ? rest + 1 : client->secure ? "443" : "80";
    size_t size = (size_t)(end - host) - bracketed;
    if ((*rest && *rest != ':') || !size || size >= sizeof(client->address)) return false;
    if (!*port || strlen(port) > 5 || strspn(port, "0123456789") != strlen(port)) return false;
    memcpy(client->address, host + bracketed, size);
    client->address[size] = '\0';
    strcpy(client->port, port);
    return true;
}

/* "http://host:port/" -> endpoint without the slash, and what the Host header must say. */
static bool parse_endpoint(ps_client *client, const char *endpoint) {
    client->secure = !strncmp(endpoint, "https://", 8);
    if (!client->secure && strncmp(endpoint, "http://", 7)) return false;
    if (strlen(endpoint) >= sizeof(client->endpoint)) return false;
    strcpy(client->endpoint, endpoint);
    char *host = client->endpoint + (client->secure ? 8 : 7);
    for (size_t size = strlen(host); size && host[size - 1] == '/';) host[--size] = '\0';
    if (strchr(host, '/') || strlen(host) >= sizeof(client->host)) return false;
    strcpy(client->host, host);
    return parse_host(client, host);
}

static int configure(ps_client *client, const ps_options *options, ps_result *result) {
    const char *endpoint = first_of(options->endpoint, "PENSTOCK_ENDPOINT", "AWS_ENDPOINT_URL");
    const char *access = first_of(options->access_key, "PENSTOCK_ACCESS_KEY", "AWS_ACCESS_KEY_ID");
    const char *secret =
        first_of(options->secret_key, "PENSTOCK_SECRET_KEY", "AWS_SECRET_ACCESS_KEY");
    const char *region = first_of(options->region, "AWS_REGION", "AWS_DEFAULT_REGION");
    if (!endpoint)
        return result_fail(result, PS_ERR_ARGUMENT,
                           "no endpoint: set PENSTOCK_ENDPOINT to http://host:port");
    if (!parse_endpoint(client, endpoint))
        return result_fail(result, PS_ERR_ARGUMENT, "endpoint '%.200s' is not http://host:port",
                           endpoint);
    if (!access || !secret || strlen(access) > ACCESS_KEY_MAX || strlen(secret) > SECRET_KEY_MAX)
        return result_fail(result, PS_ERR_ARGUMENT,
                           "no keys: set PENSTOCK_ACCESS_KEY and PENSTOCK_SECRET_KEY");
    if (region && strlen(region) >= sizeof(client->region))
        return result_fail(result, PS_ERR_ARGUMENT, "the region's name is too long");
    if (options->parallel > CLIENT_PARALLEL_MAX)
        return result_fail(result, PS_ERR_ARGUMENT, "parallel: at most %d", CLIENT_PARALLEL_MAX);
    if (options->part_size && options->part_size < CLIENT_PART_MIN)
        return result_fail(result, PS_ERR_ARGUMENT, "part_size: at least 5 MiB");
    strcpy(client->identity.access_key, access);
    strcpy(client->identity.secret_key, secret);
    strcpy(client->region, region ? region : "us-east-1");
    client->via = options->via;
    client->timeout_ms = options->timeout_ms ? options->timeout_ms : 30000;
    client->parallel = options->parallel ? options->parallel : 4;
    client->part_size = options->part_size ? options->part_size : CLIENT_PART_DEFAULT;
    client->file_chunk = options->part_size ? options->part_size : CLIENT_FILE_CHUNK;
    return 0;
}

PS_API int ps_open(const ps_options *options, ps_client **out, ps_result *given) {
    ps_result own, *result = result_begin(given, &own);
    ps_client *client = calloc(1, sizeof(*client));
    if (!client) return result_fail(result, PS_ERR_MEMORY, "out of memory");
    static const ps_options defaults;
    int err = configure(client, options ? options : &defaults, result);
    if (err) {
        free(client);
        return err;
    }
    pthread_mutex_init(&client->lock, NULL);
    session_init(&client->session);
    *out = client;
    return 0;
}

PS_API void ps_close(ps_client **client) {
    if (!client || !*client) return;
    while ((*client)->spare) {
        ps_buffer *buffer = (*client)->spare;
        (*client)->spare = buffer->next;
        ps_buffer_free(&buffer);
    }
    connections_close(*client);
    session_deinit(&(*client)->session);
    pthread_mutex_destroy(&(*client)->lock);
    free(*client);
    *client = NULL;
}

ps_result *result_begin(ps_result *result, ps_result *own) {
    ps_result *used = result ? result : own;
    memset(used, 0, sizeof(*used));
    return used;
}

int result_fail(ps_result *result, int err, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(result->message, sizeof(result->message), format, arguments);
    va_end(arguments);
    return err;
}

PS_API const char *ps_error_text(int code) {
    switch (code) {
    case PS_OK: return "done";
    case PS_ERR_ARGUMENT: return "wrong argument";
    case PS_ERR_MEMORY: return "out of memory";
    case PS_ERR_CONNECT: return "the endpoint cannot be reached";
    case PS_ERR_PROTOCOL: return "the answer is not S3";
    case PS_ERR_S3: return "the server refused";
    case PS_ERR_CHECKSUM: return "the bytes arrived damaged";
    case PS_ERR_TRANSFER: return "one-sided transfer is not possible";
    case PS_ERR_TOO_SMALL: return "the buffer is too small";
    case PS_ERR_IO: return "file error";
    default: return "unknown error";
    }
}

#define TEXT_OF(number) #number
#define VERSION(ma, mi) TEXT_OF(ma) "." TEXT_OF(mi) ".0"

PS_API const char *ps_version(void) {
    return VERSION(PS_VERSION_MAJOR, PS_VERSION_MINOR);
}
