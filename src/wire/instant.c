/* See instant.h. */
#include "wire/instant.h"

#include <string.h>

/* A century. */
#define SPAN_MOST_MS (UINT64_C(36525) * 86400000)

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* Exactly `count` digits at the front. */
static bool take_digits(struct slice *text, unsigned count, unsigned *out)
{
    unsigned number = 0;
    if (text->len < count) {
        return false;
    }
    for (unsigned i = 0; i < count; i++) {
        if (!is_digit(text->data[i])) {
            return false;
        }
        number = number * 10 + (unsigned)(text->data[i] - '0');
    }
    *text = slice_make(text->data + count, text->len - count);
    *out = number;
    return true;
}

/* One of the characters. */
static bool take_one(struct slice *text, const char *of)
{
    if (text->len == 0 || text->data[0] == '\0' || strchr(of, text->data[0]) == NULL) {
        return false;
    }
    *text = slice_make(text->data + 1, text->len - 1);
    return true;
}

static unsigned days_of_month(unsigned year, unsigned month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && is_leap ? 1u : 0u);
}

/* The inverse of civil_from_seconds. */
static uint64_t days_from_1970(unsigned year, unsigned month, unsigned day)
{
    unsigned y = month <= 2 ? year - 1 : year;
    unsigned m = month <= 2 ? month + 9 : month - 3; /* 0 is March */
    uint64_t days = (uint64_t)y * 365 + y / 4 - y / 100 + y / 400;
    return days + (153 * m + 2) / 5 + day - 1 - 719468;
}

/* ".123456", of which milliseconds count. */
static bool take_fraction(struct slice *text, unsigned *ms)
{
    unsigned scale = 100;
    *ms = 0;
    if (!take_one(text, ".")) {
        return true;
    }
    unsigned digit;
    if (!take_digits(text, 1, &digit)) {
        return false;
    }
    do {
        *ms += digit * scale;
        scale /= 10;
    } while (take_digits(text, 1, &digit));
    return true;
}

/* Minutes that the written time is ahead of UTC. */
static bool take_zone(struct slice *text, int *ahead)
{
    unsigned hours;
    unsigned minutes;
    *ahead = 0;
    if (take_one(text, "Zz")) {
        return true;
    }
    bool is_west = text->len > 0 && text->data[0] == '-';
    if (!take_one(text, "+-") || !take_digits(text, 2, &hours) || !take_one(text, ":") ||
        !take_digits(text, 2, &minutes) || hours > 23 || minutes > 59) {
        return false;
    }
    *ahead = (int)(hours * 60 + minutes) * (is_west ? -1 : 1);
    return true;
}

static bool parse_time(struct slice text, uint64_t *wall_ms)
{
    unsigned year;
    unsigned month;
    unsigned day;
    unsigned hour;
    unsigned minute;
    unsigned second;
    unsigned ms;
    int ahead;
    if (!take_digits(&text, 4, &year) || !take_one(&text, "-") || !take_digits(&text, 2, &month) ||
        !take_one(&text, "-") || !take_digits(&text, 2, &day) || !take_one(&text, "Tt ") ||
        !take_digits(&text, 2, &hour) || !take_one(&text, ":") || !take_digits(&text, 2, &minute) ||
        !take_one(&text, ":") || !take_digits(&text, 2, &second) || !take_fraction(&text, &ms) ||
        !take_zone(&text, &ahead) || text.len > 0) {
        return false;
    }
    if (year < 1970 || month < 1 || month > 12 || day < 1 || day > days_of_month(year, month) ||
        hour > 23 || minute > 59 || second > 60) {
        return false;
    }
    int64_t s = (int64_t)(days_from_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 +
                          (second == 60 ? 59 : second)) -
                (int64_t)ahead * 60;
    if (s < 0) {
        return false;
    }
    *wall_ms = (uint64_t)s * 1000 + ms;
    return true;
}

static bool take_unit(struct slice *text, uint64_t *unit_ms)
{
    if (text->len >= 2 && text->data[0] == 'm' && text->data[1] == 's') {
        *unit_ms = 1;
        *text = slice_make(text->data + 2, text->len - 2);
        return true;
    }
    uint8_t c = text->len == 0 ? 0 : text->data[0];
    *unit_ms = c == 's' ? 1000 : c == 'm' ? 60000 : c == 'h' ? 3600000 : c == 'd' ? 86400000 : 0;
    return take_one(text, "smhd");
}

static bool parse_span(struct slice text, uint64_t *ms)
{
    uint64_t sum = 0;
    do {
        uint64_t number = 0;
        uint64_t unit_ms;
        unsigned digit;
        if (!take_digits(&text, 1, &digit)) {
            return false;
        }
        do {
            number = number * 10 + digit;
        } while (number <= SPAN_MOST_MS && take_digits(&text, 1, &digit));
        if (number > SPAN_MOST_MS || !take_unit(&text, &unit_ms) ||
            number * unit_ms > SPAN_MOST_MS - sum) {
            return false;
        }
        sum += number * unit_ms;
    } while (text.len > 0);
    *ms = sum;
    return true;
}

bool instant_parse(struct slice text, uint64_t now_ms, uint64_t *wall_ms)
{
    uint64_t ago_ms;
    if (parse_span(text, &ago_ms)) {
        *wall_ms = ago_ms < now_ms ? now_ms - ago_ms : 0;
        return true;
    }
    return parse_time(text, wall_ms);
}
