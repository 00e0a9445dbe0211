/* One connection to an operator's Redis (S10.3), with hiredis on the node's loop.
 *
 *      waiting ──▶ resolving ──▶ connecting ──▶ greeting ──▶ up
 *         ▲            │             │             │          │ closed, a deadline passed
 *         └────────────┴─────────────┴─────────────┴──────────┘
 *
 * Greeting sends AUTH, SELECT and SCRIPT LOAD for every script. Calls name a script by digest; if
 * Redis lacks it, the link loads it and sends the call again.
 *
 * Calls are sent only while the breaker is closed:
 *
 *      closed ──failures in a row──▶ open ──its time is over, and the link is up──▶ half open
 *        ▲                             ▲                                              │
 *        │                             └────────────────the trial fails───────────────┤
 *        └────────────────────────────────────────────the trial succeeds──────────────┘
 *
 * The trial is a writing call: a Redis that cannot write keeps the breaker open.
 *
 * Replies have the order of the calls: all behind a late one are late. The link then drops the
 * connection; the outcome of calls sent on it is unknown. */
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
    REDIS_ARGUMENTS_MAX = 160, /* two per name of a multi-lock, and a few */
    REDIS_CALLS_MAX = 16384,   /* outstanding; more are refused */
    REDIS_PATH_MAX = 107,      /* size of sun_path without NUL */
    REDIS_SECRET_MAX = 255,
    REDIS_TIMEOUT_MIN_MS = 10,
    REDIS_TIMEOUT_MAX_MS = 60000,
    REDIS_FAILURES_MAX = 1000,
};

enum redis_outcome {
    REDIS_ANSWERED,
    REDIS_REFUSED,  /* the reply is an error: nothing was done */
    REDIS_NOT_SENT, /* link down or breaker open: not done, will not be */
    REDIS_DOUBT,    /* sent, not answered: done, not done, or may be done later */
};

struct redis_answer {
    enum redis_outcome outcome;
    const struct redisReply *reply; /* of REDIS_ANSWERED; borrowed */
    const char *problem;            /* of the other outcomes; borrowed */
};

/* Once per call, never before redis_link_call has returned. May start another call; must not close
 * the link. */
typedef void (*redis_done_fn)(void *owner, const struct redis_answer *answer);

/* Script number `script`, its keys, then arguments. */
struct redis_call {
    uint32_t script;
    uint32_t key_count;
    uint32_t argument_count; /* without the keys */
    struct slice at[REDIS_ARGUMENTS_MAX];
};

struct redis_link_options {
    struct net *net;
    const struct journal *journal;
    struct address address; /* ignored if a path is given */
    char path[REDIS_PATH_MAX + 1];
    char user[REDIS_SECRET_MAX + 1]; /* "": the default user */
    char password[REDIS_SECRET_MAX + 1];
    uint32_t db;
    uint32_t timeout_ms;  /* of a call; of connecting and greeting */
    uint32_t wait_min_ms; /* before reconnecting: doubled each time, up to ... */
    uint32_t wait_max_ms;
    uint32_t idle_ms;  /* before a PING is sent */
    uint32_t failures; /* in a row, to open the breaker */
    uint32_t open_min_ms;
    uint32_t open_max_ms;
    const char *scripts[REDIS_SCRIPTS_MAX]; /* Lua; must outlive the link */
    uint32_t script_count;
    const struct redis_call *trial; /* must outlive the link */
    void *ctx;
    /* redis_link_is_usable may have changed. May be NULL. */
    void (*on_change)(void *ctx);
};

/* The options that no operator sets. */
void redis_link_defaults(struct redis_link_options *options);

struct redis_link *redis_link_new(const struct redis_link_options *options);
/* No callback follows. The loop must run once more. Takes NULL. */
void redis_link_close(struct redis_link *l);

/* Copies everything in `call`. */
void redis_link_call(struct redis_link *l, const struct redis_call *call, redis_done_fn done,
                     void *owner);

/* A call would be sent, or wait for the connection. */
bool redis_link_is_usable(const struct redis_link *l);

/* Since the start. */
struct redis_link_view {
    bool up;
    enum redis_breaker breaker;
    uint32_t outstanding;
    uint64_t connects, connects_failed;
    uint64_t calls, answered, refused, not_sent, doubts;
    uint64_t timeouts, reloads, pings, breaker_opened;
    uint64_t answer_us, answer_worst_us;
    char problem[128]; /* the last failure; "" after a success */
};
void redis_link_view(const struct redis_link *l, struct redis_link_view *out);

#endif
