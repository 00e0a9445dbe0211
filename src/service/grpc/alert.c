/* AdminService: long-held rules (S16.2). */
#include <holdfast/v1/admin.pb-c.h>

#include "service/grpc/rpc.h"
#include "service/request/list_lock.h"
#include "service/request/operator.h"

static Holdfast__V1__AlertRule *put_rule(const struct service *s, struct slice prefix,
                                         uint64_t after_ms)
{
    Holdfast__V1__AlertRule *out = rpc_alloc(s, sizeof(*out));
    holdfast__v1__alert_rule__init(out);
    out->prefix = rpc_string(s, operator_alert_prefix(prefix));
    out->after = rpc_ms(s, after_ms);
    return out;
}

static void render_set(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__AlertResponse out = HOLDFAST__V1__ALERT_RESPONSE__INIT;
    rpc_render_begin(x->service);
    out.rule = put_rule(x->service, x->name, x->ttl_ms);
    out.replayed = r->replayed;
    rpc_put(x, &out.base);
}

static bool has_prefix(struct api_request *x, const char *prefix)
{
    if (prefix[0] == '\0') {
        api_request_fail(x, HF_INVALID_ALERT, "prefix: must not be empty; \"*\" is every name");
    }
    return prefix[0] != '\0';
}

void rpc_alert_set(struct api_request *x, const void *message)
{
    const Holdfast__V1__SetAlertRequest *m = message;
    struct body b;
    rpc_body_init(&b);
    b.f.prefix = slice_of(m->prefix);
    b.f.actor_id = slice_of(m->actor_id);
    b.f.reason = slice_of(m->reason);
    b.f.request_id = slice_of(m->request_id);
    if (operator_is_allowed(x) && has_prefix(x, m->prefix) &&
        rpc_duration(x, m->after, "after", BODY_MOST, &b.f.after_ms)) {
        operator_alert_set(x, &b, render_set);
    }
}

static void render_remove(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__AlertResponse out = HOLDFAST__V1__ALERT_RESPONSE__INIT;
    rpc_render_begin(x->service);
    out.replayed = r->replayed;
    rpc_put(x, &out.base);
}

void rpc_alert_remove(struct api_request *x, const void *message)
{
    const Holdfast__V1__RemoveAlertRequest *m = message;
    struct body b;
    rpc_body_init(&b);
    b.f.prefix = slice_of(m->prefix);
    b.f.actor_id = slice_of(m->actor_id);
    b.f.reason = slice_of(m->reason);
    b.f.request_id = slice_of(m->request_id);
    if (operator_is_allowed(x) && has_prefix(x, m->prefix)) {
        operator_alert_remove(x, &b, render_remove);
    }
}

struct alert_rows {
    struct api_request *x;
    Holdfast__V1__AlertsResponse *out;
    size_t space; /* of out->holds */
};

static void on_rule(void *ctx, struct slice prefix, uint64_t held_ms)
{
    struct alert_rows *rows = ctx;
    if (list_may_read(rows->x, prefix)) {
        hf_assert(rows->out->n_rules < LIMIT_ALERTS);
        rows->out->rules[rows->out->n_rules++] = put_rule(rows->x->service, prefix, held_ms);
    }
}

/* A page may be longer than its limit (list.c). */
static void add_hold(struct alert_rows *rows, Holdfast__V1__LongHeldInfo *hold)
{
    Holdfast__V1__AlertsResponse *out = rows->out;
    if (out->n_holds == rows->space) {
        size_t space = rows->space == 0 ? 128 : rows->space * 2;
        Holdfast__V1__LongHeldInfo **larger = rpc_alloc(rows->x->service, space * sizeof(*larger));
        if (out->n_holds > 0) {
            memcpy(larger, out->holds, out->n_holds * sizeof(*larger));
        }
        out->holds = larger;
        rows->space = space;
    }
    out->holds[out->n_holds++] = hold;
}

static void on_hold(void *ctx, const struct lock_view *lock)
{
    struct alert_rows *rows = ctx;
    const struct service *s = rows->x->service;
    struct long_held_row row;
    if (!operator_long_held(rows->x, lock, &row)) {
        return;
    }
    Holdfast__V1__LongHeldInfo *hold = rpc_alloc(s, sizeof(*hold));
    holdfast__v1__long_held_info__init(hold);
    hold->lock = rpc_lock_info(s, lock);
    hold->fence_token = rows->x->is_operator ? lock->first.token : 0;
    hold->rule = put_rule(s, row.rule.prefix, row.rule.held_ms);
    hold->held = rpc_ms(s, row.held_ms);
    hold->over = rpc_ms(s, row.over_ms);
    add_hold(rows, hold);
}

static void render_alerts(struct api_request *x, const struct result *r, struct json_writer *w)
{
    Holdfast__V1__AlertsResponse out = HOLDFAST__V1__ALERTS_RESPONSE__INIT;
    struct alert_rows rows = {.x = x, .out = &out};
    rpc_render_begin(x->service);
    out.rules = rpc_alloc(x->service, LIMIT_ALERTS * sizeof(*out.rules));
    view_alerts(service_core(x->service), x->caller.id.tenant, on_rule, &rows);
    uint64_t next = list_long_held(x, on_hold, &rows);
    out.next_cursor = rpc_cursor(x->service, next, LIST_END);
    out.omitted_tier = rpc_omitted(x);
    rpc_put(x, &out.base);
}

void rpc_alerts(struct api_request *x, const void *message)
{
    const Holdfast__V1__AlertsRequest *m = message;
    if (rpc_page(x, m->limit, m->cursor, m->stale)) {
        operator_alerts(x, render_alerts);
    }
}
