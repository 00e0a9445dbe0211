/* One framed connection between two nodes (peer_protocol.h). The owner decides, by the op `check`,
 * whether the other node is admitted.
 *
 *      dialled:   HELLO sent ──WELCOME──▶ ready (BEGIN sent)
 *      accepted:  idle ──HELLO──▶ WELCOME sent ──BEGIN──▶ ready
 *      any:       ──refused, malformed, timed out──▶ closed
 *
 * With a shared secret, PROOF precedes WELCOME and BEGIN, and is verified before they are used.
 *
 * With TLS, the certificate is compared with the id of the node: by the dialling end before it
 * sends a byte, by the accepting end before it answers HELLO. */
#ifndef HOLDFAST_NODE_PEERS_PEER_LINK_H
#define HOLDFAST_NODE_PEERS_PEER_LINK_H

#include "net/connection.h"
#include "node/peers/peer_protocol.h"
#include "node/peers/peer_secret.h"

struct peer_link;

/* The identity of this node. It changes only when a joining node learns its cluster. */
struct peer_self {
    struct id cluster;
    char cluster_name[PEER_NAME_MAX + 1];
    uint64_t node;
    struct id store;
    uint64_t life;
    char client_address[PEER_ADDRESS_MAX + 1];
    char peer_address[PEER_ADDRESS_MAX + 1]; /* where members dial this node; "": not known */
    uint8_t stores[PEER_STORES_MAX];         /* store ids of other nodes (S12.1) */
    size_t stores_len;
    uint32_t state; /* newest supported state machine version */
    uint64_t used_ids;
    uint64_t state_max; /* PEER_NO_LIMIT: none */
    bool is_certified;  /* links use TLS: the other end's certificate must name its node */
    const struct peer_secrets *secrets; /* NULL, or none: links have no proof by a secret */
};

struct peer_link_ops {
    /* If not admitted, the other node is sent `sentence`. Keep nothing of `intro` yet: a dialler
     * has not proven that it is alive. */
    bool (*check)(void *ctx, struct peer_link *link, const struct peer_introduction *intro,
                  char sentence[PEER_SENTENCE_MAX]);
    /* By us or by the other end. on_close follows. */
    void (*on_refused)(void *ctx, struct peer_link *link, const char *sentence, bool by_us);
    void (*on_ready)(void *ctx, struct peer_link *link);
    /* False: invalid, the link is aborted. Only after on_ready. */
    bool (*on_frame)(void *ctx, struct peer_link *link, enum peer_frame type, struct slice payload);
    /* Output is below PEER_LINK_LOW, after peer_link_expect_drain; may be NULL. */
    void (*on_drained)(void *ctx, struct peer_link *link);
    /* The link is freed when this returns. */
    void (*on_close)(void *ctx, struct peer_link *link, const char *reason);
};

struct peer_link {
    /* Readable by the owner. */
    uint64_t peer;   /* 0: not received yet */
    uint64_t life;   /* of the peer */
    uint64_t number; /* in this process; later links have higher numbers */
    enum peer_purpose purpose;
    uint32_t protocol; /* the newest that both ends announced; 0: not greeted yet */
    bool dialled;
    bool ready;
    bool refused;
    bool bad_credentials; /* refused by us for its certificate or secret */
    uint64_t received_ms; /* loop time of the last bytes received */
    uint64_t sent_ms;     /* loop time of the last bytes sent */
    void *owner;          /* for the owner's use, like `origin` */
    void *origin;
    /* Accepted link: valid until peer_link_forget_introduction or the close. Dialled link: valid
     * only in `check` and on_ready. */
    const struct peer_introduction *intro;
    bool sends_stores; /* set by `check`: our WELCOME lists the known stores */

    /* Private. */
    struct connection *connection;
    const struct peer_self *self;
    const struct peer_link_ops *ops;
    void *ctx;
    uint64_t wanted;
    bool greeted; /* accepted link: WELCOME is sent */
    bool closed;
    bool offers_secret; /* dialled link: our HELLO has a nonce */
    bool uses_secret;   /* both ends sent a nonce */
    bool has_proof;     /* received, not verified yet */
    uint8_t proof[PEER_PROOF_BYTES];
    struct peer_transcript transcript;
    struct net *net;
    struct peer_introduction introduction;
    uint8_t *greeting; /* accepted link: the bytes of its HELLO */
    size_t greeting_len;
};

/* Both take ownership of the connection and start it. The link is freed after on_close. */
struct peer_link *peer_link_dial(struct net *net, struct connection *c,
                                 const struct peer_self *self, uint64_t to,
                                 enum peer_purpose purpose, const struct peer_link_ops *ops,
                                 void *ctx);
struct peer_link *peer_link_accept(struct net *net, struct connection *c,
                                   const struct peer_self *self, const struct peer_link_ops *ops,
                                   void *ctx);

/* Appends a frame to the output of this turn. False: not sent, too much is pending. */
bool peer_link_send(struct peer_link *link, enum peer_frame type, struct slice payload);
bool peer_link_send_request(struct peer_link *link, enum peer_frame type, uint64_t number,
                            uint8_t kind, struct slice body);
/* Output that the other end has not taken yet. */
size_t peer_link_pending(const struct peer_link *link);

/* The subject alternative name of a node's certificate. */
void peer_uri(const char *cluster_name, uint64_t node, char uri[IDENTITY_URI]);

void peer_link_forget_introduction(struct peer_link *link);

void peer_link_hand_over(struct peer_link *link, const struct peer_link_ops *ops, void *ctx);

void peer_link_refuse(struct peer_link *link, const char *sentence);
void peer_link_close(struct peer_link *link, const char *reason);

void peer_link_expect_drain(struct peer_link *link);

#define PEER_LINK_HIGH (1u << 20)
#define PEER_LINK_LOW (256u << 10)

extern const struct connection_options peer_connection_options;

#endif
