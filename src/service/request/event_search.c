/* See event_search.h. The node's thread reads; this keeps the call and the request together. */
#include "service/request/event_search.h"

struct event_search {
    struct gateway_scan_call call;
    event_search_fn on_page;
};

static void forget(struct api_request *x)
{
    memory_free(x->service->memory, x->search, sizeof(*x->search));
    x->search = NULL;
}

static void on_done(struct gateway_scan_call *call, enum hf_error error,
                    const struct event_page *page, const char *why)
{
    struct api_request *x = call->owner;
    event_search_fn on_page = x->search->on_page;
    hf_assert((error == HF_OK) == (page != NULL));
    forget(x); /* on_page may free the request, or begin the next search */
    on_page(x, page, error, why);
}

void event_search_begin(struct api_request *x, const struct event_scan *scan,
                        event_search_fn on_page)
{
    struct service *s = x->service;
    hf_assert(x->search == NULL && scan->limit >= 1 && scan->limit <= EVENT_SCAN_RECORDS);
    x->search = memory_alloc(s->memory, sizeof(*x->search));
    *x->search = (struct event_search){.call = {.done = on_done, .owner = x}, .on_page = on_page};
    s->gateway.scan_events(s->gateway.ctx, scan, &x->search->call);
}

void event_search_abandon(struct api_request *x)
{
    if (x->search != NULL) {
        x->service->gateway.scan_cancel(x->service->gateway.ctx, &x->search->call);
        forget(x);
    }
}
