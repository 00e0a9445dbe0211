/* The tier EFFICIENCY in a running node (replica/memory_tier.h): starts and stops with the
 * leadership, and sends events to the nodes with waiting clients.
 *
 * Events use the connection of the other node's requests, as answers with number 0: no event
 * overtakes its answer. When that connection breaks, the other node queries the state of its
 * waiting clients again (S7), and repeats its subscription. */
#include "events/event_codec.h"
#include "node/forward/forward_state.h"
#include "node/node_state.h"

static const struct core *replicated(void *ctx)
{
    struct node *n = ctx;
    return replica_core(n->replica);
}

static void on_result(void *ctx, void *cookie, const struct result *result)
{
    struct node *n = ctx;
    forward_on_tier_result(n->forward, cookie, result);
}

struct tier_time node_tier_now(void *ctx)
{
    struct node *n = ctx;
    struct replica_time now = node_now(n);
    return (struct tier_time){.cluster_ms = replica_cluster_ms(n->replica, now),
                              .wall_ms = now.wall_ms,
                              .majority =
                                  !node_is_late(n, now) && replica_has_majority(n->replica, now)};
}

static void on_again(void *ctx, void *cookie)
{
    struct node *n = ctx;
    forward_on_result(n->forward, cookie, REPLICA_NOT_DONE, NULL);
}

static bool propose(void *ctx, const struct command *command)
{
    struct node *n = ctx;
    return replica_submit(n->replica, command, forward_no_cookie(), node_now(n)) == HF_OK;
}

static bool is_wanted(const struct node *n, const struct node_interest *interest,
                      const struct event *e)
{
    bool is_waiter = e->attachment != 0 || e->type == EVENT_DETACHED;
    if (is_waiter && e->node == interest->peer) {
        return true;
    }
    if (interest->level == SERVICE_WANTS_NOTHING ||
        interest->link != peers_link(n->peers, interest->peer)) {
        return false;
    }
    bool is_for_session = e->type == EVENT_LOST || e->type == EVENT_REVOKE_REQUESTED;
    return interest->level == SERVICE_WANTS_ALL || (is_for_session && !id_is_zero(e->session));
}

static void on_event(void *ctx, const struct event *event)
{
    struct node *n = ctx;
    uint8_t bytes[EVENT_BYTES_MAX];
    size_t len = 0;
    counts_tier_event(n->counts, event);
    node_events_add(n, event);
    node_note_event(n, event);
    service_on_event(n->service, event);
    for (uint32_t i = 0; i < n->interest_count; i++) {
        if (is_wanted(n, &n->interests[i], event)) {
            len =
                len != 0 ? len : event_encode(event, core_version(replica_core(n->replica)), bytes);
            hf_assert(len > 0);
            (void)peers_notify(n->peers, n->interests[i].peer, FORWARD_EVENT,
                               slice_make(bytes, len));
        }
    }
}

void node_open_tier(struct node *n)
{
    struct memory_tier_options options = {.memory = n->options.memory,
                                          .ctx = n,
                                          .replicated = replicated,
                                          .on_result = on_result,
                                          .on_again = on_again,
                                          .now = node_tier_now,
                                          .on_event = on_event,
                                          .propose = propose};
    n->tier = memory_tier_new(&options);
    node_open_redis(n);
}

void node_follow_tier(struct node *n)
{
    struct replica_status status;
    if (n->replica == NULL || n->service == NULL) {
        return;
    }
    replica_status(n->replica, node_now(n), &status);
    if (!status.serving) {
        memory_tier_end(n->tier);
    } else if (!memory_tier_is_on(n->tier) || n->tier_term != status.term) {
        n->tier_term = status.term;
        memory_tier_begin(n->tier, n->self.cluster.high ^ n->self.cluster.low);
    }
}

/* Every member gets the events of its waiting clients, and subscribes to others. */
void node_tier_members(struct node *n)
{
    struct node_interest old[LIMIT_NODES];
    uint32_t old_count = n->interest_count;
    memcpy(old, n->interests, sizeof(old[0]) * old_count);
    n->interest_count = 0;
    for (uint32_t i = 0; i < n->absence_count; i++) {
        struct node_interest *interest = &n->interests[n->interest_count++];
        *interest = (struct node_interest){.peer = n->absences[i].id};
        for (uint32_t j = 0; j < old_count; j++) {
            if (old[j].peer == interest->peer) {
                *interest = old[j];
            }
        }
    }
}

void node_on_interest(void *ctx, uint64_t peer, uint64_t link, uint8_t level)
{
    struct node *n = ctx;
    for (uint32_t i = 0; i < n->interest_count; i++) {
        if (n->interests[i].peer == peer) {
            n->interests[i].link = link;
            n->interests[i].level = (enum service_wants)level;
        }
    }
}

bool node_on_peer_event(void *ctx, uint64_t peer, struct slice body)
{
    struct node *n = ctx;
    struct event event;
    if (!event_decode(body, &event) || event.tier != TIER_EFFICIENCY) {
        return false;
    }
    if (peer == n->leader) {
        forward_note_leader_ms(n->forward, event.at_ms);
        service_on_event(n->service, &event);
    }
    return true;
}

void node_tier_link(struct node *n, uint64_t peer, bool is_up)
{
    if (n->interest_leader == peer) {
        n->interest_leader = 0;
    }
    if (!is_up && n->service != NULL && peer == n->leader) {
        service_leader_lost(n->service);
    }
}

/* Again after a new leader or a new connection. */
static void send_interest(struct node *n)
{
    enum service_wants wants = service_wants(n->service);
    if (n->leader == 0 || n->leader == n->options.id ||
        (n->interest_leader == n->leader && n->interest_level == wants) ||
        (n->interest_leader != n->leader && wants == SERVICE_WANTS_NOTHING)) {
        return;
    }
    uint8_t level = (uint8_t)wants;
    if (peers_request(n->peers, n->leader, 0, FORWARD_INTEREST, slice_make(&level, 1))) {
        n->interest_leader = n->leader;
        n->interest_level = wants;
    }
}

void node_step_tier(struct node *n, struct replica_time now)
{
    send_interest(n);
    if (memory_tier_is_on(n->tier)) {
        struct tier_time time = {.cluster_ms = replica_cluster_ms(n->replica, now),
                                 .wall_ms = now.wall_ms,
                                 .majority = replica_has_majority(n->replica, now)};
        memory_tier_run(n->tier, time);
    }
    if (n->redis != NULL) {
        redis_tier_run(n->redis);
    }
}

uint64_t node_tier_next_us(struct node *n)
{
    enum { RETRY_US = 10000 };
    uint64_t due_ms = memory_tier_next_ms(n->tier);
    uint64_t redis_ms = n->redis == NULL ? UINT64_MAX : redis_tier_next_ms(n->redis);
    uint64_t redis_us = redis_ms >= UINT64_MAX / 1000 ? UINT64_MAX : redis_ms * 1000;
    if (due_ms == UINT64_MAX) {
        return redis_us;
    }
    struct replica_time now = node_now(n);
    uint64_t at_us = replica_when_us(n->replica, due_ms);
    bool is_stuck = at_us <= now.boot_us && !replica_has_majority(n->replica, now);
    at_us = is_stuck ? now.boot_us + RETRY_US : at_us;
    return at_us < redis_us ? at_us : redis_us;
}

void node_tier_gone(struct node *n, const struct command *gone, struct replica_time now)
{
    struct tier_time time = {.cluster_ms = replica_cluster_ms(n->replica, now),
                             .wall_ms = now.wall_ms,
                             .majority = replica_has_majority(n->replica, now)};
    (void)memory_tier_submit(n->tier, TIER_CORRECTNESS, gone, forward_no_cookie(), time);
}

const struct core *node_memory_core(void *ctx)
{
    struct node *n = ctx;
    return memory_tier_core(n->tier);
}
