/* Tables of peers on one loop, over real sockets. */
#ifndef HOLDFAST_TESTS_PEERS_WORLD_H
#define HOLDFAST_TESTS_PEERS_WORLD_H

#include "base_testing.h"

#include "node/peers/peers.h"

struct end {
    struct peers_world *world;
    struct peers *peers;
    struct peer_self self;
    struct buffer got;           /* messages, one after the other */
    struct buffer answers;       /* "number:status:body," */
    struct buffer journal;       /* "event:reason;" */
    uint64_t first_store_of[16]; /* by node id: the store's low half */
    uint64_t last_link;
    int up, down, ended, snapshot_links;
    bool forgets;                /* whoever greets it, before the greeting is done */
    uint32_t state_version;      /* of its cluster; 0: it has none yet */
    bool is_no_member[16];       /* by node id, as this end knows it */
    struct peer_secrets secrets; /* used once self.secrets points to it */
    int refusals;                /* reports for wrong credentials */
    struct peer_refusal refusal; /* the last of them */
};

struct peers_world {
    uv_loop_t loop;
    struct net net;
    struct journal journal[4];
    struct end ends[4];
};

void world_open(struct peers_world *w);
/* Closes all ends. */
void world_close(struct peers_world *w);
void end_open(struct peers_world *w, int i, uint64_t node, uint64_t cluster, uint64_t store,
              uint64_t life);
void end_close(struct end *e);
void let_dial_unknown(struct end *from, struct end *to);
/* `to` has the store of `from`, as it does once they have met. */
void let_dial(struct end *from, struct end *to);
/* Whether these words are in it. */
bool says(struct buffer *b, const char *words);

#define UNTIL(w, condition)                                  \
    do {                                                     \
        uint64_t end_ = uv_hrtime() + UINT64_C(60000000000); \
        while (!(condition) && uv_hrtime() < end_) {         \
            uv_run(&(w)->loop, UV_RUN_ONCE);                 \
        }                                                    \
        assert_true(condition);                              \
    } while (0)

#endif
