/* One replica whose disk and peers the test controls: it decides when a write is done, reads what was
 * sent as messages, and says what the peers say, word by word. Nothing happens by itself. The
 * replica is node 1 of `members`, unless it is opened as another. To be included after
 * base_testing.h. */
#ifndef HOLDFAST_TESTS_REPLICA_ALONE_H
#define HOLDFAST_TESTS_REPLICA_ALONE_H

#include "core/snapshot.h"
#include "replica/internal.h"
#include "replica/message.h"

enum { ALONE_SENT = 512, ALONE_WRITES = 64, ALONE_LOG = 512, ALONE_TRACE = 1024 };

struct alone_entry {
    uint64_t term;
    uint16_t type;
    uint8_t *bytes;
    size_t len;
};

struct alone_write {
    uint64_t first;
    uint64_t last;
};

struct alone {
    struct replica *replica;
    struct replica_options options;
    struct replica_time now;

    /* What it requested, in order: V term and vote, W write, S send, T take and F fetch a snapshot.
     */
    char trace[ALONE_TRACE];
    uint32_t trace_len;
    uint64_t saved_term;
    uint64_t saved_vote;
    struct alone_write writes[ALONE_WRITES]; /* not done yet, oldest first */
    uint32_t write_count;
    struct alone_entry log[ALONE_LOG]; /* by index */
    uint64_t log_last;
    struct message_in sent[ALONE_SENT];
    size_t sent_bytes[ALONE_SENT];
    uint32_t sent_count;
    struct replica_snapshot about; /* the snapshot it wants to take or have */
    int takes;
    int fetches;
    uint64_t fetched_from;

    int results[REPLICA_UNKNOWN + 1];
    int barriers_reached;
    int changes;
    uint64_t round_trip_us;    /* a peer answers what was sent so long ago */
    uint32_t peer_versions[8]; /* by id: what that member says it knows; 0: nothing */
};

/* ---- ports ---- */

static void alone_note(struct alone *a, char what)
{
    assert_true(a->trace_len + 1 < ALONE_TRACE);
    a->trace[a->trace_len++] = what;
    a->trace[a->trace_len] = '\0';
}

static void alone_save_vote(void *ctx, uint64_t term, uint64_t vote)
{
    struct alone *a = ctx;
    alone_note(a, 'V');
    a->saved_term = term;
    a->saved_vote = vote;
}

static void alone_keep(struct alone *a, uint64_t index, const struct replica_entry *entry)
{
    assert_true(index < ALONE_LOG);
    free(a->log[index].bytes);
    a->log[index] = (struct alone_entry){entry->term, entry->type, malloc(entry->bytes.len + 1),
                                         entry->bytes.len};
    if (entry->bytes.len > 0) {
        memcpy(a->log[index].bytes, entry->bytes.data, entry->bytes.len);
    }
    a->log_last = index;
}

static void alone_write(void *ctx, uint64_t first, const struct replica_entry *entries,
                        uint32_t count)
{
    struct alone *a = ctx;
    alone_note(a, 'W');
    for (uint32_t i = 0; i < count; i++) {
        alone_keep(a, first + i, &entries[i]);
    }
    assert_true(a->write_count < ALONE_WRITES);
    a->writes[a->write_count++] = (struct alone_write){first, first + count - 1};
}

static bool alone_read(void *ctx, uint64_t index, struct replica_entry *out)
{
    const struct alone *a = ctx;
    if (index > a->log_last || a->log[index].bytes == NULL) {
        return false;
    }
    const struct alone_entry *e = &a->log[index];
    *out = (struct replica_entry){e->term, e->type, slice_make(e->bytes, e->len)};
    return true;
}

static void alone_send(void *ctx, uint64_t peer, struct slice message)
{
    struct alone *a = ctx;
    alone_note(a, 'S');
    assert_true(a->sent_count < ALONE_SENT);
    a->sent_bytes[a->sent_count] = message.len;
    assert_true(message_decode(message, peer, "", &a->sent[a->sent_count++]));
}

static void alone_about(struct alone *a, const struct replica_snapshot *about)
{
    free((void *)(uintptr_t)a->about.members.data);
    a->about = *about;
    uint8_t *copy = malloc(about->members.len);
    memcpy(copy, about->members.data, about->members.len);
    a->about.members = slice_make(copy, about->members.len);
}

static void alone_take(void *ctx, const struct core *core, const struct replica_snapshot *about)
{
    struct alone *a = ctx;
    (void)core;
    alone_note(a, 'T');
    a->takes++;
    alone_about(a, about);
}

static void alone_fetch(void *ctx, uint64_t peer, const struct replica_snapshot *about)
{
    struct alone *a = ctx;
    alone_note(a, 'F');
    a->fetches++;
    a->fetched_from = peer;
    alone_about(a, about);
}

static void alone_result(void *ctx, void *cookie, enum replica_outcome outcome,
                         const struct command *command, const struct result *result)
{
    struct alone *a = ctx;
    (void)cookie;
    (void)command;
    (void)result;
    a->results[outcome]++;
}

static void alone_event(void *ctx, const struct event *event)
{
    (void)ctx;
    (void)event;
}

static void alone_barrier(void *ctx, void *cookie, bool reached)
{
    struct alone *a = ctx;
    (void)cookie;
    a->barriers_reached += reached;
}

static void alone_change(void *ctx)
{
    struct alone *a = ctx;
    a->changes++;
}

/* ---- what was sent ---- */

static void alone_free_message(struct message_in *in)
{
    if (in->entries != NULL) {
        raft_free(in->entries[0].batch);
        raft_free(in->entries);
    }
    if (in->message.type == RAFT_INSTALL_SNAPSHOT) {
        raft_configuration_close(&in->message.install_snapshot.conf);
        raft_free(in->message.install_snapshot.data.base);
    }
}

static void alone_forget(struct alone *a)
{
    for (uint32_t i = 0; i < a->sent_count; i++) {
        alone_free_message(&a->sent[i]);
    }
    a->sent_count = 0;
    a->trace_len = 0;
    a->trace[0] = '\0';
}

/* The last message of that type to that peer (0: to anybody), NULL if there is none. */
static inline const struct message_in *alone_last(const struct alone *a,
                                                  enum raft_message_type type, uint64_t to)
{
    for (uint32_t i = a->sent_count; i > 0; i--) {
        const struct message_in *in = &a->sent[i - 1];
        if (in->message.type == type && (to == 0 || in->message.server_id == to)) {
            return in;
        }
    }
    return NULL;
}

static inline int alone_count(const struct alone *a, enum raft_message_type type, uint64_t to)
{
    int count = 0;
    for (uint32_t i = 0; i < a->sent_count; i++) {
        const struct message_in *in = &a->sent[i];
        count += in->message.type == type && (to == 0 || in->message.server_id == to);
    }
    return count;
}

/* ---- life ---- */

/* The entries of a log that begins with these members, all voters, up to `last`, all of term 1. */
static size_t alone_members_entry(uint32_t members, uint8_t *buffer, size_t size)
{
    static const char *const addresses[] = {"n1", "n2", "n3", "n4", "n5", "n6"};
    struct replica_member list[6];
    for (uint32_t i = 0; i < members; i++) {
        list[i] = (struct replica_member){i + 1, addresses[i], true};
    }
    return replica_bootstrap_entry(list, members, buffer, size);
}

/* A batch with nothing in it but its stamp, `padding` bytes long or a little more. */
static inline size_t alone_batch(uint8_t *buffer, size_t size, size_t padding)
{
    struct entry_writer w;
    struct command command;
    static char text[LIMIT_REASON];
    memset(text, 'x', sizeof(text));
    entry_writer_init(&w, CORE_VERSION, buffer, size);
    command_init(&command, COMMAND_TICK);
    (void)entry_writer_add(&w, &command);
    command_init(&command, COMMAND_FORCE_UNLOCK); /* of nothing: changes nothing */
    command.force_unlock.name = slice_of("nothing");
    command.force_unlock.actor = slice_of("test");
    command.force_unlock.reason = slice_make(text, sizeof(text));
    while (w.len < padding) {
        assert_true(entry_writer_add(&w, &command));
    }
    return entry_writer_seal(&w, 1, 1);
}

/* How a replica begins: its term, and a log of the members and batches of that term up to `last`.
 */
struct alone_life {
    uint64_t id;
    uint32_t members;
    uint64_t term;
    uint64_t last;
};

static uint32_t alone_peer_version(void *ctx, uint64_t peer)
{
    const struct alone *a = ctx;
    return peer < 8 ? a->peer_versions[peer] : 0;
}

static void alone_open_as(struct alone *a, const struct alone_life *life)
{
    enum { MOST = 8 };
    uint8_t bytes[1024];
    uint8_t batch[256];
    struct replica_entry entries[MOST];
    size_t len = alone_members_entry(life->members, bytes, sizeof(bytes));
    memset(a, 0, sizeof(*a));
    a->now = (struct replica_time){.boot_us = 1000000, .wall_ms = 1};
    a->options = (struct replica_options){
        .memory = memory_system(),
        .id = life->id,
        .address = life->id == 1 ? "n1" : "n2",
        .hash_key = 1,
        .seed = (uint32_t)life->id,
        .election_ms = 300,
        .heartbeat_ms = 50,
        .snapshot_bytes = UINT64_MAX,
        .cache_bytes = 1 << 20,
        .trailing = 2,
        .ports = {a, alone_save_vote, alone_write, alone_read, alone_send, alone_take, alone_fetch,
                  alone_result, alone_event, alone_barrier, alone_change, alone_peer_version, NULL},
    };
    assert_true(life->id <= 2 && life->last >= 1 && life->last <= MOST);
    entries[0] = (struct replica_entry){1, RAFT_CHANGE, slice_make(bytes, len)};
    size_t batch_len = alone_batch(batch, sizeof(batch), 0);
    for (uint64_t i = 1; i < life->last; i++) {
        entries[i] = (struct replica_entry){life->term, RAFT_COMMAND, slice_make(batch, batch_len)};
    }
    struct replica_start start = {
        .term = life->term, .first = 1, .entries = entries, .count = (uint32_t)life->last};
    const char *problem = NULL;
    for (uint64_t i = 1; i <= life->last; i++) {
        alone_keep(a, i, &entries[i - 1]);
    }
    a->saved_term = life->term;
    a->replica = replica_new(&a->options, &start, a->now, &problem);
    assert_non_null(a->replica);
    alone_forget(a);
}

static inline void alone_open(struct alone *a, uint32_t members)
{
    alone_open_as(a, &(struct alone_life){.id = 1, .members = members, .term = 1, .last = 1});
}

static void alone_close(struct alone *a)
{
    replica_free(a->replica);
    alone_forget(a);
    for (uint64_t i = 0; i < ALONE_LOG; i++) {
        free(a->log[i].bytes);
    }
    free((void *)(uintptr_t)a->about.members.data);
}

/* ---- what happens to it ---- */

static inline void alone_written(struct alone *a)
{
    assert_true(a->write_count > 0);
    uint64_t last = a->writes[0].last;
    a->write_count--;
    memmove(a->writes, a->writes + 1, a->write_count * sizeof(a->writes[0]));
    replica_written(a->replica, last, a->now);
}

static inline void alone_all_written(struct alone *a)
{
    while (a->write_count > 0) {
        alone_written(a);
    }
}

static inline void alone_pass_us(struct alone *a, uint64_t us)
{
    a->now.boot_us += us;
    a->now.wall_ms = a->now.boot_us / 1000;
}

/* As a loop does it: its timer is set to what the replica names, `us` long. */
static inline int alone_run(struct alone *a, uint64_t us)
{
    uint64_t until = a->now.boot_us + us;
    int timers = 0;
    while (replica_next_us(a->replica) <= until) {
        if (replica_next_us(a->replica) > a->now.boot_us) {
            alone_pass_us(a, replica_next_us(a->replica) - a->now.boot_us);
        }
        replica_on_timer(a->replica, a->now);
        timers++;
        if (timers == 10000) {
            break; /* a timer that is always due */
        }
    }
    if (a->now.boot_us < until) {
        alone_pass_us(a, until - a->now.boot_us);
    }
    return timers;
}

static inline void alone_receive(struct alone *a, uint64_t from, const struct raft_message *m,
                                 struct slice members, message_entry_fn entry, void *ctx)
{
    size_t len = 0;
    /* A follower answers with the time of the message that it answers. */
    uint64_t cluster_ms = m->type == RAFT_APPEND_ENTRIES_RESULT
                              ? replica_cluster_ms(a->replica, a->now) - a->round_trip_us / 1000
                              : 0;
    uint8_t *bytes = message_encode(m, cluster_ms, members, entry, ctx, &len);
    assert_non_null(bytes);
    assert_true(replica_receive(a->replica, from, slice_make(bytes, len), a->now));
    raft_free(bytes);
}

struct alone_append {
    uint64_t from;
    uint64_t term;
    uint64_t prev;
    uint64_t prev_term;
    uint64_t commit;
    const struct replica_entry *entries;
    unsigned count;
};

static inline bool alone_entry_of(void *ctx, uint64_t index, struct replica_entry *out)
{
    const struct alone_append *append = ctx;
    *out = append->entries[index - append->prev - 1];
    return true;
}

static inline void alone_receive_append(struct alone *a, struct alone_append append)
{
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES};
    m.append_entries.term = append.term;
    m.append_entries.prev_log_index = append.prev;
    m.append_entries.prev_log_term = append.prev_term;
    m.append_entries.leader_commit = append.commit;
    m.append_entries.n_entries = append.count;
    alone_receive(a, append.from, &m, slice_make(NULL, 0), alone_entry_of, &append);
}

/* The result of an AppendEntries as it is, also one that no follower sends. */
static inline void alone_result_of(struct alone *a, uint64_t from, uint64_t last, uint64_t rejected)
{
    struct raft_message m = {.type = RAFT_APPEND_ENTRIES_RESULT};
    m.append_entries_result.version = 2;
    m.append_entries_result.term = raft_current_term(&a->replica->engine.raft);
    m.append_entries_result.last_log_index = last;
    m.append_entries_result.rejected = rejected;
    m.append_entries_result.features = 1;
    m.append_entries_result.capacity = UINT16_MAX;
    alone_receive(a, from, &m, slice_make(NULL, 0), NULL, NULL);
}

/* `rejected` 0: a follower acknowledges everything up to `last`. What it was not sent yet, it is sent
 * when it has acknowledged the probe: the last entry before our term. */
static inline void alone_acknowledge(struct alone *a, uint64_t from, uint64_t last,
                                     uint64_t rejected)
{
    const struct engine *e = &a->replica->engine;
    if (rejected == 0 && engine_is_leader(e) && !engine_may_acknowledge(e, from, last)) {
        uint64_t probed = last - 1;
        while (probed > 0 && !engine_may_acknowledge(e, from, probed)) {
            probed--;
        }
        alone_result_of(a, from, probed, 0);
    }
    alone_result_of(a, from, last, rejected);
}

static inline void alone_vote(struct alone *a, uint64_t from, uint64_t term, bool pre_vote)
{
    struct raft_message m = {.type = RAFT_REQUEST_VOTE_RESULT};
    m.request_vote_result.version = 2;
    m.request_vote_result.term = term;
    m.request_vote_result.vote_granted = true;
    m.request_vote_result.pre_vote = pre_vote;
    m.request_vote_result.features = 1;
    m.request_vote_result.capacity = UINT16_MAX;
    alone_receive(a, from, &m, slice_make(NULL, 0), NULL, NULL);
}

/* Elected by all members; its `lead` is on its way. */
static inline void alone_elect(struct alone *a, uint32_t members)
{
    uint64_t term = raft_current_term(&a->replica->engine.raft) + 1;
    alone_pass_us(a, replica_next_us(a->replica) - a->now.boot_us);
    replica_on_timer(a->replica, a->now);
    for (uint64_t id = 2; id <= members; id++) {
        alone_vote(a, id, term, true);
    }
    for (uint64_t id = 2; id <= members; id++) {
        alone_vote(a, id, term, false);
    }
    assert_true(engine_is_leader(&a->replica->engine));
}

static inline uint64_t alone_last_index(const struct alone *a)
{
    struct replica_status status;
    replica_status(a->replica, a->now, &status);
    return status.last_index;
}

/* Elected, and everybody has all of its log: it serves. */
static inline void alone_lead(struct alone *a, uint32_t members)
{
    alone_elect(a, members);
    alone_all_written(a);
    for (int round = 0; round < 2; round++) {
        for (uint64_t id = 2; id <= members; id++) {
            alone_acknowledge(a, id, alone_last_index(a), 0);
        }
    }
    assert_true(a->replica->serving);
    alone_run(a, 1000);
    alone_forget(a);
}

/* A command that changes nothing and is in a hurry; the batch is closed if it may be. */
static inline void alone_submit(struct alone *a)
{
    struct command command;
    command_init(&command, COMMAND_NODE_GONE);
    command.node_gone.node = 9;
    assert_int_equal(replica_submit(a->replica, &command, a, a->now), HF_OK);
    replica_flush(a->replica, a->now);
}

#endif
