/* Keep-alives (S4.5) that arrive within min(100 ms, TTL/20) share one command. This is safe: its
 * timestamp is later than their arrival. */
#include "base/codec.h"
#include "core/view.h"
#include "service/state.h"

enum { GATHER_MS = 100, GATHER_TTL_PART = 20 };

/* One command and its keep-alives. */
struct round {
    struct gateway_call call;
    struct service *service;
    struct list link;
    struct list requests; /* in the order of the ids */
    uint32_t count;
    uint8_t packed[]; /* the ids */
};

static size_t round_size(uint32_t count)
{
    return sizeof(struct round) + (size_t)count * 16;
}

struct pending_request *pending_keepalive(struct service *s, struct id session,
                                          pending_answer_fn on_answer, void *owner)
{
    struct pending_request *a = pending_new(s, on_answer, owner);
    a->state = PENDING_GATHERED;
    a->lease = session;
    list_append(&s->gathered, &a->link);
    s->gathered_count++;
    struct session_view view;
    uint32_t ttl_ms = LIMIT_TTL_MIN_MS; /* of a session that this node has not applied yet */
    if (view_session(service_core(s), session, &view)) {
        ttl_ms = view.ttl_ms;
    }
    uint32_t delay_ms = ttl_ms / GATHER_TTL_PART < GATHER_MS ? ttl_ms / GATHER_TTL_PART : GATHER_MS;
    uint64_t due_ms = service_boot_ms(s) + delay_ms;
    if (s->gathered_count >= LIMIT_KEEPALIVE_IDS) {
        due_ms = 0;
    }
    if (due_ms < s->gathered_due_ms) {
        s->gathered_due_ms = due_ms;
    }
    return a;
}

static void round_done(struct gateway_call *call, enum hf_error error, const struct result *result)
{
    struct round *r = call->owner;
    list_remove(&r->link);
    uint32_t i = 0;
    for (struct list *link = list_take(&r->requests); link != NULL;
         link = list_take(&r->requests), i++) {
        struct pending_request *a = LIST_OBJECT(link, struct pending_request, link);
        struct result one = {.type = COMMAND_KEEPALIVE};
        if (error == HF_OK) {
            hf_assert(result->error == HF_OK && i < result->count);
            one.error = (enum hf_error)result->alive[i];
            one.lease = a->lease;
        }
        if (a->gone) {
            pending_free(a);
        } else {
            a->state = PENDING_ANSWERED;
            a->on_answer(a->owner, error, &one);
        }
    }
    memory_free(r->service->memory, r, round_size(r->count));
}

static void round_start(struct service *s, uint32_t count)
{
    struct round *r = memory_alloc(s->memory, round_size(count));
    r->service = s;
    r->count = count;
    r->call = (struct gateway_call){.done = round_done, .owner = r};
    list_init(&r->requests);
    list_init(&r->link);
    list_append(&s->rounds, &r->link);
    for (uint32_t i = 0; i < count; i++) {
        struct list *link = list_take(&s->gathered);
        struct pending_request *a = LIST_OBJECT(link, struct pending_request, link);
        struct id id = a->lease;
        a->state = PENDING_SUBMITTED;
        struct writer w = writer_make(r->packed + (size_t)i * 16, 16);
        write_fixed64(&w, id.high);
        write_fixed64(&w, id.low);
        list_append(&r->requests, link);
    }
    struct command command;
    command_init(&command, COMMAND_KEEPALIVE);
    command.keepalive.sessions = (struct ids){count, r->packed};
    s->gateway.submit(s->gateway.ctx, &command, &r->call);
}

void keepalive_run(struct service *s)
{
    if (s->gathered_due_ms > service_boot_ms(s)) {
        return;
    }
    while (s->gathered_count > 0) {
        uint32_t count =
            s->gathered_count < LIMIT_KEEPALIVE_IDS ? s->gathered_count : LIMIT_KEEPALIVE_IDS;
        s->gathered_count -= count;
        round_start(s, count);
    }
    s->gathered_due_ms = UINT64_MAX;
}

void keepalive_close_all(struct service *s)
{
    for (struct list *link = list_take(&s->rounds); link != NULL; link = list_take(&s->rounds)) {
        struct round *r = LIST_OBJECT(link, struct round, link);
        memory_free(s->memory, r, round_size(r->count));
    }
}
