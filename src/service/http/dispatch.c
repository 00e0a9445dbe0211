/* From the target of a request to its handler: whether this host and origin may send it, files and pages without
 * a route, the rights that the route needs, the variable of its path and the parameters of lists. */
#include "service/http/cors.h"
#include "service/http/host.h"
#include "service/http/reply.h"
#include "service/http/router.h"
#include "service/request/api_request.h"

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
        json_writer_init(&w, &s->scratch);
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
