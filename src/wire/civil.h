/* Wall clock seconds to date and time in UTC, without time zone or lock of the C library. */
#ifndef HOLDFAST_WIRE_CIVIL_H
#define HOLDFAST_WIRE_CIVIL_H

#include <stdint.h>

struct civil {
    unsigned year; /* 1970 to 9999 */
    unsigned month, day;
    unsigned hour, minute, second;
    unsigned weekday; /* 0 is Sunday */
};

/* Times after the year 9999 become its last second. */
struct civil civil_from_seconds(uint64_t wall_s);

/* In exactly `digits` digits. */
static inline void civil_digits(char *out, unsigned digits, unsigned value)
{
    while (digits > 0) {
        out[--digits] = (char)('0' + value % 10);
        value /= 10;
    }
}

#endif
