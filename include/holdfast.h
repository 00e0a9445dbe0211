/* libholdfast: the C client of Holdfast, a distributed lock service.
 *
 *     hf_client *client = NULL;
 *     hf_lock *lock;
 *     if (hf_client_open(&client, "10.0.0.1:4653,10.0.0.2:4653", NULL) == 0 &&
 *         hf_acquire(client, "billing/close", NULL, &lock) == 0) {
 *         write_to_the_database(..., hf_lock_token(lock));   // the database checks the token
 *         hf_release(lock);
 *     }
 *     hf_client_close(client);
 *
 * A client is one session: one keep-alive confirms all of its locks, and when it ends they are
 * free. Each lock is a handle and its own owner, so two threads that ask for one name queue like
 * strangers. A session that was lost is replaced by a new one for what is asked later; the locks
 * of the lost one stay lost.
 *
 * What it never does is to overstate. hf_lock_safe_for_ms() says how long a lock is certainly still
 * held, counted from the sending of the last confirmed message on a clock that goes on in suspend
 * (S5). When a third of the TTL is left without confirmation, the lock is in JEOPARDY; at zero it
 * is LOST, for ever: each later call with it says so. Because a process may be paused between any
 * two instructions, what really protects is the token, checked by the resource: see hf_fence_guard.
 *
 * Everything may be called from any thread. Callbacks come from the client's own thread, or from
 * hf_client_process() when the caller drives the client by its own loop; from within a callback
 * every call is allowed that does not wait, and hf_client_close is not.
 *
 * Functions return 0 or an HF_ERR_ code, and leave their outputs untouched when they fail, unless
 * they say otherwise. No function prints, exits, installs a signal handler or keeps global state;
 * only when memory runs out in the middle of things, or a promise of ours to ourselves is broken,
 * the process ends with a word on stderr.
 */
#ifndef HOLDFAST_H
#define HOLDFAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
#else
#define HF_API
#endif

struct pollfd;

typedef struct hf_client hf_client;
typedef struct hf_lock hf_lock;
typedef struct hf_call hf_call;

/* ---- Errors ---- */

enum {
    HF_ERR_HELD = 1,         /* somebody else holds it, and the call did not want to wait */
    HF_ERR_TIMEOUT = 2,      /* the wait is over, or the call's deadline came: not acquired */
    HF_ERR_UNREACHABLE = 3,  /* no endpoint answered in time; nothing was done */
    HF_ERR_LOST = 4,         /* the lock, or the session, was lost; see hf_lock_loss */
    HF_ERR_DENIED = 5,       /* not allowed */
    HF_ERR_INVALID = 6,      /* an argument is wrong; hf_last_error says which */
    HF_ERR_DELAYED = 7,      /* nobody gets it yet: it ended uncleanly, and its delay runs */
    HF_ERR_DEADLOCK = 8,     /* waiting would close a circle */
    HF_ERR_ALREADY_HELD = 9, /* by this very handle's owner */
    HF_ERR_MISMATCH = 10,    /* the name is in use in another mode, limit or tier */
    HF_ERR_LIMIT = 11,       /* a limit of the service; the text names it */
    HF_ERR_NOT_OWNER = 12,   /* released or renewed with a handle that is not the current one */
    HF_ERR_UNKNOWN = 13,     /* it may have been done: the deadline came while an answer was due */
    HF_ERR_CANCELLED = 14,   /* by hf_call_cancel, or by hf_client_close */
    HF_ERR_STALE = 15,       /* hf_fence_guard: the token is older than one that was seen */
    HF_ERR_MEMORY = 16,
    HF_ERR_SYSTEM = 17,  /* errno says what: a store of a fence guard, a socket */
    HF_ERR_PROTOCOL = 18 /* the other end does not speak Holdfast's gRPC, or not this version */
};

/* The word of a code ("held", "timeout", ...), and a sentence about it. Never NULL. */
HF_API const char *hf_error_name(int error);
HF_API const char *hf_error_message(int error);

/* More about the last failed call of this thread: "no endpoint answered: tried 10.0.0.1:4653
 * (connection refused), ...". Lasts until the thread's next failed call. Never NULL. */
HF_API const char *hf_last_error(void);

HF_API const char *hf_version(void);

/* ---- A client ---- */

/* What became of a lock or of the whole session. */
enum hf_event_type {
    HF_EVENT_SAFE = 1,             /* confirmed (again), after JEOPARDY */
    HF_EVENT_JEOPARDY = 2,         /* not confirmed for two thirds of its TTL */
    HF_EVENT_LOST = 3,             /* final */
    HF_EVENT_REVOKE_REQUESTED = 4, /* an operator wants it back: finish and release it */
    HF_EVENT_CONNECTED = 5,        /* to an endpoint; `text` is its address */
    HF_EVENT_DISCONNECTED = 6
};

struct hf_event {
    enum hf_event_type type;
    hf_lock *lock;       /* NULL: the session, after each of its locks was told; the connection */
    int64_t safe_for_ms; /* at this moment, of the lock or else of the session */
    int64_t deadline_ms; /* REVOKE_REQUESTED: so long from now it is taken away */
    const char *text;    /* why: an operator's words, else as hf_lock_loss says it */
};

typedef void (*hf_event_fn)(hf_client *client, const struct hf_event *event, void *arg);

/* Set `size` to sizeof(struct hf_options); everything else may be zero, which is the default in
 * brackets. HF_OPTIONS is that. */
struct hf_options {
    size_t size;
    const char *client_id;    /* ["host/pid/program"] who this is, for people */
    const char *metadata;     /* [{host, pid, program}] JSON that listings show with each lock */
    uint32_t session_ttl_ms;  /* [30000] */
    uint32_t linger_ms;       /* [0: off] the session ends so long after its stream broke (S4.6) */
    uint32_t call_timeout_ms; /* [5000] of every call, beyond what it wants to wait for a lock */
    uint32_t connect_timeout_ms; /* [1000] per endpoint */
    bool own_loop;        /* [false] no thread: the caller drives it, see hf_client_pollfds */
    bool any_node;        /* [false] stay with the first endpoint that answers, leader or not */
    hf_event_fn on_event; /* [NULL] */
    void *arg;            /* for on_event */
};

#define HF_OPTIONS                                              \
    {                                                           \
        sizeof(struct hf_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* Begins a client; it connects and opens its session in the background, and calls wait for that.
 * When each endpoint has failed three times in a row the circuit is open: calls that begin then
 * fail at once with HF_ERR_UNREACHABLE and the reason, until one endpoint answers. Endpoints are
 * tried one at a time, each every 1 to 2 s; hf_client_wait_ready waits for the first that answers.
 * `endpoints`: "HOST:PORT,HOST:PORT,..."; NULL: $HOLDFAST_ENDPOINTS, else 127.0.0.1:4653. Fails
 * only for bad arguments and without memory. `options` may be NULL. */
HF_API int hf_client_open(hf_client **out, const char *endpoints, const struct hf_options *options);

/* Closes the session, which releases all of its locks, waiting at most call_timeout_ms for the word
 * of the service; then frees everything, also the handles of its locks. Takes NULL. */
HF_API void hf_client_close(hf_client *client);
/* Frees the client without closing the session: its locks live on until their TTL. For a process
 * that hands its locks to another one, and after fork() in the child. */
HF_API void hf_client_abandon(hf_client *client);

/* Waits until the session is open, at most timeout_ms: not needed before other calls, but tells
 * early that nobody is there. */
HF_API int hf_client_wait_ready(hf_client *client, uint32_t timeout_ms);

struct hf_client_stats {
    size_t size; /* set by the caller */
    uint64_t calls;
    uint64_t retries;
    uint64_t reconnects;
    uint64_t keepalives;
    uint32_t locks; /* handles that are held */
    bool is_connected;
    bool circuit_open;  /* no endpoint answers: calls fail at once, one attempt at a time probes */
    uint64_t epoch;     /* of the leader */
    char endpoint[128]; /* that it talks to */
    char session_id[40];
};
HF_API int hf_client_stats(hf_client *client, struct hf_client_stats *out);

/* For a caller with a loop of its own (options.own_loop). Fills in at most `max` descriptors to
 * poll for, and returns how many there are (at most 16); *timeout_ms becomes the longest time to
 * sleep (-1: any). When one is ready, or the time is over, or after any call that began something,
 * hf_client_process goes on with everything; it does not wait. With own_loop the blocking calls
 * below drive the loop themselves while they wait, and callbacks come from there, too. */
HF_API int hf_client_pollfds(hf_client *client, struct pollfd *fds, unsigned max, int *timeout_ms);
HF_API void hf_client_process(hf_client *client);

/* ---- Locks ---- */

enum hf_mode { HF_EXCLUSIVE = 0, HF_SHARED = 1, HF_SEMAPHORE = 2 };
enum hf_tier { HF_CORRECTNESS = 0, HF_EFFICIENCY = 1 };

#define HF_WAIT_FOREVER (-1)

/* As hf_options: set `size`, the rest may be zero. */
struct hf_lock_options {
    size_t size;
    int64_t wait_ms; /* [0: try] HF_WAIT_FOREVER, or how long to wait in the queue */
    uint32_t ttl_ms; /* [the session's] */
    enum hf_mode mode;
    enum hf_tier tier;
    uint32_t limit;         /* HF_SEMAPHORE: permits there are */
    uint32_t permits;       /* [1] permits wanted */
    uint32_t lock_delay_ms; /* [0] nobody gets it so long after an unclean end */
    bool detect_deadlock;
    const char *metadata; /* [the client's] JSON */
    hf_event_fn on_event; /* [NULL] of this lock, before the client's */
    void *arg;
};

#define HF_LOCK_OPTIONS                                                                           \
    {                                                                                             \
        sizeof(struct hf_lock_options), 0, 0, HF_EXCLUSIVE, HF_CORRECTNESS, 0, 0, 0, false, 0, 0, \
            0                                                                                     \
    }

/* Takes a lock: 0, HF_ERR_HELD, _TIMEOUT, _DELAYED, _DEADLOCK, _MISMATCH, _LIMIT, _UNREACHABLE,
 * _UNKNOWN (then what was begun is given back in the background), _LOST (the session).
 * `options` may be NULL: try, exclusive. The handle lasts until hf_release or hf_lock_free. */
HF_API int hf_acquire(hf_client *client, const char *name, const struct hf_lock_options *options,
                      hf_lock **out);
/* Several names, all or nothing, in one step; exclusive. */
HF_API int hf_acquire_many(hf_client *client, const char *const *names, size_t count,
                           const struct hf_lock_options *options, hf_lock **out);

/* Gives it back and frees the handle, whatever it returns: 0, HF_ERR_LOST (it was lost before),
 * HF_ERR_UNREACHABLE or _UNKNOWN (it goes on trying in the background, as long as the session
 * lives). Only where it must not be called (within a callback, in a forked child: HF_ERR_INVALID)
 * the handle stays. Takes NULL. */
HF_API int hf_release(hf_lock *lock);
/* Frees the handle without releasing the lock: it lives on with the session. For hand-over by
 * hf_lock_export. Takes NULL. */
HF_API void hf_lock_free(hf_lock *lock);

/* Confirms this lock now, beyond the keep-alives of the session; ttl_ms 0: as before. A shorter TTL
 * counts from its sending, a longer one when it is confirmed; if an attempt with a shorter one was
 * left without an answer, the shorter one counts as long as this lock is held (S5.3). */
HF_API int hf_renew(hf_lock *lock, uint32_t ttl_ms);

HF_API uint64_t hf_lock_token(const hf_lock *lock);
HF_API const char *hf_lock_name(const hf_lock *lock);
HF_API const char *hf_lock_lease(const hf_lock *lock);
HF_API uint32_t hf_lock_slot(const hf_lock *lock); /* of a semaphore */
/* How long it is certainly still held (S5.2), 0 when it is lost. */
HF_API int64_t hf_lock_safe_for_ms(const hf_lock *lock);
/* 0 while it is held, HF_ERR_LOST for ever after. */
HF_API int hf_lock_check(const hf_lock *lock);
/* Why it was lost: "expired", "forced", "revoked", "session_expired", "unconfirmed" (its deadline
 * came without an answer), "epoch" (an EFFICIENCY lock, and the leader changed); "taken"
 * when it was found out after a reconnect and how is not remembered; "" while it is held. */
HF_API const char *hf_lock_loss(const hf_lock *lock);

/* Who holds it, from the refusal of the last failed hf_acquire of this thread; HF_ERR_NOT_OWNER
 * when the last failure named nobody. */
struct hf_holder {
    size_t size; /* set by the caller */
    char client_id[256];
    char metadata[4097];
    int64_t held_for_ms;
    int64_t expires_in_ms;
    uint32_t queue_length;
};
HF_API int hf_last_holder(struct hf_holder *out);

/* A handle as text, to be passed to another process, which may release or renew it. */
#define HF_HANDLE_SIZE 96 /* enough for every handle, with its NUL */
HF_API int hf_lock_export(const hf_lock *lock, char *out, size_t size);
HF_API int hf_release_exported(hf_client *client, const char *handle);
HF_API int hf_renew_exported(hf_client *client, const char *handle, uint32_t ttl_ms,
                             int64_t *expires_in_ms);

/* ---- Without waiting ---- */

/* Called once, with the handle when `error` is 0. */
typedef void (*hf_done_fn)(hf_client *client, int error, hf_lock *lock, void *arg);

/* As hf_acquire; *out (may be NULL) names the call until `done` is called: after that it must not
 * be used any more, and it is the caller's business that no other thread does. */
HF_API int hf_acquire_async(hf_client *client, const char *const *names, size_t count,
                            const struct hf_lock_options *options, hf_done_fn done, void *arg,
                            hf_call **out);
/* Withdraws it: `done` comes with HF_ERR_CANCELLED, unless its end was on its way already. A wait
 * leaves the queue, and what was granted to it meanwhile is released; both in the background, until
 * the service has confirmed it. Takes NULL. */
HF_API void hf_call_cancel(hf_call *call);
/* As hf_release; `done` may be NULL. The handle is gone at once. */
HF_API int hf_release_async(hf_lock *lock, hf_done_fn done, void *arg);

/* ---- Elections ---- */

/* Becomes the leader of `name` and announces `value`; options->wait_ms as for locks. The handle is
 * a lock: its token is the epoch, LOST means that the reign is over, hf_release resigns. */
HF_API int hf_campaign(hf_client *client, const char *name, const char *value,
                       const struct hf_lock_options *options, hf_lock **out);
/* The same without waiting, as hf_acquire_async. */
HF_API int hf_campaign_async(hf_client *client, const char *name, const char *value,
                             const struct hf_lock_options *options, hf_done_fn done, void *arg,
                             hf_call **out);
HF_API int hf_proclaim(hf_lock *lock, const char *value);

struct hf_leader {
    bool vacant; /* nobody leads */
    const char *client_id;
    const char *value;
    uint32_t candidates;
};
/* Called for who leads now, and for each change, until hf_call_cancel or hf_client_close. Survives
 * reconnects; what changed meanwhile is told as one change. One that has begun may still be running
 * on the client's thread when hf_call_cancel returns. */
typedef void (*hf_leader_fn)(hf_client *client, const struct hf_leader *leader, void *arg);
HF_API int hf_observe(hf_client *client, const char *name, hf_leader_fn changed, void *arg,
                      hf_call **out);

/* ---- The resource's side ---- */

/* A high-water mark: a token is accepted when it is not below the highest that was seen, which then
 * rises. The store must keep the mark at least as durably as the data that it protects. */
typedef struct hf_fence hf_fence;

/* load: *mark is the mark of `resource`, 0 when there is none. save: keep it, durably. Both return
 * 0, or -1 with errno. They are called under the fence's own lock, one at a time. */
struct hf_fence_store {
    int (*load)(void *arg, const char *resource, uint64_t *mark);
    int (*save)(void *arg, const char *resource, uint64_t mark);
    void *arg;
};

HF_API int hf_fence_open_memory(hf_fence **out);
/* One file, written anew and synced with each rise, PATH.lock beside it: one fence at a time uses
 * them. At most 65,536 resources, in memory too (HF_ERR_LIMIT). */
HF_API int hf_fence_open_file(hf_fence **out, const char *path);
HF_API int hf_fence_open(hf_fence **out, const struct hf_fence_store *store);
HF_API void hf_fence_close(hf_fence *fence);

/* 0: go on and write. HF_ERR_STALE: refuse the write, a newer holder was here; *highest (may be
 * NULL) is its token. Call it inside the resource's own serialised write. */
HF_API int hf_fence_guard(hf_fence *fence, const char *resource, uint64_t token, uint64_t *highest);

#ifdef __cplusplus
}
#endif

#endif
