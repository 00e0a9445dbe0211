/* The messages of calls, encoded once, when the session is known: a retry with the same id must
 * have the same body (S8.1). A withdrawal is encoded again, under its id. */
#include "client/engine.h"
#include "client/proto.h"

#define LOCK_SERVICE "/holdfast.v1.LockService/"
#define ADMIN_SERVICE "/holdfast.v1.AdminService/"
#define ELECTION_SERVICE "/holdfast.v1.ElectionService/"

const char *request_path(const struct client_call *call)
{
    switch (call->kind) {
    case CALL_ACQUIRE:
        if (call->lock->is_election) {
            return ELECTION_SERVICE "Campaign";
        }
        return call->lock->count > 1 ? LOCK_SERVICE "MultiLock" : LOCK_SERVICE "Lock";
    case CALL_RELEASE:
        return LOCK_SERVICE "Unlock"; /* also resigns from an election */
    case CALL_RENEW:
        return LOCK_SERVICE "Renew";
    case CALL_PROCLAIM:
        return ELECTION_SERVICE "Proclaim";
    case CALL_OBSERVE:
        return ELECTION_SERVICE "Observe";
    case CALL_CLUSTER:
        return ADMIN_SERVICE "Cluster";
    case CALL_READY:
    default:
        hf_panic(__FILE__, __LINE__, "a call that sends no request has no path");
    }
}

static void pack(struct client_call *call, const ProtobufCMessage *message)
{
    call->body = proto_pack(message, &call->body_len);
}

static Holdfast__V1__Mode mode_of(enum hf_mode mode)
{
    switch (mode) {
    case HF_SHARED:
        return HOLDFAST__V1__MODE__SHARED;
    case HF_SEMAPHORE:
        return HOLDFAST__V1__MODE__SEMAPHORE;
    case HF_EXCLUSIVE:
    default:
        return HOLDFAST__V1__MODE__EXCLUSIVE;
    }
}

static Holdfast__V1__Tier tier_of(enum hf_tier tier)
{
    return tier == HF_EFFICIENCY ? HOLDFAST__V1__TIER__EFFICIENCY : HOLDFAST__V1__TIER__CORRECTNESS;
}

/* The times of an acquire; NULL: the default. */
struct times {
    Duration ttl_value;
    Duration wait_value;
    Duration delay_value;
    Duration *ttl;
    Duration *wait;
    Duration *delay;
    Duration hold_value;
    Duration *hold;
};

static void times_of(const struct hf_lock *lock, struct times *t)
{
    t->ttl_value = duration_of(lock->options.ttl_ms);
    t->wait_value = duration_of(lock->options.wait_ms);
    t->delay_value = duration_of(lock->options.lock_delay_ms);
    t->hold_value = duration_of(lock->options.max_hold_ms);
    t->hold = lock->options.max_hold_ms == 0 ? NULL : &t->hold_value;
    t->ttl = lock->options.ttl_ms == 0 ? NULL : &t->ttl_value;
    t->wait = lock->options.wait_ms == 0 ? NULL : &t->wait_value;
    t->delay = lock->options.lock_delay_ms == 0 ? NULL : &t->delay_value;
}

static void encode_campaign(struct client_call *call, const struct times *t)
{
    struct hf_lock *lock = call->lock;
    Holdfast__V1__CampaignRequest m = HOLDFAST__V1__CAMPAIGN_REQUEST__INIT;
    m.name = lock->names[0];
    m.value = lock->value;
    m.session_id = call->client_engine->session.id;
    m.ttl = t->ttl;
    m.wait_timeout = t->wait;
    m.owner = lock->owner;
    m.metadata = lock->metadata;
    m.trace = lock->trace;
    m.lock_delay = t->delay;
    m.max_hold = t->hold;
    m.request_id = call->request_id;
    m.cancel = call->is_withdrawn;
    pack(call, &m.base);
}

static void encode_multi(struct client_call *call, const struct times *t)
{
    struct hf_lock *lock = call->lock;
    Holdfast__V1__MultiLockRequest m = HOLDFAST__V1__MULTI_LOCK_REQUEST__INIT;
    m.n_resource_ids = lock->count;
    m.resource_ids = lock->names;
    m.session_id = call->client_engine->session.id;
    m.ttl = t->ttl;
    m.wait_timeout = t->wait;
    m.tier = tier_of(lock->options.tier);
    m.owner = lock->owner;
    m.metadata = lock->metadata;
    m.trace = lock->trace;
    m.lock_delay = t->delay;
    m.max_hold = t->hold;
    m.detect_deadlock = lock->options.detect_deadlock;
    m.request_id = call->request_id;
    m.cancel = call->is_withdrawn;
    pack(call, &m.base);
}

static void encode_lock(struct client_call *call, const struct times *t)
{
    struct hf_lock *lock = call->lock;
    Holdfast__V1__LockRequest m = HOLDFAST__V1__LOCK_REQUEST__INIT;
    m.session_id = call->client_engine->session.id;
    m.resource_id = lock->names[0];
    m.ttl = t->ttl;
    m.wait_timeout = t->wait;
    m.tier = tier_of(lock->options.tier);
    m.owner = lock->owner;
    m.mode = mode_of(lock->options.mode);
    if (lock->options.mode == HF_SEMAPHORE) {
        m.limit = lock->options.limit;
        m.permits = lock->options.permits;
    }
    m.metadata = lock->metadata;
    m.trace = lock->trace;
    m.lock_delay = t->delay;
    m.max_hold = t->hold;
    m.detect_deadlock = lock->options.detect_deadlock;
    m.request_id = call->request_id;
    m.cancel = call->is_withdrawn;
    pack(call, &m.base);
}

static void encode_release(struct client_call *call)
{
    const struct hf_lock *lock = call->lock;
    Holdfast__V1__UnlockRequest m = HOLDFAST__V1__UNLOCK_REQUEST__INIT;
    if (lock != NULL) {
        m.session_id = call->client_engine->session.id;
        m.resource_id = lock->count > 1 ? proto_text("") : lock->names[0];
        m.fence_token = lock->token;
        m.request_id = call->request_id;
    } else {
        /* An exported handle: the token makes it idempotent. */
        m.fence_token = call->token;
        m.lease_id = call->lease;
    }
    pack(call, &m.base);
}

static void encode_renew(struct client_call *call)
{
    const struct hf_lock *lock = call->lock;
    Holdfast__V1__RenewRequest m = HOLDFAST__V1__RENEW_REQUEST__INIT;
    Duration ttl = duration_of(call->ttl_ms);
    if (lock != NULL) {
        m.session_id = call->client_engine->session.id;
        m.resource_id = lock->count > 1 ? proto_text("") : lock->names[0];
        m.fence_token = lock->token;
    } else {
        m.fence_token = call->token;
        m.lease_id = call->lease;
    }
    m.ttl = call->ttl_ms == 0 ? NULL : &ttl;
    pack(call, &m.base);
}

static void encode_proclaim(struct client_call *call)
{
    Holdfast__V1__ProclaimRequest m = HOLDFAST__V1__PROCLAIM_REQUEST__INIT;
    m.name = call->lock->names[0];
    m.value = call->value;
    m.epoch = call->lock->token;
    m.session_id = call->client_engine->session.id;
    m.request_id = call->request_id;
    pack(call, &m.base);
}

void request_encode(struct client_call *call)
{
    struct times times;
    if (call->request_id[0] == '\0') {
        client_engine_next_id(call->client_engine, call->request_id);
    }
    switch (call->kind) {
    case CALL_ACQUIRE:
        times_of(call->lock, &times);
        if (call->lock->is_election) {
            encode_campaign(call, &times);
        } else if (call->lock->count > 1) {
            encode_multi(call, &times);
        } else {
            encode_lock(call, &times);
        }
        break;
    case CALL_RELEASE:
        encode_release(call);
        break;
    case CALL_RENEW:
        encode_renew(call);
        break;
    case CALL_PROCLAIM:
        encode_proclaim(call);
        break;
    case CALL_OBSERVE: {
        Holdfast__V1__LeaderRequest m = HOLDFAST__V1__LEADER_REQUEST__INIT;
        m.name = call->name;
        pack(call, &m.base);
        break;
    }
    case CALL_CLUSTER: {
        Holdfast__V1__ClusterRequest m = HOLDFAST__V1__CLUSTER_REQUEST__INIT;
        pack(call, &m.base);
        break;
    }
    case CALL_READY:
    default:
        hf_panic(__FILE__, __LINE__, "a call that sends no request has no message");
    }
}
