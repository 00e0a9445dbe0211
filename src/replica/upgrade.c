/* The version of the state machine (S12.9). It rises when all members support the next one: none
 * gets a command or snapshot that it does not support. Until then replica_submit refuses later
 * commands. */
#include "base/panic.h"
#include "replica/internal.h"

/* A cluster with a longer log has served requests. */
#define NEW_CLUSTER_ENTRIES 64

/* Only first entries of leaders. */
static bool is_new_cluster(struct replica *r)
{
    uint64_t last = entries_last(&r->engine.log);
    if (r->engine.snapshot.index != 0 || last > NEW_CLUSTER_ENTRIES) {
        return false;
    }
    for (uint64_t i = 1; i <= last; i++) {
        struct replica_entry entry;
        if (!engine_entry(&r->engine, i, &entry) ||
            (entry.type == RAFT_COMMAND && !entry_is_lead(entry.bytes))) {
            return false;
        }
    }
    return true;
}

static uint32_t version_of(const struct replica *r, uint64_t member)
{
    const struct replica_ports *p = &r->options.ports;
    if (member == r->options.id) {
        return CORE_VERSION;
    }
    return p->peer_version == NULL ? 0 : p->peer_version(p->ctx, member);
}

/* That all members support; 0: one has not reported. In a new cluster only members that reported
 * count: an older node that connects later has missed nothing, and is refused with a reason. */
static uint32_t version_of_all(struct replica *r)
{
    struct replica_member members[LIMIT_NODES];
    uint32_t count = replica_members(r, members, LIMIT_NODES);
    uint32_t lowest = CORE_VERSION;
    bool has_silent = false;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t version = version_of(r, members[i].id);
        has_silent = has_silent || version == 0;
        lowest = version != 0 && version < lowest ? version : lowest;
    }
    return has_silent && !is_new_cluster(r) ? 0 : lowest;
}

bool upgrade_wanted(struct replica *r, struct command *out)
{
    hf_assert(r->leading && out != NULL); /* only the leader proposes it */
    uint32_t version = core_version(r->core) < CORE_VERSION ? version_of_all(r) : 0;
    if (version <= core_version(r->core)) {
        return false;
    }
    command_init(out, COMMAND_UPGRADE);
    out->upgrade.version = version;
    return true;
}
