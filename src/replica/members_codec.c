/* libraft's decoder of members does not check where they end, so it only gets bytes that were
 * checked here. */
#include "base/codec.h"
#include "base/limits.h"
#include "base/panic.h"
#include "replica/internal.h"

/* libraft's format: version, count, then id, address and role of each server; zeros up to a
 * multiple of 8 bytes. */
enum { FORMAT = 1, ADDRESS_LONGEST = 512, MOST = 4 * LIMIT_NODES };

static bool skip_address(struct reader *r)
{
    const uint8_t *start = r->at;
    while (read_u8(r) != 0) {
    }
    size_t len = (size_t)(r->at - start);
    return !r->bad && len > 1 && len <= ADDRESS_LONGEST;
}

static bool only_padding(struct reader *r)
{
    if (reader_left(r) >= 8) {
        return false;
    }
    while (r->at < r->end) {
        if (read_u8(r) != 0) {
            return false;
        }
    }
    return true;
}

bool members_check(struct slice bytes)
{
    struct reader r = reader_make(bytes);
    uint8_t format = read_u8(&r);
    uint64_t count = read_fixed64(&r);
    uint64_t voters = 0;
    if (r.bad || bytes.len % 8 != 0 || format != FORMAT || count == 0 || count > MOST) {
        return false;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint64_t id = read_fixed64(&r);
        if (r.bad || id == 0 || id > UINT32_MAX || !skip_address(&r)) {
            return false;
        }
        uint8_t role = read_u8(&r);
        if (r.bad || (role != RAFT_STANDBY && role != RAFT_VOTER && role != RAFT_SPARE)) {
            return false;
        }
        voters += role == RAFT_VOTER;
    }
    return voters > 0 && only_padding(&r);
}

bool members_decode(struct slice bytes, struct raft_configuration *out)
{
    raft_configuration_init(out);
    if (!members_check(bytes)) {
        return false;
    }
    /* libraft reads aligned words. */
    struct raft_buffer copy = {raft_malloc(bytes.len), bytes.len};
    hf_assert(copy.base != NULL);
    memcpy(copy.base, bytes.data, bytes.len);
    /* Refuses a duplicate id or address. */
    int error = raft_configuration_decode(&copy, out);
    raft_free(copy.base);
    if (error != 0) {
        raft_configuration_init(out);
    }
    return error == 0;
}

bool members_encode(const struct raft_configuration *conf, struct slice *out,
                    const struct memory *memory)
{
    struct raft_buffer buffer;
    hf_assert(conf->n > 0 && out != NULL);
    if (raft_configuration_encode(conf, &buffer) != 0) {
        return false;
    }
    uint8_t *copy = memory_alloc(memory, buffer.len);
    memcpy(copy, buffer.base, buffer.len);
    raft_free(buffer.base);
    *out = slice_make(copy, buffer.len);
    return true;
}

bool replica_members_read(struct slice bytes, replica_member_fn visit, void *ctx)
{
    struct raft_configuration conf;
    hf_assert(visit != NULL);
    bool fine = members_decode(bytes, &conf);
    for (unsigned i = 0; fine && i < conf.n; i++) {
        struct replica_member member = {conf.servers[i].id, conf.servers[i].address,
                                        conf.servers[i].role == RAFT_VOTER};
        visit(ctx, &member);
    }
    raft_configuration_close(&conf);
    return fine;
}

const char *members_problem(const struct replica_start *start)
{
    if (start->snapshot.index != 0 && !members_check(start->snapshot.members)) {
        return "the members in its snapshot cannot be decoded";
    }
    return NULL;
}

const char *members_entry_problem(const struct replica_entry *entry)
{
    return entry->type == RAFT_CHANGE && !members_check(entry->bytes)
               ? "its log has members that cannot be decoded"
               : NULL;
}

struct id_list {
    uint64_t *at;
    uint32_t count;
    uint32_t max;
};

static void put_id(void *ctx, const struct replica_member *member)
{
    struct id_list *ids = ctx;
    if (ids->count < ids->max) {
        ids->at[ids->count++] = member->id;
    }
}

uint32_t replica_committed_ids(const struct replica *r, uint64_t *out, uint32_t max)
{
    struct id_list ids = {out, 0, max};
    hf_assert(out != NULL);
    if (r->members.len > 0) {
        (void)replica_members_read(r->members, put_id, &ids);
    }
    return ids.count;
}

static bool has_server(const struct raft_configuration *conf, uint64_t id)
{
    for (unsigned i = 0; i < conf->n; i++) {
        if (conf->servers[i].id == id) {
            return true;
        }
    }
    return false;
}

bool replica_is_member(const struct replica *r, uint64_t id)
{
    uint64_t committed[LIMIT_NODES];
    if (has_server(&r->engine.raft.configuration, id) ||
        has_server(&r->engine.raft.configuration_committed, id)) {
        return true;
    }
    uint32_t count = replica_committed_ids(r, committed, LIMIT_NODES);
    for (uint32_t i = 0; i < count; i++) {
        if (committed[i] == id) {
            return true;
        }
    }
    return false;
}
