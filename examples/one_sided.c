#include <penstock.h>
#include <stdio.h>

int main(void) {
    ps_options options = {0}; /* endpoint and keys come from the environment */
    ps_client *client = NULL;
    ps_buffer *buffer = NULL;
    ps_result result;
    int err = ps_open(&options, &client, &result);
    if (!err) err = ps_buffer_alloc(client, 64 << 20, &buffer, &result);
    if (!err) {
        snprintf(ps_buffer_data(buffer), 64, "moved by one-sided transfer");
        err = ps_put(client, "example", "greeting", buffer, 0, 27, PS_VIA_ONE_SIDED, &result);
    }
    if (!err) err = ps_get(client, "example", "greeting", 0, 0, buffer, 4096, PS_VIA_AUTO, &result);
    if (err)
        fprintf(stderr, "%s: %s %s\n", ps_error_text(err), result.code, result.message);
    else
        printf("%.*s (%s)\n", (int)result.bytes, (char *)ps_buffer_data(buffer) + 4096,
               result.transfer);
    ps_buffer_free(&buffer);
    ps_close(&client);
    return err != 0;
}
