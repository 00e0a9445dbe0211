/* The fields are those of watch streams where both have them (service/request/watch_event.c). A
 * consumer drops ids that it has seen, so every record has an id of its own. */
#include "sinks/event_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "tls/digest.h"
#include "wire/json_write.h"

/* ---- ids ---- */

enum { ID_TEXT = 64, MARK_BYTES = 8 };

/* Events of the tier EFFICIENCY share the id of the newest replicated event. This mark is the same
 * whenever the event is sent again, and differs for another event. */
static void mark_of(const struct event *e, char out[2 * MARK_BYTES + 1])
{
    uint8_t numbers[64];
    uint8_t hash[DIGEST_SIZE];
    int len = snprintf((char *)numbers, sizeof(numbers), "%" PRIu64 ".%" PRIu64 ".%u.%u", e->at_ms,
                       e->token, (unsigned)e->type, e->part);
    hf_assert(len > 0 && (size_t)len < sizeof(numbers));
    const struct slice parts[] = {slice_make(numbers, (size_t)len),
                                  e->name,
                                  slice_of("\n"),
                                  e->client,
                                  slice_of("\n"),
                                  e->owner};
    digest_hmac(slice_of("event"), parts, sizeof(parts) / sizeof(parts[0]), hash);
    for (int i = 0; i < MARK_BYTES; i++) {
        snprintf(out + 2 * i, 3, "%02x", hash[i]);
    }
}

static void put_id(struct json_writer *w, const struct logged_event *r)
{
    char text[ID_TEXT];
    if (r->kind == LOGGED_AUDIT) {
        snprintf(text, sizeof(text), "audit-%" PRIu32 "-%" PRIu64, r->audit.tenant,
                 r->audit.number);
    } else if (r->event.tier == TIER_EFFICIENCY) {
        char mark[2 * MARK_BYTES + 1];
        mark_of(&r->event, mark);
        snprintf(text, sizeof(text), "%" PRIu64 "-%" PRIu32 "-%s", r->id.index, r->id.ordinal,
                 mark);
    } else {
        snprintf(text, sizeof(text), "%" PRIu64 "-%" PRIu32, r->id.index, r->id.ordinal);
    }
    json_put_text(w, "id", text);
}

/* ---- fields ---- */

static void put_text(struct json_writer *w, const char *key, struct slice text)
{
    if (text.len > 0) {
        json_put_string(w, key, text);
    }
}

static void put_tenant(struct json_writer *w, const struct event_json *json, uint32_t tenant)
{
    struct slice name = json->tenant_name(json->ctx, tenant);
    if (name.len > 0) {
        json_put_string(w, "tenant", name);
    } else {
        json_put_null(w, "tenant");
    }
    json_put_u64(w, "tenant_id", tenant);
}

static void put_head(struct json_writer *w, const struct event_json *json, const char *type,
                     uint64_t wall_ms)
{
    json_put_u64(w, "schema", EVENT_JSON_SCHEMA);
    json_put_text(w, "type", type);
    json_put_time(w, "time", wall_ms);
    json_put_string(w, "cluster", json->cluster);
}

static void put_tier(struct json_writer *w, enum tier tier, bool is_lossy)
{
    json_put_text(w, "tier", tier_name(tier));
    json_put_bool(w, "lossy", is_lossy);
}

static bool is_of_election(const struct event *e)
{
    return e->type == EVENT_LEADER_CHANGED || e->type == EVENT_PROCLAIMED;
}

/* An operator's words, or the word of a rule. */
static void put_reason(struct json_writer *w, const struct event *e)
{
    switch (e->type) {
    case EVENT_WAIT_ENDED:
    case EVENT_RENEWAL_FAILED:
    case EVENT_FENCE_REJECTED:
        json_put_text(w, "reason", reason_name(e->reason));
        break;
    case EVENT_LONG_HELD:
        json_put_string(w, "prefix", e->text); /* may be empty: a rule for all names */
        break;
    case EVENT_LEADER_CHANGED:
    case EVENT_PROCLAIMED:
        json_put_string(w, "value", e->text);
        json_put_bool(w, "vacant", e->client.len == 0);
        break;
    default:
        put_text(w, "reason", e->text);
        break;
    }
}

static const char *deadline_key(enum event_type type)
{
    switch (type) {
    case EVENT_QUEUED:
    case EVENT_WAIT_ENDED:
        return "gives_up_at";
    case EVENT_DELAYED:
        return "delayed_until";
    case EVENT_DETACHED:
        return "leaves_at";
    case EVENT_REVOKE_REQUESTED:
        return "revoked_at";
    default:
        return "expires_at";
    }
}

static void put_times(struct json_writer *w, const struct event *e)
{
    if (e->deadline_ms != 0 && e->deadline_ms != UINT64_MAX && e->deadline_ms >= e->at_ms) {
        json_put_time(w, deadline_key(e->type), e->wall_ms + (e->deadline_ms - e->at_ms));
    }
    if (e->ttl_ms != 0) {
        json_put_u64(w, "ttl_ms", e->ttl_ms);
    }
    if (e->since_ms != 0 && e->since_ms <= e->at_ms && e->type != EVENT_GRANTED) {
        json_put_u64(w, "held_ms", e->at_ms - e->since_ms);
    }
    if (e->waited_ms != 0) {
        json_put_u64(w, "waited_ms", e->waited_ms);
    }
}

/* The rest of what the session's own stream and the nodes get. */
static bool is_for_consumers(enum event_type type)
{
    return type != EVENT_LOST && type != EVENT_SUPERSEDED && type != EVENT_PUBLISHED &&
           type != EVENT_LINGERS;
}

static void write_event(struct json_writer *w, const struct event_json *json, const struct event *e)
{
    put_head(w, json, event_name(e->type), e->wall_ms);
    if (e->name.len + e->client.len > 0) {
        put_tenant(w, json, e->tenant);
    }
    put_tier(w, (enum tier)e->tier, e->tier == TIER_EFFICIENCY);
    put_text(w, "name", e->name);
    if (e->name.len > 0 && e->type != EVENT_FENCE_REJECTED && e->type != EVENT_RENEWAL_FAILED &&
        !is_of_election(e)) {
        json_put_text(w, "mode", mode_name(e->mode));
    }
    if (e->token != 0) {
        json_put_u64(w, "token", e->token);
    }
    put_text(w, "client_id", e->client);
    put_text(w, "owner", e->owner);
    if (e->parts > 1) {
        json_put_u64(w, "part", e->part);
        json_put_u64(w, "parts", e->parts);
    }
    put_text(w, "actor", e->actor);
    put_reason(w, e);
    if (e->ended != ENDED_NOT) {
        json_put_text(w, "ended", ended_name(e->ended));
    }
    put_times(w, e);
    put_text(w, "trace", e->trace);
}

static void write_audit(struct json_writer *w, const struct event_json *json,
                        const struct audit_view *a)
{
    put_head(w, json, "audit", a->wall_ms);
    put_tenant(w, json, a->tenant);
    /* The record of both tiers is replicated. */
    put_tier(w, a->is_note ? TIER_EFFICIENCY : TIER_CORRECTNESS, false);
    put_text(w, a->is_of_cluster ? "resource" : "name", a->resource);
    json_put_u64(w, "number", a->number);
    json_put_string(w, "action", a->action);
    put_text(w, "actor", a->actor);
    put_text(w, "reason", a->reason);
    json_put_u64(w, "holders", a->count);
    if (a->is_fence_reset) {
        json_put_u64(w, "slot", a->slot);
        json_put_u64(w, "previous", a->mark_before);
        json_put_u64(w, "highest", a->mark_after);
    }
    put_text(w, "trace", a->trace);
}

bool event_json_write(const struct event_json *json, const struct logged_event *record,
                      struct buffer *out)
{
    struct json_writer w;
    if (record->kind == LOGGED_EVENT && !is_for_consumers(record->event.type)) {
        return false;
    }
    json_writer_init(&w, out);
    json_write_open(&w, '{');
    put_id(&w, record);
    if (record->kind == LOGGED_EVENT) {
        write_event(&w, json, &record->event);
    } else {
        write_audit(&w, json, &record->audit);
    }
    json_write_close(&w);
    return true;
}

void event_json_write_gap(const struct event_json *json, uint64_t from, uint64_t to,
                          uint64_t wall_ms, struct buffer *out)
{
    struct json_writer w;
    char text[ID_TEXT];
    snprintf(text, sizeof(text), "gap-%" PRIu64 "-%" PRIu64, from, to);
    json_writer_init(&w, out);
    json_write_open(&w, '{');
    json_put_text(&w, "id", text);
    put_head(&w, json, "gap", wall_ms);
    json_put_bool(&w, "lossy", true);
    json_put_u64(&w, "from", from);
    json_put_u64(&w, "to", to);
    json_write_close(&w);
}

struct slice event_json_name(const struct logged_event *record)
{
    if (record->kind == LOGGED_EVENT) {
        return record->event.name;
    }
    return record->audit.is_of_cluster ? slice_make(NULL, 0) : record->audit.resource;
}
