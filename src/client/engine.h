/* The client's state machine, without socket, thread or clock. Received bytes, time and calls of
 * the application go in; bytes to send, addresses to dial and notifications come out.
 *
 *     application ──▶ calls ──▶ rpc ──▶ link ──▶ bytes          (client.c, io.c)
 *                       │        ▲
 *       locks ◀─────────┤        │
 *         │          session ────┘
 *         ▼           ▼
 *         notifications
 *
 * Every entry function takes the time (CLOCK_BOOTTIME, ms) and first does what is due: an answer
 * read after a deadline never extends it (S5.2). Callbacks of the transport only record;
 * client_engine_go then sends.
 *
 * Requests carry a request_id, not seq with acked_through: one acquire that waits for an hour would
 * hold back all later acknowledgements, and the 1,025th request would be refused (S8.2). An id has
 * no order, and a retry can use any node. */
#ifndef HOLDFAST_CLIENT_ENGINE_H
#define HOLDFAST_CLIENT_ENGINE_H

#include <holdfast.h>

#include "base/limits.h"
#include "base/list.h"
#include "client/deadline.h"
#include "client/endpoints.h"
#include "client/link.h"
#include "client/rpc.h"
#include "transport/security.h"

struct Holdfast__V1__SessionResponse__Alive; /* of lock.pb-c.h */

enum {
    ERROR_TEXT = 512,
    ID_TEXT = 40,    /* session and lease ids: 32 hex digits, spare bytes */
    OWNER_TEXT = 24, /* "h" and a number */
    REQUEST_ID_TEXT = LIMIT_REQUEST_ID + 1,
    WHY_TEXT = 64, /* reason of a loss */
    WORDS_TEXT = 256,
};

enum lock_state {
    LOCK_REQUESTED, /* acquire pending */
    LOCK_HELD,
    LOCK_LOST,     /* permanently */
    LOCK_RELEASED, /* by its holder, or the handle was freed */
};

struct hf_lock {
    struct list link;        /* engine.locks, if HELD */
    struct list handle_link; /* hf_client.handles, while the caller has it */
    struct list check_link;  /* engine.to_check, until confirmed after a resume */
    struct client_engine *client_engine;
    struct hf_client *client;
    unsigned refs; /* of the caller, each call and each notification */
    enum lock_state state;
    bool is_gone; /* the handle was given back: no further notifications */
    bool in_jeopardy;
    bool is_checked; /* a renewal by the engine is pending */
    size_t count;
    char **names;
    char owner[OWNER_TEXT];
    char lease[ID_TEXT];
    uint64_t token;
    uint32_t slot;
    uint64_t session_number;
    uint64_t epoch;
    uint64_t counted_in; /* the first keep-alive that counted it; 0: none */
    uint64_t listed_in;  /* the last comparison in which the service listed it; 0: none */
    struct lock_life life;
    struct hf_lock_options options; /* as requested; the caller owns its strings, see metadata,
                                       trace and value */
    char *metadata;
    char *trace; /* "": none */
    char *value; /* of an election */
    bool is_election;
    char loss[WHY_TEXT];
    hf_event_fn on_event;
    void *arg;
};

enum call_kind {
    CALL_READY, /* waits for the session; sends nothing */
    CALL_ACQUIRE,
    CALL_RELEASE,
    CALL_RENEW,
    CALL_PROCLAIM,
    CALL_OBSERVE,
    CALL_CLUSTER, /* the engine's request for the list of nodes */
};

/*   WAITING ──sent──▶ SENT ──answered──▶ freed
 *      ▲               │
 *      └──── retry ────┘ */
enum client_call_state { CALL_WAITING, CALL_SENT };

/* A request that is retried until it is answered or its deadline passes. `ticket` belongs to the
 * caller and may end earlier; the call then continues in the background, because its effect has to
 * be known or undone. */
struct client_call {
    struct list link; /* engine.waiting or engine.sent */
    struct client_engine *client_engine;
    struct hf_call *ticket; /* NULL: no caller waits */
    enum call_kind kind;
    enum client_call_state state;
    struct rpc rpc;
    struct hf_lock *lock;
    char *name;     /* OBSERVE */
    char *value;    /* PROCLAIM */
    uint64_t token; /* RELEASE, RENEW by an exported handle, without `lock` */
    char lease[ID_TEXT];
    uint32_t ttl_ms; /* RENEW */
    char request_id[REQUEST_ID_TEXT];
    uint8_t *body; /* encoded once; a retry sends the same bytes */
    size_t body_len;
    uint8_t *answer; /* NULL: no message */
    size_t answer_len;
    int64_t first_sent_ms; /* 0: never */
    int64_t sent_ms;       /* last attempt */
    int64_t retry_at_ms;
    int64_t deadline_ms;
    int64_t reach_by_ms; /* deadline of the first sending */
    unsigned attempts;
    bool needs_session;
    bool is_long;            /* may wait at the service: not on the streams of short calls */
    bool maybe_done;         /* no answer to an attempt */
    bool is_withdrawn;       /* ACQUIRE: to be removed from the queue */
    bool is_heard;           /* OBSERVE: this stream has received a message */
    bool is_check;           /* of a lock, by the engine */
    bool sets_ttl;           /* RENEW: sent, may change the TTL of `lock` */
    uint64_t session_number; /* in which it was sent; 0: not sent */
    char text[ERROR_TEXT];
};

/* ---- notifications, in the order of the events ---- */

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

/* The public hf_call. Exists until its end is delivered. */
struct hf_call {
    struct notification notification;
    struct hf_client *client;
    struct client_call *call; /* NULL: it has ended */
    bool is_done;
    bool is_cancelled; /* an observer that was cancelled */
    int error;
    struct hf_lock *lock; /* for the caller, if error is 0 */
    int64_t expires_in_ms;
    char text[ERROR_TEXT];
    struct hf_holder *holder; /* that caused a refusal, or NULL */
    hf_done_fn done;          /* callbacks of the application */
    hf_leader_fn changed;
    void *arg;
    void *waiter; /* waiting thread, or NULL */
};

/* For an observer. */
struct notification_leader {
    struct notification notification;
    struct hf_call *ticket;
    bool vacant;
    uint32_t candidates;
    char client_id[LIMIT_CLIENT + 1];
    char value[LIMIT_VALUE + 1];
};

enum { SESSION_KEEPALIVES = 16 }; /* unanswered ones that are recorded */

struct keepalive {
    uint64_t number;
    int64_t sent_ms;
    bool is_compared; /* it was sent with the next two */
    uint32_t held_count;
    uint64_t held_xor;
};

/* The comparison that is under way, see held.c. */
struct held_listing {
    struct keepalive begun; /* the keep-alive whose numbers differ */
    uint64_t expected;      /* the keep-alive whose answer has the next page; 0: no comparison */
    char cursor[24];        /* of the next page, to be sent; "": none */
};

struct client_session {
    struct rpc rpc;
    bool is_open;  /* `id` is not lost */
    bool is_heard; /* this stream has its first answer */
    bool in_jeopardy;
    uint64_t number; /* rises with each session */
    char id[ID_TEXT];
    struct life life;
    int64_t every_ms; /* interval that the service requests */
    char request_id[REQUEST_ID_TEXT];
    int64_t first_sent_ms; /* of the opening; 0: not sent */
    int64_t retry_at_ms;
    unsigned attempts;
    uint64_t keepalive_number;
    int64_t keepalive_sent_ms;
    int64_t next_keepalive_ms;
    struct keepalive out[SESSION_KEEPALIVES];
    struct held_listing listing;
    struct link *link; /* of the stream, also after its end */
    bool owes;         /* a request is unanswered and owed by the link */
    int64_t owed_since_ms;
    uint64_t epoch;
    bool is_closing;
    bool is_close_sent;
};

struct client_engine_options {
    char client_id[LIMIT_CLIENT + 1];
    char metadata[LIMIT_METADATA + 1];
    int64_t session_ttl_ms;
    int64_t linger_ms;
    int64_t call_timeout_ms;
    int64_t connect_timeout_ms;
    bool any_node;
    struct security *security; /* of hf_client; NULL: clear text without a token */
};

enum {
    ENGINE_LINKS = 2,
    ENGINE_CHECKS = 32,        /* locks checked concurrently after a resume */
    ENGINE_SHORT_STREAMS = 32, /* streams reserved for calls that do not wait */
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
    int current;          /* link for calls; -1: none is up */
    bool wants_move;      /* draining or without a leader: find another node */
    int64_t no_leader_ms; /* since when it refuses without a leader; 0: it does not */
    struct client_session session;
    struct list locks;
    struct list to_check;
    unsigned checks;
    struct early_loss early[ENGINE_EARLY];
    unsigned early_count;
    struct list waiting;
    struct list sent;
    unsigned long_sent;
    struct list notifications;
    int64_t now_ms;
    int64_t next_call_ms; /* no call deadline before */
    int64_t next_lock_ms; /* no lock deadline before */
    bool any_jeopardy;    /* some lock, at the last check */
    int64_t next_dial_ms;
    int64_t hop_ms;               /* last move to a leader named by another node */
    int64_t hop_from_ms;          /* no such move before */
    unsigned hops;                /* moves in quick succession */
    int64_t members_requested_ms; /* last request for the list of nodes; 0: never */
    int64_t orphan_ttl_ms;        /* shortest TTL of existing locks whose handle was freed */
    char id_prefix[17];           /* random: makes request ids unique */
    uint64_t id_count;
    uint64_t owner_count;
    bool is_closed;
    uint64_t stat_calls;
    uint64_t stat_retries;
    uint64_t stat_reconnects;
    uint64_t stat_keepalives;
};

/* NULL or the error of endpoints_init. `seed` is random. */
const char *client_engine_init(struct client_engine *e, const struct client_engine_options *options,
                               const char *endpoints, const uint64_t seed[2], int64_t now_ms);
/* Frees everything. Before it, client_engine_cancel_all ends the calls with HF_ERR_CANCELLED. */
void client_engine_close(struct client_engine *e);

/* Does what is due and sends what can be sent; the functions below end with it. */
void client_engine_go(struct client_engine *e, int64_t now_ms);
int64_t client_engine_next_ms(const struct client_engine *e);

/* Events of a link's socket: connected (`peer`: its numeric address), broken or not connected,
 * bytes received. links[i].out is the output; links[i].generation identifies the socket. */
void client_engine_connected(struct client_engine *e, unsigned link, const char *peer,
                             int64_t now_ms);
void client_engine_broken(struct client_engine *e, unsigned link, const char *why, int64_t now_ms);
void client_engine_input(struct client_engine *e, unsigned link, struct slice bytes,
                         int64_t now_ms);

/* Calls of the application. A notification reports the end of a ticket. Without one the call runs
 * in the background. */
void client_engine_ready(struct client_engine *e, struct hf_call *ticket, uint32_t timeout_ms,
                         int64_t now_ms);
/* The ticket, or else the call, takes over the caller's reference of `lock`. */
void client_engine_acquire(struct client_engine *e, struct hf_lock *lock, struct hf_call *ticket,
                           int64_t now_ms);
/* Likewise; the handle is given back. HF_ERR_LOST: there is no call, and the ticket is not used. */
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
/* All calls with a ticket. */
void client_engine_cancel_all(struct client_engine *e, int64_t now_ms);
/* Begins to close the session; `is_closed` is set at its end, or when there is none. */
void client_engine_shut(struct client_engine *e, int64_t now_ms);

/* ---- private to the files of the engine ---- */

void client_engine_heard_leader(struct client_engine *e, struct link *link, const char *text);
void client_engine_heard_epoch(struct client_engine *e, uint64_t epoch);
/* no_leader: the node has no leader, or is alive and does not answer; if that lasts, another is
 * tried. has_leader: it answers. */
void client_engine_no_leader(struct client_engine *e);
void client_engine_has_leader(struct client_engine *e);
/* How long a node that owes an answer may be silent. */
int64_t client_engine_silence_ms(const struct client_engine *e);
struct link *client_engine_link(struct client_engine *e); /* the current one, or NULL */
/* No link, and every endpoint is OPEN or HALF OPEN: calls fail at once. */
bool client_engine_circuit_is_open(const struct client_engine *e);
void client_engine_next_id(struct client_engine *e, char out[REQUEST_ID_TEXT]);

/* session.c */
void session_init(struct client_session *s);
void session_close(struct client_session *s);
void session_tick(struct client_engine *e); /* deadlines */
void session_go(struct client_engine *e);   /* opens, resumes, keeps alive */
void session_lose(struct client_engine *e, const char *why);
void session_hurry(struct client_engine *e,
                   int64_t ttl_ms); /* a lock with this TTL is held or requested */
int64_t session_next_ms(const struct client_engine *e);

/* lock.c */
struct hf_lock *client_lock_new(const char *const *names, size_t count,
                                const struct hf_lock_options *options, const char *metadata);
void lock_ref(struct hf_lock *lock);
void lock_unref(struct hf_lock *lock);
void lock_granted(struct hf_lock *lock);
void lock_lose(struct hf_lock *lock, const char *why, const char *words);
int64_t lock_safe_until(const struct hf_lock *lock);
void lock_confirmed(struct hf_lock *lock, int64_t sent_ms);
/* Begin and end of a renewal that sets a TTL (struct lock_life). */
void lock_renewal_sent(struct client_call *call);
void lock_renewal_ended(struct client_call *call, enum renewal how);
void lock_gone(struct hf_lock *lock); /* the handle was given back */
void locks_tick(struct client_engine *e);
void locks_lose_all(struct client_engine *e, const char *why);
void locks_epoch(struct client_engine *e);
void locks_check_all(struct client_engine *e); /* after a resume */
void locks_go(struct client_engine *e);
struct hf_lock *locks_find(struct client_engine *e, uint64_t token);
/* The service reports the loss of a lock whose grant was not read yet. */
void locks_lost_early(struct client_engine *e, uint64_t token, const char *why);

/* held.c: the numbers of the next keep-alive; its answer; the end of the stream. */
struct keepalive held_next(struct client_engine *e, uint64_t number);
void held_answer(struct client_engine *e, const struct keepalive *sent,
                 const struct Holdfast__V1__SessionResponse__Alive *answer);
void held_forget(struct client_session *s);

/* call.c */
struct client_call *client_call_new(struct client_engine *e, enum call_kind kind,
                                    struct hf_lock *lock, struct hf_call *ticket);
void call_begin(struct client_call *call, int64_t deadline_ms);
/* Reports the result; frees the call. */
void call_finish(struct client_call *call, int error, const char *text);
/* Reports the result; the call continues without its caller. */
void call_leave(struct client_call *call, int error, const char *text);
void call_retry(struct client_call *call, bool at_once);
void calls_tick(struct client_engine *e);
void calls_go(struct client_engine *e);
/* Ends the calls sent in the lost session. */
void calls_session_lost(struct client_engine *e, const char *why);
/* The service refuses a session: ends the calls that wait for one. */
void calls_session_refused(struct client_engine *e, int error, const char *text);
void calls_free_all(struct client_engine *e);

/* request.c: the caller frees the message. */
const char *request_path(const struct client_call *call);
void request_encode(struct client_call *call);
/* answer.c: ends or retries the call. */
void answer_read(struct client_call *call, enum rpc_end end);
void answer_observed(struct client_call *call, struct slice message);

/* notification.c */
void notification_event(struct client_engine *e, enum hf_event_type type, struct hf_lock *lock,
                        int64_t deadline_at_ms, const char *text);
void notification_done(struct client_engine *e, struct hf_call *ticket);
struct notification *notification_take(struct client_engine *e);
void notification_free(struct notification *notification);
struct hf_call *ticket_new(struct hf_client *client);
void ticket_free(struct hf_call *ticket);

#endif
