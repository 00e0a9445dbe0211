/* The core's answers and events as facts, in the words that README.md lists. */
#include <inttypes.h>

#include "runner.h"

const char *slice_text(struct arena *arena, struct slice slice)
{
    return arena_text(arena, (const char *)slice.data, slice.len);
}

static void fact_time(struct facts *out, const char *what, uint64_t ms)
{
    fact(out, "%s %s", what, span_text(out->arena, ms));
}

static void fact_slice(struct facts *out, const char *what, struct slice text)
{
    if (text.len > 0) {
        fact(out, "%s %s", what, slice_text(out->arena, text));
    }
}

static void fact_quoted(struct facts *out, const char *what, struct slice text)
{
    if (text.len > 0) {
        fact(out, "%s \"%s\"", what, slice_text(out->arena, text));
    }
}

static void fact_token(struct facts *out, const char *what, uint64_t token)
{
    if (token != 0) {
        fact(out, "%s %s", what, token_text(out->arena, token));
    }
}

static void fact_id(struct runner *p, struct facts *out, const char *what, struct id id)
{
    if (!id_is_zero(id)) {
        const struct drawn *drawn = cast_drawn(p, id);
        fact(out, "%s %s", what, drawn == NULL ? "?" : drawn->name);
    }
}

static void describe_outcome(const struct result *r, struct facts *out)
{
    switch (r->outcome) {
    case OUTCOME_DONE:
        fact(out, "%s", r->accepted ? "accepted" : "ok");
        return;
    case OUTCOME_GRANTED:
        fact(out, "granted");
        return;
    case OUTCOME_QUEUED:
        fact(out, "queued");
        return;
    case OUTCOME_REFUSED:
        fact(out, "refused %s", reason_name(r->reason));
        return;
    }
}

static void describe_holder(struct runner *p, const struct result *r, struct facts *out)
{
    fact(out, "holders %u", r->holders);
    if (!r->has_holder) {
        return;
    }
    const struct holder_view *h = &r->holder;
    uint64_t now_ms = core_now_ms(p->core);
    fact_slice(out, "holder", h->client);
    fact_slice(out, "holder owner", h->owner);
    fact_quoted(out, "holder metadata", h->metadata);
    fact_quoted(out, "holder trace", h->trace);
    fact(out, "holder mode %s", mode_name(h->mode));
    if (h->permits != 0) {
        fact(out, "holder permits %u", h->permits);
    }
    fact_time(out, "holder since", h->since_ms);
    fact_time(out, "holder until", h->deadline_ms);
    fact_time(out, "holder expires in", h->deadline_ms > now_ms ? h->deadline_ms - now_ms : 0);
}

static void describe_cycle(const struct result *r, struct facts *out)
{
    const char *text = "cycle";
    for (uint32_t i = 0; i < r->cycle_length; i++) {
        const struct cycle_step *step = &r->cycle[i];
        text =
            arena_format(out->arena, "%s%s %s%s%s wants \"%s\"", text, i == 0 ? "" : " then",
                         slice_text(out->arena, step->client), step->owner.len > 0 ? "/" : "",
                         slice_text(out->arena, step->owner), slice_text(out->arena, step->name));
    }
    if (r->cycle_length > 0) {
        fact(out, "%s", text);
    }
}

static void describe_acquire(struct runner *p, const struct result *r, struct facts *out)
{
    if (r->outcome == OUTCOME_GRANTED) {
        fact(out, "mode %s", mode_name(r->mode));
        if (r->mode == MODE_SEMAPHORE && r->ended == ENDED_NOT) {
            fact(out, "slot %u", r->slot);
        }
        return;
    }
    fact_quoted(out, "name", r->name);
    if (r->outcome == OUTCOME_QUEUED) {
        fact(out, "position %u", r->queue_position);
        fact(out, "attachment %" PRIu64, r->attachment);
        if (r->wait_deadline_ms == UINT64_MAX) {
            fact(out, "waits for ever");
        } else {
            fact_time(out, "waits until", r->wait_deadline_ms);
        }
    }
    fact(out, "queue %u", r->queue_length);
    describe_holder(p, r, out);
    fact_slice(out, "reserved for", r->reserved_for);
    if (r->delayed_until_ms != 0) {
        fact_time(out, "delayed until", r->delayed_until_ms);
    }
    describe_cycle(r, out);
    if (r->deadlock_unchecked) {
        fact(out, "deadlock_unchecked");
    }
}

static void describe_keepalive(struct runner *p, const struct command *command,
                               const struct result *r, struct facts *out)
{
    for (uint32_t i = 0; i < r->count; i++) {
        const struct drawn *drawn = cast_drawn(p, ids_at(&command->keepalive.sessions, i));
        fact(out, "%s %s", drawn == NULL ? "?" : drawn->name,
             hf_error_code((enum hf_error)r->alive[i]));
    }
}

/* What only some commands answer. */
static void describe_special(struct runner *p, const struct command *command,
                             const struct result *r, struct facts *out)
{
    switch (command->type) {
    case COMMAND_ACQUIRE:
        describe_acquire(p, r, out);
        break;
    case COMMAND_KEEPALIVE:
        describe_keepalive(p, command, r, out);
        break;
    case COMMAND_LEAD:
        fact(out, "epoch %" PRIu64, r->token);
        break;
    case COMMAND_ADVANCE:
        fact(out, "counter %" PRIu64, r->token);
        fact(out, "by %u", r->count);
        break;
    case COMMAND_STREAM_UP:
    case COMMAND_STREAM_THROUGH:
        fact(out, "stream %" PRIu64, r->attachment);
        break;
    case COMMAND_NODE_GONE:
        fact(out, "detached %u", r->count);
        break;
    case COMMAND_FORCE_UNLOCK:
        fact(out, "forced %u", r->count);
        break;
    case COMMAND_REVOKE:
        fact(out, "requested %u", r->count);
        break;
    case COMMAND_POLICY_CHANGE:
        fact(out, "version %" PRIu64, r->token);
        fact(out, "changes %u", r->count);
        break;
    case COMMAND_TRANSACT:
        fact(out, "effects %u", r->count);
        fact_quoted(out, "name", r->name);
        break;
    default:
        break;
    }
}

void describe_result(struct runner *p, const struct command *command, const struct result *r,
                     struct facts *out)
{
    if (r->error != HF_OK) {
        fact(out, "error %s", hf_error_code(r->error));
        return;
    }
    describe_outcome(r, out);
    if (r->replayed) {
        fact(out, "replayed");
    }
    if (r->ended != ENDED_NOT) {
        fact(out, "ended %s", ended_name(r->ended));
    }
    if (command->type != COMMAND_LEAD && command->type != COMMAND_ADVANCE &&
        command->type != COMMAND_POLICY_CHANGE) {
        fact_token(out, "token", r->token);
    }
    if (r->deadline_ms != 0) {
        fact_time(out, "until", r->deadline_ms);
    }
    if (r->ttl_ms != 0) {
        fact_time(out, "ttl", r->ttl_ms);
    }
    if (r->hold_until_ms != 0) {
        fact_time(out, "hold until", r->hold_until_ms);
    }
    if (r->depth != 0) {
        fact(out, "depth %u", r->depth);
    }
    fact_token(out, "highest", r->highest);
    describe_special(p, command, r, out);
    if (r->more) {
        fact(out, "more");
    }
    fact_id(p, out, "lease", r->lease);
}

/* Events. */

static void describe_event_head(const struct event *e, struct facts *out)
{
    bool nobody = e->type == EVENT_LEADER_CHANGED && e->token == 0;
    const char *client = nobody ? "nobody" : slice_text(out->arena, e->client);
    const char *name = slice_text(out->arena, e->name);
    fact(out, "%s%s%s%s%s%s", event_name(e->type), *name == '\0' ? "" : " \"", name,
         *name == '\0' ? "" : "\"", *client == '\0' ? "" : " ", client);
}

void describe_event(struct runner *p, const struct event *e, struct facts *out)
{
    describe_event_head(e, out);
    fact_slice(out, "owner", e->owner);
    fact_quoted(out, "trace", e->trace);
    if (e->type == EVENT_EPOCH) {
        fact(out, "epoch %" PRIu64, e->token);
    } else {
        fact_token(out, "token", e->token);
    }
    if (e->reason != REASON_NONE) {
        fact(out, "%s", reason_name(e->reason));
    }
    if (e->ended != ENDED_NOT) {
        fact(out, "ended %s", ended_name(e->ended));
    }
    if (e->deadline_ms != 0 && e->deadline_ms != UINT64_MAX) {
        fact_time(out, "until", e->deadline_ms);
    }
    fact(out, "mode %s", mode_name(e->mode));
    if (e->mode == MODE_SEMAPHORE || e->type == EVENT_FENCE_REJECTED) {
        fact(out, "slot %u", e->slot);
    }
    if (e->parts > 1) {
        fact(out, "part %u of %u", e->part, e->parts);
    }
    if (e->node != 0) {
        fact(out, "node %u", e->node);
    }
    if (e->attachment != 0) {
        fact(out, "attachment %" PRIu64, e->attachment);
    }
    bool election = e->type == EVENT_LEADER_CHANGED || e->type == EVENT_PROCLAIMED;
    fact_slice(out, "by", e->actor);
    fact_time(out, "shown at", e->wall_ms - WALL_MS);
    if (e->waited_ms != 0) {
        fact_time(out, "waited", e->waited_ms);
    }
    fact_quoted(out,
                election                     ? "value"
                : e->type == EVENT_LONG_HELD ? "rule"
                : e->type == EVENT_PUBLISHED ? "message"
                                             : "because",
                e->text);
    fact_id(p, out, "session", e->session);
    fact_id(p, out, "lease", e->lease);
    fact(out, "number %" PRIu64 ".%u", e->index, e->ordinal);
}
