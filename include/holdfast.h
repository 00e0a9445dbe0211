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
 * A client is one session. One keep-alive confirms all of its locks; when the session ends, all of
 * them are released. Each lock handle is its own owner: two threads that acquire one name queue for
 * it. If the session is lost, its locks stay lost and later calls open a new session.
 *
 * Safety: hf_lock_safe_for_ms() returns how long a lock is certainly still held. The time counts
 * from the sending of the last confirmed message, on a clock that also runs during suspend (S5).
 * When a third of the TTL is left without a confirmation, the lock is in JEOPARDY. At zero it is
 * LOST, permanently: every later call with it returns HF_ERR_LOST. A process can be paused between
 * any two instructions, so only the token, checked by the resource, protects the data: see
 * hf_fence_guard.
 *
 * Threads: every function may be called from any thread. Callbacks run one by one on a thread of the
 * client that does nothing else, so one that blocks delays later callbacks only; or inside
 * hf_client_process() when the caller drives the client from its own loop, where it delays keep-alives.
 * A callback may call every function that does not wait, except hf_client_close.
 *
 * Errors: functions return 0 or an HF_ERR_ code, and leave their outputs untouched when they fail,
 * unless documented otherwise. No function prints, exits, installs a signal handler or keeps global
 * state, with one exception: the process aborts with a message on stderr when memory runs out
 * during an operation or an internal assertion fails. */
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
    HF_ERR_HELD = 1,         /* another client holds it, and the call does not wait */
    HF_ERR_TIMEOUT = 2,      /* the wait time or the call's deadline is over: not acquired */
    HF_ERR_UNREACHABLE = 3,  /* no endpoint answered in time; nothing was done */
    HF_ERR_LOST = 4,         /* the lock, or the session, was lost; see hf_lock_loss */
    HF_ERR_DENIED = 5,       /* not allowed */
    HF_ERR_INVALID = 6,      /* an argument is wrong; hf_last_error names it */
    HF_ERR_DELAYED = 7,      /* free, but the lock-delay after an unclean end is running */
    HF_ERR_DEADLOCK = 8,     /* waiting would close a cycle */
    HF_ERR_ALREADY_HELD = 9, /* by the owner of this handle */
    HF_ERR_MISMATCH = 10,    /* the name is in use in another mode, limit or tier */
    HF_ERR_LIMIT = 11,       /* a limit of the service; hf_last_error names it */
    HF_ERR_NOT_OWNER = 12,   /* released or renewed with a handle that is not the current one */
    HF_ERR_UNKNOWN = 13,     /* possibly done: the deadline passed before the answer arrived */
    HF_ERR_CANCELLED = 14,   /* by hf_call_cancel, or by hf_client_close */
    HF_ERR_STALE = 15,       /* hf_fence_guard: a newer token was seen */
    HF_ERR_MEMORY = 16,
    HF_ERR_SYSTEM = 17,  /* see errno: the store of a fence guard, a socket */
    HF_ERR_PROTOCOL = 18 /* the endpoint does not speak Holdfast's gRPC, or not this version */
};

/* The name of a code ("held", "timeout", ...) and a sentence that describes it. Never NULL. */
HF_API const char *hf_error_name(int error);
HF_API const char *hf_error_message(int error);

/* Details of the last failed call of this thread: "no endpoint answered: tried 10.0.0.1:4653
 * (connection refused), ...". Valid until the thread's next failed call. Never NULL. */
HF_API const char *hf_last_error(void);

HF_API const char *hf_version(void);

/* ---- A client ---- */

/* A change of state of a lock, of the session or of the connection. */
enum hf_event_type {
    HF_EVENT_SAFE = 1,     /* confirmed again, after JEOPARDY */
    HF_EVENT_JEOPARDY = 2, /* not confirmed for two thirds of its TTL; or max_hold ends soon */
    HF_EVENT_LOST = 3,     /* final */
    HF_EVENT_REVOKE_REQUESTED = 4, /* an operator requests the lock: finish and release it */
    HF_EVENT_CONNECTED = 5,        /* to an endpoint; `text` is its address */
    HF_EVENT_DISCONNECTED = 6
};

struct hf_event {
    enum hf_event_type type;
    hf_lock *lock;       /* NULL: of the session (sent after its locks' events) or the connection */
    int64_t safe_for_ms; /* at this moment, of the lock or else of the session */
    int64_t deadline_ms; /* REVOKE_REQUESTED: the lock is taken away after this time */
    const char *text;    /* the reason: an operator's text, else a word of hf_lock_loss */
};

typedef void (*hf_event_fn)(hf_client *client, const struct hf_event *event, void *arg);

/* Set `size` to sizeof(struct hf_options). Every other field may be zero, which selects the default
 * in brackets. HF_OPTIONS does both. */
struct hf_options {
    size_t size;
    const char *client_id;   /* ["host/pid/program"] shown to operators */
    const char *metadata;    /* [{host, pid, program}] JSON that listings show with each lock */
    uint32_t session_ttl_ms; /* [30000] */
    uint32_t linger_ms;      /* [0: off] the session ends this long after its stream broke (S4.6) */
    uint32_t call_timeout_ms;    /* [5000] of every call, in addition to the wait for a lock */
    uint32_t connect_timeout_ms; /* [1000] per endpoint */
    bool own_loop;        /* [false] no thread: the caller drives it, see hf_client_pollfds */
    bool any_node;        /* [false] stay with the first endpoint that answers, leader or not */
    hf_event_fn on_event; /* [NULL] */
    void *arg;            /* for on_event */

    /* TLS and identity. Connections use TLS if one of the first four is set; the node is always
     * verified. The files are read by hf_client_open. */
    const char *ca;          /* [$HOLDFAST_CA] PEM file of CAs; "system": those of the machine */
    const char *cert;        /* [$HOLDFAST_CERT] PEM file of the client's certificate */
    const char *key;         /* [$HOLDFAST_KEY] its key; only its owner may read the file */
    const char *server_name; /* [$HOLDFAST_SERVER_NAME, else the endpoint's host] */
    const char *token_file;  /* [$HOLDFAST_TOKEN_FILE] only its owner may read the file */
    const char *tenant;      /* [$HOLDFAST_TENANT, else the home tenant] */
};

#define HF_OPTIONS                                                                \
    {                                                                             \
        sizeof(struct hf_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
    }

/* Creates a client. It connects and opens its session in the background; calls wait for that. Fails
 * only for invalid arguments, for files of options that cannot be used, and when memory runs out.
 * `options` may be NULL.
 *
 * `endpoints`: "HOST:PORT,HOST:PORT,..."; NULL: $HOLDFAST_ENDPOINTS, else 127.0.0.1:4653. They are
 * tried one at a time, each every 1 to 2 s. When each has failed three times in a row the circuit
 * is open: new calls fail at once with HF_ERR_UNREACHABLE and the reason, until an endpoint
 * answers. hf_client_wait_ready waits for the first answer. */
HF_API int hf_client_open(hf_client **out, const char *endpoints, const struct hf_options *options);

/* Closes the session, which releases all of its locks, and waits at most call_timeout_ms for the
 * confirmation. Then frees the client and all handles of its locks. Takes NULL. */
HF_API void hf_client_close(hf_client *client);
/* Frees the client without closing the session: its locks stay held until their TTL ends. For a
 * process that hands its locks to another one, and for the child after fork(). */
HF_API void hf_client_abandon(hf_client *client);

/* Waits until the session is open, at most timeout_ms. Optional: it reports early that no endpoint
 * is reachable. */
HF_API int hf_client_wait_ready(hf_client *client, uint32_t timeout_ms);

struct hf_client_stats {
    size_t size; /* set by the caller */
    uint64_t calls;
    uint64_t retries;
    uint64_t reconnects;
    uint64_t keepalives;
    uint32_t locks; /* handles that are held */
    bool is_connected;
    bool circuit_open;  /* no endpoint answers: calls fail at once; one attempt at a time probes */
    uint64_t epoch;     /* of the leader */
    char endpoint[128]; /* of the current connection */
    char session_id[40];
};
HF_API int hf_client_stats(hf_client *client, struct hf_client_stats *out);

/* For a caller with its own event loop (options.own_loop). hf_client_pollfds stores at most `max`
 * descriptors to poll and returns how many there are (at most 16). *timeout_ms becomes the longest
 * time to sleep (-1: no limit). Call hf_client_process when a descriptor is ready, when the time is
 * over, and after any call that started an operation; it does not wait. With own_loop the blocking
 * calls below drive the loop while they wait, and run callbacks, too. */
HF_API int hf_client_pollfds(hf_client *client, struct pollfd *fds, unsigned max, int *timeout_ms);
HF_API void hf_client_process(hf_client *client);

/* ---- Locks ---- */

enum hf_mode { HF_EXCLUSIVE = 0, HF_SHARED = 1, HF_SEMAPHORE = 2 };
enum hf_tier { HF_CORRECTNESS = 0, HF_EFFICIENCY = 1 };

#define HF_WAIT_FOREVER (-1)

/* As hf_options: set `size`; the other fields may be zero. */
struct hf_lock_options {
    size_t size;
    int64_t wait_ms; /* [0: do not wait] how long to wait in the queue, or HF_WAIT_FOREVER */
    uint32_t ttl_ms; /* [the session's] */
    enum hf_mode mode;
    enum hf_tier tier;
    uint32_t limit;         /* HF_SEMAPHORE: permits in total */
    uint32_t permits;       /* [1] permits to acquire */
    uint32_t lock_delay_ms; /* [0] after an unclean end, no client gets it for this long */
    bool detect_deadlock;
    const char *metadata; /* [the client's] JSON */
    hf_event_fn on_event; /* [NULL] for events of this lock; called before the client's */
    void *arg;
    const char *trace; /* [NULL] a W3C traceparent; listings, events and the audit trail show it */
    /* [0: no limit] 100 ms to 31 days: the service ends the lock this long after the grant, however
     * often it is confirmed. hf_lock_safe_for_ms includes it. */
    uint32_t max_hold_ms;
};

#define HF_LOCK_OPTIONS                                                                           \
    {                                                                                             \
        sizeof(struct hf_lock_options), 0, 0, HF_EXCLUSIVE, HF_CORRECTNESS, 0, 0, 0, false, 0, 0, \
            0, 0, 0                                                                               \
    }

/* Acquires a lock. Returns 0, HF_ERR_HELD, _TIMEOUT, _DELAYED, _DEADLOCK, _MISMATCH, _LIMIT,
 * _UNREACHABLE, _UNKNOWN (the client then releases in the background what was acquired), _LOST (the
 * session). `options` may be NULL: exclusive, without waiting. The handle is valid until hf_release
 * or hf_lock_free. */
HF_API int hf_acquire(hf_client *client, const char *name, const struct hf_lock_options *options,
                      hf_lock **out);
/* Acquires several names in one step, all or nothing; exclusive. */
HF_API int hf_acquire_many(hf_client *client, const char *const *names, size_t count,
                           const struct hf_lock_options *options, hf_lock **out);

/* Releases the lock and frees the handle, whatever it returns: 0, HF_ERR_LOST (it was lost before),
 * HF_ERR_UNREACHABLE or _UNKNOWN (the client retries in the background while the session lives).
 * The handle stays valid only when the call is not allowed (inside a callback, in a forked child:
 * HF_ERR_INVALID). Takes NULL. */
HF_API int hf_release(hf_lock *lock);
/* Frees the handle without releasing the lock, which stays held by the session. For hand-over with
 * hf_lock_export. Takes NULL. */
HF_API void hf_lock_free(hf_lock *lock);

/* Confirms this lock now, in addition to the keep-alives of the session. ttl_ms 0 keeps the TTL. A
 * shorter TTL applies from its sending, a longer one from its confirmation. If an attempt with a
 * shorter TTL got no answer, the shorter TTL applies as long as this lock is held (S5.3). */
HF_API int hf_renew(hf_lock *lock, uint32_t ttl_ms);

HF_API uint64_t hf_lock_token(const hf_lock *lock);
HF_API const char *hf_lock_name(const hf_lock *lock);
HF_API const char *hf_lock_lease(const hf_lock *lock);
HF_API uint32_t hf_lock_slot(const hf_lock *lock); /* of a semaphore */
/* How long the lock is certainly still held (S5.2); 0 when it is lost. */
HF_API int64_t hf_lock_safe_for_ms(const hf_lock *lock);
/* 0 while it is held; after that HF_ERR_LOST, permanently. */
HF_API int hf_lock_check(const hf_lock *lock);
/* Why it was lost: "expired", "forced", "revoked", "session_expired"; "max_hold": it was held as long
 * as its options allow; "unconfirmed": its deadline
 * passed without an answer; "epoch": an EFFICIENCY lock, and the leader changed; "taken": the loss
 * was found after a reconnect and its cause is not recorded. "" while it is held. */
HF_API const char *hf_lock_loss(const hf_lock *lock);

/* The holder that the last failed hf_acquire of this thread reported. HF_ERR_NOT_OWNER when that
 * failure named no holder. */
struct hf_holder {
    size_t size; /* set by the caller */
    char client_id[256];
    char metadata[4097];
    int64_t held_for_ms;
    int64_t expires_in_ms;
    uint32_t queue_length;
    char trace[56]; /* "" if there is none */
};
HF_API int hf_last_holder(struct hf_holder *out);

/* A handle as text. Another process that receives it may release or renew the lock. */
#define HF_HANDLE_SIZE 96 /* enough for every handle, with its NUL */
HF_API int hf_lock_export(const hf_lock *lock, char *out, size_t size);
HF_API int hf_release_exported(hf_client *client, const char *handle);
HF_API int hf_renew_exported(hf_client *client, const char *handle, uint32_t ttl_ms,
                             int64_t *expires_in_ms);

/* ---- Asynchronous calls ---- */

/* Called once, with the handle when `error` is 0. */
typedef void (*hf_done_fn)(hf_client *client, int error, hf_lock *lock, void *arg);

/* As hf_acquire. *out (`out` may be NULL) identifies the call until `done` is called. It must not
 * be used after that; the caller makes sure that no other thread does. */
HF_API int hf_acquire_async(hf_client *client, const char *const *names, size_t count,
                            const struct hf_lock_options *options, hf_done_fn done, void *arg,
                            hf_call **out);
/* Cancels the call: `done` gets HF_ERR_CANCELLED, unless its result is already on its way. In the
 * background, until the service confirms it, a waiting call leaves the queue, and a lock that was
 * granted meanwhile is released. Takes NULL. */
HF_API void hf_call_cancel(hf_call *call);
/* As hf_release; `done` may be NULL. The handle is invalid at once. */
HF_API int hf_release_async(hf_lock *lock, hf_done_fn done, void *arg);

/* ---- Elections ---- */

/* Becomes the leader of `name` and announces `value`; options->wait_ms as for locks. The handle is
 * a lock: its token is the epoch, LOST means that the leadership is over, hf_release resigns. */
HF_API int hf_campaign(hf_client *client, const char *name, const char *value,
                       const struct hf_lock_options *options, hf_lock **out);
/* The same, asynchronously; see hf_acquire_async. */
HF_API int hf_campaign_async(hf_client *client, const char *name, const char *value,
                             const struct hf_lock_options *options, hf_done_fn done, void *arg,
                             hf_call **out);
HF_API int hf_proclaim(hf_lock *lock, const char *value);

struct hf_leader {
    bool vacant; /* there is no leader */
    const char *client_id;
    const char *value;
    uint32_t candidates;
};
/* Called with the present leader and after each change, until hf_call_cancel or hf_client_close.
 * Continues after reconnects; the changes in between are reported as one. A call that has begun may
 * still be running on the client's thread when hf_call_cancel returns. */
typedef void (*hf_leader_fn)(hf_client *client, const struct hf_leader *leader, void *arg);
HF_API int hf_observe(hf_client *client, const char *name, hf_leader_fn changed, void *arg,
                      hf_call **out);

/* ---- Fencing, for the protected resource ---- */

/* A high-water mark. A token is accepted when it is not below the highest token seen; the mark then
 * rises to it. The store must keep the mark at least as durably as the data that it protects. */
typedef struct hf_fence hf_fence;

/* load: stores the mark of `resource` in *mark, 0 when there is none. save: stores it durably. Both
 * return 0, or -1 with errno. They are called under the fence's own lock, one at a time. */
struct hf_fence_store {
    int (*load)(void *arg, const char *resource, uint64_t *mark);
    int (*save)(void *arg, const char *resource, uint64_t mark);
    void *arg;
};

HF_API int hf_fence_open_memory(hf_fence **out);
/* One file, rewritten and synced each time a mark rises, and PATH.lock beside it. One fence at a
 * time uses them. At most 65,536 resources, as for hf_fence_open_memory (HF_ERR_LIMIT). */
HF_API int hf_fence_open_file(hf_fence **out, const char *path);
HF_API int hf_fence_open(hf_fence **out, const struct hf_fence_store *store);
HF_API void hf_fence_close(hf_fence *fence);

/* 0: write. HF_ERR_STALE: refuse the write, a newer token was seen; *highest (may be NULL) is that
 * token. Call it inside the resource's own serialised write. */
HF_API int hf_fence_guard(hf_fence *fence, const char *resource, uint64_t token, uint64_t *highest);

/* Replaces a file if no newer token was used for it, durably: after a crash the file is the old one
 * or the new one, and the mark, in PATH.fence, is never older than the file. Writers in other
 * processes of the machine wait for each other, at most wait_ms each (HF_ERR_TIMEOUT).
 * HF_ERR_STALE: nothing was written; *highest (may be NULL) is the newer token. HF_ERR_INVALID: a
 * symbolic link or another path that is not a regular file. Not for network file systems. */
HF_API int hf_fence_write_file(const char *path, const void *data, size_t size, uint64_t token,
                               uint32_t wait_ms, uint64_t *highest);

#ifdef __cplusplus
}
#endif

#endif
