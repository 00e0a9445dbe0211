/* Opens the modules around the replica, and routes their callbacks. */
#include "node/node_state.h"

static void on_written(void *ctx, uint64_t last)
{
    struct node *n = ctx;
    if (n->replica != NULL) {
        replica_written(n->replica, last, node_now(n));
    }
}

static void on_full(void *ctx, bool full, const char *text)
{
    struct node *n = ctx;
    if (full) {
        journal_note(n->options.journal, ERROR, DISK, "disk_full", JOURNAL_TEXT("reason", text));
    } else {
        journal_note(n->options.journal, INFO, DISK, "disk_has_room",
                     JOURNAL_TEXT("data", n->options.data));
    }
    n->disk_full = full;
    forward_set_read_only(n->forward, full, n->absence_count == 0);
}

void node_on_disk_failed(void *ctx, const char *text)
{
    node_fail(ctx, text);
}

static void follow_size(struct node *n, uint64_t bytes)
{
    n->snapshot_size = bytes;
    replica_set_snapshot_bytes(
        n->replica, snapshot_trigger_bytes(n->options.snapshot_bytes, bytes, n->options.id));
}

static void on_snapshot_taken(void *ctx, uint64_t index, uint64_t bytes)
{
    struct node *n = ctx;
    follow_size(n, bytes);
    n->counts->snapshots_taken++;
    replica_snapshot_taken(n->replica, index, node_now(n));
}

static void on_snapshot_failed(void *ctx)
{
    struct node *n = ctx;
    n->counts->snapshots_failed++;
    replica_snapshot_failed(n->replica, node_now(n));
}

void node_on_fetched(void *ctx, struct core *core, uint64_t bytes)
{
    struct node *n = ctx;
    follow_size(n, bytes);
    node_events_replaced(n, core);
    n->counts->snapshots_installed++;
    replica_snapshot_installed(n->replica, core, node_now(n));
    n->drop_before = replica_log_start(n->replica);
    service_state_replaced(n->service);
}

void node_on_abandoned(void *ctx)
{
    struct node *n = ctx;
    replica_snapshot_abandoned(n->replica, node_now(n));
}

static const char *on_message(void *ctx, uint64_t peer, struct slice message)
{
    struct node *n = ctx;
    if (n->replica == NULL || replica_receive(n->replica, peer, message, node_now(n))) {
        return NULL;
    }
    return replica_refusal(n->replica);
}

static bool on_request(void *ctx, uint64_t peer, uint64_t link, uint64_t number, uint8_t kind,
                       struct slice body)
{
    struct node *n = ctx;
    if (n->replica != NULL && kind == FILL_REQUEST_KIND) {
        return node_on_fill_request(n, peer, link, number, body);
    }
    return n->replica != NULL && forward_on_request(n->forward, peer, link, number, kind, body);
}

static bool on_answer(void *ctx, uint64_t peer, uint64_t number, uint8_t status, struct slice body)
{
    struct node *n = ctx;
    if (n->replica != NULL && (number & FILL_NUMBER) != 0) {
        return node_on_fill_answer(n, peer, number, status, body);
    }
    return n->replica != NULL && forward_on_answer(n->forward, peer, number, status, body);
}

static void on_up(void *ctx, uint64_t peer)
{
    struct node *n = ctx;
    node_tier_link(n, peer, true);
    if (n->forward != NULL) {
        forward_on_change(n->forward);
    }
}

static void on_down(void *ctx, uint64_t peer)
{
    struct node *n = ctx;
    if (n->forward != NULL && n->phase < NODE_CLOSING) {
        node_tier_link(n, peer, false);
        forward_on_down(n->forward, peer);
    }
}

static void on_ended(void *ctx, uint64_t peer)
{
    struct node *n = ctx;
    if (n->replica != NULL && n->phase < NODE_CLOSING) {
        replica_peer_ended(n->replica, peer, node_now(n));
    }
}

static void on_snapshot_link(void *ctx, struct peer_link *link)
{
    struct node *n = ctx;
    snapshot_send(&n->send, link);
}

static struct replica_time now_of(void *ctx)
{
    return node_now(ctx);
}

static uint64_t awake_ms_of(void *ctx)
{
    return node_awake_ms(ctx);
}

void node_open_disk_users(struct node *n)
{
    const struct node_options *o = &n->options;
    struct logger_options logger = {.loop = o->loop,
                                    .store = &n->store,
                                    .memory = o->memory,
                                    .ctx = n,
                                    .on_written = on_written,
                                    .on_full = on_full,
                                    .on_failed = node_on_disk_failed};
    n->logger = logger_new(&logger);
    struct snapshot_child_options child = {.loop = o->loop,
                                           .store = &n->store,
                                           .logger = n->logger,
                                           .memory = o->memory,
                                           .journal = o->journal,
                                           .ctx = n,
                                           .on_taken = on_snapshot_taken,
                                           .on_failed = on_snapshot_failed};
    n->child = snapshot_child_new(&child);
    n->send = (struct snapshot_send_options){
        .memory = o->memory, .journal = o->journal, .store = &n->store, .logger = n->logger};
    struct snapshot_give_options give = {
        .memory = o->memory, .journal = o->journal, .store = &n->store, .logger = n->logger};
    snapshot_gives_init(&n->gives, &give);
    node_open_tier(n);
    n->admission.quotas = o->auth ? quota_book_new(o->memory) : NULL;
    struct forward_options forward = {.memory = o->memory,
                                      .journal = o->journal,
                                      .node = o->id,
                                      .give_up_ms = o->request_ms,
                                      .ctx = n,
                                      .now = now_of,
                                      .boot_ms = awake_ms_of,
                                      .auth = o->auth,
                                      .admission = &n->admission,
                                      .tier = n->tier,
                                      .memory_core = node_memory_core,
                                      .answer_query = node_answer_query,
                                      .counts = n->counts,
                                      .slow_ms = o->slow_ms,
                                      .on_slow = node_on_slow,
                                      .on_interest = node_on_interest,
                                      .on_event = node_on_peer_event,
                                      .change = node_change_member};
    n->forward = forward_new(&forward);
}

bool node_open_admin(struct node *n, char problem[NODE_PROBLEM])
{
    const struct node_options *o = &n->options;
    struct admin_socket_options admin = {
        .loop = o->loop, .memory = o->memory, .journal = o->journal, .data = o->data};
    _Static_assert((int)ADMIN_PROBLEM <= (int)NODE_PROBLEM, "a problem fits");
    if (o->auth) {
        n->admin = admin_socket_new(&admin, problem);
    }
    return !o->auth || n->admin != NULL;
}

static uint32_t state_version(void *ctx)
{
    const struct node *n = ctx;
    return n->replica == NULL ? 0 : core_version(replica_core(n->replica));
}

bool node_open_peers(struct node *n, char problem[NODE_PROBLEM])
{
    struct peers_options options = {.net = &n->net,
                                    .journal = n->options.journal,
                                    .self = &n->self,
                                    .listen = n->options.peer,
                                    .max_incoming = node_peer_connections(n),
                                    .ctx = n,
                                    .on_message = on_message,
                                    .on_request = on_request,
                                    .on_answer = on_answer,
                                    .on_up = on_up,
                                    .on_down = on_down,
                                    .on_ended = on_ended,
                                    .on_snapshot_link = on_snapshot_link,
                                    .admits = node_admits,
                                    .find_store = node_find_store,
                                    .note_store = node_note_store,
                                    .on_introduced = node_on_introduced,
                                    .state_version = state_version,
                                    .on_cluster = node_on_cluster,
                                    .secure = node_secure_peer,
                                    .on_refused = node_note_refusal};
    n->peers = peers_new(&options, problem, NODE_PROBLEM);
    if (n->peers == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < n->options.member_count; i++) {
        const struct node_member *member = &n->options.members[i];
        if (member->id != n->options.id) {
            peers_set(n->peers, member->id, &member->address);
            n->absences[n->absence_count++] = (struct node_absence){member->id, false};
        }
    }
    return true;
}
