/* The calendar for people: a wall clock in seconds as date and time in UTC. Pure, so that neither a
 * time zone nor a lock of the C library takes part. */
#ifndef HOLDFAST_WIRE_CIVIL_H
#define HOLDFAST_WIRE_CIVIL_H

#include <stdint.h>

struct civil {
    unsigned year; /* 1970 to 9999 */
    unsigned month, day;
    unsigned hour, minute, second;
    unsigned weekday; /* 0 is Sunday */
};

/* What is past the year 9999 becomes its last second. */
struct civil civil_from_seconds(uint64_t wall_s);

/* `value` in exactly `digits` digits at `out`. */
static inline void civil_digits(char *out, unsigned digits, unsigned value)
{
    while (digits > 0) {
        out[--digits] = (char)('0' + value % 10);
        value /= 10;
    }
}

#endif
