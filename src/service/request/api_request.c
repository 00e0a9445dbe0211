/* See api_request.h. */
#include "service/request/api_request.h"

#include "service/http/cors.h"
#include "service/http/host.h"
#include "service/http/reply.h"
#include "service/http/router.h"
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

/* Refuses writes that a web page of another origin sends through a user's browser (CSRF).
 * Holdfast's own pages have the origin of this host or of a member. */
static bool is_cross_origin(const struct api_request *x)
{
    if (x->origin.len == 0 || x->page_origin != NULL || x->method == HTTP_GET ||
        x->method == HTTP_HEAD) {
        return false;
    }
    for (size_t i = 0; i + 3 <= x->origin.len; i++) {
        if (memcmp(x->origin.data + i, "://", 3) == 0) {
            struct slice host = slice_make(x->origin.data + i + 3, x->origin.len - i - 3);
            return !slice_equal(host, x->host);
        }
    }
    return true;
}

static void answer_asset(struct api_request *x, const struct service_asset *asset)
{
    char policy[CORS_POLICY_MAX];
    struct http1_extra extra[CORS_PAGE_HEADERS];
    struct answer answer = {.status = 200,
                            .content_type = asset->content_type,
                            .body = asset->body,
                            .is_constant = true,
                            .extra = extra};
    if (!conn_budget_admits_read(&x->service->budget)) {
        api_request_fail(x, HF_BUSY, NULL);
        return;
    }
    answer.extra_count = cors_page_headers(x->service, policy, extra);
    x->service->requests++;
    x->transport->answer(x, &answer);
}

static bool find_asset(const struct api_request *x, struct service_asset *out)
{
    const struct service_options *o = &x->service->options;
    bool is_get = x->method == HTTP_GET || x->method == HTTP_HEAD;
    return is_get && o->asset != NULL && o->asset(x->path, out);
}

static void answer_without_route(struct api_request *x, const char *allow)
{
    struct service *s = x->service;
    const char *content_type = NULL;
    bool is_get = x->method == HTTP_GET || x->method == HTTP_HEAD;
    buffer_truncate(&s->scratch, 0);
    if (allow[0] != '\0' && x->method == HTTP_OPTIONS) {
        struct answer answer = {.status = 204, .allow = allow};
        s->requests++;
        x->transport->answer(x, &answer);
    } else if (allow[0] != '\0') {
        struct json_writer w;
        begin_json(x, &w);
        json_write_error(&w, HF_METHOD_NOT_ALLOWED, NULL);
        struct answer answer = {.status = 405,
                                .content_type = "application/json",
                                .body = buffer_bytes(&s->scratch),
                                .allow = allow};
        s->requests++;
        x->transport->answer(x, &answer);
    } else if (is_get && !conn_budget_admits_read(&s->budget)) {
        api_request_fail(x, HF_BUSY, NULL);
    } else if (is_get && s->options.page != NULL &&
               s->options.page(s->options.page_ctx, x->path, &s->scratch, &content_type)) {
        s->budget.turn_bytes += CONN_PAGE_COST;
        api_request_answer_text(x, 200, content_type, buffer_bytes(&s->scratch));
    } else {
        api_request_fail(x, HF_NOT_FOUND, NULL);
    }
    buffer_truncate(&s->scratch, 0);
}

static bool parse_member(struct slice text, uint64_t *out)
{
    uint64_t id = 0;
    for (size_t i = 0; i < text.len && id <= UINT32_MAX; i++) {
        unsigned digit = text.data[i] - (unsigned)'0';
        if (digit > 9) {
            return false;
        }
        id = id * 10 + digit;
    }
    *out = id;
    return id >= 1 && id <= UINT32_MAX;
}

static enum hf_error read_variable(struct api_request *x, struct slice variable,
                                   struct fault *fault)
{
    if (x->route->kind == ROUTE_NAME) {
        enum hf_error error = uri_decode_name(variable, x->name_bytes, &x->name);
        return error == HF_OK ? HF_OK : fault_set(fault, error, "%s", hf_error_text(error));
    }
    if (x->route->kind == ROUTE_ID && !reply_parse_id(variable, &x->id)) {
        return fault_set(fault, HF_INVALID_ID, "the id in the path: must be %d hexadecimal digits",
                         REPLY_ID);
    }
    if (x->route->kind == ROUTE_MEMBER && !parse_member(variable, &x->member)) {
        return fault_set(fault, HF_INVALID_ID, "the id in the path: must be a number from 1 to %u",
                         UINT32_MAX);
    }
    return HF_OK;
}

static enum hf_error read_flag(struct api_request *x, const char *key, bool *out,
                               struct fault *fault)
{
    struct slice text;
    if (!uri_query_text(x->parameters, key, &text)) {
        return HF_OK;
    }
    *out = text.len == 0 || slice_is_word(text, "true") || slice_equal(text, slice_of("1"));
    if (!*out && !slice_is_word(text, "false") && !slice_equal(text, slice_of("0"))) {
        return fault_set(fault, HF_FIELD_TYPE, "%s: must be true or false", key);
    }
    return HF_OK;
}

/* Its handler reads the cursor: a position in the event log. */
static bool is_log_search(const struct route *route)
{
    const char *const *name = route->parameters;
    while (*name != NULL && strcmp(*name, "until") != 0) {
        name++;
    }
    return *name != NULL;
}

/* Parameters of lists and reads. */
static enum hf_error read_page(struct api_request *x, struct fault *fault)
{
    struct list_page *p = &x->page;
    enum hf_error error =
        uri_query_number(x->parameters, "limit", 1, LIMIT_PAGE_MAX, &p->limit, fault);
    if (error == HF_OK && !is_log_search(x->route)) {
        error = uri_query_number(x->parameters, "cursor", 0, PAGE_CURSOR_MAX, &p->cursor, fault);
    }
    if (error == HF_OK) {
        error = read_flag(x, "stale", &p->is_stale, fault);
    }
    if (error == HF_OK) {
        error = read_flag(x, "private", &p->is_private, fault);
    }
    if (error == HF_OK) {
        error = read_flag(x, "no_ttl", &p->is_no_ttl, fault);
    }
    struct slice prefix;
    if (error == HF_OK && uri_query_text(x->parameters, "prefix", &prefix)) {
        if (prefix.len > LIMIT_NAME) {
            return fault_set(fault, HF_FIELD_RANGE, "prefix: must be at most %d bytes", LIMIT_NAME);
        }
        if (prefix.len > 0) {
            memcpy(x->name_bytes, prefix.data, prefix.len);
        }
        x->name = slice_make(x->name_bytes, prefix.len);
    }
    return error;
}

static enum hf_error read_target(struct api_request *x, struct slice variable, uint8_t *decoded,
                                 struct uri_query *query, struct fault *fault)
{
    static const char *const none[] = {NULL};
    enum hf_error error = read_variable(x, variable, fault);
    query->count = 0;
    x->parameters = query;
    if (x->query.len == 0 || error != HF_OK) {
        return error;
    }
    error = uri_query_parse(x->query, decoded, query, fault);
    if (error == HF_OK) {
        error = uri_query_known(query, x->route->parameters == NULL ? none : x->route->parameters,
                                fault);
    }
    return error == HF_OK && query->count > 0 ? read_page(x, fault) : error;
}

bool api_request_is_known(struct api_request *x)
{
    struct slice variable;
    char allow[ROUTER_ALLOW];
    return router_find(x->method, x->path, &variable, allow) != NULL;
}

void api_request_begin(struct api_request *x)
{
    struct slice variable;
    char allow[ROUTER_ALLOW];
    if (!host_is_served(x->host, x->service->options.server_names)) {
        api_request_fail(x, HF_MISDIRECTED, NULL);
        return;
    }
    cors_note_origin(x);
    if (is_cross_origin(x)) {
        api_request_fail(x, HF_CROSS_ORIGIN, NULL);
        return;
    }
    x->route = router_find(x->method, x->path, &variable, allow);
    struct service_asset asset;
    if (x->route == NULL && allow[0] == '\0' && find_asset(x, &asset)) {
        answer_asset(x, &asset);
        return;
    }
    /* The pages are those of operators. */
    if (!auth_admit(x, x->route != NULL   ? x->route->need
                       : allow[0] != '\0' ? NEED_NOTHING
                                          : NEED_CLUSTER_READ)) {
        return;
    }
    if (x->route == NULL) {
        answer_without_route(x, allow);
        return;
    }
    uint8_t decoded[LIMIT_HTTP_LINE];
    struct uri_query query;
    struct fault fault;
    if (x->query.len > sizeof(decoded)) {
        api_request_fail(x, HF_LINE_TOO_LONG, NULL);
    } else if (read_target(x, variable, decoded, &query, &fault) != HF_OK) {
        api_request_fault(x, &fault);
    } else {
        x->route->handle(x);
    }
    x->parameters = NULL;
}
