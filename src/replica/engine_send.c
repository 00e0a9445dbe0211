/* What the engine sends: its messages as bytes, long ones in pieces (E10), and the commit index to
 * followers that would not get it soon (E11).
 *
 * For that the engine records what was sent to each follower in this term, which libraft keeps
 * privately: libraft pipelines to a follower after its match index rose, and probes it once an
 * older entry is sent again. */
#include "base/panic.h"
#include "replica/engine.h"
#include "replica/message.h"

static struct engine_peer *peer_of(struct engine *e, uint64_t id)
{
    hf_assert(id != 0 && id != e->raft.id);
    hf_assert(e->peers_term <= raft_current_term(&e->raft));
    if (e->peers_term != raft_current_term(&e->raft)) {
        e->peers_term = raft_current_term(&e->raft);
        e->peer_count = 0;
    }
    for (uint32_t i = 0; i < e->peer_count; i++) {
        if (e->peers[i].id == id) {
            return &e->peers[i];
        }
    }
    if (e->peer_count == e->peer_capacity) {
        uint32_t capacity = e->peer_capacity == 0 ? 8 : e->peer_capacity * 2;
        e->peers = memory_grow(e->memory, e->peers, e->peer_capacity * sizeof(*e->peers),
                               capacity * sizeof(*e->peers));
        e->peer_capacity = capacity;
    }
    struct engine_peer *p = &e->peers[e->peer_count++];
    *p = (struct engine_peer){.id = id, .probed = true};
    return p;
}

static void note_order(struct engine *e, uint64_t to, uint64_t index)
{
    struct engine_peer *p = peer_of(e, to);
    p->ordered = index > p->ordered ? index : p->ordered;
}

static uint64_t lower(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* 0: not known. */
static uint64_t term_of(const struct engine *e, uint64_t index)
{
    const struct entry_slot *s = entries_at(&e->log, index);
    if (s != NULL) {
        return s->term;
    }
    return index == e->snapshot.index ? e->snapshot.term : 0;
}

static bool entry_for_message(void *ctx, uint64_t index, struct replica_entry *out)
{
    return engine_entry(ctx, index, out);
}

static bool send_bytes(struct engine *e, uint64_t to, void *bytes, size_t len)
{
    if (bytes == NULL) {
        return false;
    }
    e->ports->send(e->ports->ctx, to, slice_make(bytes, len));
    raft_free(bytes);
    return true;
}

static bool send_plain(struct engine *e, const struct raft_message *m, struct slice members)
{
    size_t len = 0;
    void *bytes = message_encode(m, e->cluster_ms, members, entry_for_message, e, &len);
    return send_bytes(e, m->server_id, bytes, len);
}

/* How many of `count` entries after `prev` make one message; at least one. */
static unsigned piece_of(const struct engine *e, uint64_t prev, unsigned count)
{
    uint64_t bytes = 0;
    unsigned n = 0;
    while (n < count) {
        const struct entry_slot *s = entries_at(&e->log, prev + 1 + n);
        bytes += s == NULL ? 0 : s->len;
        if (n > 0 && bytes > e->message_bytes) {
            break;
        }
        n++;
    }
    return n;
}

static void note_mode(struct engine *e, struct engine_peer *p, uint64_t prev)
{
    raft_index match = 0;
    (void)raft_match_index(&e->raft, p->id, &match);
    if (match > p->match) {
        p->match = match;
        p->probed = false;
    } else if (prev < p->through) {
        p->probed = true;
    }
}

static bool is_voter(const struct raft_configuration *conf, uint64_t id)
{
    for (unsigned i = 0; i < conf->n; i++) {
        if (conf->servers[i].id == id) {
            return conf->servers[i].role == RAFT_VOTER;
        }
    }
    return false;
}

/* E23: cuts the message to the entries before the change. False: nothing can be sent now. */
static bool withhold_demotion(const struct engine *e, struct raft_message *m)
{
    struct raft_append_entries *a = &m->append_entries;
    uint64_t change = e->raft.configuration_uncommitted_index;
    if (change == 0 || a->prev_log_index + a->n_entries < change ||
        is_voter(&e->raft.configuration, m->server_id) ||
        !is_voter(&e->raft.configuration_committed, m->server_id)) {
        return true;
    }
    if (a->prev_log_index >= change) {
        a->prev_log_index = change - 1;
        a->prev_log_term = term_of(e, change - 1);
    }
    hf_assert(a->prev_log_index < change);
    a->n_entries = (unsigned)(change - 1 - a->prev_log_index);
    a->leader_commit = lower(a->leader_commit, change - 1);
    return a->prev_log_term != 0;
}

/* E10: in pipeline mode libraft assumes that every message is delivered: send all. In probe mode it
 * requests the same entries with every heartbeat: the first piece is enough for an answer. */
static void send_append(struct engine *e, const struct raft_message *whole)
{
    struct engine_peer *p = peer_of(e, whole->server_id);
    struct raft_message m = *whole;
    struct raft_append_entries *a = &m.append_entries;
    if (!withhold_demotion(e, &m)) {
        return;
    }
    unsigned left = a->n_entries;
    note_mode(e, p, a->prev_log_index);
    do {
        a->n_entries = piece_of(e, a->prev_log_index, left);
        hf_assert(a->n_entries <= left && (a->n_entries > 0 || left == 0));
        if (!send_plain(e, &m, slice_make(NULL, 0))) {
            return;
        }
        left -= a->n_entries;
        a->prev_log_index += a->n_entries;
        a->prev_log_term = term_of(e, a->prev_log_index);
        p->through = a->prev_log_index;
        uint64_t sent_commit = lower(a->leader_commit, p->through);
        p->sent_commit = sent_commit > p->sent_commit ? sent_commit : p->sent_commit;
    } while (left > 0 && !p->probed);
}

/* E11: an AppendEntries without entries at an index that the follower has acknowledged, and so
 * cannot refuse. An answer would tell libraft nothing, so this kind is not answered. */
static void tell_commit(struct engine *e, struct engine_peer *p, uint64_t index)
{
    hf_assert(index > p->sent_commit && index <= raft_commit_index(&e->raft));
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES, .server_id = p->id};
    m.append_entries.term = raft_current_term(&e->raft);
    m.append_entries.prev_log_index = index;
    m.append_entries.prev_log_term = term_of(e, index);
    m.append_entries.leader_commit = index;
    if (m.append_entries.prev_log_term == 0) {
        return; /* no longer in our log: the follower has had that commit index for long */
    }
    size_t len = 0;
    void *bytes = message_encode_commit(&m, e->cluster_ms, &len);
    if (send_bytes(e, p->id, bytes, len)) {
        p->sent_commit = index;
    }
}

void engine_tell_commit(struct engine *e)
{
    e->may_tell = false;
    if (!engine_is_leader(e)) {
        return;
    }
    for (unsigned i = 0; i < e->raft.configuration.n; i++) {
        uint64_t id = e->raft.configuration.servers[i].id;
        raft_index match = 0;
        if (id == e->raft.id || raft_match_index(&e->raft, id, &match) != 0) {
            continue;
        }
        struct engine_peer *p = peer_of(e, id);
        uint64_t known = lower(raft_commit_index(&e->raft), match);
        if (known > p->sent_commit) {
            tell_commit(e, p, known);
        }
    }
}

/* This node created each entry of its own term and sent it to the follower. An entry of an earlier
 * term is not above our last entry at the election, and the first message to each member begins
 * there. See docs/ENGINE.md. */
bool engine_may_acknowledge(const struct engine *e, uint64_t peer, uint64_t index)
{
    for (uint32_t i = 0; i < e->peer_count && e->peers_term == raft_current_term(&e->raft); i++) {
        if (e->peers[i].id == peer && e->peers[i].ordered > 0) {
            return index <= e->peers[i].ordered;
        }
    }
    return index <= entries_last(&e->log); /* nothing was sent to it yet */
}

void engine_send(struct engine *e, const struct raft_message *ordered)
{
    struct raft_message m = *ordered;
    struct slice members = slice_make(NULL, 0);
    switch (m.type) {
    case RAFT_APPEND_ENTRIES:
        note_order(e, m.server_id, m.append_entries.prev_log_index + m.append_entries.n_entries);
        send_append(e, &m);
        return;
    case RAFT_APPEND_ENTRIES_RESULT:
        if (e->answers_older_term) { /* E14 */
            m.append_entries_result.rejected = UINT64_MAX;
            m.append_entries_result.last_log_index = 0;
            break;
        }
        if (e->unanswered && m.append_entries_result.rejected == 0) { /* E11 */
            return;
        }
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        if (m.request_vote_result.pre_vote && !m.request_vote_result.vote_granted &&
            raft_current_term(&e->raft) > m.request_vote_result.term) {
            m.request_vote_result.term = raft_current_term(&e->raft); /* E4 */
        }
        break;
    case RAFT_INSTALL_SNAPSHOT:
        if (e->snapshot.index == 0) {
            return;
        }
        hf_assert(e->snapshot.members.len > 0 && e->snapshot.term != 0);
        m.install_snapshot.last_index = e->snapshot.index; /* the newest, whichever libraft
                                                              requested */
        m.install_snapshot.last_term = e->snapshot.term;
        m.install_snapshot.conf_index = e->snapshot.members_index;
        members = e->snapshot.members;
        note_order(e, m.server_id, e->snapshot.index);
        break;
    default:
        break;
    }
    (void)send_plain(e, &m, members);
}
