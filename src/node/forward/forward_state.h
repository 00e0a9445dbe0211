/* Private to forward*.c (calls) and relay.c (requests of others). */
#ifndef HOLDFAST_NODE_FORWARD_FORWARD_STATE_H
#define HOLDFAST_NODE_FORWARD_FORWARD_STATE_H

#include "base/buffer.h"
#include "base/list.h"
#include "base/pool.h"
#include "core/policy.h"
#include "node/forward/forward.h"
#include "node/forward/result_codec.h"
#include "service/request/session_check.h"

/* Kinds of PEER_REQUEST and statuses of PEER_ANSWER. */
enum forward_kind {
    FORWARD_COMMAND = 1,
    FORWARD_BARRIER = 2,
    FORWARD_CHANGE = 3,
    FORWARD_MEMORY = 4,   /* for the tier EFFICIENCY */
    FORWARD_INTEREST = 5, /* subscribes to events of that tier; no answer */
    FORWARD_LOOK = 6,     /* a barrier, and a query of the leader's memory (leader_query.h) */
    FORWARD_CHECKED = 7, /* a query (with its length), then a command; an older leader: MALFORMED */
    /* Added to the kind of a command: it is the node's, not a client's; of a change of members: the
     * node, with auth = on, has authorised its client. Only programs that support
     * FORWARD_OWN_VERSION read it. */
    FORWARD_OWN = 0x40,
};
enum { FORWARD_OWN_VERSION = 6 };
enum forward_status {
    FORWARD_DONE = 1, /* body: the epoch (protocol 2); of CHECKED the answer to the query (with its
                             length); then the result or a barrier's index */
    FORWARD_NOT_DONE = 2, /* does not lead: it was not done, and will not be */
    FORWARD_UNKNOWN = 3,
    FORWARD_BUSY = 4,
    FORWARD_MALFORMED = 5,
    FORWARD_REFUSED = 6, /* a change of members; body: why */
    FORWARD_EVENT = 7,   /* not an answer (number 0): an event of the tier EFFICIENCY */
};

/* The first member of every cookie of a replica submission. */
enum cookie_kind { COOKIE_NONE, COOKIE_CALL, COOKIE_RELAY };
struct cookie {
    enum cookie_kind kind;
    uint64_t proposal;    /* number in the tier EFFICIENCY (S10.2); 0: none */
    uint64_t begun_us;    /* of an acquire: boot time of its arrival; 0: no acquire */
    uint32_t tenant;      /* of an acquire */
    struct admitted adds; /* in flight for it (S12.14, S15) */
};

enum {
    FORWARD_SLOTS = 1 << 16,
    FORWARD_SOURCES = 1 << 12,    /* queues; a connection's number selects one */
    FORWARD_TENANT_SOURCES = 256, /* the same of each tenant but 0 */
    FORWARD_TENANTS = 1024,       /* with queues; more share those of tenant 0 */
    FORWARD_BUCKETS = 256,        /* of the index of tenants */
    FORWARD_TENANT_WINDOW = 512,  /* sent, unanswered calls of a tenant while others send */
    FORWARD_WINDOW = 128,         /* maximum of sent, unanswered calls of a queue */
    FORWARD_ALONE = 512,          /* the same on the leader, while only one queue sends */
    FORWARD_SHARED_MS = 100,      /* several are taken to send for so long after two did */
    FORWARD_NODE_WINDOW = 2048,   /* sent, unanswered calls of all queues */
    FORWARD_TURN = 16,            /* calls of one queue before the next has its turn */
    CALL_BYTES = 256,             /* longer commands have their own memory */
};

enum call_state {
    CALL_WAITING,
    CALL_HERE,
    CALL_THERE,
    CALL_CATCHING_UP, /* our state has not reached the barrier's index */
    CALL_ANSWERED     /* kept only until the replica has reported all submissions */
};

struct call {
    struct cookie cookie;
    struct gateway_call *gateway;       /* exactly one of these two is set; */
    struct gateway_change_call *change; /* both are NULL when answered */
    enum call_state state;
    enum forward_kind kind;
    enum tier tier;
    bool is_first;
    bool is_safe; /* may be sent again when in doubt */
    bool is_own;  /* gateway_call.is_own */
    bool is_too_many;
    uint64_t arrived_ms; /* as give_up_ms; these three: forward_slow */
    uint64_t arrived_us; /* 0: no command */
    uint64_t sent_us;
    uint32_t here;       /* submissions not reported yet */
    uint32_t doubts;     /* attempts whose outcome will never be known */
    uint64_t give_up_ms; /* boot time */
    uint64_t number;
    uint64_t peer; /* that it was sent to last */
    uint64_t index;
    uint64_t not_before_ms; /* boot time; see change_declined */
    struct list link;       /* in the list of its state */
    struct turn_tenant *tenant;
    uint32_t source;          /* its queue, of that tenant; 0: takes no turns */
    struct call *source_next; /* in that queue, while it waits */
    struct call *source_prev;
    struct buffer
        page; /* the leader's answer to the query; of a barrier while our state catches up */
    ref self;
    struct slice bytes; /* command, change, or what to look up */
    struct slice look;  /* of a command: the query that it carries; allocated */
    uint8_t short_bytes[CALL_BYTES];
};

/* The waiting calls of one connection, in order. Connections whose numbers are FORWARD_SOURCES
 * apart share a queue and its turns. */
struct source {
    struct call *first;
    struct call *last;
    uint32_t sent;  /* its calls HERE and THERE */
    uint32_t taken; /* sent in its current turn */
    uint32_t next;  /* in the ring of sources with waiting calls; 0: not in it */
    uint32_t prev;
};

/* The connections of one tenant. */
struct turn_tenant {
    uint32_t number;
    uint32_t calls; /* that refer to it */
    uint32_t sent;  /* its calls HERE and THERE, but those of source 0 */
    uint32_t taken; /* sent in its current turn */
    uint32_t turn;  /* the source whose turn it is; 0: none waits */
    uint32_t count; /* of `sources` */
    bool is_held;   /* a quota needs the outcome of its calls in flight (S15) */
    struct turn_tenant *held_next;
    struct source *sources;
    struct turn_tenant *next; /* in the ring of tenants with waiting calls; NULL: not in it */
    struct turn_tenant *prev;
    struct turn_tenant *bucket_next;
};

struct relay {
    struct cookie cookie;
    uint64_t peer;
    uint64_t link;
    uint64_t number;
    uint8_t kind;
    uint64_t arrived_ms; /* as of a call */
    uint64_t arrived_us;
    struct relay *next;
    struct relay *prev;
    size_t look_len;
    uint8_t look[]; /* FORWARD_LOOK, FORWARD_CHECKED: the query */
};

struct forward {
    struct forward_options options;
    struct replica *replica;
    struct peers *peers;
    struct list lists[CALL_ANSWERED + 1]; /* by state */
    uint32_t counts[CALL_ANSWERED + 1];
    struct pool pool;
    struct turn_tenant first_tenant; /* number 0; its source 0 has the calls without turns */
    struct turn_tenant *tenants[FORWARD_BUCKETS];
    uint32_t tenant_count;
    struct turn_tenant *turn;  /* whose turn it is; NULL: none waits */
    uint32_t sent;             /* calls HERE and THERE of all sources but 0 */
    uint32_t last_tenant;      /* that sent last */
    uint64_t last_tenant_ms;   /* boot time of that */
    uint64_t shared_tenant_ms; /* boot time until which several tenants are taken to send */
    uint32_t tenant_window;
    uint32_t window;     /* of each source, as of the last forward_run */
    uint64_t sender;     /* connection or node that sent last */
    uint64_t sender_ms;  /* boot time of that */
    uint64_t shared_ms;  /* boot time until which several are taken to send */
    struct call **slots; /* by the low bits of the number */
    uint32_t *free_slots;
    uint32_t free_count;
    uint64_t generation;
    struct relay *relays;
    struct turn_tenant *held_tenants; /* by turns_hold */
    bool held;                        /* the first call is not done yet */
    bool read_only;                   /* disk full */
    bool alone;                       /* and there is no other node */
    bool paused;
    bool changed; /* a call that could not be sent before may be now */
    bool reading;
    bool overdue;
    bool saturated; /* calls for the log wait: too many are in flight */
    bool answered;
    uint64_t denied[FORWARD_DENIAL_REASONS];
    uint64_t epoch;
    uint64_t leader_ms;
    void *settled; /* the cookie reported last by the replica */
    uint64_t leader;
    uint64_t leaderless_ms; /* boot time since which no leader is known */
    uint64_t retry_ms;      /* boot time of the next attempt */
    uint8_t *scratch;       /* of FORWARD_SCRATCH bytes, for encoding */
    struct buffer encoded;
    struct buffer checked; /* the body of a FORWARD_CHECKED */
};

#define FORWARD_SCRATCH \
    (512u << 10) /* the longest command: a keep-alive of LIMIT_KEEPALIVE_IDS \
                  */

/* The query of a FORWARD_CHECKED, and its answer, at most. */
#define FORWARD_CHECK_BYTES SESSION_CHECKS_BYTES(SESSION_CHECKS_MAX)

/* forward.c */
uint64_t forward_now_ms(const struct forward *f);
/* Since the acquire arrived; 0 for other commands. */
uint64_t forward_took_us(const struct forward *f, const struct cookie *cookie);

/* forward_take.c: what this node takes as leader. */
struct forward_taken {
    const struct command *command;
    enum tier tier;
    bool is_own; /* gateway_call.is_own */
};
/* On the leader: submits a command to its tier. HF_OK: forward_on_result follows, or was called.
 * HF_BUSY: try later. HF_UNAVAILABLE: this node cannot take it. */
enum hf_error forward_take(struct forward *f, const struct forward_taken *taken,
                           struct cookie *cookie, struct replica_time now);
/* Whether commands and membership changes of clients need a principal: auth = on, and the state has
 * principals. */
bool forward_needs_principals(const struct forward *f);
/* HF_OK, or why this leader refuses it: HF_DENIED, HF_UNAUTHENTICATED (decision 29). `right`: the
 * missing one; 0: none. */
enum hf_error forward_authorise(const struct forward *f, const struct command *command, bool is_own,
                                unsigned *right);
/* As admission_check; HF_OK without limits. */
enum hf_error forward_check_admission(struct forward *f, const struct command *command,
                                      struct replica_time now, struct admitted *adds);
/* Submits an admitted command. Errors are those of replica_submit. */
enum hf_error forward_propose(struct forward *f, const struct command *command,
                              struct cookie *cookie, struct replica_time now,
                              const struct admitted *adds);

/* forward_fit.c: whether the program of that node supports this version of the state. */
bool forward_supports(const struct forward *f, uint64_t node, uint32_t version);
/* Encodes the command again, into `scratch`, for an older leader. False: that does
 * not support this type. */
bool forward_fit(struct forward *f, uint64_t leader, struct slice *bytes, enum command_type *type);

/* forward_turns.c */
void turns_open(struct forward *f);
void turns_close(struct forward *f);
/* Selects the queue of a new call. `source` 0: it takes no turns. */
void turns_assign(struct forward *f, struct call *call, uint32_t tenant, uint64_t source);
void turns_release(struct forward *f, struct call *call);
struct call *turns_first_without(struct forward *f);
/* `sender`: a connection of this node, or another node. */
void turns_note(struct forward *f, uint64_t sender, uint32_t tenant);
/* Sets the window for the next calls. */
void turns_begin(struct forward *f, bool leads);
void turns_enter(struct forward *f, struct call *call, enum call_state state);
void turns_leave(struct forward *f, struct call *call, enum call_state state);
/* Before the next turn; calls of others do not wait. */
bool turns_may_send_now(struct forward *f, const struct call *call);
/* NULL: none may be sent. */
struct call *turns_next(struct forward *f);
/* No call of this tenant is next until turns_begin. */
void turns_hold(struct forward *f, struct turn_tenant *t);

/* forward_calls.c */
/* In no state yet: call_keep and call_enter must follow. */
struct call *call_new(struct forward *f, enum forward_kind kind, uint32_t tenant, uint64_t source);
/* Copies the bytes. */
void call_keep(struct forward *f, struct call *call, struct slice bytes);
/* The same for the query of a command, which may be empty. */
void call_keep_look(struct forward *f, struct call *call, struct slice look);
void call_drop_look(struct forward *f, struct call *call);
void call_enter(struct forward *f, struct call *call, enum call_state state);
void call_free(struct forward *f, struct call *call);
void call_free_all(struct forward *f);
void call_move(struct forward *f, struct call *call, enum call_state to);
void call_lists_init(struct forward *f);
/* Oldest first. NULL: no more. */
struct call *call_first(const struct forward *f, enum call_state state);
struct call *call_next(const struct forward *f, const struct call *call);
/* If it is answered and the replica has reported all submissions. */
void call_free_if_done(struct forward *f, struct call *call);
void call_give_number(struct forward *f, struct call *call);
void call_take_number(struct forward *f, struct call *call);
/* Reports the outcome, exactly once. */
void call_answer(struct forward *f, struct call *call, enum hf_error error,
                 const struct result *result, const char *problem);
void call_give_up(struct forward *f, struct call *call);
/* Not done, or in doubt: the call waits again if that is safe. */
void call_again(struct forward *f, struct call *call, bool doubtful);

/* change_codec.c */
struct change {
    enum gateway_change change;
    uint64_t id;
    char address[PEER_ADDRESS_MAX + 1];
};
#define CHANGE_BYTES (PEER_ADDRESS_MAX + 32)
size_t change_encode(const struct change *change, uint8_t at[CHANGE_BYTES]);
bool change_decode(struct slice bytes, struct change *out);

/* forward_change.c */
/* On the leader: begins or refuses a change immediately. False: the change waits. */
bool change_here(struct forward *f, struct call *call);
/* The leader did not begin the change. If the change names that leader, it is about to transfer the
 * leadership: change_may_go_to is false for a while. */
void change_declined(struct forward *f, struct call *call);
bool change_may_go_to(const struct forward *f, const struct call *call, uint64_t leader);

/* relay.c */
void relay_on_result(struct forward *f, struct relay *relay, enum replica_outcome outcome,
                     const struct result *result);
void relay_on_barrier(struct forward *f, struct relay *relay, bool reached);
void relay_free_all(struct forward *f);

/* forward_calls.c: appends the answer to a query; on failure nothing. */
void forward_look_up(struct forward *f, struct slice look, struct buffer *out);

#endif
