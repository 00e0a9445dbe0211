/* libraft, driven by raft_step. The rules are in engine.h. */
#include "replica/engine.h"

#include "base/panic.h"
#include "replica/message.h"

/* Reported to peers as room for entries; we stop by ourselves when the disk is full. */
#define CAPACITY UINT16_MAX

static void own_members(const struct memory *memory, struct replica_snapshot *s, struct slice from)
{
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
    /* libraft reads words, so the copy is aligned. */
    struct raft_buffer copy = {raft_malloc(bytes.len), bytes.len};
    hf_assert(copy.base != NULL);
    memcpy(copy.base, bytes.data, bytes.len);
    int error = raft_configuration_decode(&copy, out);
    raft_free(copy.base);
    hf_assert(error == 0);
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

/* What a step asks for. */

static void queue_write(struct engine *e, uint64_t first, uint64_t last)
{
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
    hf_assert(first >= e->log.first && first <= entries_last(&e->log) + 1);
    entries_truncate(&e->log, first, e->write_number);
    if (e->reported >= first) { /* what stood there is gone; its successors are reported anew */
        e->reported = first - 1;
    }
    for (unsigned i = 0; i < count; i++) {
        const struct raft_entry *from = &u->entries.batch[i];
        entries_append(&e->log, &(struct replica_entry){from->term, (uint16_t)from->type,
                                                        slice_make(from->buf.base, from->buf.len)});
    }
    raft_free(u->entries.batch[0].batch); /* it was one block for all of them */
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

static void take_snapshot(struct engine *e, struct raft_update *u)
{
    struct raft_snapshot_metadata *m = &u->snapshot.metadata;
    hf_assert(!e->installing);
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
    entries_reset(&e->log, m->index + 1, e->write_number);
    for (uint32_t i = 0; i < e->write_count; i++) {
        e->writes[i].reportable = 0; /* E3 */
    }
    e->ports->fetch_snapshot(e->ports->ctx, e->install_from, &e->coming);
}

/* One step and everything that it asks for; commits are the caller's to look at. */
static int step(struct engine *e, struct raft_event *event, uint64_t now_ms, bool *took_entries)
{
    struct raft_update u;
    event->time = now_ms;
    event->capacity = CAPACITY;
    int error = raft_step(&e->raft, event, &u);
    if (error != 0) {
        return error;
    }
    if (u.flags & (RAFT_UPDATE_CURRENT_TERM | RAFT_UPDATE_VOTED_FOR)) { /* E1 */
        e->ports->save_vote(e->ports->ctx, raft_current_term(&e->raft), raft_voted_for(&e->raft));
    }
    bool has_entries = (u.flags & (RAFT_UPDATE_ENTRIES)) != 0;
    if (has_entries) {
        take_entries(e, &u);
    }
    if (took_entries != NULL) {
        *took_entries = has_entries;
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

/* For events that cannot be refused. */
static void must_step(struct engine *e, struct raft_event *event, uint64_t now_ms)
{
    int error = step(e, event, now_ms, NULL);
    if (error != 0) {
        hf_panic(__FILE__, __LINE__, raft_strerror(error));
    }
}

/* Life. */

static bool start_engine(struct engine *e, const struct replica_start *start, uint64_t now_ms,
                         const char **problem)
{
    struct raft_event event = {.type = RAFT_START};
    struct raft_snapshot_metadata metadata;
    event.start.term = start->term;
    event.start.voted_for = start->vote;
    if (start->snapshot.index != 0) {
        metadata.index = start->snapshot.index;
        metadata.term = start->snapshot.term;
        metadata.configuration_index = start->snapshot.members_index;
        decode_members(start->snapshot.members, &metadata.configuration);
        event.start.metadata = &metadata;
    }
    event.start.start_index = start->first;
    event.start.n_entries = start->count;
    struct raft_entry *entries = NULL;
    if (start->count > 0) {
        entries = raft_malloc(sizeof(*entries) * start->count);
        hf_assert(entries != NULL);
        for (uint32_t i = 0; i < start->count; i++) {
            const struct replica_entry *from = &start->entries[i];
            entries[i] = (struct raft_entry){
                .term = from->term,
                .type = (enum raft_entry_type)from->type,
                .buf = {(void *)(uintptr_t)from->bytes.data, from->bytes.len},
                .batch = NULL,
            };
        }
    }
    event.start.entries = entries;
    int error = step(e, &event, now_ms, NULL);
    raft_free(entries);
    if (error != 0) {
        *problem = raft_strerror(error);
        return false;
    }
    return true;
}

bool engine_start(struct engine *e, const struct replica_options *options,
                  const struct replica_ports *ports, const struct replica_start *start,
                  uint64_t now_ms, const char **problem)
{
    memset(e, 0, sizeof(*e));
    e->memory = options->memory;
    e->ports = ports;
    e->message_bytes = options->message_bytes != 0 ? options->message_bytes : MESSAGE_BYTES;
    if (raft_init(&e->raft, NULL, NULL, options->id, options->address) != 0) {
        *problem = "libraft cannot be started";
        return false;
    }
    /* It comes with one that words several lines for every step and then, as a rule, drops them. */
    e->raft.tracer = NULL;
    raft_seed(&e->raft, options->seed);
    raft_set_pre_vote(&e->raft, true);
    raft_set_election_timeout(&e->raft, options->election_ms);
    raft_set_heartbeat_timeout(&e->raft, options->heartbeat_ms);
    entries_init(&e->log, e->memory, start->first, options->cache_bytes);
    for (uint32_t i = 0; i < start->count; i++) {
        entries_append(&e->log, &start->entries[i]);
    }
    if (start->snapshot.index != 0) {
        e->snapshot = start->snapshot;
        own_members(e->memory, &e->snapshot, start->snapshot.members);
    }
    e->reported = entries_last(&e->log);
    e->started = true;
    return start_engine(e, start, now_ms, problem);
}

void engine_close(struct engine *e)
{
    if (!e->started) {
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

/* Messages. */

/* Gives the engine entries [from, to) of a received AppendEntries, in a block of their own. */
static void receive_part(struct engine *e, const struct raft_message *whole, unsigned from,
                         unsigned to, uint64_t now_ms)
{
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
    struct raft_event event = {.type = RAFT_RECEIVE};
    event.receive.message = &part;
    must_step(e, &event, now_ms);
    raft_free(entries);
}

/* E12: the engine is about to take a membership entry at `index`, behind one that is not known here
 * to be committed. It is, or its successor would not exist (E5). */
static void settle_earlier_change(struct engine *e, const struct raft_append_entries *a,
                                  unsigned from, uint64_t now_ms)
{
    uint64_t earlier = e->raft.configuration_uncommitted_index;
    uint64_t before = a->prev_log_index + from;
    uint64_t before_term = from == 0 ? a->prev_log_term : a->entries[from - 1].term;
    const struct entry_slot *s = entries_at(&e->log, before);
    struct replica_entry entry;
    if (earlier == 0 || earlier > before || e->installing || s == NULL || s->term != before_term ||
        a->term < raft_current_term(&e->raft)) {
        return; /* there is none, or the message is refused or replaces it */
    }
    if (engine_entry(e, earlier, &entry) && entry.type == RAFT_CHANGE) {
        engine_configuration(e, earlier, entry.bytes, now_ms);
    }
}

/* E6: cut before each membership entry. */
static void receive_append(struct engine *e, struct message_in *in, uint64_t now_ms)
{
    const struct raft_append_entries *a = &in->message.append_entries;
    unsigned from = 0;
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

static bool has_change(const struct raft_append_entries *a)
{
    for (unsigned i = 0; i < a->n_entries; i++) {
        if (a->entries[i].type == RAFT_CHANGE) {
            return true;
        }
    }
    return false;
}

bool engine_receive(struct engine *e, uint64_t peer, struct slice bytes, uint64_t now_ms,
                    struct engine_heard *heard)
{
    struct message_in in;
    if (!message_decode(bytes, peer, "", &in)) {
        return false;
    }
    uint64_t lead_term = in.message.type == RAFT_APPEND_ENTRIES ? in.message.append_entries.term
                         : in.message.type == RAFT_INSTALL_SNAPSHOT
                             ? in.message.install_snapshot.term
                             : 0;
    *heard = (struct engine_heard){lead_term, lead_term == 0 ? 0 : in.cluster_ms, false};
    heard->is_answer = in.message.type == RAFT_APPEND_ENTRIES_RESULT &&
                       in.message.append_entries_result.term == raft_current_term(&e->raft);
    if (in.message.type == RAFT_APPEND_ENTRIES && has_change(&in.message.append_entries)) {
        receive_append(e, &in, now_ms);
        return true;
    }
    bool is_snapshot = in.message.type == RAFT_INSTALL_SNAPSHOT;
    if (is_snapshot && !e->installing) {
        e->install_from = peer;
    }
    /* A repeated snapshot message tells the engine that the leader lives, and is then forgotten
     * by it: what it carries stays ours. */
    bool ours = is_snapshot && e->installing &&
                in.message.install_snapshot.term >= raft_current_term(&e->raft);
    struct raft_event event = {.type = RAFT_RECEIVE};
    event.receive.message = &in.message;
    e->unanswered = in.is_unanswered; /* E11 */
    must_step(e, &event, now_ms);
    e->unanswered = false;
    e->may_tell = e->may_tell || in.message.type == RAFT_APPEND_ENTRIES_RESULT;
    raft_free(in.entries); /* the batch went to the log, or the engine freed it */
    if (ours) {
        raft_configuration_close(&in.message.install_snapshot.conf);
        raft_free(in.message.install_snapshot.data.base);
    }
    return true;
}

/* Completions. */

void engine_written(struct engine *e, uint64_t last, uint64_t now_ms)
{
    hf_assert(e->write_count > 0 && e->writes[0].last == last);
    struct engine_write done = e->writes[0];
    e->write_count--;
    memmove(e->writes, e->writes + 1, e->write_count * sizeof(*e->writes));
    e->write_done++;
    entries_written(&e->log, e->write_done);
    uint64_t reportable = done.last < done.reportable ? done.last : done.reportable;
    if (e->installing || reportable < done.first) { /* E3 */
        return;
    }
    hf_assert(reportable > e->reported);
    e->reported = reportable;
    struct raft_event event = {.type = RAFT_PERSISTED_ENTRIES};
    event.persisted_entries.index = reportable;
    must_step(e, &event, now_ms);
    e->may_tell = true;
}

void engine_timeout(struct engine *e, uint64_t now_ms)
{
    struct raft_event event = {.type = RAFT_TIMEOUT};
    must_step(e, &event, now_ms);
}

void engine_peer_ended(struct engine *e, uint64_t peer, uint64_t now_ms)
{
    enum { PARTS = 3 };
    struct raft *r = &e->raft;
    if (raft_state(r) != RAFT_FOLLOWER || r->follower_state.current_leader.id != peer) {
        return;
    }
    /* The timer is put back, not the timeout cut: that stays until the next election, and would
     * hold for the next leader, too. What libraft drew beyond the shortest is our chance. */
    uint64_t timeout = r->follower_state.randomized_election_timeout;
    uint64_t at_ms = now_ms + (timeout - r->election_timeout) / PARTS;
    if (at_ms > timeout && at_ms - timeout < r->election_timer_start) {
        r->election_timer_start = at_ms - timeout;
    }
}

enum hf_error engine_submit(struct engine *e, uint16_t type, struct slice bytes, uint64_t now_ms)
{
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
    if (step(e, &event, now_ms, NULL) != 0) {
        raft_free(entry.buf.base);
        return HF_UNAVAILABLE;
    }
    return HF_OK;
}

void engine_configuration(struct engine *e, uint64_t index, struct slice members, uint64_t now_ms)
{
    struct raft_event event = {.type = RAFT_CONFIGURATION};
    event.configuration.index = index;
    decode_members(members, &event.configuration.conf);
    must_step(e, &event, now_ms);
}

enum hf_error engine_transfer(struct engine *e, uint64_t to, uint64_t now_ms)
{
    struct raft_event event = {.type = RAFT_TRANSFER};
    event.transfer.server_id = to;
    return step(e, &event, now_ms, NULL) == 0 ? HF_OK : HF_UNAVAILABLE;
}

/* Snapshots. */

void engine_snapshot_taken(struct engine *e, uint32_t trailing, uint64_t now_ms)
{
    hf_assert(e->coming.index != 0 && e->coming.index <= e->reported && !e->installing); /* E7 */
    drop_snapshot(e->memory, &e->snapshot);
    e->snapshot = e->coming;
    e->coming = (struct replica_snapshot){0};
    struct raft_event event = {.type = RAFT_SNAPSHOT};
    event.snapshot.metadata.index = e->snapshot.index;
    event.snapshot.metadata.term = e->snapshot.term;
    event.snapshot.metadata.configuration_index = e->snapshot.members_index;
    decode_members(e->snapshot.members, &event.snapshot.metadata.configuration);
    event.snapshot.trailing = trailing;
    must_step(e, &event, now_ms);
    if (e->snapshot.index > trailing) {
        entries_drop_before(&e->log, e->snapshot.index - trailing + 1);
    }
}

void engine_snapshot_installed(struct engine *e, uint64_t now_ms)
{
    hf_assert(e->installing);
    drop_snapshot(e->memory, &e->snapshot);
    e->snapshot = e->coming;
    e->coming = (struct replica_snapshot){0};
    e->installing = false;
    e->reported = e->snapshot.index;
    struct raft_event event = {.type = RAFT_PERSISTED_SNAPSHOT};
    event.persisted_snapshot.metadata.index = e->snapshot.index;
    event.persisted_snapshot.metadata.term = e->snapshot.term;
    event.persisted_snapshot.metadata.configuration_index = e->snapshot.members_index;
    decode_members(e->snapshot.members, &event.persisted_snapshot.metadata.configuration);
    event.persisted_snapshot.last = true;
    must_step(e, &event, now_ms);
}
