/* One framed connection between two nodes, from the greeting to the end. See peer_protocol.h for
 * what is said; who is let in is the owner's to judge.
 *
 *      dialled:   HELLO sent ──WELCOME──▶ ready (BEGIN sent)
 *      accepted:  silent ──HELLO──▶ WELCOME sent ──BEGIN──▶ ready
 *      any: ──refused, garbled, silent──▶ closed */
#ifndef HOLDFAST_NODE_PEERS_PEER_LINK_H
#define HOLDFAST_NODE_PEERS_PEER_LINK_H

#include "net/connection.h"
#include "node/peers/peer_protocol.h"

struct peer_link;

/* Who this node is; shared by all links and changed only when a node that joins learns its cluster.
 */
struct peer_self {
    struct id cluster;
    char cluster_name[PEER_NAME_MAX + 1];
    uint64_t node;
    struct id store;
    uint64_t life;
    char client_address[PEER_ADDRESS_MAX + 1];
    char peer_address[PEER_ADDRESS_MAX + 1]; /* as members know it; "": not known */
    uint8_t stores[PEER_STORES_MAX];         /* that we know (S12.1) */
    size_t stores_len;
    uint32_t state; /* the newest version of the state machine that we know */
    uint64_t used_ids;
    uint64_t state_max; /* PEER_NO_LIMIT: none */
};

struct peer_link_ops {
    /* Whether the other end is who it should be; if not, why, in a sentence that is sent to it.
     * Nothing of what it says is kept yet: whoever dialled us has not proven that it is alive. */
    bool (*judge)(void *ctx, struct peer_link *link, const struct peer_introduction *who,
                  char sentence[PEER_SENTENCE_MAX]);
    /* Refused, by us or by the other end. The end follows. */
    void (*on_refused)(void *ctx, struct peer_link *link, const char *sentence, bool by_us);
    void (*on_ready)(void *ctx, struct peer_link *link);
    /* False: it makes no sense, the link is aborted. Only after on_ready. */
    bool (*on_frame)(void *ctx, struct peer_link *link, enum peer_frame type, struct slice payload);
    /* Output is below PEER_LINK_LOW, after peer_link_expect_drain; may be NULL. */
    void (*on_drained)(void *ctx, struct peer_link *link);
    /* The link is gone when this returns. */
    void (*on_close)(void *ctx, struct peer_link *link, const char *reason);
};

struct peer_link {
    /* To be read by the owner. */
    uint64_t peer;   /* 0: it has not said yet */
    uint64_t life;   /* of the peer */
    uint64_t number; /* of this link in this process; later ones have higher numbers */
    enum peer_purpose purpose;
    uint32_t protocol; /* the newest version that both ends announced; 0: not greeted yet */
    bool dialled;
    bool ready;
    bool refused;
    uint64_t heard_ms; /* loop time of the last bytes */
    uint64_t said_ms;  /* ... that went out */
    void *owner;       /* the owner's own, both */
    void *origin;
    /* What the other end said of itself. Until peer_link_forget_introduction, or the end; of a link
     * that was dialled only in judge and on_ready. */
    const struct peer_introduction *who;
    bool tells_stores; /* to be set by judge: our WELCOME lists the stores that we know */

    /* Private. */
    struct connection *connection;
    const struct peer_self *self;
    const struct peer_link_ops *ops;
    void *ctx;
    uint64_t wanted; /* whom we dialled */
    bool greeted;    /* accepted: WELCOME is sent */
    bool closed;
    struct net *net;
    struct peer_introduction introduction;
    uint8_t *greeting; /* its bytes, of an accepted link */
    size_t greeting_len;
};

/* Both take over the connection and start it. Freed after on_close. */
struct peer_link *peer_link_dial(struct net *net, struct connection *c,
                                 const struct peer_self *self, uint64_t to,
                                 enum peer_purpose purpose, const struct peer_link_ops *ops,
                                 void *ctx);
struct peer_link *peer_link_accept(struct net *net, struct connection *c,
                                   const struct peer_self *self, const struct peer_link_ops *ops,
                                   void *ctx);

/* Appends a frame to what goes out in this turn. False when too much waits already: it is not sent.
 */
bool peer_link_send(struct peer_link *link, enum peer_frame type, struct slice payload);
/* A request or an answer: head and body. */
bool peer_link_send_request(struct peer_link *link, enum peer_frame type, uint64_t number,
                            uint8_t kind, struct slice body);
/* Bytes that wait to be taken by the other end. */
size_t peer_link_pending(const struct peer_link *link);

/* What was said in the greeting is not needed any more. */
void peer_link_forget_introduction(struct peer_link *link);

/* Another owner takes over a link that is ready. */
void peer_link_hand_over(struct peer_link *link, const struct peer_link_ops *ops, void *ctx);

/* Says why, and closes. */
void peer_link_refuse(struct peer_link *link, const char *sentence);
void peer_link_close(struct peer_link *link, const char *reason);

void peer_link_expect_drain(struct peer_link *link);

#define PEER_LINK_HIGH (1u << 20)
#define PEER_LINK_LOW (256u << 10)

/* How connections between nodes are set up. */
extern const struct connection_options peer_connection_options;

#endif
