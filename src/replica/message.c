/* Encodes LEB128 numbers in the order of libraft's structs. */
#include "replica/message.h"

#include "base/codec.h"
#include "base/panic.h"
#include "replica/engine.h"

/* On the wire only: an AppendEntries that is not answered. */
#define TYPE_COMMIT (RAFT_TIMEOUT_NOW + 1)

/* For everything but entries and members. */
#define HEAD_MAX 256

static void *must(void *memory)
{
    if (memory == NULL) {
        hf_panic(__FILE__, __LINE__, "out of memory");
    }
    return memory;
}

/* For AppendEntries only: entries may have to be read from disk one by one. */
struct growing {
    uint8_t *data;
    size_t len;
    size_t size;
};

static void reserve(struct growing *g, size_t more)
{
    hf_assert(g->len <= g->size);
    if (g->len + more > g->size) {
        g->size = (g->len + more) * 2;
        g->data = must(raft_realloc(g->data, g->size));
    }
}

static void put_number(struct growing *g, uint64_t value)
{
    reserve(g, 10);
    struct writer w = writer_make(g->data + g->len, g->size - g->len);
    write_u64(&w, value);
    hf_assert(!w.full);
    g->len = (size_t)(w.at - g->data);
}

static void put_bytes(struct growing *g, struct slice bytes)
{
    put_number(g, bytes.len);
    reserve(g, bytes.len);
    if (bytes.len > 0) {
        memcpy(g->data + g->len, bytes.data, bytes.len);
    }
    g->len += bytes.len;
}

static bool put_append(struct growing *g, const struct raft_append_entries *a,
                       message_entry_fn entry, void *ctx)
{
    hf_assert(a->n_entries <= MESSAGE_MAX_ENTRIES); /* a receiver refuses more */
    hf_assert(a->n_entries == 0 || entry != NULL);
    put_number(g, a->version);
    put_number(g, a->term);
    put_number(g, a->prev_log_index);
    put_number(g, a->prev_log_term);
    put_number(g, a->leader_commit);
    put_number(g, a->n_entries);
    for (unsigned i = 0; i < a->n_entries; i++) {
        struct replica_entry e;
        if (!entry(ctx, a->prev_log_index + 1 + i, &e)) {
            return false;
        }
        put_number(g, e.term);
        put_number(g, e.type);
        put_bytes(g, e.bytes);
    }
    return true;
}

static void put_vote(struct growing *g, const struct raft_request_vote *v)
{
    put_number(g, v->version);
    put_number(g, v->term);
    put_number(g, v->candidate_id);
    put_number(g, v->last_log_index);
    put_number(g, v->last_log_term);
    put_number(g, v->disrupt_leader);
    put_number(g, v->pre_vote);
}

static void put_vote_result(struct growing *g, const struct raft_request_vote_result *v)
{
    put_number(g, v->version);
    put_number(g, v->term);
    put_number(g, v->vote_granted);
    put_number(g, v->pre_vote);
    put_number(g, v->features);
    put_number(g, v->capacity);
}

static void put_append_result(struct growing *g, const struct raft_append_entries_result *a)
{
    put_number(g, a->version);
    put_number(g, a->term);
    put_number(g, a->rejected);
    put_number(g, a->last_log_index);
    put_number(g, a->features);
    put_number(g, a->capacity);
}

static void put_snapshot(struct growing *g, const struct raft_install_snapshot *s,
                         struct slice members)
{
    put_number(g, s->version);
    put_number(g, s->term);
    put_number(g, s->last_index);
    put_number(g, s->last_term);
    put_number(g, s->conf_index);
    put_bytes(g, members);
}

static void put_timeout_now(struct growing *g, const struct raft_timeout_now *t)
{
    put_number(g, t->version);
    put_number(g, t->term);
    put_number(g, t->last_log_index);
    put_number(g, t->last_log_term);
}

void *message_encode(const struct raft_message *m, uint64_t cluster_ms, struct slice members,
                     message_entry_fn entry, void *ctx, size_t *len)
{
    hf_assert(len != NULL);
    struct growing g = {must(raft_malloc(HEAD_MAX)), 0, HEAD_MAX};
    put_number(&g, cluster_ms);
    put_number(&g, (uint64_t)m->type);
    bool fine = true;
    switch (m->type) {
    case RAFT_APPEND_ENTRIES:
        fine = put_append(&g, &m->append_entries, entry, ctx);
        break;
    case RAFT_APPEND_ENTRIES_RESULT:
        put_append_result(&g, &m->append_entries_result);
        break;
    case RAFT_REQUEST_VOTE:
        put_vote(&g, &m->request_vote);
        break;
    case RAFT_REQUEST_VOTE_RESULT:
        put_vote_result(&g, &m->request_vote_result);
        break;
    case RAFT_INSTALL_SNAPSHOT:
        put_snapshot(&g, &m->install_snapshot, members);
        break;
    case RAFT_TIMEOUT_NOW:
        put_timeout_now(&g, &m->timeout_now);
        break;
    }
    if (!fine) {
        raft_free(g.data);
        return NULL;
    }
    *len = g.len;
    return g.data;
}

void *message_encode_commit(const struct raft_message *m, uint64_t cluster_ms, size_t *len)
{
    hf_assert(m->type == RAFT_APPEND_ENTRIES && m->append_entries.n_entries == 0);
    struct growing g = {must(raft_malloc(HEAD_MAX)), 0, HEAD_MAX};
    put_number(&g, cluster_ms);
    put_number(&g, TYPE_COMMIT);
    (void)put_append(&g, &m->append_entries, NULL, NULL);
    *len = g.len;
    return g.data;
}

static bool take_bool(struct reader *r)
{
    uint64_t value = read_u64(r);
    if (value > 1) {
        r->bad = true;
    }
    return value == 1;
}

static unsigned short take_u16(struct reader *r)
{
    uint64_t value = read_u64(r);
    if (value > UINT16_MAX) {
        r->bad = true;
    }
    return (unsigned short)value;
}

static unsigned char take_version(struct reader *r)
{
    uint64_t value = read_u64(r);
    if (value > UINT8_MAX) {
        r->bad = true;
    }
    return (unsigned char)value;
}

/* Reads the bytes twice: to check and measure them, and to copy them into one block for libraft. */
static bool take_entries(struct reader *r, uint32_t count, struct raft_entry **out)
{
    *out = NULL;
    if (count == 0) {
        return true;
    }
    struct reader ahead = *r;
    size_t total = 0;
    for (uint32_t i = 0; i < count && !ahead.bad; i++) {
        (void)read_u64(&ahead);
        uint64_t type = read_u64(&ahead);
        total += read_slice(&ahead, LIMIT_ENTRY).len;
        if (type < RAFT_COMMAND || type > RAFT_CHANGE) {
            ahead.bad = true;
        }
    }
    if (ahead.bad) {
        return false;
    }
    uint8_t *batch = must(raft_malloc(total == 0 ? 1 : total));
    struct raft_entry *entries = must(raft_malloc(sizeof(*entries) * count));
    size_t at = 0;
    for (uint32_t i = 0; i < count; i++) {
        entries[i].term = read_u64(r);
        entries[i].type = (enum raft_entry_type)read_u64(r);
        struct slice bytes = read_slice(r, LIMIT_ENTRY);
        if (bytes.len > 0) {
            memcpy(batch + at, bytes.data, bytes.len);
        }
        entries[i].buf.base = batch + at;
        entries[i].buf.len = bytes.len;
        entries[i].batch = batch;
        at += bytes.len;
    }
    hf_assert(at == total);
    *out = entries;
    return true;
}

static bool take_append(struct reader *r, struct message_in *out)
{
    struct raft_append_entries *a = &out->message.append_entries;
    a->version = take_version(r);
    a->term = read_u64(r);
    a->prev_log_index = read_u64(r);
    a->prev_log_term = read_u64(r);
    a->leader_commit = read_u64(r);
    uint64_t count = read_u64(r);
    if (r->bad || count > MESSAGE_MAX_ENTRIES || !take_entries(r, (uint32_t)count, &out->entries)) {
        return false;
    }
    a->n_entries = (unsigned)count;
    a->entries = out->entries;
    return true;
}

static bool take_snapshot(struct reader *r, struct raft_install_snapshot *s)
{
    s->version = take_version(r);
    s->term = read_u64(r);
    s->last_index = read_u64(r);
    s->last_term = read_u64(r);
    s->conf_index = read_u64(r);
    struct slice members = read_slice(r, LIMIT_ENTRY);
    if (r->bad || s->last_index == 0 || !members_decode(members, &s->conf)) {
        return false;
    }
    s->data.len = 8;
    s->data.base = must(raft_malloc(8));
    return true;
}

static bool take_body(struct reader *r, struct message_in *out)
{
    struct raft_message *m = &out->message;
    switch (m->type) {
    case RAFT_APPEND_ENTRIES:
        return take_append(r, out);
    case RAFT_APPEND_ENTRIES_RESULT:
        m->append_entries_result.version = take_version(r);
        m->append_entries_result.term = read_u64(r);
        m->append_entries_result.rejected = read_u64(r);
        m->append_entries_result.last_log_index = read_u64(r);
        m->append_entries_result.features = take_u16(r);
        m->append_entries_result.capacity = take_u16(r);
        return true;
    case RAFT_REQUEST_VOTE:
        m->request_vote.version = take_version(r);
        m->request_vote.term = read_u64(r);
        m->request_vote.candidate_id = read_u64(r);
        m->request_vote.last_log_index = read_u64(r);
        m->request_vote.last_log_term = read_u64(r);
        m->request_vote.disrupt_leader = take_bool(r);
        m->request_vote.pre_vote = take_bool(r);
        return true;
    case RAFT_REQUEST_VOTE_RESULT:
        m->request_vote_result.version = take_version(r);
        m->request_vote_result.term = read_u64(r);
        m->request_vote_result.vote_granted = take_bool(r);
        m->request_vote_result.pre_vote = take_bool(r);
        m->request_vote_result.features = take_u16(r);
        m->request_vote_result.capacity = take_u16(r);
        return true;
    case RAFT_INSTALL_SNAPSHOT:
        return take_snapshot(r, &m->install_snapshot);
    case RAFT_TIMEOUT_NOW:
        m->timeout_now.version = take_version(r);
        m->timeout_now.term = read_u64(r);
        m->timeout_now.last_log_index = read_u64(r);
        m->timeout_now.last_log_term = read_u64(r);
        return true;
    }
    return false;
}

void message_drop(struct message_in *in)
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

bool message_decode(struct slice bytes, uint64_t sender, const char *sender_address,
                    struct message_in *out)
{
    hf_assert(sender != 0);
    memset(out, 0, sizeof(*out));
    struct reader r = reader_make(bytes);
    out->cluster_ms = read_u64(&r);
    uint64_t type = read_u64(&r);
    if (r.bad || out->cluster_ms >= LIMIT_NUMBER || type < RAFT_APPEND_ENTRIES ||
        type > TYPE_COMMIT) {
        return false;
    }
    out->is_unanswered = type == TYPE_COMMIT;
    out->message.type = out->is_unanswered ? RAFT_APPEND_ENTRIES : (enum raft_message_type)type;
    out->message.server_id = sender;
    out->message.server_address = sender_address;
    if (!take_body(&r, out)) {
        return false; /* it has freed what it had allocated */
    }
    if (!reader_done(&r) || (out->is_unanswered && out->entries != NULL)) {
        message_drop(out);
        return false;
    }
    return true;
}
