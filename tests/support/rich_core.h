/* A core with one of everything, for tests of snapshots and invariants and for the corpora of the
 * fuzzers. */
#ifndef HOLDFAST_TESTS_SUPPORT_RICH_CORE_H
#define HOLDFAST_TESTS_SUPPORT_RICH_CORE_H

#include "core_harness.h"

struct rich {
    struct core *core;
    uint64_t index;
    uint64_t now_ms;
    struct result result; /* of the last command */
};

static inline struct id rich_session(uint64_t i)
{
    return (struct id){UINT64_C(0x5e551017) << 32 | i, 1};
}

static inline struct id rich_lease(uint64_t i)
{
    return (struct id){UINT64_C(0x1ea5e) << 40 | i, 2};
}

#define RICH_TRACE(parent) "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba90" parent "-01"

/* Begins an entry so much later. */
static inline void rich_pass(struct rich *r, uint64_t ms)
{
    r->now_ms += ms;
    core_begin(r->core, ++r->index, r->now_ms, UINT64_C(1700000000000) + r->now_ms);
}

static inline const struct result *rich_apply(struct rich *r, const struct command *cmd)
{
    core_apply(r->core, cmd, &r->result);
    return &r->result;
}

static inline void rich_open(struct rich *r, uint64_t session, const char *client, uint32_t ttl_ms)
{
    struct command c;
    command_init(&c, COMMAND_SESSION_OPEN);
    c.session_open.id = rich_session(session);
    c.session_open.client = slice_of(client);
    c.session_open.ttl_ms = ttl_ms;
    c.session_open.linger_ms = session % 2 == 0 ? 500 : 0;
    c.session_open.metadata = slice_of(session % 2 == 0 ? "{\"pid\":1}" : "");
    rich_apply(r, &c);
}

/* An acquire of one name; the caller changes what it wants otherwise. Session 0 is none. */
static inline struct command rich_acquire_command(uint64_t session, uint64_t lease,
                                                  const char *name)
{
    struct command c;
    command_init(&c, COMMAND_ACQUIRE);
    c.session = session == 0 ? (struct id){0, 0} : rich_session(session);
    c.acquire.lease = rich_lease(lease);
    c.acquire.node = 1 + (uint32_t)(lease % 3);
    c.acquire.client = slice_of("worker");
    c.acquire.owner = slice_of("main");
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = slice_of(name);
    c.acquire.ttl_ms = session == 0 ? 30000 : 0;
    c.acquire.wait_ms = 20000;
    return c;
}

static inline void rich_add_name(struct command *c, const char *name)
{
    c->acquire.names.at[c->acquire.names.count++] = slice_of(name);
}

static inline void rich_acquire(struct rich *r, uint64_t session, uint64_t lease, const char *name)
{
    struct command c = rich_acquire_command(session, lease, name);
    rich_apply(r, &c);
}

static inline void rich_release(struct rich *r, uint64_t lease)
{
    struct command c;
    command_init(&c, COMMAND_RELEASE);
    c.release.lease = rich_lease(lease);
    rich_apply(r, &c);
}

static inline void rich_operate(struct rich *r, bool force, const char *name)
{
    struct command c;
    command_init(&c, force ? COMMAND_FORCE_UNLOCK : COMMAND_REVOKE);
    if (force) {
        c.force_unlock.name = slice_of(name);
        c.force_unlock.actor = slice_of("ann");
        c.force_unlock.reason = slice_of("stuck");
    } else {
        c.revoke.name = slice_of(name);
        c.revoke.actor = slice_of("bob");
        c.revoke.reason = slice_of("maintenance");
        c.revoke.grace_ms = 4000;
    }
    rich_apply(r, &c);
}

static inline void rich_fence(struct rich *r, const char *name, uint64_t token)
{
    struct command c;
    command_init(&c, COMMAND_FENCE_CHECK);
    c.request_id = slice_of(token % 2 == 0 ? "fence-once" : "");
    c.fence_check.resource = slice_of(name);
    c.fence_check.token = token;
    rich_apply(r, &c);
}

static inline void rich_simple(struct rich *r, enum command_type type, uint64_t session)
{
    struct command c;
    command_init(&c, type);
    c.session = session == 0 ? (struct id){0, 0} : rich_session(session);
    rich_apply(r, &c);
}

/* Sessions, and grants of all kinds. */
static inline void rich_grants(struct rich *r)
{
    rich_simple(r, COMMAND_LEAD, 0);
    for (uint64_t i = 1; i <= 5; i++) {
        rich_open(r, i, i == 3 ? "batch" : "web", 60000);
    }
    rich_simple(r, COMMAND_STREAM_UP, 2);

    struct command c = rich_acquire_command(1, 1, "plain");
    c.acquire.delay_ms = 3000;
    c.acquire.metadata = slice_of("{\"why\":\"backup\"}");
    c.acquire.trace = slice_of(RICH_TRACE("2b7"));
    rich_apply(r, &c);
    c = rich_acquire_command(1, 2, "own-ttl");
    c.acquire.ttl_ms = 9000;
    c.seq = 1;
    rich_apply(r, &c);
    c = rich_acquire_command(1, 3, "reentered");
    c.acquire.flags = ACQUIRE_REENTRANT;
    rich_apply(r, &c);
    c.acquire.lease = rich_lease(4);
    c.request_id = slice_of("again");
    rich_apply(r, &c);
    for (uint64_t i = 1; i <= 3; i++) {
        c = rich_acquire_command(4 - i, 10 + i, "shared/one");
        c.acquire.mode = MODE_SHARED;
        c.seq = i + 1;
        rich_apply(r, &c);
        c = rich_acquire_command(i, 20 + i, "pool");
        c.acquire.mode = MODE_SEMAPHORE;
        c.acquire.limit = 7;
        c.acquire.permits = (uint32_t)i;
        rich_apply(r, &c);
    }
    rich_release(r, 21); /* leaves slot 0 free */
    c = rich_acquire_command(2, 30, "leader");
    c.acquire.mode = MODE_ELECTION;
    c.acquire.value = slice_of("10.0.0.1:80");
    c.request_id = slice_of("campaign");
    rich_apply(r, &c);
    c = rich_acquire_command(3, 31, "multi/b");
    rich_add_name(&c, "multi/a");
    rich_add_name(&c, "multi/c");
    c.acquire.trace = slice_of(RICH_TRACE("2b8"));
    rich_apply(r, &c);
    c = rich_acquire_command(0, 32, "alone");
    c.acquire.delay_ms = 60000;
    c.request_id = slice_of("private-1");
    rich_apply(r, &c);
    c = rich_acquire_command(0, 33, "alone");
    c.tenant = 7;
    rich_apply(r, &c);
}

/* Queues, in all states of attachment. */
static inline void rich_waiters(struct rich *r)
{
    for (uint64_t i = 0; i < 6; i++) {
        struct command c = rich_acquire_command(i % 3 == 0 ? 4 : 0, 40 + i, "plain");
        c.acquire.wait_ms = i == 5 ? WAIT_FOREVER : 20000 + i;
        c.acquire.owner = slice_of(i < 3 ? "main" : "other");
        c.request_id = i == 1 ? slice_of("wait-1") : c.request_id;
        c.acquire.metadata = slice_of(i == 2 ? "{}" : "");
        c.acquire.trace = slice_of(i == 4 ? RICH_TRACE("2b9") : "");
        if (i == 3) {
            c.seq = 9;
            c.acked_through = 2;
        }
        rich_apply(r, &c);
    }
    struct command c = rich_acquire_command(0, 50, "plain");
    rich_add_name(&c, "multi/c");
    rich_add_name(&c, "free");
    rich_apply(r, &c);
    c = rich_acquire_command(5, 51, "pool");
    c.acquire.mode = MODE_SEMAPHORE;
    c.acquire.limit = 7;
    c.acquire.permits = 6;
    rich_apply(r, &c);
    c = rich_acquire_command(5, 52, "leader");
    c.acquire.mode = MODE_ELECTION;
    c.acquire.value = slice_of("10.0.0.2:80");
    rich_apply(r, &c);
    c = rich_acquire_command(0, 41, "plain"); /* comes back, on another node */
    c.request_id = slice_of("wait-1");
    c.acquire.wait_ms = 20001;
    c.acquire.node = 9;
    rich_apply(r, &c);
    struct command away;
    command_init(&away, COMMAND_DETACH);
    away.detach.lease = rich_lease(41);
    away.detach.attachment = r->result.attachment;
    rich_apply(r, &away);
    command_init(&away, COMMAND_NODE_GONE);
    away.node_gone.node = 3;
    rich_apply(r, &away);
}

/* Ends, delays, marks, records. */
static inline void rich_past(struct rich *r)
{
    rich_pass(r, 1000);
    struct command renew;
    command_init(&renew, COMMAND_RENEW);
    renew.renew.lease = rich_lease(2);
    rich_apply(r, &renew);
    renew.renew.lease = rich_lease(32);
    renew.renew.ttl_ms = 45000;
    rich_apply(r, &renew);
    struct command alive;
    uint8_t packed[32];
    command_init(&alive, COMMAND_KEEPALIVE);
    for (unsigned i = 0; i < 2; i++) {
        struct id id = rich_session(1 + i);
        memcpy(packed + i * 16, &id.high, 8);
        memcpy(packed + i * 16 + 8, &id.low, 8);
    }
    alive.keepalive.sessions = (struct ids){2, packed};
    rich_apply(r, &alive);
    rich_operate(r, false, "shared/one");
    rich_operate(r, false, "multi/c");
    struct command c = rich_acquire_command(0, 60, "delayed");
    c.acquire.delay_ms = 50000;
    c.acquire.trace = slice_of(RICH_TRACE("2ba"));
    rich_apply(r, &c);
    rich_operate(r, true, "delayed"); /* free, and yet nobody gets it */
    c.acquire.lease = rich_lease(61);
    rich_apply(r, &c);
    c = rich_acquire_command(0, 62, "delayed-unused");
    c.acquire.delay_ms = 50000;
    c.acquire.mode = MODE_SEMAPHORE;
    c.acquire.limit = 3;
    c.acquire.permits = 1;
    rich_apply(r, &c);
    rich_operate(r, true, "delayed-unused");
    rich_acquire(r, 5, 70, "contended");
    rich_acquire(r, 4, 71, "contended");
    rich_release(r, 70); /* 71 has it now, and nobody waits any more */
    rich_fence(r, "disk/1", 5000);
    rich_fence(r, "disk/2", 4001);
    rich_fence(r, "disk/1", 4999);
    c = rich_acquire_command(1, 72,
                             "was-shared"); /* free, delayed, and still shows how it was held */
    c.acquire.mode = MODE_SHARED;
    c.acquire.delay_ms = 50000;
    rich_apply(r, &c);
    rich_acquire(r, 2, 73, "was-shared");
    rich_operate(r, true, "was-shared");
    rich_open(r, 6, "gone", 100);
    rich_open(r, 7, "closed", 1000);
    rich_acquire(r, 6, 80, "lost");
    rich_simple(r, COMMAND_SESSION_CLOSE, 7);
    rich_pass(r, 400);
    rich_open(r, 8, "lingers", 60000);
    rich_simple(r, COMMAND_STREAM_UP, 8);
    struct command down;
    command_init(&down, COMMAND_STREAM_DOWN);
    down.session = rich_session(8);
    down.stream_down.stream = r->result.attachment;
    rich_apply(r, &down);
}

/* One effect by itself, without a check. */
static inline void rich_effect(struct rich *r, uint64_t id, struct effect effect)
{
    uint8_t bytes[1024];
    struct packer effects = packer_make(bytes, sizeof(bytes));
    struct command c;
    hf_assert(pack_effect(&effects, &effect));
    command_init(&c, COMMAND_TRANSACT);
    c.transact.id = rich_lease(500 + id);
    c.transact.client = slice_of("resp/10.0.0.7");
    c.transact.actor = slice_of("resp/10.0.0.7");
    c.transact.reason = slice_of("DEL");
    c.transact.effects = packer_list(&effects);
    rich_apply(r, &c);
}

static inline struct effect rich_put(uint64_t lease, const char *name, struct slice value)
{
    return (struct effect){.kind = EFFECT_PUT,
                           .name = slice_of(name),
                           .value = value,
                           .lease = rich_lease(lease),
                           .ttl_ms = 40000};
}

/* Keys of the Redis protocol, and counters. */
static inline void rich_keys(struct rich *r)
{
    for (uint64_t i = 0; i < 2; i++) { /* the second waits */
        struct command c = rich_acquire_command(0, 90 + i, "key/string");
        c.acquire.flags = ACQUIRE_KEY;
        c.acquire.value = slice_make("\0\xff", 2);
        rich_apply(r, &c);
    }
    struct effect hash = rich_put(92, "key/hash", slice_of("field=1"));
    hash.flags = EFFECT_HASH;
    rich_effect(r, 1, hash);
    hash.value = slice_of("field=2");
    rich_effect(r, 2, hash);
    rich_effect(r, 3, rich_put(93, "key/empty", slice_of("")));
    rich_effect(r, 4, rich_put(94, "multi/a", slice_of("x"))); /* refused: another's */
    rich_effect(r, 5, rich_put(95, "key/gone", slice_of("x")));
    rich_effect(r, 6, (struct effect){.kind = EFFECT_DROP, .name = slice_of("key/gone")});
    rich_effect(r, 7,
                (struct effect){.kind = EFFECT_COUNTER, .name = slice_of("n/one"), .number = -5});
    rich_effect(
        r, 8,
        (struct effect){.kind = EFFECT_COUNTER, .name = slice_of("n/two"), .number = INT64_MAX});
    rich_effect(r, 9,
                (struct effect){.kind = EFFECT_COUNTER, .name = slice_of("n/one"), .number = -4});
    rich_effect(r, 10,
                (struct effect){.kind = EFFECT_COUNTER,
                                .flags = EFFECT_TTL,
                                .name = slice_of("n/window"),
                                .number = 3,
                                .ttl_ms = 60000});
}

#define RICH_DRAWN "node-00000000000000000000000000000001"

/* Requests that were done before and after the memories of version 4 were made. */
static inline void rich_once(struct rich *r)
{
    struct command c;
    for (unsigned i = 0; i < 2; i++) {
        command_init(&c, COMMAND_FENCE_CHECK);
        c.request_id = slice_of(i == 0 ? RICH_DRAWN : "lease-00000000000000000000000000000002");
        c.fence_check.resource = slice_of("disk/3");
        c.fence_check.token = 7 + i;
        rich_apply(r, &c);
        command_init(&c, COMMAND_REVOKE);
        c.request_id = slice_of(i == 0 ? "revoke-1" : "revoke-2");
        c.revoke.name = slice_of("nothing");
        c.revoke.actor = slice_of("op");
        c.revoke.reason = slice_of("why");
        rich_apply(r, &c);
        command_init(&c, COMMAND_UPGRADE);
        c.upgrade.version = CORE_VERSION;
        rich_apply(r, &c);
    }
    command_init(&c, COMMAND_FENCE_RESET);
    c.request_id = slice_of("reset-1");
    c.fence_reset.resource = slice_of("disk/3");
    c.fence_reset.token = 5;
    c.fence_reset.actor = slice_of("op");
    c.fence_reset.reason = slice_of("why");
    rich_apply(r, &c);
}

/* One principal, with a grant. */
static inline void rich_add_principal(struct packer *changes, const char *tenant, const char *name,
                                      struct policy_grant grant)
{
    static uint8_t bytes[256]; /* until it is packed */
    struct packer grants = packer_make(bytes, sizeof(bytes));
    hf_assert(pack_policy_grant(&grants, &grant));
    hf_assert(pack_policy_change(changes, &(struct policy_change){.kind = POLICY_PRINCIPAL_PUT,
                                                                  .tenant = slice_of(tenant),
                                                                  .name = slice_of(name),
                                                                  .description = slice_of("rich"),
                                                                  .grants = packer_list(&grants)}));
}

static inline void rich_change_policy(struct rich *r, struct packer *changes, bool ends)
{
    struct command c;
    command_init(&c, COMMAND_POLICY_CHANGE);
    c.policy_change.expect = UINT64_MAX;
    c.policy_change.actor = slice_of("op");
    c.policy_change.reason = slice_of("why");
    c.policy_change.end_sessions = ends;
    c.policy_change.changes = packer_list(changes);
    rich_apply(r, &c);
    hf_assert(r->result.error == HF_OK);
}

/* The policy; what principals own; what a removed one leaves. */
static inline void rich_policy(struct rich *r)
{
    uint8_t bytes[4096];
    struct packer changes = packer_make(bytes, sizeof(bytes));
    struct policy_change change = {
        .kind = POLICY_TENANT_PUT, .tenant = slice_of("pay"), .quotas = {.locks = 9}};
    hf_assert(pack_policy_change(&changes, &change));
    rich_add_principal(&changes, "default", "root",
                       (struct policy_grant){slice_of("*"), slice_of(""), RIGHTS_ALL});
    rich_add_principal(&changes, "pay", "worker",
                       (struct policy_grant){slice_of("pay"), slice_of("jobs/"), RIGHT_LOCK});
    rich_add_principal(&changes, "pay", "fired",
                       (struct policy_grant){slice_of("pay"), slice_of(""), RIGHT_LOCK});
    for (unsigned i = 0; i < 3; i++) {
        change = (struct policy_change){.kind = POLICY_TOKEN_ADD,
                                        .tenant = slice_of("pay"),
                                        .name = slice_of(i == 1 ? "fired" : "worker"),
                                        .sha256 =
                                            slice_of(i == 0   ? "an sha256 of 32 bytes, well, no."
                                                     : i == 1 ? "it is 32 bytes in the middle xxx"
                                                              : "above: the order differs here! y"),
                                        .expires_wall_ms = i * UINT64_C(1900000000000)};
        hf_assert(pack_policy_change(&changes, &change));
    }
    change = (struct policy_change){.kind = POLICY_SERIAL_BAR, .serial = slice_of("abc")};
    hf_assert(pack_policy_change(&changes, &change));
    rich_change_policy(r, &changes, false);
    for (uint32_t principal = 2; principal <= 3; principal++) {
        struct command c = rich_acquire_command(0, 600 + principal, "jobs/1");
        c.tenant = 1;
        c.principal = principal;
        c.request_id = slice_of("of-a-principal"); /* the same for both */
        rich_apply(r, &c);
        hf_assert(r->result.error == HF_OK);
        command_init(&c, COMMAND_SESSION_OPEN);
        c.tenant = 1;
        c.principal = principal;
        c.session_open.id = rich_session(600 + principal);
        c.session_open.client = slice_of("worker");
        c.session_open.ttl_ms = 50000;
        rich_apply(r, &c);
        command_init(&c, COMMAND_FENCE_CHECK);
        c.tenant = 1;
        c.principal = principal;
        c.request_id = slice_of("of-a-principal");
        c.fence_check.resource = slice_of("jobs/disk");
        c.fence_check.token = 1000 + principal;
        rich_apply(r, &c);
        hf_assert(r->result.error == HF_OK);
    }
    changes = packer_make(bytes, sizeof(bytes));
    change = (struct policy_change){
        .kind = POLICY_PRINCIPAL_REMOVE, .tenant = slice_of("pay"), .name = slice_of("fired")};
    hf_assert(pack_policy_change(&changes, &change));
    rich_change_policy(r, &changes, true); /* the next entry ends its sessions */
}

static inline void rich_rule(struct rich *r, uint32_t tenant, const char *prefix, uint64_t held_ms)
{
    struct command c;
    command_init(&c, COMMAND_ALERT_SET);
    c.tenant = tenant;
    c.alert_set.prefix = slice_of(prefix);
    c.alert_set.held_ms = held_ms;
    c.alert_set.actor = slice_of("op");
    c.alert_set.reason = slice_of("why");
    rich_apply(r, &c);
    hf_assert(r->result.error == HF_OK);
}

static inline void rich_report(struct rich *r, uint32_t tenant, const char *name, uint64_t token)
{
    struct command c;
    command_init(&c, COMMAND_LONG_HELD);
    c.tenant = tenant;
    c.long_held.name = slice_of(name);
    c.long_held.token = token;
    rich_apply(r, &c);
    hf_assert(r->result.count == 1);
}

static inline void rich_sink(struct rich *r, const char *name, uint64_t index, uint32_t ordinal)
{
    struct command c;
    command_init(&c, COMMAND_SINK_POSITION);
    c.sink_position.name = slice_of(name);
    c.sink_position.index = index;
    c.sink_position.ordinal = ordinal;
    rich_apply(r, &c);
}

/* Steps of the wall clock; rules, and grants past them; max_hold, held and waited for; sinks (S16). */
static inline void rich_times(struct rich *r)
{
    rich_pass(r, 1);
    r->now_ms++;
    core_begin(r->core, ++r->index, r->now_ms, UINT64_C(1700000005000) + r->now_ms);
    rich_rule(r, 0, "long/", 1000);
    rich_rule(r, 0, "", 5000);
    rich_rule(r, 1, "jobs/1", 1000);
    rich_open(r, 700, "stuck", 60000);
    struct command c = rich_acquire_command(700, 700, "long/1");
    c.acquire.max_hold_ms = 40000;
    rich_apply(r, &c);
    uint64_t single = r->result.token;
    c = rich_acquire_command(700, 701, "long/2");
    rich_add_name(&c, "long/3");
    c.acquire.max_hold_ms = 50000;
    rich_apply(r, &c);
    uint64_t several = r->result.token;
    c = rich_acquire_command(0, 702, "long/4");
    c.acquire.max_hold_ms = 20000;
    rich_apply(r, &c);
    c = rich_acquire_command(0, 703, "long/4");
    c.acquire.max_hold_ms = 30000;
    rich_apply(r, &c);
    hf_assert(r->result.outcome == OUTCOME_QUEUED);
    rich_pass(r, 1500);
    rich_report(r, 0, "long/1", single);
    rich_report(r, 0, "long/3", several); /* and not its first part */
    rich_sink(r, "kafka", 40, 2);
    rich_sink(r, "file", 41, 0);
    rich_sink(r, "kafka", 42, 1);
}

/* Keys without an owner, and without a TTL (S13.1, S13.9). */
static inline void rich_values(struct rich *r)
{
    struct effect value = rich_put(96, "value/lasting", slice_of("1"));
    value.flags = EFFECT_VALUE;
    value.ttl_ms = TTL_NONE;
    rich_effect(r, 20, value);
    hf_assert(r->result.outcome == OUTCOME_DONE);
    static const uint32_t types[] = {EFFECT_HASH, EFFECT_LIST, EFFECT_SORTED_SET, EFFECT_SET};
    static const char *const names[] = {"value/hash", "value/list", "value/sorted_set",
                                        "value/set"};
    for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        value = rich_put(97 + i, names[i], slice_of("any bytes"));
        value.flags = EFFECT_VALUE | types[i];
        rich_effect(r, 21 + i, value);
        hf_assert(r->result.outcome == OUTCOME_DONE);
    }
}

/* The core has everything but work that was left over; see rich_overflow. */
static inline struct rich rich_new(const struct core_options *options)
{
    struct core_options newest = *options;
    newest.version = 3;
    struct rich r = {.core = core_new(&newest), .now_ms = 1000000};
    rich_pass(&r, 0);
    rich_once(&r);
    rich_grants(&r);
    rich_waiters(&r);
    rich_past(&r);
    rich_keys(&r);
    rich_policy(&r);
    rich_times(&r);
    rich_values(&r);
    return r;
}

/* More than one command or sweep may do: names left woken, many left to be visited, a backlog.
 */
static inline void rich_overflow(struct rich *r)
{
    char name[32];
    rich_open(r, 100, "hoarder", 86400000);
    for (uint64_t i = 0; i < LIMIT_WAKE_STEPS + 500; i++) {
        (void)snprintf(name, sizeof(name), "hoard/%06u", (unsigned)i);
        rich_acquire(r, 100, 100000 + i, name);
        rich_acquire(r, 0, 200000 + i, name);
        struct command c = rich_acquire_command(0, 400000 + i, "plain");
        c.acquire.node = 20;
        c.acquire.wait_ms = WAIT_FOREVER;
        rich_apply(r, &c);
    }
    for (uint64_t i = 0; i < LIMIT_SWEEP_LOCKS + 300; i++) {
        (void)snprintf(name, sizeof(name), "brief/%06u", (unsigned)i);
        struct command c = rich_acquire_command(0, 300000 + i, name);
        c.acquire.ttl_ms = 100;
        rich_apply(r, &c);
    }
    rich_pass(r, 150);                          /* leaves a backlog */
    rich_simple(r, COMMAND_SESSION_CLOSE, 100); /* leaves names woken */
    struct command gone;
    command_init(&gone, COMMAND_NODE_GONE);
    gone.node_gone.node = 20;
    rich_apply(r, &gone); /* leaves many to be visited */
}

#endif
