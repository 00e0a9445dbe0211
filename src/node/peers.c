/* The links of the peers: dialled and accepted, what comes and goes on them. Who is let in is
 * decided in peers_admit.c. */
#include <stdio.h>

#include "net/listener.h"
#include "node/peers_state.h"

enum {
    MAX_INCOMING = 4 * LIMIT_NODES,
    CONNECT_MS = 1000,
    WAIT_MIN_MS = 5, /* whether the leader has ended is wanted soon */
    WAIT_MAX_MS = 500,
    TICK_MS = 100,
    PING_MS = 200,    /* something is said at least this often */
    SILENT_MS = 3000, /* who says nothing for so long is not there */
};

static uint64_t now_ms(const struct peers *p)
{
    return uv_now(p->options.net->loop);
}

/* ---- what comes ---- */

static bool on_frame(void *ctx, struct peer_link *link, enum peer_frame type, struct slice payload)
{
    struct peers *p = ctx;
    struct peer *peer = link->owner;
    uint64_t number;
    uint8_t kind;
    struct slice body;
    if (link->dialled) {
        return type == PEER_ANSWER && peer_request_parse(payload, &number, &kind, &body) &&
               p->options.on_answer(p->options.ctx, peer->id, number, kind, body);
    }
    if (type == PEER_MESSAGE) {
        return p->options.on_message(p->options.ctx, peer->id, payload);
    }
    return type == PEER_REQUEST && peer_request_parse(payload, &number, &kind, &body) &&
           p->options.on_request(p->options.ctx, peer->id, link->number, number, kind, body);
}

static void note_heard(struct peer *peer, const struct peer_link *link)
{
    if (!peer->heard || link->heard_ms > peer->heard_ms) {
        peer->heard_ms = link->heard_ms;
    }
    peer->heard = true;
}

static void on_ready(void *ctx, struct peer_link *link)
{
    struct peers *p = ctx;
    struct peer *peer = peers_find(p, link->peer);
    if (peer == NULL) {
        peer_link_close(link, "too many nodes"); /* its place was taken while it greeted */
        return;
    }
    link->owner = peer;
    peer->refusal[0] = '\0';
    if (link->dialled) {
        peer->out = link;
        peer->told = false;
        dialer_good(peer->dialer);
        journal_note(p->options.journal, INFO, PEER, "peer_connected",
                     JOURNAL_NUMBER("peer", peer->id),
                     JOURNAL_TEXT("address", connection_remote(link->connection)),
                     JOURNAL_NUMBER("life", link->life));
        p->options.on_up(p->options.ctx, peer->id);
        return;
    }
    if (link->purpose == PEER_FOR_SNAPSHOT) {
        p->options.on_snapshot_link(p->options.ctx, link);
        return;
    }
    if (link->life < peer->life) {
        link->owner = NULL;
        peer_link_close(link, "an earlier life");
        return;
    }
    /* An older one is void, and so is what we have not read of it. */
    if (peer->in != NULL) {
        if (peer->in->number > link->number) {
            link->owner = NULL;
            peer_link_close(link, "a newer connection is there");
            return;
        }
        peer->in->owner = NULL;
        peer_link_close(peer->in, "replaced by a newer connection");
    }
    peer->in = link;
    note_heard(peer, link);
}

static void on_link_close(void *ctx, struct peer_link *link, const char *reason)
{
    struct peers *p = ctx;
    struct peer *peer = link->dialled ? peers_find(p, link->wanted) : link->owner;
    if (peer == NULL) {
        return;
    }
    if (peer->in == link) {
        note_heard(peer, link);
        peer->in = NULL;
    }
    if (peer->out == link) {
        peer->out = NULL;
        journal_note(p->options.journal, WARN, PEER, "peer_disconnected",
                     JOURNAL_NUMBER("peer", peer->id), JOURNAL_TEXT("reason", reason));
        p->options.on_down(p->options.ctx, peer->id);
    }
}

static const struct peer_link_ops accepted_ops = {
    .judge = peers_judge_link,
    .on_refused = peers_on_refused,
    .on_ready = on_ready,
    .on_frame = on_frame,
    .on_close = on_link_close,
};

void peers_secure(struct peers *p, struct connection *c, bool dialled)
{
    if (p->options.secure != NULL) {
        p->options.secure(p->options.ctx, c, dialled);
    }
}

static void on_accept(void *ctx, struct connection *c)
{
    struct peers *p = ctx;
    peers_secure(p, c, false);
    peer_link_accept(p->options.net, c, p->options.self, &accepted_ops, p);
}

/* ---- dialling ---- */

static void on_dialled_close(void *ctx, struct peer_link *link, const char *reason)
{
    struct peers *p = ctx;
    on_link_close(p, link, reason);
    /* The dialer that made the link may be gone, or replaced by one for another address. */
    struct peer *peer = peers_find(p, link->wanted);
    if (peer != NULL && peer->dialer != NULL && peer->dialer == link->origin) {
        dialer_lost(peer->dialer);
    }
}

static const struct peer_link_ops dialled_ops = {
    .judge = peers_judge_link,
    .on_refused = peers_on_refused,
    .on_ready = on_ready,
    .on_frame = on_frame,
    .on_close = on_dialled_close,
};

static void on_connected(void *ctx, struct connection *c)
{
    struct peer *peer = ctx;
    struct peers *p = peer->peers;
    peers_secure(p, c, true);
    struct peer_link *link = peer_link_dial(p->options.net, c, p->options.self, peer->id,
                                            PEER_FOR_MESSAGES, &dialled_ops, p);
    link->origin = peer->dialer;
}

static void on_failed(void *ctx, bool nobody_there, const char *reason)
{
    struct peer *peer = ctx;
    if (nobody_there) {
        peer->peers->options.on_ended(peer->peers->options.ctx, peer->id);
    }
    if (!peer->told) {
        peer->told = true;
        journal_note(peer->peers->options.journal, WARN, PEER, "peer_unreachable",
                     JOURNAL_NUMBER("peer", peer->id), JOURNAL_TEXT("address", peer->address_text),
                     JOURNAL_TEXT("reason", reason));
    }
}

static void stop_dialling(struct peer *peer)
{
    dialer_close(peer->dialer);
    peer->dialer = NULL;
    if (peer->out != NULL) {
        peer_link_close(peer->out, "no longer a member");
    }
}

void peers_set(struct peers *p, uint64_t id, const struct address *address)
{
    hf_assert(id != 0 && id != p->options.self->node);
    struct peer *peer = peers_find_or_add(p, id);
    if (peer == NULL) {
        return; /* more members than LIMIT_NODES: the replica does not let it come to that */
    }
    if (peer->dialer != NULL) {
        if (peer->address.port == address->port && strcmp(peer->address.host, address->host) == 0) {
            return;
        }
        stop_dialling(peer);
    }
    peer->address = *address;
    address_format(address, peer->address_text, sizeof(peer->address_text));
    struct dialer_options options = {
        .address = *address,
        .connection = peer_connection_options,
        .connect_ms = CONNECT_MS,
        .wait_min_ms = WAIT_MIN_MS,
        .wait_max_ms = WAIT_MAX_MS,
        .on_connected = on_connected,
        .on_failed = on_failed,
        .ctx = peer,
    };
    peer->dialer = dialer_new(p->options.net, &options);
}

void peers_forget(struct peers *p, uint64_t id)
{
    struct peer *peer = peers_find(p, id);
    if (peer != NULL && peer->dialer != NULL) {
        stop_dialling(peer);
    }
}

/* ---- sending ---- */

bool peers_send(struct peers *p, uint64_t id, struct slice message)
{
    struct peer *peer = peers_find(p, id);
    return peer != NULL && peer->out != NULL && peer->out->ready && message.len < PEER_FRAME_MAX &&
           peer_link_send(peer->out, PEER_MESSAGE, message);
}

bool peers_request(struct peers *p, uint64_t id, uint64_t number, uint8_t kind, struct slice body)
{
    struct peer *peer = peers_find(p, id);
    return peer != NULL && peer->out != NULL && peer->out->ready &&
           peer_link_send_request(peer->out, PEER_REQUEST, number, kind, body);
}

bool peers_answer(struct peers *p, uint64_t id, uint64_t link, uint64_t number, uint8_t status,
                  struct slice body)
{
    struct peer *peer = peers_find(p, id);
    if (peer == NULL || peer->in == NULL || peer->in->number != link) {
        return false;
    }
    if (!peer_link_send_request(peer->in, PEER_ANSWER, number, status, body)) {
        /* The other end counts on an answer or on the end of the connection. */
        peer_link_close(peer->in, "too many answers wait");
        return false;
    }
    return true;
}

bool peers_tell(struct peers *p, uint64_t id, uint8_t status, struct slice body)
{
    struct peer *peer = peers_find(p, id);
    return peer != NULL && peer->in != NULL &&
           peers_answer(p, id, peer->in->number, 0, status, body);
}

uint64_t peers_link(const struct peers *p, uint64_t id)
{
    const struct peer *peer = peers_find(p, id);
    return peer == NULL || peer->in == NULL ? 0 : peer->in->number;
}

/* ---- time ---- */

static void on_timer(uv_timer_t *timer)
{
    struct peers *p = timer->data;
    uint64_t now = now_ms(p);
    for (uint32_t i = 0; i < p->count; i++) {
        struct peer *peer = p->at[i];
        if (peer->out != NULL && peer->out->ready && now - peer->out->said_ms >= PING_MS) {
            peer_link_send(peer->out, PEER_PING, slice_make(NULL, 0));
        }
        if (peer->in != NULL) {
            note_heard(peer, peer->in);
            if (now - peer->in->heard_ms > SILENT_MS) {
                peer_link_close(peer->in, "silent");
            }
        }
    }
}

/* ---- life ---- */

struct peers *peers_new(const struct peers_options *options, char *problem, size_t problem_size)
{
    struct net *net = options->net;
    struct peers *p = memory_alloc(net->memory, sizeof(*p));
    memset(p, 0, sizeof(*p));
    p->options = *options;
    struct listener_options listen = {.address = options->listen,
                                      .connection = peer_connection_options,
                                      .max_connections = MAX_INCOMING,
                                      .on_accept = on_accept,
                                      .ctx = p};
    char words[LISTENER_PROBLEM];
    p->listener = listener_new(net, &listen, words);
    if (p->listener == NULL) {
        snprintf(problem, problem_size, "%s", words);
        memory_free(net->memory, p, sizeof(*p));
        return NULL;
    }
    uv_timer_init(net->loop, &p->timer);
    p->timer.data = p;
    uv_timer_start(&p->timer, on_timer, TICK_MS, TICK_MS);
    return p;
}

void peers_close(struct peers *p)
{
    if (p->closing) {
        return;
    }
    p->closing = true;
    listener_close(p->listener);
    p->listener = NULL;
    uv_close((uv_handle_t *)&p->timer, NULL);
    for (uint32_t i = 0; i < p->count; i++) {
        struct peer *peer = p->at[i];
        dialer_close(peer->dialer);
        peer->dialer = NULL;
        if (peer->in != NULL) {
            peer_link_close(peer->in, "the node stops");
        }
        if (peer->out != NULL) {
            peer_link_close(peer->out, "the node stops");
        }
    }
}

void peers_free(struct peers *p)
{
    if (p == NULL) {
        return;
    }
    const struct memory *memory = p->options.net->memory;
    for (uint32_t i = 0; i < p->count; i++) {
        memory_free(memory, p->at[i], sizeof(*p->at[i]));
    }
    memory_free(memory, p, sizeof(*p));
}

/* ---- looking ---- */

const struct address *peers_address(const struct peers *p, uint64_t id)
{
    const struct peer *peer = peers_find(p, id);
    return peer == NULL || peer->dialer == NULL ? NULL : &peer->address;
}

bool peers_view(const struct peers *p, uint64_t id, struct peer_view *out)
{
    const struct peer *peer = peers_find(p, id);
    if (peer == NULL) {
        return false;
    }
    uint64_t heard_ms = peer->heard_ms;
    if (peer->in != NULL && peer->in->heard_ms > heard_ms) {
        heard_ms = peer->in->heard_ms;
    }
    *out = (struct peer_view){
        .id = id,
        .life = peer->life,
        .state = peer->state,
        .address = peer->address_text,
        .client_address = peer->client_address,
        .reachable = peer->out != NULL && peer->out->ready,
        .silent_ms = peer->heard ? now_ms(p) - heard_ms : UINT64_MAX,
    };
    return true;
}

uint16_t peers_port(const struct peers *p)
{
    return listener_port(p->listener);
}
