/* Numbers, durations, sizes and switches. */
#include "server/config_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A decimal number as thousandths; further digits are ignored. `*rest`: the first character after
 * it. */
static bool read_thousandths(const char *text, uint64_t *out, const char **rest)
{
    uint64_t value = 0;
    unsigned digits = 0;
    for (; *text >= '0' && *text <= '9'; text++, digits++) {
        if (digits == 15) {
            return false;
        }
        value = value * 10 + (uint64_t)(*text - '0');
    }
    if (digits == 0) {
        return false;
    }
    value *= 1000;
    if (*text == '.') {
        uint64_t unit = 100;
        text++;
        if (*text < '0' || *text > '9') {
            return false;
        }
        for (; *text >= '0' && *text <= '9'; text++) {
            value += unit * (uint64_t)(*text - '0');
            unit /= 10;
        }
    }
    *out = value;
    *rest = text;
    return true;
}

bool value_number(const char *text, uint64_t *out)
{
    uint64_t value;
    const char *rest;
    if (!read_thousandths(text, &value, &rest) || *rest != '\0' || strchr(text, '.') != NULL) {
        return false;
    }
    *out = value / 1000;
    return true;
}

bool value_duration_ms(const char *text, uint64_t *out)
{
    static const struct {
        const char *unit;
        uint64_t ms;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    uint64_t value;
    const char *rest;
    if (!read_thousandths(text, &value, &rest)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(rest, units[i].unit) == 0) {
            if (value > UINT64_MAX / units[i].ms) {
                return false;
            }
            *out = value * units[i].ms / 1000;
            return true;
        }
    }
    return false;
}

bool value_size(const char *text, uint64_t *out)
{
    static const struct {
        const char *unit;
        unsigned shift;
    } units[] = {{"", 0},   {"B", 0},    {"K", 10}, {"KiB", 10},
                 {"M", 20}, {"MiB", 20}, {"G", 30}, {"GiB", 30}};
    uint64_t value;
    const char *rest;
    if (!read_thousandths(text, &value, &rest)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(rest, units[i].unit) == 0) {
            if (value > UINT64_MAX >> units[i].shift) {
                return false;
            }
            *out = (value << units[i].shift) / 1000;
            return true;
        }
    }
    return false;
}

bool value_switch(const char *text, bool *out)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    for (size_t i = 0; i < 4; i++) {
        if (strcasecmp(text, yes[i]) == 0 || strcasecmp(text, no[i]) == 0) {
            *out = strcasecmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

void value_print_duration(uint64_t ms, char *text, size_t size)
{
    if (ms % 1000 == 0) {
        snprintf(text, size, "%" PRIu64 "s", ms / 1000);
    } else {
        snprintf(text, size, "%" PRIu64 "ms", ms);
    }
}

void value_print_size(uint64_t bytes, char *text, size_t size)
{
    if (bytes > 0 && bytes % (1u << 20) == 0) {
        snprintf(text, size, "%" PRIu64 "MiB", bytes >> 20);
    } else {
        snprintf(text, size, "%" PRIu64, bytes);
    }
}
