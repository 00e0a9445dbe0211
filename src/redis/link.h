/* One connection to an operator's own Redis (S10.3), by hiredis on the node's loop: kept up, spoken
 * to in a pipeline, and left alone while it is ill.
 *
 *      waiting ──▶ resolving ──▶ connecting ──▶ greeting ──▶ up
 *         ▲            │             │             │          │ closed, a deadline passed
 *         └────────────┴─────────────┴─────────────┴──────────┘
 *
 * Greeting is AUTH, SELECT and SCRIPT LOAD of every script. Scripts are then called by their
 * digest; a Redis that has forgotten one is given it again, and the call is sent again.
 *
 * The breaker stands before it:
 *
 *      closed ──failures in a row──▶ open ──its time is over, and the link is up──▶ half open
 *        ▲                             ▲                                              │
 *        │                             └────────────────the trial fails───────────────┤
 *        └────────────────────────────────────────────the trial succeeds──────────────┘
 *
 * Only while it is closed are calls sent. The trial is a call of the link itself, that writes: no
 * request of a client is spent on it, and a Redis that answers but cannot write stays left alone.
 *
 * Replies come in the order of the calls. So a call that is too late means that all behind it are,
 * and the connection is given up: what was sent on it is in doubt. */
#ifndef HOLDFAST_REDIS_LINK_H
#define HOLDFAST_REDIS_LINK_H

#include "base/journal.h"
#include "base/slice.h"
#include "net/address.h"
#include "net/net.h"
#include "redis/breaker.h"

struct redis_link;
struct redisReply;

enum {
    REDIS_SCRIPTS_MAX = 8,
    REDIS_ARGUMENTS_MAX = 160, /* of one call: twice the names of a multi-lock, and a few more */
    REDIS_CALLS_MAX = 16384,   /* outstanding; more are refused */
    REDIS_PATH_MAX = 107,      /* of a socket in the file system: sun_path has no more */
    REDIS_SECRET_MAX = 255,
    REDIS_TIMEOUT_MIN_MS = 10,
    REDIS_TIMEOUT_MAX_MS = 60000,
    REDIS_FAILURES_MAX = 1000,
};

/* What became of a call. */
enum redis_outcome {
    REDIS_ANSWERED, /* see the reply */
    REDIS_REFUSED,  /* an error is its reply: nothing was done */
    REDIS_NOT_SENT, /* the link is down, the breaker open: nothing was or will be done */
    REDIS_DOUBT,    /* sent, and not answered: it was done, or not, or may be done later */
};

struct redis_answer {
    enum redis_outcome outcome;
    const struct redisReply *reply; /* of REDIS_ANSWERED; borrowed */
    const char *problem;            /* of the others: for people; borrowed */
};

/* Once for each call, never before redis_link_call returned. May call again; must not close. */
typedef void (*redis_done_fn)(void *owner, const struct redis_answer *answer);

/* Calls script number `script` with keys, and then arguments. */
struct redis_call {
    uint32_t script;
    uint32_t key_count;
    uint32_t argument_count; /* the keys not counted */
    struct slice at[REDIS_ARGUMENTS_MAX];
};

struct redis_link_options {
    struct net *net;
    const struct journal *journal;
    struct address address; /* unless a path is given */
    char path[REDIS_PATH_MAX + 1];
    char user[REDIS_SECRET_MAX + 1]; /* "": the default user */
    char password[REDIS_SECRET_MAX + 1];
    uint32_t db;
    uint32_t timeout_ms;  /* of a call, of connecting and greeting */
    uint32_t wait_min_ms; /* before connecting again: doubled each time, up to ... */
    uint32_t wait_max_ms;
    uint32_t idle_ms;  /* after which it is asked whether it lives */
    uint32_t failures; /* in a row that open the breaker */
    uint32_t open_min_ms;
    uint32_t open_max_ms;
    const char *scripts[REDIS_SCRIPTS_MAX]; /* Lua; must outlive the link */
    uint32_t script_count;
    const struct redis_call *trial; /* must outlive the link */
    void *ctx;
    /* Calls may have a chance again, or have none any more. May be NULL. */
    void (*on_change)(void *ctx);
};

/* Sets what an operator does not. */
void redis_link_defaults(struct redis_link_options *options);

struct redis_link *redis_link_new(const struct redis_link_options *options);
/* Nobody is called any more. The loop runs once more after it. Takes NULL. */
void redis_link_close(struct redis_link *l);

/* All of it is copied. */
void redis_link_call(struct redis_link *l, const struct redis_call *call, redis_done_fn done,
                     void *owner);

/* Whether a call would be sent, or wait for a connection that is being made. */
bool redis_link_is_usable(const struct redis_link *l);

/* Everything since the start. */
struct redis_link_view {
    bool up;
    enum redis_breaker breaker;
    uint32_t outstanding;
    uint64_t connects, connects_failed;
    uint64_t calls, answered, refused, not_sent, doubts;
    uint64_t timeouts, reloads, pings, breaker_opened;
    uint64_t answer_us, answer_worst_us;
    char problem[128]; /* the last one; "": none since it is well */
};
void redis_link_view(const struct redis_link *l, struct redis_link_view *out);

#endif
