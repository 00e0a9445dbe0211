/* Sessions and keep-alives, and what a client may count on by its own clock (S5). */
#include "client.h"

/* ---- what a client counts on ---- */

/* S5.2: less 0.1 % and 5 ms, on a clock that may be off by S1.6. */
uint64_t client_safe_until(const struct sim_client *c, uint64_t from_us, uint64_t ttl_ms)
{
    double own_us = (double)(ttl_ms * 999 - 5000);
    return from_us + (uint64_t)(own_us / c->rate);
}

uint64_t client_session_safe_us(const struct sim_client *c)
{
    return client_safe_until(c, c->alive_us, c->session_ttl_ms);
}

void client_confirm(struct sim_client *c, uint64_t sent_us)
{
    struct sim_hold *h = &c->hold;
    uint64_t safe_us = client_safe_until(c, sent_us, h->ttl_ms);
    if (c->in_session && client_session_safe_us(c) < safe_us) {
        safe_us = client_session_safe_us(c);
    }
    h->safe_us = safe_us > h->safe_us ? safe_us : h->safe_us;
    h->safe_us = h->limit_us != 0 && h->limit_us < h->safe_us ? h->limit_us : h->safe_us;
}

bool clients_safe_until(uint64_t token, uint64_t *safe_us, int *client)
{
    for (int i = 1; i <= CLIENTS; i++) {
        if (clients[i].hold.token == token && clients[i].hold.names[0] < CHECKED_NAMES) {
            *safe_us = clients[i].hold.safe_us;
            *client = i;
            return true;
        }
    }
    return false;
}

/* Both clocks may be off by 0.1 %, and a stamp has whole milliseconds: it may be up to one earlier
 * than the grant. */
static uint64_t least_us(uint64_t ttl_ms)
{
    return ttl_ms == 0 ? 0 : (ttl_ms - 1) * 998;
}

uint64_t client_limit_us(const struct sim_client *c, uint64_t max_hold_ms)
{
    return c->call_us + least_us(max_hold_ms);
}

/* How long a lock lasts at least, for the checker of histories. */
uint64_t client_lease_us(const struct sim_client *c, uint64_t from_us, uint64_t ttl_ms)
{
    uint64_t us = least_us(ttl_ms);
    if (c->in_session) {
        uint64_t end_us = c->alive_us + least_us(c->session_ttl_ms);
        us = end_us <= from_us ? 0 : end_us - from_us < us ? end_us - from_us : us;
    }
    uint64_t limit_us = c->hold.limit_us;
    if (limit_us != 0) { /* S16.3 */
        us = limit_us <= from_us ? 0 : limit_us - from_us < us ? limit_us - from_us : us;
    }
    return us;
}

/* ---- sessions ---- */

void client_keep_alive(struct happening *h)
{
    struct sim_client *c = &clients[h->a];
    if (h->b != c->attempt[KEEPALIVE] || clients_stopping) {
        return;
    }
    if (!c->vanished && !id_is_zero(c->session)) {
        uint8_t packed[16];
        for (int i = 0; i < 8; i++) {
            packed[i] = (uint8_t)(c->session.high >> (8 * i));
            packed[8 + i] = (uint8_t)(c->session.low >> (8 * i));
        }
        struct command cmd;
        command_init(&cmd, COMMAND_KEEPALIVE);
        cmd.keepalive.sessions.count = 1;
        cmd.keepalive.sessions.packed = packed;
        c->keepalive_us = world.now_us;
        c->attempt[KEEPALIVE]++;
        call_send(c->id, KEEPALIVE, c->attempt[KEEPALIVE], c->entry, TIER_CORRECTNESS, &cmd, 0);
    }
    struct happening *next = happen(c->session_ttl_ms * 333, client_keep_alive, 0);
    next->a = h->a;
    next->b = c->attempt[KEEPALIVE];
}

void client_open_session(struct sim_client *c)
{
    c->session_ttl_ms = 800 + chance_below(2500);
    c->seq = c->acked = 0;
    c->vanished = false;
    client_begin(c, OPENING, COMMAND_SESSION_OPEN);
    c->session = (struct id){(uint64_t)c->id, chance() | 1};
    c->command.session_open.id = c->session;
    c->command.session_open.client = slice_of("client");
    c->command.session_open.ttl_ms = (uint32_t)c->session_ttl_ms;
    client_submit(c);
}

/* With what it holds, in both tiers. That may be gone already: nobody is notified. */
void client_close_session(struct sim_client *c)
{
    client_begin(c, CLOSING, COMMAND_SESSION_CLOSE);
    c->command.session = c->session;
    c->hold.safe_us = 0;
    c->old_token = c->hold.token;
    c->old_name = c->hold.names[0];
    client_record(c, (struct history_op){.kind = HISTORY_RELEASE,
                                         .token = c->hold.token,
                                         .call_us = c->call_us,
                                         .return_us = HISTORY_NEVER});
    client_submit(c);
}

void client_session_is_gone(struct sim_client *c)
{
    c->session = (struct id){0, 0};
    c->hold.safe_us = 0;
    c->attempt[KEEPALIVE]++;
    client_idle(c, client_think_us());
}

void client_hear_keepalive(struct sim_client *c, const struct sim_answer *a)
{
    if (a->attempt != c->attempt[KEEPALIVE] || a->kind != ANSWER_RESULT || a->error != HF_OK ||
        !a->alive) {
        return;
    }
    c->alive_us = c->keepalive_us;
    struct sim_hold *h = &c->hold;
    if (h->token != 0 && world.now_us < h->safe_us) {
        client_confirm(c, c->keepalive_us);
        client_record(
            c, (struct history_op){.kind = HISTORY_RENEW,
                                   .held = true,
                                   .maybe = client_may_lose(c),
                                   .multi = h->count > 1,
                                   .token = h->token,
                                   .call_us = c->keepalive_us,
                                   .return_us = world.now_us,
                                   .lease_us = client_lease_us(c, c->keepalive_us, h->ttl_ms)});
    }
}
