/* The other nodes of the cluster, with one connection in each direction.
 *
 * This node dials each member and sends on that connection; the member sends on the one that it
 * dials. A new connection replaces the older one of its direction, whose unread bytes are dropped.
 * So messages arrive in order and at most once. An answer uses the connection of its request: when
 * that breaks, both ends can tell which requests are in doubt.
 *
 * In a log that is behind, the leader may not be a member. So a non-member with a connection to us
 * is dialled, at the address from its introduction, when there is something to send.
 *
 * S12.1: both sides refuse a node of another cluster, and a node whose store id changed.
 *
 * S12.10: only members are admitted. This node uses nothing from a node that has not proven its
 * identity by the number of our WELCOME and by its store id, which is learned by dialling its
 * address, or from another member. Until then a member's link waits, and messages on it are
 * dropped. */
#ifndef HOLDFAST_NODE_PEERS_PEERS_H
#define HOLDFAST_NODE_PEERS_PEERS_H

#include "base/journal.h"
#include "net/address.h"
#include "node/peers/peer_link.h"
#include "node/peers/peer_refusals.h"

struct peers;

enum peer_store { PEER_STORE_UNKNOWN, PEER_STORE_SAME, PEER_STORE_OTHER };

struct peers_options {
    struct net *net;
    const struct journal *journal;
    struct peer_self *self; /* outlives this; on_cluster may set its cluster */
    struct address listen;
    uint32_t max_incoming; /* 0: as many as any cluster needs */
    void *ctx;

    /* A Raft message. Returns NULL, or the reason to refuse it: then the link closes. */
    const char *(*on_message)(void *ctx, uint64_t peer, struct slice message);
    /* Answer it on `link` with peers_answer. */
    bool (*on_request)(void *ctx, uint64_t peer, uint64_t link, uint64_t number, uint8_t kind,
                       struct slice body);
    bool (*on_answer)(void *ctx, uint64_t peer, uint64_t number, uint8_t status, struct slice body);
    /* The dialled connection is up, or closed: its unanswered requests are in doubt. */
    void (*on_up)(void *ctx, uint64_t peer);
    void (*on_down)(void *ctx, uint64_t peer);
    /* Its machine refused the connection: no process listens. */
    void (*on_ended)(void *ctx, uint64_t peer);
    /* A peer requests a snapshot. The callee owns the link. */
    void (*on_snapshot_link)(void *ctx, struct peer_link *link);
    /* Whether the node is a member, or members reported that it is (S12.10); if not, why. NULL:
     * every node is admitted. */
    bool (*admits)(void *ctx, uint64_t node, char sentence[PEER_SENTENCE_MAX]);
    /* Compares with the recorded store id of that node. */
    enum peer_store (*find_store)(void *ctx, uint64_t node, struct id store);
    /* Answered at its configured address: record its store id durably. */
    void (*note_store)(void *ctx, uint64_t node, struct id store);
    /* Of a proven member: its `stores` and `used_ids` may be new. May be NULL. */
    void (*on_introduced)(void *ctx, const struct peer_introduction *intro);
    /* A node that does not support this version is refused. May be NULL. */
    uint32_t (*state_version)(void *ctx);
    /* This node joins and has learned its cluster: make it durable. */
    void (*on_cluster)(void *ctx, struct id cluster, struct slice name);
    /* Installs a filter (TLS) before the connection starts. May be NULL. */
    void (*secure)(void *ctx, struct connection *c, bool dialled);
    /* Nodes of this address were refused for a wrong certificate or secret; it is logged already.
     * At most once per address and minute. May be NULL. */
    void (*on_refused)(void *ctx, const struct peer_refusal *refusal);
};

/* On failure returns NULL and sets `problem`. */
struct peers *peers_new(const struct peers_options *options, char *problem, size_t problem_size);
/* The loop must then run until no connection is left. */
void peers_close(struct peers *p);
void peers_free(struct peers *p);

/* Starts to dial that node at that address; or stops. */
void peers_set(struct peers *p, uint64_t id, const struct address *address);
void peers_forget(struct peers *p, uint64_t id);
/* Stops dialling non-members, and refuses their links. */
void peers_review(struct peers *p);

/* All three: false if it is not sent, and never will be. */
bool peers_send(struct peers *p, uint64_t id, struct slice message);
bool peers_request(struct peers *p, uint64_t id, uint64_t number, uint8_t kind, struct slice body);
bool peers_answer(struct peers *p, uint64_t id, uint64_t link, uint64_t number, uint8_t status,
                  struct slice body);

/* An ANSWER with number 0, which belongs to no request, on the link of the node's requests.
 * peers_link: the number of that link, 0: none. */
bool peers_notify(struct peers *p, uint64_t id, uint8_t status, struct slice body);
uint64_t peers_link(const struct peers *p, uint64_t id);

/* Protocol version of the link that this node dialled for its requests, or of the accepted one,
 * whose requests it answers. 0: none. */
uint32_t peers_protocol(const struct peers *p, uint64_t id, bool dialled);

/* Whether a node is admitted; if not, why. Also for snapshot links. */
bool peers_check(struct peers *p, const struct peer_introduction *intro, bool dialled,
                 char sentence[PEER_SENTENCE_MAX]);
void peers_secure(struct peers *p, struct connection *c, bool dialled);
const struct address *peers_address(const struct peers *p, uint64_t id); /* NULL: not known */

struct peer_view {
    uint64_t id;
    uint64_t life;              /* 0: never seen */
    uint32_t state;             /* newest supported; 0: not known */
    uint64_t state_max;         /* bytes of state that fit its memory; 0: not known */
    const char *address;        /* "": this node never dialled it */
    const char *client_address; /* "": not known yet */
    bool reachable;
    uint64_t silent_ms; /* since bytes were last received; UINT64_MAX: never */
};
bool peers_view(const struct peers *p, uint64_t id, struct peer_view *out);
uint16_t peers_port(const struct peers *p);

#endif
