/* See fake_service.h: what the calls do. The streams under them are in fake_stream.c. */
#include "fake_service.h"

#include <stdio.h>
#include <stdlib.h>

#include "client/proto.h"
#include "fake_stream.h"
#include "wire/grpc.h"

void fake_init(struct fake *f)
{
    memset(f, 0, sizeof(*f));
    f->epoch = 1;
    f->token = 1024;
    list_init(&f->conns);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

static struct fake_request *note(struct fake *f, const char *path)
{
    struct fake_request *r = &f->requests[f->request_count++ % FAKE_REQUESTS];
    memset(r, 0, sizeof(*r));
    snprintf(r->path, sizeof(r->path), "%s", base_name(path));
    return r;
}

unsigned fake_count(const struct fake *f, const char *path)
{
    unsigned count = 0;
    for (unsigned i = 0; i < f->request_count && i < FAKE_REQUESTS; i++) {
        count += strcmp(f->requests[i].path, path) == 0;
    }
    return count;
}

static void copy(char out[FAKE_TEXT], const char *text)
{
    snprintf(out, FAKE_TEXT, "%s", text);
}

static void reply(struct fake_stream *s, const ProtobufCMessage *message)
{
    size_t len;
    uint8_t *bytes = proto_pack(message, &len);
    fake_stream_send(s, slice_make(bytes, len));
    free(bytes);
}

/* ---- locks ---- */

static struct fake_lock *find(struct fake *f, const char *name)
{
    struct fake_lock *empty = NULL;
    for (unsigned i = 0; i < FAKE_LOCKS; i++) {
        if (strcmp(f->locks[i].name, name) == 0) {
            return &f->locks[i];
        }
        if (empty == NULL && f->locks[i].name[0] == '\0') {
            empty = &f->locks[i];
        }
    }
    hf_assert(empty != NULL);
    return empty;
}

uint64_t fake_holder(const struct fake *f, const char *name)
{
    for (unsigned i = 0; i < FAKE_LOCKS; i++) {
        if (strcmp(f->locks[i].name, name) == 0) {
            return f->locks[i].token;
        }
    }
    return 0;
}

static void take(struct fake *f, struct fake_lock *lock, const char *name, const char *owner,
                 const char *id, int64_t ttl_ms)
{
    copy(lock->name, name);
    copy(lock->owner, owner);
    copy(lock->request_id, id);
    lock->token = f->token += 1024;
    lock->alive_ms = f->now_ms;
    lock->ttl_ms = ttl_ms;
}

void fake_hold(struct fake *f, const char *name)
{
    take(f, find(f, name), name, "somebody", "", 0);
}

static void answer_granted(struct fake_stream *s, const struct fake_lock *lock)
{
    Holdfast__V1__LockHandle handle = HOLDFAST__V1__LOCK_HANDLE__INIT;
    handle.resource_id = proto_text(lock->name);
    handle.fence_token = lock->token;
    handle.lease_id = proto_text("00000000000000000000000000000abc");
    if (strcmp(base_name(s->path), "Campaign") == 0) {
        Holdfast__V1__CampaignResponse m = HOLDFAST__V1__CAMPAIGN_RESPONSE__INIT;
        m.elected = true;
        m.lock_handle = &handle;
        m.epoch = lock->token;
        reply(s, &m.base);
    } else {
        Holdfast__V1__LockResponse m = HOLDFAST__V1__LOCK_RESPONSE__INIT;
        m.acquired = true;
        m.lock_handle = &handle;
        m.epoch = s->conn->fake->epoch;
        reply(s, &m.base);
    }
    fake_stream_end(s, GRPC_OK, NULL, NULL);
}

static void answer_held(struct fake_stream *s, Holdfast__V1__Reason reason)
{
    Holdfast__V1__LockResponse m = HOLDFAST__V1__LOCK_RESPONSE__INIT;
    Holdfast__V1__Holder holder = HOLDFAST__V1__HOLDER__INIT;
    Duration left = duration_of(12345);
    holder.client_id = proto_text("somebody");
    holder.metadata = proto_text("{\"host\":\"there\"}");
    holder.trace = proto_text(FAKE_TRACE);
    holder.expires_in = &left;
    m.reason = reason;
    m.holder = &holder;
    m.queue_length = 3;
    reply(s, &m.base);
    fake_stream_end(s, GRPC_OK, NULL, NULL);
}

void fake_free(struct fake *f, const char *name)
{
    struct fake_lock *lock = find(f, name);
    memset(lock, 0, sizeof(*lock));
    struct fake_stream *s = fake_first_waiter(f, name);
    if (s != NULL) {
        s->is_waiting = false;
        take(f, lock, name, s->owner, s->request_id, s->ttl_ms);
        answer_granted(s, lock);
    }
}

/* What is left to do once a call is done and its answer is due: false when there is none. */
static bool is_answered(struct fake_stream *s)
{
    struct fake *f = s->conn->fake;
    if (f->forget > 0) {
        f->forget--;
        fake_stream_end(s, GRPC_DEADLINE_EXCEEDED, "outcome_unknown", "it may have been done");
        return false;
    }
    if (f->swallow > 0) {
        f->swallow--;
        return false;
    }
    if (f->break_after > 0 && --f->break_after == 0) {
        s->conn->is_broken = true;
        return false;
    }
    return true;
}

static void acquire(struct fake_stream *s, const char *name, const char *owner, const char *id,
                    const char *session, const Duration *wait, const Duration *ttl)
{
    struct fake *f = s->conn->fake;
    struct fake_request *r = note(f, s->path);
    int64_t wait_ms = duration_ms(wait, 0);
    copy(r->name, name);
    copy(r->owner, owner);
    copy(r->id, id);
    copy(r->session, session);
    copy(r->trace, s->trace);
    r->is_cancel = s->is_cancel;
    struct fake_lock *lock = find(f, name);
    if (s->is_cancel && f->knows_cancel) {
        if (lock->name[0] != '\0' && strcmp(lock->request_id, id) == 0) {
            fake_free(f, name);
        }
        if (is_answered(s)) {
            answer_held(s, HOLDFAST__V1__REASON__CANCELLED);
        }
        return;
    }
    bool is_again = lock->name[0] != '\0' && id[0] != '\0' && strcmp(lock->request_id, id) == 0;
    if (lock->name[0] == '\0') {
        take(f, lock, name, owner, id, duration_ms(ttl, 0));
    } else if (!is_again && wait_ms != 0) {
        copy(s->name, name);
        copy(s->owner, owner);
        copy(s->request_id, id);
        s->ttl_ms = duration_ms(ttl, 0);
        s->is_waiting = true;
        return;
    }
    if (!is_answered(s)) {
        return;
    }
    if (strcmp(lock->request_id, id) == 0) {
        answer_granted(s, lock);
    } else {
        answer_held(s, HOLDFAST__V1__REASON__HELD);
    }
}

static void on_lock(struct fake_stream *s, struct slice bytes)
{
    Holdfast__V1__LockRequest *m = holdfast__v1__lock_request__unpack(NULL, bytes.len, bytes.data);
    s->is_cancel = m->cancel;
    copy(s->trace, m->trace);
    acquire(s, m->resource_id, m->owner, m->request_id, m->session_id, m->wait_timeout, m->ttl);
    holdfast__v1__lock_request__free_unpacked(m, NULL);
}

static void on_multi(struct fake_stream *s, struct slice bytes)
{
    Holdfast__V1__MultiLockRequest *m =
        holdfast__v1__multi_lock_request__unpack(NULL, bytes.len, bytes.data);
    s->is_cancel = m->cancel;
    copy(s->trace, m->trace);
    acquire(s, m->resource_ids[0], m->owner, m->request_id, m->session_id, m->wait_timeout, m->ttl);
    holdfast__v1__multi_lock_request__free_unpacked(m, NULL);
}

static void on_campaign(struct fake_stream *s, struct slice bytes)
{
    Holdfast__V1__CampaignRequest *m =
        holdfast__v1__campaign_request__unpack(NULL, bytes.len, bytes.data);
    s->is_cancel = m->cancel;
    copy(s->trace, m->trace);
    acquire(s, m->name, m->owner, m->request_id, m->session_id, m->wait_timeout, m->ttl);
    holdfast__v1__campaign_request__free_unpacked(m, NULL);
}

/* The lock with that token, or NULL. */
static struct fake_lock *by_token(struct fake *f, uint64_t token)
{
    for (unsigned i = 0; i < FAKE_LOCKS; i++) {
        if (f->locks[i].name[0] != '\0' && f->locks[i].token == token) {
            return &f->locks[i];
        }
    }
    return NULL;
}

const struct fake_lock *fake_by_token(struct fake *f, uint64_t token)
{
    return by_token(f, token);
}

static void on_unlock(struct fake_stream *s, struct slice bytes)
{
    struct fake *f = s->conn->fake;
    Holdfast__V1__UnlockRequest *q =
        holdfast__v1__unlock_request__unpack(NULL, bytes.len, bytes.data);
    Holdfast__V1__UnlockResponse m = HOLDFAST__V1__UNLOCK_RESPONSE__INIT;
    struct fake_request *r = note(f, s->path);
    struct fake_lock *lock = by_token(f, q->fence_token);
    copy(r->id, q->request_id);
    copy(r->name, q->resource_id);
    m.released = lock != NULL;
    m.reason = lock != NULL ? HOLDFAST__V1__REASON__OK : HOLDFAST__V1__REASON__ALREADY_RELEASED;
    if (lock != NULL) {
        char name[FAKE_TEXT];
        copy(name, lock->name);
        fake_free(f, name);
    }
    holdfast__v1__unlock_request__free_unpacked(q, NULL);
    if (is_answered(s)) {
        reply(s, &m.base);
        fake_stream_end(s, GRPC_OK, NULL, NULL);
    }
}

static void on_renew(struct fake_stream *s, struct slice bytes)
{
    struct fake *f = s->conn->fake;
    Holdfast__V1__RenewRequest *q =
        holdfast__v1__renew_request__unpack(NULL, bytes.len, bytes.data);
    Holdfast__V1__RenewResponse m = HOLDFAST__V1__RENEW_RESPONSE__INIT;
    Duration left = duration_of(30000);
    (void)note(f, s->path);
    struct fake_lock *lock = by_token(f, q->fence_token);
    if (lock != NULL) {
        lock->alive_ms = f->now_ms;
        lock->ttl_ms = duration_ms(q->ttl, lock->ttl_ms);
    }
    m.renewed = lock != NULL;
    m.reason = m.renewed ? HOLDFAST__V1__REASON__OK : HOLDFAST__V1__REASON__NOT_OWNER;
    m.expires_in = &left;
    if (!m.renewed && f->ended != NULL) {
        m.ended = (char *)(uintptr_t)f->ended;
    }
    holdfast__v1__renew_request__free_unpacked(q, NULL);
    if (is_answered(s)) {
        reply(s, &m.base);
        fake_stream_end(s, GRPC_OK, NULL, NULL);
    }
}

static void on_proclaim(struct fake_stream *s, struct slice bytes)
{
    Holdfast__V1__ProclaimResponse m = HOLDFAST__V1__PROCLAIM_RESPONSE__INIT;
    (void)note(s->conn->fake, s->path);
    m.proclaimed = true;
    if (is_answered(s)) {
        reply(s, &m.base);
        fake_stream_end(s, GRPC_OK, NULL, NULL);
    }
}

/* ---- sessions ---- */

static void on_open(struct fake_stream *s, const Holdfast__V1__SessionRequest__Open *q)
{
    struct fake *f = s->conn->fake;
    SessionResponse m = HOLDFAST__V1__SESSION_RESPONSE__INIT;
    Holdfast__V1__SessionResponse__Opened opened = HOLDFAST__V1__SESSION_RESPONSE__OPENED__INIT;
    int64_t ttl_ms = f->ttl_ms != 0 ? f->ttl_ms : duration_ms(q->ttl, 30000);
    Duration ttl = duration_of(ttl_ms);
    Duration every = duration_of(ttl_ms / 3);
    char id[FAKE_TEXT];
    if (f->refuse_open != NULL) {
        fake_stream_end(s, GRPC_INVALID_ARGUMENT, "invalid_client_id", f->refuse_open);
        return;
    }
    f->opened++;
    f->alive_ms = f->now_ms;
    copy(note(f, "Open")->id, q->request_id);
    snprintf(id, sizeof(id), "%032x", f->opened);
    opened.session_id = id;
    opened.ttl = &ttl;
    opened.keep_alive_every = &every;
    opened.epoch = f->epoch;
    m.response_case = HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_OPENED;
    m.opened = &opened;
    s->is_session = true;
    reply(s, &m.base);
}

static void on_resume(struct fake_stream *s, const Holdfast__V1__SessionRequest__Resume *q)
{
    struct fake *f = s->conn->fake;
    SessionResponse m = HOLDFAST__V1__SESSION_RESPONSE__INIT;
    Holdfast__V1__SessionResponse__Opened opened = HOLDFAST__V1__SESSION_RESPONSE__OPENED__INIT;
    f->resumed++;
    if (f->has_no_sessions) {
        fake_stream_end(s, GRPC_FAILED_PRECONDITION, "session_expired", "the session has ended");
        return;
    }
    opened.session_id = q->session_id;
    opened.resumed = true;
    opened.epoch = f->epoch;
    m.response_case = HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_OPENED;
    m.opened = &opened;
    s->is_session = true;
    reply(s, &m.base);
}

static bool differs(const struct fake *f, const Holdfast__V1__HeldTokens *held)
{
    uint32_t count = 0;
    uint64_t xor_of_all = 0;
    for (unsigned i = 0; i < FAKE_LOCKS; i++) {
        count += f->locks[i].token != 0;
        xor_of_all ^= f->locks[i].token;
    }
    return count != held->count || xor_of_all != held->xor_of_all;
}

/* A page of the locks from number `cursor` on. */
static void list_locks(struct fake *f, const char *cursor,
                       Holdfast__V1__SessionResponse__Alive *alive, Holdfast__V1__HeldLock *rows)
{
    unsigned at = (unsigned)strtoul(cursor, NULL, 10);
    f->lists++;
    alive->differs = true;
    for (; at < FAKE_LOCKS && (f->page == 0 || alive->n_locks < f->page); at++) {
        if (f->locks[at].token != 0) {
            Holdfast__V1__HeldLock *row = &rows[alive->n_locks];
            holdfast__v1__held_lock__init(row);
            row->resource_id = f->locks[at].name;
            row->fence_token = f->locks[at].token;
            alive->locks[alive->n_locks++] = row;
        }
    }
    if (at < FAKE_LOCKS) {
        snprintf(alive->next_cursor, FAKE_TEXT, "%u", at);
    }
}

static void on_keepalive(struct fake_stream *s, const Holdfast__V1__SessionRequest__KeepAlive *q)
{
    struct fake *f = s->conn->fake;
    SessionResponse m = HOLDFAST__V1__SESSION_RESPONSE__INIT;
    Holdfast__V1__SessionResponse__Alive alive = HOLDFAST__V1__SESSION_RESPONSE__ALIVE__INIT;
    f->keepalives++;
    f->alive_ms = f->now_ms;
    if (f->is_deaf) {
        return;
    }
    Holdfast__V1__HeldLock rows[FAKE_LOCKS];
    Holdfast__V1__HeldLock *listed[FAKE_LOCKS];
    char cursor[FAKE_TEXT] = "";
    alive.number = q->number;
    alive.epoch = f->epoch;
    alive.next_cursor = cursor;
    alive.locks = listed;
    if (f->compares && q->held != NULL && differs(f, q->held)) {
        list_locks(f, q->held->cursor, &alive, rows);
    }
    m.response_case = HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_ALIVE;
    m.alive = &alive;
    if (alive.differs && f->delays_lists) {
        free(f->late);
        f->late_stream = s;
        f->late = proto_pack(&m.base, &f->late_len);
        return;
    }
    reply(s, &m.base);
}

void fake_send_list(struct fake *f)
{
    hf_assert(f->late != NULL);
    fake_stream_send(f->late_stream, slice_make(f->late, f->late_len));
    free(f->late);
    f->late = NULL;
}

static void send_closed(struct fake_stream *s, const char *how)
{
    SessionResponse m = HOLDFAST__V1__SESSION_RESPONSE__INIT;
    Holdfast__V1__SessionResponse__Closed closed = HOLDFAST__V1__SESSION_RESPONSE__CLOSED__INIT;
    closed.how = proto_text(how);
    m.response_case = HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_CLOSED;
    m.closed = &closed;
    reply(s, &m.base);
    fake_stream_end(s, GRPC_OK, NULL, NULL);
}

static void on_session(struct fake_stream *s, struct slice bytes)
{
    SessionRequest *m = holdfast__v1__session_request__unpack(NULL, bytes.len, bytes.data);
    switch (m->request_case) {
    case HOLDFAST__V1__SESSION_REQUEST__REQUEST_OPEN:
        on_open(s, m->open);
        break;
    case HOLDFAST__V1__SESSION_REQUEST__REQUEST_RESUME:
        on_resume(s, m->resume);
        break;
    case HOLDFAST__V1__SESSION_REQUEST__REQUEST_KEEP_ALIVE:
        on_keepalive(s, m->keep_alive);
        break;
    case HOLDFAST__V1__SESSION_REQUEST__REQUEST_CLOSE:
        s->conn->fake->closed++;
        send_closed(s, "session_closed");
        break;
    default:
        hf_panic(__FILE__, __LINE__, "an empty session request");
    }
    holdfast__v1__session_request__free_unpacked(m, NULL);
}

/* ---- what others do ---- */

static void to_sessions(struct fake *f, const SessionResponse *m)
{
    for (struct fake_stream *s = fake_next_stream(f, NULL); s != NULL; s = fake_next_stream(f, s)) {
        if (s->is_session && !s->is_ended) {
            reply(s, &m->base);
        }
    }
}

void fake_lose(struct fake *f, uint64_t token, const char *how)
{
    SessionResponse m = HOLDFAST__V1__SESSION_RESPONSE__INIT;
    Holdfast__V1__SessionResponse__Notice notice = HOLDFAST__V1__SESSION_RESPONSE__NOTICE__INIT;
    struct fake_lock *lock = by_token(f, token);
    notice.news = HOLDFAST__V1__SESSION_RESPONSE__NEWS__LOST;
    notice.fence_token = token;
    notice.how = proto_text(how);
    m.response_case = HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_NOTICE;
    m.notice = &notice;
    if (lock != NULL) {
        memset(lock, 0, sizeof(*lock));
    }
    to_sessions(f, &m);
}

void fake_revoke(struct fake *f, uint64_t token, int64_t deadline_ms, const char *reason)
{
    SessionResponse m = HOLDFAST__V1__SESSION_RESPONSE__INIT;
    Holdfast__V1__SessionResponse__Notice notice = HOLDFAST__V1__SESSION_RESPONSE__NOTICE__INIT;
    Duration deadline = duration_of(deadline_ms);
    notice.news = HOLDFAST__V1__SESSION_RESPONSE__NEWS__REVOKE_REQUESTED;
    notice.fence_token = token;
    notice.reason = proto_text(reason);
    notice.deadline_in = &deadline;
    m.response_case = HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_NOTICE;
    m.notice = &notice;
    to_sessions(f, &m);
}

void fake_jeopardy(struct fake *f)
{
    SessionResponse m = HOLDFAST__V1__SESSION_RESPONSE__INIT;
    Holdfast__V1__SessionResponse__Notice notice = HOLDFAST__V1__SESSION_RESPONSE__NOTICE__INIT;
    notice.news = HOLDFAST__V1__SESSION_RESPONSE__NEWS__JEOPARDY;
    m.response_case = HOLDFAST__V1__SESSION_RESPONSE__RESPONSE_NOTICE;
    m.notice = &notice;
    to_sessions(f, &m);
}

void fake_end_sessions(struct fake *f, const char *how)
{
    for (struct fake_stream *s = fake_next_stream(f, NULL); s != NULL; s = fake_next_stream(f, s)) {
        if (s->is_session && !s->is_ended) {
            send_closed(s, how);
        }
    }
}

void fake_elect(struct fake *f, const char *client_id, const char *value)
{
    Holdfast__V1__LeaderResponse m = HOLDFAST__V1__LEADER_RESPONSE__INIT;
    Holdfast__V1__Holder leader = HOLDFAST__V1__HOLDER__INIT;
    m.vacant = client_id == NULL;
    if (client_id != NULL) {
        leader.client_id = proto_text(client_id);
        m.leader = &leader;
        m.value = proto_text(value);
    }
    for (struct fake_stream *s = fake_next_stream(f, NULL); s != NULL; s = fake_next_stream(f, s)) {
        if (strcmp(base_name(s->path), "Observe") == 0 && !s->is_ended) {
            reply(s, &m.base);
        }
    }
}

static void on_cluster(struct fake_stream *s)
{
    struct fake *f = s->conn->fake;
    Holdfast__V1__ClusterResponse m = HOLDFAST__V1__CLUSTER_RESPONSE__INIT;
    Holdfast__V1__Member members[FAKE_MEMBERS];
    Holdfast__V1__Member *pointers[FAKE_MEMBERS];
    for (; m.n_members < FAKE_MEMBERS && f->members[m.n_members] != NULL; m.n_members++) {
        holdfast__v1__member__init(&members[m.n_members]);
        members[m.n_members].client_address = proto_text(f->members[m.n_members]);
        pointers[m.n_members] = &members[m.n_members];
    }
    m.members = pointers;
    reply(s, &m.base);
    fake_stream_end(s, GRPC_OK, NULL, NULL);
}

/* ---- calls ---- */

void fake_on_message(struct fake_stream *s, struct slice message)
{
    static const struct {
        const char *name;
        void (*on_message)(struct fake_stream *s, struct slice message);
    } methods[] = {
        {"Session", on_session},   {"Lock", on_lock},     {"MultiLock", on_multi},
        {"Campaign", on_campaign}, {"Unlock", on_unlock}, {"Renew", on_renew},
        {"Proclaim", on_proclaim},
    };
    struct fake *f = s->conn->fake;
    if (strcmp(base_name(s->path), "Cluster") == 0) {
        on_cluster(s); /* as a node does, without a leader too */
        return;
    }
    if (f->refuse > 0 || f->has_no_leader) {
        f->refuse -= f->refuse > 0;
        fake_stream_end(s, GRPC_UNAVAILABLE, "unavailable", "no leader");
        return;
    }
    if (f->limit > 0 && strcmp(base_name(s->path), "Session") != 0) {
        f->limit--;
        fake_stream_end(s, GRPC_RESOURCE_EXHAUSTED, "limit_queue", "the queue is full");
        return;
    }
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(base_name(s->path), methods[i].name) == 0) {
            methods[i].on_message(s, message);
            return;
        }
    }
    if (strcmp(base_name(s->path), "Observe") == 0) {
        (void)note(f, s->path);
    } else {
        fake_stream_end(s, GRPC_UNIMPLEMENTED, NULL, "no such method");
    }
}
