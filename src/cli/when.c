/* See when.h. */
#include "cli/when.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/http.h"
#include "cli/say.h"
#include "wire/civil.h"
#include "wire/instant.h"

#define DAY_MS UINT64_C(86400000)

/* "14:03" or "14:03:20" to "14:03:20". */
static bool read_clock(const char *text, char out[9])
{
    size_t len = strlen(text);
    if (len != 5 && len != 8) {
        return false;
    }
    memcpy(out, text, len);
    memcpy(out + len, ":00", len == 5 ? 4 : 0);
    out[8] = '\0';
    return true;
}

static void write_instant(uint64_t wall_ms, char out[WHEN_TEXT])
{
    struct civil c = civil_from_seconds(wall_ms / 1000);
    (void)snprintf(out, WHEN_TEXT, "%04u-%02u-%02uT%02u:%02u:%02u.%03uZ", c.year % 10000,
                   c.month % 100, c.day % 100, c.hour % 100, c.minute % 100, c.second % 100,
                   (unsigned)(wall_ms % 1000));
}

bool when_parse(const char *text, uint64_t now_ms, char out[WHEN_TEXT])
{
    char clock[9] = "00:00:00";
    char day[11] = "";
    char full[WHEN_TEXT];
    uint64_t wall_ms;
    size_t len = strlen(text);
    if (instant_parse(slice_of(text), now_ms, &wall_ms)) {
        if (strpbrk(text, "-:") != NULL) {
            write_instant(wall_ms, out);
        } else { /* a duration */
            (void)snprintf(out, WHEN_TEXT, "%.*s", WHEN_TEXT - 1, text);
        }
        return len < WHEN_TEXT || strpbrk(text, "-:") != NULL;
    }
    bool has_day = len >= 10 && text[4] == '-';
    if (has_day) {
        (void)snprintf(day, sizeof(day), "%.10s", text);
        if (len > 10 && (text[10] != ' ' || !read_clock(text + 11, clock))) {
            return false;
        }
    } else {
        struct civil c = civil_from_seconds(now_ms / 1000);
        (void)snprintf(day, sizeof(day), "%04u-%02u-%02u", c.year % 10000, c.month % 100,
                       c.day % 100);
        if (!read_clock(text, clock)) {
            return false;
        }
    }
    (void)snprintf(full, sizeof(full), "%sT%sZ", day, clock);
    if (!instant_parse(slice_of(full), now_ms, &wall_ms)) {
        return false;
    }
    write_instant(!has_day && wall_ms > now_ms && wall_ms >= DAY_MS ? wall_ms - DAY_MS : wall_ms,
                  out);
    return true;
}

bool when_read(const char *command, const char *flag, const char *text, char out[WHEN_TEXT])
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (text == NULL) {
        out[0] = '\0';
        return true;
    }
    if (when_parse(text, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000, out)) {
        return true;
    }
    cli_say(
        "%s: --%s \"%s\" is no time; write 2h for two hours ago, or a time in UTC such as 14:03 or "
        "2026-11-19T14:03:00Z",
        command, flag, text);
    return false;
}

void when_add_text(struct buffer *target, const char *key, const char *text)
{
    if (text != NULL && text[0] != '\0') {
        buffer_printf(target, "&%s=", key);
        http_escape(target, slice_of(text), false);
    }
}
