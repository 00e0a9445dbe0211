/* Start and stop of a node. */
#include "node/node.h"

#include <stdio.h>
#include <unistd.h>

#include "node/node_state.h"
#include "storage/disk_posix.h"

enum {
    HAND_OVER_US = 2000000, /* longest duration of each phase */
    DRAIN_US = 3000000,
};

void node_fail(struct node *n, const char *text)
{
    n->options.on_failed(n->options.ctx, text);
}

void node_set_term(struct node *n, uint64_t term)
{
    if (n->term != term) {
        n->term = term;
        n->options.journal->set_term(n->options.journal->ctx, term);
    }
}

static void on_first_done(struct gateway_call *call, enum hf_error error,
                          const struct result *result)
{
    (void)result;
    struct node *n = call->owner;
    hf_assert(error == HF_OK); /* this call never times out */
    n->first_done = true;
}

/* The clients of the previous run lost their connections. Detaches their waiters (S7.3) before new
 * clients can wait. */
static void detach_earlier_life(struct node *n)
{
    struct command gone;
    command_init(&gone, COMMAND_NODE_GONE);
    gone.node_gone.node = (uint32_t)n->options.id;
    n->first = (struct gateway_call){.done = on_first_done, .owner = n, .is_own = true};
    forward_submit_first(n->forward, &gone, &n->first);
}

/* Starts without the Redis port if that is only the default and in use. */
static bool open_resp(struct node *n, char problem[NODE_PROBLEM])
{
    const struct node_options *o = &n->options;
    struct client_listener_options listener = {.protocol = CLIENT_RESP,
                                               .net = &n->net,
                                               .service = n->service,
                                               .journal = o->journal,
                                               .listen = o->resp,
                                               .clients = n->clients,
                                               .refusals = n->refusals,
                                               .tls = &n->tls.resp};
    if (o->resp_is_off) {
        return true;
    }
    n->resp = client_listener_new(&listener, problem, NODE_PROBLEM);
    if (n->resp == NULL && !o->resp_is_configured) {
        journal_note(o->journal, WARN, NODE, "resp_not_served", JOURNAL_TEXT("reason", problem),
                     JOURNAL_TEXT("next", "set --resp to a free address, or to off"));
        return true;
    }
    return n->resp != NULL;
}

bool node_start_serving(struct node *n, char problem[NODE_PROBLEM])
{
    const struct node_options *o = &n->options;
    if (!node_start_replica(n, problem)) {
        return false;
    }
    forward_connect(n->forward, n->replica, n->peers);
    struct snapshot_fetch_options fetch = {
        .net = &n->net,
        .journal = o->journal,
        .self = &n->self,
        .peers = n->peers,
        .store = &n->store,
        .logger = n->logger,
        .core = {.memory = o->memory, .hash_key = n->self.cluster.high ^ n->self.cluster.low},
        .election_ms = o->election_ms,
        .ctx = n,
        .on_fetched = node_on_fetched,
        .on_abandoned = node_on_abandoned,
        .on_failed = node_on_disk_failed};
    n->fetch = snapshot_fetch_new(&fetch);
    struct service_options service = {.memory = o->memory,
                                      .program_version = o->program_version,
                                      .gateway = node_gateway(n),
                                      .ttl_min_ms = o->ttl_min_ms,
                                      .resp_ttl_min_ms = o->resp_ttl_min_ms,
                                      .resp_ttl_max_ms = o->resp_ttl_max_ms,
                                      .resp_value_max = o->resp_value_max,
                                      .conn_bytes = o->connection_bytes,
                                      .resp_tier = o->resp_tier,
                                      .resp_del_refused = o->resp_del_refused,
                                      .resp_ping_serving = o->resp_ping_serving,
                                      .server_names = o->server_names,
                                      .auth = o->auth,
                                      .asset = o->asset,
                                      .page = o->page,
                                      .page_ctx = o->ctx,
                                      .log = {.ctx = o->journal->ctx,
                                              .each = o->journal->each_level,
                                              .set = o->journal->set_levels}};
    snprintf(service.resp_password, sizeof(service.resp_password), "%s",
             o->resp_password != NULL ? o->resp_password : "");
    n->service = service_new(&service);
    struct client_listener_options listener = {.net = &n->net,
                                               .service = n->service,
                                               .journal = o->journal,
                                               .listen = o->client,
                                               .clients = n->clients,
                                               .refusals = n->refusals,
                                               .tls = &n->tls.http};
    n->http = client_listener_new(&listener, problem, NODE_PROBLEM);
    if (n->http == NULL || !open_resp(n, problem)) {
        return false;
    }
    n->phase = NODE_RUNNING;
    n->changed = true;
    n->admin_gateway = node_gateway(n);
    if (n->admin != NULL) {
        admin_socket_serve(n->admin, &n->admin_gateway);
    }
    detach_earlier_life(n);
    return true;
}

static void name_addresses(struct node *n)
{
    const struct node_options *o = &n->options;
    struct address known = o->peer;
    for (uint32_t i = 0; i < o->member_count; i++) {
        if (o->members[i].id == o->id) {
            known = o->members[i].address;
            address_format(&known, n->self.peer_address, sizeof(n->self.peer_address));
        }
    }
    address_format(&known, n->address_text, sizeof(n->address_text));
    snprintf(n->self.cluster_name, sizeof(n->self.cluster_name), "%s", o->cluster_name);
    if (o->client_advertised[0] != '\0') {
        snprintf(n->self.client_address, sizeof(n->self.client_address), "%s",
                 o->client_advertised);
    } else {
        address_format(&o->client, n->self.client_address, sizeof(n->self.client_address));
    }
}

static void abandon(struct node *n);

struct node *node_new(const struct node_options *options, char problem[NODE_PROBLEM])
{
    struct node *n = memory_alloc(options->memory, sizeof(*n));
    memset(n, 0, sizeof(*n));
    n->options = *options;
    n->counts = memory_alloc(options->memory, sizeof(*n->counts));
    memset(n->counts, 0, sizeof(*n->counts));
    n->counts->hot = hot_new(options->memory, node_boot_us());
    n->oldest.found.since_ms = UINT64_MAX;
    n->oldest.scanned.since_ms = UINT64_MAX;
    n->timer_fd = -1;
    n->descriptors.open = descriptors_open();
    n->lock_lines = lock_lines_new(options->memory, options->journal);
    n->started_us = n->stall.turn_us = node_now(n).boot_us;
    name_addresses(n);
    if (!node_open_tls(n, problem) || !node_open_secret(n, problem) ||
        !node_open_clients(n, problem) || !node_open_sinks(n, problem) ||
        !node_open_store(n, problem) || !node_open_timer(n, problem)) {
        node_free(n);
        return NULL;
    }
    net_init(&n->net, options->loop, options->memory);
    n->net.on_turn = node_on_turn;
    n->net.on_sleep = node_on_sleep;
    n->net.turn_ctx = n;
    n->net.on_accept_paused = node_on_accept_paused;
    uv_idle_init(options->loop, &n->awake);
    node_open_disk_users(n);
    n->net_open = true;
    if (!node_open_peers(n, problem) || !node_open_admin(n, problem) ||
        (!id_is_zero(n->self.cluster) && !node_start_serving(n, problem))) {
        abandon(n);
        return NULL;
    }
    return n;
}

static void enter(struct node *n, enum node_phase phase, uint64_t now_us)
{
    n->phase = phase;
    n->phase_us = now_us;
}

static bool is_any_reachable(const struct node *n)
{
    for (uint32_t i = 0; i < n->absence_count; i++) {
        struct peer_view view;
        if (peers_view(n->peers, n->absences[i].id, &view) && view.reachable) {
            return true;
        }
    }
    return false;
}

void node_stop(struct node *n)
{
    if (n->phase > NODE_RUNNING) {
        return;
    }
    journal_note(n->options.journal, INFO, NODE, "stopping",
                 JOURNAL_NUMBER("outstanding", forward_outstanding(n->forward)));
    if (n->replica != NULL) {
        struct replica_status status;
        replica_status(n->replica, node_now(n), &status);
        if (status.is_leader && is_any_reachable(n)) {
            node_transfer(n, 0);
        }
    }
    enter(n, n->replica != NULL ? NODE_HANDING_OVER : NODE_DRAINING, node_now(n).boot_us);
}

static void on_closed(uv_handle_t *handle)
{
    struct node *n = handle->data;
    close(n->timer_fd);
    n->timer_fd = -1;
    n->phase = NODE_STOPPED;
    n->options.on_stopped(n->options.ctx);
}

static void close_all(struct node *n)
{
    net_flush(&n->net);
    net_abort_all(&n->net, "the node stops");
    if (n->peers != NULL) {
        peers_close(n->peers);
    }
    admin_socket_close(n->admin);
    node_close_redis(n);
    node_stop_events(n);
    if (n->fetch != NULL) {
        snapshot_fetch_stop(n->fetch);
    }
    snapshot_child_stop(n->child);
    node_close_disk(n);
    logger_stop(n->logger);
    uv_close((uv_handle_t *)&n->awake, NULL);
    n->timer.data = n;
    uv_close((uv_handle_t *)&n->timer, on_closed);
}

static void shut_listeners(struct node *n)
{
    if (n->http != NULL) {
        client_listener_shut(n->http);
    }
    if (n->resp != NULL) {
        client_listener_shut(n->resp);
    }
}

static uint32_t count_clients(const struct node *n)
{
    return (n->http != NULL ? client_listener_clients(n->http) : 0) +
           (n->resp != NULL ? client_listener_clients(n->resp) : 0);
}

void node_step_stop(struct node *n, struct replica_time now)
{
    uint64_t since_us = now.boot_us - n->phase_us;
    if (n->phase == NODE_HANDING_OVER && (!n->transferring || since_us > HAND_OVER_US)) {
        service_drain(n->service);
        shut_listeners(n);
        enter(n, NODE_DRAINING, now.boot_us);
    } else if (n->phase == NODE_DRAINING && (count_clients(n) == 0 || since_us > DRAIN_US)) {
        enter(n, NODE_CLOSING, now.boot_us);
        close_all(n);
    }
}

static void ignore_stopped(void *ctx)
{
    (void)ctx;
}

/* The start failed. Nothing else uses the loop yet. */
static void abandon(struct node *n)
{
    n->phase = NODE_CLOSING;
    n->options.on_stopped = ignore_stopped;
    shut_listeners(n);
    close_all(n);
    uv_run(n->options.loop, UV_RUN_DEFAULT);
    node_free(n);
}

void node_free(struct node *n)
{
    if (n == NULL) {
        return;
    }
    const struct memory *memory = n->options.memory;
    node_close_sinks(n);
    if (n->net_open) {
        net_close(&n->net);
        uv_run(n->options.loop, UV_RUN_DEFAULT);
        replica_free(n->replica);
        forward_free(n->forward);
        quota_book_free(n->admission.quotas);
        memory_tier_free(n->tier);
        service_free(n->service);
        node_close_events(n);
        admin_socket_free(n->admin);
        client_listener_free(n->http);
        client_listener_free(n->resp);
        snapshot_fetch_free(n->fetch);
        snapshot_child_free(n->child);
        peers_free(n->peers);
        logger_free(n->logger);
    }
    if (n->store_open) {
        store_close(&n->store);
    }
    if (n->disk != NULL) {
        disk_posix_free(n->disk);
    }
    node_close_clients(n);
    node_close_tls(n);
    node_close_secret(n);
    lock_lines_free(n->lock_lines);
    hot_free(n->counts->hot);
    memory_free(memory, n->counts, sizeof(*n->counts));
    memory_free(memory, n, sizeof(*n));
}

uint16_t node_client_port(const struct node *n)
{
    return n->http != NULL ? client_listener_port(n->http) : 0;
}

uint16_t node_resp_port(const struct node *n)
{
    return n->resp != NULL ? client_listener_port(n->resp) : 0;
}

uint16_t node_peer_port(const struct node *n)
{
    return peers_port(n->peers);
}
