/* Long-held rules, reports of grants past them, and positions of sinks (S16) from words:
 * `olga sets rule "jobs/" to 10m because "..."`, `report alice on "jobs/1"`, `sink kafka has 7.2`. */
#include <inttypes.h>
#include <stdio.h>

#include "core/view.h"
#include "words.h"

void request_alert_set(struct words *w, const char *actor, struct request_line *out)
{
    command_init(&out->command, COMMAND_ALERT_SET);
    struct command_alert_set *a = &out->command.alert_set;
    a->actor = slice_of(actor);
    a->reason = slice_of("a scenario");
    a->prefix = slice_of(words_quoted(w, "a prefix in quotes"));
    words_need(w, "to");
    a->held_ms = words_span(w, "a time span");
    while (words_left(w)) {
        if (words_take(w, "because")) {
            a->reason = slice_of(words_quoted(w, "a reason in quotes"));
        } else if (!request_common_option(w, out)) {
            words_finish(w);
        }
    }
}

void request_alert_remove(struct words *w, const char *actor, struct request_line *out)
{
    command_init(&out->command, COMMAND_ALERT_REMOVE);
    struct command_alert_remove *a = &out->command.alert_remove;
    a->actor = slice_of(actor);
    a->reason = slice_of("a scenario");
    a->prefix = slice_of(words_quoted(w, "a prefix in quotes"));
    while (words_left(w)) {
        if (words_take(w, "because")) {
            a->reason = slice_of(words_quoted(w, "a reason in quotes"));
        } else if (!request_common_option(w, out)) {
            words_finish(w);
        }
    }
}

/* What the leader proposes, about the last hold of this actor on the name. */
void request_long_held(struct words *w, struct request_line *out)
{
    command_init(&out->command, COMMAND_LONG_HELD);
    struct command_long_held *l = &out->command.long_held;
    const char *actor = words_plain(w, "who");
    words_need(w, "on");
    l->name = slice_of(words_quoted(w, "the name of a lock in quotes"));
    const struct hold *hold = cast_hold_of(w->runner, actor, l->name);
    if (hold == NULL || hold->token == 0) {
        runner_fail(w->runner, "it has no token of this lock");
    }
    l->token = hold->token;
    while (words_left(w)) {
        if (!request_common_option(w, out)) {
            words_finish(w);
        }
    }
}

void request_sink_position(struct words *w, struct request_line *out)
{
    command_init(&out->command, COMMAND_SINK_POSITION);
    struct command_sink_position *s = &out->command.sink_position;
    s->name = slice_of(words_plain(w, "the name of a sink"));
    words_need(w, "has index");
    s->index = words_number(w, "the index of an entry");
    words_need(w, "ordinal");
    s->ordinal = words_number32(w, "the number of an event");
}

static void on_rule(void *ctx, struct slice prefix, uint64_t held_ms)
{
    struct facts *out = ctx;
    fact(out, "rule \"%s\" %s", slice_text(out->arena, prefix), span_text(out->arena, held_ms));
}

static void on_sink(void *ctx, const struct sink_view *sink)
{
    struct facts *out = ctx;
    fact(out, "%s has index %" PRIu64 " ordinal %u", slice_text(out->arena, sink->name),
         sink->index, sink->ordinal);
}

bool look_at_times(struct runner *p, struct words *w, struct facts *out)
{
    if (words_take(w, "rules")) {
        uint32_t tenant = words_take(w, "tenant") ? words_number32(w, "a number") : 0;
        view_alerts(p->core, tenant, on_rule, out);
    } else if (words_take(w, "sinks")) {
        view_sinks(p->core, on_sink, out);
    } else {
        return false;
    }
    if (out->count == 0) {
        fact(out, "nothing");
    }
    return true;
}
