/* The table of peers in memory. Private to peers*.c. */
#ifndef HOLDFAST_NODE_PEERS_PEERS_STATE_H
#define HOLDFAST_NODE_PEERS_PEERS_STATE_H

#include "base/limits.h"
#include "net/dialer.h"
#include "node/peers/peers.h"

enum { PEERS_MAX = LIMIT_NODES };

struct peer {
    struct peers *peers;
    uint64_t id;
    struct address address;
    char address_text[ADDRESS_TEXT];
    char client_address[PEER_ADDRESS_MAX + 1];
    struct address offered; /* from its last introduction; port 0: none */
    struct dialer *dialer;  /* NULL: not a member, or no longer one */
    bool on_demand;         /* dialled because it awaits answers, see peers_send */
    struct peer_link *out;
    struct peer_link *in;
    struct peer_link *waiting; /* accepted, identity not proven yet */
    uint64_t life;
    uint32_t state;     /* newest supported; 0: not known */
    uint64_t state_max; /* bytes of state that fit its memory; 0: not known */
    uint64_t received_ms;
    bool has_received;
    bool reported;    /* peer_unreachable is logged */
    char refusal[64]; /* start of the last refusal: each is logged once */
};

struct peers {
    struct peers_options options;
    struct listener *listener;
    uv_timer_t timer;
    bool closing;
    uint64_t unknown_logged_ms; /* loop time when a refused unknown node was last logged */
    uint64_t unknown_unlogged;  /* refused since then */
    struct peer_refusals refusals;
    uint32_t count;
    struct peer *at[PEERS_MAX];
};

/* peers_admit.c */
struct peer *peers_find(const struct peers *p, uint64_t id);
/* NULL: the table is full. */
struct peer *peers_find_or_add(struct peers *p, uint64_t id);
bool peers_check_link(void *ctx, struct peer_link *link, const struct peer_introduction *intro,
                      char sentence[PEER_SENTENCE_MAX]);
/* Keeps the introduction of a proven link. NULL: the table is full. */
struct peer *peers_note(struct peers *p, struct peer_link *link);
/* Whether the other end of an accepted link has proven its identity. */
bool peers_is_proven(const struct peers *p, const struct peer_link *link);
void peers_on_refused(void *ctx, struct peer_link *link, const char *sentence, bool by_us);
void peers_report_refusals(struct peers *p);

#endif
