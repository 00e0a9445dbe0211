/* The replicated truth, event by event in log order, on first sight anywhere: who holds what, who
 * waits in which order, what the fence accepted, and whether time is kept. */
#include "world.h"

enum { MAX_HOLDERS = 64, MAX_WAITERS = 64, LATE_MS = 1000, HEALTHY_US = 1500000 };

struct holder {
    uint64_t token;
    enum mode mode;
};

struct waiting {
    struct id lease;
    bool in_session;
    bool detached; /* or it may be */
    uint32_t node; /* 0: it came back, through whichever */
};

static struct name {
    struct holder holders[MAX_HOLDERS];
    uint32_t holder_count;
    struct waiting waiters[MAX_WAITERS]; /* in the order they came */
    uint32_t waiter_count;
} names[NAMES];

struct granted {
    uint64_t token;
    uint64_t names; /* a bit each */
};
static struct granted *grants; /* in the order of their tokens */
static uint64_t grant_count;
static uint64_t grant_capacity;

struct check {
    uint64_t index;
    uint64_t token;
};
static struct check *fence_checks[NAMES];
static uint32_t fence_count[NAMES];

static uint64_t last_token;
static uint64_t last_at_ms;
static int watched;
static uint64_t healthy_since_us;

/* Names are n0, n1, ...; -1 for others. */
static int number_of(struct slice name)
{
    int number = 0;
    if (name.len < 2 || name.len > 3 || name.data[0] != 'n') {
        return -1;
    }
    for (size_t i = 1; i < name.len; i++) {
        number = number * 10 + (name.data[i] - '0');
    }
    return number < NAMES ? number : -1;
}

/* ---- queues ---- */

static void leave_queue(struct name *n, uint32_t i)
{
    n->waiter_count--;
    memmove(n->waiters + i, n->waiters + i + 1, (n->waiter_count - i) * sizeof(n->waiters[0]));
}

/* A multi-lock stands in several queues, and its events name one of them. */
static void each_place(struct id lease, void (*visit)(struct name *n, uint32_t i))
{
    for (int k = 0; k < NAMES; k++) {
        for (uint32_t i = 0; i < names[k].waiter_count; i++) {
            if (id_equal(names[k].waiters[i].lease, lease)) {
                visit(&names[k], i);
                break;
            }
        }
    }
}

static void set_detached(struct name *n, uint32_t i)
{
    n->waiters[i].detached = true;
}

static void set_attached(struct name *n, uint32_t i)
{
    n->waiters[i].detached = false;
    n->waiters[i].node = 0;
}

static void queued(int k, const struct event *e)
{
    struct name *n = &names[k];
    if (n->waiter_count == MAX_WAITERS) {
        violation("more waiters than clients");
    }
    n->waiters[n->waiter_count++] = (struct waiting){
        .lease = e->lease,
        .in_session = !id_is_zero(e->session),
        .node = e->node,
    };
}

static void node_gone(uint32_t node)
{
    for (int k = 0; k < NAMES; k++) {
        for (uint32_t i = 0; i < names[k].waiter_count; i++) {
            struct waiting *w = &names[k].waiters[i];
            w->detached = w->detached || (!w->in_session && (w->node == node || w->node == 0));
        }
    }
}

/* S6.1: nothing overtakes. */
static void check_order(int k, const struct event *e)
{
    struct name *n = &names[k];
    for (uint32_t i = 0; i < n->waiter_count; i++) {
        if (id_equal(n->waiters[i].lease, e->lease)) {
            leave_queue(n, i);
            return;
        }
        if (!n->waiters[i].detached) {
            violation("token %llu on n%d was granted past an earlier waiter (S6.1)", ull(e->token),
                      k);
        }
    }
}

/* ---- holders ---- */

static void remember_grant(int k, const struct event *e)
{
    if (grant_count > 0 && grants[grant_count - 1].token == e->token) {
        grants[grant_count - 1].names |= UINT64_C(1) << k;
        return;
    }
    if (grant_count == grant_capacity) {
        grant_capacity = grant_capacity == 0 ? 1024 : grant_capacity * 2;
        grants = realloc(grants, grant_capacity * sizeof(*grants));
    }
    grants[grant_count++] = (struct granted){e->token, UINT64_C(1) << k};
}

static void granted(int k, const struct event *e)
{
    struct name *n = &names[k];
    if (e->part == 1) {
        if (e->token <= last_token) {
            violation("token %llu is not above %llu (S3.1)", ull(e->token), ull(last_token));
        }
        last_token = e->token;
    }
    check_order(k, e);
    for (uint32_t i = 0; i < n->holder_count; i++) {
        if (e->mode != MODE_SHARED || n->holders[i].mode != MODE_SHARED) {
            violation("n%d has two holders, tokens %llu and %llu", k, ull(n->holders[i].token),
                      ull(e->token));
        }
    }
    if (n->holder_count == MAX_HOLDERS) {
        violation("more holders than clients");
    }
    n->holders[n->holder_count++] = (struct holder){e->token, e->mode};
    remember_grant(k, e);
    trace_hold((uint32_t)k, e->token, true);
}

static void ended(int k, const struct event *e)
{
    struct name *n = &names[k];
    uint32_t i = 0;
    while (i < n->holder_count && n->holders[i].token != e->token) {
        i++;
    }
    if (i == n->holder_count) {
        violation("token %llu on n%d ended and was not held", ull(e->token), k);
    }
    n->holder_count--;
    memmove(n->holders + i, n->holders + i + 1, (n->holder_count - i) * sizeof(n->holders[0]));
    trace_hold((uint32_t)k, e->token, false);
    if (e->type == EVENT_EXPIRED) {
        uint64_t safe_us = 0;
        int client = 0;
        world.counts.expired++;
        if (clients_safe_until(e->token, &safe_us, &client) && world.now_us < safe_us) {
            violation("token %llu on n%d was cut short by %llu us: client %d counts on it (S5)",
                      ull(e->token), k, ull(safe_us - world.now_us), client);
        }
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
    int k = number_of(e->name);
    trace("event %llu-%u at %llu: %s %.*s token %llu lease %llx-%llx", ull(e->index), e->ordinal,
          ull(e->at_ms), event_name(e->type), (int)e->name.len, (const char *)e->name.data,
          ull(e->token), ull(e->lease.high), ull(e->lease.low));
    if (e->type == EVENT_DETACHED && id_is_zero(e->lease)) {
        node_gone(e->node);
    }
    if (k < 0) {
        return;
    }
    switch (e->type) {
    case EVENT_GRANTED:
        granted(k, e);
        break;
    case EVENT_QUEUED:
        queued(k, e);
        break;
    case EVENT_WAIT_ENDED:
        each_place(e->lease, leave_queue);
        break;
    case EVENT_DETACHED:
        each_place(e->lease, set_detached);
        break;
    case EVENT_SUPERSEDED:
        each_place(e->lease, set_attached);
        break;
    case EVENT_RELEASED:
    case EVENT_EXPIRED:
    case EVENT_FORCED:
    case EVENT_REVOKED:
        ended(k, e);
        break;
    default:
        break;
    }
}

bool truth_has_grant(uint64_t token, uint32_t name)
{
    uint64_t low = 0;
    uint64_t high = grant_count;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (grants[middle].token < token) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < grant_count && grants[low].token == token && (grants[low].names >> name & 1) != 0;
}

bool truth_is_held(uint32_t name)
{
    return names[name].holder_count > 0;
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

static bool is_well(const struct node *n)
{
    return n->up && !n->failed && n->paused_until_us <= world.now_us &&
           n->slow_until_us <= world.now_us && n->full_until_us == 0;
}

/* The leader and a majority of voters run, and hear each other. */
static bool is_healthy(const struct node *leader)
{
    struct replica_member members[MAX_NODES];
    uint32_t voters = 0;
    uint32_t well = 0;
    if (leader == NULL || !is_well(leader) ||
        world.now_us < leader->serving_since_us + HEALTHY_US) {
        return false;
    }
    uint32_t count = replica_members(leader->replica, members, MAX_NODES);
    for (uint32_t i = 0; i < count; i++) {
        const struct node *n = &world.nodes[members[i].id];
        if (members[i].voter) {
            voters++;
            well += n == leader || (is_well(n) && network_reaches(leader->id, n->id) &&
                                    network_reaches(n->id, leader->id) &&
                                    world.links[leader->id][n->id].slow_until_us < world.now_us &&
                                    world.links[n->id][leader->id].slow_until_us < world.now_us);
        }
    }
    return well * 2 > voters;
}

/* What is due is done within a second, the time without a healthy leader aside (issue of leases
 * that outlive their deadline). */
void truth_watch(void)
{
    const struct node *leader = leader_now();
    if (!is_healthy(leader)) {
        watched = 0;
        return;
    }
    if (watched != leader->id) {
        watched = leader->id;
        healthy_since_us = world.now_us;
    }
    struct replica_status s;
    replica_status(leader->replica, node_time(leader), &s);
    uint64_t due_ms = core_next_due_ms(replica_core(leader->replica));
    if (world.now_us > healthy_since_us + HEALTHY_US && due_ms < s.cluster_ms &&
        s.cluster_ms - due_ms > LATE_MS) {
        violation("something has been due for %llu ms under a healthy leader",
                  ull(s.cluster_ms - due_ms));
    }
}

void truth_end(void)
{
    for (int i = 0; i < NAMES; i++) {
        free(fence_checks[i]);
        fence_checks[i] = NULL;
        fence_count[i] = 0;
    }
    free(grants);
    grants = NULL;
    grant_count = grant_capacity = 0;
    memset(names, 0, sizeof(names));
    last_token = last_at_ms = healthy_since_us = 0;
    watched = 0;
}
