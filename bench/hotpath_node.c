/* The node of hotpath_node.h. The order of a turn is that of node/node_turn.c. */
#include "hotpath_node.h"

#include "append_directly.h"
#include "core/policy.h"
#include "disk_fake.h"
#include "node/counts/counts.h"
#include "node/forward/forward.h"
#include "replica/memory_tier.h"
#include "storage/store.h"
#include "tls/digest.h"

enum {
    ID = 1,
    STATE_MAX = 1 << 30,
    CACHE_BYTES = 32 << 20,
    TURN_US = 2000, /* longer than a batch waits for further clients */
};

static struct {
    struct disk_fake *disk;
    struct store store;
    struct replica *replica;
    struct forward *forward;
    struct memory_tier *tier;
    struct service *service;
    struct admission admission;
    struct node_counts counts;
    uint64_t boot_us;
    uint64_t written; /* last entry that was written and not reported; 0: none */
    uint64_t drawn;
} node;

static struct replica_time now(void *ctx)
{
    (void)ctx;
    return (struct replica_time){.boot_us = node.boot_us, .wall_ms = node.boot_us / 1000};
}

static uint64_t now_ms(void *ctx)
{
    (void)ctx;
    return node.boot_us / 1000;
}

static struct tier_time tier_now(void *ctx)
{
    struct replica_time time = now(ctx);
    return (struct tier_time){.cluster_ms = replica_cluster_ms(node.replica, time),
                              .wall_ms = time.wall_ms,
                              .majority = replica_has_majority(node.replica, time)};
}

/* ---- ports of the replica ---- */

static void save_vote(void *ctx, uint64_t term, uint64_t vote)
{
    (void)ctx;
    struct problem problem;
    enum storage_status status = meta_save_vote(&node.store.meta, term, vote, &problem);
    hf_assert(status == STORAGE_OK);
}

static void write_entries(void *ctx, uint64_t first, const struct replica_entry *entries,
                          uint32_t count)
{
    (void)ctx;
    enum { MOST = 16 };
    struct log_entry copies[MOST];
    struct problem problem;
    hf_assert(count <= MOST);
    for (uint32_t i = 0; i < count; i++) {
        copies[i] = (struct log_entry){entries[i].term, entries[i].type, entries[i].bytes};
    }
    enum storage_status status = append_directly(node.store.log, first, copies, count, &problem);
    hf_assert(status == STORAGE_OK);
    node.written = first + count - 1;
}

static void on_result(void *ctx, void *cookie, enum replica_outcome outcome,
                      const struct command *command, const struct result *result)
{
    (void)ctx;
    hf_assert(outcome == REPLICA_DONE);
    memory_tier_on_replicated(node.tier, command, result);
    forward_on_result(node.forward, cookie, outcome, result);
}

static void on_barrier(void *ctx, void *cookie, bool reached)
{
    (void)ctx;
    forward_on_barrier(node.forward, cookie, reached);
}

static void on_entry(void *ctx, const struct replica_applying *entry)
{
    (void)ctx;
    if (entry != NULL) {
        counts_begin_entry(&node.counts, entry, node.boot_us);
    } else {
        counts_end_entry(&node.counts, node.boot_us);
    }
}

static void on_event(void *ctx, const struct event *event)
{
    (void)ctx;
    counts_event(&node.counts, event);
    memory_tier_on_event(node.tier, event);
    if (node.service != NULL) { /* the replica starts before the service */
        service_on_event(node.service, event);
    }
}

/* A lone node with a large cache calls none of the next four. */

static bool read_entry(void *ctx, uint64_t index, struct replica_entry *out)
{
    (void)ctx;
    (void)index;
    (void)out;
    hf_panic(__FILE__, __LINE__, "an entry is not in the cache");
}

static void send_message(void *ctx, uint64_t peer, struct slice message)
{
    (void)ctx;
    (void)peer;
    (void)message;
    hf_panic(__FILE__, __LINE__, "there is no peer");
}

static void take_snapshot(void *ctx, const struct core *core, const struct replica_snapshot *about)
{
    (void)ctx;
    (void)core;
    (void)about;
    hf_panic(__FILE__, __LINE__, "no snapshot is due");
}

static void fetch_snapshot(void *ctx, uint64_t peer, const struct replica_snapshot *about)
{
    (void)ctx;
    (void)peer;
    (void)about;
    hf_panic(__FILE__, __LINE__, "there is no peer");
}

static void on_change(void *ctx)
{
    struct replica_status status;
    if (node.replica == NULL) {
        return;
    }
    replica_status(node.replica, now(ctx), &status);
    if (status.serving && !memory_tier_is_on(node.tier)) {
        memory_tier_begin(node.tier, ID);
    }
    forward_on_change(node.forward);
}

/* ---- callbacks of the tier EFFICIENCY ---- */

static const struct core *replicated(void *ctx)
{
    (void)ctx;
    return replica_core(node.replica);
}

static void on_tier_result(void *ctx, void *cookie, const struct result *result)
{
    (void)ctx;
    forward_on_tier_result(node.forward, cookie, result);
}

static void on_again(void *ctx, void *cookie)
{
    (void)ctx;
    forward_on_result(node.forward, cookie, REPLICA_NOT_DONE, NULL);
}

static void on_tier_event(void *ctx, const struct event *event)
{
    (void)ctx;
    counts_tier_event(&node.counts, event);
    service_on_event(node.service, event);
}

static bool propose(void *ctx, const struct command *command)
{
    return replica_submit(node.replica, command, forward_no_cookie(), now(ctx)) == HF_OK;
}

/* ---- gateway of the service ---- */

static void submit(void *ctx, const struct command *command, struct gateway_call *call)
{
    (void)ctx;
    forward_submit(node.forward, command, call);
}

static void barrier(void *ctx, struct gateway_call *call)
{
    (void)ctx;
    forward_barrier(node.forward, call);
}

static bool is_settled(void *ctx)
{
    (void)ctx;
    return !replica_is_in_flight(node.replica);
}

static const struct core *memory_core(void *ctx)
{
    (void)ctx;
    return memory_tier_core(node.tier);
}

static void fill_status(void *ctx, struct gateway_status *out)
{
    (void)ctx;
    *out = (struct gateway_status){.node = ID,
                                   .leader = ID,
                                   .leader_client_address = "127.0.0.1:4653",
                                   .epoch = core_epoch(replica_core(node.replica)),
                                   .serving = true};
}

static void fill_events(void *ctx, struct gateway_events *out)
{
    (void)ctx;
    *out = (struct gateway_events){.is_kept = false};
}

static struct id random_id(void *ctx)
{
    (void)ctx;
    node.drawn++;
    return (struct id){node.drawn, node.drawn * UINT64_C(0x9e3779b97f4a7c15)};
}

static uint64_t cluster_ms(void *ctx)
{
    return replica_cluster_ms(node.replica, now(ctx));
}

/* ---- open, run, close ---- */

static void open_store(void)
{
    node.disk = disk_fake_new(1);
    struct store_options options = {
        .node = ID, .cluster = {1, 1}, .new_store = {1, 2}, .direct = true};
    struct problem problem;
    enum storage_status status =
        store_open(&node.store, disk_fake_disk(node.disk), &options, &problem);
    hf_assert(status == STORAGE_OK);
}

static void open_replica(void)
{
    uint8_t bytes[256];
    struct replica_member self = {ID, "127.0.0.1:4654", true};
    struct replica_entry first = {.term = 1, .type = REPLICA_MEMBERS};
    first.bytes = slice_make(bytes, replica_bootstrap_entry(&self, 1, bytes, sizeof(bytes)));
    save_vote(NULL, 1, 0);
    write_entries(NULL, 1, &first, 1);
    node.written = 0;
    struct replica_options options = {
        .memory = memory_system(),
        .id = ID,
        .address = self.address,
        .election_ms = 300,
        .heartbeat_ms = 50,
        .snapshot_bytes = UINT64_MAX / 2,
        .cache_bytes = CACHE_BYTES,
        .ports = {.save_vote = save_vote,
                  .write = write_entries,
                  .read = read_entry,
                  .send = send_message,
                  .take_snapshot = take_snapshot,
                  .fetch_snapshot = fetch_snapshot,
                  .on_result = on_result,
                  .on_event = on_event,
                  .on_barrier = on_barrier,
                  .on_entry = on_entry,
                  .on_change = on_change},
    };
    struct replica_start start = {.term = 1, .first = 1, .count = 1, .entries = &first};
    const char *problem = "";
    node.replica = replica_new(&options, &start, now(NULL), &problem);
    hf_assert(node.replica != NULL);
}

static void open_service(bool has_auth)
{
    struct service_options options = {.memory = memory_system(),
                                      .auth = has_auth,
                                      .gateway = {.submit = submit,
                                                  .barrier = barrier,
                                                  .is_settled = is_settled,
                                                  .core = replicated,
                                                  .memory_core = memory_core,
                                                  .status = fill_status,
                                                  .events = fill_events,
                                                  .random_id = random_id,
                                                  .wall_ms = now_ms,
                                                  .boot_ms = now_ms,
                                                  .cluster_ms = cluster_ms}};
    node.service = service_new(&options);
}

static void turn(void)
{
    node.boot_us += TURN_US;
    if (service_has_transactions(node.service)) {
        service_transact(node.service);
    }
    forward_run(node.forward);
    if (node.boot_us >= replica_next_us(node.replica)) {
        replica_on_timer(node.replica, now(NULL));
    }
    forward_run(node.forward);
    service_run(node.service);
    memory_tier_run(node.tier, tier_now(NULL));
    forward_run(node.forward);
    replica_flush(node.replica, now(NULL));
    if (replica_is_answering(node.replica)) {
        replica_answers_left(node.replica, now(NULL));
    }
    if (node.written != 0) {
        uint64_t last = node.written;
        node.written = 0;
        replica_written(node.replica, last, now(NULL));
    }
}

static void on_policy(struct gateway_call *call, enum hf_error error, const struct result *result)
{
    (void)call;
    hf_assert(error == HF_OK && result->error == HF_OK);
}

static void put_policy(const char *secret)
{
    uint8_t bytes[512], grants[128], sha256[DIGEST_SIZE];
    struct packer changes = packer_make(bytes, sizeof(bytes));
    struct packer list = packer_make(grants, sizeof(grants));
    struct policy_grant grant = {slice_of("default"), slice_of("bench/"), RIGHT_LOCK};
    struct policy_change principal = {
        .kind = POLICY_PRINCIPAL_PUT, .tenant = slice_of("default"), .name = slice_of("bench")};
    struct policy_change token = {
        .kind = POLICY_TOKEN_ADD, .tenant = slice_of("default"), .name = slice_of("bench")};
    struct command c;
    static struct gateway_call call = {.done = on_policy, .is_own = true};
    digest_sha256(slice_of(secret), sha256);
    token.sha256 = slice_make(sha256, sizeof(sha256));
    hf_assert(pack_policy_grant(&list, &grant));
    principal.grants = packer_list(&list);
    hf_assert(pack_policy_change(&changes, &principal) && pack_policy_change(&changes, &token));
    command_init(&c, COMMAND_POLICY_CHANGE);
    c.policy_change.expect = UINT64_MAX;
    c.policy_change.actor = c.policy_change.reason = slice_of("hotpath");
    c.policy_change.changes = packer_list(&changes);
    forward_submit(node.forward, &c, &call);
    hotpath_node_run();
}

void hotpath_node_open(const char *secret)
{
    bool has_auth = secret[0] != '\0';
    node.boot_us = 1000000;
    node.admission.max = STATE_MAX;
    open_store();
    struct memory_tier_options tier = {.memory = memory_system(),
                                       .replicated = replicated,
                                       .on_result = on_tier_result,
                                       .on_again = on_again,
                                       .now = tier_now,
                                       .on_event = on_tier_event,
                                       .propose = propose};
    node.tier = memory_tier_new(&tier);
    struct forward_options forward = {.memory = memory_system(),
                                      .node = ID,
                                      .auth = has_auth,
                                      .give_up_ms = 60000,
                                      .now = now,
                                      .boot_ms = now_ms,
                                      .admission = &node.admission,
                                      .tier = node.tier,
                                      .counts = &node.counts,
                                      .memory_core = memory_core};
    node.counts.hot = hot_new(memory_system(), ID);
    hot_reset(node.counts.hot, node.boot_us, node.boot_us / 1000);
    node.forward = forward_new(&forward);
    open_replica();
    forward_connect(node.forward, node.replica, NULL);
    open_service(has_auth);
    struct replica_status status = {.serving = false};
    while (!status.serving || core_version(replica_core(node.replica)) < CORE_VERSION) {
        turn();
        replica_status(node.replica, now(NULL), &status);
    }
    if (has_auth) {
        put_policy(secret);
    }
}

struct service *hotpath_node_service(void)
{
    return node.service;
}

void hotpath_node_run(void)
{
    do {
        turn();
    } while (forward_outstanding(node.forward) > 0 || service_has_transactions(node.service));
    service_run(node.service);
}

void hotpath_node_close(void)
{
    service_free(node.service);
    replica_free(node.replica);
    forward_free(node.forward);
    hot_free(node.counts.hot);
    memory_tier_free(node.tier);
    store_close(&node.store);
    disk_fake_free(node.disk);
}
