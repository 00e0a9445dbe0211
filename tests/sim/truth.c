/* The replicated truth, event by event in log order, on first sight anywhere: who holds what, who
 * waits in which order, what the fence accepted, and whether time is kept. */
#include "book.h"
#include "keys.h"
#include "tier.h"

enum { LATE_MS = 1000, HEALTHY_US = 1500000 };

static struct book *replicated;

static struct grants grants; /* in the order of their tokens */

struct check {
    uint64_t index;
    uint64_t token;
};
static struct check *fence_checks[NAMES];
static uint32_t fence_count[NAMES];

static uint64_t last_token;
static uint64_t last_at_ms;
static int watched;
static uint64_t well_since_us[MAX_NODES + 1]; /* under the leader that is watched; 0: it is not */

/* ---- holders ---- */

static void granted(int k, const struct event *e)
{
    if (e->part == 1) {
        if (e->token <= last_token || e->token <= tier_truth_highest() ||
            tier_of_token(e->token) != TIER_CORRECTNESS) {
            violation("token %llu is not above %llu and %llu of the other tier (S3.1)",
                      ull(e->token), ull(last_token), ull(tier_truth_highest()));
        }
        last_token = e->token;
    }
    if (k < 0) {
        keys_granted(e);
    } else {
        grants_add(&grants, e->token, k);
        trace_hold((uint32_t)k, e->token, true);
    }
}

/* ---- time ---- */

/* Cluster time never goes back and never runs ahead of real time (S1). */
static void check_time(const struct event *e)
{
    uint64_t real_ms = world.now_us / 1000;
    if (e->at_ms < last_at_ms) {
        violation("cluster time goes back from %llu to %llu", ull(last_at_ms), ull(e->at_ms));
    }
    if (e->at_ms > real_ms + real_ms / 1900 + 2) {
        violation("cluster time %llu is ahead of real time %llu", ull(e->at_ms), ull(real_ms));
    }
    last_at_ms = e->at_ms;
}

void truth_event(const struct event *e)
{
    check_time(e);
    int k = book_number(e->name);
    trace("event %llu-%u at %llu: %s %.*s token %llu lease %llx-%llx", ull(e->index), e->ordinal,
          ull(e->at_ms), event_name(e->type), (int)e->name.len, (const char *)e->name.data,
          ull(e->token), ull(e->lease.high), ull(e->lease.low));
    if (replicated == NULL) {
        replicated = book_new("the replicated state");
    }
    book_event(replicated, e);
    if (e->type == EVENT_EPOCH) {
        tier_truth_epoch(e->token);
    } else if (e->type == EVENT_GRANTED) {
        granted(k, e);
    } else if (k >= 0 && (e->type == EVENT_RELEASED || e->type == EVENT_EXPIRED ||
                          e->type == EVENT_FORCED || e->type == EVENT_REVOKED)) {
        trace_hold((uint32_t)k, e->token, false);
    }
}

bool truth_has_grant(uint64_t token, uint32_t name)
{
    uint64_t low = 0;
    uint64_t high = grants.count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (grants.at[middle].token < token) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < grants.count && grants.at[low].token == token &&
           (grants.at[low].names >> name & 1) != 0;
}

uint64_t truth_holder(uint32_t name)
{
    return replicated == NULL ? 0 : book_first_token(replicated, name);
}

uint64_t truth_last_token(void)
{
    return last_token;
}

bool truth_is_held(uint32_t name)
{
    return replicated != NULL && book_is_held(replicated, name);
}

/* S11: in the order of the log, what is accepted never goes back. */
void truth_fence(uint32_t resource, uint64_t index, uint64_t token, bool accepted)
{
    world.counts.fence_checks++;
    if (!accepted) {
        world.counts.fence_rejections++;
        return;
    }
    const struct check *c = fence_checks[resource];
    for (uint32_t i = 0; i < fence_count[resource]; i++) {
        if ((c[i].index < index && c[i].token > token) ||
            (c[i].index > index && c[i].token < token)) {
            violation("the fence of n%u accepted token %llu at %llu and %llu at %llu (S11)",
                      resource, ull(c[i].token), ull(c[i].index), ull(token), ull(index));
        }
    }
    fence_checks[resource] =
        realloc(fence_checks[resource], (fence_count[resource] + 1) * sizeof(struct check));
    fence_checks[resource][fence_count[resource]++] = (struct check){index, token};
}

/* ---- lateness ---- */

static bool is_well(const struct sim_node *n)
{
    return n->up && !n->failed && !n->lost && n->paused_until_us <= world.now_us &&
           n->slow_until_us <= world.now_us && n->full_until_us == 0;
}

/* Whether the leader itself, or a follower that has all that is committed and is connected in both
 * directions, has been well for a while. One that has just started, or was cut off, first gets what
 * it missed; a change of members may make a majority depend on it. */
static bool is_well_for_long(const struct sim_node *leader, const struct sim_node *n)
{
    bool has_log =
        n->durable.last >= leader->commit_index || n->durable.base >= leader->commit_index;
    bool is_now = is_well(n) && has_log &&
                  (n == leader ||
                   (network_reaches(leader->id, n->id) && network_reaches(n->id, leader->id) &&
                    network_is_quick(leader->id, n->id) && network_is_quick(n->id, leader->id)));
    if (!is_now) {
        well_since_us[n->id] = 0;
    } else if (well_since_us[n->id] < n->up_since_us) {
        well_since_us[n->id] = world.now_us;
    }
    return is_now && world.now_us > well_since_us[n->id] + HEALTHY_US;
}

/* The leader and a majority of voters run and hear each other, the same ones for a while. */
static bool is_healthy(const struct sim_node *leader)
{
    struct replica_member members[MAX_NODES];
    uint32_t voters = 0;
    uint32_t well = 0;
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    for (uint32_t i = 0; i < count; i++) {
        if (members[i].voter) {
            voters++;
            well += is_well_for_long(leader, &world.nodes[members[i].id]);
        }
    }
    return well * 2 > voters && is_well_for_long(leader, leader) &&
           world.now_us > leader->serving_since_us + UINT64_C(2) * HEALTHY_US;
}

/* What is due is done within a second, the time without a healthy leader aside (issue of leases
 * that outlive their deadline). */
void truth_watch(void)
{
    const struct sim_node *leader = leader_now();
    int id = leader == NULL ? 0 : leader->id;
    if (watched != id) {
        watched = id;
        memset(well_since_us, 0, sizeof(well_since_us));
    }
    if (leader == NULL || !is_healthy(leader)) {
        return;
    }
    struct replica_status s;
    replica_status(leader->replica, node_time(leader), &s);
    uint64_t due_ms = core_next_due_ms(replica_core(leader->replica));
    if (due_ms < s.cluster_ms && s.cluster_ms - due_ms > LATE_MS) {
        violation("something has been due for %llu ms under a healthy leader",
                  ull(s.cluster_ms - due_ms));
    }
    uint64_t tier_ms = memory_tier_next_ms(leader->tier);
    if (tier_ms < s.cluster_ms && s.cluster_ms - tier_ms > LATE_MS) {
        violation("something has been due in the tier EFFICIENCY for %llu ms",
                  ull(s.cluster_ms - tier_ms));
    }
}

void truth_end(void)
{
    for (int i = 0; i < NAMES; i++) {
        free(fence_checks[i]);
        fence_checks[i] = NULL;
        fence_count[i] = 0;
    }
    grants_free(&grants);
    tier_truth_forget();
    book_free(replicated);
    replicated = NULL;
    last_token = last_at_ms = 0;
    memset(well_since_us, 0, sizeof(well_since_us));
    watched = 0;
}
