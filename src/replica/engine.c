/* libraft, driven by raft_step, by the rules in engine.h. */
#include "replica/engine.h"

#include "base/panic.h"
#include "replica/message.h"

/* Reported to peers; this node stops when the disk is full. */
#define CAPACITY UINT16_MAX

/* Election timeouts after which a leader announces its snapshot again: about 2 s. */
#define INSTALL_TIMEOUTS 7

static void own_members(const struct memory *memory, struct replica_snapshot *s, struct slice from)
{
    hf_assert(from.len > 0);
    uint8_t *copy = memory_alloc(memory, from.len);
    memcpy(copy, from.data, from.len);
    s->members = slice_make(copy, from.len);
}

static void drop_snapshot(const struct memory *memory, struct replica_snapshot *s)
{
    if (s->members.len > 0) {
        memory_free(memory, (void *)(uintptr_t)s->members.data, s->members.len);
    }
    *s = (struct replica_snapshot){0};
}

static void decode_members(struct slice bytes, struct raft_configuration *out)
{
    bool fine = members_decode(bytes, out); /* the caller has checked them */
    hf_assert(fine);
}

bool engine_entry(struct engine *e, uint64_t index, struct replica_entry *out)
{
    const struct entry_slot *s = entries_at(&e->log, index);
    if (s == NULL) {
        return false;
    }
    if (s->bytes == NULL && s->len > 0) {
        return e->ports->read(e->ports->ctx, index, out) && out->term == s->term;
    }
    *out = (struct replica_entry){s->term, s->type, slice_make(s->bytes, s->len)};
    return true;
}

static void queue_write(struct engine *e, uint64_t first, uint64_t last)
{
    hf_assert(first > e->reported && first <= last);
    hf_assert(e->write_number - e->write_done == e->write_count);
    for (uint32_t i = 0; i < e->write_count; i++) { /* E3 */
        if (e->writes[i].reportable >= first) {
            e->writes[i].reportable = first - 1;
        }
    }
    if (e->write_count == e->write_capacity) {
        uint32_t capacity = e->write_capacity == 0 ? 16 : e->write_capacity * 2;
        e->writes = memory_grow(e->memory, e->writes, e->write_capacity * sizeof(*e->writes),
                                capacity * sizeof(*e->writes));
        e->write_capacity = capacity;
    }
    e->writes[e->write_count++] = (struct engine_write){first, last, last};
    e->write_number++;
}

static void take_entries(struct engine *e, const struct raft_update *u)
{
    enum { AT_ONCE = 64 };
    struct replica_entry batch[AT_ONCE];
    uint64_t first = u->entries.index;
    unsigned count = u->entries.n;
    hf_assert(count > 0 && !e->installing);
    hf_assert(first >= e->log.first && first <= entries_last(&e->log) + 1);
    entries_truncate(&e->log, first, e->write_number);
    if (e->reported >= first) { /* replaced; their successors are reported again */
        e->reported = first - 1;
    }
    for (unsigned i = 0; i < count; i++) {
        const struct raft_entry *from = &u->entries.batch[i];
        entries_append(&e->log, &(struct replica_entry){from->term, (uint16_t)from->type,
                                                        slice_make(from->buf.base, from->buf.len)});
    }
    raft_free(u->entries.batch[0].batch); /* one block for all entries */
    for (unsigned done = 0; done < count;) {
        unsigned n = count - done < AT_ONCE ? count - done : AT_ONCE;
        for (unsigned i = 0; i < n; i++) {
            const struct entry_slot *s = entries_at(&e->log, first + done + i);
            batch[i] = (struct replica_entry){s->term, s->type, slice_make(s->bytes, s->len)};
        }
        queue_write(e, first + done, first + done + n - 1);
        e->ports->write(e->ports->ctx, first + done, batch, n);
        done += n;
    }
}

/* Keeps the log for engine_snapshot_abandoned until the snapshot is durable. */
static void take_snapshot(struct engine *e, struct raft_update *u)
{
    struct raft_snapshot_metadata *m = &u->snapshot.metadata;
    hf_assert(!e->installing && !engine_is_leader(e));
    hf_assert(m->index > e->snapshot.index && e->install_from != 0);
    e->installing = true;
    drop_snapshot(e->memory, &e->coming);
    e->coming.index = m->index;
    e->coming.term = m->term;
    e->coming.members_index = m->configuration_index;
    struct slice members;
    bool fine = members_encode(&m->configuration, &members, e->memory);
    hf_assert(fine);
    e->coming.members = members;
    raft_configuration_close(&m->configuration);
    raft_free(u->snapshot.chunk.base);
    for (uint32_t i = 0; i < e->write_count; i++) {
        e->writes[i].reportable = 0; /* E3 */
    }
    e->ports->fetch_snapshot(e->ports->ctx, e->install_from, &e->coming);
}

/* E21. During an install libraft raises the commit index to the snapshot's, which may not
 * arrive. */
static void keep_commit_index(struct engine *e)
{
    if (e->installing || e->raft.commit_index < e->committed) {
        e->raft.commit_index = e->committed;
    }
    e->committed = e->raft.commit_index;
}

int engine_step(struct engine *e, struct raft_event *event, uint64_t now_ms)
{
    struct raft_update u;
    uint64_t term = raft_current_term(&e->raft);
    uint64_t committed = e->committed;
    hf_assert(e->started);
    event->time = now_ms;
    event->capacity = CAPACITY;
    int error = raft_step(&e->raft, event, &u);
    if (error != 0) {
        return error;
    }
    keep_commit_index(e);
    hf_assert(raft_current_term(&e->raft) >= term);
    if (u.flags & (RAFT_UPDATE_CURRENT_TERM | RAFT_UPDATE_VOTED_FOR)) { /* E1 */
        e->ports->save_vote(e->ports->ctx, raft_current_term(&e->raft), raft_voted_for(&e->raft));
    }
    if (u.flags & (RAFT_UPDATE_ENTRIES)) {
        hf_assert(u.entries.index > committed); /* committed entries are never replaced */
        take_entries(e, &u);
    }
    if (u.flags & (RAFT_UPDATE_SNAPSHOT)) {
        take_snapshot(e, &u);
    }
    if (u.flags & (RAFT_UPDATE_MESSAGES)) {
        for (unsigned i = 0; i < u.messages.n; i++) {
            engine_send(e, &u.messages.batch[i]);
        }
    }
    return 0;
}

void engine_must_step(struct engine *e, struct raft_event *event, uint64_t now_ms)
{
    int error = engine_step(e, event, now_ms);
    if (error != 0) {
        hf_panic(__FILE__, __LINE__, raft_strerror(error));
    }
}

static bool is_only_voter(const struct raft_configuration *conf, uint64_t id)
{
    bool votes = false;
    unsigned voters = 0;
    for (unsigned i = 0; i < conf->n; i++) {
        bool is_voter = conf->servers[i].role == RAFT_VOTER;
        voters += is_voter;
        votes = votes || (is_voter && conf->servers[i].id == id);
    }
    return votes && voters == 1;
}

/* libraft keeps the term, and reads only membership entries. Their bytes are a copy, which the
 * caller frees. */
static struct raft_entry start_entry(struct engine *e, uint64_t index)
{
    const struct entry_slot *s = entries_at(&e->log, index);
    hf_assert(s != NULL);
    struct raft_entry entry = {.term = s->term, .type = (enum raft_entry_type)s->type};
    struct replica_entry stored;
    if (s->type == RAFT_CHANGE) {
        bool found = engine_entry(e, index, &stored);
        hf_assert(found);
        entry.buf.len = stored.bytes.len;
        entry.buf.base = raft_malloc(stored.bytes.len);
        hf_assert(entry.buf.base != NULL);
        memcpy(entry.buf.base, stored.bytes.data, stored.bytes.len);
    }
    return entry;
}

/* Whether this node is the only voter in the last membership entry, or else in the snapshot. */
static bool starts_as_only_voter(const struct engine *e, const struct raft_event *event)
{
    struct raft_configuration conf;
    const struct raft_buffer *newest = NULL;
    raft_configuration_init(&conf);
    for (unsigned i = 0; i < event->start.n_entries; i++) {
        if (event->start.entries[i].type == RAFT_CHANGE &&
            event->start.start_index + i > e->snapshot.members_index) {
            newest = &event->start.entries[i].buf;
        }
    }
    if (newest != NULL) {
        decode_members(slice_make(newest->base, newest->len), &conf);
    } else if (e->snapshot.index != 0) {
        decode_members(e->snapshot.members, &conf);
    }
    bool result = is_only_voter(&conf, e->raft.id);
    raft_configuration_close(&conf);
    return result;
}

static int start_raft(struct engine *e, uint64_t term, uint64_t vote, uint64_t now_ms)
{
    hf_assert(!e->installing && e->coming.index == 0);
    struct raft_event event = {.type = RAFT_START};
    struct raft_snapshot_metadata metadata;
    event.start.term = term;
    event.start.voted_for = vote;
    if (e->snapshot.index != 0) {
        metadata.index = e->snapshot.index;
        metadata.term = e->snapshot.term;
        metadata.configuration_index = e->snapshot.members_index;
        decode_members(e->snapshot.members, &metadata.configuration);
        event.start.metadata = &metadata;
    }
    event.start.start_index = e->log.first;
    event.start.n_entries = e->log.count;
    if (e->log.count > 0) {
        event.start.entries = raft_malloc(sizeof(*event.start.entries) * e->log.count);
        hf_assert(event.start.entries != NULL);
        for (uint32_t i = 0; i < e->log.count; i++) {
            event.start.entries[i] = start_entry(e, e->log.first + i);
        }
    }
    if (starts_as_only_voter(e, &event)) { /* E13: it will lead at once */
        event.start.term = term + 1;
        event.start.voted_for = e->raft.id;
        e->ports->save_vote(e->ports->ctx, event.start.term, event.start.voted_for);
    }
    int error = engine_step(e, &event, now_ms);
    for (uint32_t i = 0; i < event.start.n_entries; i++) {
        raft_free(event.start.entries[i].buf.base);
    }
    raft_free(event.start.entries);
    return error;
}

static bool init_raft(struct engine *e, uint32_t seed)
{
    const struct replica_options *options = e->options;
    if (raft_init(&e->raft, NULL, NULL, options->id, options->address) != 0) {
        return false;
    }
    /* libraft's default tracer formats several lines a step. */
    e->raft.tracer = NULL;
    raft_seed(&e->raft, seed);
    raft_set_pre_vote(&e->raft, true);
    raft_set_election_timeout(&e->raft, options->election_ms);
    raft_set_heartbeat_timeout(&e->raft, options->heartbeat_ms);
    raft_set_install_snapshot_timeout(&e->raft, INSTALL_TIMEOUTS * options->election_ms); /* E20 */
    return true;
}

bool engine_start(struct engine *e, const struct replica_options *options,
                  const struct replica_ports *ports, const struct replica_start *start,
                  uint64_t now_ms, const char **problem)
{
    hf_assert(options->id != 0 && options->memory != NULL);
    hf_assert(options->heartbeat_ms > 0 && options->heartbeat_ms < options->election_ms);
    uint64_t cluster_ms = e->cluster_ms;
    struct entries log = e->log;
    memset(e, 0, sizeof(*e));
    e->cluster_ms = cluster_ms;
    e->log = log;
    e->options = options;
    e->memory = options->memory;
    e->ports = ports;
    e->message_bytes = options->message_bytes != 0 ? options->message_bytes : MESSAGE_BYTES;
    if (!init_raft(e, options->seed)) {
        *problem = "libraft cannot be started";
        return false;
    }
    if (start->snapshot.index != 0) {
        e->snapshot = start->snapshot;
        own_members(e->memory, &e->snapshot, start->snapshot.members);
    }
    e->reported = entries_last(&e->log);
    e->started = true;
    int error = start_raft(e, start->term, start->vote, now_ms);
    if (error != 0) {
        *problem = raft_strerror(error);
    }
    return error == 0;
}

void engine_close(struct engine *e)
{
    if (!e->started) {
        entries_close(&e->log);
        return;
    }
    raft_close(&e->raft, NULL);
    entries_close(&e->log);
    drop_snapshot(e->memory, &e->snapshot);
    drop_snapshot(e->memory, &e->coming);
    if (e->write_capacity > 0) {
        memory_free(e->memory, e->writes, e->write_capacity * sizeof(*e->writes));
    }
    if (e->peer_capacity > 0) {
        memory_free(e->memory, e->peers, e->peer_capacity * sizeof(*e->peers));
    }
}

void engine_written(struct engine *e, uint64_t last, uint64_t now_ms)
{
    hf_assert(e->write_count > 0 && e->writes[0].last == last);
    struct engine_write done = e->writes[0];
    e->write_count--;
    memmove(e->writes, e->writes + 1, e->write_count * sizeof(*e->writes));
    e->write_done++;
    hf_assert(e->write_number - e->write_done == e->write_count);
    entries_written(&e->log, e->write_done);
    uint64_t reportable = done.last < done.reportable ? done.last : done.reportable;
    if (e->installing || reportable < done.first) { /* E3 */
        return;
    }
    hf_assert(reportable > e->reported && reportable <= entries_last(&e->log));
    e->reported = reportable;
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES};
    event.persisted_entries.index = reportable;
    engine_must_step(e, &event, now_ms);
    e->may_tell = true;
}

/* Whether the timer makes this follower the leader of its present term. */
static bool would_elect_itself(const struct engine *e)
{
    return raft_state((struct raft *)(uintptr_t)&e->raft) == RAFT_FOLLOWER && !e->installing &&
           e->reported == entries_last(&e->log) && engine_is_only_voter(e);
}

bool engine_is_only_voter(const struct engine *e)
{
    return is_only_voter(&e->raft.configuration, e->raft.id);
}

void engine_timeout(struct engine *e, uint64_t now_ms)
{
    struct raft *r = &e->raft;
    struct raft_event event = {.type = RAFT_TIMEOUT};
    if (would_elect_itself(e)) { /* E13 */
        r->current_term++;
        r->voted_for = r->id;
        e->ports->save_vote(e->ports->ctx, r->current_term, r->voted_for);
    } else if (raft_state(r) == RAFT_CANDIDATE) { /* E19 */
        r->candidate_state.in_pre_vote = true;
        r->candidate_state.disrupt_leader = false;
    }
    engine_must_step(e, &event, now_ms);
}

void engine_peer_ended(struct engine *e, uint64_t peer, uint64_t now_ms)
{
    enum { PARTS = 3 };
    struct raft *r = &e->raft;
    if (raft_state(r) != RAFT_FOLLOWER || r->follower_state.current_leader.id != peer) {
        return;
    }
    e->leader_heard_ms = 0;
    /* Moves the timer back: a cut timeout would apply to the next leader too. libraft's random part
     * of the timeout is used as ours. */
    uint64_t timeout = r->follower_state.randomized_election_timeout;
    uint64_t at_ms = now_ms + (timeout - r->election_timeout) / PARTS;
    if (at_ms > timeout && at_ms - timeout < r->election_timer_start) {
        r->election_timer_start = at_ms - timeout;
    }
}

enum hf_error engine_submit(struct engine *e, uint16_t type, struct slice bytes, uint64_t now_ms)
{
    hf_assert(type == RAFT_COMMAND || type == RAFT_CHANGE);
    hf_assert(bytes.len > 0 && bytes.len <= LIMIT_ENTRY);
    hf_assert(bytes.len % 8 == 0); /* libraft reads words of 8 bytes */
    struct raft_entry entry = {
        .term = raft_current_term(&e->raft),
        .type = (enum raft_entry_type)type,
        .buf = {raft_malloc(bytes.len), bytes.len},
    };
    hf_assert(entry.buf.base != NULL);
    memcpy(entry.buf.base, bytes.data, bytes.len);
    entry.batch = entry.buf.base;
    struct raft_event event = {.type = RAFT_SUBMIT};
    event.submit.entries = &entry;
    event.submit.n = 1;
    if (engine_step(e, &event, now_ms) != 0) {
        raft_free(entry.buf.base);
        return HF_UNAVAILABLE;
    }
    return HF_OK;
}

void engine_configuration(struct engine *e, uint64_t index, struct slice members, uint64_t now_ms)
{
    hf_assert(index != 0 && index <= entries_last(&e->log));
    struct raft_event event = {.type = RAFT_CONFIGURATION};
    event.configuration.index = index;
    decode_members(members, &event.configuration.conf);
    engine_must_step(e, &event, now_ms);
}

enum hf_error engine_transfer(struct engine *e, uint64_t to, uint64_t now_ms)
{
    hf_assert(engine_is_leader(e));
    hf_assert(e->raft.configuration_uncommitted_index == 0); /* E13 */
    struct raft_event event = {.type = RAFT_TRANSFER};
    event.transfer.server_id = to;
    return engine_step(e, &event, now_ms) == 0 ? HF_OK : HF_UNAVAILABLE;
}

void engine_snapshot_taken(struct engine *e, uint32_t trailing, uint64_t now_ms)
{
    hf_assert(e->coming.index != 0 && e->coming.index <= e->reported && !e->installing); /* E7 */
    hf_assert(e->coming.index > e->snapshot.index && e->coming.index <= e->committed);
    hf_assert(e->coming.members_index <= e->coming.index);
    drop_snapshot(e->memory, &e->snapshot);
    e->snapshot = e->coming;
    e->coming = (struct replica_snapshot){0};
    struct raft_event event = {.type = RAFT_SNAPSHOT};
    event.snapshot.metadata.index = e->snapshot.index;
    event.snapshot.metadata.term = e->snapshot.term;
    event.snapshot.metadata.configuration_index = e->snapshot.members_index;
    decode_members(e->snapshot.members, &event.snapshot.metadata.configuration);
    event.snapshot.trailing = trailing;
    engine_must_step(e, &event, now_ms);
    if (e->snapshot.index > trailing) {
        entries_drop_before(&e->log, e->snapshot.index - trailing + 1);
    }
}

void engine_snapshot_installed(struct engine *e, uint64_t now_ms)
{
    hf_assert(e->installing && e->coming.index > e->snapshot.index);
    drop_snapshot(e->memory, &e->snapshot);
    e->snapshot = e->coming;
    e->coming = (struct replica_snapshot){0};
    e->installing = false;
    entries_reset(&e->log, e->snapshot.index + 1, e->write_number);
    e->reported = e->snapshot.index;
    struct raft_event event = {.type = RAFT_PERSISTED_SNAPSHOT};
    event.persisted_snapshot.metadata.index = e->snapshot.index;
    event.persisted_snapshot.metadata.term = e->snapshot.term;
    event.persisted_snapshot.metadata.configuration_index = e->snapshot.members_index;
    decode_members(e->snapshot.members, &event.persisted_snapshot.metadata.configuration);
    event.persisted_snapshot.last = true;
    engine_must_step(e, &event, now_ms);
}

/* The log up to this index is on disk, and no write in flight changes it. */
static uint64_t last_on_disk(const struct engine *e)
{
    uint64_t last = entries_last(&e->log);
    for (uint32_t i = 0; i < e->write_count; i++) {
        last = e->writes[i].first <= last ? e->writes[i].first - 1 : last;
    }
    return last;
}

/* Committed, applied entries that are not on our disk must not leave the log. */
bool engine_may_abandon_snapshot(const struct engine *e)
{
    return e->installing && last_on_disk(e) >= e->committed;
}

/* libraft has no event for a snapshot that does not arrive, and has already replaced its view of
 * the log. So it is restarted with the log on disk (E20), all of which it takes as stored. Neither
 * the snapshot nor an entry whose write is in flight was acknowledged. Such a write is not reported
 * when it ends (take_snapshot), and the write that replaces it follows it to the disk. */
void engine_snapshot_abandoned(struct engine *e, uint64_t now_ms)
{
    hf_assert(engine_may_abandon_snapshot(e));
    entries_truncate(&e->log, last_on_disk(e) + 1, e->write_number);
    uint64_t term = raft_current_term(&e->raft);
    uint64_t vote = raft_voted_for(&e->raft);
    unsigned seed = e->raft.random;
    drop_snapshot(e->memory, &e->coming);
    e->installing = false;
    raft_close(&e->raft, NULL);
    bool made = init_raft(e, seed);
    hf_assert(made);
    e->reported = entries_last(&e->log);
    int error = start_raft(e, term, vote, now_ms);
    if (error != 0) {
        hf_panic(__FILE__, __LINE__, raft_strerror(error));
    }
}
