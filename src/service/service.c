/* Opens, runs and closes the parts of the service. */
#include "service/http/http2_conn.h"
#include "service/request/session.h"
#include "service/request/watch.h"
#include "service/state.h"

static uint64_t or_default(uint64_t value, uint64_t otherwise)
{
    return value == 0 ? otherwise : value;
}

struct service *service_new(const struct service_options *options)
{
    const struct memory *memory = options->memory;
    struct service *s = memory_alloc(memory, sizeof(*s));
    *s = (struct service){.memory = memory, .gateway = options->gateway, .options = *options};
    struct service_options *o = &s->options;
    o->ttl_min_ms = (uint32_t)or_default(o->ttl_min_ms, 1000);
    o->resp_ttl_min_ms = or_default(o->resp_ttl_min_ms, 1);
    o->resp_ttl_max_ms = or_default(o->resp_ttl_max_ms, LIMIT_KEY_TTL_MAX_MS);
    o->resp_value_max = (uint32_t)or_default(o->resp_value_max, LIMIT_VALUE);
    o->heartbeat_ms = (uint32_t)or_default(o->heartbeat_ms, 15000);
    o->request_ms = (uint32_t)or_default(o->request_ms, 10000);
    o->idle_ms = (uint32_t)or_default(o->idle_ms, 300000);
    o->event_bytes = or_default(o->event_bytes, (size_t)8 << 20);
    o->server_names = o->server_names == NULL ? "" : o->server_names;
    struct gateway_status status;
    s->gateway.status(s->gateway.ctx, &status);
    hf_assert(status.node <= UINT32_MAX);
    s->node = (uint32_t)status.node;
    buffer_init(&s->scratch, memory, SERVICE_ANSWER_MAX);
    pending_open_all(s);
    event_ring_open(&s->events, memory, o->event_bytes);
    event_ring_reset(&s->events, (struct event_id){core_index(service_core(s)), UINT32_MAX});
    s->ring_used = true; /* clients of the node before its restart come back */
    list_init(&s->changes);
    list_init(&s->downloads);
    list_init(&s->policy_work);
    list_init(&s->streams);
    list_init(&s->conns);
    conn_budget_open(&s->budget, or_default(o->conn_bytes, (size_t)512 << 20));
    list_init(&s->ready);
    list_init(&s->transfers);
    list_init(&s->idle);
    http2_open_all(s);
    resp_open_all(s);
    if (o->auth) {
        auth_open(s);
    }
    return s;
}

void service_free(struct service *s)
{
    if (s == NULL) {
        return;
    }
    hf_assert(list_is_empty(&s->conns));
    auth_close(s);
    resp_close_all(s);
    http2_close_all(s);
    member_close_all(s);
    event_ring_close(&s->events);
    pending_close_all(s);
    buffer_close(&s->scratch);
    memory_free(s->memory, s, sizeof(*s));
}

uint64_t service_cluster_ms(const struct service *s)
{
    uint64_t applied_ms = core_now_ms(service_core(s));
    uint64_t now_ms = s->gateway.cluster_ms == NULL ? 0 : s->gateway.cluster_ms(s->gateway.ctx);
    return now_ms > applied_ms ? now_ms : applied_ms;
}

/* Events of the tier EFFICIENCY have no permanent id. In the ring they carry the id of the last
 * replicated event; a watcher that resumes from it continues after them (S9.3). */
void service_on_event(struct service *s, const struct event *event)
{
    if (event->tier == TIER_CORRECTNESS && s->ring_rests) {
        event_ring_skip(&s->events, (struct event_id){event->index, event->ordinal});
    } else if (event->tier == TIER_CORRECTNESS) {
        event_ring_add(&s->events, event);
    } else if (s->stream_count > 0) {
        struct event numbered = *event;
        numbered.index = s->events.newest.index;
        numbered.ordinal = s->events.newest.ordinal;
        event_ring_add(&s->events, &numbered);
    }
    session_on_event(s, event);
    session_stream_on_event(s, event);
    resp_on_event(s, event);
    if (event->node == s->node) {
        pending_on_event(s, event);
    }
    if (event->type == EVENT_EPOCH) {
        pending_repeat_memory(s, true); /* the tier EFFICIENCY begins empty (S10.2) */
    }
}

enum service_wants service_wants(const struct service *s)
{
    if (s->stream_count > 0 || resp_has_subscribers(s)) {
        return SERVICE_WANTS_ALL;
    }
    return list_is_empty(&s->session_calls) ? SERVICE_WANTS_NOTHING : SERVICE_WANTS_SESSIONS;
}

void service_leader_lost(struct service *s)
{
    pending_repeat_memory(s, false);
    resp_waits_run_all(s);
}

void service_state_replaced(struct service *s)
{
    event_ring_reset(&s->events, (struct event_id){core_index(service_core(s)), UINT32_MAX});
    pending_forget_early(s);
    pending_repeat_all(s);
    session_state_replaced(s);
    watch_state_replaced(s);
    resp_waits_run_all(s);
    s->pump = true;
}

void service_run(struct service *s)
{
    pending_run(s);
    auth_run(s);
    policy_run(s);
    watch_run(s);
    download_run(s);
    http_conn_run_all(s);
    resp_begin_turn(s);
    service_transact(s);
    resp_run_all(s);
    service_transact(s); /* transactions that resp_run_all started */
    pending_run(s);      /* requests just submitted may be due at once */
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t service_next_ms(const struct service *s)
{
    if (!list_is_empty(&s->policy_work)) {
        return 0;
    }
    return earlier(earlier(earlier(pending_next_ms(s), watch_next_ms(s)),
                           earlier(download_next_ms(s), http_conn_next_ms(s))),
                   earlier(resp_next_ms(s), auth_next_ms(s)));
}

void service_drain(struct service *s)
{
    s->draining = true;
    http_conn_drain_all(s);
    resp_drain_all(s);
}

void service_stats(const struct service *s, struct service_stats *out)
{
    *out = (struct service_stats){.connections = s->conn_count,
                                  .http2_connections = s->http2_conn_count,
                                  .accepted = s->conns_accepted,
                                  .http2_accepted = s->http2_accepted,
                                  .requests = s->requests,
                                  .grpc_requests = s->grpc_requests,
                                  .waiting = s->waiting_count,
                                  .streams = s->stream_count,
                                  .dropped_streams = s->dropped_streams,
                                  .auth_failures = s->auth_failures,
                                  .conn_bytes = s->budget.used,
                                  .conn_bytes_max = s->budget.max,
                                  .conn_closed = s->budget.closed,
                                  .stalled_streams = s->budget.reset};
    resp_stats(s, out);
}
