/* Long-held rules (S16.2): set, removed, and listed with the holds that are past them now. */
#include <inttypes.h>
#include <stdio.h>

#include "service/http/api.h"
#include "service/http/body.h"
#include "service/http/reply.h"
#include "service/request/list_lock.h"
#include "service/request/operator.h"

enum { ALERTS_SINCE = 7 }; /* version of the state */

#define ALERT_FIELDS                                                                   \
    BODY_TEXT(prefix, true, 1, LIMIT_NAME), BODY_TEXT(actor_id, true, 1, LIMIT_ACTOR), \
        BODY_TEXT(reason, false, 1, LIMIT_REASON), BODY_REQUEST_ID

static const struct json_field set_fields[] = {
    ALERT_FIELDS,
    BODY_NUMBER(after_ms, true, 0, BODY_MOST), /* the range is the core's: invalid_alert */
};

static const struct json_field remove_fields[] = {
    ALERT_FIELDS,
};

struct slice operator_alert_prefix(struct slice prefix)
{
    return prefix.len == 0 ? slice_of("*") : prefix;
}

static struct slice given_prefix(const struct body *b)
{
    return slice_equal(b->f.prefix, slice_of("*")) ? slice_make("", 0) : b->f.prefix;
}

/* Keeps what the answer shows; the prefix may be longer than a name by its slash. */
static bool keep_prefix(struct api_request *x, const struct body *b)
{
    struct slice prefix = given_prefix(b);
    if (prefix.len > sizeof(x->name_bytes)) {
        api_request_fail(x, HF_INVALID_ALERT, NULL);
        return false;
    }
    if (prefix.len > 0) {
        memcpy(x->name_bytes, prefix.data, prefix.len);
    }
    x->name = slice_make(x->name_bytes, prefix.len);
    return true;
}

static void submit(struct api_request *x, const struct body *b, struct command *c, render_fn render)
{
    struct id unused;
    bool is_given;
    if (body_request_id(x, b, BODY_ID_DRAWN, c, &unused, &is_given) && body_check(x, c)) {
        api_request_submit(x, c, true, render);
    }
}

void operator_alert_set(struct api_request *x, const struct body *b, render_fn render)
{
    struct command c;
    char reason[64];
    (void)snprintf(reason, sizeof(reason), "report holds of more than %" PRIu64 " ms",
                   b->f.after_ms);
    command_init(&c, COMMAND_ALERT_SET);
    caller_sign(&c, x->caller.id);
    c.alert_set.prefix = given_prefix(b);
    c.alert_set.held_ms = b->f.after_ms;
    c.alert_set.actor = b->f.actor_id;
    c.alert_set.reason = b->f.reason.len > 0 ? b->f.reason : slice_of(reason);
    x->ttl_ms = (uint32_t)b->f.after_ms; /* for the answer; the core refuses more than 31 days */
    if (keep_prefix(x, b)) {
        submit(x, b, &c, render);
    }
}

void operator_alert_remove(struct api_request *x, const struct body *b, render_fn render)
{
    struct command c;
    command_init(&c, COMMAND_ALERT_REMOVE);
    caller_sign(&c, x->caller.id);
    c.alert_remove.prefix = given_prefix(b);
    c.alert_remove.actor = b->f.actor_id;
    c.alert_remove.reason = b->f.reason.len > 0 ? b->f.reason : slice_of("rule removed");
    if (keep_prefix(x, b)) {
        submit(x, b, &c, render);
    }
}

static void put_change(struct api_request *x, const struct result *r, const char *action,
                       struct json_writer *w)
{
    json_put_text(w, "action", action);
    json_put_string(w, "prefix", operator_alert_prefix(x->name));
    if (r->replayed) {
        json_put_bool(w, "replayed", true);
    }
}

static void render_set(struct api_request *x, const struct result *r, struct json_writer *w)
{
    put_change(x, r, "ALERT_SET", w);
    json_put_u64(w, "after_ms", x->ttl_ms);
}

static void render_remove(struct api_request *x, const struct result *r, struct json_writer *w)
{
    put_change(x, r, "ALERT_REMOVE", w);
}

void api_alert_set(struct api_request *x)
{
    struct body b;
    if (operator_is_allowed(x) && BODY_READ(x, &b, set_fields)) {
        operator_alert_set(x, &b, render_set);
        body_close(&b);
    }
}

void api_alert_remove(struct api_request *x)
{
    struct body b;
    if (operator_is_allowed(x) && BODY_READ(x, &b, remove_fields)) {
        operator_alert_remove(x, &b, render_remove);
        body_close(&b);
    }
}

/* ---- the list ---- */

bool operator_long_held(const struct api_request *x, const struct lock_view *lock,
                        struct long_held_row *out)
{
    uint64_t now_ms = service_cluster_ms(x->service);
    uint64_t since_ms = lock->first.holder.since_ms;
    if (!view_alert_for(service_core(x->service), x->caller.id.tenant, lock->name, &out->rule)) {
        return false; /* removed between the leader's page and this answer */
    }
    out->held_ms = now_ms > since_ms ? now_ms - since_ms : 0;
    out->over_ms = out->held_ms > out->rule.held_ms ? out->held_ms - out->rule.held_ms : 0;
    return true;
}

struct alert_listing {
    struct api_request *x;
    struct json_writer *w;
};

static void on_rule(void *ctx, struct slice prefix, uint64_t held_ms)
{
    struct alert_listing *l = ctx;
    if (list_may_read(l->x, prefix)) {
        json_write_open(l->w, '{');
        json_put_string(l->w, "prefix", operator_alert_prefix(prefix));
        json_put_u64(l->w, "after_ms", held_ms);
        json_write_close(l->w);
    }
}

static void on_hold(void *ctx, const struct lock_view *lock)
{
    struct alert_listing *l = ctx;
    struct json_writer *w = l->w;
    struct long_held_row row;
    if (!operator_long_held(l->x, lock, &row)) {
        return;
    }
    json_write_open(w, '{');
    list_lock_members(w, l->x->service, lock);
    json_put_open(w, "holder", '{');
    reply_holder_members(w, l->x->service, &lock->first.holder);
    reply_put_hold(w, l->x->service, lock->first.hold_until_ms);
    if (l->x->is_operator) {
        json_put_u64(w, "fencing_token", lock->first.token);
    }
    json_write_close(w);
    json_put_string(w, "rule", operator_alert_prefix(row.rule.prefix));
    json_put_u64(w, "after_ms", row.rule.held_ms);
    json_put_u64(w, "held_ms", row.held_ms);
    json_put_u64(w, "over_ms", row.over_ms);
    json_write_close(w);
}

static void render_alerts(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct alert_listing l = {x, w};
    json_put_open(w, "rules", '[');
    view_alerts(service_core(x->service), x->caller.id.tenant, on_rule, &l);
    json_write_close(w);
    json_put_open(w, "holds", '[');
    uint64_t next = list_long_held(x, on_hold, &l);
    json_write_close(w);
    list_put_next(w, next, LIST_END);
    list_put_stale(w, x);
}

void operator_alerts(struct api_request *x, render_fn render)
{
    if (!list_is_cursor(x->page.cursor)) {
        api_request_fail(x, HF_FIELD_RANGE, "cursor: must be the next_cursor of an earlier page");
    } else if (core_version(service_core(x->service)) < ALERTS_SINCE) {
        api_request_fail(x, HF_NOT_UPGRADED, NULL);
    } else {
        api_request_look(x, MEMORY_LONG_HELD, render);
    }
}

void api_alerts(struct api_request *x)
{
    operator_alerts(x, render_alerts);
}
