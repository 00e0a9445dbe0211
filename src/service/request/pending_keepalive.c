/* Keep-alives (S4.5) of one caller that arrive within min(100 ms, TTL/20) share one command. This is
 * safe: its timestamp is later than their arrival.
 *
 * The command carries a query with the checks of its keep-alives (S4.8). Where the leader finds a
 * difference, a second query lists what the session holds, before the keep-alive is answered. */
#include "base/codec.h"
#include "core/view.h"
#include "service/request/memory_page.h"
#include "service/request/session_check.h"
#include "service/request/session_names.h"
#include "service/state.h"

enum { GATHER_MS = 100, GATHER_TTL_PART = 20, GATHER_GROUPS = 64 };

/* One command and its keep-alives. */
struct round {
    struct gateway_call call;
    struct service *service;
    struct list link;
    struct list requests; /* in the order of the ids */
    uint32_t count;
    uint32_t checks;  /* of them */
    uint8_t packed[]; /* the ids */
};

static size_t round_size(uint32_t count)
{
    return sizeof(struct round) + (size_t)count * 16;
}

struct pending_request *pending_keepalive(struct service *s, struct caller_id who,
                                          struct id session, const struct keepalive_check *check,
                                          pending_answer_fn on_answer, void *owner)
{
    struct pending_request *a = pending_new(s, on_answer, owner);
    a->state = PENDING_GATHERED;
    if (check != NULL) {
        a->is_checked = true;
        a->check = *check;
    }
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

static void answer_alive(struct pending_request *a, enum hf_error error,
                         const struct result *result)
{
    a->state = PENDING_ANSWERED;
    a->on_answer(a->owner, error, result);
}

/* The keep-alive is confirmed, with or without a list. */
static void on_listed(struct gateway_call *call, enum hf_error error, const struct result *nothing)
{
    struct pending_request *a = call->owner;
    const struct result alive = {.type = COMMAND_KEEPALIVE, .lease = a->lease};
    (void)nothing;
    a->in_flight = false;
    if (a->gone) {
        pending_free(a);
        return;
    }
    a->service->looked = call->page;
    a->is_listed = error == HF_OK && call->page.len > 0;
    answer_alive(a, HF_OK, &alive);
}

static void list_locks(struct pending_request *a)
{
    struct service *s = a->service;
    uint8_t bytes[MEMORY_REQUEST_BYTES];
    struct memory_request request = {.version = core_version(service_core(s)),
                                     .kind = MEMORY_SESSION_NAMES,
                                     .tenant = a->who.tenant,
                                     .cursor = session_names_memory_cursor(a->check.cursor),
                                     .limit = LIMIT_PAGE_MAX,
                                     .session = a->lease};
    a->state = PENDING_SUBMITTED;
    a->in_flight = true;
    a->call =
        (struct gateway_call){.done = on_listed,
                              .owner = a,
                              .look = slice_make(bytes, memory_request_encode(&request, bytes)),
                              .source = a->source,
                              .tenant = a->who.tenant};
    s->gateway.barrier(s->gateway.ctx, &a->call);
}

static void round_done(struct gateway_call *call, enum hf_error error, const struct result *result)
{
    struct round *r = call->owner;
    struct slice checked = session_checks_read(call->page, r->checks);
    list_remove(&r->link);
    uint32_t i = 0;
    uint32_t check = 0;
    for (struct list *link = list_take(&r->requests); link != NULL;
         link = list_take(&r->requests), i++) {
        struct pending_request *a = LIST_OBJECT(link, struct pending_request, link);
        struct result one = {.type = COMMAND_KEEPALIVE};
        if (error == HF_OK) {
            hf_assert(result->error != HF_OK || i < result->count);
            one.error = result->error != HF_OK ? result->error : (enum hf_error)result->alive[i];
            one.lease = a->lease;
        }
        bool differs = a->is_checked && checked.len > 0 && error == HF_OK && one.error == HF_OK &&
                       checked.data[check] == SESSION_DIFFERS;
        check += a->is_checked;
        if (a->gone) {
            pending_free(a);
        } else if (differs) {
            a->state = PENDING_DIFFERS; /* no request may be submitted in here */
            list_append(&r->service->differing, &a->link);
        } else {
            answer_alive(a, error, &one);
        }
    }
    memory_free(r->service->memory, r, round_size(r->count));
}

/* The query, in `space`. */
static struct slice write_checks(const struct service *s, const struct list *requests,
                                 uint32_t checks, uint8_t *space)
{
    struct writer w = writer_make(space, SESSION_CHECKS_BYTES(checks));
    session_checks_begin(&w, core_version(service_core(s)), checks);
    for (const struct list *link = requests->next; link != requests; link = link->next) {
        const struct pending_request *a = LIST_OBJECT(link, struct pending_request, link);
        if (a->is_checked) {
            session_checks_put(&w, &(struct session_check){a->lease, a->check.tokens});
        }
    }
    hf_assert(!w.full);
    return slice_make(space, (size_t)(w.at - space));
}

static void round_submit(struct round *r, const struct command *command)
{
    struct service *s = r->service;
    uint8_t *space =
        r->checks == 0 ? NULL : memory_alloc(s->memory, SESSION_CHECKS_BYTES(r->checks));
    if (space != NULL) {
        r->call.look = write_checks(s, &r->requests, r->checks, space);
    }
    s->gateway.submit(s->gateway.ctx, command, &r->call);
    if (space != NULL) {
        memory_free(s->memory, space, SESSION_CHECKS_BYTES(r->checks));
    }
}

/* `requests`: all of one caller. */
static void round_start(struct service *s, struct list *requests, uint32_t count, uint32_t checks)
{
    struct round *r = memory_alloc(s->memory, round_size(count));
    struct command command;
    r->service = s;
    r->count = count;
    r->checks = checks;
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
    round_submit(r, &command);
}

/* One command for the caller of the first; takes its keep-alives from the list. */
static void send_first(struct service *s, struct list *group)
{
    struct caller_id who = LIST_OBJECT(group->next, struct pending_request, link)->who;
    struct list same;
    struct list *next;
    uint32_t count = 0;
    uint32_t checks = 0;
    list_init(&same);
    for (struct list *link = group->next;
         link != group && count < LIMIT_KEEPALIVE_IDS && checks < SESSION_CHECKS_MAX; link = next) {
        const struct pending_request *a = LIST_OBJECT(link, struct pending_request, link);
        next = link->next;
        if (caller_is(a->who, who)) {
            checks += a->is_checked;
            list_append(&same, link);
            count++;
        }
    }
    round_start(s, &same, count, checks);
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
    for (struct list *link = list_take(&s->differing); link != NULL;
         link = list_take(&s->differing)) {
        list_locks(LIST_OBJECT(link, struct pending_request, link));
    }
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
