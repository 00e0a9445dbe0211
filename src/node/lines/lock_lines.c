/* Which events are lines, at which level, with which fields. */
#include "node/lines/lock_lines.h"

#include <stdio.h>
#include <string.h>

#include "node/lines/recent_ends.h"

enum { FIELDS_MAX = 20, ID_TEXT = 33, PER_SECOND = 1000 };

struct lock_lines {
    const struct memory *memory;
    const struct journal *journal;
    struct recent_ends *lost;     /* ends that the holder may not have expected */
    struct recent_ends *released; /* only while releases are lines */
    uint64_t forced_index;        /* log entry whose forced grants are being counted */
    uint32_t forced;
};

struct line_kind {
    const char *event; /* NULL: no line */
    enum journal_level level;
};

static const struct line_kind kinds[EVENT_COUNT] = {
    [EVENT_GRANTED] = {"lock_acquired", JOURNAL_INFO},
    [EVENT_RELEASED] = {"lock_released", JOURNAL_INFO},
    [EVENT_EXPIRED] = {"lock_expired", JOURNAL_INFO},
    [EVENT_FORCED] = {"lock_forced", JOURNAL_WARN},
    [EVENT_REVOKE_REQUESTED] = {"revoke_requested", JOURNAL_WARN},
    [EVENT_REVOKED] = {"lock_revoked", JOURNAL_WARN},
    [EVENT_RENEWAL_FAILED] = {"renewal_failed", JOURNAL_INFO},
    [EVENT_FENCE_REJECTED] = {"fence_rejected", JOURNAL_INFO},
    [EVENT_SESSION_EXPIRED] = {"session_expired", JOURNAL_INFO},
    [EVENT_LEADER_CHANGED] = {"election_changed", JOURNAL_INFO},
    [EVENT_LONG_HELD] = {"lock_long_held", JOURNAL_WARN},
};

struct lock_line {
    struct journal_field fields[FIELDS_MAX];
    size_t count;
    char lease[ID_TEXT];
    char session[ID_TEXT];
};

struct lock_lines *lock_lines_new(const struct memory *memory, const struct journal *journal)
{
    struct lock_lines *lines = memory_alloc(memory, sizeof(*lines));
    *lines = (struct lock_lines){.memory = memory,
                                 .journal = journal,
                                 .lost = recent_ends_new(memory),
                                 .released = recent_ends_new(memory)};
    return lines;
}

void lock_lines_free(struct lock_lines *lines)
{
    recent_ends_free(lines->lost);
    recent_ends_free(lines->released);
    memory_free(lines->memory, lines, sizeof(*lines));
}

/* ---- fields ---- */

static void put(struct lock_line *l, struct journal_field field)
{
    hf_assert(l->count < FIELDS_MAX);
    l->fields[l->count++] = field;
}

static void put_slice(struct lock_line *l, const char *name, struct slice text)
{
    if (text.len > 0) {
        put(l, JOURNAL_SLICE(name, text));
    }
}

static void put_id(struct lock_line *l, const char *name, struct id id, char text[ID_TEXT])
{
    if (!id_is_zero(id)) {
        (void)snprintf(text, ID_TEXT, "%016llx%016llx", (unsigned long long)id.high,
                       (unsigned long long)id.low);
        put(l, JOURNAL_TEXT(name, text));
    }
}

static void put_seconds(struct lock_line *l, const char *name, uint64_t ms)
{
    if (ms > 0) {
        put(l, JOURNAL_SECONDS(name, ms));
    }
}

static bool is_end(const struct event *e)
{
    return e->type == EVENT_RELEASED || e->type == EVENT_EXPIRED || e->type == EVENT_FORCED ||
           e->type == EVENT_REVOKED;
}

static void put_holder(struct lock_line *l, const struct event *e)
{
    put_slice(l, "resource", e->name);
    put_slice(l, "clientId", e->client);
    if (e->owner.len > 0) {
        put_slice(l, "ownerId", e->owner);
    } else if (e->type != EVENT_RENEWAL_FAILED) {
        put_slice(l, "ownerId", e->client); /* an owner without name is its client */
    }
    put_id(l, "leaseId", e->lease, l->lease);
    if (e->type == EVENT_SESSION_EXPIRED) {
        put_id(l, "sessionId", e->session, l->session);
    }
    if (e->token != 0) {
        put(l, JOURNAL_NUMBER("fencingToken", e->token));
    }
}

static void put_times(struct lock_line *l, const struct event *e)
{
    if (e->type == EVENT_GRANTED) {
        put_seconds(l, "ttlSeconds", e->ttl_ms);
        put_seconds(l, "waitedSeconds", e->waited_ms);
    }
    if ((is_end(e) || e->type == EVENT_LONG_HELD) && e->since_ms != 0 && e->at_ms >= e->since_ms) {
        put(l, JOURNAL_SECONDS("heldSeconds", e->at_ms - e->since_ms));
    }
    if (e->type == EVENT_REVOKE_REQUESTED) {
        put(l, JOURNAL_SECONDS("graceSeconds",
                               e->deadline_ms > e->at_ms ? e->deadline_ms - e->at_ms : 0));
    }
}

/* `has_tier`: of a token or lease that no grant had, it is unknown. */
static void put_rest(struct lock_line *l, const struct event *e, bool has_tier)
{
    if (has_tier) {
        put(l, JOURNAL_TEXT("tier", tier_name((enum tier)e->tier)));
    }
    if (e->reason != REASON_NONE) {
        put(l, JOURNAL_TEXT("reason", reason_name(e->reason)));
    }
    if (e->ended != ENDED_NOT && e->type != EVENT_RELEASED) {
        put(l, JOURNAL_TEXT("ended", ended_name(e->ended)));
    }
    if (e->actor.len > 0) { /* of a force-unlock or a revocation */
        put_slice(l, "actorId", e->actor);
        put_slice(l, "reason", e->text);
    }
    if (e->type == EVENT_LONG_HELD) { /* the prefix of the rule; "": of all names */
        put(l, JOURNAL_SLICE("rule", e->text));
    }
    put_slice(l, "trace", e->trace);
}

static void write_line(struct lock_lines *lines, const struct event *e, bool has_tier)
{
    struct lock_line l;
    l.count = 0;
    put_holder(&l, e);
    put_times(&l, e);
    put_rest(&l, e, has_tier);
    if (l.count > 0) {
        lines->journal->write(lines->journal->ctx, kinds[e->type].level, JOURNAL_LOCK,
                              kinds[e->type].event, l.fields, l.count);
    }
}

/* ---- lines that need more than their event ---- */

/* The client named only a token or a lease. Of a grant that ended some time ago, or that never was, the
 * line has what the client sent. */
static void write_failed_renewal(struct lock_lines *lines, const struct event *e)
{
    struct recent_end end;
    struct event full = *e;
    bool is_known = recent_ends_find(lines->lost, e->tenant, e->token, e->lease, &end) ||
                    recent_ends_find(lines->released, e->tenant, e->token, e->lease, &end);
    if (is_known && (e->token == 0 || e->token == end.token)) {
        full.name = e->name.len > 0 ? e->name : end.name;
        full.client = e->client.len > 0 ? e->client : end.client;
        full.owner = end.owner.len > 0 ? end.owner : end.client;
        full.lease = end.lease;
        full.token = end.token;
        full.trace = end.trace;
        full.tier = end.tier;
    }
    write_line(lines, &full, is_known || e->ended != ENDED_NOT);
}

/* A lock can have ten thousand holders, and a line is a system call. */
static bool is_over_limit(struct lock_lines *lines, const struct event *e)
{
    if (kinds[e->type].level != JOURNAL_WARN || e->type == EVENT_LONG_HELD) {
        return false; /* the leader reports a bounded number a second (node_alerts.c) */
    }
    if (lines->forced_index != e->index) {
        lines->forced_index = e->index;
        lines->forced = 0;
    }
    lines->forced++;
    if (lines->forced == LOCK_LINES_FORCED_MAX + 1) {
        journal_note(lines->journal, WARN, LOCK, "more_holders_forced",
                     JOURNAL_SLICE("resource", e->name),
                     JOURNAL_NUMBER("logged", LOCK_LINES_FORCED_MAX),
                     JOURNAL_TEXT("next", "`holdfast audit` has the number of all holders"));
    }
    return lines->forced > LOCK_LINES_FORCED_MAX;
}

void lock_lines_note(struct lock_lines *lines, const struct event *e, bool leads)
{
    const struct journal *j = lines->journal;
    if (kinds[e->type].event == NULL) {
        return;
    }
    /* Before any formatting: this runs for every grant and release. */
    bool is_line = j->wants(j->ctx, kinds[e->type].level, JOURNAL_LOCK);
    if (is_end(e) && (is_line || e->type != EVENT_RELEASED)) {
        recent_ends_add(e->type == EVENT_RELEASED ? lines->released : lines->lost, e);
    }
    if (!leads || !is_line || is_over_limit(lines, e)) {
        return;
    }
    if (e->type == EVENT_RENEWAL_FAILED) {
        write_failed_renewal(lines, e);
    } else {
        write_line(lines, e, e->type != EVENT_FENCE_REJECTED);
    }
}
