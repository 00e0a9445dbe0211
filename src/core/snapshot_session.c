/* Sessions of a snapshot and their replies (snapshot_build.h). */
#include "core/snapshot_build.h"

#include "base/text.h"

static const char *check_extra(const struct builder *b, const struct session_record *f)
{
    if (f->acked_through >= LIMIT_NUMBER || f->stream > b->c->attachment) {
        return "its stream or seq is out of range";
    }
    if (f->node != 0 && f->stream == 0) {
        return "it has no stream, and a node that carries it";
    }
    if (f->linger_ms > LIMIT_LINGER_MAX_MS || f->lingers_until_ms >= SNAPSHOT_DEADLINE_END ||
        (f->lingers_until_ms != 0 && f->linger_ms == 0)) {
        return "its linger time is out of range";
    }
    return text_is_utf8(f->metadata) ? NULL : "its metadata is no UTF-8";
}

static const char *check_session(const struct builder *b, const struct session_record *f)
{
    if (id_is_zero(f->id)) {
        return undecodable;
    }
    if (b->counts[RECORD_SESSION] > LIMIT_SESSIONS) {
        return "there are more than 16,000,000";
    }
    if (f->client.len == 0) {
        return "client id is empty";
    }
    if (!text_is_plain(f->client)) {
        return "client id is not valid";
    }
    if (is_id_taken(b->c, f->id)) {
        return "its id comes twice";
    }
    bool is_private = (f->flags & SESSION_IS_PRIVATE) != 0; /* perhaps of a key: see its grant */
    if (is_private ? !is_key_ttl(b, f->ttl_ms) : !is_ttl(f->ttl_ms)) {
        return "its TTL is out of range";
    }
    if (!is_past(b, f->life_ms)) {
        return "its last sign of life is in the future";
    }
    if ((f->flags & SESSION_HAS_TIMER) && !is_deadline(f->timer_ms)) {
        return "its deadline is out of range";
    }
    if ((f->flags & SESSION_IS_PRIVATE) && (f->flags & SESSION_HAS_EXTRA)) {
        return "it is private and has what only real sessions have";
    }
    if ((f->flags & SESSION_IS_PURGE_CURSOR) &&
        (b->c->purge_at != 0 || b->c->version < POLICY_VERSION)) {
        return "the purge is at two sessions, or not of this version";
    }
    return check_extra(b, f);
}

const char *build_session(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    struct session_record f;
    session_record_read(r, c->version, &f);
    if (!reader_done(r)) {
        return undecodable;
    }
    const char *wrong = check_session(b, &f);
    if (wrong != NULL) {
        return wrong;
    }
    bool is_private = (f.flags & SESSION_IS_PRIVATE) != 0;
    tenant_charge(c, f.tenant);
    b->session = session_new(c, f.tenant, f.id, f.client, is_private, f.ttl_ms);
    session_at(c, b->session)->principal = f.principal;
    if (f.flags & SESSION_IS_PURGE_CURSOR) {
        c->purge_at = b->session;
    }
    current(b)->life_ms = f.life_ms;
    timer_set(c, b->session, f.timer_ms);
    if (f.flags & SESSION_HAS_EXTRA) {
        struct session_extra *x = session_extra_make(c, b->session);
        x->acked_through = f.acked_through;
        x->stream = f.stream;
        x->linger_ms = f.linger_ms;
        x->lingers_until_ms = f.lingers_until_ms;
        x->node = f.node;
        x->metadata = blob_new(c, f.metadata);
    }
    b->last_token = 0;
    b->last_ticket = 0;
    b->reply_at = 0;
    b->open_ties = 0;
    return NULL;
}

const char *session_complete(struct builder *b)
{
    const struct session *s = current(b);
    if (b->open_ties > 0) {
        return "a request of the session before it waits or holds, but nothing is there";
    }
    if (s->is_private && s->holds == 0 && s->waits == 0) {
        return "the session before it is private and has neither a grant nor a waiter";
    }
    return NULL;
}

const char *count_entries(struct builder *b, uint32_t entries, bool is_new)
{
    struct session *s = current(b);
    if (s->is_private && is_new && s->entries > 0) {
        return "its session is private and has another already";
    }
    s->entries += entries;
    return s->entries <= LIMIT_SESSION_ENTRIES ? NULL : "its session has more than 10,000 names";
}

const char *build_reply(struct builder *b, struct reader *r)
{
    struct core *c = b->c;
    struct session_extra *x = session_extra_get(c, current(b));
    struct request fields = {.seq = read_u64(r)};
    fields.type = read_u8(r);
    fields.state = read_u8(r);
    fields.digest = read_fixed64(r);
    bool is_done = fields.state == REQUEST_DONE;
    if (is_done) {
        read_answer(r, &fields);
    }
    if (!reader_done(r) || fields.state > REQUEST_DONE) {
        return undecodable;
    }
    const char *wrong = check_answer(&fields);
    if (wrong != NULL) {
        return wrong;
    }
    if (x == NULL) {
        return "its session keeps no replies";
    }
    uint64_t before = x->replies == 0 ? x->acked_through : request_at(c, x->replies)->seq;
    if (fields.seq <= before || fields.seq >= LIMIT_NUMBER) {
        return "its seq is out of order";
    }
    if (!is_done && fields.type != COMMAND_ACQUIRE) {
        return "it waits or holds and is no acquire";
    }
    if (x->unacked == LIMIT_SESSION_UNACKED) {
        return "its session has more than 1,024";
    }
    ref obj = 0;
    struct request *reply = pool_alloc(&c->pool, sizeof(*reply), &obj);
    *reply = fields;
    reply->tenant = current(b)->tenant;
    reply->session = current(b)->id;
    RING_APPEND(c, &x->replies, obj, request, ring);
    x->unacked++;
    b->open_ties += !is_done;
    return NULL;
}

/* Starts behind the last one: most are in order. */
static ref find_reply(struct builder *b, uint64_t seq)
{
    const struct core *c = b->c;
    const struct session_extra *x = session_extra_get(c, current(b));
    ref obj = b->reply_at;
    for (uint32_t i = 0; x != NULL && i < x->unacked; i++) {
        obj = obj == 0 ? RING_FIRST(c, x->replies, request, ring)
                       : ring_links(&c->pool, obj, offsetof(struct request, ring))->next;
        if (request_at(c, obj)->seq == seq) {
            b->reply_at = obj;
            return obj;
        }
    }
    return 0;
}

const char *build_tie(struct builder *b, const struct tie *tie, enum request_state state,
                      ref target, ref *out)
{
    struct core *c = b->c;
    const struct session *s = current(b);
    if (tie->kind == TIED_TO_NONE) {
        return NULL;
    }
    if (tie->kind == TIED_BY_ID) {
        struct request fields = {.tenant = s->tenant,
                                 .principal = s->is_private ? s->principal : 0,
                                 .type = COMMAND_ACQUIRE,
                                 .state = (uint8_t)state,
                                 .target = target,
                                 .session = s->is_private ? (struct id){0, 0} : s->id,
                                 .digest = tie->digest};
        struct slice scope = s->is_private ? session_client(s) : slice_make(NULL, 0);
        return build_request(b, &fields, scope, tie->id, out);
    }
    *out = find_reply(b, tie->seq);
    if (*out == 0 || request_at(c, *out)->state != state || request_at(c, *out)->target != 0) {
        return "it answers a seq that does not say so";
    }
    request_at(c, *out)->target = target;
    b->open_ties--;
    return NULL;
}
