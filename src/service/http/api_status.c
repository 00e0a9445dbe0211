/* The cluster as this node sees it; the OpenAPI description. */
#include "service/http/api.h"
#include "service/http/openapi.h"
#include "service/http/reply.h"

enum { MEMBERS_MAX = 64 };

static void put_member(struct json_writer *w, const struct gateway_member *m, uint64_t leader)
{
    json_write_open(w, '{');
    json_put_u64(w, "id", m->id);
    json_put_text(w, "peer_address", m->peer_address);
    if (m->client_address[0] != '\0') {
        json_put_text(w, "client_address", m->client_address);
    } else {
        json_put_null(w, "client_address");
    }
    json_put_text(w, "role", m->id == leader ? "leader" : m->voter ? "follower" : "learner");
    json_put_bool(w, "voter", m->voter);
    if (m->lag != UINT64_MAX) {
        json_put_u64(w, "lag", m->lag);
    } else {
        json_put_null(w, "lag");
    }
    json_put_bool(w, "healthy", m->healthy);
    if (m->state_version != 0) {
        json_put_u64(w, "state_version", m->state_version);
    } else {
        json_put_null(w, "state_version");
    }
    json_write_close(w);
}

static void put_members(struct api_request *x, uint64_t leader, struct json_writer *w)
{
    const struct gateway *g = &x->service->gateway;
    struct gateway_member members[MEMBERS_MAX];
    uint32_t count = g->members == NULL ? 0 : g->members(g->ctx, members, MEMBERS_MAX);
    json_put_open(w, "members", '[');
    for (uint32_t i = 0; i < count && i < MEMBERS_MAX; i++) {
        put_member(w, &members[i], leader);
    }
    json_write_close(w);
}

static void put_backend(const struct gateway_status *status, struct json_writer *w)
{
    json_put_open(w, "efficiency", '{');
    json_put_text(w, "backend", status->backend);
    json_put_bool(w, "healthy", status->backend_healthy);
    if (status->backend_breaker != NULL) {
        json_put_text(w, "breaker", status->backend_breaker);
        json_put_text(w, "fallback", status->backend_fallback);
    }
    if (status->backend_problem[0] != '\0') {
        json_put_text(w, "problem", status->backend_problem);
    }
    json_write_close(w);
}

static void put_certificate(struct api_request *x, const struct gateway_status *status,
                            struct json_writer *w)
{
    const struct gateway *g = &x->service->gateway;
    uint64_t now_s = g->wall_ms(g->ctx) / 1000;
    uint64_t until_s = status->certificate_until_s;
    json_put_open(w, "certificate", '{');
    json_put_time(w, "expires_at", until_s * 1000);
    json_put_u64(w, "expires_in_seconds", until_s > now_s ? until_s - now_s : 0);
    json_put_time(w, "ca_expires_at", status->ca_until_s * 1000);
    json_put_u64(w, "ca_expires_in_seconds",
                 status->ca_until_s > now_s ? status->ca_until_s - now_s : 0);
    json_write_close(w);
}

/* The bytes are those of all tenants. */
static void put_use(const struct gateway_status *status, struct json_writer *w)
{
    if (status->state_max != 0) {
        json_put_open(w, "state", '{');
        json_put_u64(w, "bytes", status->state_bytes);
        json_put_u64(w, "max_bytes", status->state_max);
        json_write_close(w);
    }
    json_put_open(w, "disk", '{');
    json_put_bool(w, "full", status->disk_full);
    if (status->disk_total != 0) {
        json_put_u64(w, "free_bytes", status->disk_free);
        json_put_u64(w, "total_bytes", status->disk_total);
    }
    if (status->append_us != 0) {
        json_put_u64(w, "append_us", status->append_us);
    }
    json_write_close(w);
}

static void put_events(const struct gateway_events *log, struct json_writer *w)
{
    json_put_open(w, "event_log", '{');
    json_put_u64(w, "bytes", log->bytes);
    json_put_u64(w, "max_bytes", log->max_bytes);
    json_put_u64(w, "gaps", log->gaps);
    json_put_bool(w, "gaps_stay", log->gaps_stay);
    json_put_u64(w, "dropped", log->dropped);
    if (log->complete_since_ms != 0) {
        json_put_time(w, "complete_since", log->complete_since_ms);
    } else {
        json_put_null(w, "complete_since");
    }
    json_write_close(w);
}

static void render_cluster(struct api_request *x, const struct result *r, struct json_writer *w)
{
    const struct gateway *gateway = &x->service->gateway;
    struct gateway_status status;
    struct gateway_events events;
    gateway->status(gateway->ctx, &status);
    gateway->events(gateway->ctx, &events);
    json_put_u64(w, "node", status.node);
    if (status.leader != 0) {
        json_put_u64(w, "leader", status.leader);
    } else {
        json_put_null(w, "leader");
    }
    json_put_u64(w, "term", status.term);
    json_put_u64(w, "epoch", status.epoch);
    json_put_bool(w, "serving", status.serving);
    json_put_bool(w, "members_changing", status.members_change);
    reply_put_id(w, "cluster_id", status.cluster);
    json_put_u64(w, "state_version", status.state_version);
    if (x->service->options.program_version != NULL) {
        json_put_text(w, "program_version", x->service->options.program_version);
    }
    json_put_u64(w, "wall_ms", x->service->gateway.wall_ms(x->service->gateway.ctx));
    struct caller_id who = x->caller.id; /* the bytes are those of all tenants */
    bool shows_bytes = who.principal == 0 ||
                       policy_allows_cluster(service_policy(x->service), who.principal, RIGHT_READ);
    if (shows_bytes) {
        put_use(&status, w);
    }
    if (events.is_kept && shows_bytes) {
        put_events(&events, w);
    }
    if (status.certificate_until_s != 0) {
        put_certificate(x, &status, w);
    }
    if (status.backend != NULL) {
        put_backend(&status, w);
    }
    put_members(x, status.leader, w);
}

void api_cluster(struct api_request *x)
{
    api_request_answer_json(x, 200, render_cluster);
}

static void render_members(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct gateway_status status;
    x->service->gateway.status(x->service->gateway.ctx, &status);
    put_members(x, status.leader, w);
}

void api_members(struct api_request *x)
{
    api_request_answer_json(x, 200, render_members);
}

void api_openapi(struct api_request *x)
{
    api_request_answer_constant(x, "application/yaml; charset=utf-8",
                                slice_make(openapi_yaml, openapi_yaml_len));
}
