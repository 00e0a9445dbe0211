/* Commands, results and events in a form for people. */
#include "driver.h"

#include <inttypes.h>

static void text(FILE *f, struct slice bytes)
{
    fputc('"', f);
    for (size_t i = 0; i < bytes.len && i < 40; i++) {
        uint8_t byte = bytes.data[i];
        if (byte >= ' ' && byte < 0x7f) {
            fputc(byte, f);
        } else {
            fprintf(f, "\\x%02x", byte);
        }
    }
    fputs(bytes.len > 40 ? "…\"" : "\"", f);
}

static void show_id(FILE *f, struct id id)
{
    fprintf(f, "%" PRIx64 ":%" PRIx64, id.high, id.low & 0xffffffff);
}

static void field_u32(FILE *f, const char *name, const uint32_t *value)
{
    if (*value != 0) {
        fprintf(f, " %s=%" PRIu32, name, *value);
    }
}

static void field_u64(FILE *f, const char *name, const uint64_t *value)
{
    if (*value == UINT64_MAX) {
        fprintf(f, " %s=max", name);
    } else if (*value != 0) {
        fprintf(f, " %s=%" PRIu64, name, *value);
    }
}

static void field_id(FILE *f, const char *name, const struct id *value)
{
    if (!id_is_zero(*value)) {
        fprintf(f, " %s=", name);
        show_id(f, *value);
    }
}

static void field_slice(FILE *f, const char *name, const struct slice *value)
{
    if (value->len > 0) {
        fprintf(f, " %s=", name);
        text(f, *value);
    }
}

static void field_names(FILE *f, const char *name, const struct names *value)
{
    fprintf(f, " %s=%" PRIu32 "[", name, value->count);
    for (uint32_t i = 0; i < value->count && i < 6; i++) {
        text(f, value->at[i]);
    }
    fprintf(f, "%s]", value->count > 6 ? "…" : "");
}

static void field_ids(FILE *f, const char *name, const struct ids *value)
{
    fprintf(f, " %s=%" PRIu32 "[", name, value->count);
    for (uint32_t i = 0; i < value->count && i < 6; i++) {
        fputs(i > 0 ? " " : "", f);
        show_id(f, ids_at(value, i));
    }
    fprintf(f, "%s]", value->count > 6 ? "…" : "");
}

static void field_checks(FILE *f, const char *name, const struct packed *value)
{
    struct reader r = packed_reader(value);
    struct key_check check;
    fprintf(f, " %s=%" PRIu32 "[", name, value->count);
    while (unpack_check(&r, &check)) {
        text(f, check.name);
        fprintf(f, "@%" PRIu64 "+%" PRIu32 "-%" PRIu64, check.version.number, check.version.changes,
                check.version.deadline_ms);
    }
    fputs("]", f);
}

static void field_effects(FILE *f, const char *name, const struct packed *value)
{
    static const char *const kinds[EFFECT_COUNT] = {"none", "put",     "expire",
                                                    "drop", "counter", "publish"};
    struct reader r = packed_reader(value);
    struct effect e;
    fprintf(f, " %s=%" PRIu32 "[", name, value->count);
    while (unpack_effect(&r, &e)) {
        fprintf(f, " %s", kinds[e.kind]);
        text(f, e.name);
        field_u32(f, "flags", &e.flags);
        field_slice(f, "value", &e.value);
        field_id(f, "lease", &e.lease);
        field_u64(f, "ttl_ms", &e.ttl_ms);
        if (e.kind == EFFECT_COUNTER) {
            fprintf(f, "=%" PRId64, e.number);
        }
    }
    fputs("]", f);
}

static void field_changes(FILE *f, const char *name, const struct packed *value)
{
    struct reader r = packed_reader(value);
    struct policy_change c;
    fprintf(f, " %s=%" PRIu32 "[", name, value->count);
    while (unpack_policy_change(&r, &c)) {
        struct reader grants = packed_reader(&c.grants);
        struct policy_grant g;
        fprintf(f, " %s", policy_change_name(c.kind));
        field_slice(f, "tenant", &c.tenant);
        field_slice(f, "name", &c.name);
        while (unpack_policy_grant(&grants, &g)) {
            field_slice(f, "in", &g.tenant);
            field_slice(f, "on", &g.prefix);
            field_u32(f, "rights", &g.rights);
        }
        field_u64(f, "token", &c.token);
        field_slice(f, "serial", &c.serial);
    }
    fputs("]", f);
}

void describe_command(FILE *f, const struct command *c)
{
    fputs(command_name(c->type), f);
    field_u32(f, "tenant", &c->tenant);
    field_u32(f, "principal", &c->principal);
    field_id(f, "session", &c->session);
    field_slice(f, "request_id", &c->request_id);
    field_u64(f, "seq", &c->seq);
    field_u64(f, "acked", &c->acked_through);
    switch (c->type) {
#define F(role, since, kind, field, max) field_##kind(f, #field, &part->field);
#define X(symbol, name, since)                        \
    case COMMAND_##symbol: {                          \
        const struct command_##name *part = &c->name; \
        (void)part;                                   \
        COMMAND_FIELDS_##name(F) break;               \
    }
        COMMAND_LIST(X)
#undef X
#undef F
    case COMMAND_NONE:
    case COMMAND_COUNT:
        break;
    }
    fputc('\n', f);
}

void describe_result(FILE *f, const struct result *r)
{
    static const char *const outcomes[] = {"done", "granted", "queued", "refused"};
    if (r->error != HF_OK) {
        fprintf(f, "error %s\n", hf_error_code(r->error));
        return;
    }
    fprintf(f, "%s", outcomes[r->outcome]);
    if (r->reason != REASON_NONE) {
        fprintf(f, " reason=%s", reason_name(r->reason));
    }
    if (r->ended != ENDED_NOT) {
        fprintf(f, " ended=%s", ended_name(r->ended));
    }
    fprintf(f, "%s%s%s%s mode=%s", r->replayed ? " replayed" : "",
            r->deadlock_unchecked ? " unchecked" : "", r->accepted ? " accepted" : "",
            r->more ? " more" : "", mode_name(r->mode));
    field_u64(f, "token", &r->token);
    field_id(f, "lease", &r->lease);
    field_u64(f, "deadline", &r->deadline_ms);
    field_u64(f, "ttl", &r->ttl_ms);
    field_u64(f, "attachment", &r->attachment);
    field_u64(f, "wait_deadline", &r->wait_deadline_ms);
    field_u64(f, "delayed_until", &r->delayed_until_ms);
    field_u64(f, "highest", &r->highest);
    field_u32(f, "slot", &r->slot);
    field_u32(f, "depth", &r->depth);
    field_u32(f, "queue", &r->queue_length);
    field_u32(f, "position", &r->queue_position);
    field_u32(f, "count", &r->count);
    field_u32(f, "holders", &r->holders);
    if (r->has_holder) {
        field_slice(f, "holder", &r->holder.client);
        field_slice(f, "holder_owner", &r->holder.owner);
        field_u64(f, "since", &r->holder.since_ms);
        field_u64(f, "holder_deadline", &r->holder.deadline_ms);
    }
    field_slice(f, "reserved_for", &r->reserved_for);
    field_slice(f, "name", &r->name);
    for (uint32_t i = 0; i < r->cycle_length; i++) {
        fputs(" cycle:", f);
        text(f, r->cycle[i].client);
        text(f, r->cycle[i].owner);
        text(f, r->cycle[i].name);
    }
    fputc('\n', f);
}

void describe_event(FILE *f, const struct event *e)
{
    fprintf(f, "%s %" PRIu64 ".%" PRIu32 " mode=%s", event_name(e->type), e->index, e->ordinal,
            mode_name(e->mode));
    field_u32(f, "tenant", &e->tenant);
    field_slice(f, "name", &e->name);
    fprintf(f, " part=%" PRIu32 "/%" PRIu32, e->part, e->parts);
    field_u64(f, "token", &e->token);
    field_u32(f, "node", &e->node);
    field_u64(f, "at", &e->at_ms);
    field_u64(f, "attachment", &e->attachment);
    field_u64(f, "deadline", &e->deadline_ms);
    field_id(f, "session", &e->session);
    field_id(f, "lease", &e->lease);
    if (e->reason != REASON_NONE) {
        fprintf(f, " reason=%s", reason_name(e->reason));
    }
    if (e->ended != ENDED_NOT) {
        fprintf(f, " ended=%s", ended_name(e->ended));
    }
    field_u32(f, "slot", &e->slot);
    field_slice(f, "client", &e->client);
    field_slice(f, "owner", &e->owner);
    field_slice(f, "actor", &e->actor);
    field_slice(f, "text", &e->text);
    fputc('\n', f);
}
