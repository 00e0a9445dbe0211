/* See history.h. */
#include "service/request/history.h"

#include "service/http/reply.h"
#include "service/request/event_search.h"
#include "service/request/list_lock.h"

enum { HISTORY_MS = 5000 }; /* then the answer is what was found */

struct history_work {
    struct search_work work;
    struct history_query query;
    render_fn render;
    uint32_t limit;
    uint64_t began_ms; /* boot time */
    struct holds holds;
};

static void history_free(struct api_request *x, struct search_work *work)
{
    struct history_work *h = LIST_OBJECT(work, struct history_work, work);
    holds_close(&h->holds);
    memory_free(x->service->memory, h, sizeof(*h));
}

static struct history_work *history_of(const struct api_request *x)
{
    hf_assert(x->work != NULL && x->work->free == history_free);
    return LIST_OBJECT(x->work, struct history_work, work);
}

const struct holds *history_found(const struct api_request *x)
{
    return &history_of(x)->holds;
}

uint64_t history_complete_since_ms(const struct holds *h)
{
    return h->complete_from_begin ? 0 : h->complete_since_ms;
}

const char *history_end_name(const struct past_hold *hold)
{
    switch (hold->state) {
    case HOLD_ENDED:
        return ended_name(hold->ended);
    case HOLD_UNKNOWN:
        return "unknown";
    case HOLD_CURRENT:
        break;
    }
    return NULL;
}

static void step(struct api_request *x);

static void on_page(struct api_request *x, const struct event_page *page, enum hf_error error,
                    const char *why)
{
    struct holds *holds = &history_of(x)->holds;
    if (page != NULL) {
        holds_take(holds, page);
    } else if (holds->has_page) {
        holds_stop(holds); /* what was found is true */
    } else {
        api_request_fail(x, error, why);
        return;
    }
    step(x);
}

static void step(struct api_request *x)
{
    struct history_work *h = history_of(x);
    struct event_scan scan;
    if (h->holds.has_page && service_boot_ms(x->service) - h->began_ms >= HISTORY_MS) {
        holds_stop(&h->holds);
    }
    if (x->service->gateway.scan_events == NULL) {
        api_request_fail(x, HF_EVENT_LOG, NULL);
    } else if (holds_next(&h->holds, &scan)) {
        event_search_begin(x, &scan, on_page);
    } else {
        api_request_answer_json(x, 200, h->render);
    }
}

struct history_reader {
    struct api_request *x;
    enum tier tier;
    uint64_t cluster_ms;
};

static void on_grant(void *ctx, const struct grant_view *grant)
{
    const struct history_reader *r = ctx;
    const struct holder_view *holder = &grant->holder;
    holds_present(&history_of(r->x)->holds, r->tier, grant,
                  reply_since_ms(r->x->service, holder->since_ms, holder->since_wall_ms),
                  r->cluster_ms);
}

static void on_waiter(void *ctx, const struct waiter_view *waiter)
{
    (void)ctx;
    (void)waiter;
}

/* The state and the leader's memory are as new as the request. */
static void on_state(struct api_request *x)
{
    struct service *s = x->service;
    struct history_work *h = history_of(x);
    struct lock_view lock;
    struct holds_query query = {
        .tenant = x->caller.id.tenant,
        .name = x->name,
        .is_at = h->query.is_at,
        .at_ms = h->query.at_ms,
        .since_ms = h->query.since_ms,
        .until_ms = h->query.until_ms,
        .limit = h->limit,
        .is_continued = h->query.is_continued,
        .after = h->query.after,
        .now_ms = s->gateway.wall_ms(s->gateway.ctx),
        .index = core_index(service_core(s)),
    };
    holds_open(&h->holds, s->memory, &query);
    list_show(x, &lock);
    struct history_reader reader = {
        .x = x, .tier = (enum tier)lock.tier, .cluster_ms = service_cluster_ms(s)};
    list_holders(x, &lock, HOLDS_MAX, on_grant, on_waiter, &reader);
    h->holds.is_cut = lock.holders > h->holds.held_count;
    step(x);
}

void history_begin(struct api_request *x, const struct history_query *query, render_fn render)
{
    struct service *s = x->service;
    hf_assert(x->work == NULL && x->name.len > 0);
    struct history_work *h = memory_alloc(s->memory, sizeof(*h));
    *h = (struct history_work){.work = {.free = history_free},
                               .query = *query,
                               .render = render,
                               .limit = (uint32_t)x->page.limit,
                               .began_ms = service_boot_ms(s),
                               .holds = {.memory = s->memory}};
    x->work = &h->work;
    x->page.limit = HOLDS_MAX; /* of present holders */
    api_request_look_first(x, MEMORY_LOCK, on_state);
}
