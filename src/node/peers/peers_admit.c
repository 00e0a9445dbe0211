/* The table of peers, and which nodes are admitted (S12.1). */
#include <stdio.h>

#include "node/peers/peers_state.h"

enum { REFUSED_WAIT_MS = 5000, UNKNOWN_LOG_MS = 1000 };

struct peer *peers_find(const struct peers *p, uint64_t id)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->at[i]->id == id) {
            return p->at[i];
        }
    }
    return NULL;
}

/* If the table is full, reuses the slot of a non-member without links. */
static struct peer *take_slot(struct peers *p)
{
    if (p->count < PEERS_MAX) {
        struct peer *fresh = memory_alloc(p->options.net->memory, sizeof(*fresh));
        p->at[p->count++] = fresh;
        return fresh;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        struct peer *old = p->at[i];
        if (old->dialer == NULL && old->out == NULL && old->in == NULL && old->waiting == NULL) {
            return old;
        }
    }
    return NULL;
}

struct peer *peers_find_or_add(struct peers *p, uint64_t id)
{
    struct peer *peer = peers_find(p, id);
    if (peer == NULL) {
        peer = take_slot(p);
        if (peer != NULL) {
            memset(peer, 0, sizeof(*peer));
            peer->peers = p;
            peer->id = id;
        }
    }
    return peer;
}

/* Half of the id distinguishes clusters; only members may see all of it. */
static void cluster_text(struct id cluster, struct slice name, char *text, size_t size)
{
    snprintf(text, size, "\"%.*s\" (%016llx...)", (int)name.len, (const char *)name.data,
             (unsigned long long)cluster.high);
}

static bool check_cluster(const struct peer_self *self, const struct peer_introduction *intro,
                          char sentence[PEER_SENTENCE_MAX])
{
    if (id_is_zero(intro->cluster) || id_is_zero(self->cluster) ||
        id_equal(intro->cluster, self->cluster)) {
        return true;
    }
    char them_text[PEER_NAME_MAX + 40];
    char us_text[PEER_NAME_MAX + 40];
    cluster_text(intro->cluster, intro->cluster_name, them_text, sizeof(them_text));
    cluster_text(self->cluster, slice_of(self->cluster_name), us_text, sizeof(us_text));
    snprintf(sentence, PEER_SENTENCE_MAX,
             "node %llu belongs to the cluster %s, node %llu to the cluster %s",
             (unsigned long long)intro->node, them_text, (unsigned long long)self->node, us_text);
    return false;
}

bool peers_check(struct peers *p, const struct peer_introduction *intro, bool dialled,
                 char sentence[PEER_SENTENCE_MAX])
{
    const struct peers_options *o = &p->options;
    const struct peer *known = peers_find(p, intro->node);
    unsigned long long them = (unsigned long long)intro->node;
    if (intro->node == o->self->node) {
        snprintf(sentence, PEER_SENTENCE_MAX,
                 "the node id %llu is used twice: give each node its own id", them);
        return false;
    }
    if (!check_cluster(o->self, intro, sentence) ||
        (!dialled && o->admits != NULL && !o->admits(o->ctx, intro->node, sentence))) {
        return false;
    }
    if (known != NULL && intro->life < known->life) {
        snprintf(sentence, PEER_SENTENCE_MAX, "this is an earlier life of node %llu", them);
        return false;
    }
    uint32_t needed = o->state_version == NULL ? 0 : o->state_version(o->ctx);
    if (intro->state < needed) {
        snprintf(sentence, PEER_SENTENCE_MAX,
                 "the cluster's state has version %u and node %llu knows versions up to %u only: "
                 "start it with a newer version of Holdfast",
                 needed, them, intro->state);
        return false;
    }
    if (o->find_store(o->ctx, intro->node, intro->store) == PEER_STORE_OTHER) {
        snprintf(sentence, PEER_SENTENCE_MAX,
                 "node %llu lost its disk: remove it and add it under a new id", them);
        return false;
    }
    return true;
}

bool peers_check_link(void *ctx, struct peer_link *link, const struct peer_introduction *intro,
                      char sentence[PEER_SENTENCE_MAX])
{
    struct peers *p = ctx;
    link->sends_stores = p->options.find_store(p->options.ctx, intro->node, intro->store) ==
                         PEER_STORE_SAME; /* a node without a proven store id gets no stores */
    return peers_check(p, intro, link->dialled, sentence);
}

bool peers_is_proven(const struct peers *p, const struct peer_link *link)
{
    const struct peers_options *o = &p->options;
    const struct peer_introduction *intro = link->intro;
    char sentence[PEER_SENTENCE_MAX];
    return !id_is_zero(o->self->cluster) &&
           (id_is_zero(intro->cluster) || id_equal(intro->cluster, o->self->cluster)) &&
           (o->admits == NULL || o->admits(o->ctx, intro->node, sentence)) &&
           o->find_store(o->ctx, intro->node, intro->store) == PEER_STORE_SAME;
}

/* An answer at the address of a member proves the store id. */
static void learn(struct peers *p, const struct peer_link *link)
{
    const struct peers_options *o = &p->options;
    const struct peer_introduction *intro = link->intro;
    if (link->dialled && o->find_store(o->ctx, intro->node, intro->store) == PEER_STORE_UNKNOWN) {
        o->note_store(o->ctx, intro->node, intro->store);
    }
    if (link->dialled && !id_is_zero(intro->cluster) && id_is_zero(o->self->cluster)) {
        o->on_cluster(o->ctx, intro->cluster, intro->cluster_name);
    }
    if (!id_is_zero(intro->cluster) && o->on_introduced != NULL) {
        o->on_introduced(o->ctx, intro);
    }
}

static void note_offered(struct peer *peer, struct slice address)
{
    char text[PEER_ADDRESS_MAX + 1];
    snprintf(text, sizeof(text), "%.*s", (int)address.len, (const char *)address.data);
    if (!address_parse(text, &peer->offered) || peer->offered.host[0] == '\0') {
        peer->offered.port = 0;
    }
}

struct peer *peers_note(struct peers *p, struct peer_link *link)
{
    const struct peer_introduction *intro = link->intro;
    struct peer *peer = peers_find_or_add(p, intro->node);
    if (peer == NULL) {
        return NULL;
    }
    /* Restarted: unread bytes of its earlier run are void. */
    if (peer->in != NULL && peer->in->life < intro->life) {
        peer_link_close(peer->in, "an earlier life");
    }
    peer->life = intro->life > peer->life ? intro->life : peer->life;
    note_offered(peer, intro->peer_address);
    peer->state = intro->state;
    peer->state_max = intro->state_max;
    snprintf(peer->client_address, sizeof(peer->client_address), "%.*s",
             (int)intro->client_address.len, (const char *)intro->client_address.data);
    learn(p, link);
    return peer;
}

/* Anyone can cause refusals of unknown nodes. */
static bool may_log_unknown(struct peers *p)
{
    uint64_t now_ms = uv_now(p->options.net->loop);
    if (p->unknown_logged_ms != 0 && now_ms - p->unknown_logged_ms < UNKNOWN_LOG_MS) {
        p->unknown_unlogged++;
        return false;
    }
    p->unknown_logged_ms = now_ms;
    return true;
}

void peers_report_refusals(struct peers *p)
{
    struct peer_refusal refusal;
    while (peer_refusals_next(&p->refusals, uv_now(p->options.net->loop), &refusal)) {
        journal_note(p->options.journal, WARN, PEER, "peer_refused",
                     JOURNAL_NUMBER("peer", refusal.peer), JOURNAL_TEXT("address", refusal.address),
                     JOURNAL_TEXT("reason", refusal.reason),
                     JOURNAL_NUMBER("refusals", refusal.count));
        if (p->options.on_refused != NULL) {
            p->options.on_refused(p->options.ctx, &refusal);
        }
    }
}

void peers_on_refused(void *ctx, struct peer_link *link, const char *sentence, bool by_us)
{
    struct peers *p = ctx;
    struct peer *peer = peers_find(p, link->dialled ? link->wanted : link->peer);
    if (link->dialled && peer != NULL && peer->dialer != NULL) {
        dialer_slow(peer->dialer, REFUSED_WAIT_MS);
    }
    if (link->bad_credentials) {
        peer_refusals_add(&p->refusals, connection_remote(link->connection),
                          link->dialled ? link->wanted : link->peer, sentence,
                          uv_now(p->options.net->loop));
        peers_report_refusals(p);
        return;
    }
    if (peer != NULL) {
        char beginning[sizeof(peer->refusal)];
        snprintf(beginning, sizeof(beginning), "%s", sentence);
        if (strcmp(peer->refusal, beginning) == 0) {
            return;
        }
        memcpy(peer->refusal, beginning, sizeof(beginning));
    } else if (!may_log_unknown(p)) {
        return;
    }
    journal_note(p->options.journal, ERROR, PEER, by_us ? "peer_refused" : "refused_by_peer",
                 JOURNAL_NUMBER("peer", link->dialled ? link->wanted : link->peer),
                 JOURNAL_TEXT("address", connection_remote(link->connection)),
                 JOURNAL_TEXT("reason", sentence),
                 JOURNAL_NUMBER("not_logged", p->unknown_unlogged));
    p->unknown_unlogged = 0;
}
