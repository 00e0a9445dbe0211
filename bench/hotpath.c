/* The hot path of one node without sockets and disks: 64 connections acquire and release fresh
 * names over HTTP/1.1 again and again. Requests are parsed, become commands, are encoded and
 * decoded as on their way through the log, applied in batches of 64, and answered. bench/hotpath.py
 * counts its instructions. */
#include <stdio.h>
#include <stdlib.h>

#include "base/panic.h"
#include "fake_gateway.h"
#include "service/http/http_api.h"

enum { CLIENTS = 64, WARM_ROUNDS = 50, ROUNDS = 100 };

static struct fake_gateway gateway;
static struct service *service;
static struct http_conn *connections[CLIENTS];
static char tokens[CLIENTS][24];

static void on_ready(void *owner) {}

static void request(unsigned client, const char *name, const char *verb, const char *more)
{
    char body[200];
    char request[600];
    int len = snprintf(body, sizeof(body), "{\"client_id\":\"worker-%u\"%s}", client, more);
    len = snprintf(request, sizeof(request),
                   "POST /api/v1/locks/%s/%s HTTP/1.1\r\nHost: localhost:4653\r\n"
                   "Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
                   name, verb, len, body);
    hf_assert(len > 0 && (size_t)len < sizeof(request));
    http_conn_receive(connections[client], slice_make(request, (size_t)len));
}

/* The answer that has come, which must hold `word`; what follows it, up to a comma. */
static void take(unsigned client, const char *word, char out[24])
{
    char text[2000];
    struct slice answer = http_conn_output(connections[client]);
    hf_assert(answer.len > 0 && answer.len < sizeof(text));
    memcpy(text, answer.data, answer.len);
    text[answer.len] = '\0';
    const char *at = strstr(text, word);
    hf_assert(at != NULL);
    at += strlen(word);
    size_t len = strcspn(at, ",}");
    hf_assert(len < 24);
    memcpy(out, at, len);
    out[len] = '\0';
    http_conn_written(connections[client], answer.len);
}

static void settle(void)
{
    while (fake_gateway_deliver(&gateway)) {
        service_run(service);
    }
}

static void run(unsigned first_round, unsigned rounds)
{
    char name[64];
    char more[64];
    char ignored[24];
    for (unsigned round = first_round; round < first_round + rounds; round++) {
        for (unsigned i = 0; i < CLIENTS; i++) {
            snprintf(name, sizeof(name), "bench/%u/%u", round, i);
            request(i, name, "acquire", ",\"ttl_ms\":30000");
        }
        settle();
        for (unsigned i = 0; i < CLIENTS; i++) {
            take(i, "\"fencing_token\":", tokens[i]);
            snprintf(name, sizeof(name), "bench/%u/%u", round, i);
            snprintf(more, sizeof(more), ",\"fencing_token\":%s", tokens[i]);
            request(i, name, "release", more);
        }
        settle();
        for (unsigned i = 0; i < CLIENTS; i++) {
            take(i, "\"released\":true", ignored);
        }
    }
}

/* Has a name, so that callgrind can begin to count here. */
__attribute__((noinline)) static void measured(void)
{
    run(WARM_ROUNDS, ROUNDS);
}

int main(void)
{
    fake_gateway_open(&gateway);
    struct service_options options = {.memory = memory_system(), .gateway = gateway.gateway};
    service = service_new(&options);
    gateway.service = service;
    for (unsigned i = 0; i < CLIENTS; i++) {
        struct http_conn_options client = {.ready = on_ready};
        connections[i] = http_conn_new(service, &client);
    }
    run(0, WARM_ROUNDS);
    measured();
    for (unsigned i = 0; i < CLIENTS; i++) {
        http_conn_close(connections[i]);
    }
    service_free(service);
    fake_gateway_close(&gateway);
    printf("%d pairs\n", CLIENTS * ROUNDS);
    return 0;
}
