/* See peer_link.h. */
#include "node/peers/peer_link.h"

#include <stdio.h>

#include "tls/digest.h"

enum {
    GREETING_MS = 2000, /* for the whole greeting */
    STALL_MS = 5000,
    USER_TIMEOUT_MS =
        2000, /* TCP_USER_TIMEOUT: detects a cut cable earlier than TCP does by default */
};

/* With more pending output, messages are dropped: the engine sends them again. */
#define SEND_LIMIT (PEER_FRAME_MAX / 2)

const struct connection_options peer_connection_options = {
    .in_max = PEER_FRAME_MAX + PEER_FRAME_HEAD,
    .out_max = SEND_LIMIT + PEER_FRAME_MAX + PEER_FRAME_HEAD,
    .out_high = PEER_LINK_HIGH,
    .out_low = PEER_LINK_LOW,
    .stall_ms = STALL_MS,
    .user_timeout_ms = USER_TIMEOUT_MS,
    .writes_first = true, /* all nodes wait for a batch; one client waits for an answer */
    .read_under_pressure = true,
};

static uint64_t now_ms(const struct peer_link *link)
{
    return uv_now(link->net->loop);
}

size_t peer_link_pending(const struct peer_link *link)
{
    return connection_pending(link->connection);
}

void peer_link_expect_drain(struct peer_link *link)
{
    connection_expect_drain(link->connection);
}

bool peer_link_send(struct peer_link *link, enum peer_frame type, struct slice payload)
{
    if (link->closed || peer_link_pending(link) > SEND_LIMIT) {
        return false;
    }
    link->sent_ms = now_ms(link);
    return peer_frame_append(connection_output(link->connection), type, payload);
}

bool peer_link_send_request(struct peer_link *link, enum peer_frame type, uint64_t number,
                            uint8_t kind, struct slice body)
{
    if (link->closed || peer_link_pending(link) > SEND_LIMIT) {
        return false;
    }
    struct buffer *out = connection_output(link->connection);
    uint8_t *at = peer_frame_begin(out, type, PEER_REQUEST_HEAD + body.len);
    if (at == NULL) {
        return false;
    }
    peer_request_head(at, number, kind);
    if (body.len > 0) {
        memcpy(at + PEER_REQUEST_HEAD, body.data, body.len);
    }
    buffer_commit(out, peer_frame_size(PEER_REQUEST_HEAD + body.len));
    link->sent_ms = now_ms(link);
    return true;
}

static bool has_secret(const struct peer_link *link)
{
    return link->self->secrets != NULL && link->self->secrets->count > 0;
}

static void send_proof(struct peer_link *link)
{
    uint8_t proof[PEER_PROOF_BYTES];
    peer_secrets_prove(link->self->secrets, link->dialled, &link->transcript, proof);
    peer_link_send(link, PEER_PROOF, slice_make(proof, sizeof(proof)));
}

/* Of our own greeting. A dialler does not know yet whether the other end has a secret. */
static void send_greeting(struct peer_link *link, enum peer_frame type, struct slice bytes)
{
    digest_sha256(bytes, type == PEER_HELLO ? link->transcript.hello : link->transcript.welcome);
    if (link->uses_secret) {
        send_proof(link);
    }
    peer_link_send(link, type, bytes);
}

static void introduce(struct peer_link *link, enum peer_frame type)
{
    const struct peer_self *self = link->self;
    uint8_t nonce[PEER_NONCE];
    bool has_nonce = link->dialled ? link->offers_secret : link->uses_secret;
    if (has_nonce) {
        digest_random(nonce, sizeof(nonce));
    }
    struct peer_introduction us = {
        .oldest = PEER_PROTOCOL_OLDEST,
        .newest = PEER_PROTOCOL_NEWEST,
        .purpose = link->purpose,
        .cluster = self->cluster,
        .cluster_name = slice_of(self->cluster_name),
        .node = self->node,
        .to = link->dialled ? link->wanted : link->peer,
        .store = self->store,
        .life = self->life,
        .number = link->number,
        .client_address = slice_of(self->client_address),
        .stores = slice_make(self->stores, link->sends_stores ? self->stores_len : 0),
        .state = self->state,
        .peer_address = slice_of(self->peer_address),
        .used_ids = self->used_ids,
        .state_max = self->state_max,
        .nonce = slice_make(nonce, has_nonce ? sizeof(nonce) : 0),
    };
    uint8_t bytes[PEER_GREETING_MAX];
    size_t len = peer_introduction_encode(&us, bytes, sizeof(bytes));
    hf_assert(len > 0);
    send_greeting(link, type, slice_make(bytes, len));
}

void peer_link_hand_over(struct peer_link *link, const struct peer_link_ops *ops, void *ctx)
{
    hf_assert(link->ready);
    link->ops = ops;
    link->ctx = ctx;
}

void peer_link_close(struct peer_link *link, const char *reason)
{
    link->closed = true;
    link->ready = false;
    connection_abort(link->connection, reason);
}

void peer_link_refuse(struct peer_link *link, const char *sentence)
{
    if (link->closed) {
        return;
    }
    link->refused = true;
    peer_link_send(link, PEER_REFUSE, slice_of(sentence));
    link->closed = true;
    link->ready = false;
    link->ops->on_refused(link->ctx, link, sentence, true);
    connection_close(link->connection);
}

void peer_uri(const char *cluster_name, uint64_t node, char uri[IDENTITY_URI])
{
    int len = snprintf(uri, IDENTITY_URI, IDENTITY_NODE "%s/%llu", cluster_name,
                       (unsigned long long)node);
    hf_assert(len > 0 && len < IDENTITY_URI);
}

/* Whether the certificate of the other end is that of this node of our cluster. */
static bool check_certificate(struct peer_link *link, uint64_t node,
                              char sentence[PEER_SENTENCE_MAX])
{
    char uri[IDENTITY_URI];
    const struct peer_identity *identity = connection_identity(link->connection);
    if (!link->self->is_certified) {
        return true;
    }
    peer_uri(link->self->cluster_name, node, uri);
    if (identity != NULL && identity_has_uri(identity, uri)) {
        return true;
    }
    snprintf(sentence, PEER_SENTENCE_MAX, "the certificate of node %llu does not name %s",
             (unsigned long long)node, uri);
    link->bad_credentials = true;
    return false;
}

/* Whether the other end has one, if this node requires it. */
static bool check_nonce(struct peer_link *link, const struct peer_introduction *intro,
                        char sentence[PEER_SENTENCE_MAX])
{
    if (!has_secret(link) || !link->self->secrets->is_required || intro->nonce.len > 0) {
        return true;
    }
    snprintf(sentence, PEER_SENTENCE_MAX,
             "node %llu has no peer secret, and node %llu requires one: set peer-secret-file on "
             "node %llu",
             (unsigned long long)intro->node, (unsigned long long)link->self->node,
             (unsigned long long)intro->node);
    link->bad_credentials = true;
    return false;
}

/* Whether the other end has our secret, if both have one. */
static bool check_proof(struct peer_link *link, uint64_t node, char sentence[PEER_SENTENCE_MAX])
{
    if (!link->uses_secret ||
        (link->has_proof && peer_secrets_verify(link->self->secrets, !link->dialled,
                                                &link->transcript, link->proof))) {
        return true;
    }
    snprintf(sentence, PEER_SENTENCE_MAX,
             "node %llu has another peer secret than node %llu: all nodes need the same "
             "peer-secret-file",
             (unsigned long long)node, (unsigned long long)link->self->node);
    link->bad_credentials = true;
    return false;
}

/* WELCOME was preceded by a proof; that of the dialler follows. */
static bool check_secret(struct peer_link *link, const struct peer_introduction *intro,
                         char sentence[PEER_SENTENCE_MAX])
{
    return check_nonce(link, intro, sentence) &&
           (!link->dialled || check_proof(link, intro->node, sentence));
}

/* The checks that need no owner come first. */
static bool check_introduction(struct peer_link *link, const struct peer_introduction *intro)
{
    char sentence[PEER_SENTENCE_MAX];
    if (intro->newest < PEER_PROTOCOL_OLDEST || intro->oldest > PEER_PROTOCOL_NEWEST) {
        snprintf(sentence, sizeof(sentence),
                 "no common version of the peer protocol: node %llu supports %u to %u, node %llu "
                 "%u to %u; upgrade the older one",
                 (unsigned long long)intro->node, intro->oldest, intro->newest,
                 (unsigned long long)link->self->node, PEER_PROTOCOL_OLDEST, PEER_PROTOCOL_NEWEST);
    } else if (link->dialled && intro->node != link->wanted) {
        snprintf(sentence, sizeof(sentence),
                 "this address should be node %llu, but node %llu answers; check the addresses",
                 (unsigned long long)link->wanted, (unsigned long long)intro->node);
    } else if (!link->dialled && intro->to != 0 && intro->to != link->self->node) {
        snprintf(sentence, sizeof(sentence), "this is node %llu, not node %llu",
                 (unsigned long long)link->self->node, (unsigned long long)intro->to);
    } else if (check_certificate(link, intro->node, sentence) &&
               check_secret(link, intro, sentence) &&
               link->ops->check(link->ctx, link, intro, sentence)) {
        return true;
    }
    peer_link_refuse(link, sentence);
    return false;
}

static uint32_t newest_of_both(const struct peer_introduction *intro)
{
    return intro->newest < PEER_PROTOCOL_NEWEST ? intro->newest : PEER_PROTOCOL_NEWEST;
}

static void become_ready(struct peer_link *link)
{
    link->ready = true;
    connection_set_timeout(link->connection, 0);
    link->ops->on_ready(link->ctx, link);
}

/* The reason is untrusted: control characters are replaced. */
static void on_refuse(struct peer_link *link, struct slice payload)
{
    char sentence[PEER_SENTENCE_MAX];
    size_t len = payload.len < sizeof(sentence) - 1 ? payload.len : sizeof(sentence) - 1;
    for (size_t i = 0; i < len; i++) {
        uint8_t c = payload.data[i];
        sentence[i] = c < ' ' || c == 0x7f ? '?' : (char)c;
    }
    sentence[len] = '\0';
    link->refused = true;
    link->ops->on_refused(link->ctx, link, sentence, false);
    peer_link_close(link, "refused");
}

void peer_link_forget_introduction(struct peer_link *link)
{
    link->intro = NULL;
    if (link->greeting != NULL) {
        memory_free(link->net->memory, link->greeting, link->greeting_len);
        link->greeting = NULL;
    }
}

static bool on_welcome(struct peer_link *link, struct slice payload)
{
    struct peer_introduction *intro = &link->introduction;
    if (!peer_introduction_decode(payload, intro) || intro->purpose != link->purpose) {
        return false;
    }
    link->intro = intro;
    link->uses_secret = link->offers_secret && intro->nonce.len > 0;
    digest_sha256(payload, link->transcript.welcome);
    if (check_introduction(link, intro)) {
        link->peer = intro->node;
        link->life = intro->life;
        link->protocol = newest_of_both(intro);
        uint8_t number[8];
        struct writer w = writer_make(number, sizeof(number));
        write_fixed64(&w, intro->number);
        if (link->uses_secret) {
            send_proof(link);
        }
        peer_link_send(link, PEER_BEGIN, slice_make(number, sizeof(number)));
        become_ready(link);
    }
    link->intro = NULL;
    return true;
}

/* HELLO is used only after BEGIN. */
static bool on_hello(struct peer_link *link, struct slice payload)
{
    struct peer_introduction *intro = &link->introduction;
    link->greeting_len = payload.len;
    link->greeting = memory_alloc(link->net->memory, payload.len);
    memcpy(link->greeting, payload.data, payload.len);
    if (!peer_introduction_decode(slice_make(link->greeting, payload.len), intro)) {
        return false;
    }
    link->intro = intro;
    link->purpose = intro->purpose;
    link->peer = intro->node;
    link->life = intro->life;
    link->uses_secret = has_secret(link) && intro->nonce.len > 0;
    digest_sha256(payload, link->transcript.hello);
    if (!check_introduction(link, intro)) {
        return true;
    }
    link->protocol = newest_of_both(intro);
    link->greeted = true;
    introduce(link, PEER_WELCOME);
    return true;
}

static bool on_begin(struct peer_link *link, struct slice payload)
{
    struct reader r = reader_make(payload);
    char sentence[PEER_SENTENCE_MAX];
    if (read_fixed64(&r) != link->number || !reader_done(&r)) {
        return false;
    }
    if (check_proof(link, link->peer, sentence)) {
        become_ready(link);
    } else {
        peer_link_refuse(link, sentence);
    }
    return true;
}

/* Verified with the next frame, which must be WELCOME or BEGIN. */
static bool on_proof(struct peer_link *link, struct slice payload)
{
    bool is_expected = link->dialled ? link->offers_secret : link->uses_secret;
    if (!is_expected || link->has_proof || payload.len != sizeof(link->proof)) {
        return false;
    }
    memcpy(link->proof, payload.data, sizeof(link->proof));
    link->has_proof = true;
    return true;
}

static bool on_greeting(struct peer_link *link, enum peer_frame type, struct slice payload)
{
    if (type == PEER_REFUSE) {
        on_refuse(link, payload);
        return true;
    }
    if (type == PEER_PROOF) {
        return on_proof(link, payload);
    }
    if (link->dialled) {
        return type == PEER_WELCOME && on_welcome(link, payload);
    }
    if (!link->greeted) {
        return type == PEER_HELLO && on_hello(link, payload);
    }
    return type == PEER_BEGIN && on_begin(link, payload);
}

static bool on_frame(struct peer_link *link, enum peer_frame type, struct slice payload)
{
    if (!link->ready) {
        return on_greeting(link, type, payload);
    }
    if (type == PEER_PING) {
        return payload.len == 0;
    }
    if (type == PEER_REFUSE) { /* the acceptor may refuse later, when the members change */
        on_refuse(link, payload);
        return true;
    }
    return type >= PEER_MESSAGE && type != PEER_PROOF &&
           link->ops->on_frame(link->ctx, link, type, payload);
}

static size_t on_bytes(void *owner, struct slice bytes)
{
    struct peer_link *link = owner;
    size_t used = 0;
    link->received_ms = now_ms(link);
    while (!link->closed) {
        enum peer_frame type;
        struct slice payload;
        size_t max = link->ready ? PEER_FRAME_MAX : PEER_GREETING_MAX;
        int64_t len =
            peer_frame_parse(slice_make(bytes.data + used, bytes.len - used), max, &type, &payload);
        if (len == 0) {
            break;
        }
        if (len < 0 || !on_frame(link, type, payload)) {
            peer_link_close(link, "garbled");
            break;
        }
        used += (size_t)len;
    }
    return used;
}

static void on_open(void *owner)
{
    struct peer_link *link = owner;
    char sentence[PEER_SENTENCE_MAX];
    if (link->dialled && !check_certificate(link, link->wanted, sentence)) {
        link->refused = true;
        link->ops->on_refused(link->ctx, link, sentence, true);
        peer_link_close(link, "refused"); /* HELLO is not sent */
    }
}

static void on_pressure(void *owner, bool pressed)
{
    struct peer_link *link = owner;
    if (!pressed && link->ops->on_drained != NULL && !link->closed) {
        link->ops->on_drained(link->ctx, link);
    }
}

static void on_connection_close(void *owner, const char *reason)
{
    struct peer_link *link = owner;
    struct net *net = link->net;
    link->closed = true;
    link->ready = false;
    if (connection_has_failed(link->connection)) {
        link->bad_credentials = true;
        link->ops->on_refused(link->ctx, link, reason, true);
    }
    link->ops->on_close(link->ctx, link, reason);
    peer_link_forget_introduction(link);
    memory_free(net->memory, link, sizeof(*link));
}

static const struct connection_handlers handlers = {
    .on_bytes = on_bytes,
    .on_open = on_open,
    .on_pressure = on_pressure,
    .on_close = on_connection_close,
};

static struct peer_link *link_new(struct net *net, struct connection *c,
                                  const struct peer_self *self, const struct peer_link_ops *ops,
                                  void *ctx)
{
    struct peer_link *link = memory_alloc(net->memory, sizeof(*link));
    memset(link, 0, sizeof(*link));
    link->net = net;
    link->connection = c;
    link->self = self;
    link->ops = ops;
    link->ctx = ctx;
    link->number = connection_number(c);
    link->sends_stores = true;
    link->received_ms = now_ms(link);
    return link;
}

struct peer_link *peer_link_dial(struct net *net, struct connection *c,
                                 const struct peer_self *self, uint64_t to,
                                 enum peer_purpose purpose, const struct peer_link_ops *ops,
                                 void *ctx)
{
    struct peer_link *link = link_new(net, c, self, ops, ctx);
    link->dialled = true;
    link->wanted = to;
    link->purpose = purpose;
    link->offers_secret = has_secret(link);
    connection_start(c, &handlers, link);
    connection_set_timeout(c, GREETING_MS);
    introduce(link, PEER_HELLO);
    return link;
}

struct peer_link *peer_link_accept(struct net *net, struct connection *c,
                                   const struct peer_self *self, const struct peer_link_ops *ops,
                                   void *ctx)
{
    struct peer_link *link = link_new(net, c, self, ops, ctx);
    connection_start(c, &handlers, link);
    connection_set_timeout(c, GREETING_MS);
    return link;
}
