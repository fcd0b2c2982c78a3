/* Clocks, and the three date formats of S3 over HTTP. Dates are computed here, without the time
 * zone and locale machinery of libc, so that formatting and parsing cost no lock and depend on no
 * environment. */
#include "base/clock.h"

#include <stdio.h>
#include <time.h>

#define MS_PER_DAY    86400000ll
#define DAYS_TO_EPOCH 719468 /* from 0000-03-01 to 1970-01-01 */

static const char month_names[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                        "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
static const char *const day_names[7] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                         "Thursday", "Friday", "Saturday"};

struct calendar {
    int year, month, day; /* month and day from 1 */
    int hour, minute, second, millisecond;
    int weekday; /* Sunday is 0 */
};

static uint64_t clock_read_ns(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_now_ns(void) {
    return clock_read_ns(CLOCK_MONOTONIC);
}

uint64_t clock_deadline_ms(uint64_t ms) {
    uint64_t now = clock_now_ns();
    if (ms > (NO_DEADLINE - now) / NS_PER_MS) return NO_DEADLINE;
    return now + ms * NS_PER_MS;
}

int64_t clock_wall_ms(void) {
    return (int64_t)(clock_read_ns(CLOCK_REALTIME) / NS_PER_MS);
}

uint64_t clock_process_cpu_ns(void) {
    return clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

/* ---- the Gregorian calendar. Years begin in March here, so that the leap day is a year's last,
 * and 400 years (146,097 days) are a cycle. */

static int64_t days_from_date(int year, int month, int day) {
    int64_t y = month <= 2 ? year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400, year_of_era = y - era * 400;
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year -
           DAYS_TO_EPOCH;
}

static void date_from_days(int64_t days, struct calendar *c) {
    days += DAYS_TO_EPOCH;
    int64_t era = (days >= 0 ? days : days - 146096) / 146097, day_of_era = days - era * 146097;
    int64_t year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    int64_t day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    int64_t month = (5 * day_of_year + 2) / 153; /* from March */
    c->day = (int)(day_of_year - (153 * month + 2) / 5 + 1);
    c->month = (int)(month < 10 ? month + 3 : month - 9);
    c->year = (int)(year_of_era + era * 400 + (c->month <= 2));
}

/* Formats have four digits for a year, so times outside 0000-9999 are shown as the nearest end. */
static struct calendar calendar_of(int64_t wall_ms) {
    const int64_t first = days_from_date(0, 1, 1) * MS_PER_DAY;
    const int64_t last = days_from_date(10000, 1, 1) * MS_PER_DAY - 1;
    wall_ms = wall_ms < first ? first : wall_ms > last ? last : wall_ms;

    struct calendar c;
    int64_t days = wall_ms / MS_PER_DAY, rest = wall_ms % MS_PER_DAY;
    if (rest < 0) {
        rest += MS_PER_DAY;
        days--;
    }
    date_from_days(days, &c);
    c.weekday = (int)(((days + 4) % 7 + 7) % 7); /* the epoch was a Thursday */
    c.millisecond = (int)(rest % 1000);
    c.second = (int)(rest / 1000 % 60);
    c.minute = (int)(rest / 60000 % 60);
    c.hour = (int)(rest / 3600000);
    return c;
}

/* Dates are in every request and every answer, and printf is slow at them. */
static char *put_digits(char *out, int value, int count) {
    for (int i = count - 1; i >= 0; i--, value /= 10) out[i] = (char)('0' + value % 10);
    return out + count;
}

static char *put_text(char *out, const char *text, size_t size) {
    memcpy(out, text, size);
    return out + size;
}

/* Hours, minutes and seconds with what stands between them. */
static char *put_time(char *out, const struct calendar *c, const char *between) {
    size_t size = strlen(between);
    out = put_text(put_digits(out, c->hour, 2), between, size);
    out = put_text(put_digits(out, c->minute, 2), between, size);
    return put_digits(out, c->second, 2);
}

static char *put_date(char *out, const struct calendar *c, const char *between) {
    size_t size = strlen(between);
    out = put_text(put_digits(out, c->year, 4), between, size);
    out = put_text(put_digits(out, c->month, 2), between, size);
    return put_digits(out, c->day, 2);
}

void clock_format_http(int64_t wall_ms, char *out) {
    struct calendar c = calendar_of(wall_ms);
    out = put_text(put_text(out, day_names[c.weekday], 3), ", ", 2);
    out = put_text(put_digits(out, c.day, 2), " ", 1);
    out = put_text(put_text(out, month_names[c.month - 1], 3), " ", 1);
    out = put_text(put_digits(out, c.year, 4), " ", 1);
    put_text(put_time(out, &c, ":"), " GMT", 5);
}

void clock_format_iso8601(int64_t wall_ms, char *out) {
    struct calendar c = calendar_of(wall_ms);
    out = put_text(put_date(out, &c, "-"), "T", 1);
    out = put_text(put_time(out, &c, ":"), ".", 1);
    put_text(put_digits(out, c.millisecond, 3), "Z", 2);
}

void clock_format_amz(int64_t wall_ms, char *out) {
    struct calendar c = calendar_of(wall_ms);
    out = put_text(put_date(out, &c, ""), "T", 1);
    put_text(put_time(out, &c, ""), "Z", 2);
}

/* ---- parsing: each take_ function moves the slice forward, or says false */

static bool take_digits(struct slice *s, size_t count, int *value) {
    int sum = 0;
    if (s->size < count) return false;
    for (size_t i = 0; i < count; i++) {
        if (s->data[i] < '0' || s->data[i] > '9') return false;
        sum = sum * 10 + (s->data[i] - '0');
    }
    s->data += count;
    s->size -= count;
    *value = sum;
    return true;
}

static bool take_text(struct slice *s, struct slice text) {
    if (!slice_starts_with(*s, text)) return false;
    s->data += text.size;
    s->size -= text.size;
    return true;
}

#define take_literal(s, literal) take_text((s), SLICE_LITERAL(literal))

static bool take_month(struct slice *s, int *month) {
    for (int i = 0; i < 12; i++) {
        if (!take_text(s, slice_of(month_names[i]))) continue;
        *month = i + 1;
        return true;
    }
    return false;
}

static bool take_weekday(struct slice *s, bool whole) {
    for (int i = 0; i < 7; i++) {
        struct slice name = slice_of(day_names[i]);
        if (take_text(s, whole ? name : (struct slice){name.data, 3})) return true;
    }
    return false;
}

static bool take_time(struct slice *s, struct calendar *c) {
    return take_digits(s, 2, &c->hour) && take_literal(s, ":") && take_digits(s, 2, &c->minute) &&
           take_literal(s, ":") && take_digits(s, 2, &c->second);
}

static int days_in_month(int year, int month) {
    static const int days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return days[month - 1] + (month == 2 && leap);
}

static bool calendar_to_ms(const struct calendar *c, int64_t *wall_ms) {
    if (c->month < 1 || c->month > 12) return false;
    if (c->day < 1 || c->day > days_in_month(c->year, c->month)) return false;
    /* A leap second is a legal date; it means the same as the second after it. */
    if (c->hour > 23 || c->minute > 59 || c->second > 60) return false;
    int64_t seconds = c->hour * 3600 + c->minute * 60 + c->second;
    *wall_ms = days_from_date(c->year, c->month, c->day) * MS_PER_DAY + seconds * 1000;
    return true;
}

/* Sun, 06 Nov 1994 08:49:37 GMT */
static bool parse_fixdate(struct slice s, struct calendar *c) {
    return take_weekday(&s, false) && take_literal(&s, ", ") && take_digits(&s, 2, &c->day) &&
           take_literal(&s, " ") && take_month(&s, &c->month) && take_literal(&s, " ") &&
           take_digits(&s, 4, &c->year) && take_literal(&s, " ") && take_time(&s, c) &&
           take_literal(&s, " GMT") && s.size == 0;
}

/* Sunday, 06-Nov-94 08:49:37 GMT; a year that seems more than 50 years ahead is a past one. */
static bool parse_rfc850(struct slice s, struct calendar *c) {
    bool ok = take_weekday(&s, true) && take_literal(&s, ", ") && take_digits(&s, 2, &c->day) &&
              take_literal(&s, "-") && take_month(&s, &c->month) && take_literal(&s, "-") &&
              take_digits(&s, 2, &c->year) && take_literal(&s, " ") && take_time(&s, c) &&
              take_literal(&s, " GMT") && s.size == 0;
    if (!ok) return false;
    int this_year = calendar_of(clock_wall_ms()).year;
    c->year += this_year / 100 * 100;
    if (c->year > this_year + 50) c->year -= 100;
    return true;
}

/* Sun Nov  6 08:49:37 1994 */
static bool parse_asctime(struct slice s, struct calendar *c) {
    if (!take_weekday(&s, false) || !take_literal(&s, " ") || !take_month(&s, &c->month) ||
        !take_literal(&s, " "))
        return false;
    bool day = take_literal(&s, " ") ? take_digits(&s, 1, &c->day) : take_digits(&s, 2, &c->day);
    return day && take_literal(&s, " ") && take_time(&s, c) && take_literal(&s, " ") &&
           take_digits(&s, 4, &c->year) && s.size == 0;
}

bool clock_parse_http(struct slice text, int64_t *wall_ms) {
    struct calendar c = {0};
    if (!parse_fixdate(text, &c) && !parse_rfc850(text, &c) && !parse_asctime(text, &c))
        return false;
    return calendar_to_ms(&c, wall_ms);
}

bool clock_parse_amz(struct slice s, int64_t *wall_ms) {
    struct calendar c = {0};
    bool ok = take_digits(&s, 4, &c.year) && take_digits(&s, 2, &c.month) &&
              take_digits(&s, 2, &c.day) && take_literal(&s, "T") && take_digits(&s, 2, &c.hour) &&
              take_digits(&s, 2, &c.minute) && take_digits(&s, 2, &c.second) &&
              take_literal(&s, "Z") && s.size == 0;
    return ok && calendar_to_ms(&c, wall_ms);
}
