/* Keep-alives (S4.5) of one caller that arrive within min(100 ms, TTL/20) share one command. This is
 * safe: its timestamp is later than their arrival. */
#include "base/codec.h"
#include "core/view.h"
#include "service/state.h"

enum { GATHER_MS = 100, GATHER_TTL_PART = 20, GATHER_GROUPS = 64 };

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

struct pending_request *pending_keepalive(struct service *s, struct caller_id who,
                                          struct id session, pending_answer_fn on_answer,
                                          void *owner)
{
    struct pending_request *a = pending_new(s, on_answer, owner);
    a->state = PENDING_GATHERED;
    a->who = who;
    a->lease = session;
    list_append(&s->gathered, &a->link);
    s->gathered_count++;
    struct session_view view;
    uint64_t ttl_ms = LIMIT_TTL_MIN_MS; /* of a session that this node has not applied yet */
    if (view_session(service_core(s), session, &view)) {
        ttl_ms = view.ttl_ms;
    }
    uint64_t delay_ms = ttl_ms / GATHER_TTL_PART < GATHER_MS ? ttl_ms / GATHER_TTL_PART : GATHER_MS;
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
            hf_assert(result->error != HF_OK || i < result->count);
            one.error = result->error != HF_OK ? result->error : (enum hf_error)result->alive[i];
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

/* `requests`: all of one caller. */
static void round_start(struct service *s, struct list *requests, uint32_t count)
{
    struct round *r = memory_alloc(s->memory, round_size(count));
    struct command command;
    r->service = s;
    r->count = count;
    r->call = (struct gateway_call){.done = round_done, .owner = r};
    list_init(&r->requests);
    list_init(&r->link);
    list_append(&s->rounds, &r->link);
    command_init(&command, COMMAND_KEEPALIVE);
    for (uint32_t i = 0; i < count; i++) {
        struct list *link = list_take(requests);
        struct pending_request *a = LIST_OBJECT(link, struct pending_request, link);
        struct id id = a->lease;
        a->state = PENDING_SUBMITTED;
        caller_sign(&command, a->who);
        struct writer w = writer_make(r->packed + (size_t)i * 16, 16);
        write_fixed64(&w, id.high);
        write_fixed64(&w, id.low);
        list_append(&r->requests, link);
    }
    command.keepalive.sessions = (struct ids){count, r->packed};
    s->gateway.submit(s->gateway.ctx, &command, &r->call);
}

/* One command for the caller of the first; takes its keep-alives from the list. */
static void send_first(struct service *s, struct list *group)
{
    struct caller_id who = LIST_OBJECT(group->next, struct pending_request, link)->who;
    struct list same;
    struct list *next;
    uint32_t count = 0;
    list_init(&same);
    for (struct list *link = group->next; link != group && count < LIMIT_KEEPALIVE_IDS;
         link = next) {
        next = link->next;
        if (caller_is(LIST_OBJECT(link, struct pending_request, link)->who, who)) {
            list_append(&same, link);
            count++;
        }
    }
    round_start(s, &same, count);
}

/* By a hash of the caller: many callers cost little more than one. */
static void send_gathered(struct service *s)
{
    struct list groups[GATHER_GROUPS];
    for (size_t i = 0; i < GATHER_GROUPS; i++) {
        list_init(&groups[i]);
    }
    for (struct list *link = list_take(&s->gathered); link != NULL;
         link = list_take(&s->gathered)) {
        struct caller_id who = LIST_OBJECT(link, struct pending_request, link)->who;
        list_append(&groups[(who.principal ^ who.tenant) % GATHER_GROUPS], link);
    }
    for (size_t i = 0; i < GATHER_GROUPS; i++) {
        while (!list_is_empty(&groups[i])) {
            send_first(s, &groups[i]);
        }
    }
}

void keepalive_run(struct service *s)
{
    if (s->gathered_due_ms > service_boot_ms(s)) {
        return;
    }
    if (s->gathered_count > 0) {
        s->gathered_count = 0;
        send_gathered(s);
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
