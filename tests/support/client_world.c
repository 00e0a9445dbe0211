/* See client_world.h. */
#include "client_world.h"

#include <stdio.h>
#include <stdlib.h>

void world_init(struct client_world *w)
{
    memset(w, 0, sizeof(*w));
    w->now_ms = 1000000;
    for (int i = 0; i < WORLD_NODES; i++) {
        fake_init(&w->nodes[i]);
        w->nodes[i].token += (uint64_t)i; /* no token comes twice, whoever gives it */
    }
    snprintf(w->options.client_id, sizeof(w->options.client_id), "test");
    w->options.session_ttl_ms = 30000;
    w->options.call_timeout_ms = 5000;
    w->options.connect_timeout_ms = 1000;
}

void world_begin(struct client_world *w, const char *endpoints)
{
    const uint64_t seed[2] = {42, 0xfeed};
    hf_assert(client_engine_init(&w->client_engine, &w->options, endpoints, seed, w->now_ms) ==
              NULL);
    w->is_begun = true;
    client_engine_go(&w->client_engine, w->now_ms);
    world_settle(w);
}

void world_close(struct client_world *w)
{
    if (w->is_begun) {
        client_engine_cancel_all(&w->client_engine, w->now_ms);
        client_engine_close(&w->client_engine);
    }
    for (int i = 0; i < WORLD_NODES; i++) {
        fake_close(&w->nodes[i]);
    }
}

/* ---- bytes ---- */

static void hang_up(struct client_world *w, unsigned i)
{
    if (w->sockets[i].conn != NULL) {
        fake_conn_free(w->sockets[i].conn);
        w->sockets[i].conn = NULL;
    }
}

static bool follow(struct client_world *w, unsigned i)
{
    struct world_socket *s = &w->sockets[i];
    const struct link *link = &w->client_engine.links[i];
    if (s->generation == link->generation) {
        return false;
    }
    hang_up(w, i);
    s->generation = link->generation;
    if (link->state != LINK_DIALING) {
        return true;
    }
    s->node = w->client_engine.endpoints.at[link->endpoint].address.host[1] - '0';
    hf_assert(s->node >= 0 && s->node < WORLD_NODES);
    w->dials[s->node]++;
    if (w->refuses[s->node]) {
        client_engine_broken(&w->client_engine, i, "connection refused", w->now_ms);
    } else {
        s->conn = fake_conn_new(&w->nodes[s->node]);
        client_engine_connected(&w->client_engine, i, "", w->now_ms);
    }
    return true;
}

static bool send_out(struct client_world *w, unsigned i)
{
    struct world_socket *s = &w->sockets[i];
    struct link *link = &w->client_engine.links[i];
    if (s->conn == NULL || buffer_len(&link->out) == 0 || w->stalls_out[s->node]) {
        return false;
    }
    w->nodes[s->node].now_ms = w->now_ms;
    bool is_well = fake_conn_input(s->conn, buffer_bytes(&link->out));
    buffer_consume(&link->out, buffer_len(&link->out));
    link_flush(link);
    if (!is_well) {
        hang_up(w, i);
        client_engine_broken(&w->client_engine, i, "connection reset", w->now_ms);
    }
    return true;
}

static bool take_in(struct client_world *w, unsigned i)
{
    struct world_socket *s = &w->sockets[i];
    struct buffer in;
    if (s->conn == NULL || w->stalls_in[s->node]) {
        return false;
    }
    buffer_init(&in, memory_system(), 4 << 20);
    fake_conn_output(s->conn, &in);
    bool is_some = buffer_len(&in) > 0;
    if (is_some) {
        client_engine_input(&w->client_engine, i, buffer_bytes(&in), w->now_ms);
    }
    buffer_close(&in);
    return is_some;
}

void world_settle(struct client_world *w)
{
    bool moves = true;
    for (unsigned times = 0; moves; times++) {
        hf_assert(times < 10000); /* they talk without end */
        moves = false;
        for (unsigned i = 0; i < ENGINE_LINKS; i++) {
            moves = follow(w, i) || moves;
            moves = send_out(w, i) || moves;
            moves = (w->sockets[i].generation == w->client_engine.links[i].generation &&
                     take_in(w, i)) ||
                    moves;
        }
    }
}

void world_run(struct client_world *w, int64_t ms)
{
    int64_t until_ms = w->now_ms + ms;
    world_settle(w);
    for (unsigned times = 0;; times++) {
        hf_assert(times < 100000); /* it would spin */
        int64_t next_ms = client_engine_next_ms(&w->client_engine);
        if (next_ms > until_ms) {
            break;
        }
        w->now_ms = next_ms > w->now_ms ? next_ms : w->now_ms;
        client_engine_go(&w->client_engine, w->now_ms);
        world_settle(w);
    }
    w->now_ms = until_ms;
    client_engine_go(&w->client_engine, w->now_ms);
    world_settle(w);
}

void world_kill(struct client_world *w, int node)
{
    w->refuses[node] = true;
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        if (w->sockets[i].conn != NULL && w->sockets[i].node == node) {
            hang_up(w, i);
            client_engine_broken(&w->client_engine, i, "connection reset", w->now_ms);
        }
    }
    world_settle(w);
}

void world_start(struct client_world *w, int node)
{
    w->refuses[node] = false;
}

int world_current(const struct client_world *w)
{
    return w->client_engine.current < 0 ? -1 : w->sockets[w->client_engine.current].node;
}

/* ---- calls and notifications ---- */

struct hf_call *world_acquire(struct client_world *w, const char *name,
                              const struct hf_lock_options *o)
{
    struct hf_lock_options none = HF_LOCK_OPTIONS;
    struct hf_call *ticket = ticket_new(NULL);
    struct hf_lock *lock = client_lock_new(&name, 1, o != NULL ? o : &none, "{}");
    client_engine_acquire(&w->client_engine, lock, ticket, w->now_ms);
    world_settle(w);
    return ticket;
}

struct hf_call *world_release(struct client_world *w, struct hf_lock *lock)
{
    struct hf_call *ticket = ticket_new(NULL);
    int error = client_engine_release(&w->client_engine, lock, ticket, w->now_ms);
    if (error != 0) {
        ticket->error = error;
        ticket->is_done = true;
    }
    world_settle(w);
    return ticket;
}

int world_await(struct client_world *w, struct hf_call *ticket, int64_t ms, struct hf_lock **lock)
{
    int64_t until_ms = w->now_ms + ms;
    while (!ticket->is_done && w->now_ms < until_ms) {
        int64_t next_ms = client_engine_next_ms(&w->client_engine);
        int64_t step_ms = next_ms - w->now_ms;
        step_ms = step_ms < 1 ? 1 : step_ms;
        world_run(w, step_ms < until_ms - w->now_ms ? step_ms : until_ms - w->now_ms);
    }
    if (!ticket->is_done) {
        return -1;
    }
    int error = ticket->error;
    if (lock != NULL) {
        *lock = ticket->lock;
        ticket->lock = NULL;
    }
    ticket_free(ticket);
    return error;
}

bool world_event(struct client_world *w, enum hf_event_type type, const struct hf_lock *lock,
                 char *text)
{
    for (struct list *at = w->client_engine.notifications.next;
         at != &w->client_engine.notifications; at = at->next) {
        struct notification *notification = LIST_OBJECT(at, struct notification, link);
        struct notification_event *event = (struct notification_event *)notification;
        if (notification->kind == NOTIFICATION_EVENT && event->type == type &&
            (lock == NULL || event->lock == lock)) {
            if (text != NULL) {
                snprintf(text, WORDS_TEXT, "%s", event->text);
            }
            list_remove(at);
            notification_free(notification);
            return true;
        }
    }
    return false;
}
