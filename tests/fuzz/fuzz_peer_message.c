/* Arbitrary bytes as messages of the members of one replica. A message that is decoded says the
 * same when it is written again. And whatever members say, in whatever order, with the disk and the
 * clock going on between: the replica takes it or refuses it with a sentence, and does not end the
 * process. is_second_leader has the exception.
 *
 * An input is a kind of replica and then steps: messages as they are on the wire, messages of which
 * the input names the fields (most of these are believed), writes that are done, timers. */
#include <stdlib.h>

#include "base/codec.h"
#include "core/entry.h"
#include "replica/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MEMBERS = 4, STEPS = 200, WRITES = 256, ENTRIES = 4 };

struct actor {
    struct replica *replica;
    struct replica_options options;
    struct replica_time now;
    struct reader input;
    uint64_t writes[WRITES]; /* the last index of each that is not done */
    uint32_t write_count;
    bool fetching;
    bool taking;
    uint64_t taken; /* index */
};

/* ---- ports ---- */

static void save_vote(void *ctx, uint64_t term, uint64_t vote)
{
    (void)ctx;
    (void)vote;
    hf_assert(term != 0);
}

static void write_entries(void *ctx, uint64_t first, const struct replica_entry *entries,
                          uint32_t count)
{
    struct actor *p = ctx;
    (void)entries;
    hf_assert(p->write_count < WRITES);
    p->writes[p->write_count++] = first + count - 1;
}

/* All entries are kept in memory, see cache_bytes. */
static bool read_entry(void *ctx, uint64_t index, struct replica_entry *out)
{
    (void)ctx;
    (void)index;
    (void)out;
    return false;
}

/* What it sends itself is always sound. */
static void send(void *ctx, uint64_t peer, struct slice message)
{
    struct message_in in;
    (void)ctx;
    bool fine = message_decode(message, peer, "", &in);
    hf_assert(fine);
    message_drop(&in);
}

static void take_snapshot(void *ctx, const struct core *core, const struct replica_snapshot *about)
{
    struct actor *p = ctx;
    (void)core;
    p->taking = true;
    p->taken = about->index;
}

static void fetch_snapshot(void *ctx, uint64_t peer, const struct replica_snapshot *about)
{
    struct actor *p = ctx;
    (void)peer;
    hf_assert(about->index > 0 && members_check(about->members));
    p->fetching = true;
}

static void on_result(void *ctx, void *cookie, enum replica_outcome outcome,
                      const struct command *command, const struct result *result)
{
    (void)ctx;
    (void)cookie;
    (void)outcome;
    (void)command;
    (void)result;
}

static void on_event(void *ctx, const struct event *event)
{
    (void)ctx;
    (void)event;
}

static void on_barrier(void *ctx, void *cookie, bool reached)
{
    (void)ctx;
    (void)cookie;
    (void)reached;
}

static void on_change(void *ctx)
{
    (void)ctx;
}

/* ---- what members say ---- */

static size_t put_members(uint8_t *bytes, size_t size, uint8_t which)
{
    static const char *const addresses[MEMBERS] = {"n1", "n2", "n3", "n4"};
    struct replica_member list[MEMBERS];
    uint32_t count = 0;
    for (uint32_t i = 0; i < MEMBERS; i++) { /* a bit for being there, and one for the vote */
        if (which & 1u << i) {
            list[count++] = (struct replica_member){i + 1, addresses[i], (which & 16u << i) != 0};
        }
    }
    return count == 0 ? 0 : replica_bootstrap_entry(list, count, bytes, size);
}

static size_t put_batch(uint8_t *bytes, size_t size, uint64_t stamp_ms)
{
    struct entry_writer w;
    struct command tick;
    entry_writer_init(&w, CORE_VERSION, bytes, size);
    command_init(&tick, COMMAND_TICK);
    (void)entry_writer_add(&w, &tick);
    return entry_writer_seal(&w, stamp_ms, 1);
}

struct entries_said {
    struct replica_entry at[ENTRIES];
    uint8_t bytes[ENTRIES][256];
    uint64_t first;
};

static bool give_entry(void *ctx, uint64_t index, struct replica_entry *out)
{
    const struct entries_said *said = ctx;
    *out = said->at[index - said->first];
    return true;
}

/* A number near one that the replica knows. */
static uint64_t near(struct actor *p, uint64_t value)
{
    int8_t by = (int8_t)read_u8(&p->input);
    return by == INT8_MIN ? read_fixed64(&p->input) : value + (uint64_t)(int64_t)by;
}

static uint64_t some_index(struct actor *p)
{
    struct replica_status s;
    replica_status(p->replica, p->now, &s);
    uint64_t of[4] = {0, s.last_index, s.commit_index, s.snapshot_index};
    return near(p, of[read_u8(&p->input) % 4]);
}

static uint64_t some_term(struct actor *p)
{
    return near(p, raft_current_term(&p->replica->engine.raft));
}

/* The term that the replica's own log has there, mostly. */
static uint64_t term_at(struct actor *p, uint64_t index)
{
    const struct entry_slot *s = entries_at(&p->replica->engine.log, index);
    uint64_t term = index == p->replica->engine.snapshot.index ? p->replica->engine.snapshot.term
                    : s != NULL                                ? s->term
                                                               : 0;
    return near(p, term);
}

static void fill_entries(struct actor *p, struct raft_append_entries *a, struct entries_said *said)
{
    a->n_entries = read_u8(&p->input) % (ENTRIES + 1);
    said->first = a->prev_log_index + 1;
    for (unsigned i = 0; i < a->n_entries; i++) {
        struct replica_entry *entry = &said->at[i];
        uint8_t kind = read_u8(&p->input);
        uint8_t *bytes = said->bytes[i];
        size_t len = 0;
        entry->term = near(p, a->term);
        entry->type = 1 + kind % 3;
        if (kind >= 128) {
            struct slice raw = read_slice(&p->input, sizeof(said->bytes[i]));
            len = raw.len;
            if (len > 0) {
                memcpy(bytes, raw.data, len);
            }
        } else if (entry->type == RAFT_CHANGE) {
            len = put_members(bytes, sizeof(said->bytes[i]), read_u8(&p->input));
        } else {
            len = put_batch(bytes, sizeof(said->bytes[i]),
                            near(p, replica_cluster_ms(p->replica, p->now)));
        }
        entry->bytes = slice_make(bytes, len);
    }
}

static void fill(struct actor *p, struct raft_message *m, struct entries_said *said)
{
    uint64_t term = some_term(p);
    uint64_t index = some_index(p);
    switch (m->type) {
    case RAFT_APPEND_ENTRIES:
        m->append_entries = (struct raft_append_entries){
            .term = term, .prev_log_index = index, .prev_log_term = term_at(p, index)};
        m->append_entries.leader_commit = some_index(p);
        fill_entries(p, &m->append_entries, said);
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        m->append_entries_result = (struct raft_append_entries_result){.version = 1,
                                                                       .term = term,
                                                                       .last_log_index = index,
                                                                       .features = 1,
                                                                       .capacity = UINT16_MAX};
        m->append_entries_result.rejected = some_index(p);
        break;
    case RAFT_REQUEST_VOTE:
        m->request_vote = (struct raft_request_vote){.version = 2,
                                                     .term = term,
                                                     .candidate_id = 1 + read_u8(&p->input) % 4,
                                                     .last_log_index = index};
        m->request_vote.last_log_term = term_at(p, index);
        m->request_vote.disrupt_leader = read_u8(&p->input) % 2;
        m->request_vote.pre_vote = read_u8(&p->input) % 2;
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        m->request_vote_result = (struct raft_request_vote_result){
            .version = 2, .term = term, .features = 1, .capacity = UINT16_MAX};
        m->request_vote_result.vote_granted = read_u8(&p->input) % 2;
        m->request_vote_result.pre_vote = read_u8(&p->input) % 2;
        break;
    case RAFT_INSTALL_SNAPSHOT:
        m->install_snapshot = (struct raft_install_snapshot){.term = term, .last_index = index};
        m->install_snapshot.last_term = term_at(p, index);
        m->install_snapshot.conf_index = some_index(p);
        break;
    case RAFT_TIMEOUT_NOW:
        m->timeout_now = (struct raft_timeout_now){.version = 1,
                                                   .term = term,
                                                   .last_log_index = index,
                                                   .last_log_term = term_at(p, index)};
        break;
    }
}

/* A message of another leader of the term that this node leads: the process ends with its own
 * words (E21), because no message of a sound member is one. */
static bool is_second_leader(const struct actor *p, uint64_t peer, struct slice bytes)
{
    struct message_in in;
    if (!engine_is_leader(&p->replica->engine) || !message_decode(bytes, peer, "", &in)) {
        return false;
    }
    uint64_t term = in.message.type == RAFT_APPEND_ENTRIES     ? in.message.append_entries.term
                    : in.message.type == RAFT_INSTALL_SNAPSHOT ? in.message.install_snapshot.term
                                                               : 0;
    message_drop(&in);
    return term == raft_current_term(&p->replica->engine.raft);
}

static void receive(struct actor *p, uint64_t peer, struct slice bytes)
{
    if (is_second_leader(p, peer, bytes)) {
        return;
    }
    bool fine = replica_receive(p->replica, peer, bytes, p->now);
    const char *refusal = replica_refusal(p->replica);
    hf_assert(fine ? refusal == NULL : refusal != NULL && refusal[0] != '\0');
}

static void say(struct actor *p)
{
    struct raft_message m = {.type = 1 + read_u8(&p->input) % 6};
    struct entries_said said;
    uint8_t members[256];
    uint64_t peer = 2 + read_u8(&p->input) % (MEMBERS - 1);
    fill(p, &m, &said);
    size_t members_len = put_members(members, sizeof(members), 0x77);
    uint64_t time_ms = near(p, replica_cluster_ms(p->replica, p->now));
    size_t len = 0;
    uint8_t *bytes =
        message_encode(&m, time_ms, slice_make(members, members_len), give_entry, &said, &len);
    receive(p, peer, slice_make(bytes, len));
    raft_free(bytes);
}

/* ---- steps ---- */

static void install(struct actor *p)
{
    if (p->fetching && p->write_count == 0) {
        struct core_options options = {.memory = memory_system(), .hash_key = 1};
        p->fetching = false;
        replica_snapshot_installed(p->replica, core_new(&options), p->now);
    }
}

static void written(struct actor *p)
{
    if (p->write_count > 0) {
        uint64_t last = p->writes[0];
        p->write_count--;
        memmove(p->writes, p->writes + 1, p->write_count * sizeof(p->writes[0]));
        replica_written(p->replica, last, p->now);
    }
}

static void step(struct actor *p)
{
    switch (read_u8(&p->input) % 8) {
    case 0: {
        uint64_t peer = 2 + read_u8(&p->input) % (MEMBERS - 1);
        receive(p, peer, read_slice(&p->input, 4096));
        break;
    }
    case 1:
        written(p);
        break;
    case 2:
        while (p->write_count > 0) {
            written(p);
        }
        break;
    case 3: { /* until its timer is due */
        uint64_t next_us = replica_next_us(p->replica);
        p->now.boot_us =
            next_us > p->now.boot_us && next_us < UINT64_MAX / 2 ? next_us : p->now.boot_us;
        replica_on_timer(p->replica, p->now);
        break;
    }
    case 4:
        p->now.boot_us += UINT64_C(1000) * read_u8(&p->input) * read_u8(&p->input);
        break;
    case 5:
        install(p);
        if (p->taking) {
            p->taking = false;
            replica_snapshot_taken(p->replica, p->taken, p->now);
        }
        break;
    default:
        say(p);
        break;
    }
}

/* ---- the two properties ---- */

static bool entry_of(void *ctx, uint64_t index, struct replica_entry *out)
{
    const struct raft_append_entries *a = ctx;
    const struct raft_entry *e = &a->entries[index - a->prev_log_index - 1];
    *out = (struct replica_entry){e->term, (uint16_t)e->type, slice_make(e->buf.base, e->buf.len)};
    return true;
}

static void check_encoding(struct slice bytes)
{
    struct message_in in;
    if (!message_decode(bytes, 2, "", &in)) {
        return;
    }
    struct raft_message *m = &in.message;
    struct slice members = slice_make(NULL, 0);
    if (m->type == RAFT_INSTALL_SNAPSHOT) {
        bool fine = members_encode(&m->install_snapshot.conf, &members, memory_system());
        hf_assert(fine);
    }
    size_t len = 0;
    uint8_t *again = in.is_unanswered ? message_encode_commit(m, in.cluster_ms, &len)
                                      : message_encode(m, in.cluster_ms, members, entry_of,
                                                       &m->append_entries, &len);
    hf_assert(again != NULL && slice_equal(slice_make(again, len), bytes));
    raft_free(again);
    memory_free(memory_system(), (void *)(uintptr_t)members.data, members.len);
    message_drop(&in);
}

/* Node 1 with a log of its members and a few batches; or one that has just joined. */
static void open_replica(struct actor *p, uint8_t kind)
{
    uint8_t members[256];
    uint8_t batch[64];
    struct replica_entry entries[4];
    size_t members_len = put_members(members, sizeof(members), kind & 1 ? 0x77 : 0x37);
    size_t batch_len = put_batch(batch, sizeof(batch), 5);
    entries[0] = (struct replica_entry){1, RAFT_CHANGE, slice_make(members, members_len)};
    for (int i = 1; i < 4; i++) {
        entries[i] =
            (struct replica_entry){1 + (uint64_t)i / 2, RAFT_COMMAND, slice_make(batch, batch_len)};
    }
    p->now = (struct replica_time){.boot_us = 1000000, .wall_ms = 1};
    p->options = (struct replica_options){
        .memory = memory_system(),
        .id = 1,
        .address = "n1",
        .hash_key = 1,
        .seed = 1,
        .election_ms = 300,
        .heartbeat_ms = 50,
        .snapshot_bytes = kind & 2 ? 256 : UINT64_MAX,
        .cache_bytes = UINT64_MAX,
        .trailing = 2,
        .ports = {p, save_vote, write_entries, read_entry, send, take_snapshot, fetch_snapshot,
                  on_result, on_event, on_barrier, on_change, NULL, NULL},
    };
    struct replica_start start = {.first = 1};
    if (!(kind & 4)) {
        start = (struct replica_start){.term = 2, .first = 1, .entries = entries, .count = 4};
    }
    const char *problem = NULL;
    p->replica = replica_new(&p->options, &start, p->now, &problem);
    hf_assert(p->replica != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct actor p = {.input = reader_make(slice_make(data, size))};
    check_encoding(slice_make(data, size));
    open_replica(&p, read_u8(&p.input));
    for (int i = 0; i < STEPS && reader_left(&p.input) > 0 && !p.input.bad; i++) {
        step(&p);
        while (p.write_count > WRITES / 2) {
            written(&p);
        }
    }
    replica_free(p.replica);
    return 0;
}
