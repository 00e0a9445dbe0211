/* The client without its edges: no socket, no thread, no clock. Bytes, time and the caller's wishes
 * go in; bytes to send, addresses to dial and news come out.
 *
 *     the caller's wishes ──▶ calls ──▶ rpc ──▶ link ──▶ bytes          (client.c, io.c)
 *                               │        ▲
 *               locks ◀─────────┤        │
 *                 │          session ────┘
 *                 └──▶ news ◀───┘
 *
 * Every entry takes the time, on CLOCK_BOOTTIME in ms, and first does what is due at it: a deadline
 * that has passed is never rescued by an answer that is read afterwards (S5.2). Callbacks of the
 * transport only note what came; client_engine_go then sends whatever can be sent.
 *
 * Requests carry a request_id and not seq with acked_through: acked_through says "all up to here",
 * so that one acquire which waits for an hour would hold back the acknowledgement of all that came
 * after it, and the 1,025th would be refused (S8.2). An id has no order, and serves a retry through
 * any node just as well. */
#ifndef HOLDFAST_CLIENT_ENGINE_H
#define HOLDFAST_CLIENT_ENGINE_H

#include <holdfast.h>

#include "base/limits.h"
#include "base/list.h"
#include "client/deadline.h"
#include "client/endpoints.h"
#include "client/link.h"
#include "client/rpc.h"

enum {
    ERROR_TEXT = 512,
    ID_TEXT = 40,    /* session and lease ids: 32 hex digits, with room */
    OWNER_TEXT = 24, /* "h" and a number */
    REQUEST_ID_TEXT = LIMIT_REQUEST_ID + 1,
    WHY_TEXT = 64,    /* how a lock was lost */
    WORDS_TEXT = 256, /* an operator's */
};

/* ---- locks ---- */

enum lock_state {
    LOCK_ASKED, /* its acquire is under way */
    LOCK_HELD,
    LOCK_LOST,     /* for ever */
    LOCK_RELEASED, /* by its holder, or the handle was freed */
};

struct hf_lock {
    struct list link;        /* engine.locks, while HELD */
    struct list handle_link; /* hf_client.handles, while the caller has it */
    struct list check_link; /* engine.to_check, until the service has confirmed it after a resume */
    struct client_engine *client_engine;
    struct hf_client *client;
    unsigned refs; /* the caller's, and of each call and each piece of news about it */
    enum lock_state state;
    bool is_gone; /* the caller has given the handle back: no more news about it */
    bool in_jeopardy;
    bool is_checked; /* a renewal of the engine's own is under way */
    size_t count;
    char **names;
    char owner[OWNER_TEXT];
    char lease[ID_TEXT];
    uint64_t token;
    uint32_t slot;
    uint64_t session_number;
    uint64_t epoch;
    struct lock_life life;
    struct hf_lock_options asked; /* its strings are not ours: see metadata and value */
    char *metadata;
    char *value; /* of an election */
    bool is_election;
    char loss[WHY_TEXT];
    hf_event_fn on_event;
    void *arg;
};

/* ---- calls ---- */

enum call_kind {
    CALL_READY, /* until the session is open; asks for nothing */
    CALL_ACQUIRE,
    CALL_RELEASE,
    CALL_RENEW,
    CALL_PROCLAIM,
    CALL_OBSERVE,
    CALL_CLUSTER, /* the engine's own: which nodes are there? */
};

/*   WAITING ──sent──▶ SENT ──answered──▶ freed
 *      ▲               │
 *      └── to be tried ┘ again */
enum call_state { CALL_WAITING, CALL_SENT };

/* A request that is tried again until it is answered or its time is over. Its caller, `ticket`, may
 * go before: then it goes on in the background, because what it began has to be known or undone. */
struct call {
    struct list link; /* engine.waiting or engine.sent */
    struct client_engine *client_engine;
    struct hf_call *ticket; /* NULL: nobody waits for it */
    enum call_kind kind;
    enum call_state state;
    struct rpc rpc;
    struct hf_lock *lock;
    char *name;     /* OBSERVE */
    char *value;    /* PROCLAIM */
    uint64_t token; /* RELEASE and RENEW by an exported handle, where there is no `lock` */
    char lease[ID_TEXT];
    uint32_t ttl_ms; /* RENEW */
    char request_id[REQUEST_ID_TEXT];
    uint8_t *body; /* encoded at the first sending; a retry sends the same */
    size_t body_len;
    uint8_t *answer; /* NULL: no message came */
    size_t answer_len;
    int64_t first_sent_ms; /* 0: never */
    int64_t sent_ms;       /* the last time */
    int64_t retry_at_ms;
    int64_t deadline_ms;
    int64_t reach_by_ms; /* the deadline while it was never sent */
    unsigned attempts;
    bool needs_session;
    bool is_long;            /* may wait at the service: it takes no place of those that do not */
    bool maybe_done;         /* an attempt ended without an answer */
    bool is_withdrawn;       /* ACQUIRE: nobody wants it any more, it is to leave the queue */
    bool is_heard;           /* OBSERVE: something came by this stream */
    bool is_check;           /* the engine's own look at a lock */
    bool sets_ttl;           /* RENEW: sent, and it may change the TTL of `lock` */
    uint64_t session_number; /* that it was sent in, 0: not yet */
    char text[ERROR_TEXT];   /* what went wrong last */
};

/* ---- news, in the order in which it happened ---- */

enum notification_kind { NOTIFICATION_EVENT, NOTIFICATION_DONE, NOTIFICATION_LEADER };

struct notification {
    struct list link;
    enum notification_kind kind;
};

struct notification_event {
    struct notification notification;
    enum hf_event_type type;
    struct hf_lock *lock; /* a reference, or NULL */
    int64_t safe_until_ms;
    int64_t deadline_at_ms;
    char text[WORDS_TEXT];
};

/* What the caller of a call gets: the public hf_call. Lives until its end was delivered. */
struct hf_call {
    struct notification notification; /* NOTIFICATION_DONE */
    struct hf_client *client;
    struct call *call; /* NULL: it is over */
    bool is_done;
    bool is_cancelled; /* an observer that wants to hear no more */
    int error;
    struct hf_lock *lock; /* for the caller, when error is 0 */
    int64_t expires_in_ms;
    char text[ERROR_TEXT];
    struct hf_holder *holder; /* of a refusal, or NULL */
    hf_done_fn done;          /* what the public face does with it */
    hf_leader_fn changed;
    void *arg;
    void *waiter; /* a thread that waits, or NULL */
};

/* What an observer is told: who leads. */
struct notification_leader {
    struct notification notification;
    struct hf_call *ticket;
    bool vacant;
    uint32_t candidates;
    char client_id[LIMIT_CLIENT + 1];
    char value[LIMIT_VALUE + 1];
};

/* ---- the session ---- */

enum { SESSION_KEEPALIVES = 16 }; /* unanswered ones that are remembered */

struct keepalive {
    uint64_t number;
    int64_t sent_ms;
};

struct session {
    struct rpc rpc; /* its stream */
    bool is_open;   /* `id` is one that was not lost */
    bool is_heard;  /* this stream has had its first answer */
    bool in_jeopardy;
    uint64_t number; /* rises with each session of this client */
    char id[ID_TEXT];
    struct life life;
    int64_t every_ms; /* how often the service wants a keep-alive */
    char request_id[REQUEST_ID_TEXT];
    int64_t first_sent_ms; /* the opening, 0: not sent */
    int64_t retry_at_ms;
    unsigned attempts;
    uint64_t keepalive_number;
    int64_t keepalive_sent_ms;
    int64_t next_keepalive_ms;
    struct keepalive out[SESSION_KEEPALIVES];
    struct link *link; /* that the stream is on, or was */
    bool owes;         /* something is unanswered: the link owes it */
    int64_t owed_since_ms;
    uint64_t epoch;
    bool is_closing;
    bool is_close_sent;
};

/* ---- all of it ---- */

struct client_engine_options {
    char client_id[LIMIT_CLIENT + 1];
    char metadata[LIMIT_METADATA + 1];
    int64_t session_ttl_ms;
    int64_t linger_ms;
    int64_t call_timeout_ms;
    int64_t connect_timeout_ms;
    bool any_node;
};

enum {
    ENGINE_LINKS = 2,
    ENGINE_CHECKS = 32,        /* locks that are looked at together after a resume */
    ENGINE_SHORT_STREAMS = 32, /* streams that calls which may wait leave to the others */
    ENGINE_EARLY = 64,
};

struct early_loss {
    uint64_t token;
    char why[WHY_TEXT];
};

struct client_engine {
    struct client_engine_options options;
    struct hf_client *client;
    struct endpoints endpoints;
    struct link links[ENGINE_LINKS];
    int current;          /* the link that calls go by, -1: none is up */
    bool wants_move;      /* this node will not do for long: it drains, or knows no leader */
    int64_t no_leader_ms; /* since when it has refused for want of a leader, 0: it has not */
    struct session session;
    struct list locks;
    struct list to_check;
    unsigned checks;
    struct early_loss early[ENGINE_EARLY];
    unsigned early_count;
    struct list waiting;
    struct list sent;
    unsigned long_sent;
    struct list notification;
    int64_t now_ms;
    int64_t next_call_ms; /* no call has anything due before */
    int64_t next_lock_ms; /* no lock has */
    bool any_jeopardy;    /* some lock was in jeopardy at the last look */
    int64_t next_dial_ms;
    int64_t hop_ms;           /* when we last went to a node because another one named it leader */
    int64_t hop_from_ms;      /* no such step before */
    unsigned hops;            /* of them, in quick succession */
    int64_t members_asked_ms; /* when the service was last asked for its nodes, 0: never */
    int64_t orphan_ttl_ms;    /* the shortest of locks whose handle was freed, which live on */
    char id_prefix[17];       /* random: makes request ids unique */
    uint64_t id_count;
    uint64_t owner_count;
    bool is_closed;
    uint64_t stat_calls;
    uint64_t stat_retries;
    uint64_t stat_reconnects;
    uint64_t stat_keepalives;
};

/* `endpoints` as for endpoints_init, whose complaint is returned; `seed` is random. */
const char *client_engine_init(struct client_engine *e, const struct client_engine_options *options,
                               const char *endpoints, const uint64_t seed[2], int64_t now_ms);
/* Frees everything: calls are finished with HF_ERR_CANCELLED first, see client_engine_cancel_all. */
void client_engine_close(struct client_engine *e);

/* Does what is due and sends what can be sent; each entry below ends with it. */
void client_engine_go(struct client_engine *e, int64_t now_ms);
/* When client_engine_go is due again. */
int64_t client_engine_next_ms(const struct client_engine *e);

/* The socket of a link: it is connected (`peer` is its numeric address), it broke or could not be
 * made, and bytes came. Output lies in links[i].out; links[i].generation tells sockets apart. */
void client_engine_connected(struct client_engine *e, unsigned link, const char *peer,
                             int64_t now_ms);
void client_engine_broken(struct client_engine *e, unsigned link, const char *why, int64_t now_ms);
void client_engine_input(struct client_engine *e, unsigned link, struct slice bytes,
                         int64_t now_ms);

/* The caller's wishes. A ticket that was given to one of these comes back in `news`, done; a call
 * without one is made in the background. */
void client_engine_ready(struct client_engine *e, struct hf_call *ticket, uint32_t timeout_ms,
                         int64_t now_ms);
/* The ticket, or else the call, takes over the caller's reference of `lock`. */
void client_engine_acquire(struct client_engine *e, struct hf_lock *lock, struct hf_call *ticket,
                           int64_t now_ms);
/* Likewise: the handle is given back. HF_ERR_LOST at once when it is lost; then there is no call,
 * and the ticket is not used. */
int client_engine_release(struct client_engine *e, struct hf_lock *lock, struct hf_call *ticket,
                          int64_t now_ms);
int client_engine_renew(struct client_engine *e, struct hf_lock *lock, uint32_t ttl_ms,
                        struct hf_call *ticket, int64_t now_ms);
int client_engine_proclaim(struct client_engine *e, struct hf_lock *lock, const char *value,
                           struct hf_call *ticket, int64_t now_ms);
void client_engine_by_handle(struct client_engine *e, enum call_kind kind, uint64_t token,
                             const char *lease, uint32_t ttl_ms, struct hf_call *ticket,
                             int64_t now_ms);
void client_engine_observe(struct client_engine *e, const char *name, struct hf_call *ticket,
                           int64_t now_ms);
void client_engine_cancel(struct client_engine *e, struct hf_call *ticket, int64_t now_ms);
/* All calls that have a ticket. */
void client_engine_cancel_all(struct client_engine *e, int64_t now_ms);
/* Begins to close the session; `is_closed` when that is done, or there is nothing to close. */
void client_engine_shut(struct client_engine *e, int64_t now_ms);

/* ---- between the files of the engine ---- */

void client_engine_heard_leader(struct client_engine *e, struct link *link, const char *text);
void client_engine_heard_epoch(struct client_engine *e, uint64_t epoch);
/* This node refuses for want of a leader, or does not answer although it lives: another one is
 * tried if that lasts. And it answers. */
void client_engine_no_leader(struct client_engine *e);
void client_engine_has_leader(struct client_engine *e);
/* How long a node that owes an answer may be silent. */
int64_t client_engine_silence_ms(const struct client_engine *e);
struct link *client_engine_link(struct client_engine *e); /* the current one, or NULL */
/* There is no link, and each endpoint has failed so often that it is only probed, one at a time:
 * calls fail at once. */
bool client_engine_circuit_is_open(const struct client_engine *e);
void client_engine_next_id(struct client_engine *e, char out[REQUEST_ID_TEXT]);

/* session.c */
void session_init(struct session *s);
void session_close(struct session *s);
void session_tick(struct client_engine *e); /* deadlines */
void session_go(struct client_engine *e);   /* opens, resumes, keeps alive */
void session_lose(struct client_engine *e, const char *why);
void session_hurry(struct client_engine *e,
                   int64_t ttl_ms); /* a lock with that TTL is there, or asked */
int64_t session_next_ms(const struct client_engine *e);

/* lock.c */
struct hf_lock *lock_new(const char *const *names, size_t count,
                         const struct hf_lock_options *options, const char *metadata);
void lock_ref(struct hf_lock *lock);
void lock_unref(struct hf_lock *lock);
void lock_granted(struct hf_lock *lock);
void lock_lose(struct hf_lock *lock, const char *why, const char *words);
int64_t lock_safe_until(const struct hf_lock *lock);
void lock_confirmed(struct hf_lock *lock, int64_t sent_ms);
/* A renewal that sets a TTL, from its sending on: see struct lock_life. */
void lock_renewal_sent(struct call *call);
void lock_renewal_ended(struct call *call, enum renewal how);
void lock_gone(struct hf_lock *lock); /* the caller has given the handle back */
void locks_tick(struct client_engine *e);
void locks_lose_all(struct client_engine *e, const char *why);
void locks_epoch(struct client_engine *e);
void locks_check_all(struct client_engine *e); /* after a resume */
void locks_go(struct client_engine *e);
struct hf_lock *locks_find(struct client_engine *e, uint64_t token);
/* The service says that a lock is lost whose grant was not read yet. */
void locks_lost_early(struct client_engine *e, uint64_t token, const char *why);

/* call.c */
struct call *call_new(struct client_engine *e, enum call_kind kind, struct hf_lock *lock,
                      struct hf_call *ticket);
void call_begin(struct call *call, int64_t deadline_ms);
/* Tells the caller, and frees the call. */
void call_finish(struct call *call, int error, const char *text);
/* Tells the caller; the call goes on without it. */
void call_leave(struct call *call, int error, const char *text);
void call_retry(struct call *call, bool at_once);
void calls_tick(struct client_engine *e);
void calls_go(struct client_engine *e);
/* The session is no more: what was sent in it ends. */
void calls_session_lost(struct client_engine *e, const char *why);
/* The service does not open one: what waits for it ends. */
void calls_session_refused(struct client_engine *e, int error, const char *text);
void calls_free_all(struct client_engine *e);

/* request.c: a call's path and its message; malloc'd. */
const char *request_path(const struct call *call);
void request_encode(struct call *call);
/* answer.c: what a call's answer means. Finishes it, or has it tried again. */
void answer_read(struct call *call, enum rpc_end end);
void answer_observed(struct call *call, struct slice message);

/* news.c */
void notification_event(struct client_engine *e, enum hf_event_type type, struct hf_lock *lock,
                        int64_t deadline_at_ms, const char *text);
void notification_done(struct client_engine *e, struct hf_call *ticket);
struct notification *notification_take(struct client_engine *e);
void notification_free(struct notification *notification);
struct hf_call *ticket_new(struct hf_client *client);
void ticket_free(struct hf_call *ticket);

#endif
