/* See human.h. */
#include "cli/human.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

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

uint64_t human_wall_ms(struct slice rfc3339)
{
    char text[HUMAN_TEXT];
    struct tm at = {.tm_isdst = 0};
    unsigned ms = 0;
    (void)snprintf(text, sizeof(text), "%.*s", (int)(rfc3339.len < HUMAN_TEXT ? rfc3339.len : 0),
                   (const char *)rfc3339.data);
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &at);
    if (rest == NULL || (rest[0] == '.' && sscanf(rest, ".%3u", &ms) != 1)) {
        return 0;
    }
    time_t seconds = timegm(&at);
    return seconds > 0 ? (uint64_t)seconds * 1000 + ms : 0;
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

const char *human_left(uint64_t ms, char out[HUMAN_TEXT])
{
    char span[HUMAN_TEXT - 3];
    if (ms == UINT64_MAX) {
        (void)snprintf(out, HUMAN_TEXT, "never");
    } else {
        char text[HUMAN_TEXT];
        (void)snprintf(span, sizeof(span), "%s", human_span(ms, text));
        (void)snprintf(out, HUMAN_TEXT, "in %s", span);
    }
    return out;
}
