/* --tell: the scenario as a text for somebody who sees it for the first time. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "runner.h"

enum tone { DIM, BOLD, GREEN, YELLOW };

static void say(enum tone tone, const char *text)
{
    static const char *const codes[] = {"2", "1", "32", "33"};
    if (isatty(STDOUT_FILENO)) {
        printf("\033[%sm%s\033[0m", codes[tone], text);
    } else {
        fputs(text, stdout);
    }
}

/* What loops do is not printed. */
static bool is_telling(const struct runner *p)
{
    return p->tell && p->variable_count == 0;
}

/* Paragraphs stand apart from the steps. */
static void set_apart(struct runner *p, bool is_comment)
{
    if (p->was_comment != is_comment) {
        putchar('\n');
    }
    p->was_comment = is_comment;
}

void tell_comment(struct runner *p, const struct line *line)
{
    if (is_telling(p)) {
        set_apart(p, true);
        say(BOLD, line->text);
        putchar('\n');
    }
}

void tell_time(struct runner *p)
{
    if (is_telling(p)) {
        set_apart(p, false);
        const char *now = span_text(&p->step, core_now_ms(p->core));
        say(DIM, arena_format(&p->step, "  it is %s\n", now));
    }
}

static void end_of_blanks(char *text)
{
    size_t len = strlen(text);
    while (len > 0 && text[len - 1] == ' ') {
        text[--len] = '\0';
    }
}

void tell_step(struct runner *p, const char *text, const char *expected, const struct facts *got)
{
    if (!is_telling(p)) {
        return;
    }
    set_apart(p, false);
    char *step = arena_text(&p->step, text, strlen(text));
    end_of_blanks(step);
    const char *answer = expected != NULL ? expected : got->at[0];
    bool refused = strncmp(answer, "refused", 7) == 0 || strncmp(answer, "error", 5) == 0;
    printf("  %s\n", step);
    say(refused ? YELLOW : GREEN, arena_format(&p->step, "      => %s\n", answer));
}

/* The event in a sentence; NULL when the answer reported it, or will not be missed. */
static const char *sentence(struct arena *arena, const struct event *e)
{
    const char *name = slice_text(arena, e->name);
    const char *client = slice_text(arena, e->client);
    const char *token = token_text(arena, e->token);
    const char *until = e->deadline_ms == UINT64_MAX ? "?" : span_text(arena, e->deadline_ms);
    const char *actor = slice_text(arena, e->actor);
    switch (e->type) {
    case EVENT_GRANTED:
        if (e->attachment == 0) {
            return NULL;
        }
        return arena_format(arena, "%s holds \"%s\" now, with token %s, until %s", client, name,
                            token, until);
    case EVENT_WAIT_ENDED:
        return arena_format(arena, "%s waits for \"%s\" no longer: %s", client, name,
                            reason_name(e->reason));
    case EVENT_EXPIRED:
        return arena_format(arena, "the hold of %s on \"%s\" expired", client, name);
    case EVENT_FORCED:
        return arena_format(arena, "\"%s\" was taken from %s by %s", name, client, actor);
    case EVENT_REVOKED:
        if (*actor == '\0') {
            return arena_format(arena, "\"%s\" was taken from %s, whose principal was removed",
                                name, client);
        }
        return arena_format(arena, "the time that %s gave %s for \"%s\" is over", actor, client,
                            name);
    case EVENT_LOST:
        return arena_format(arena, "%s is notified that it lost \"%s\"", client, name);
    case EVENT_REVOKE_REQUESTED:
        return arena_format(arena, "%s is requested to give up \"%s\" by %s", client, name, until);
    case EVENT_DELAYED:
        return arena_format(arena, "nobody gets \"%s\" before %s", name, until);
    case EVENT_SESSION_EXPIRED:
        return arena_format(arena, "the session of %s is over", client);
    case EVENT_LEADER_CHANGED:
        return arena_format(arena, "the leader of \"%s\" is %s now", name,
                            e->token == 0 ? "nobody" : client);
    default:
        return NULL;
    }
}

void tell_event(struct runner *p, const struct event *e)
{
    if (!is_telling(p)) {
        return;
    }
    const char *text = sentence(&p->happened, e);
    if (text != NULL) {
        p->sentences = arena_format(&p->happened, "%s      *  %s\n", p->sentences, text);
    }
}

void tell_events(struct runner *p)
{
    if (is_telling(p)) {
        say(DIM, p->sentences);
    }
}

void tell_list(struct runner *p, const struct facts *list, size_t count)
{
    for (size_t i = 0; is_telling(p) && i < count; i++) {
        say(DIM, arena_format(&p->step, "      *  %s\n", facts_text(&p->step, &list[i])));
    }
}
