/* GET /api/v1/sessions/{id}/locks: what one session holds and waits for. */
#include "service/http/api.h"
#include "service/http/reply.h"
#include "service/request/list_lock.h"
#include "service/request/session_names.h"

struct session_lock_listing {
    struct api_request *x;
    struct json_writer *w;
};

static void on_name(void *ctx, const struct session_name_view *name)
{
    struct session_lock_listing *l = ctx;
    struct json_writer *w = l->w;
    json_write_open(w, '{');
    json_put_string(w, "name", name->name);
    json_put_text(w, "tier", tier_name((enum tier)name->tier));
    json_put_bool(w, "held", name->is_held);
    json_put_u64(w, "queue_length", name->queue_length);
    json_put_open(w, name->is_held ? "holder" : "waiter", '{');
    if (name->is_held) {
        list_grant_members(w, l->x, &name->grant);
    } else {
        list_waiter_members(w, l->x, &name->waiter);
    }
    json_write_close(w);
    json_write_close(w);
}

static void render(struct api_request *x, const struct result *r, struct json_writer *w)
{
    struct session_lock_listing l = {x, w};
    uint64_t next = LIST_END;
    json_put_open(w, "locks", '[');
    if (!session_names_list(x, on_name, &l, &next)) {
        x->refused = HF_SESSION_NOT_FOUND;
        return;
    }
    json_write_close(w);
    list_put_next(w, next, LIST_END);
    list_put_stale(w, x);
}

void api_session_locks(struct api_request *x)
{
    api_request_look(x, MEMORY_SESSION_NAMES, render);
}
