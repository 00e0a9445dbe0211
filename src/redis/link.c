/* Connects, greets, reconnects; runs the timer. */
#include "redis/link_state.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "redis/socket.h"

void redis_link_defaults(struct redis_link_options *options)
{
    options->wait_min_ms = 20;
    options->wait_max_ms = 1000;
    options->idle_ms = 2000;
    options->failures = 3;
    options->open_min_ms = 250;
    options->open_max_ms = 4000;
}

uint64_t link_now_ms(const struct redis_link *l)
{
    return uv_now(l->options.net->loop);
}

static void notify_change(struct redis_link *l)
{
    if (l->options.on_change != NULL && !l->closing) {
        l->options.on_change(l->options.ctx);
    }
}

void link_failed(struct redis_link *l, const char *problem)
{
    if (problem != l->view.problem) {
        snprintf(l->view.problem, sizeof(l->view.problem), "%s", problem);
    }
    if (breaker_failed(&l->breaker, link_now_ms(l))) {
        journal_note(l->options.journal, WARN, NODE, "redis_breaker_open",
                     JOURNAL_NUMBER("ms", l->breaker.until_ms - link_now_ms(l)),
                     JOURNAL_TEXT("problem", l->view.problem));
        calls_refuse_waiting(l, "the circuit breaker is open");
        notify_change(l);
    }
}

void link_succeeded(struct redis_link *l)
{
    l->wait_ms = l->options.wait_min_ms;
    if (breaker_succeeded(&l->breaker)) {
        journal_note(l->options.journal, INFO, NODE, "redis_breaker_closed",
                     JOURNAL_NUMBER("answered", l->view.answered));
        notify_change(l);
    }
    if (l->breaker.state == REDIS_CLOSED) {
        l->view.problem[0] = '\0';
    }
}

/* The trial needs a connection. */
static void rest_breaker(struct redis_link *l)
{
    if (l->phase == LINK_UP && breaker_rest(&l->breaker, link_now_ms(l))) {
        journal_note(l->options.journal, INFO, NODE, "redis_breaker_half_open",
                     JOURNAL_NUMBER("failures", l->breaker.failures));
        calls_try(l);
    }
}

static void wait_and_retry(struct redis_link *l)
{
    uint32_t wait = l->wait_ms;
    l->wait_ms = wait > l->options.wait_max_ms / 2 ? l->options.wait_max_ms : wait * 2;
    l->phase = LINK_WAITING;
    /* 50 % to 150 %: nodes do not reconnect in step. */
    l->attempt_ms = link_now_ms(l) + wait / 2 + net_random(l->options.net, wait + 1);
}

void link_lost(struct redis_link *l, const char *problem)
{
    redisAsyncContext *context = l->context;
    bool was_up = l->phase == LINK_UP;
    if (l->closing || l->phase == LINK_WAITING) {
        return;
    }
    /* `problem` may point into the context. */
    snprintf(l->view.problem, sizeof(l->view.problem), "%s", problem);
    l->view.connects_failed += !was_up;
    l->view.up = false;
    l->context = NULL;
    wait_and_retry(l);
    journal_note(l->options.journal, WARN, NODE, was_up ? "redis_lost" : "redis_unreachable",
                 JOURNAL_TEXT("problem", l->view.problem),
                 JOURNAL_NUMBER("retry_ms", l->attempt_ms - link_now_ms(l)));
    link_failed(l, l->view.problem);
    if (context != NULL) {
        redisAsyncFree(context); /* reports REDIS_DOUBT for commands sent on it */
    }
    link_set_timer(l);
    notify_change(l);
}

static void on_connect(const redisAsyncContext *context, int status)
{
    struct redis_link *l = context->data;
    if (l == NULL || l->context != context) {
        return;
    }
    if (status != REDIS_OK) {
        char problem[128];
        snprintf(problem, sizeof(problem), "%s", context->errstr);
        l->context = NULL; /* hiredis frees it after this */
        link_lost(l, problem);
        return;
    }
    l->phase = LINK_GREETING;
    calls_greet(l);
}

static void on_disconnect(const redisAsyncContext *context, int status)
{
    struct redis_link *l = context->data;
    if (l == NULL || l->context != context) {
        return;
    }
    char problem[128];
    snprintf(problem, sizeof(problem), "%s",
             status == REDIS_OK ? "the connection was closed" : context->errstr);
    l->context = NULL;
    link_lost(l, problem);
}

void link_greeted(struct redis_link *l)
{
    hf_assert(l->phase == LINK_GREETING && l->greetings > 0);
    if (--l->greetings > 0) {
        return;
    }
    l->phase = LINK_UP;
    l->view.up = true;
    l->view.connects++;
    char where[ADDRESS_TEXT];
    address_format(&l->options.address, where, sizeof(where));
    journal_note(l->options.journal, INFO, NODE, "redis_connected",
                 JOURNAL_TEXT("to", l->options.path[0] != '\0' ? l->options.path : where));
    rest_breaker(l);
    calls_send_waiting(l);
    notify_change(l);
}

static void connect_to(struct redis_link *l, const char *host)
{
    redisAsyncContext *context = l->options.path[0] != '\0'
                                     ? redisAsyncConnectUnix(l->options.path)
                                     : redisAsyncConnect(host, l->options.address.port);
    l->phase = LINK_CONNECTING;
    if (context == NULL) {
        link_lost(l, "out of memory");
        return;
    }
    context->data = l;
    if (context->err != 0) {
        char problem[128];
        snprintf(problem, sizeof(problem), "%s", context->errstr);
        context->data = NULL;
        redisAsyncFree(context);
        link_lost(l, problem);
        return;
    }
    l->context = context;
    if (!redis_socket_attach(context, l->options.net->loop, l->options.net->memory)) {
        link_lost(l, "the event loop cannot watch the socket");
        return;
    }
    redisAsyncSetConnectCallback(context, on_connect);
    redisAsyncSetDisconnectCallback(context, on_disconnect);
}

static void choose_address(struct redis_link *l, const struct addrinfo *list, char *host,
                           size_t size)
{
    uint32_t count = 0;
    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next) {
        count++;
    }
    uint32_t chosen = count == 0 ? 0 : l->attempts++ % count;
    for (const struct addrinfo *at = list; at != NULL; at = at->ai_next) {
        if (chosen-- == 0) {
            uv_ip_name(at->ai_addr, host, size);
            return;
        }
    }
}

static void on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct redis_link *l = request->data;
    char host[INET6_ADDRSTRLEN] = "";
    l->resolving = false;
    if (l->closing) {
        uv_freeaddrinfo(list);
        link_free_if_done(l);
        return;
    }
    if (status == 0) {
        choose_address(l, list, host, sizeof(host));
    }
    uv_freeaddrinfo(list);
    if (l->phase != LINK_RESOLVING) {
        return; /* the attempt has timed out */
    }
    if (host[0] == '\0') {
        link_lost(l, status != 0 ? uv_strerror(status) : "the name has no address");
    } else {
        connect_to(l, host);
    }
    link_set_timer(l);
}

/* hiredis would block the loop to resolve the name. */
static void attempt(struct redis_link *l)
{
    struct sockaddr_storage number;
    l->attempt_ms = link_now_ms(l) + l->options.timeout_ms;
    if (l->options.path[0] != '\0' || address_is_numeric(&l->options.address, &number)) {
        connect_to(l, l->options.address.host);
        return;
    }
    if (l->resolving) {
        l->phase = LINK_RESOLVING; /* an earlier resolution is running */
        return;
    }
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    l->phase = LINK_RESOLVING;
    l->resolver.data = l;
    int status = uv_getaddrinfo(l->options.net->loop, &l->resolver, on_resolved,
                                l->options.address.host, NULL, &hints);
    if (status != 0) {
        link_lost(l, uv_strerror(status));
        return;
    }
    l->resolving = true;
}

static void on_timer(uv_timer_t *timer)
{
    struct redis_link *l = timer->data;
    if (l->phase == LINK_WAITING && link_now_ms(l) >= l->attempt_ms) {
        attempt(l);
    } else if (l->phase != LINK_WAITING && l->phase != LINK_UP && link_now_ms(l) >= l->attempt_ms) {
        link_lost(l, l->phase == LINK_GREETING ? "no reply to the greeting in time"
                                               : "cannot connect in time");
    }
    calls_on_time(l);
    rest_breaker(l);
    link_set_timer(l);
}

void link_set_timer(struct redis_link *l)
{
    uint64_t due = calls_next_ms(l);
    uint64_t now = link_now_ms(l);
    if (l->closing) {
        return;
    }
    if (l->phase != LINK_UP && l->attempt_ms < due) {
        due = l->attempt_ms;
    }
    if (l->phase == LINK_UP && l->breaker.state == REDIS_OPEN && l->breaker.until_ms < due) {
        due = l->breaker.until_ms;
    }
    if (due == UINT64_MAX) {
        uv_timer_stop(&l->timer);
    } else {
        uv_timer_start(&l->timer, on_timer, due > now ? due - now : 0, 0);
    }
}

struct redis_link *redis_link_new(const struct redis_link_options *options)
{
    hf_assert(options->timeout_ms >= REDIS_TIMEOUT_MIN_MS && options->wait_min_ms > 0);
    hf_assert(options->script_count <= REDIS_SCRIPTS_MAX);
    struct redis_link *l = memory_alloc(options->net->memory, sizeof(*l));
    memset(l, 0, sizeof(*l));
    l->options = *options;
    l->wait_ms = options->wait_min_ms;
    breaker_init(&l->breaker, options->failures, options->open_min_ms, options->open_max_ms);
    list_init(&l->unsent);
    list_init(&l->sent);
    list_init(&l->refused);
    uv_timer_init(options->net->loop, &l->timer);
    l->timer.data = l;
    l->timer_open = true;
    l->attempt_ms = link_now_ms(l);
    link_set_timer(l);
    return l;
}

void link_free_if_done(struct redis_link *l)
{
    if (l->closing && !l->timer_open && !l->resolving) {
        memory_free(l->options.net->memory, l, sizeof(*l));
    }
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct redis_link *l = handle->data;
    l->timer_open = false;
    link_free_if_done(l);
}

void redis_link_close(struct redis_link *l)
{
    if (l == NULL) {
        return;
    }
    l->closing = true;
    if (l->context != NULL) {
        redisAsyncContext *context = l->context;
        l->context = NULL;
        redisAsyncFree(context);
    }
    calls_forget(l);
    if (l->resolving) {
        uv_cancel((uv_req_t *)&l->resolver);
    }
    uv_close((uv_handle_t *)&l->timer, on_timer_closed);
}

bool redis_link_is_usable(const struct redis_link *l)
{
    return l->breaker.state == REDIS_CLOSED;
}

void redis_link_view(const struct redis_link *l, struct redis_link_view *out)
{
    *out = l->view;
    out->breaker = l->breaker.state;
    out->breaker_opened = l->breaker.opened;
}
