/* One command of each type, for tests of the encoding. tests/fixtures/commands-4 has these values:
 * only fields of later versions may be added. */
#ifndef HOLDFAST_TESTS_SUPPORT_EVERY_COMMAND_H
#define HOLDFAST_TESTS_SUPPORT_EVERY_COMMAND_H

#include "core/command.h"

static const struct id filled_id = {7, 8};

/* A transaction with one effect of each kind. */
static inline void fill_transact(struct command *c)
{
    static uint8_t check_bytes[256];
    static uint8_t effect_bytes[1024];
    struct packer checks = packer_make(check_bytes, sizeof(check_bytes));
    struct packer effects = packer_make(effect_bytes, sizeof(effect_bytes));
    c->transact.id = filled_id;
    c->transact.client = slice_of("resp");
    c->transact.actor = slice_of("resp");
    c->transact.reason = slice_of("DEL");
    hf_assert(pack_check(&checks, &(struct key_check){slice_of("a"), {0, 0, 0}}));
    hf_assert(pack_check(&checks, &(struct key_check){slice_of("b"), {2048, 3, UINT64_MAX}}));
    const struct effect all[] = {
        {.kind = EFFECT_PUT,
         .flags = EFFECT_HASH,
         .name = slice_of("a"),
         .value = slice_make("\0\xff", 2),
         .lease = {3, 4},
         .ttl_ms = 30000},
        {.kind = EFFECT_EXPIRE, .name = slice_of("b"), .ttl_ms = 100},
        {.kind = EFFECT_DROP, .name = slice_of("c"), .flags = EFFECT_FORCED | EFFECT_NOW},
        {.kind = EFFECT_COUNTER, .name = slice_of("d"), .number = INT64_MIN},
        {.kind = EFFECT_PUBLISH, .name = slice_of("a//b"), .value = slice_of("0")},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        hf_assert(pack_effect(&effects, &all[i]));
    }
    c->transact.checks = packer_list(&checks);
    c->transact.effects = packer_list(&effects);
}

/* One change of each kind. */
static inline void fill_policy_change(struct command *c)
{
    static uint8_t grant_bytes[256];
    static uint8_t change_bytes[2048];
    struct packer grants = packer_make(grant_bytes, sizeof(grant_bytes));
    struct packer changes = packer_make(change_bytes, sizeof(change_bytes));
    c->policy_change.expect = 17;
    c->policy_change.actor = slice_of("ann");
    c->policy_change.reason = slice_of("new team");
    c->policy_change.end_sessions = 1;
    hf_assert(pack_policy_grant(
        &grants, &(struct policy_grant){slice_of("pay"), slice_of("jobs/"), RIGHT_LOCK}));
    hf_assert(pack_policy_grant(&grants,
                                &(struct policy_grant){slice_of("*"), slice_of(""), RIGHT_READ}));
    const struct policy_change all[] = {
        {.kind = POLICY_TENANT_PUT, .tenant = slice_of("pay"), .quotas = {.locks = 5}},
        {.kind = POLICY_PRINCIPAL_PUT,
         .tenant = slice_of("pay"),
         .name = slice_of("worker"),
         .description = slice_of("of the team"),
         .grants = packer_list(&grants)},
        {.kind = POLICY_TOKEN_ADD,
         .tenant = slice_of("pay"),
         .name = slice_of("worker"),
         .sha256 = slice_of("0123456789abcdef0123456789abcdef"),
         .expires_wall_ms = 1900000000000,
         .description = slice_of("ci")},
        {.kind = POLICY_TOKEN_REMOVE, .token = 3},
        {.kind = POLICY_SERIAL_BAR, .serial = slice_of("1f")},
        {.kind = POLICY_SERIAL_ALLOW, .serial = slice_of("2f")},
        {.kind = POLICY_PRINCIPAL_REMOVE, .tenant = slice_of("pay"), .name = slice_of("old")},
        {.kind = POLICY_TENANT_REMOVE, .tenant = slice_of("gone")},
    };
    _Static_assert(sizeof(all) / sizeof(all[0]) == POLICY_CHANGE_COUNT - 1, "one of each kind");
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        hf_assert(pack_policy_change(&changes, &all[i]));
    }
    c->policy_change.changes = packer_list(&changes);
}

/* Sets fields of a command of this type to values that command_check accepts. */
static inline void fill_command(struct command *c, enum command_type type)
{
    static const uint8_t packed[32] = {1, 2, 3};
    command_init(c, type);
    c->tenant = 5;
    switch (type) {
    case COMMAND_LEAD:
        c->lead.node = 3;
        break;
    case COMMAND_UPGRADE:
        c->upgrade.version = 1;
        break;
    case COMMAND_NOTE:
        c->note.action = 2;
        c->note.name = slice_of("queue/1");
        c->note.actor = slice_of("admin");
        c->note.reason = slice_of("stuck");
        c->note.count = 1;
        break;
    case COMMAND_FENCE_RESET:
        c->fence_reset.resource = slice_of("disk/1");
        c->fence_reset.slot = 3;
        c->fence_reset.token = 5120;
        c->fence_reset.actor = slice_of("admin");
        c->fence_reset.reason = slice_of("made up");
        break;
    case COMMAND_SESSION_OPEN:
        c->request_id = slice_of("open-1");
        c->session_open.id = filled_id;
        c->session_open.client = slice_of("worker");
        c->session_open.ttl_ms = 30000;
        c->session_open.linger_ms = 10;
        c->session_open.metadata = slice_of("{}");
        break;
    case COMMAND_KEEPALIVE:
        c->keepalive.sessions = (struct ids){2, packed};
        break;
    case COMMAND_STREAM_THROUGH:
        c->stream_through.node = 3;
        break;
    case COMMAND_STREAM_DOWN:
        c->stream_down.stream = 99;
        break;
    case COMMAND_ACQUIRE:
        c->seq = 4;
        c->acked_through = 3;
        c->acquire.lease = (struct id){1, UINT64_MAX};
        c->acquire.node = 2;
        c->acquire.client = slice_of("worker");
        c->acquire.owner = slice_of("thread-1");
        c->acquire.names.count = 2;
        c->acquire.names.at[0] = slice_of("b");
        c->acquire.names.at[1] = slice_of("a");
        c->acquire.ttl_ms = 30000;
        c->acquire.wait_ms = WAIT_FOREVER;
        c->acquire.delay_ms = 5;
        c->acquire.flags = ACQUIRE_DETECT_DEADLOCK;
        c->acquire.metadata = slice_of("\"m\"");
        break;
    case COMMAND_CANCEL:
        c->cancel.lease = filled_id;
        c->cancel.attachment = 12;
        break;
    case COMMAND_DETACH:
        c->detach.lease = filled_id;
        c->detach.attachment = 13;
        break;
    case COMMAND_NODE_GONE:
        c->node_gone.node = 4;
        break;
    case COMMAND_RELEASE:
        c->release.name = slice_of("a");
        c->release.client = slice_of("worker");
        c->release.token = 1024;
        break;
    case COMMAND_RENEW:
        c->renew.lease = filled_id;
        c->renew.token = 1024;
        c->renew.ttl_ms = 1000;
        break;
    case COMMAND_PROCLAIM:
        c->proclaim.name = slice_of("a");
        c->proclaim.token = 1024;
        c->proclaim.value = slice_of("host:1");
        break;
    case COMMAND_FORCE_UNLOCK:
        c->force_unlock.name = slice_of("a");
        c->force_unlock.actor = slice_of("oncall");
        c->force_unlock.reason = slice_of("stuck");
        c->force_unlock.now = 1;
        break;
    case COMMAND_REVOKE:
        c->revoke.name = slice_of("a");
        c->revoke.actor = slice_of("oncall");
        c->revoke.reason = slice_of("deploy");
        c->revoke.grace_ms = 1000;
        break;
    case COMMAND_FENCE_CHECK:
        c->fence_check.resource = slice_of("a");
        c->fence_check.slot = 3;
        c->fence_check.token = 2048;
        break;
    case COMMAND_TRANSACT:
        fill_transact(c);
        break;
    case COMMAND_POLICY_CHANGE:
        fill_policy_change(c);
        break;
    case COMMAND_ALERT_SET:
        c->alert_set.prefix = slice_of("jobs/");
        c->alert_set.held_ms = 600000;
        c->alert_set.actor = slice_of("oncall");
        c->alert_set.reason = slice_of("10m");
        break;
    case COMMAND_ALERT_REMOVE:
        c->alert_remove.prefix = slice_of("jobs/");
        c->alert_remove.actor = slice_of("oncall");
        c->alert_remove.reason = slice_of("noise");
        break;
    case COMMAND_LONG_HELD:
        c->long_held.name = slice_of("jobs/1");
        c->long_held.token = 1024;
        break;
    case COMMAND_SINK_POSITION:
        c->sink_position.name = slice_of("kafka");
        c->sink_position.index = 77;
        c->sink_position.ordinal = 3;
        break;
    default:
        break;
    }
    if (type == COMMAND_SESSION_CLOSE || type == COMMAND_STREAM_UP || type == COMMAND_STREAM_DOWN ||
        type == COMMAND_STREAM_THROUGH || type == COMMAND_ACQUIRE) {
        c->session = filled_id;
    }
}

#endif
