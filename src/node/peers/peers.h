/* The other nodes of the cluster: who they are, and one connection in each direction.
 *
 * We dial each member and send on that connection; what it sends comes on the one that it dialled.
 * So messages are in order and never doubled: a new connection replaces the older one of the same
 * direction, and what was still to be read from that is dropped. Answers to requests come back on
 * the connection that carried the request: when it breaks, both ends know which ones are in doubt.
 *
 * A node whose log is behind may not know the leader as a member, and has to answer it. So a node
 * that has a connection to us is dialled when there is something to send to it, at the address that
 * it named itself, until its connection ends.
 *
 * S12.1: a node of another cluster, and one that has another store than it had, is refused on both
 * sides, with a sentence that names it.
 *
 * S12.10: only members are let in, and nothing of what a node says is kept or acted on before it
 * has proven who it is: by the number of our WELCOME, and by its store. The store of a member is
 * learned at the address that the members have for it, or from another member. A link of a member
 * whose store is not known yet waits for that; what comes on it meanwhile is dropped. */
#ifndef HOLDFAST_NODE_PEERS_PEERS_H
#define HOLDFAST_NODE_PEERS_PEERS_H

#include "base/journal.h"
#include "net/address.h"
#include "node/peers/peer_link.h"

struct peers;

enum peer_store { PEER_STORE_UNKNOWN, PEER_STORE_SAME, PEER_STORE_OTHER };

struct peers_options {
    struct net *net;
    const struct journal *journal;
    struct peer_self *self; /* the cluster may be filled in by us when the node joins */
    struct address listen;
    uint32_t max_incoming; /* connections; 0: as many as any cluster needs */
    void *ctx;

    /* A message of the other engine. NULL: taken; else why not, in a sentence: the link ends. */
    const char *(*on_message)(void *ctx, uint64_t peer, struct slice message);
    /* A request that came over the link `link`; answered with peers_answer. */
    bool (*on_request)(void *ctx, uint64_t peer, uint64_t link, uint64_t number, uint8_t kind,
                       struct slice body);
    bool (*on_answer)(void *ctx, uint64_t peer, uint64_t number, uint8_t status, struct slice body);
    /* Our connection to the peer is up, or is gone: what it carried and was not answered is in
     * doubt. */
    void (*on_up)(void *ctx, uint64_t peer);
    void (*on_down)(void *ctx, uint64_t peer);
    /* Its machine says that nobody listens there: the process has ended. */
    void (*on_ended)(void *ctx, uint64_t peer);
    /* A peer wants a snapshot; the link is the receiver's from now on. */
    void (*on_snapshot_link)(void *ctx, struct peer_link *link);
    /* Whether the node is a member, or may be one by what members told us (S12.10); if not, why.
     * NULL: everybody is. */
    bool (*hears)(void *ctx, uint64_t node, char sentence[PEER_SENTENCE_MAX]);
    /* Whether this is the store that the node is known to have. */
    enum peer_store (*find_store)(void *ctx, uint64_t node, struct id store);
    /* It answered at the address that we have for it: remember its store, durably. */
    void (*note_store)(void *ctx, uint64_t node, struct id store);
    /* What a proven member of our cluster knows of others. */
    void (*on_told)(void *ctx, const struct peer_introduction *who);
    /* The version of our state: who does not know it is refused. May be NULL. */
    uint32_t (*state_version)(void *ctx);
    /* A node that joins has learned where it belongs: make it durable. */
    void (*on_cluster)(void *ctx, struct id cluster, struct slice name);
    /* TLS, later: gives the connection its filter before it starts. May be NULL. */
    void (*secure)(void *ctx, struct connection *c, bool dialled);
};

/* NULL, with a sentence, when the address cannot be listened on. */
struct peers *peers_new(const struct peers_options *options, char *problem, size_t problem_size);
/* Aborts every link; the rest happens in the loop, which must run until no connection is left. */
void peers_close(struct peers *p);
void peers_free(struct peers *p);

/* Dial that node from now on, at that address; or no more. */
void peers_set(struct peers *p, uint64_t id, const struct address *address);
void peers_forget(struct peers *p, uint64_t id);
/* The members changed: whoever is none any more is not dialled, and its links end. */
void peers_review(struct peers *p);

/* False: not sent, and never will be. */
bool peers_send(struct peers *p, uint64_t id, struct slice message);
bool peers_request(struct peers *p, uint64_t id, uint64_t number, uint8_t kind, struct slice body);
bool peers_answer(struct peers *p, uint64_t id, uint64_t link, uint64_t number, uint8_t status,
                  struct slice body);

/* An answer to no request, with number 0, on the link that the node asks on; and that link's
 * number, 0: there is none. */
bool peers_tell(struct peers *p, uint64_t id, uint8_t status, struct slice body);
uint64_t peers_link(const struct peers *p, uint64_t id);

/* The version of the peer protocol on a link with a node: on the link that this node dialled and
 * sends its requests on, or on the accepted one, whose requests it answers. 0: there is none. */
uint32_t peers_protocol(const struct peers *p, uint64_t id, bool dialled);

/* Who is let in. For dialled links of another purpose, too. */
bool peers_judge(struct peers *p, const struct peer_introduction *who, bool dialled,
                 char sentence[PEER_SENTENCE_MAX]);
void peers_secure(struct peers *p, struct connection *c, bool dialled);
const struct address *peers_address(const struct peers *p, uint64_t id); /* NULL: not known */

struct peer_view {
    uint64_t id;
    uint64_t life;              /* 0: never seen */
    uint32_t state;             /* the newest version of the state machine that it knows; 0: ... */
    uint64_t state_max;         /* bytes of state that it has memory for; 0: it did not say */
    const char *address;        /* "" when it only came to us */
    const char *client_address; /* "" when not known yet */
    bool reachable;             /* our connection to it is up */
    uint64_t silent_ms;         /* since we last heard from it; UINT64_MAX: never */
};
bool peers_view(const struct peers *p, uint64_t id, struct peer_view *out);
uint16_t peers_port(const struct peers *p);

#endif
