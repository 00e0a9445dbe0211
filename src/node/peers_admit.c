/* The table of peers, and who is let in (S12.1). */
#include <stdio.h>

#include "node/peers_state.h"

enum { REFUSED_WAIT_MS = 5000 };

/* ---- the table ---- */

struct peer *peers_find(const struct peers *p, uint64_t id)
{
    for (uint32_t i = 0; i < p->count; i++) {
        if (p->at[i]->id == id) {
            return p->at[i];
        }
    }
    return NULL;
}

/* One that has no links and is no member makes room for a new one. */
static struct peer *take_slot(struct peers *p)
{
    if (p->count < PEERS_MAX) {
        struct peer *fresh = memory_alloc(p->options.net->memory, sizeof(*fresh));
        p->at[p->count++] = fresh;
        return fresh;
    }
    for (uint32_t i = 0; i < p->count; i++) {
        struct peer *old = p->at[i];
        if (old->dialer == NULL && old->out == NULL && old->in == NULL) {
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

/* ---- who is let in ---- */

static void cluster_text(struct id cluster, struct slice name, char *text, size_t size)
{
    snprintf(text, size, "\"%.*s\" (%016llx%016llx)", (int)name.len, (const char *)name.data,
             (unsigned long long)cluster.high, (unsigned long long)cluster.low);
}

bool peers_judge(struct peers *p, const struct peer_introduction *who,
                 char sentence[PEER_SENTENCE_MAX])
{
    struct peer_self *self = p->options.self;
    const struct peer *known = peers_find(p, who->node);
    unsigned long long them = (unsigned long long)who->node;
    if (who->node == self->node) {
        snprintf(sentence, PEER_SENTENCE_MAX, "the node id %llu is used twice", them);
        return false;
    }
    bool theirs = !id_is_zero(who->cluster);
    bool ours = !id_is_zero(self->cluster);
    if (theirs && ours && !id_equal(who->cluster, self->cluster)) {
        char them_text[PEER_NAME_MAX + 40];
        char us_text[PEER_NAME_MAX + 40];
        cluster_text(who->cluster, who->cluster_name, them_text, sizeof(them_text));
        cluster_text(self->cluster, slice_of(self->cluster_name), us_text, sizeof(us_text));
        snprintf(sentence, PEER_SENTENCE_MAX,
                 "node %llu belongs to the cluster %s, node %llu to the cluster %s", them,
                 them_text, (unsigned long long)self->node, us_text);
        return false;
    }
    if (known != NULL && who->life < known->life) {
        snprintf(sentence, PEER_SENTENCE_MAX, "this is an earlier life of node %llu", them);
        return false;
    }
    uint32_t needed =
        p->options.state_version == NULL ? 0 : p->options.state_version(p->options.ctx);
    if (who->state < needed) {
        snprintf(sentence, PEER_SENTENCE_MAX,
                 "the cluster's state has version %u and node %llu knows versions up to %u only: "
                 "start it with a newer version of Holdfast",
                 needed, them, who->state);
        return false;
    }
    /* Who waits to be added must be able to greet first: an id whose store is noted was used. When
     * it is a member we dial it, and note it then. */
    bool stranger =
        p->options.is_stranger != NULL && p->options.is_stranger(p->options.ctx, who->node);
    if (!stranger && !p->options.know_store(p->options.ctx, who->node, who->store)) {
        snprintf(sentence, PEER_SENTENCE_MAX,
                 "node %llu lost its disk: remove it and add it under a new id", them);
        return false;
    }
    /* What it knows of others becomes ours where we know nothing. */
    uint64_t node;
    struct id store;
    for (struct slice left = who->stores; peer_stores_next(&left, &node, &store);) {
        if (node != self->node) {
            (void)p->options.know_store(p->options.ctx, node, store);
        }
    }
    if (theirs && !ours) {
        p->options.on_cluster(p->options.ctx, who->cluster, who->cluster_name);
    }
    return true;
}

/* What both kinds of links learn about the other end from its introduction. */
bool peers_judge_link(void *ctx, struct peer_link *link, const struct peer_introduction *who,
                      char sentence[PEER_SENTENCE_MAX])
{
    (void)link;
    struct peers *p = ctx;
    if (!peers_judge(p, who, sentence)) {
        return false;
    }
    struct peer *peer = peers_find_or_add(p, who->node);
    if (peer == NULL) {
        snprintf(sentence, PEER_SENTENCE_MAX, "node %llu knows %d other nodes and no more",
                 (unsigned long long)p->options.self->node, PEERS_MAX);
        return false;
    }
    /* A later life speaks: what an earlier one said, and we have not read, is void. */
    if (peer->in != NULL && peer->in->life < who->life) {
        peer_link_close(peer->in, "an earlier life");
    }
    peer->life = who->life;
    peer->state = who->state;
    snprintf(peer->client_address, sizeof(peer->client_address), "%.*s",
             (int)who->client_address.len, (const char *)who->client_address.data);
    return true;
}

void peers_on_refused(void *ctx, struct peer_link *link, const char *sentence, bool by_us)
{
    struct peers *p = ctx;
    struct peer *peer = peers_find(p, link->dialled ? link->wanted : link->peer);
    if (link->dialled && peer != NULL && peer->dialer != NULL) {
        dialer_slow(peer->dialer, REFUSED_WAIT_MS);
    }
    char beginning[sizeof(peer->refusal)];
    snprintf(beginning, sizeof(beginning), "%s", sentence);
    if (peer != NULL) {
        if (strcmp(peer->refusal, beginning) == 0) {
            return;
        }
        memcpy(peer->refusal, beginning, sizeof(beginning));
    }
    journal_note(p->options.journal, ERROR, PEER, by_us ? "peer_refused" : "refused_by_peer",
                 JOURNAL_NUMBER("peer", link->dialled ? link->wanted : link->peer),
                 JOURNAL_TEXT("address", connection_remote(link->connection)),
                 JOURNAL_TEXT("reason", sentence));
}
