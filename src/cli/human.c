/* See human.h. */
#include "cli/human.h"

#include <inttypes.h>
#include <stdio.h>

const char *human_time(struct slice rfc3339, char out[HUMAN_TEXT])
{
    if (rfc3339.len < 20 || rfc3339.data[10] != 'T') {
        (void)snprintf(out, HUMAN_TEXT, "-");
    } else {
        (void)snprintf(out, HUMAN_TEXT, "%.10s %.8sZ", (const char *)rfc3339.data,
                       (const char *)rfc3339.data + 11);
    }
    return out;
}

const char *human_span(uint64_t ms, char out[HUMAN_TEXT])
{
    uint64_t s = ms / 1000;
    if (ms < 1000) {
        (void)snprintf(out, HUMAN_TEXT, "%" PRIu64 "ms", ms);
    } else if (s < 60) {
        (void)snprintf(out, HUMAN_TEXT, "%" PRIu64 "s", s);
    } else if (s < 3600) {
        (void)snprintf(out, HUMAN_TEXT, "%" PRIu64 "m%02" PRIu64 "s", s / 60, s % 60);
    } else if (s < 86400) {
        (void)snprintf(out, HUMAN_TEXT, "%" PRIu64 "h%02" PRIu64 "m", s / 3600, s / 60 % 60);
    } else {
        (void)snprintf(out, HUMAN_TEXT, "%" PRIu64 "d%02" PRIu64 "h", s / 86400, s / 3600 % 24);
    }
    return out;
}
