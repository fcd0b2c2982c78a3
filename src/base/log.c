/* One line an event, written with one write(2), so that lines of several threads do not mix. What
 * a message quotes from the network cannot forge a line or drive a terminal: control bytes become
 * '?'. A line that is too long is cut. */
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define LOG_LINE_SIZE 1024

static const char *const level_names[] = {"error", "warn", "info", "debug"};
static _Atomic int current_level = LOG_INFO;

void log_set_level(enum log_level level) {
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

int log_level_parse(const char *name, enum log_level *level) {
    for (int i = LOG_ERROR; i <= LOG_DEBUG; i++) {
        if (strcmp(name, level_names[i]) != 0) continue;
        *level = (enum log_level)i;
        return 0;
    }
    return -EINVAL;
}

/* snprintf() answers what it would have written. */
static size_t written(int size, size_t room) {
    if (size < 0) return 0;
    return (size_t)size < room ? (size_t)size : room - 1;
}

void log_write(enum log_level level, const char *format, ...) {
    if ((int)level > atomic_load_explicit(&current_level, memory_order_relaxed)) return;
    int saved = errno; /* logging between a failure and its handling must not change it */

    char line[LOG_LINE_SIZE], when[CLOCK_TEXT_SIZE];
    clock_format_iso8601(clock_wall_ms(), when);
    size_t room = sizeof(line) - 1; /* the newline */
    size_t start = written(snprintf(line, room, "%s %-5s ", when, level_names[level]), room);

    va_list args;
    va_start(args, format);
    size_t size =
        start + written(vsnprintf(line + start, room - start, format, args), room - start);
    va_end(args);
    for (size_t i = start; i < size; i++)
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f) line[i] = '?';
    line[size++] = '\n';

    /* There is nowhere to report that the log cannot be written. */
    ssize_t ignored = write(STDERR_FILENO, line, size);
    (void)ignored;
    errno = saved;
}
