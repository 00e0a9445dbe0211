/* How long the oldest hold has lasted, on the leader. Times only rise, so a newer grant is never older: the
 * oldest is looked for again only when it has ended, a page of names in each step. Until that scan is
 * done, the oldest that it has found so far is shown. */
#include "core/view.h"
#include "node/node_state.h"

enum {
    SCAN_US = 1000000,    /* from the begin of one scan to the begin of the next */
    VISITS_A_STEP = 8000, /* names in one step; less than 1 ms */
};

static const struct core *core_of(struct node *n, bool in_tier)
{
    return in_tier ? memory_tier_core(n->tier) : replica_core(n->replica);
}

static bool is_held(struct node *n, const struct oldest_hold *hold, bool in_tier)
{
    const struct core *core = core_of(n, in_tier);
    return hold->since_ms != UINT64_MAX && core != NULL && view_still_holds(core, hold);
}

static void begin_scan(struct node_oldest *o, struct replica_time now)
{
    o->scanning = true;
    o->in_tier = false;
    o->cursor = 0;
    o->next_us = now.boot_us + SCAN_US;
    o->scanned.since_ms = UINT64_MAX;
}

static void end_scan(struct node *n)
{
    struct node_oldest *o = &n->oldest;
    o->scanning = false;
    o->found = o->scanned;
    o->found_in_tier = o->scanned_in_tier;
}

static void read_page(struct node *n)
{
    struct node_oldest *o = &n->oldest;
    const struct core *core = core_of(n, o->in_tier);
    uint64_t before_ms = o->scanned.since_ms;
    uint64_t next = VIEW_END;
    if (core != NULL) {
        next = view_oldest(core, o->cursor, VISITS_A_STEP, &o->scanned);
    }
    o->scanned_in_tier = o->scanned.since_ms < before_ms ? o->in_tier : o->scanned_in_tier;
    o->cursor = next;
    if (next == VIEW_END) {
        o->cursor = 0;
        if (o->in_tier) {
            end_scan(n);
        }
        o->in_tier = true;
    }
}

void node_step_oldest(struct node *n, struct replica_time now)
{
    struct node_oldest *o = &n->oldest;
    if (!n->serving) {
        *o = (struct node_oldest){.found = {.since_ms = UINT64_MAX}};
        return;
    }
    if (!o->scanning && now.boot_us >= o->next_us && !is_held(n, &o->found, o->found_in_tier)) {
        begin_scan(o, now);
    }
    if (o->scanning) {
        read_page(n);
    }
}

uint64_t node_oldest_hold_ms(struct node *n)
{
    const struct node_oldest *o = &n->oldest;
    if (!n->serving) {
        return 0;
    }
    bool is_found = is_held(n, &o->found, o->found_in_tier);
    const struct oldest_hold *hold = is_found ? &o->found : &o->scanned;
    uint64_t now_ms = replica_cluster_ms(n->replica, node_now(n));
    if (!is_found && !is_held(n, hold, o->scanned_in_tier)) {
        return 0;
    }
    return now_ms > hold->since_ms ? now_ms - hold->since_ms : 0;
}
