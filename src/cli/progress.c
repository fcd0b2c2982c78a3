/* A progress bar for people at a terminal. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"

#define REDRAW_NS (100 * NS_PER_MS)
#define BAR_WIDTH 30

void format_bytes(uint64_t bytes, char out[32]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(out, 32, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
}

void progress_begin(struct progress *progress, const char *label) {
    *progress = (struct progress){
        .label = label, .started_ns = clock_now_ns(), .enabled = isatty(STDERR_FILENO) == 1};
}

void progress_update(void *ctx, uint64_t done, uint64_t total) {
    struct progress *progress = ctx;
    uint64_t now = clock_now_ns();
    if (!progress->enabled || (done < total && now - progress->drawn_ns < REDRAW_NS)) return;
    progress->drawn_ns = now;
    char bar[BAR_WIDTH + 1], moved[32];
    int filled = total ? (int)(done * BAR_WIDTH / total) : BAR_WIDTH;
    for (int i = 0; i < BAR_WIDTH; i++) bar[i] = i < filled ? '#' : '.';
    bar[BAR_WIDTH] = '\0';
    double seconds = (double)(now - progress->started_ns) / NS_PER_S;
    format_bytes(done, moved);
    fprintf(stderr, "\r%.40s [%s] %3d%% %s %.2f GB/s\033[K", progress->label, bar,
            total ? (int)(done * 100 / total) : 100, moved,
            seconds > 0 ? (double)done / seconds / 1e9 : 0.0);
}

void progress_end(struct progress *progress) {
    if (progress->enabled && progress->drawn_ns) fputc('\n', stderr);
}
