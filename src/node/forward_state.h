/* Private to forward.c (calls of this node) and relay.c (requests of other nodes). */
#ifndef HOLDFAST_NODE_FORWARD_STATE_H
#define HOLDFAST_NODE_FORWARD_STATE_H

#include "base/buffer.h"
#include "node/forward.h"
#include "node/result_codec.h"

/* What travels between nodes, in the frames PEER_REQUEST and PEER_ANSWER. */
enum forward_kind { FORWARD_COMMAND = 1, FORWARD_BARRIER = 2 };
enum forward_status {
    FORWARD_DONE = 1,     /* body: the result; for a barrier the index to wait for */
    FORWARD_NOT_DONE = 2, /* not the leader, or no longer: it will not be done */
    FORWARD_UNKNOWN = 3,
    FORWARD_BUSY = 4,
    FORWARD_MALFORMED = 5,
};

/* The first member of everything that the replica knows by its cookie. */
enum cookie_kind { COOKIE_NOBODY, COOKIE_CALL, COOKIE_RELAY };
struct cookie {
    enum cookie_kind kind;
};

enum { FORWARD_SLOTS = 1 << 16 }; /* calls outstanding at most */

enum call_state {
    CALL_WAITING,
    CALL_HERE,
    CALL_THERE,
    CALL_CATCHING_UP, /* a barrier whose index our own state has not reached */
    CALL_ANSWERED     /* kept only until the replica has told what became of it */
};

struct call {
    struct cookie cookie;
    struct gateway_call *gateway; /* NULL when answered */
    enum call_state state;
    bool is_barrier;
    bool is_first;
    bool is_safe;        /* may be sent again after a doubt */
    uint32_t here;       /* submissions that the replica has not told about */
    uint32_t doubts;     /* attempts that may have been done, and nobody will tell */
    uint64_t give_up_ms; /* boot time */
    uint64_t number;
    uint64_t peer;
    uint64_t index;
    struct call *next; /* in the list of its state */
    struct call *prev;
    size_t len;
    uint8_t bytes[]; /* the encoded command */
};

struct call_list {
    struct call *first;
    struct call *last;
    uint32_t count;
};

struct relay {
    struct cookie cookie;
    uint64_t peer;
    uint64_t link;
    uint64_t number;
    struct relay *next;
    struct relay *prev;
};

struct forward {
    struct forward_options options;
    struct replica *replica;
    struct peers *peers;
    struct call_list lists[CALL_ANSWERED + 1];
    struct call **slots; /* by the low bits of the number */
    uint32_t *free_slots;
    uint32_t free_count;
    uint64_t generation;
    struct relay *relays;
    bool held;      /* the first call is not done yet */
    bool read_only; /* the disk is full */
    bool changed;   /* something may go now that could not at the last forward_run */
    bool overdue;   /* something is to be given up at once */
    uint64_t leader;
    uint64_t leaderless_ms; /* boot time; since when none is known */
    uint64_t retry_ms;      /* boot time; when to try what waits again */
    uint8_t *scratch;       /* of FORWARD_SCRATCH bytes, for encoding */
    struct buffer encoded;
};

#define FORWARD_SCRATCH                                                      \
    (512u << 10) /* the longest command: a keep-alive of LIMIT_KEEPALIVE_IDS \
                  */

/* relay.c */
void relay_on_result(struct forward *f, struct relay *relay, enum replica_outcome outcome,
                     const struct result *result);
void relay_on_barrier(struct forward *f, struct relay *relay, bool reached);
void relay_free_all(struct forward *f);

#endif
