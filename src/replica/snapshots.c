/* Taking, installing and abandoning a snapshot. The node reads and writes the bytes (ports.h). */
#include "base/panic.h"
#include "replica/internal.h"

static uint64_t ms_of(struct replica_time now)
{
    return now.boot_us / 1000;
}

/* S12.5, E7. */
void snapshot_if_due(struct replica *r)
{
    if (r->taking || r->engine.installing || r->log_bytes < r->options.snapshot_bytes ||
        r->applied <= r->engine.snapshot.index || r->applied > r->engine.reported) {
        return;
    }
    const struct entry_slot *s = entries_at(&r->engine.log, r->applied);
    hf_assert(s != NULL && r->members.len > 0);
    hf_assert(r->members_index <= r->applied && r->applied <= r->engine.committed);
    r->taking = true;
    r->log_bytes = 0;
    struct replica_snapshot *coming = &r->engine.coming;
    hf_assert(coming->index == 0);
    *coming = (struct replica_snapshot){
        .index = r->applied, .term = s->term, .members_index = r->members_index};
    uint8_t *copy = memory_alloc(r->options.memory, r->members.len);
    memcpy(copy, r->members.data, r->members.len);
    coming->members = slice_make(copy, r->members.len);
    r->options.ports.take_snapshot(r->options.ports.ctx, r->core, coming);
}

void replica_snapshot_taken(struct replica *r, uint64_t index, struct replica_time now)
{
    hf_assert(r->taking);
    r->taking = false;
    if (r->engine.installing || r->engine.coming.index != index) {
        return; /* a snapshot from the leader replaced it */
    }
    replica_enter(r, now);
    engine_snapshot_taken(&r->engine, r->options.trailing, ms_of(now));
    replica_leave(r, now);
}

void replica_snapshot_failed(struct replica *r, struct replica_time now)
{
    (void)now;
    hf_assert(r->taking);
    r->taking = false;
    if (!r->engine.installing) {
        memory_free(r->options.memory, (void *)(uintptr_t)r->engine.coming.members.data,
                    r->engine.coming.members.len);
        r->engine.coming = (struct replica_snapshot){0};
        r->log_bytes = r->options.snapshot_bytes; /* try again */
    }
}

void replica_set_snapshot_bytes(struct replica *r, uint64_t bytes)
{
    r->options.snapshot_bytes = bytes;
}

void replica_want_snapshot(struct replica *r, struct replica_time now)
{
    if (r->applied > r->engine.snapshot.index && r->log_bytes < r->options.snapshot_bytes) {
        r->log_bytes = r->options.snapshot_bytes;
    }
    replica_enter(r, now);
    replica_leave(r, now);
}

void replica_snapshot_installed(struct replica *r, struct core *core, struct replica_time now)
{
    hf_assert(core != NULL && core != r->core);
    hf_assert(r->engine.installing && !r->abandons && !r->leading);
    hf_assert(r->engine.coming.index > r->applied);
    replica_enter(r, now);
    core_free(r->core);
    r->core = core;
    core_set_events(r->core, replica_on_event, r);
    clock_hear(&r->clock, r->engine.coming.term, core_now_ms(core));
    r->applied = r->engine.coming.index;
    r->log_bytes = 0;
    remember_members(r, r->engine.coming.members_index, r->engine.coming.members);
    flights_lost_up_to(r, r->applied);
    engine_snapshot_installed(&r->engine, ms_of(now));
    r->options.ports.on_change(r->options.ports.ctx);
    replica_leave(r, now);
}

/* If not yet possible, the end of a write tries it again. */
void snapshot_abandon_if_possible(struct replica *r, struct replica_time now)
{
    if (r->abandons && engine_may_abandon_snapshot(&r->engine)) {
        r->abandons = false;
        engine_snapshot_abandoned(&r->engine, ms_of(now));
        if (r->members_index != 0 &&
            r->engine.raft.configuration_uncommitted_index == r->members_index) { /* E8, again */
            engine_configuration(&r->engine, r->members_index, r->members, ms_of(now));
        }
        r->options.ports.on_change(r->options.ports.ctx);
    }
}

void replica_snapshot_abandoned(struct replica *r, struct replica_time now)
{
    hf_assert(r->engine.installing);
    r->abandons = true;
    replica_enter(r, now);
    snapshot_abandon_if_possible(r, now);
    replica_leave(r, now);
}
