/* See sse.h. */
#include "cli/sse.h"

#include <stdio.h>
#include <time.h>

#include "cli/exits.h"
#include "cli/say.h"
#include "transport/clock.h"

enum {
    SILENCE_MS = 60000, /* without a byte the connection is lost: nodes send keep-alives */
    GIVE_UP_MS = 60000,
    PAUSE_MS = 250,
};

static int connect_stream(struct sse *s)
{
    char target[API_TARGET + SSE_WORD + 32];
    (void)snprintf(target, sizeof(target), "%s%s%s", s->target,
                   s->last_id[0] != '\0' ? "&last_event_id=" : "", s->last_id);
    int code = api_stream(s->api, target, &s->http);
    s->is_open = code == 0;
    s->heard_ms = clock_boot_ms();
    buffer_truncate(&s->text, 0);
    s->read = 0;
    return code;
}

int sse_open(struct sse *s, struct api *api, const char *target, const char *last_id)
{
    *s = (struct sse){.api = api};
    (void)snprintf(s->target, sizeof(s->target), "%s", target);
    (void)snprintf(s->last_id, sizeof(s->last_id), "%s", last_id != NULL ? last_id : "");
    buffer_init(&s->text, memory_system(), SSE_EVENT_MAX);
    int code = connect_stream(s);
    if (code != 0) {
        buffer_close(&s->text);
    }
    return code;
}

void sse_close(struct sse *s)
{
    if (s->is_open) {
        http_close(&s->http);
        s->is_open = false;
    }
    buffer_close(&s->text);
}

static void copy_word(char out[SSE_WORD], const char *text, size_t len)
{
    (void)snprintf(out, SSE_WORD, "%.*s", (int)len, text);
}

/* Lines `id: `, `event: `, `data: ` and an empty line; others are comments. True: a complete
 * event. */
static bool take_event(struct sse *s, struct sse_event *e)
{
    buffer_consume(&s->text, s->read);
    s->read = 0;
    struct slice all = buffer_bytes(&s->text);
    *e = (struct sse_event){.data = slice_make("", 0)};
    size_t at = 0;
    while (at < all.len) {
        const char *line = (const char *)all.data + at;
        const char *end = memchr(line, '\n', all.len - at);
        if (end == NULL) {
            return false;
        }
        size_t len = (size_t)(end - line);
        at += len + 1;
        if (len == 0) {
            if (e->type[0] != '\0') {
                s->read = at;
                return true;
            }
        } else if (len > 4 && memcmp(line, "id: ", 4) == 0) {
            copy_word(e->id, line + 4, len - 4);
        } else if (len > 7 && memcmp(line, "event: ", 7) == 0) {
            copy_word(e->type, line + 7, len - 7);
        } else if (len >= 6 && memcmp(line, "data: ", 6) == 0) {
            e->data = slice_make(line + 6, len - 6);
        }
    }
    return false;
}

/* False: no endpoint reachable. */
static bool reconnect(struct sse *s)
{
    int64_t end_ms = clock_boot_ms() + GIVE_UP_MS;
    http_close(&s->http);
    s->is_open = false;
    if (s->is_once) {
        return false;
    }
    bool was_quiet = s->api->is_quiet;
    s->api->is_quiet = true;
    s->api->current = (s->api->current + 1) % s->api->count;
    while (connect_stream(s) != 0 && clock_boot_ms() < end_ms) {
        struct timespec pause = {0, PAUSE_MS * 1000000L};
        (void)nanosleep(&pause, NULL);
    }
    s->api->is_quiet = was_quiet;
    if (!s->is_open) {
        char text[1400];
        api_problem(s->api, text, sizeof(text));
        cli_say("the event stream was interrupted, and %s", text);
    }
    return s->is_open;
}

/* True: bytes. False: the deadline or, if `*is_broken`, the stream is lost. */
static bool read_more(struct sse *s, int64_t deadline_ms, bool *is_broken)
{
    int64_t silence_ms = s->heard_ms + SILENCE_MS;
    int64_t until_ms = deadline_ms < silence_ms ? deadline_ms : silence_ms;
    enum http_state state = http_read_body(&s->http, &s->text, until_ms);
    int64_t now_ms = clock_boot_ms();
    if (state == HTTP_MORE) {
        s->heard_ms = now_ms;
        return true;
    }
    *is_broken = state == HTTP_DONE || now_ms < until_ms || now_ms >= silence_ms;
    return false;
}

enum sse_state sse_next(struct sse *s, struct sse_event *event, int64_t deadline_ms)
{
    for (;;) {
        bool is_broken = false;
        if (take_event(s, event)) {
            if (event->id[0] != '\0') {
                (void)snprintf(s->last_id, sizeof(s->last_id), "%s", event->id);
            }
            if (strcmp(event->type, "dropped") != 0) {
                return SSE_EVENT;
            }
            is_broken = true; /* a new stream resumes */
        }
        if (!is_broken && !read_more(s, deadline_ms, &is_broken) && !is_broken) {
            return SSE_TIMEOUT;
        }
        if (is_broken && !reconnect(s)) {
            return SSE_FAILED;
        }
    }
}
