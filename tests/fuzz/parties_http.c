/* Arbitrary bytes into connections of the HTTP API (parties.h). Nothing crashes, every answer is
 * well-formed, and when all clients are gone nobody is left waiting on their behalf.
 *
 * Its own steps: g, this node is gone for the core; x, the core's state is replaced. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parties.h"
#include "service/http/http_api.h"

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
    "POST /api/v1/fence/reset|{\"resource\":\"n\",\"actor_id\":\"a\",\"reason\":\"r\"}",
    "GET /api/v1/audit|",
    "GET /api/v1/watch?list=true|",
    "GET /api/v1/watch?last_event_id=1-0|",
    "GET /api/v1/watch?session_id=1d1d1d1d000000019e3779b97f4a7c15|",
    "GET /api/v1/elections/n/observe|",
    "GET /api/v1/cluster|",
    "GET /readyz?verbose|",
    "GET /api/v1/auth/whoami|",
    "GET /api/v1/auth/policy|",
    "POST /api/v1/auth/tokens|{\"principal\":\"default/app\",\"description\":\"d\"}",
    "LOCK /integrations/terraform/n|{\"ID\":\"i\",\"Who\":\"w\"}",
    "LOCK /integrations/terraform/n|{\"ID\":\"j\"}",
    "UNLOCK /integrations/terraform/n|{\"ID\":\"i\"}",
    "UNLOCK /integrations/terraform/n|",
};

/* ---- answers ---- */

/* The length of a complete answer at the front, 0 when there is none, or of a stream's head. */
static size_t check_answer(struct party *p)
{
    if (p->is_odd) {
        return p->len;
    }
    char *end = strstr(p->got, "\r\n\r\n");
    if (end == NULL) {
        return 0;
    }
    size_t head = (size_t)(end + 4 - p->got);
    if (strncmp(p->got, "HTTP/1.1 ", 9) != 0) {
        parties_broken("no status line", p->got);
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
        parties_broken("no length", p->got);
    }
    if (p->len < head + body) {
        return 0;
    }
    json_t *json = is_json ? json_loadb(p->got + head, body, JSON_REJECT_DUPLICATES, NULL) : NULL;
    if (is_json && json == NULL) {
        parties_broken("no JSON", p->got);
    }
    json_decref(json);
    return head + body;
}

/* ---- the transport ---- */

PARTIES_CONN(http)

static void *open_conn(struct party *p, unsigned number)
{
    (void)number;
    struct http_conn_options options = {.owner = p, .ready = parties_ignore, .is_operator = true};
    return http_conn_new(parties_service, &options);
}

static void pending(struct party *p, uint8_t which)
{
    const char *request = requests[which % (sizeof(requests) / sizeof(requests[0]))];
    const char *bar = strchr(request, '|');
    static const char *const tokens[] = {"", "Authorization: Bearer t-app\r\n",
                                         "Authorization: Bearer t-read\r\n",
                                         "Authorization: Bearer t-root\r\n"};
    char text[500];
    int len =
        snprintf(text, sizeof(text), "%.*s HTTP/1.1\r\nHost: t\r\n%sContent-Length: %zu\r\n\r\n%s",
                 (int)(bar - request), request, tokens[parties_auth ? which >> 6 : 0],
                 strlen(bar + 1), bar + 1);
    parties_send(p, text, (size_t)len);
}

static bool step(uint8_t letter)
{
    struct command command;
    struct result result;
    switch (letter) {
    case 'g':
        command_init(&command, COMMAND_NODE_GONE);
        command.node_gone.node = 1;
        fake_gateway_apply(&parties_gateway, &command, &result);
        return true;
    case 'x':
        service_state_replaced(parties_service);
        return true;
    default:
        return false;
    }
}

static void check_rest(const struct core_stats *core, const struct service_stats *service)
{
    if (service->waiting != 0 || service->streams != 0 || service->connections != 0) {
        parties_broken("something waits", "in the service");
    }
    if (core->waiters != 0) { /* those of sessions have ended with them, others were detached */
        parties_broken("somebody waits", "in the core");
    }
}

const struct parties_transport parties_http = {
    .name = "http",
    .open = open_conn,
    .receive = http_receive,
    .wants_input = http_wants_input,
    .end = http_end,
    .output = http_output,
    .written = http_written,
    .is_finished = http_is_finished,
    .close = http_close,
    .check = check_answer,
    .pending = pending,
    .step = step,
    .check_rest = check_rest,
    .rest_turns = 60,
    .rest_ms = 1000,
    .set_peer = http_set_peer,
};
