/* Arbitrary bytes into connections, with a cluster behind them that fails, holds back and forgets
 * as the input says. Nothing crashes, every answer is well-formed, and when all clients are gone
 * nobody is left waiting on their behalf.
 *
 * The input is a script. Each step is a letter and what it needs; connections are numbered 0 to 3.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/view.h"
#include "fake_gateway.h"
#include "service/http_api.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CONNECTIONS = 4, STEPS_MAX = 400 };

struct party {
    struct http_conn *conn;
    bool is_odd; /* gets a stream, or sent what may be a HEAD, whose answer has no body */
    char *got;
    size_t len;
    size_t size;
};

static struct fake_gateway gateway;
static struct service *service;
static struct party parties[CONNECTIONS];

/* What a script would take long to find. */
static const char *const requests[] = {
    "POST /api/v1/locks/n/acquire|{\"client_id\":\"a\"}",
    "POST /api/v1/locks/n/acquire|{\"client_id\":\"b\",\"wait_timeout_ms\":-1}",
    "POST /api/v1/locks/n/acquire|{\"client_id\":\"c\",\"wait_timeout_ms\":3000,\"ttl_ms\":1000}",
    "POST "
    "/api/v1/locks/n/acquire|{\"client_id\":\"d\",\"wait_timeout_ms\":60000,\"request_id\":\"r\"}",
    "POST /api/v1/locks/n/release|{\"client_id\":\"a\",\"fencing_token\":2048}",
    "POST /api/v1/locks/n/release|{\"client_id\":\"b\",\"fencing_token\":3072}",
    "POST /api/v1/locks/n/renew|{\"client_id\":\"a\",\"fencing_token\":2048}",
    "POST "
    "/api/v1/multilock/"
    "acquire|{\"client_id\":\"e\",\"names\":[\"m\",\"n\"],\"wait_timeout_ms\":5000}",
    "POST /api/v1/locks/n/force-unlock|{\"actor_id\":\"o\",\"reason\":\"r\",\"now\":true}",
    "POST /api/v1/locks/n/revoke|{\"actor_id\":\"o\",\"reason\":\"r\",\"deadline_ms\":500}",
    "POST /api/v1/sessions|{\"client_id\":\"s\",\"ttl_ms\":2000,\"linger_ms\":100}",
    "POST /api/v1/sessions/1d1d1d1d000000019e3779b97f4a7c15/keepalive|",
    "POST "
    "/api/v1/locks/n/"
    "acquire|{\"session_id\":\"1d1d1d1d000000019e3779b97f4a7c15\",\"wait_timeout_ms\":-1}",
    "DELETE /api/v1/sessions/1d1d1d1d000000019e3779b97f4a7c15|",
    "POST "
    "/api/v1/elections/n/campaign|{\"client_id\":\"f\",\"value\":\"v\",\"wait_timeout_ms\":100}",
    "POST /api/v1/fence/check|{\"resource\":\"n\",\"fencing_token\":5}",
    "POST /v1/locks/acquire|{\"resource\":\"m\",\"ownerId\":\"g\",\"ttlSeconds\":2}",
    "GET /api/v1/locks?prefix=n|",
    "GET /api/v1/locks/n|",
    "GET /api/v1/sessions?private=true|",
    "GET /api/v1/audit|",
    "GET /api/v1/watch?list=true|",
    "GET /api/v1/watch?last_event_id=1-0|",
    "GET /api/v1/watch?session_id=1d1d1d1d000000019e3779b97f4a7c15|",
    "GET /api/v1/elections/n/observe|",
    "GET /api/v1/cluster|",
    "GET /readyz?verbose|",
};

static void broken(const char *what, const char *text)
{
    fprintf(stderr, "fuzz_service: %s: %s\n", what, text);
    abort();
}

/* ---- answers ---- */

/* The length of a complete answer at the front, 0 when there is none, or of a stream's head. */
static size_t check_answer(struct party *p)
{
    char *end = strstr(p->got, "\r\n\r\n");
    if (end == NULL) {
        return 0;
    }
    size_t head = (size_t)(end + 4 - p->got);
    if (strncmp(p->got, "HTTP/1.1 ", 9) != 0) {
        broken("no status line", p->got);
    }
    char saved = p->got[head];
    p->got[head] = '\0';
    const char *length = strstr(p->got, "Content-Length: ");
    bool is_json = strstr(p->got, "Content-Type: application/json\r\n") != NULL;
    bool is_stream = strstr(p->got, "text/event-stream") != NULL && length == NULL;
    bool is_interim = strncmp(p->got + 9, "100", 3) == 0 || strncmp(p->got + 9, "204", 3) == 0;
    p->got[head] = saved;
    if (is_stream) {
        p->is_odd = true; /* the rest belongs to it */
        return p->len;
    }
    size_t body = length == NULL ? 0 : strtoul(length + 16, NULL, 10);
    if (length == NULL && !is_interim) {
        broken("no length", p->got);
    }
    if (p->len < head + body) {
        return 0;
    }
    json_t *json = is_json ? json_loadb(p->got + head, body, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (is_json && json == NULL) {
        broken("no JSON", p->got);
    }
    json_decref(json);
    return head + body;
}

static void take(struct party *p, size_t max)
{
    struct slice out = http_conn_output(p->conn);
    size_t now = out.len < max ? out.len : max;
    if (now == 0) {
        return;
    }
    if (p->len + now + 1 > p->size) {
        p->size = (p->len + now + 1) * 2;
        p->got = realloc(p->got, p->size);
    }
    memcpy(p->got + p->len, out.data, now);
    p->len += now;
    p->got[p->len] = '\0';
    http_conn_written(p->conn, now);
    size_t used = p->is_odd ? p->len : check_answer(p);
    while (used > 0) {
        p->len -= used;
        memmove(p->got, p->got + used, p->len + 1);
        used = p->len > 0 ? check_answer(p) : 0;
    }
}

/* ---- steps ---- */

static void on_ready(void *owner)
{
    (void)owner;
}

static void open_party(struct party *p)
{
    struct http_conn_options options = {.owner = p, .ready = on_ready, .is_operator = true};
    p->conn = http_conn_new(service, &options);
    p->len = 0;
    p->is_odd = false;
}

static void close_party(struct party *p)
{
    if (p->conn != NULL) {
        http_conn_close(p->conn);
        p->conn = NULL;
    }
}

static void send_to(struct party *p, const void *data, size_t len)
{
    if (p->conn == NULL) {
        open_party(p);
    }
    if (http_conn_wants_input(p->conn)) {
        http_conn_receive(p->conn, slice_make(data, len));
    }
}

static void send_request(struct party *p, const char *request)
{
    const char *bar = strchr(request, '|');
    char text[500];
    int len =
        snprintf(text, sizeof(text), "%.*s HTTP/1.1\r\nHost: t\r\nContent-Length: %zu\r\n\r\n%s",
                 (int)(bar - request), request, strlen(bar + 1), bar + 1);
    send_to(p, text, (size_t)len);
}

static void run(void)
{
    (void)fake_gateway_deliver(&gateway);
    service_run(service);
    for (size_t i = 0; i < CONNECTIONS; i++) {
        if (parties[i].conn != NULL && http_conn_is_finished(parties[i].conn)) {
            close_party(&parties[i]);
        }
    }
}

/* Returns how many bytes the step took. */
static size_t step(const uint8_t *data, size_t size)
{
    struct party *p = &parties[size > 1 ? data[1] % CONNECTIONS : 0];
    uint8_t argument = size > 2 ? data[2] : 0;
    switch (data[0]) {
    case 'q':
        send_request(p, requests[argument % (sizeof(requests) / sizeof(requests[0]))]);
        return 3;
    case 's': {
        size_t len = size > 3 && argument < size - 3 ? argument : (size > 3 ? size - 3 : 0);
        p->is_odd = true;
        send_to(p, data + (len > 0 ? 3 : 0), len);
        return 3 + len;
    }
    case 't':
        if (p->conn != NULL) {
            take(p, argument < 200 ? argument : SIZE_MAX);
        }
        return 3;
    case 'c':
        close_party(p);
        return 2;
    case 'e':
        if (p->conn != NULL) {
            http_conn_end(p->conn);
        }
        return 2;
    case 'p':
        if (!gateway.is_late) {
            fake_gateway_pass(&gateway, (uint64_t)argument * argument);
        }
        return 3;
    case 'h':
        gateway.is_held = !gateway.is_held;
        return 1;
    case 'f':
        gateway.fails = argument % 4 == 0   ? HF_OK
                        : argument % 4 == 1 ? HF_UNAVAILABLE
                        : argument % 4 == 2 ? HF_OUTCOME_UNKNOWN
                                            : HF_BUSY;
        gateway.does_before = gateway.fails == HF_OUTCOME_UNKNOWN && argument % 8 > 3;
        return 3;
    case 'g': {
        struct command command;
        struct result result;
        command_init(&command, COMMAND_NODE_GONE);
        command.node_gone.node = 1;
        fake_gateway_apply(&gateway, &command, &result);
        return 1;
    }
    case 'x':
        service_state_replaced(service);
        return 1;
    case 'd':
        service_drain(service);
        return 1;
    default:
        run();
        return 1;
    }
}

static void settle(void)
{
    gateway.is_held = false;
    gateway.fails = HF_OK;
    gateway.does_before = false;
    for (size_t i = 0; i < CONNECTIONS; i++) {
        close_party(&parties[i]);
    }
    for (int i = 0; i < 60; i++) {
        run();
        run();
        fake_gateway_pass(&gateway, 1000);
    }
    run();
    struct core_stats stats;
    struct service_stats left;
    core_stats(gateway.core, &stats);
    service_stats(service, &left);
    if (left.waiting != 0 || left.streams != 0 || left.connections != 0) {
        broken("something waits", "in the service");
    }
    if (stats.waiters != 0) { /* those of sessions have ended with them, others were detached */
        broken("somebody waits", "in the core");
    }
    const char *problem = core_check_invariants(gateway.core);
    if (problem != NULL) {
        broken("the core is broken", problem);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fake_gateway_open(&gateway);
    struct service_options options = {
        .memory = memory_system(), .gateway = gateway.gateway, .event_bytes = 64 << 10};
    service = service_new(&options);
    gateway.service = service;
    for (int steps = 0; size > 0 && steps < STEPS_MAX; steps++) {
        size_t used = step(data, size);
        used = used < size ? used : size;
        data += used;
        size -= used;
    }
    settle();
    for (size_t i = 0; i < CONNECTIONS; i++) {
        free(parties[i].got);
        parties[i] = (struct party){.conn = NULL};
    }
    service_free(service);
    fake_gateway_close(&gateway);
    return 0;
}
