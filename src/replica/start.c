/* Start and end of a replica. */
#include "base/panic.h"
#include "replica/internal.h"

static uint64_t ms_of(struct replica_time now)
{
    return now.boot_us / 1000;
}

static void find_members(struct replica *r, const struct replica_start *start)
{
    if (start->snapshot.index != 0) {
        remember_members(r, start->snapshot.members_index, start->snapshot.members);
    }
}

/* One by one: memory holds only the entries that the engine keeps. NULL: all are valid. */
static const char *load_entries(struct replica *r, const struct replica_start *start)
{
    struct entries *log = &r->engine.log;
    entries_init(log, r->options.memory, start->first, r->options.cache_bytes);
    for (uint32_t i = 0; i < start->count; i++) {
        struct replica_entry entry;
        if (start->entries != NULL) {
            entry = start->entries[i];
        } else if (!start->next(start->ctx, &entry)) {
            return "its log cannot be read";
        }
        const char *problem = members_entry_problem(&entry);
        if (problem != NULL) {
            return problem;
        }
        if (entry.type == RAFT_COMMAND) {
            clock_hear(&r->clock, entry.term, entry_stamp_ms(entry.bytes));
        }
        entries_append(log, &entry);
    }
    return NULL;
}

static void check_options(const struct replica_options *options)
{
    const struct replica_ports *p = &options->ports;
    hf_assert(options->memory != NULL && options->address != NULL);
    hf_assert(options->id != 0 && options->id <= UINT32_MAX);
    hf_assert(p->save_vote != NULL && p->write != NULL && p->read != NULL && p->send != NULL);
    hf_assert(p->take_snapshot != NULL && p->fetch_snapshot != NULL);
    hf_assert(p->on_result != NULL && p->on_event != NULL);
    hf_assert(p->on_barrier != NULL && p->on_change != NULL);
}

struct replica *replica_new(const struct replica_options *options,
                            const struct replica_start *start, struct replica_time now,
                            const char **problem)
{
    check_options(options);
    hf_assert(start->count == 0 || start->entries != NULL || start->next != NULL);
    struct replica *r = memory_alloc(options->memory, sizeof(*r));
    memset(r, 0, sizeof(*r));
    r->options = *options;
    r->send_commit_us = UINT64_MAX;
    r->apply_us = UINT64_MAX;
    r->buffer = memory_alloc(options->memory, BATCH_BYTES);
    batch_reset(r);
    return_predictor_init(&r->predictor);
    r->core = start->core;
    if (r->core == NULL) {
        struct core_options core_options = {.memory = options->memory,
                                            .hash_key = options->hash_key};
        r->core = core_new(&core_options);
    }
    core_set_events(r->core, replica_on_event, r);
    clock_hear(&r->clock, start->snapshot.term, core_now_ms(r->core));
    r->applied = start->snapshot.index;
    *problem = members_problem(start);
    if (*problem == NULL) { /* before the start: an only voter leads at once */
        *problem = load_entries(r, start);
    }
    if (*problem != NULL) {
        replica_free(r);
        return NULL;
    }
    hf_assert((start->core == NULL) == (start->snapshot.index == 0));
    find_members(r, start);
    replica_enter(r, now);
    if (!engine_start(&r->engine, &r->options, &r->options.ports, start, ms_of(now), problem)) {
        r->in_call = false;
        replica_free(r);
        return NULL;
    }
    plausible_init(&r->plausible, start->term, ms_of(now));
    r->engine.plausible = &r->plausible;
    replica_leave(r, now);
    return r;
}

void replica_free(struct replica *r)
{
    if (r == NULL) {
        return;
    }
    hf_assert(!r->in_call && r->applying == NULL);
    engine_close(&r->engine);
    while (r->flight_count > 0) {
        flight_drop(r, 0);
    }
    cookies_free(r, &r->commands);
    cookies_free(r, &r->barriers);
    core_free(r->core);
    if (r->members.len > 0) {
        memory_free(r->options.memory, (void *)(uintptr_t)r->members.data, r->members.len);
    }
    memory_free(r->options.memory, r->buffer, BATCH_BYTES);
    memory_free(r->options.memory, r, sizeof(*r));
}
