/* Time: monotonic nanoseconds for deadlines, wall-clock milliseconds for what people and S3 see. */
#ifndef PENSTOCK_BASE_CLOCK_H
#define PENSTOCK_BASE_CLOCK_H

#include <stdint.h>

#include "base/slice.h"

#define NS_PER_MS   1000000ull
#define NS_PER_S    1000000000ull
#define NO_DEADLINE UINT64_MAX

uint64_t clock_now_ns(void);             /* CLOCK_MONOTONIC */
uint64_t clock_deadline_ms(uint64_t ms); /* now + ms, in nanoseconds */
int64_t clock_wall_ms(void);             /* since the epoch, UTC */
uint64_t clock_process_cpu_ns(void);     /* user and system time of this process */

#define CLOCK_TEXT_SIZE 40
/* All write a NUL-terminated string of at most CLOCK_TEXT_SIZE bytes. */
void clock_format_http(int64_t wall_ms, char *out);         /* Tue, 01 Dec 2026 06:30:00 GMT */
void clock_format_iso8601(int64_t wall_ms, char *out);      /* 2026-12-01T06:30:00.123Z */
void clock_format_amz(int64_t wall_ms, char *out);          /* 20261201T063000Z */
bool clock_parse_http(struct slice text, int64_t *wall_ms); /* the three forms of RFC 9110 */
bool clock_parse_amz(struct slice text, int64_t *wall_ms);  /* also checks the calendar */

#endif
