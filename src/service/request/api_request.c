/* See api_request.h. */
#include "service/request/api_request.h"

#include "service/http/cors.h"
#include "service/request/event_search.h"
#include "service/request/session_names.h"
#include "service/request/watch_event.h"

enum {
    RETRY_AFTER_S = 1,
    KEPT_MAX = 8 << 10,
    SCRATCH_KEPT = 1 << 20, /* bytes; a larger scratch buffer is freed after its answer */
};

void api_request_init(struct api_request *x, struct service *s,
                      const struct api_transport *transport)
{
    x->transport = transport;
    x->service = s;
    x->route = NULL;
    x->name = slice_make(NULL, 0);
    x->id = (struct id){0, 0};
    x->page = (struct list_page){.limit = LIMIT_PAGE};
    x->request_id[0] = '\0';
    x->kept_first = 0;
    x->now = false;
    x->tier = TIER_CORRECTNESS;
    x->ttl_ms = 0;
    x->refused = HF_OK;
    x->status = 0;
    x->refusal = (struct quota_refusal){.limit = 0};
    x->render = NULL;
    x->pending = NULL;
    x->member = 0;
    x->change = NULL;
    x->download = NULL;
    x->search = NULL;
    x->work = NULL;
    x->ready = NULL;
    x->parameters = NULL;
    x->denial = NULL;
    x->page_origin = NULL;
    x->policy = NULL;
    auth_wait_open(&x->wait);
    buffer_init(&x->kept, s->memory, KEPT_MAX);
    x->watcher = (struct watcher){.kind = WATCH_PREFIX, .format = &watch_sse};
    list_init(&x->watcher.link);
}

static void work_free(struct api_request *x)
{
    struct search_work *work = x->work;
    x->work = NULL;
    if (work != NULL) {
        work->free(x, work);
    }
}

void api_request_close(struct api_request *x)
{
    hf_assert(x->pending == NULL && x->change == NULL && x->download == NULL && x->search == NULL);
    hf_assert(list_is_empty(&x->watcher.link) && !auth_is_waiting(&x->wait));
    policy_work_free(x);
    cors_close(x);
    work_free(x);
    if (x->denial != NULL) {
        memory_free(x->service->memory, x->denial, AUTH_TEXT);
        x->denial = NULL;
    }
    buffer_close(&x->kept);
}

static uint32_t retry_after_s(const struct api_request *x, enum hf_error error)
{
    if (error == HF_QUOTA) {
        return (uint32_t)((x->refusal.retry_ms + 999) / 1000);
    }
    return hf_error_http_status(error) == 503 ? RETRY_AFTER_S : 0;
}

static void give(struct api_request *x, int status, struct pending_request *pending,
                 enum hf_error error, const char *message)
{
    struct service *s = x->service;
    if (s->scratch.overflowed) {
        buffer_truncate(&s->scratch, 0);
        error = HF_ANSWER_TOO_LARGE;
        message = hf_error_text(error);
        status = hf_error_http_status(error);
        if (x->transport->is_json) {
            struct json_writer w;
            json_writer_init(&w, &s->scratch);
            json_write_error(&w, error, NULL);
        }
    }
    struct answer answer = {
        .status = status,
        .content_type = "application/json",
        .body = buffer_bytes(&s->scratch),
        .retry_after_s = retry_after_s(x, error),
        .error = error,
        .message = message,
        .pending = pending,
    };
    s->requests++;
    s->grpc_requests += !x->transport->is_json;
    x->transport->answer(x, &answer);
    buffer_truncate(&s->scratch, 0);
    if (s->scratch.capacity > SCRATCH_KEPT) {
        buffer_release(&s->scratch);
    }
}

static void begin_json(struct api_request *x, struct json_writer *w)
{
    buffer_truncate(&x->service->scratch, 0);
    json_writer_init(w, &x->service->scratch);
}

static void give_error(struct api_request *x, struct pending_request *pending, enum hf_error error,
                       const char *message)
{
    struct json_writer w;
    if (message == NULL) {
        message = hf_error_text(error);
    }
    if (error == HF_DENIED) {
        auth_denied(x->service, x->caller.id, message);
    }
    auth_wait_stop(x->service, &x->wait); /* refused before its caller was known */
    begin_json(x, &w);
    if (!x->transport->is_json) {
        give(x, hf_error_http_status(error), pending, error, message);
        return;
    }
    json_write_open(&w, '{');
    json_put_open(&w, "error", '{');
    json_put_text(&w, "code", hf_error_code(error));
    json_put_text(&w, "message", message);
    if (error == HF_OUTCOME_UNKNOWN && x->request_id[0] != '\0') {
        json_put_text(&w, "request_id", x->request_id);
    }
    if (error == HF_QUOTA) {
        json_put_text(&w, "quota", quota_name(x->refusal.quota));
        json_put_u64(&w, "limit", x->refusal.limit);
        json_put_u64(&w, "retry_after_ms", x->refusal.retry_ms);
    }
    json_write_close(&w);
    json_write_close(&w);
    give(x, hf_error_http_status(error), pending, error, message);
}

void api_request_fail(struct api_request *x, enum hf_error error, const char *message)
{
    give_error(x, NULL, error, message);
}

void api_request_fault(struct api_request *x, const struct fault *fault)
{
    give_error(x, NULL, fault->code, fault->text);
}

static void give_quota(struct api_request *x, struct pending_request *pending,
                       const struct quota_refusal *refusal)
{
    char text[AUTH_TEXT];
    x->refusal = *refusal;
    auth_quota_text(service_policy(x->service), x->caller.id.tenant, refusal, text);
    give_error(x, pending, HF_QUOTA, text);
}

void api_request_fail_quota(struct api_request *x, const struct quota_refusal *refusal)
{
    give_quota(x, NULL, refusal);
}

static void give_result(struct api_request *x, struct pending_request *pending, int status,
                        const struct result *result)
{
    struct json_writer w;
    bool is_json = x->transport->is_json;
    char denial[AUTH_TEXT];
    if (result == NULL && !auth_may_render(x, denial)) {
        give_error(x, pending, HF_DENIED, denial);
        return;
    }
    if (result == NULL && !conn_budget_admits_read(&x->service->budget)) {
        give_error(x, pending, HF_BUSY, NULL);
        return;
    }
    x->service->budget.turn_bytes += result == NULL ? CONN_READ_COST : 0;
    begin_json(x, &w);
    if (is_json) {
        json_write_open(&w, '{');
    }
    x->render(x, result, is_json ? &w : NULL);
    if (x->refused != HF_OK) {
        give_error(x, pending, x->refused, NULL);
        return;
    }
    if (is_json) {
        json_write_close(&w);
    }
    give(x, x->status != 0 ? x->status : status, pending, HF_OK, NULL);
}

static const char *wrong_tier_text(const struct api_request *x)
{
    return x->tier == TIER_EFFICIENCY ? "the name is held, waited for or delayed in the tier "
                                        "CORRECTNESS; use that tier, "
                                        "or retry when the name is free"
                                      : "the name is held, waited for or delayed in the tier "
                                        "EFFICIENCY; use that tier, "
                                        "or retry when the name is free";
}

/* The state is as new as the request needs it. */
static void be_ready(struct api_request *x)
{
    void (*ready)(struct api_request * x) = x->ready;
    char denial[AUTH_TEXT];
    x->ready = NULL;
    if (auth_may_render(x, denial)) {
        ready(x);
    } else {
        give_error(x, NULL, HF_DENIED, denial);
    }
}

void api_request_answered(void *owner, enum hf_error error, const struct result *result)
{
    struct api_request *x = owner;
    struct pending_request *pending = x->pending;
    x->pending = NULL;
    if (error == HF_OK && result != NULL) {
        error = result->error;
    }
    if (error == HF_QUOTA) {
        struct quota_refusal refusal = auth_refusal_of(result);
        give_quota(x, pending, &refusal);
    } else if (error != HF_OK) {
        give_error(x, pending, error,
                   error == HF_WRONG_TIER ? wrong_tier_text(x)
                   : error == HF_DENIED   ? x->denial
                                          : NULL);
    } else if (x->ready != NULL) {
        (void)pending_settle(pending);
        be_ready(x);
    } else {
        give_result(x, pending, 200, result);
    }
}

void api_request_answer_json(struct api_request *x, int status, render_fn render)
{
    x->render = render;
    give_result(x, NULL, status, NULL);
}

void api_request_answer_text(struct api_request *x, int status, const char *content_type,
                             struct slice body)
{
    struct answer answer = {.status = status, .content_type = content_type, .body = body};
    x->service->requests++;
    x->transport->answer(x, &answer);
}

void api_request_answer_constant(struct api_request *x, const char *content_type, struct slice body)
{
    struct answer answer = {
        .status = 200, .content_type = content_type, .body = body, .is_constant = true};
    x->service->requests++;
    x->transport->answer(x, &answer);
}

/* The leader decides; the text of a denial needs the command. */
static void keep_denial(struct api_request *x, const struct command *command)
{
    char text[AUTH_TEXT];
    if (x->service->auth == NULL || x->denial != NULL) {
        return;
    }
    auth_denial_of(service_policy(x->service), command, text);
    if (text[0] != '\0') {
        x->denial = memory_alloc(x->service->memory, AUTH_TEXT);
        memcpy(x->denial, text, AUTH_TEXT);
    }
}

void api_request_submit(struct api_request *x, const struct command *command, bool keeps_place,
                        render_fn render)
{
    keep_denial(x, command);
    x->render = render;
    x->pending =
        pending_submit_tier(x->service, command, x->tier, keeps_place, api_request_answered, x);
}

void api_request_cancel(struct api_request *x, const struct command *acquire, render_fn render)
{
    keep_denial(x, acquire);
    x->render = render;
    x->pending = pending_cancel(x->service, acquire, x->tier, api_request_answered, x);
}

void api_request_read(struct api_request *x, render_fn render)
{
    if (x->page.is_stale) {
        api_request_answer_json(x, 200, render);
        return;
    }
    x->render = render;
    x->pending = pending_barrier(x->service, api_request_answered, x);
}

void api_request_read_first(struct api_request *x, void (*ready)(struct api_request *x))
{
    x->ready = ready;
    if (x->page.is_stale) {
        be_ready(x);
    } else {
        x->pending = pending_barrier(x->service, api_request_answered, x);
    }
}

/* Pages of EFFICIENCY follow those of CORRECTNESS, with higher cursors. */
static uint64_t memory_cursor(const struct api_request *x, enum memory_page_kind kind)
{
    if (kind == MEMORY_SESSION_NAMES) {
        return session_names_memory_cursor(x->page.cursor);
    }
    return x->page.cursor < MEMORY_CURSOR ? 0 : x->page.cursor - MEMORY_CURSOR;
}

void api_request_query(struct api_request *x, struct slice query, render_fn render)
{
    x->render = render;
    x->pending = pending_look(x->service, query, api_request_answered, x);
}

static void look(struct api_request *x, enum memory_page_kind kind)
{
    struct service *s = x->service;
    uint8_t bytes[MEMORY_REQUEST_BYTES];
    struct memory_request request = {.version = core_version(service_core(s)),
                                     .kind = kind,
                                     .tenant = x->caller.id.tenant,
                                     .cursor = memory_cursor(x, kind),
                                     .limit = (uint32_t)x->page.limit,
                                     .name = x->name,
                                     .now_ms = service_cluster_ms(s),
                                     .session = x->id};
    struct slice query = slice_make(bytes, memory_request_encode(&request, bytes));
    if (!x->page.is_stale) {
        x->pending = pending_look(s, query, api_request_answered, x);
        return;
    }
    const struct core *core = service_tier_core(s, TIER_EFFICIENCY);
    struct buffer page;
    x->page.is_omitted = core == NULL;
    buffer_init(&page, s->memory, MEMORY_PAGE_BYTES);
    s->looked = memory_page_write(core, query, &page) ? buffer_bytes(&page) : slice_make(NULL, 0);
    if (x->ready != NULL) {
        be_ready(x);
    } else {
        api_request_answer_json(x, 200, x->render);
    }
    s->looked = slice_make(NULL, 0);
    buffer_close(&page);
}

void api_request_look(struct api_request *x, enum memory_page_kind kind, render_fn render)
{
    x->render = render;
    look(x, kind);
}

void api_request_look_first(struct api_request *x, enum memory_page_kind kind,
                            void (*ready)(struct api_request *x))
{
    x->ready = ready;
    look(x, kind);
}

void api_request_abandon(struct api_request *x)
{
    auth_wait_stop(x->service, &x->wait);
    if (x->pending != NULL) {
        pending_abandon(x->pending);
        x->pending = NULL;
    }
    member_abandon(x);
    policy_work_free(x);
    download_abandon(x);
    event_search_abandon(x);
    work_free(x);
    watch_stop(x);
}

void api_request_drain(struct api_request *x)
{
    if (!list_is_empty(&x->watcher.link)) {
        watch_drop(x, HF_UNAVAILABLE, "the node stops");
    } else if (x->download != NULL) {
        download_drain(x);
    } else if (x->pending != NULL && x->pending->may_wait) {
        pending_abandon(x->pending);
        x->pending = NULL;
        give_error(x, NULL, HF_UNAVAILABLE,
                   "the node is stopping; send the request to another node");
    }
}

void api_request_deny(struct api_request *x, const char *why)
{
    if (!list_is_empty(&x->watcher.link)) {
        watch_drop(x, HF_DENIED, why);
    } else if (x->download != NULL) {
        download_drain(x);
    } else {
        api_request_abandon(x);
        x->caller.id.principal = 0; /* not a denied call: it is over */
        give_error(x, NULL, HF_DENIED, why);
    }
}
