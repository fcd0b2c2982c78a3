/* What each error code is called and means. The table in error.h is the only list of them; this
 * file turns it into two arrays and leaves S3 codes and HTTP statuses to s3/errors.c. */
#include "base/error.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* EHWPOISON is the last errno of Linux; the base leaves room for many more. */
static_assert((int)ERR_BASE < -4095 && (int)ERR_END < -4095, "our codes must clear every errno");

static const struct {
    const char *name, *text;
} errors[] = {
#define ERROR_ENTRY(name, text) {#name, text},
    ERROR_TABLE(ERROR_ENTRY)
#undef ERROR_ENTRY
};

static int error_index(int err) {
    return err > ERR_BASE && err < ERR_END ? err - ERR_BASE - 1 : -1;
}

const char *error_text(int err) {
    int index = error_index(err);
    if (index >= 0) return errors[index].text;
    /* Unlike strerror() this touches no shared buffer and takes no locale. */
    const char *text = strerrordesc_np(err < 0 ? -err : err);
    return text ? text : "Unknown error";
}

const char *error_name(int err) {
    static _Thread_local char buffer[24];
    int index = error_index(err);
    if (index >= 0) return errors[index].name;
    snprintf(buffer, sizeof(buffer), "errno %d", err < 0 ? -err : err);
    return buffer;
}
