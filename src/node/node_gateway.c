/* The callbacks of the service into the node (service/gateway.h). */
#include "node/node_state.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

enum { HEALTHY_MS = 500 };

static void submit(void *ctx, const struct command *command, struct gateway_call *call)
{
    struct node *n = ctx;
    forward_submit(n->forward, command, call);
}

static void barrier(void *ctx, struct gateway_call *call)
{
    struct node *n = ctx;
    forward_barrier(n->forward, call);
}

static const struct core *state(void *ctx)
{
    struct node *n = ctx;
    return replica_core(n->replica);
}

static bool is_settled(void *ctx)
{
    struct node *n = ctx;
    return !replica_is_in_flight(n->replica);
}

bool node_is_serving(const struct node *n)
{
    struct replica_status status;
    struct peer_view view;
    if (n->replica == NULL || !n->first_done) {
        return false;
    }
    replica_status(n->replica, (struct replica_time){0, 0},
                   &status); /* no field that needs the time is used */
    if (status.is_leader) {
        return status.serving;
    }
    return status.leader != 0 && peers_view(n->peers, status.leader, &view) && view.reachable;
}

static const char *client_address(const struct node *n, uint64_t id)
{
    struct peer_view view;
    if (id == n->options.id) {
        return n->self.client_address;
    }
    return id != 0 && peers_view(n->peers, id, &view) ? view.client_address : "";
}

static uint64_t newest_epoch(const struct node *n)
{
    uint64_t applied = core_epoch(replica_core(n->replica));
    uint64_t heard = forward_epoch(n->forward);
    return heard > applied ? heard : applied;
}

static void fill_status(void *ctx, struct gateway_status *out)
{
    struct node *n = ctx;
    struct replica_status status;
    replica_status(n->replica, (struct replica_time){0, 0},
                   &status); /* no field that needs the time is used */
    *out = (struct gateway_status){
        .cluster = n->self.cluster,
        .node = n->options.id,
        .leader = status.leader,
        .leader_client_address = client_address(n, status.leader),
        .term = status.term,
        .epoch = newest_epoch(n),
        .state_bytes = node_state_bytes(n),
        .state_max = n->admission.max,
        .serving = node_is_serving(n),
        .members_change = status.members_change,
        .disk_free = n->disk_use.free_bytes,
        .disk_total = n->disk_use.total_bytes,
        .append_us = n->disk_use.append_us,
        .disk_full = n->disk_full,
        .state_version = core_version(replica_core(n->replica)),
    };
    if (n->self.is_certified) {
        out->certificate_until_s = (uint64_t)n->certificate.until_s;
        out->ca_until_s = (uint64_t)n->certificate.ca_until_s;
    }
    node_redis_status(n, out);
}

/* One system call. uv_random makes one for every 16 ids. */
static void draw(struct node *n)
{
    size_t got = 0;
    while (got < sizeof(n->random)) {
        ssize_t len = getrandom(n->random + got, sizeof(n->random) - got, 0);
        hf_assert(len > 0 || errno == EINTR); /* without randomness ids would be predictable */
        got += len > 0 ? (size_t)len : 0;
    }
    n->random_left = sizeof(n->random);
}

static struct id random_id(void *ctx)
{
    struct node *n = ctx;
    struct id id;
    do {
        if (n->random_left < sizeof(id)) {
            draw(n);
        }
        n->random_left -= (uint32_t)sizeof(id);
        memcpy(&id, n->random + n->random_left, sizeof(id));
    } while (id_is_zero(id));
    return id;
}

static uint64_t wall_ms(void *ctx)
{
    return node_now(ctx).wall_ms;
}

static uint64_t boot_ms(void *ctx)
{
    return node_awake_ms(ctx);
}

static uint64_t cluster_ms(void *ctx)
{
    struct node *n = ctx;
    uint64_t here_ms = replica_cluster_ms(n->replica, node_now(n));
    uint64_t received_ms = forward_leader_ms(n->forward);
    return received_ms > here_ms ? received_ms : here_ms;
}

static void fill_member(struct node *n, const struct replica_member *member,
                        const struct replica_status *status, struct gateway_member *out)
{
    struct peer_view view = {.silent_ms = UINT64_MAX};
    bool self = member->id == n->options.id;
    bool known = !self && peers_view(n->peers, member->id, &view);
    *out = (struct gateway_member){
        .id = member->id,
        .peer_address = member->address,
        .client_address = client_address(n, member->id),
        .voter = member->voter,
        .healthy = self || (known && view.reachable && view.silent_ms <= HEALTHY_MS),
        .lag = UINT64_MAX,
        .state_version = self ? n->self.state : view.state,
    };
    if (self) {
        out->lag = status->is_leader ? 0 : UINT64_MAX;
    } else if (status->is_leader) {
        uint64_t match = replica_match_index(n->replica, member->id);
        out->lag = status->last_index > match ? status->last_index - match : 0;
    }
}

static uint32_t members(void *ctx, struct gateway_member *out, uint32_t max)
{
    struct node *n = ctx;
    struct replica_status status;
    replica_status(n->replica, node_now(n), &status);
    uint32_t count = replica_members(n->replica, n->member_scratch, LIMIT_NODES);
    count = count < max ? count : max;
    for (uint32_t i = 0; i < count; i++) {
        fill_member(n, &n->member_scratch[i], &status, &out[i]);
    }
    return count;
}

static void change_member(void *ctx, enum gateway_change change, uint64_t id, const char *address,
                          struct gateway_change_call *call)
{
    struct node *n = ctx;
    forward_change(n->forward, change, id, address, call);
}

uint32_t node_members(struct node *n, struct gateway_member *out, uint32_t max)
{
    return members(n, out, max);
}

struct gateway node_gateway(struct node *n)
{
    return (struct gateway){
        .ctx = n,
        .submit = submit,
        .barrier = barrier,
        .is_settled = is_settled,
        .core = state,
        .memory_core = node_memory_core,
        .status = fill_status,
        .random_id = random_id,
        .wall_ms = wall_ms,
        .boot_ms = boot_ms,
        .cluster_ms = cluster_ms,
        .members = members,
        .change_member = change_member,
        .snapshot_open = node_snapshot_open,
        .snapshot_read = node_snapshot_read,
        .snapshot_close = node_snapshot_close,
        .events = node_events_view,
        .scan_events = node_scan_events,
        .scan_cancel = node_scan_cancel,
        .note_setting = node_note_setting,
        .note_member = node_note_member,
    };
}
