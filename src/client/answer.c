/* Interprets answers: the end of a call, a retry, or the loss of the session. */
#include <stdio.h>
#include <stdlib.h>

#include "client/engine.h"
#include "client/proto.h"

enum verdict {
    VERDICT_FAIL,       /* with `error` */
    VERDICT_REFUSED,    /* nothing was done: retry later */
    VERDICT_UNKNOWN,    /* may be done: retry with the same id */
    VERDICT_NO_SESSION, /* it does not exist any more */
};

struct code_row {
    const char *code;
    enum verdict verdict;
    int error;
};

/* Stable codes first: they are more precise than gRPC's statuses. */
static const struct code_row codes[] = {
    {"session_expired", VERDICT_NO_SESSION, HF_ERR_LOST},
    {"session_not_found", VERDICT_NO_SESSION, HF_ERR_LOST},
    {"outcome_unknown", VERDICT_UNKNOWN, HF_ERR_UNKNOWN},
    {"unavailable", VERDICT_REFUSED, HF_ERR_UNREACHABLE},
    {"busy", VERDICT_REFUSED, HF_ERR_UNREACHABLE},
    {"backend_unavailable", VERDICT_REFUSED, HF_ERR_UNREACHABLE},
    {"disk_full", VERDICT_REFUSED, HF_ERR_UNREACHABLE},
    {"wrong_tier", VERDICT_FAIL, HF_ERR_MISMATCH},
};

static enum verdict classify(const struct rpc *rpc, int *error)
{
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (strcmp(rpc->code, codes[i].code) == 0) {
            *error = codes[i].error;
            return codes[i].verdict;
        }
    }
    switch (rpc->status) {
    case GRPC_UNAVAILABLE:
        *error = HF_ERR_UNREACHABLE;
        return VERDICT_REFUSED;
    case GRPC_INVALID_ARGUMENT:
    case GRPC_OUT_OF_RANGE:
        *error = HF_ERR_INVALID;
        return VERDICT_FAIL;
    case GRPC_PERMISSION_DENIED:
    case GRPC_UNAUTHENTICATED:
        *error = HF_ERR_DENIED;
        return VERDICT_FAIL;
    case GRPC_RESOURCE_EXHAUSTED:
        *error = HF_ERR_LIMIT;
        return VERDICT_FAIL;
    case GRPC_DEADLINE_EXCEEDED:
    case GRPC_CANCELLED:
    case GRPC_ABORTED:
    case GRPC_INTERNAL:
    case GRPC_UNKNOWN:
        *error = HF_ERR_UNKNOWN;
        return VERDICT_UNKNOWN;
    default:
        *error = HF_ERR_PROTOCOL;
        return VERDICT_FAIL;
    }
}

/* Ends the call without knowing what earlier attempts did. Acquire and release continue in the
 * background until that is known, an observer until it is cancelled. */
static void give_up(struct client_call *call, int error)
{
    bool matters = call->kind == CALL_ACQUIRE || call->kind == CALL_RELEASE;
    if (call->kind == CALL_OBSERVE) {
        call_retry(call, false);
    } else if (matters && call->lock != NULL && (call->maybe_done || call->ticket == NULL)) {
        call_leave(call, error, call->text);
        call_retry(call, false);
    } else {
        call_finish(call, error, call->text);
    }
}

static void read_error(struct client_call *call)
{
    struct client_engine *e = call->client_engine;
    const struct rpc *rpc = &call->rpc;
    int error;
    enum verdict verdict = classify(rpc, &error);
    snprintf(call->text, sizeof(call->text), "%s%s%s",
             rpc->message[0] != '\0' ? rpc->message
                                     : grpc_status_name((enum grpc_status)rpc->status),
             rpc->code[0] == '\0' ? "" : ": ", rpc->code);
    if (rpc->code[0] != '\0' && verdict != VERDICT_UNKNOWN) { /* from a node, not a proxy */
        lock_renewal_ended(call, RENEWAL_NOT_APPLIED);
    }
    switch (verdict) {
    case VERDICT_NO_SESSION: {
        bool is_ours = call->needs_session && call->session_number == e->session.number;
        call_finish(call, error, call->text);
        if (is_ours) {
            session_lose(e, "session_expired");
        }
        break;
    }
    case VERDICT_UNKNOWN:
        call->maybe_done = true;
        call_retry(call, false);
        break;
    case VERDICT_REFUSED:
        client_engine_no_leader(e);
        call_retry(call, false);
        break;
    case VERDICT_FAIL:
    default:
        give_up(call, error);
        break;
    }
}

static int error_of(Holdfast__V1__Reason reason)
{
    switch (reason) {
    case HOLDFAST__V1__REASON__HELD:
        return HF_ERR_HELD;
    case HOLDFAST__V1__REASON__DELAYED:
        return HF_ERR_DELAYED;
    case HOLDFAST__V1__REASON__DEADLOCK:
        return HF_ERR_DEADLOCK;
    case HOLDFAST__V1__REASON__ALREADY_HELD:
        return HF_ERR_ALREADY_HELD;
    case HOLDFAST__V1__REASON__MODE_MISMATCH:
    case HOLDFAST__V1__REASON__LIMIT_MISMATCH:
    case HOLDFAST__V1__REASON__WRONG_KIND:
        return HF_ERR_MISMATCH;
    case HOLDFAST__V1__REASON__PERMITS_EXCEED_LIMIT:
        return HF_ERR_INVALID;
    case HOLDFAST__V1__REASON__NOT_OWNER:
        return HF_ERR_NOT_OWNER;
    case HOLDFAST__V1__REASON__DENIED: /* while it waited */
        return HF_ERR_DENIED;
    case HOLDFAST__V1__REASON__OK: /* granted, and ended since */
    case HOLDFAST__V1__REASON__SESSION_ENDED:
    case HOLDFAST__V1__REASON__ALREADY_RELEASED:
    case HOLDFAST__V1__REASON__EXPIRED:
        return HF_ERR_LOST;
    case HOLDFAST__V1__REASON__TIMEOUT:
    default:
        return HF_ERR_TIMEOUT;
    }
}

static void note_holder(struct hf_call *ticket, const Holdfast__V1__Holder *holder,
                        uint32_t queue_length)
{
    if (ticket == NULL || holder == NULL) {
        return;
    }
    struct hf_holder *h = client_alloc(sizeof(*h));
    h->size = sizeof(*h);
    snprintf(h->client_id, sizeof(h->client_id), "%s", holder->client_id);
    snprintf(h->metadata, sizeof(h->metadata), "%s", holder->metadata);
    snprintf(h->trace, sizeof(h->trace), "%s", holder->trace);
    h->expires_in_ms = duration_ms(holder->expires_in, 0);
    if (holder->since != NULL && holder->expires_at != NULL) {
        /* Only by the service's wall clock: now is expires_at - expires_in there. */
        int64_t lasts_ms = seconds_ms(holder->expires_at->seconds, holder->expires_at->nanos) -
                           seconds_ms(holder->since->seconds, holder->since->nanos);
        h->held_for_ms = lasts_ms > h->expires_in_ms ? lasts_ms - h->expires_in_ms : 0;
    }
    h->queue_length = queue_length;
    free(ticket->holder);
    ticket->holder = h;
}

static void refused(struct client_call *call, Holdfast__V1__Reason reason,
                    const Holdfast__V1__Holder *holder, const char *name)
{
    int error = error_of(reason);
    char text[ERROR_TEXT];
    if (reason == HOLDFAST__V1__REASON__SUPERSEDED) {
        call_retry(call, false); /* by an earlier attempt, which has ended */
        return;
    }
    snprintf(text, sizeof(text), "%s: %s%s%s",
             name != NULL && name[0] != '\0' ? name : call->lock->names[0], hf_error_message(error),
             holder == NULL ? "" : "; held by ", holder == NULL ? "" : holder->client_id);
    call_finish(call, error, text);
}

/* Releases a lock that no caller waits for, or that is not safe. */
static void give_back(struct hf_lock *lock)
{
    call_begin(client_call_new(lock->client_engine, CALL_RELEASE, lock, NULL), NEVER_MS);
}

static void granted(struct client_call *call, const Holdfast__V1__LockHandle *handle,
                    uint64_t epoch)
{
    struct client_engine *e = call->client_engine;
    struct hf_lock *lock = call->lock;
    lock->token = handle->fence_token;
    lock->slot = handle->slot;
    lock->session_number = e->session.number;
    lock->epoch = epoch != 0 ? epoch : e->session.epoch;
    snprintf(lock->lease, sizeof(lock->lease), "%s", handle->lease_id);
    lock->life.known.ttl_ms =
        lock->options.ttl_ms != 0 ? lock->options.ttl_ms : e->session.life.ttl_ms;
    /* S5.1: counts from the first sending. life_of_lock uses later keep-alives. */
    lock->life.known.confirmed_ms = call->first_sent_ms;
    if (lock->options.max_hold_ms != 0) {
        /* Queued after the first sending. Cluster time counts the wait, and may be slower (S1.6). */
        int64_t waited_ms = duration_ms(handle->waited, 0);
        lock->life.hold.confirmed_ms =
            call->first_sent_ms + waited_ms - waited_ms / DEADLINE_RATE - (waited_ms > 0);
        lock->life.hold.ttl_ms = lock->options.max_hold_ms;
    }
    if (call->ticket == NULL) {
        lock->is_gone = true;
        give_back(lock);
        call_finish(call, 0, NULL);
        return;
    }
    lock_granted(lock);
    if (lock->state == LOCK_HELD && lock->options.tier == HF_EFFICIENCY) {
        client_engine_heard_epoch(e, epoch);
        locks_epoch(e);
    }
    if (lock->state == LOCK_HELD && e->now_ms >= lock_safe_until(lock)) {
        lock->is_gone = true;
        lock_lose(lock, "unconfirmed", NULL);
        give_back(lock);
    }
    if (lock->state != LOCK_HELD) {
        lock->is_gone = true;
        call_finish(call, HF_ERR_LOST, "it was granted, but lost before the grant was reported");
        return;
    }
    call_finish(call, 0, NULL);
}

static void not_understood(struct client_call *call)
{
    call_finish(call, HF_ERR_PROTOCOL, "the answer cannot be read");
}

static void read_lock(struct client_call *call)
{
    Holdfast__V1__LockResponse *m =
        holdfast__v1__lock_response__unpack(NULL, call->answer_len, call->answer);
    if (m == NULL) {
        not_understood(call);
        return;
    }
    client_engine_heard_epoch(call->client_engine, m->epoch);
    if (m->acquired && m->lock_handle != NULL && m->lock_handle->fence_token != 0) {
        granted(call, m->lock_handle, m->epoch);
    } else if (m->acquired) {
        not_understood(call);
    } else {
        note_holder(call->ticket, m->holder, m->queue_length);
        refused(call, m->reason, m->holder, m->name);
    }
    holdfast__v1__lock_response__free_unpacked(m, NULL);
}

static void read_campaign(struct client_call *call)
{
    Holdfast__V1__CampaignResponse *m =
        holdfast__v1__campaign_response__unpack(NULL, call->answer_len, call->answer);
    if (m == NULL) {
        not_understood(call);
        return;
    }
    if (m->elected && m->lock_handle != NULL && m->lock_handle->fence_token != 0) {
        granted(call, m->lock_handle, 0);
    } else if (m->elected) {
        not_understood(call);
    } else {
        note_holder(call->ticket, m->leader, m->candidates);
        refused(call, m->reason, m->leader, NULL);
    }
    holdfast__v1__campaign_response__free_unpacked(m, NULL);
}

static void read_release(struct client_call *call)
{
    Holdfast__V1__UnlockResponse *m =
        holdfast__v1__unlock_response__unpack(NULL, call->answer_len, call->answer);
    if (m == NULL) {
        not_understood(call);
        return;
    }
    int error = m->released ? 0 : error_of(m->reason);
    if (m->reason == HOLDFAST__V1__REASON__ALREADY_RELEASED && call->attempts > 1) {
        error = 0; /* by an earlier attempt */
    } else if (error == HF_ERR_NOT_OWNER && call->lock != NULL) {
        error = HF_ERR_LOST; /* the token was ours: it was revoked */
    }
    holdfast__v1__unlock_response__free_unpacked(m, NULL);
    call_finish(call, error, NULL);
}

static const char *loss_of(Holdfast__V1__Reason reason)
{
    switch (reason) {
    case HOLDFAST__V1__REASON__ALREADY_RELEASED:
        return "released";
    case HOLDFAST__V1__REASON__EXPIRED:
        return "expired";
    default:
        return "taken";
    }
}

static void read_renew(struct client_call *call)
{
    struct hf_lock *lock = call->lock;
    Holdfast__V1__RenewResponse *m =
        holdfast__v1__renew_response__unpack(NULL, call->answer_len, call->answer);
    if (m == NULL) {
        not_understood(call);
        return;
    }
    int error = m->renewed ? 0 : error_of(m->reason);
    lock_renewal_ended(call, m->renewed ? RENEWAL_APPLIED : RENEWAL_NOT_APPLIED);
    if (lock != NULL && lock->state == LOCK_HELD) {
        if (m->renewed) {
            lock_confirmed(lock, call->sent_ms);
        } else {
            lock_lose(lock, m->ended[0] != '\0' ? m->ended : loss_of(m->reason), NULL);
            error = HF_ERR_LOST;
        }
    } else if (lock != NULL) {
        error = HF_ERR_LOST;
    }
    if (call->ticket != NULL) {
        call->ticket->expires_in_ms = duration_ms(m->expires_in, 0);
    }
    holdfast__v1__renew_response__free_unpacked(m, NULL);
    call_finish(call, error, NULL);
}

static void read_proclaim(struct client_call *call)
{
    Holdfast__V1__ProclaimResponse *m =
        holdfast__v1__proclaim_response__unpack(NULL, call->answer_len, call->answer);
    if (m == NULL) {
        not_understood(call);
        return;
    }
    int error = m->proclaimed ? 0 : error_of(m->reason);
    if (error == HF_ERR_NOT_OWNER || error == HF_ERR_LOST) {
        lock_lose(call->lock, loss_of(m->reason), NULL);
        error = HF_ERR_LOST;
    }
    holdfast__v1__proclaim_response__free_unpacked(m, NULL);
    call_finish(call, error, NULL);
}

/* Any node reports all of them. */
static void read_cluster(struct client_call *call)
{
    Holdfast__V1__ClusterResponse *m =
        holdfast__v1__cluster_response__unpack(NULL, call->answer_len, call->answer);
    for (size_t i = 0; m != NULL && i < m->n_members; i++) {
        endpoints_learn(&call->client_engine->endpoints, m->members[i]->client_address);
    }
    holdfast__v1__cluster_response__free_unpacked(m, NULL);
    call_finish(call, 0, NULL);
}

/* Records all but the event's number. */
static void remember(struct client_call *call, Holdfast__V1__LeaderResponse *m, bool *is_same)
{
    char *event_id = m->event_id;
    size_t len;
    m->event_id = proto_text("");
    uint8_t *bytes = proto_pack(&m->base, &len);
    m->event_id = event_id;
    *is_same =
        call->answer != NULL && call->answer_len == len && memcmp(call->answer, bytes, len) == 0;
    free(call->answer);
    call->answer = bytes;
    call->answer_len = len;
}

void answer_observed(struct client_call *call, struct slice message)
{
    struct client_engine *e = call->client_engine;
    Holdfast__V1__LeaderResponse *m =
        holdfast__v1__leader_response__unpack(NULL, message.len, message.data);
    if (m == NULL || call->ticket == NULL) {
        holdfast__v1__leader_response__free_unpacked(m, NULL);
        return;
    }
    bool is_same;
    bool is_first = !call->is_heard;
    call->is_heard = true;
    client_engine_has_leader(e);
    remember(call, m, &is_same);
    /* A stream begins with the present leader: no change if known before. */
    if (!is_first || !is_same) {
        struct notification_leader *notification = client_alloc(sizeof(*notification));
        notification->notification.kind = NOTIFICATION_LEADER;
        notification->ticket = call->ticket;
        notification->vacant = m->vacant || m->leader == NULL;
        notification->candidates = m->candidates;
        if (m->leader != NULL) {
            snprintf(notification->client_id, sizeof(notification->client_id), "%s",
                     m->leader->client_id);
        }
        snprintf(notification->value, sizeof(notification->value), "%s", m->value);
        list_init(&notification->notification.link);
        list_append(&e->notifications, &notification->notification.link);
    }
    holdfast__v1__leader_response__free_unpacked(m, NULL);
}

static void read_answer(struct client_call *call)
{
    if (call->kind != CALL_CLUSTER) { /* answered without a leader */
        client_engine_has_leader(call->client_engine);
    }
    switch (call->kind) {
    case CALL_ACQUIRE:
        if (call->lock->is_election) {
            read_campaign(call);
        } else {
            read_lock(call);
        }
        break;
    case CALL_RELEASE:
        read_release(call);
        break;
    case CALL_RENEW:
        read_renew(call);
        break;
    case CALL_PROCLAIM:
        read_proclaim(call);
        break;
    case CALL_CLUSTER:
        read_cluster(call);
        break;
    case CALL_OBSERVE: /* the stream ended, for example because a node stops */
        call_retry(call, false);
        break;
    case CALL_READY:
    default:
        hf_panic(__FILE__, __LINE__, "a call that sends no request was answered");
    }
}

void answer_read(struct client_call *call, enum rpc_end end)
{
    switch (end) {
    case RPC_ANSWERED:
        if (call->rpc.status != GRPC_OK) {
            read_error(call);
        } else if (call->answer == NULL && call->kind != CALL_OBSERVE) {
            not_understood(call);
        } else {
            read_answer(call);
        }
        break;
    case RPC_STRANGE:
        snprintf(call->text, sizeof(call->text),
                 "the endpoint does not speak gRPC (HTTP status %d)", call->rpc.http_status);
        call->maybe_done = true;
        give_up(call, HF_ERR_PROTOCOL);
        break;
    case RPC_UNTOUCHED:
        lock_renewal_ended(call, RENEWAL_NOT_APPLIED);
        call_retry(call, true);
        break;
    case RPC_BROKEN:
    default:
        call->maybe_done = true;
        call_retry(call, true);
        break;
    }
}
