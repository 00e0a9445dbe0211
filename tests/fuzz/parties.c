/* The runner of parties.h. */
#include "parties.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTIES = 4, STEPS_MAX = 400 };

struct fake_gateway parties_gateway;
struct service *parties_service;

static const struct parties_transport *transport;
static struct party parties[PARTIES];

_Noreturn void parties_broken(const char *what, const char *text)
{
    fprintf(stderr, "%s: %s: %.500s\n", transport->name, what, text);
    abort();
}

void parties_ignore(void *owner)
{
    (void)owner;
}

static void close_party(struct party *p)
{
    if (p->conn != NULL) {
        transport->close(p->conn);
        p->conn = NULL;
    }
}

void parties_send(struct party *p, const void *data, size_t len)
{
    if (p->conn == NULL) {
        p->conn = transport->open(p, (unsigned)(p - parties));
        p->len = 0;
        p->is_odd = false;
    }
    if (transport->wants_input(p->conn)) {
        transport->receive(p->conn, slice_make(data, len));
    }
}

static void take(struct party *p, size_t most)
{
    struct slice out = transport->output(p->conn);
    size_t now = out.len < most ? out.len : most;
    if (now == 0) {
        return;
    }
    if (p->len + now + 1 > p->size) {
        p->size = (p->len + now + 1) * 2;
        p->got = realloc(p->got, p->size);
        if (p->got == NULL) {
            abort();
        }
    }
    memcpy(p->got + p->len, out.data, now);
    p->len += now;
    p->got[p->len] = '\0';
    transport->written(p->conn, now);
    while (p->len > 0) {
        size_t used = transport->check(p);
        if (used == 0) {
            return;
        }
        p->len -= used;
        memmove(p->got, p->got + used, p->len + 1);
    }
}

static void turn(void)
{
    (void)fake_gateway_deliver(&parties_gateway);
    service_run(parties_service);
    for (size_t i = 0; i < PARTIES; i++) {
        if (parties[i].conn != NULL && transport->is_finished(parties[i].conn)) {
            close_party(&parties[i]);
        }
    }
}

static void fail(uint8_t how)
{
    static const enum hf_error errors[] = {HF_OK, HF_UNAVAILABLE, HF_OUTCOME_UNKNOWN, HF_BUSY};
    parties_gateway.fails = errors[how % 4];
    parties_gateway.does_before = parties_gateway.fails == HF_OUTCOME_UNKNOWN && how % 8 > 3;
}

/* Returns how many bytes the step took. */
static size_t step(const uint8_t *data, size_t size)
{
    struct party *p = &parties[size > 1 ? data[1] % PARTIES : 0];
    uint8_t argument = size > 2 ? data[2] : 0;
    switch (data[0]) {
    case 'q':
        transport->pending(p, argument);
        return 3;
    case 's': {
        size_t len = size > 3 && argument < size - 3 ? argument : (size > 3 ? size - 3 : 0);
        parties_send(p, data + (len > 0 ? 3 : 0), len);
        p->is_odd = true;
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
            transport->end(p->conn);
        }
        return 2;
    case 'p':
        if (!parties_gateway.is_late) {
            fake_gateway_pass(&parties_gateway, (uint64_t)argument * argument);
        }
        return 3;
    case 'h':
        parties_gateway.is_held = !parties_gateway.is_held;
        return 1;
    case 'f':
        fail(argument);
        return 3;
    case 'd':
        service_drain(parties_service);
        return 1;
    default:
        if (!transport->step(data[0]) && !parties_auth_step(data[0])) {
            turn();
        }
        return 1;
    }
}

/* All clients go, the cluster is well again, and time passes. */
static void come_to_rest(void)
{
    fail(0);
    parties_gateway.is_held = false;
    for (size_t i = 0; i < PARTIES; i++) {
        close_party(&parties[i]);
    }
    for (unsigned i = 0; i < transport->rest_turns; i++) {
        turn();
        turn();
        fake_gateway_pass(&parties_gateway, transport->rest_ms);
    }
    turn();
    struct core_stats core;
    struct service_stats service;
    core_stats(parties_gateway.core, &core);
    service_stats(parties_service, &service);
    transport->check_rest(&core, &service);
    const char *problem = core_check_invariants(parties_gateway.core);
    if (problem != NULL) {
        parties_broken("the core is broken", problem);
    }
}

void parties_run(const struct parties_transport *of, const uint8_t *data, size_t size)
{
    transport = of;
    fake_gateway_open(&parties_gateway);
    struct service_options options = {.server_names = "*",
                                      .memory = memory_system(),
                                      .gateway = parties_gateway.gateway,
                                      .auth = parties_auth,
                                      .event_bytes = 64 << 10};
    if (parties_auth) {
        parties_put_policy();
        parties_watch_submits(&options.gateway);
    }
    parties_service = service_new(&options);
    parties_gateway.service = parties_service;
    for (int steps = 0; size > 0 && steps < STEPS_MAX; steps++) {
        size_t used = step(data, size);
        used = used < size ? used : size;
        data += used;
        size -= used;
    }
    come_to_rest();
    for (size_t i = 0; i < PARTIES; i++) {
        free(parties[i].got);
        parties[i] = (struct party){.conn = NULL};
    }
    service_free(parties_service);
    fake_gateway_close(&parties_gateway);
}
