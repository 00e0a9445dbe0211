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
    struct address offered;    /* by its last greeting; port 0: none */
    struct dialer *dialer;     /* NULL: not a member, or not any more */
    bool on_demand;            /* dialled because it awaits answers, see peers_send */
    struct peer_link *out;     /* dialled */
    struct peer_link *in;      /* accepted */
    struct peer_link *waiting; /* accepted, and has not proven yet whose it is */
    uint64_t life;
    uint32_t state;     /* the newest version of the state machine that it knows; 0: not said yet */
    uint64_t state_max; /* bytes of state that it has memory for; 0: not said */
    uint64_t heard_ms;
    bool heard;
    bool told;        /* the operator knows that it cannot be reached */
    char refusal[64]; /* the beginning of the last one, so that it is told once */
};

struct peers {
    struct peers_options options;
    struct listener *listener;
    uv_timer_t timer;
    bool closing;
    uint64_t stranger_ms; /* when the refusal of a node that is no member was last told */
    uint64_t strangers;   /* ... and how many were not told since */
    uint32_t count;
    struct peer *at[PEERS_MAX];
};

/* peers_admit.c */
struct peer *peers_find(const struct peers *p, uint64_t id);
/* NULL: there is no room for another one. */
struct peer *peers_find_or_add(struct peers *p, uint64_t id);
/* Of struct peer_link_ops, for the links of this table. */
bool peers_judge_link(void *ctx, struct peer_link *link, const struct peer_introduction *who,
                      char sentence[PEER_SENTENCE_MAX]);
/* A link that has proven who is at its other end: keeps what that said of itself. NULL: there is no
 * place for another node. */
struct peer *peers_note(struct peers *p, struct peer_link *link);
/* Whether an accepted link has proven it. */
bool peers_is_proven(const struct peers *p, const struct peer_link *link);
void peers_on_refused(void *ctx, struct peer_link *link, const char *sentence, bool by_us);

#endif
