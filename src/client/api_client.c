/* Public functions of clients and observers of elections. */
#include <stdio.h>

#include "base/text.h"
#include "client/client.h"

int hf_client_wait_ready(hf_client *c, uint32_t timeout_ms)
{
    int error = client_enter(c, true);
    if (error != 0) {
        return error;
    }
    struct hf_call *ticket = ticket_new(c);
    client_engine_ready(&c->client_engine, ticket, timeout_ms, client_now_ms());
    error = client_wait(c, ticket, NULL, NULL);
    client_leave(c);
    return error;
}

int hf_client_stats(hf_client *c, struct hf_client_stats *out)
{
    if (out == NULL || out->size < sizeof(size_t)) {
        return error_set(HF_ERR_INVALID, "hf_client_stats.size is not set");
    }
    int error = client_enter(c, false);
    if (error != 0) {
        return error;
    }
    const struct client_engine *e = &c->client_engine;
    struct hf_client_stats s = {.size = out->size,
                                .calls = e->stat_calls,
                                .retries = e->stat_retries,
                                .reconnects = e->stat_reconnects == 0 ? 0 : e->stat_reconnects - 1,
                                .keepalives = e->stat_keepalives,
                                .is_connected = e->current >= 0,
                                .circuit_open = client_engine_circuit_is_open(e),
                                .epoch = e->session.epoch};
    for (const struct list *at = e->locks.next; at != &e->locks; at = at->next) {
        s.locks++;
    }
    if (e->current >= 0) {
        snprintf(s.endpoint, sizeof(s.endpoint), "%.127s",
                 e->endpoints.at[e->links[e->current].endpoint].text);
    }
    snprintf(s.session_id, sizeof(s.session_id), "%s", e->session.id);
    client_leave(c);
    memcpy(out, &s, s.size < sizeof(s) ? s.size : sizeof(s));
    return 0;
}

int hf_client_pollfds(hf_client *c, struct pollfd *fds, unsigned max, int *timeout_ms)
{
    if (client_enter(c, false) != 0) {
        return 0;
    }
    int count = io_pollfds(c, fds, max);
    int64_t next_ms = client_engine_next_ms(&c->client_engine);
    *timeout_ms = -1;
    if (!list_is_empty(&c->client_engine.notifications)) {
        *timeout_ms = 0;
    } else if (next_ms != NEVER_MS) {
        int64_t left_ms = life_left(next_ms, client_now_ms());
        *timeout_ms = (int)(left_ms < INT32_MAX ? left_ms : INT32_MAX);
    }
    client_leave(c);
    return count;
}

void hf_client_process(hf_client *c)
{
    if (client_enter(c, false) != 0) {
        return;
    }
    if (!c->has_thread && !c->is_driven) {
        client_turn(c, 0);
    }
    client_leave(c);
}

int hf_observe(hf_client *c, const char *name, hf_leader_fn changed, void *arg, hf_call **out)
{
    if (name == NULL || !text_is_name(slice_of(name)) || changed == NULL) {
        return error_set(HF_ERR_INVALID, "hf_observe needs a name and a callback");
    }
    int error = client_enter(c, false);
    if (error != 0) {
        return error;
    }
    struct hf_call *ticket = ticket_new(c);
    ticket->changed = changed;
    ticket->arg = arg;
    client_engine_observe(&c->client_engine, name, ticket, client_now_ms());
    if (out != NULL) {
        *out = ticket;
    }
    client_kick(c);
    client_leave(c);
    return 0;
}

void hf_call_cancel(hf_call *ticket)
{
    if (ticket == NULL || client_enter(ticket->client, false) != 0) {
        return;
    }
    struct hf_client *c = ticket->client;
    ticket->is_cancelled = true;
    client_engine_cancel(&c->client_engine, ticket, client_now_ms());
    client_kick(c);
    client_leave(c);
}
