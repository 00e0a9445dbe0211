/* Exactly once (S8): the answer to a request with an id is remembered and repeated.
 *
 *            queued                granted
 *   new ───────────────▶ WAITING ───────────▶ HOLDING       (acquire only)
 *    │ granted              │                    │
 *    ├──────────────────────┼───────▶────────────┤ ended
 *    │ answered             ▼ left the queue     ▼
 *    └──────────────────▶ DONE ◀─────────────────┘
 *
 * A request by `seq` is kept in its session until it is acknowledged. One by `request_id` is in a
 * table while it waits or holds, and then in the bounded memory of its kind. */
#include "core/state.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static struct slice request_scope(const struct request *r)
{
    return slice_make(r->text, r->scope_len);
}

static struct slice request_id(const struct request *r)
{
    return slice_make(r->text + r->scope_len, r->id_len);
}

size_t request_size(const struct request *r)
{
    return sizeof(*r) + r->scope_len + r->id_len;
}

/* `who`: the principal above the type. */
static uint32_t key_hash(const struct core *c, uint32_t tenant, uint64_t who, struct id session,
                         struct slice scope, struct slice id)
{
    hf_assert(id.len > 0);
    uint64_t words[4] = {tenant, who, session.high, session.low};
    uint64_t hash = XXH3_64bits_withSeed(words, sizeof(words), c->hash_key);
    if (scope.len > 0) {
        hash = XXH3_64bits_withSeed(scope.data, scope.len, hash);
    }
    return (uint32_t)XXH3_64bits_withSeed(id.data, id.len, hash);
}

uint32_t request_hash(const void *ctx, const void *object)
{
    (void)ctx;
    return ((const struct request *)object)->hash;
}

static uint64_t hash_who(unsigned type, uint32_t principal)
{
    return type + ((uint64_t)principal << 8);
}

uint32_t request_make_hash(const struct core *ctx, const struct request *r)
{
    return key_hash(ctx, r->tenant, hash_who(r->type, r->principal), r->session, request_scope(r),
                    request_id(r));
}

/* A session has one owner, so an id in it needs no principal. */
static uint32_t principal_of(const struct command *cmd)
{
    return id_is_zero(cmd->session) ? cmd->principal : 0;
}

/* The scope of an id without a session. */
static struct slice scope_of(const struct command *cmd)
{
    switch (cmd->type) {
    case COMMAND_SESSION_OPEN:
        return cmd->session_open.client;
    case COMMAND_ACQUIRE:
        return cmd->acquire.client;
    case COMMAND_RELEASE:
        return cmd->release.client;
    case COMMAND_RENEW:
        return cmd->renew.client;
    case COMMAND_PROCLAIM:
        return cmd->proclaim.client;
    case COMMAND_FORCE_UNLOCK:
        return cmd->force_unlock.actor;
    case COMMAND_REVOKE:
        return cmd->revoke.actor;
    case COMMAND_FENCE_RESET:
        return cmd->fence_reset.actor;
    case COMMAND_ALERT_SET:
        return cmd->alert_set.actor;
    case COMMAND_ALERT_REMOVE:
        return cmd->alert_remove.actor;
    default:
        return slice_make(NULL, 0);
    }
}

static bool has_key(const struct request *r, const struct request_key *key)
{
    return r->hash == key->hash && r->tenant == key->tenant && r->principal == key->principal &&
           r->type == key->type && id_equal(r->session, key->session_id) &&
           slice_equal(request_scope(r), key->scope) && slice_equal(request_id(r), key->id);
}

static bool has_prefix(struct slice id, const char *prefix, size_t len)
{
    enum { DIGITS = 32 };
    return id.len == len + DIGITS && memcmp(id.data, prefix, len) == 0;
}

enum done_kind request_kind(enum command_type type, struct slice id)
{
    if (type == COMMAND_FORCE_UNLOCK || type == COMMAND_REVOKE || type == COMMAND_FENCE_RESET ||
        type == COMMAND_ALERT_SET || type == COMMAND_ALERT_REMOVE) {
        return DONE_OF_OPERATORS;
    }
    bool is_drawn = has_prefix(id, REQUEST_ID_NODE, sizeof(REQUEST_ID_NODE) - 1) ||
                    has_prefix(id, REQUEST_ID_LEASE, sizeof(REQUEST_ID_LEASE) - 1);
    return is_drawn ? DONE_DRAWN : DONE_OF_CLIENTS;
}

enum done_kind request_place(const struct core *c, enum done_kind kind)
{
    hf_assert((unsigned)kind < DONE_KINDS);
    return c->version >= 4 ? kind : DONE_OF_CLIENTS;
}

static enum done_kind kind_of(const struct request *r)
{
    return request_kind((enum command_type)r->type, request_id(r));
}

static ref find_done(const struct core *c, const struct tenant *t, enum done_kind where,
                     const struct request_key *key)
{
    struct recent_walk w = recent_find(&t->done_requests[where], 0, key->hash);
    while (recent_next(&w)) {
        if (has_key(request_at(c, w.who), key)) {
            return w.who;
        }
    }
    return 0;
}

ref request_find(const struct core *c, const struct request_key *key)
{
    ref obj = table_first(&c->requests, key->hash);
    for (; obj != 0; obj = request_at(c, obj)->next) {
        if (has_key(request_at(c, obj), key)) {
            return obj;
        }
    }
    enum done_kind place = request_place(c, request_kind(key->type, key->id));
    const struct tenant *t = tenant_memory_look(c, key->tenant);
    ref done = find_done(c, t, place, key);
    if (done == 0 && place != DONE_OF_CLIENTS && t->strays > 0) {
        done = find_done(c, t, DONE_OF_CLIENTS, key); /* remembered before version 4 */
    }
    return done;
}

/* Newest first, as most retries are. */
static ref find_by_seq(struct core *c, const struct session_extra *x, uint64_t seq)
{
    hf_assert(seq > x->acked_through);
    ref obj = x->replies;
    while (obj != 0) {
        const struct request *r = request_at(c, obj);
        core_step(c, 1);
        if (r->seq <= seq) {
            return r->seq == seq ? obj : 0;
        }
        obj = ring_before(&c->pool, x->replies, obj, offsetof(struct request, ring));
    }
    return 0;
}

uint32_t request_hash_of(const struct core *c, const struct command *cmd)
{
    struct slice scope = id_is_zero(cmd->session) ? scope_of(cmd) : slice_make(NULL, 0);
    return key_hash(c, cmd->tenant, hash_who(cmd->type, principal_of(cmd)), cmd->session, scope,
                    cmd->request_id);
}

static void untie(struct core *c, struct request *r)
{
    if (r->state == REQUEST_WAITING) {
        waiter_at(c, r->target)->request = 0;
    } else if (r->state == REQUEST_HOLDING) {
        grant_detail(c, grant_at(c, r->target))->request = 0;
    }
}

static void reply_drop(struct core *c, struct session_extra *x, ref obj)
{
    struct request *r = request_at(c, obj);
    hf_assert(r->id_len == 0 && x->unacked > 0);
    untie(c, r);
    RING_REMOVE(c, &x->replies, obj, request, ring);
    x->unacked--;
    pool_free(&c->pool, obj, request_size(r));
    core_step(c, 1);
}

void request_drop_all(struct core *c, ref session)
{
    struct session_extra *x = session_extra_at(c, session_at(c, session)->extra);
    while (x->replies != 0) {
        reply_drop(c, x, RING_FIRST(c, x->replies, request, ring));
    }
    hf_assert(x->unacked == 0);
}

static void acknowledge(struct core *c, ref session, uint64_t through)
{
    struct session_extra *x = session_extra_make(c, session);
    if (through > x->acked_through) {
        x->acked_through = through;
    }
    while (x->replies != 0) {
        ref first = RING_FIRST(c, x->replies, request, ring);
        if (request_at(c, first)->seq > x->acked_through) {
            break;
        }
        reply_drop(c, x, first);
    }
}

/* In the tier without a log, a node whose wait began under an earlier leader submits it again with the
 * rest of the wait, next to the client's own repetition: there the wait is not part of the request. */
static uint64_t digest_of(const struct core *c, const struct command *cmd)
{
    if (c->token_end == 0 || cmd->type != COMMAND_ACQUIRE) {
        return command_digest(cmd);
    }
    struct command without_wait = *cmd;
    without_wait.acquire.wait_ms = 0;
    return command_digest(&without_wait);
}

enum hf_error request_look(struct core *c, const struct command *cmd, ref session,
                           struct request_key *key, enum request_found *found, ref *request)
{
    hf_assert(session == 0 || id_equal(session_at(c, session)->id, cmd->session));
    *key = (struct request_key){.tenant = cmd->tenant,
                                .principal = principal_of(cmd),
                                .type = cmd->type,
                                .session = session,
                                .session_id = cmd->session,
                                .id = cmd->request_id,
                                .seq = cmd->seq};
    *found = REQUEST_NONE;
    *request = 0;
    if (session != 0 && cmd->acked_through != 0) {
        acknowledge(c, session, cmd->acked_through);
    }
    if (cmd->request_id.len > 0) {
        key->scope = id_is_zero(cmd->session) ? scope_of(cmd) : slice_make(NULL, 0);
        key->hash = request_hash_of(c, cmd);
        *request = request_find(c, key);
    } else if (session != 0 && cmd->seq != 0) {
        const struct session_extra *x = session_extra_make(c, session);
        if (cmd->seq <= x->acked_through) {
            return HF_SEQ_ACKNOWLEDGED;
        }
        *request = find_by_seq(c, x, cmd->seq);
        if (*request == 0 && x->unacked >= LIMIT_SESSION_UNACKED) {
            return HF_TOO_MANY_UNACKED;
        }
    } else {
        return HF_OK;
    }
    key->digest = digest_of(c, cmd);
    *found = *request == 0 ? REQUEST_NEW : REQUEST_KNOWN;
    if (*request != 0) {
        const struct request *r = request_at(c, *request);
        if (r->digest != key->digest || r->type != cmd->type) {
            return HF_REQUEST_ID_REUSED;
        }
    }
    return HF_OK;
}

/* As find_by_seq, without counting steps. */
static bool has_seq(const struct core *c, struct id id, uint64_t seq)
{
    ref session = session_find(c, id);
    const struct session_extra *x =
        session == 0 ? NULL : session_extra_get(c, session_at(c, session));
    if (x == NULL) {
        return false;
    }
    RING_EACH(c, obj, x->replies, request, ring)
    {
        if (request_at(c, obj)->seq >= seq) {
            return request_at(c, obj)->seq == seq;
        }
    }
    return seq <= x->acked_through;
}

bool core_knows(const struct core *c, const struct command *cmd)
{
    if (cmd->request_id.len > 0) {
        struct request_key key = {.tenant = cmd->tenant,
                                  .principal = principal_of(cmd),
                                  .type = cmd->type,
                                  .session_id = cmd->session,
                                  .scope = id_is_zero(cmd->session) ? scope_of(cmd)
                                                                    : slice_make(NULL, 0),
                                  .id = cmd->request_id,
                                  .hash = request_hash_of(c, cmd)};
        if (request_find(c, &key) != 0) {
            return true;
        }
    } else if (cmd->seq != 0 && has_seq(c, cmd->session, cmd->seq)) {
        return true;
    }
    switch (cmd->type) {
    case COMMAND_ACQUIRE:
        return view_knows_lease(c, cmd->tenant, cmd->acquire.lease);
    case COMMAND_SESSION_OPEN:
        return session_find(c, cmd->session_open.id) != 0 ||
               history_session(c, cmd->tenant, cmd->session_open.id) != ENDED_NOT;
    case COMMAND_TRANSACT:
        return transact_find(c, cmd->tenant, cmd->transact.id) != NULL;
    default:
        return false;
    }
}

static void reply_insert(struct core *c, ref session, ref obj, uint64_t seq)
{
    struct session_extra *x = session_extra_make(c, session);
    ref before = x->replies;
    while (before != 0 && request_at(c, before)->seq > seq) {
        core_step(c, 1);
        before = ring_before(&c->pool, x->replies, before, offsetof(struct request, ring));
    }
    hf_assert(x->unacked < LIMIT_SESSION_UNACKED && seq > x->acked_through);
    hf_assert(before == 0 || request_at(c, before)->seq < seq);
    ring_insert(&c->pool, &x->replies, before, obj, offsetof(struct request, ring));
    x->unacked++;
}

ref request_new(struct core *c, const struct request_key *key)
{
    hf_assert(key->id.len > 0 || (key->session != 0 && key->seq != 0));
    hf_assert(key->scope.len <= UINT8_MAX && key->id.len <= UINT8_MAX);
    ref obj = 0;
    struct request *r = pool_alloc(&c->pool, sizeof(*r) + key->scope.len + key->id.len, &obj);
    r->tenant = key->tenant;
    r->principal = key->principal;
    r->type = (uint8_t)key->type;
    r->state = REQUEST_DONE;
    r->session = key->session_id;
    r->digest = key->digest;
    if (key->id.len > 0) {
        r->scope_len = (uint8_t)key->scope.len;
        r->id_len = (uint8_t)key->id.len;
        if (key->scope.len > 0) {
            memcpy(r->text, key->scope.data, key->scope.len);
        }
        memcpy(r->text + key->scope.len, key->id.data, key->id.len);
        r->hash = key->hash;
    } else {
        r->seq = key->seq;
        reply_insert(c, key->session, obj, key->seq);
    }
    core_step(c, 1);
    return obj;
}

/* It waits or holds, and is found by its id. */
static void begin(struct core *c, ref request, enum request_state state)
{
    struct request *r = request_at(c, request);
    hf_assert(state != REQUEST_DONE && r->type == COMMAND_ACQUIRE);
    if (r->state == REQUEST_DONE && r->id_len > 0) {
        table_insert(&c->requests, r->hash, request);
    }
    r->state = (uint8_t)state;
}

void request_wait(struct core *c, ref request, ref waiter)
{
    hf_assert(waiter_at(c, waiter)->request == 0);
    begin(c, request, REQUEST_WAITING);
    request_at(c, request)->target = waiter;
    waiter_at(c, waiter)->request = request;
}

void request_hold(struct core *c, ref request, ref grant)
{
    hf_assert(grant_first_part(c, grant) == grant);
    begin(c, request, REQUEST_HOLDING);
    request_at(c, request)->target = grant;
    grant_detail_make(c, grant)->request = request;
}

/* Removes it from the memory `where`. */
static void forget_done(struct core *c, struct tenant *t, enum done_kind where, ref request)
{
    const struct request *r = request_at(c, request);
    hf_assert(r->state == REQUEST_DONE && r->id_len > 0);
    hf_assert(c->remembered_bytes >= pool_rounded(request_size(r)));
    if (t->strays > 0 && where == DONE_OF_CLIENTS && kind_of(r) != DONE_OF_CLIENTS) {
        t->strays--;
    }
    c->remembered_bytes -= pool_rounded(request_size(r));
    pool_free(&c->pool, request, request_size(r));
}

void request_remember(struct core *c, struct tenant *t, enum done_kind where, ref request)
{
    struct recent *memory = &t->done_requests[where];
    const struct request *r = request_at(c, request);
    hf_assert((unsigned)where < DONE_KINDS && r->id_len > 0);
    ref forgotten = recent_add(memory, request, &r->hash);
    c->remembered_bytes += pool_rounded(request_size(r));
    t->strays += where == DONE_OF_CLIENTS && kind_of(r) != DONE_OF_CLIENTS;
    if (forgotten != 0) {
        forget_done(c, t, where, forgotten);
        /* As in history.c. */
        __builtin_prefetch(pool_at(&c->pool, recent_at(memory, 0)), 1);
    }
}

/* Operators' ids are kept for a time. Each new one drops up to AT_ONCE expired ones: bounded work,
 * and the memory shrinks. */
static void forget_old_operators(struct core *c, struct tenant *t)
{
    enum { AT_ONCE = 8 };
    struct recent *memory = &t->done_requests[DONE_OF_OPERATORS];
    for (unsigned i = 0; i < AT_ONCE && recent_count(memory) > 0; i++) {
        const struct request *oldest = request_at(c, recent_at(memory, 0));
        if (oldest->done_ms + LIMIT_OPERATOR_KEPT_MS > c->now_ms) {
            return;
        }
        forget_done(c, t, DONE_OF_OPERATORS, recent_drop_oldest(memory));
        core_step(c, 1);
    }
}

/* No error is remembered but `not_held`: after it, a late retry of the request must not force out a
 * later holder (S8). */
static bool is_remembered(const struct core *c, const struct result *answer)
{
    return answer->error == HF_OK || (answer->error == HF_NOT_HELD && c->version >= 3);
}

void request_done(struct core *c, ref request, const struct result *answer)
{
    hf_assert(is_remembered(c, answer));
    struct request *r = request_at(c, request);
    hf_assert((r->target != 0) == (r->state != REQUEST_DONE));
    if (r->state != REQUEST_DONE && r->id_len > 0) {
        table_remove(&c->requests, r->hash, request);
    }
    r->state = REQUEST_DONE;
    r->target = 0;
    r->outcome = (uint8_t)(answer->error == HF_OK ? answer->outcome : OUTCOME_REFUSED);
    r->reason = (uint8_t)answer->reason;
    r->ended = (uint8_t)answer->ended;
    r->accepted = answer->accepted;
    r->count = answer->count;
    r->depth = answer->depth;
    r->lease = answer->lease;
    r->token = answer->token;
    r->deadline_ms = answer->deadline_ms;
    r->highest = answer->highest;
    if (r->id_len > 0) {
        enum done_kind where = request_place(c, kind_of(r));
        struct tenant *t = tenant_memory(c, r->tenant);
        if (where == DONE_OF_OPERATORS) {
            r->done_ms = c->now_ms;
            forget_old_operators(c, t);
        }
        request_remember(c, t, where, request);
    }
}

void request_forget(struct core *c, ref request, ref session)
{
    struct request *r = request_at(c, request);
    if (r->id_len == 0) {
        reply_drop(c, session_extra_at(c, session_at(c, session)->extra), request);
        return;
    }
    hf_assert(r->state != REQUEST_DONE);
    untie(c, r);
    table_remove(&c->requests, r->hash, request);
    pool_free(&c->pool, request, request_size(r));
}

void request_replay(const struct core *c, ref request, struct result *out)
{
    const struct request *r = request_at(c, request);
    hf_assert(r->state == REQUEST_DONE && r->target == 0);
    hf_assert(out->error == HF_OK && !out->replayed);
    if (r->outcome == OUTCOME_REFUSED &&
        (r->type == COMMAND_FORCE_UNLOCK || r->type == COMMAND_REVOKE)) {
        out->error = HF_NOT_HELD; /* the only remembered error */
        return;
    }
    out->replayed = true;
    out->outcome = (enum outcome)r->outcome;
    out->reason = (enum reason)r->reason;
    out->ended = (enum ended)r->ended;
    out->accepted = r->accepted;
    out->count = r->count;
    out->depth = r->depth;
    out->lease = r->lease;
    out->token = r->token;
    out->deadline_ms = r->deadline_ms;
    out->highest = r->highest;
}

void request_once(struct core *c, const struct command *cmd, ref session, apply_fn run,
                  struct result *out)
{
    struct request_key key;
    enum request_found found;
    ref request;
    hf_assert(cmd->type != COMMAND_ACQUIRE && out->error == HF_OK);
    out->error = request_look(c, cmd, session, &key, &found, &request);
    if (out->error != HF_OK) {
        return;
    }
    if (found == REQUEST_KNOWN) {
        request_replay(c, request, out);
        return;
    }
    run(c, cmd, session, out);
    if (found == REQUEST_NEW && is_remembered(c, out)) {
        request_done(c, request_new(c, &key), out);
    }
}
