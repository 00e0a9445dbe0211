/* Read-only queries of a member. */
#include "replica/internal.h"

void replica_status(const struct replica *r, struct replica_time now, struct replica_status *out)
{
    *out = (struct replica_status){
        .id = r->options.id,
        .term = raft_current_term(&r->engine.raft),
        .leader = r->known_leader,
        .is_leader = r->leading,
        .serving = r->serving,
        .members_change = r->engine.raft.configuration_uncommitted_index != 0,
        .last_index = entries_last(&r->engine.log),
        .stored_index = r->engine.reported,
        .commit_index = raft_commit_index(&r->engine.raft),
        .applied_index = r->applied,
        .snapshot_index = r->engine.snapshot.index,
        .cluster_ms = clock_now_ms(&r->clock, now.boot_us),
        .clock_from_ms = r->clock.running ? r->clock.base_ms : 0,
    };
}

uint64_t replica_cluster_ms(const struct replica *r, struct replica_time now)
{
    return clock_now_ms(&r->clock, now.boot_us);
}

uint64_t replica_when_us(const struct replica *r, uint64_t cluster_ms)
{
    return clock_when_us(&r->clock, cluster_ms);
}

bool replica_is_serving(const struct replica *r)
{
    return r->serving;
}

struct slice replica_submitted(const struct replica *r)
{
    return r->writer.last;
}

bool replica_is_in_flight(const struct replica *r)
{
    return r->leading && flight_in_this_term(r);
}

const struct core *replica_core(const struct replica *r)
{
    return r->core;
}

uint64_t replica_log_start(const struct replica *r)
{
    return r->engine.log.first;
}

const char *replica_refusal(const struct replica *r)
{
    return r->refusal;
}
