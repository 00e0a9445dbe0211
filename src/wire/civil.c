/* The Gregorian calendar by day arithmetic. A year begins on 1 March, so that the leap day is its
 * last day. */
#include "wire/civil.h"

enum {
    DAY_SECONDS = 86400,
    DAYS_TO_1970 = 719468, /* from 1 March of the year 0 */
    ERA_DAYS = 146097,     /* 400 years, the period of the calendar */
};

#define LAST_SECOND UINT64_C(253402300799) /* 9999-12-31T23:59:59Z */

struct civil civil_from_seconds(uint64_t wall_s)
{
    if (wall_s > LAST_SECOND) {
        wall_s = LAST_SECOND;
    }
    unsigned second = (unsigned)(wall_s % DAY_SECONDS);
    unsigned since_1970 = (unsigned)(wall_s / DAY_SECONDS);
    unsigned days = since_1970 + DAYS_TO_1970;
    unsigned era = days / ERA_DAYS;
    unsigned day = days % ERA_DAYS;
    /* A leap day in 1,460 days, not in 36,524, again in 146,096. */
    unsigned year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    day -= 365 * year + year / 4 - year / 100;
    unsigned month = (5 * day + 2) / 153; /* 0 is March; each five months have 31, 30, 31, 30, 31
                                             days */
    return (struct civil){
        .year = era * 400 + year + (month >= 10),
        .month = month < 10 ? month + 3 : month - 9,
        .day = day - (153 * month + 2) / 5 + 1,
        .hour = second / 3600,
        .minute = second / 60 % 60,
        .second = second % 60,
        .weekday = (since_1970 + 4) % 7, /* 1 January 1970 was a Thursday */
    };
}
