/* One iteration of the engine (engine.h), and its entry functions.
 *
 * At most one link is in use and one is being dialed. A link is left only when a better one is up:
 * the leader's, or any when this node is draining or has no leader. */
#include "client/engine.h"

#include <stdio.h>

#include "client/proto.h"

enum {
    NO_LEADER_MS = 500, /* then another node than one without a leader is tried */
    SILENCE_MIN_MS = 100,
    MEMBERS_MS = 60000, /* minimum between two requests for the list of nodes */
    HOPS_DOUBLED = 5,   /* longest pause between hops: ENDPOINT_RETRY_MS << 5 */
    HOPS_FORGOTTEN_MS = 2000,
};

const char *client_engine_init(struct client_engine *e, const struct client_engine_options *options,
                               const char *endpoints, const uint64_t seed[2], int64_t now_ms)
{
    memset(e, 0, sizeof(*e));
    const char *problem = endpoints_init(&e->endpoints, endpoints, seed[0]);
    if (problem != NULL) {
        return problem;
    }
    e->options = *options;
    e->current = -1;
    e->now_ms = now_ms;
    e->next_call_ms = NEVER_MS;
    e->next_lock_ms = NEVER_MS;
    e->next_dial_ms = now_ms;
    e->orphan_ttl_ms = NEVER_MS;
    snprintf(e->id_prefix, sizeof(e->id_prefix), "%016llx", (unsigned long long)seed[1]);
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        link_init(&e->links[i], e);
    }
    struct list *lists[] = {&e->locks, &e->to_check, &e->waiting, &e->sent, &e->notifications};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        list_init(lists[i]);
    }
    session_init(&e->session);
    return NULL;
}

void client_engine_close(struct client_engine *e)
{
    session_close(&e->session);
    calls_free_all(e);
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        link_close(&e->links[i]);
    }
    for (struct notification *notification = notification_take(e); notification != NULL;
         notification = notification_take(e)) {
        notification_free(notification);
    }
}

struct link *client_engine_link(struct client_engine *e)
{
    return e->current >= 0 && e->links[e->current].state == LINK_UP ? &e->links[e->current] : NULL;
}

bool client_engine_circuit_is_open(const struct client_engine *e)
{
    return e->current < 0 && endpoints_all_open(&e->endpoints);
}

void client_engine_next_id(struct client_engine *e, char out[REQUEST_ID_TEXT])
{
    snprintf(out, REQUEST_ID_TEXT, "%s-%llu", e->id_prefix, (unsigned long long)++e->id_count);
}

void client_engine_heard_leader(struct client_engine *e, struct link *link, const char *text)
{
    if (e->options.any_node || text[0] == '\0') {
        return;
    }
    if (strcmp(text, link->peer) == 0 && link->endpoint >= 0) {
        e->endpoints.leader = link->endpoint; /* another address of that node */
    } else {
        (void)endpoints_learn_leader(&e->endpoints, text);
    }
}

void client_engine_heard_epoch(struct client_engine *e, uint64_t epoch)
{
    if (epoch > e->session.epoch) {
        e->session.epoch = epoch;
        locks_epoch(e);
    }
}

void client_engine_no_leader(struct client_engine *e)
{
    if (e->no_leader_ms == 0) {
        e->no_leader_ms = e->now_ms;
    }
}

static int64_t next_leader_check(const struct client_engine *e)
{
    return e->no_leader_ms == 0 || e->current < 0 ? NEVER_MS : e->no_leader_ms + NO_LEADER_MS;
}

void client_engine_has_leader(struct client_engine *e)
{
    e->no_leader_ms = 0;
}

/* Two silences fit into a third of the shortest TTL: there is time for another node before anything
 * is in jeopardy. */
int64_t client_engine_silence_ms(const struct client_engine *e)
{
    int64_t ms = e->options.session_ttl_ms / 6;
    if (ms > e->options.connect_timeout_ms) {
        ms = e->options.connect_timeout_ms;
    }
    return ms < SILENCE_MIN_MS ? SILENCE_MIN_MS : ms;
}

static void break_link(struct client_engine *e, int which, const char *why)
{
    struct link *link = &e->links[which];
    int endpoint = link->endpoint;
    if (link->state == LINK_FREE) {
        return;
    }
    endpoints_failed(&e->endpoints, endpoint, why, e->now_ms);
    link_close(link);
    if (e->current == which) {
        char text[WORDS_TEXT + ENDPOINT_TEXT];
        e->current = -1;
        snprintf(text, sizeof(text), "%s: %s", e->endpoints.at[endpoint].text, why);
        notification_event(e, HF_EVENT_DISCONNECTED, NULL, 0, text);
    }
}

static void query_members(struct client_engine *e)
{
    if (e->members_requested_ms == 0 || e->now_ms - e->members_requested_ms >= MEMBERS_MS) {
        e->members_requested_ms = e->now_ms;
        call_begin(client_call_new(e, CALL_CLUSTER, NULL, NULL),
                   e->now_ms + e->options.call_timeout_ms);
    }
}

static void link_is_up(struct client_engine *e, int which)
{
    struct link *link = &e->links[which];
    int before = e->current;
    link->state = LINK_UP;
    endpoints_succeeded(&e->endpoints, link->endpoint);
    e->current = which;
    e->wants_move = false;
    e->no_leader_ms = 0;
    e->session.retry_at_ms = e->now_ms;
    e->stat_reconnects++;
    if (before >= 0 && before != which) {
        link_close(&e->links[before]); /* its calls continue on the new one */
    }
    notification_event(e, HF_EVENT_CONNECTED, NULL, 0, e->endpoints.at[link->endpoint].text);
    query_members(e);
}

static void dial(struct client_engine *e, int endpoint)
{
    struct link *link = &e->links[e->current == 0 ? 1 : 0];
    endpoints_begun(&e->endpoints, endpoint);
    link_dial(link, endpoint, e->endpoints.at[endpoint].text,
              e->now_ms + e->options.connect_timeout_ms);
}

/* The first move to a named leader is immediate. Nodes that disagree, as in an election, could
 * redirect the client at network speed: the pause before the next move doubles. */
static void note_hop(struct client_engine *e)
{
    if (e->now_ms - e->hop_ms >= HOPS_FORGOTTEN_MS) {
        e->hops = 0;
    }
    e->hop_ms = e->now_ms;
    e->hop_from_ms = e->now_ms + endpoints_jitter(&e->endpoints, ENDPOINT_RETRY_MS << e->hops);
    e->hops += e->hops < HOPS_DOUBLED ? 1 : 0;
}

/* A better endpoint than the current one, or -1. */
static int better(struct client_engine *e, int64_t *next_ms)
{
    const struct link *link = &e->links[e->current];
    int leader = e->endpoints.leader;
    if (leader >= 0 && leader != link->endpoint) {
        if (endpoints_may_try(&e->endpoints, leader, e->now_ms) && e->now_ms >= e->hop_from_ms) {
            note_hop(e);
            return leader;
        }
        int64_t not_before_ms = e->endpoints.at[leader].not_before_ms;
        *next_ms = not_before_ms > e->hop_from_ms ? not_before_ms : e->hop_from_ms;
    }
    if (!e->wants_move) {
        return -1;
    }
    int other = endpoints_pick(&e->endpoints, link->endpoint, e->now_ms, next_ms);
    if (other < 0 && http2_client_is_going(link->http2)) {
        break_link(e, e->current, "it is shutting down"); /* it may restart */
    }
    return other;
}

static void seek(struct client_engine *e)
{
    e->next_dial_ms = NEVER_MS;
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        if (e->links[i].state == LINK_DIALING) {
            return;
        }
    }
    int64_t next_ms = NEVER_MS;
    int endpoint = e->current >= 0 ? better(e, &next_ms)
                                   : endpoints_pick(&e->endpoints, -1, e->now_ms, &next_ms);
    if (e->current < 0 && endpoint < 0 && next_ms == NEVER_MS) {
        next_ms = e->now_ms; /* `better` failed the last endpoint */
    }
    if (endpoint >= 0) {
        dial(e, endpoint);
    } else {
        e->next_dial_ms = next_ms;
    }
}

/* Does what time alone decides, before anything read (S5.2). */
static void tick(struct client_engine *e, int64_t now_ms)
{
    e->now_ms = now_ms > e->now_ms ? now_ms : e->now_ms;
    if (e->now_ms >= next_leader_check(e)) {
        e->no_leader_ms = e->now_ms;
        e->wants_move = true;
    }
    session_tick(e);
    locks_tick(e);
    calls_tick(e);
    for (int i = 0; i < ENGINE_LINKS; i++) {
        const char *why = link_check(&e->links[i], client_engine_silence_ms(e), e->now_ms);
        if (why != NULL) {
            break_link(e, i, why);
        }
    }
}

void client_engine_go(struct client_engine *e, int64_t now_ms)
{
    tick(e, now_ms);
    if (!e->is_closed) {
        seek(e);
        session_go(e);
        locks_go(e);
        calls_go(e);
        calls_tick(e); /* new calls have deadlines too */
    }
    for (unsigned i = 0; i < ENGINE_LINKS; i++) {
        link_flush(&e->links[i]);
    }
}

int64_t client_engine_next_ms(const struct client_engine *e)
{
    int64_t times[] = {session_next_ms(e),
                       next_leader_check(e),
                       e->next_call_ms,
                       e->next_lock_ms,
                       e->next_dial_ms,
                       link_next_check(&e->links[0], client_engine_silence_ms(e)),
                       link_next_check(&e->links[1], client_engine_silence_ms(e))};
    int64_t next_ms = NEVER_MS;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        next_ms = times[i] < next_ms ? times[i] : next_ms;
    }
    return next_ms;
}

void client_engine_connected(struct client_engine *e, unsigned which, const char *peer,
                             int64_t now_ms)
{
    struct link *link = &e->links[which];
    snprintf(link->peer, sizeof(link->peer), "%s", peer);
    client_engine_go(e, now_ms);
}

void client_engine_broken(struct client_engine *e, unsigned which, const char *why, int64_t now_ms)
{
    tick(e, now_ms);
    break_link(e, (int)which, why);
    client_engine_go(e, now_ms);
}

void client_engine_input(struct client_engine *e, unsigned which, struct slice bytes,
                         int64_t now_ms)
{
    struct link *link = &e->links[which];
    tick(e, now_ms);
    if (link->state == LINK_FREE) {
        return; /* closed by the tick */
    }
    bool is_well = link_input(link, bytes, e->now_ms);
    if (link->state == LINK_DIALING && http2_client_is_ready(link->http2)) {
        link_is_up(e, (int)which);
    }
    if (!is_well) {
        break_link(e, (int)which,
                   link->state == LINK_UP ? "the connection was ended"
                                          : "it does not speak HTTP/2");
    } else if (http2_client_is_going(link->http2)) {
        e->wants_move = true;
    }
    client_engine_go(e, now_ms);
}
