/* Messages from peers: checked, changed or dropped before libraft gets them (engine.h). */
#include <inttypes.h>
#include <stdio.h>

#include "base/panic.h"
#include "replica/engine.h"
#include "replica/message.h"

static uint64_t leader_term(const struct raft_message *m)
{
    return m->type == RAFT_APPEND_ENTRIES     ? m->append_entries.term
           : m->type == RAFT_INSTALL_SNAPSHOT ? m->install_snapshot.term
                                              : 0;
}

static void give(struct engine *e, struct raft_message *message, uint64_t now_ms)
{
    struct raft_event event = {.type = RAFT_RECEIVE};
    event.receive.message = message;
    int error = engine_step(e, &event, now_ms);
    if (error == RAFT_SHUTDOWN) {
        char text[200];
        snprintf(text, sizeof(text),
                 "node %" PRIu64 " sent entries that contradict committed ones (term %" PRIu64
                 "): one of the two nodes has lost data; compare their logs before either starts "
                 "again",
                 (uint64_t)message->server_id, leader_term(message));
        hf_panic(__FILE__, __LINE__, text);
    }
    if (error != 0) {
        hf_panic(__FILE__, __LINE__, raft_strerror(error));
    }
}

/* E21: libraft would overwrite its own leader's state. */
static void refuse_second_leader(const struct engine *e, const struct raft_message *m)
{
    if (!engine_is_leader(e) || leader_term(m) != raft_current_term(&e->raft)) {
        return;
    }
    char text[200];
    snprintf(text, sizeof(text),
             "node %" PRIu64 " leads term %" PRIu64
             ", and so does this node: two nodes were elected in one term. Keep the data of both "
             "and compare their logs before either starts again",
             (uint64_t)m->server_id, leader_term(m));
    hf_panic(__FILE__, __LINE__, text);
}

/* E17. The leader has what the snapshot covers: all of it is committed. */
static void begin_at_snapshot(const struct engine *e, struct message_in *in)
{
    struct raft_append_entries *a = &in->message.append_entries;
    uint64_t index = e->raft.trail.snapshot.index;
    bool in_log = a->prev_log_index > e->raft.trail.offset;
    if (a->prev_log_index >= index || in_log || a->term < raft_current_term(&e->raft)) {
        return;
    }
    uint64_t covered = index - a->prev_log_index;
    a->prev_log_index = index;
    a->prev_log_term = e->raft.trail.snapshot.term;
    if (covered < a->n_entries) {
        a->entries += covered;
        a->n_entries -= (unsigned)covered;
    } else if (a->n_entries > 0) {
        raft_free(in->entries[0].batch);
        a->n_entries = 0;
    }
}

/* Passes entries [from, to) to libraft, in a block of their own. */
static void receive_part(struct engine *e, const struct raft_message *whole, unsigned from,
                         unsigned to, uint64_t now_ms)
{
    hf_assert(from < to && to <= whole->append_entries.n_entries);
    const struct raft_append_entries *all = &whole->append_entries;
    struct raft_message part = *whole;
    size_t total = 0;
    for (unsigned i = from; i < to; i++) {
        total += all->entries[i].buf.len;
    }
    uint8_t *batch = raft_malloc(total == 0 ? 1 : total);
    struct raft_entry *entries = raft_malloc(sizeof(*entries) * (to - from));
    hf_assert(batch != NULL && entries != NULL);
    size_t at = 0;
    for (unsigned i = from; i < to; i++) {
        entries[i - from] = all->entries[i];
        entries[i - from].batch = batch;
        entries[i - from].buf.base = batch + at;
        memcpy(batch + at, all->entries[i].buf.base, all->entries[i].buf.len);
        at += all->entries[i].buf.len;
    }
    if (from > 0) {
        part.append_entries.prev_log_index = all->prev_log_index + from;
        part.append_entries.prev_log_term = all->entries[from - 1].term;
    }
    part.append_entries.entries = entries;
    part.append_entries.n_entries = to - from;
    give(e, &part, now_ms);
    raft_free(entries);
}

/* E12: the membership entry before `index` is not committed here. By E5 it is committed. */
static void settle_earlier_change(struct engine *e, const struct raft_append_entries *a,
                                  unsigned from, uint64_t now_ms)
{
    hf_assert(from < a->n_entries && a->entries[from].type == RAFT_CHANGE);
    uint64_t earlier = e->raft.configuration_uncommitted_index;
    uint64_t before = a->prev_log_index + from;
    uint64_t before_term = from == 0 ? a->prev_log_term : a->entries[from - 1].term;
    const struct entry_slot *s = entries_at(&e->log, before);
    struct replica_entry entry;
    if (earlier == 0 || earlier > before || e->installing || s == NULL || s->term != before_term ||
        a->term < raft_current_term(&e->raft)) {
        return; /* none, or the message is refused or replaces it */
    }
    if (engine_entry(e, earlier, &entry) && entry.type == RAFT_CHANGE) {
        engine_configuration(e, earlier, entry.bytes, now_ms);
    }
}

static bool has_change(const struct raft_append_entries *a)
{
    for (unsigned i = 0; i < a->n_entries; i++) {
        if (a->entries[i].type == RAFT_CHANGE) {
            return true;
        }
    }
    return false;
}

/* E6: cut before each membership entry. */
static void receive_changes(struct engine *e, struct message_in *in, uint64_t now_ms)
{
    const struct raft_append_entries *a = &in->message.append_entries;
    unsigned from = 0;
    hf_assert(a->n_entries > 0 && !in->is_unanswered);
    while (from < a->n_entries) {
        unsigned to = from + 1;
        while (to < a->n_entries && a->entries[to].type != RAFT_CHANGE) {
            to++;
        }
        if (a->entries[from].type == RAFT_CHANGE) {
            settle_earlier_change(e, a, from, now_ms);
        }
        receive_part(e, &in->message, from, to, now_ms);
        from = to;
    }
    raft_free(in->entries[0].batch);
    raft_free(in->entries);
}

static void receive_append(struct engine *e, struct message_in *in, uint64_t now_ms)
{
    begin_at_snapshot(e, in);
    if (has_change(&in->message.append_entries)) {
        receive_changes(e, in, now_ms);
        return;
    }
    e->unanswered = in->is_unanswered; /* E11 */
    give(e, &in->message, now_ms);
    e->unanswered = false;
    raft_free(in->entries); /* in the log, or freed by libraft */
}

static void receive_snapshot(struct engine *e, struct message_in *in, uint64_t now_ms)
{
    struct raft_install_snapshot *s = &in->message.install_snapshot;
    if (!e->installing) {
        e->install_from = in->message.server_id;
    }
    /* A repeated message only resets libraft's election timer; this node still owns its
     * contents. */
    bool ours = e->installing && s->term >= raft_current_term(&e->raft);
    give(e, &in->message, now_ms);
    if (ours) {
        raft_configuration_close(&s->conf);
        raft_free(s->data.base);
    }
}

static void receive_from_leader(struct engine *e, struct message_in *in, uint64_t now_ms)
{
    hf_assert(!e->answers_older_term && !e->unanswered); /* one message at a time */
    refuse_second_leader(e, &in->message);
    e->answers_older_term = leader_term(&in->message) < raft_current_term(&e->raft); /* E14 */
    if (!e->answers_older_term) {
        e->leader_heard_ms = now_ms;
        e->cluster_ms = in->cluster_ms; /* the answer carries the time of the answered message
                                           (S10.1) */
    }
    if (in->message.type == RAFT_APPEND_ENTRIES) {
        receive_append(e, in, now_ms);
    } else {
        receive_snapshot(e, in, now_ms);
    }
    e->answers_older_term = false;
}

static struct raft_server *own_server(struct engine *e)
{
    struct raft_configuration *conf = &e->raft.configuration;
    for (unsigned i = 0; i < conf->n; i++) {
        if (conf->servers[i].id == e->raft.id) {
            return &conf->servers[i];
        }
    }
    return NULL;
}

/* A follower that does not campaign keeps its last leader, and refuses its vote. */
static void forget_absent_leader(struct engine *e, uint64_t candidate, uint64_t now_ms)
{
    struct raft *r = &e->raft;
    bool is_absent = now_ms - e->leader_heard_ms >= r->election_timeout;
    if (raft_state(r) != RAFT_FOLLOWER || r->follower_state.current_leader.id == 0 ||
        (r->follower_state.current_leader.id != candidate && !is_absent)) {
        return;
    }
    r->follower_state.current_leader.id = 0;
    raft_free(r->follower_state.current_leader.address);
    r->follower_state.current_leader.address = NULL;
}

/* E15 */
static void receive_vote_request(struct engine *e, struct raft_message *m, uint64_t now_ms)
{
    struct raft_server *self = own_server(e);
    int role = self != NULL ? self->role : RAFT_VOTER;
    forget_absent_leader(e, m->request_vote.candidate_id, now_ms);
    if (self != NULL) {
        self->role = RAFT_VOTER;
    }
    give(e, m, now_ms);
    if (self != NULL) {
        self->role = role;
    }
}

/* E18 */
static bool may_take_vote_result(struct engine *e, const struct raft_request_vote_result *result)
{
    enum raft_state state = raft_state(&e->raft);
    if (!result->pre_vote) {
        return state != RAFT_FOLLOWER;
    }
    bool is_expected = !result->vote_granted || result->term == raft_current_term(&e->raft) + 1;
    return state == RAFT_CANDIDATE && e->raft.candidate_state.in_pre_vote && is_expected;
}

/* E14, from a follower without that rule: libraft would cut the index to our last one and count
 * it. */
static bool is_garbage(const struct engine *e, uint64_t peer,
                       const struct raft_append_entries_result *result)
{
    return engine_is_leader(e) && result->term == raft_current_term(&e->raft) &&
           result->rejected == 0 && !engine_may_acknowledge(e, peer, result->last_log_index);
}

static void receive(struct engine *e, struct message_in *in, uint64_t now_ms)
{
    struct raft_message *m = &in->message;
    switch (m->type) {
    case RAFT_APPEND_ENTRIES:
    case RAFT_INSTALL_SNAPSHOT:
        receive_from_leader(e, in, now_ms);
        break;
    case RAFT_REQUEST_VOTE:
        receive_vote_request(e, m, now_ms);
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        if (may_take_vote_result(e, &m->request_vote_result)) {
            give(e, m, now_ms);
        }
        break;
    case RAFT_TIMEOUT_NOW:
        if (!engine_is_only_voter(e)) { /* E13 */
            give(e, m, now_ms);
        }
        break;
    default:
        give(e, m, now_ms);
        break;
    }
}

bool engine_receive(struct engine *e, uint64_t peer, struct slice bytes, uint64_t now_ms,
                    struct engine_heard *heard)
{
    struct message_in in;
    hf_assert(peer != 0 && heard != NULL);
    if (!message_decode(bytes, peer, "", &in)) {
        heard->refusal = "its message cannot be decoded";
        return false;
    }
    heard->refusal =
        e->plausible == NULL ? NULL : plausible_check(e->plausible, e, &in, now_ms); /* S12.11 */
    if (heard->refusal != NULL) {
        message_drop(&in);
        return false;
    }
    bool is_result = in.message.type == RAFT_APPEND_ENTRIES_RESULT;
    const struct raft_append_entries_result *result = &in.message.append_entries_result;
    if (is_result && is_garbage(e, peer, result)) {
        message_drop(&in);
        *heard = (struct engine_heard){0};
        return true;
    }
    uint64_t term = leader_term(&in.message);
    *heard = (struct engine_heard){.term = term, .ms = term == 0 ? 0 : in.cluster_ms};
    heard->is_answer = is_result && result->term == raft_current_term(&e->raft) &&
                       result->rejected != UINT64_MAX; /* the answer to an older term, E14 */
    heard->answer_ms = in.cluster_ms;
    receive(e, &in, now_ms);
    e->may_tell = e->may_tell || is_result;
    return true;
}
