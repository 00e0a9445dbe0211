/* etcd's own lock: what `concurrency.Mutex` of its Go client (and its server's Lock service, which
 * runs the same) sends. A client has a lease. It takes a lock by one transaction: put NAME/LEASE
 * with that lease unless it is there, and read who was first under NAME/; it has the lock when that
 * is its own key. It gives it back by deleting its key. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/calls.h"
#include "etcd.pb-c.h"
#include "peers.h"

#define KV "/etcdserverpb.KV/"
#define LEASE "/etcdserverpb.Lease/"

enum { KEY = 160 };

static int64_t lease_of(const struct bench_request *request)
{
    return (int64_t)strtoull((const char *)request->session.data, NULL, 16);
}

static void make_key(const struct bench_request *request, char out[KEY])
{
    int len = snprintf(out, KEY, "%s/%s", (const char *)request->name.data,
                       (const char *)request->session.data);
    hf_assert(len > 0 && len < KEY);
}

static void request_lock(struct bench_slot *s, const struct bench_request *request)
{
    char key[KEY];
    char prefix[KEY];
    char end[KEY];
    make_key(request, key);
    (void)snprintf(prefix, sizeof(prefix), "%s/", (const char *)request->name.data);
    (void)snprintf(end, sizeof(end), "%s%c", (const char *)request->name.data, '/' + 1);

    Peers__Etcd__Compare absent = PEERS__ETCD__COMPARE__INIT;
    absent.target = PEERS__ETCD__COMPARE__COMPARE_TARGET__CREATE;
    absent.key = key;
    absent.target_union_case = PEERS__ETCD__COMPARE__TARGET_UNION_CREATE_REVISION;
    Peers__Etcd__PutRequest put = PEERS__ETCD__PUT_REQUEST__INIT;
    put.key = key;
    put.lease = lease_of(request);
    Peers__Etcd__RangeRequest own = PEERS__ETCD__RANGE_REQUEST__INIT;
    own.key = key;
    Peers__Etcd__RangeRequest first = PEERS__ETCD__RANGE_REQUEST__INIT;
    first.key = prefix;
    first.range_end = end;
    first.limit = 1;
    first.sort_order = PEERS__ETCD__RANGE_REQUEST__SORT_ORDER__ASCEND;
    first.sort_target = PEERS__ETCD__RANGE_REQUEST__SORT_TARGET__CREATE;

    Peers__Etcd__RequestOp put_op = PEERS__ETCD__REQUEST_OP__INIT;
    put_op.request_case = PEERS__ETCD__REQUEST_OP__REQUEST_REQUEST_PUT;
    put_op.request_put = &put;
    Peers__Etcd__RequestOp own_op = PEERS__ETCD__REQUEST_OP__INIT;
    own_op.request_case = PEERS__ETCD__REQUEST_OP__REQUEST_REQUEST_RANGE;
    own_op.request_range = &own;
    Peers__Etcd__RequestOp first_op = own_op;
    first_op.request_range = &first;

    Peers__Etcd__Compare *compare[] = {&absent};
    Peers__Etcd__RequestOp *success[] = {&put_op, &first_op};
    Peers__Etcd__RequestOp *failure[] = {&own_op, &first_op};
    Peers__Etcd__TxnRequest txn = PEERS__ETCD__TXN_REQUEST__INIT;
    txn.n_compare = 1;
    txn.compare = compare;
    txn.n_success = 2;
    txn.success = success;
    txn.n_failure = 2;
    txn.failure = failure;
    bench_call_start(&s->unary, KV "Txn", &txn.base, false);
}

static void request_unlock(struct bench_slot *s, const struct bench_request *request)
{
    char key[KEY];
    Peers__Etcd__DeleteRangeRequest range = PEERS__ETCD__DELETE_RANGE_REQUEST__INIT;
    make_key(request, key);
    range.key = key;
    bench_call_start(&s->unary, KV "DeleteRange", &range.base, false);
}

static void request_one(struct bench_slot *s, const struct bench_request *request)
{
    Peers__Etcd__LeaseGrantRequest grant = PEERS__ETCD__LEASE_GRANT_REQUEST__INIT;
    Peers__Etcd__LeaseKeepAliveRequest lease = PEERS__ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;
    switch (request->verb) {
    case BENCH_OPEN:
        grant.ttl = (int64_t)(request->ttl_ms / 1000);
        bench_call_start(&s->unary, LEASE "LeaseGrant", &grant.base, false);
        break;
    case BENCH_KEEPALIVE: /* a stream of one, which ends with its answer */
    case BENCH_CLOSE:
        lease.id = lease_of(request);
        bench_call_start(
            &s->unary, request->verb == BENCH_CLOSE ? LEASE "LeaseRevoke" : LEASE "LeaseKeepAlive",
            &lease.base, false);
        break;
    case BENCH_ACQUIRE:
        request_lock(s, request);
        break;
    case BENCH_RELEASE:
        request_unlock(s, request);
        break;
    }
}

/* The first under the lock's prefix is the key that this very transaction made. */
static void on_locked(struct bench_call *c, struct slice message)
{
    Peers__Etcd__TxnResponse *r =
        peers__etcd__txn_response__unpack(NULL, message.len, message.data);
    if (r == NULL) {
        return;
    }
    const Peers__Etcd__ResponseOp *op = r->n_responses == 2 ? r->responses[1] : NULL;
    const Peers__Etcd__RangeResponse *first =
        op != NULL && op->response_case == PEERS__ETCD__RESPONSE_OP__RESPONSE_RESPONSE_RANGE
            ? op->response_range
            : NULL;
    c->slot->is_done = r->succeeded && r->header != NULL && first != NULL && first->n_kvs == 1 &&
                       first->kvs[0]->create_revision == r->header->revision;
    c->slot->token = c->slot->is_done ? (uint64_t)r->header->revision : 0;
    (void)snprintf(c->code, sizeof(c->code), "%s", c->slot->is_done ? "" : "held");
    peers__etcd__txn_response__free_unpacked(r, NULL);
}

static void on_unlocked(struct bench_call *c, struct slice message)
{
    Peers__Etcd__DeleteRangeResponse *r =
        peers__etcd__delete_range_response__unpack(NULL, message.len, message.data);
    if (r != NULL) {
        c->slot->is_done = r->deleted == 1;
        (void)snprintf(c->code, sizeof(c->code), "%s", c->slot->is_done ? "" : "not_there");
        peers__etcd__delete_range_response__free_unpacked(r, NULL);
    }
}

static void on_granted(struct bench_call *c, struct slice message)
{
    Peers__Etcd__LeaseGrantResponse *r =
        peers__etcd__lease_grant_response__unpack(NULL, message.len, message.data);
    if (r != NULL) {
        c->slot->is_done = r->id != 0;
        c->slot->token = (uint64_t)r->id;
        peers__etcd__lease_grant_response__free_unpacked(r, NULL);
    }
}

static void on_message(struct bench_call *c, struct slice message)
{
    switch (c->slot->verb) {
    case BENCH_OPEN:
        on_granted(c, message);
        break;
    case BENCH_ACQUIRE:
        on_locked(c, message);
        break;
    case BENCH_RELEASE:
        on_unlocked(c, message);
        break;
    case BENCH_KEEPALIVE:
    case BENCH_CLOSE:
        c->slot->is_done = true;
        break;
    }
}

static void on_end(struct bench_call *c)
{
    struct bench_slot *s = c->slot;
    if (c->status != GRPC_OK || !s->is_done) {
        bench_call_tell_failure(c);
        return;
    }
    char id[BENCH_SESSION];
    struct bench_answer answer = {.fine = true, .token = s->token};
    if (s->verb == BENCH_OPEN) {
        (void)snprintf(id, sizeof(id), "%" PRIx64, s->token);
        answer.session = slice_of(id);
    }
    bench_slot_tell(s, &answer);
}

static const struct bench_calls_handler handler = {request_one, on_message, on_end};

static void *etcd_open(const char *host, uint32_t slots)
{
    return bench_calls_open(host, slots, &handler);
}

const struct bench_protocol peer_etcd = {
    .name = "etcd",
    .multiplexes = true,
    .open = etcd_open,
    .close = bench_calls_close,
    .begin = bench_calls_begin,
    .request = bench_calls_request,
    .receive = bench_calls_receive,
};
