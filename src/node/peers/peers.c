/* The links of the peers, dialled and accepted, and their frames. */
#include <stdio.h>

#include "net/listener.h"
#include "node/peers/peers_state.h"

enum {
    MAX_INCOMING = 4 * LIMIT_NODES,
    CONNECT_MS = 1000,
    WAIT_MIN_MS = 5, /* detects quickly that the leader has ended */
    WAIT_MAX_MS = 500,
    TICK_MS = 100,
    PING_MS = 200,    /* something is sent at least so often */
    SILENT_MS = 3000, /* a link without input is closed */
    PROOF_MS = 5000,  /* for an accepted link to prove its identity */
};

static uint64_t now_ms(const struct peers *p)
{
    return uv_now(p->options.net->loop);
}

static const char unproven[] = "this node has not reached that node at its address yet";

static void note_received(struct peer *peer, const struct peer_link *link)
{
    if (!peer->has_received || link->received_ms > peer->received_ms) {
        peer->received_ms = link->received_ms;
    }
    peer->has_received = true;
}

/* Makes an accepted, proven link the incoming link of its peer. Returns whether it did. */
static bool attach(struct peers *p, struct peer_link *link)
{
    if (link->closed || !peers_is_proven(p, link)) {
        return false;
    }
    struct peer *peer = peers_find(p, link->peer);
    if (peer != NULL && link->life < peer->life) {
        peer_link_close(link, "an earlier life");
        return false;
    }
    /* The unread bytes of the older link are dropped. */
    if (peer != NULL && peer->in != NULL) {
        if (peer->in->number > link->number) {
            peer_link_close(link, "a newer connection is there");
            return false;
        }
        peer->in->owner = NULL;
        peer_link_close(peer->in, "replaced by a newer connection");
        peer->in = NULL;
    }
    peer = peers_note(p, link);
    if (peer == NULL) {
        peer_link_close(link, "too many nodes");
        return false;
    }
    link->owner = peer;
    peer->in = link;
    peer->waiting = peer->waiting == link ? NULL : peer->waiting;
    peer->refusal[0] = '\0';
    note_received(peer, link);
    connection_set_timeout(link->connection, 0);
    peer_link_forget_introduction(link);
    return true;
}

static bool on_request_frame(struct peers *p, struct peer_link *link, enum peer_frame type,
                             struct slice payload)
{
    struct peer *peer = link->owner;
    uint64_t number;
    uint8_t kind;
    struct slice body;
    if (!peer_request_parse(payload, &number, &kind, &body)) {
        return false;
    }
    if (link->dialled) {
        return type == PEER_ANSWER &&
               p->options.on_answer(p->options.ctx, peer->id, number, kind, body);
    }
    return type == PEER_REQUEST &&
           p->options.on_request(p->options.ctx, peer->id, link->number, number, kind, body);
}

static bool on_frame(void *ctx, struct peer_link *link, enum peer_frame type, struct slice payload)
{
    struct peers *p = ctx;
    if (link->owner == NULL && !attach(p, link)) {
        if (type != PEER_MESSAGE && !link->closed) { /* a message may be lost, a request not */
            peer_link_refuse(link, unproven);
        }
        return true;
    }
    if (type != PEER_MESSAGE || link->dialled) {
        return on_request_frame(p, link, type, payload);
    }
    struct peer *peer = link->owner;
    const char *refusal = p->options.on_message(p->options.ctx, peer->id, payload);
    if (refusal != NULL) {
        peer_link_refuse(link, refusal);
    }
    return true;
}

static void on_dialled_ready(struct peers *p, struct peer_link *link)
{
    struct peer *peer = peers_find(p, link->peer);
    if (peer == NULL || peer->dialer == NULL || peer->dialer != link->origin) {
        peer_link_close(link, "no longer a member, or not at this address"); /* while it greeted */
        return;
    }
    peer = peers_note(p, link);
    link->owner = peer;
    peer->refusal[0] = '\0';
    peer->out = link;
    peer->reported = false;
    dialer_good(peer->dialer);
    journal_note(p->options.journal, INFO, PEER, "peer_connected", JOURNAL_NUMBER("peer", peer->id),
                 JOURNAL_TEXT("address", connection_remote(link->connection)),
                 JOURNAL_NUMBER("life", link->life));
    if (peer->waiting != NULL) {
        (void)attach(p, peer->waiting);
    }
    p->options.on_up(p->options.ctx, peer->id);
}

/* Keeps the link of a member that we dial until it answers at its address. Refuses others: nothing
 * would prove their identity. */
static void await_proof(struct peer *peer, struct peer_link *link)
{
    if (peer == NULL || peer->dialer == NULL) {
        peer_link_refuse(link, unproven);
        return;
    }
    if (peer->waiting != NULL) {
        peer_link_close(peer->waiting, "replaced by a newer connection");
    }
    peer->waiting = link;
    connection_set_timeout(link->connection, PROOF_MS);
}

static void on_ready(void *ctx, struct peer_link *link)
{
    struct peers *p = ctx;
    char sentence[PEER_SENTENCE_MAX];
    if (!peers_check(p, link->intro, link->dialled, sentence)) { /* may have changed since HELLO */
        peer_link_refuse(link, sentence);
        return;
    }
    if (link->dialled) {
        on_dialled_ready(p, link);
        return;
    }
    struct peer *peer = peers_find(p, link->peer);
    if (peer != NULL && peer->dialer != NULL && peer->out == NULL) {
        dialer_hurry(peer->dialer); /* the peer is up */
    }
    if (link->purpose == PEER_FOR_SNAPSHOT) {
        if (peers_is_proven(p, link)) {
            peer_link_forget_introduction(link);
            p->options.on_snapshot_link(p->options.ctx, link);
        } else {
            peer_link_refuse(link, unproven);
        }
        return;
    }
    if (!attach(p, link) && !link->closed) {
        await_proof(peer, link);
    }
}

static void stop_dialling(struct peer *peer)
{
    dialer_close(peer->dialer);
    peer->dialer = NULL;
    peer->on_demand = false;
    if (peer->out != NULL) {
        peer_link_close(peer->out, "no longer a member");
    }
    if (peer->waiting != NULL) {
        peer_link_close(peer->waiting, "no longer a member");
    }
}

static void on_link_close(void *ctx, struct peer_link *link, const char *reason)
{
    struct peers *p = ctx;
    struct peer *peer = peers_find(p, link->dialled ? link->wanted : link->peer);
    if (peer == NULL) {
        return;
    }
    if (peer->waiting == link) {
        peer->waiting = NULL;
    }
    if (peer->in == link) {
        note_received(peer, link);
        peer->in = NULL;
        if (peer->on_demand) {
            stop_dialling(peer);
        }
    }
    if (peer->out == link) {
        peer->out = NULL;
        journal_note(p->options.journal, WARN, PEER, "peer_disconnected",
                     JOURNAL_NUMBER("peer", peer->id), JOURNAL_TEXT("reason", reason));
        p->options.on_down(p->options.ctx, peer->id);
    }
}

static const struct peer_link_ops accepted_ops = {
    .check = peers_check_link,
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

static void on_dialled_close(void *ctx, struct peer_link *link, const char *reason)
{
    struct peers *p = ctx;
    on_link_close(p, link, reason);
    /* Its dialer may be closed, or replaced by one for another address. */
    struct peer *peer = peers_find(p, link->wanted);
    if (peer != NULL && peer->dialer != NULL && peer->dialer == link->origin) {
        dialer_lost(peer->dialer);
    }
}

static const struct peer_link_ops dialled_ops = {
    .check = peers_check_link,
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

static void on_failed(void *ctx, bool refused_port, const char *reason)
{
    struct peer *peer = ctx;
    if (refused_port) {
        peer->peers->options.on_ended(peer->peers->options.ctx, peer->id);
    }
    if (!peer->reported) {
        peer->reported = true;
        journal_note(peer->peers->options.journal, WARN, PEER, "peer_unreachable",
                     JOURNAL_NUMBER("peer", peer->id), JOURNAL_TEXT("address", peer->address_text),
                     JOURNAL_TEXT("reason", reason));
    }
}

static void begin_dialling(struct peer *peer, const struct address *address)
{
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
    peer->dialer = dialer_new(peer->peers->options.net, &options);
}

void peers_set(struct peers *p, uint64_t id, const struct address *address)
{
    hf_assert(id != 0 && id != p->options.self->node);
    struct peer *peer = peers_find_or_add(p, id);
    if (peer == NULL) {
        return; /* more members than LIMIT_NODES: the replica prevents that */
    }
    peer->on_demand = false;
    if (peer->dialer != NULL) {
        if (peer->address.port == address->port && strcmp(peer->address.host, address->host) == 0) {
            return;
        }
        stop_dialling(peer);
    }
    begin_dialling(peer, address);
}

void peers_forget(struct peers *p, uint64_t id)
{
    struct peer *peer = peers_find(p, id);
    if (peer != NULL && peer->dialer != NULL) {
        stop_dialling(peer);
    }
}

void peers_review(struct peers *p)
{
    char sentence[PEER_SENTENCE_MAX];
    for (uint32_t i = 0; i < p->count; i++) {
        struct peer *peer = p->at[i];
        if (p->options.admits == NULL || p->options.admits(p->options.ctx, peer->id, sentence)) {
            continue;
        }
        if (peer->dialer != NULL) {
            stop_dialling(peer);
        }
        if (peer->in != NULL) {
            peer_link_refuse(peer->in, sentence);
        }
    }
}

bool peers_send(struct peers *p, uint64_t id, struct slice message)
{
    struct peer *peer = peers_find(p, id);
    if (peer != NULL && peer->dialer == NULL && peer->in != NULL && peer->offered.port != 0 &&
        !p->closing) {
        peer->on_demand = true;
        begin_dialling(peer, &peer->offered); /* the engine sends the message again */
    }
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
        /* The other end expects an answer, or a close. */
        peer_link_close(peer->in, "too many answers wait");
        return false;
    }
    return true;
}

bool peers_notify(struct peers *p, uint64_t id, uint8_t status, struct slice body)
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

uint32_t peers_protocol(const struct peers *p, uint64_t id, bool dialled)
{
    const struct peer *peer = peers_find(p, id);
    const struct peer_link *link = peer == NULL ? NULL : dialled ? peer->out : peer->in;
    return link == NULL ? 0 : link->protocol;
}

static void on_timer(uv_timer_t *timer)
{
    struct peers *p = timer->data;
    uint64_t now = now_ms(p);
    peers_report_refusals(p);
    for (uint32_t i = 0; i < p->count; i++) {
        struct peer *peer = p->at[i];
        if (peer->out != NULL && peer->out->ready && now - peer->out->sent_ms >= PING_MS) {
            peer_link_send(peer->out, PEER_PING, slice_make(NULL, 0));
        }
        if (peer->in != NULL) {
            note_received(peer, peer->in);
            if (now - peer->in->received_ms > SILENT_MS) {
                peer_link_close(peer->in, "silent");
            }
        }
    }
}

struct peers *peers_new(const struct peers_options *options, char *problem, size_t problem_size)
{
    struct net *net = options->net;
    struct peers *p = memory_alloc(net->memory, sizeof(*p));
    memset(p, 0, sizeof(*p));
    p->options = *options;
    struct listener_options listen = {
        .address = options->listen,
        .connection = peer_connection_options,
        .max_connections = options->max_incoming != 0 ? options->max_incoming : MAX_INCOMING,
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
        if (peer->waiting != NULL) {
            peer_link_close(peer->waiting, "the node stops");
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
    uint64_t received_ms = peer->received_ms;
    if (peer->in != NULL && peer->in->received_ms > received_ms) {
        received_ms = peer->in->received_ms;
    }
    *out = (struct peer_view){
        .id = id,
        .life = peer->life,
        .state = peer->state,
        .state_max = peer->state_max,
        .address = peer->address_text,
        .client_address = peer->client_address,
        .reachable = peer->out != NULL && peer->out->ready,
        .silent_ms = peer->has_received ? now_ms(p) - received_ms : UINT64_MAX,
    };
    return true;
}

uint16_t peers_port(const struct peers *p)
{
    return listener_port(p->listener);
}
