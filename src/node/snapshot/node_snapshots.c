/* Snapshots for clients (service/gateway.h). */
#include "node/node_state.h"

void node_snapshot_open(void *ctx, struct gateway_snapshot_call *call)
{
    struct node *n = ctx;
    struct replica_status status;
    replica_status(n->replica, node_now(n), &status);
    /* A barrier may complete while the entry that it waited for is being applied. */
    uint64_t shown = core_index(replica_core(n->replica));
    snapshot_give_open(&n->gives, shown > status.applied_index ? shown : status.applied_index,
                       call);
}

bool node_snapshot_read(void *ctx, struct gateway_snapshot_call *call, uint64_t offset, void *to,
                        size_t len)
{
    (void)ctx;
    return snapshot_give_read(call, offset, to, len);
}

void node_snapshot_close(void *ctx, struct gateway_snapshot_call *call)
{
    (void)ctx;
    snapshot_give_close(call);
}

/* A snapshot in progress may be too old. So this runs again whenever none is. */
void node_step_snapshots(struct node *n, struct replica_time now)
{
    struct replica_status status;
    if (list_is_empty(&n->gives.waiting)) {
        return;
    }
    replica_status(n->replica, now, &status);
    if (!snapshot_gives_step(&n->gives, status.snapshot_index) ||
        snapshot_fetch_is_busy(n->fetch)) {
        return;
    }
    if (snapshot_child_has_failed(n->child)) {
        snapshot_gives_fail(&n->gives, "this node cannot write a snapshot now; its log has the "
                                       "reason; try another node");
    } else if (!snapshot_child_is_busy(n->child)) {
        replica_want_snapshot(n->replica, now);
    }
}
