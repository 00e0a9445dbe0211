/* The fields are those of watch streams where both have them (service/request/watch_event.c). A
 * consumer drops ids that it has seen, so every record has an id of its own. */
#include "sinks/event_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/codec.h"
#include "base/text.h"
#include "tls/digest.h"
#include "wire/json_write.h"

/* ---- ids ---- */

enum { MARK_BYTES = 8 };

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

/* ---- values ----
 *
 * A line has fixed keys, so they are literals with their commas and colons. The line fits into
 * EVENT_JSON_MAX bytes; `full` would be a defect of that limit. */

#define PUT(w, literal) write_bytes(w, literal, sizeof(literal) - 1)

static void put_number(struct writer *w, uint64_t value)
{
    if (w->end - w->at < TEXT_U64) {
        w->full = true;
        return;
    }
    w->at += text_put_u64(w->at, value);
}

static void put_string(struct writer *w, struct slice text)
{
    if ((size_t)(w->end - w->at) < JSON_QUOTED_MAX(text.len)) {
        w->full = true;
        return;
    }
    w->at += json_quote(text, w->at);
}

static void put_time(struct writer *w, uint64_t wall_ms)
{
    if (w->end - w->at < JSON_TIME) {
        w->full = true;
        return;
    }
    json_time(wall_ms, w->at);
    w->at += JSON_TIME;
}

/* Of words that need no escape. */
static void put_word(struct writer *w, const char *word)
{
    write_u8(w, '"');
    write_bytes(w, word, strlen(word));
    write_u8(w, '"');
}

/* `,"KEY":` and the value, if there is one. */
#define PUT_TEXT(w, key, text)       \
    do {                             \
        struct slice value = (text); \
        if (value.len > 0) {         \
            PUT(w, ",\"" key "\":"); \
            put_string(w, value);    \
        }                            \
    } while (false)

#define PUT_U64(w, key, value) (PUT(w, ",\"" key "\":"), put_number(w, value))
#define PUT_NAMED(w, key, word) (PUT(w, ",\"" key "\":"), put_word(w, word))

/* ---- fields ---- */

static void put_pair(struct writer *w, uint64_t first, uint64_t second)
{
    put_number(w, first);
    write_u8(w, '-');
    put_number(w, second);
}

static void put_id(struct writer *w, const struct logged_event *r)
{
    PUT(w, "{\"id\":\"");
    if (r->kind == LOGGED_AUDIT) {
        PUT(w, "audit-");
        put_pair(w, r->audit.tenant, r->audit.number);
    } else {
        put_pair(w, r->id.index, r->id.ordinal);
        if (r->event.tier == TIER_EFFICIENCY) {
            char mark[2 * MARK_BYTES + 1];
            mark_of(&r->event, mark);
            write_u8(w, '-');
            write_bytes(w, mark, 2 * MARK_BYTES);
        }
    }
    write_u8(w, '"');
}

static void put_tenant(struct writer *w, const struct event_json *json, uint32_t tenant)
{
    struct slice name = json->tenant_name(json->ctx, tenant);
    if (name.len > 0) {
        PUT_TEXT(w, "tenant", name);
    } else {
        PUT(w, ",\"tenant\":null");
    }
    PUT_U64(w, "tenant_id", tenant);
}

static void put_head(struct writer *w, const struct event_json *json, const char *type,
                     uint64_t wall_ms)
{
    PUT_U64(w, "schema", EVENT_JSON_SCHEMA);
    PUT_NAMED(w, "type", type);
    PUT(w, ",\"time\":");
    put_time(w, wall_ms);
    PUT(w, ",\"cluster\":");
    put_string(w, json->cluster);
}

static void put_tier(struct writer *w, enum tier tier, bool is_lossy)
{
    PUT_NAMED(w, "tier", tier_name(tier));
    if (is_lossy) {
        PUT(w, ",\"lossy\":true");
    } else {
        PUT(w, ",\"lossy\":false");
    }
}

static bool is_of_election(const struct event *e)
{
    return e->type == EVENT_LEADER_CHANGED || e->type == EVENT_PROCLAIMED;
}

/* An operator's words, or the word of a rule. */
static void put_reason(struct writer *w, const struct event *e)
{
    switch (e->type) {
    case EVENT_WAIT_ENDED:
    case EVENT_RENEWAL_FAILED:
    case EVENT_FENCE_REJECTED:
        PUT_NAMED(w, "reason", reason_name(e->reason));
        break;
    case EVENT_LONG_HELD:
        PUT(w, ",\"prefix\":"); /* may be empty: a rule for all names */
        put_string(w, e->text);
        break;
    case EVENT_LEADER_CHANGED:
    case EVENT_PROCLAIMED:
        PUT(w, ",\"value\":");
        put_string(w, e->text);
        if (e->client.len == 0) {
            PUT(w, ",\"vacant\":true");
        } else {
            PUT(w, ",\"vacant\":false");
        }
        break;
    default:
        PUT_TEXT(w, "reason", e->text);
        break;
    }
}

static void put_deadline_key(struct writer *w, enum event_type type)
{
    switch (type) {
    case EVENT_QUEUED:
    case EVENT_WAIT_ENDED:
        PUT(w, ",\"gives_up_at\":");
        break;
    case EVENT_DELAYED:
        PUT(w, ",\"delayed_until\":");
        break;
    case EVENT_DETACHED:
        PUT(w, ",\"leaves_at\":");
        break;
    case EVENT_REVOKE_REQUESTED:
        PUT(w, ",\"revoked_at\":");
        break;
    default:
        PUT(w, ",\"expires_at\":");
        break;
    }
}

static void put_times(struct writer *w, const struct event *e)
{
    if (e->deadline_ms != 0 && e->deadline_ms != UINT64_MAX && e->deadline_ms >= e->at_ms) {
        put_deadline_key(w, e->type);
        put_time(w, e->wall_ms + (e->deadline_ms - e->at_ms));
    }
    if (e->ttl_ms != 0) {
        PUT_U64(w, "ttl_ms", e->ttl_ms);
    }
    if (e->since_ms != 0 && e->since_ms <= e->at_ms && e->type != EVENT_GRANTED) {
        PUT_U64(w, "held_ms", e->at_ms - e->since_ms);
    }
    if (e->waited_ms != 0) {
        PUT_U64(w, "waited_ms", e->waited_ms);
    }
}

/* The rest of what the session's own stream and the nodes get. */
static bool is_for_consumers(enum event_type type)
{
    return type != EVENT_LOST && type != EVENT_SUPERSEDED && type != EVENT_PUBLISHED &&
           type != EVENT_LINGERS;
}

static void write_event(struct writer *w, const struct event_json *json, const struct event *e)
{
    put_head(w, json, event_name(e->type), e->wall_ms);
    if (e->name.len + e->client.len > 0) {
        put_tenant(w, json, e->tenant);
    }
    put_tier(w, (enum tier)e->tier, e->tier == TIER_EFFICIENCY);
    PUT_TEXT(w, "name", e->name);
    if (e->name.len > 0 && e->type != EVENT_FENCE_REJECTED && e->type != EVENT_RENEWAL_FAILED &&
        !is_of_election(e)) {
        PUT_NAMED(w, "mode", mode_name(e->mode));
    }
    if (e->token != 0) {
        PUT_U64(w, "token", e->token);
    }
    PUT_TEXT(w, "client_id", e->client);
    PUT_TEXT(w, "owner", e->owner);
    if (e->parts > 1) {
        PUT_U64(w, "part", e->part);
        PUT_U64(w, "parts", e->parts);
    }
    PUT_TEXT(w, "actor", e->actor);
    put_reason(w, e);
    if (e->ended != ENDED_NOT) {
        PUT_NAMED(w, "ended", ended_name(e->ended));
    }
    put_times(w, e);
    PUT_TEXT(w, "trace", e->trace);
}

static void write_audit(struct writer *w, const struct event_json *json, const struct audit_view *a)
{
    put_head(w, json, "audit", a->wall_ms);
    put_tenant(w, json, a->tenant);
    /* The record of both tiers is replicated. */
    put_tier(w, a->is_note ? TIER_EFFICIENCY : TIER_CORRECTNESS, false);
    if (a->is_of_cluster) {
        PUT_TEXT(w, "resource", a->resource);
    } else {
        PUT_TEXT(w, "name", a->resource);
    }
    PUT_U64(w, "number", a->number);
    PUT(w, ",\"action\":");
    put_string(w, a->action);
    PUT_TEXT(w, "actor", a->actor);
    PUT_TEXT(w, "reason", a->reason);
    PUT_U64(w, "holders", a->count);
    if (a->is_fence_reset) {
        PUT_U64(w, "slot", a->slot);
        PUT_U64(w, "previous", a->mark_before);
        PUT_U64(w, "highest", a->mark_after);
    }
    PUT_TEXT(w, "trace", a->trace);
}

/* ---- lines ---- */

static struct writer begin_line(struct buffer *out)
{
    uint8_t *space = buffer_reserve(out, EVENT_JSON_MAX);
    hf_assert(space != NULL);
    return writer_make(space, EVENT_JSON_MAX);
}

static void end_line(struct writer *w, struct buffer *out)
{
    write_u8(w, '}');
    hf_assert(!w->full);
    buffer_commit(out, EVENT_JSON_MAX - (size_t)(w->end - w->at));
}

bool event_json_write(const struct event_json *json, const struct logged_event *record,
                      struct buffer *out)
{
    if (record->kind == LOGGED_EVENT && !is_for_consumers(record->event.type)) {
        return false;
    }
    struct writer w = begin_line(out);
    put_id(&w, record);
    if (record->kind == LOGGED_EVENT) {
        write_event(&w, json, &record->event);
    } else {
        write_audit(&w, json, &record->audit);
    }
    end_line(&w, out);
    return true;
}

void event_json_write_gap(const struct event_json *json, uint64_t from, uint64_t to,
                          uint64_t wall_ms, struct buffer *out)
{
    struct writer w = begin_line(out);
    PUT(&w, "{\"id\":\"gap-");
    put_pair(&w, from, to);
    write_u8(&w, '"');
    put_head(&w, json, "gap", wall_ms);
    PUT(&w, ",\"lossy\":true");
    PUT_U64(&w, "from", from);
    PUT_U64(&w, "to", to);
    end_line(&w, out);
}

struct slice event_json_name(const struct logged_event *record)
{
    if (record->kind == LOGGED_EVENT) {
        return record->event.name;
    }
    return record->audit.is_of_cluster ? slice_make(NULL, 0) : record->audit.resource;
}
