/* State of one Redis-protocol connection. Private to service/resp.
 *
 *            ┌──SET NX──▶ ACQUIRING ────all are answered──┐
 *            │            (further SET NX join)           │
 *   IDLE ────┼──READ────▶ READING ──────barrier passed────┼──▶ IDLE
 *            │                                            │
 *            └──CHANGE──▶ TRANSACTING ──answered──────────┘
 *                         (conflict: runs and is submitted again)
 *
 * Several acquires may be in flight: the log keeps their order. Any other request begins after all
 * earlier ones are answered: a client sees its own changes, and replies are in order. Requests that
 * have not begun stay in the input. */
#ifndef HOLDFAST_SERVICE_RESP_CONN_H
#define HOLDFAST_SERVICE_RESP_CONN_H

#include "base/heap.h"
#include "service/resp/api.h"
#include "service/resp/commands.h"
#include "service/resp/keyspace_state.h"
#include "service/state.h"
#include "wire/resp.h"

/* Reported to clients. */
#define RESP_REDIS_VERSION "7.0.0"

enum {
    RESP_INPUT_SOFT = 64 << 10, /* bytes at which reading stops during a request */
    RESP_INPUT_MAX = (int)LIMIT_RESP_REQUEST + 2 * (int)RESP_CONN_READ,
    RESP_OUTPUT_SOFT = 256 << 10, /* unwritten bytes at which no further request begins */
    RESP_OUTPUT_MAX = 4 << 20,
    RESP_BUFFER_KEPT = 1 << 10,  /* bytes of each buffer, between requests */
    RESP_REPLY_MAX = 1 << 20,    /* bytes of a reply of a CHANGE command or script */
    RESP_MULTI_MAX = 64 << 10,   /* bytes between MULTI and EXEC */
    RESP_WATCHED_MAX = 64 << 10, /* names of WATCH */
    RESP_PUSH_MAX = 1 << 20,     /* unread bytes at which a subscriber is dropped */
    RESP_ACQUIRES = 1024,        /* in flight on one connection */
    RESP_ATTEMPTS = 8,           /* of one transaction; then -TRYAGAIN */
    RESP_PENDING_MS = 5000,      /* of a transaction that cannot run; then refused */
    RESP_NAME_MAX = 100,         /* bytes of CLIENT SETNAME */
    RESP_IDLE_MS = 3600000,
};

/* Sharded channels are other channels than the ordinary ones of the same name. */
enum subscribed { SUBSCRIBED_CHANNEL, SUBSCRIBED_PATTERN, SUBSCRIBED_SHARD, SUBSCRIBED_COUNT };

enum resp_mode {
    RESP_MODE_IDLE,
    RESP_MODE_ACQUIRING,
    RESP_MODE_READING,
    RESP_MODE_TRANSACTING,
    RESP_MODE_AUTHENTICATING, /* with credentials that this node does not know yet */
};
/* CLIENT REPLY. SKIP is for the request in progress, SKIP_NEXT for the one after CLIENT REPLY SKIP. */
enum resp_replies { RESP_REPLIES_ON, RESP_REPLIES_OFF, RESP_REPLIES_SKIP_NEXT, RESP_REPLIES_SKIP };
enum resp_clock { RESP_CLOCK_NONE, RESP_CLOCK_IDLE, RESP_CLOCK_TRANSFER };

/* Positions in the input of the words of the request in progress or waiting to begin. */
struct resp_kept {
    uint32_t count;
    struct {
        uint32_t offset;
        uint32_t size;
    } words[];
};

struct resp_conn {
    struct service *service;
    struct resp_conn_options options;
    enum resp_mode mode;
    enum resp_clock clock;
    bool is_ended;   /* no more input */
    bool is_closing; /* begin no request; close after the output is written */
    bool is_authenticated;
    struct auth_conn auth;
    struct caller caller;  /* after AUTH, or by certificate */
    struct auth_wait wait; /* RESP_MODE_AUTHENTICATING */
    char *denial; /* AUTH_TEXT bytes: the local policy denies the command in flight; NULL: not */
    int protocol;
    enum resp_replies replies;
    uint32_t database; /* SELECT */
    uint64_t id;
    uint64_t source;   /* see gateway_call */
    uint64_t since_ms; /* boot time: when the clock started */
    uint64_t born_ms;
    uint64_t received_ms;
    struct conn_account account; /* of the memory limit; its buffers, parser and kept words */
    bool is_broken_off;          /* by that limit, or by CLIENT KILL */
    struct buffer in;
    struct buffer out;
    struct resp_parser *parser; /* of a partial request; NULL: none */
    const char *broken;         /* protocol error; reported after earlier replies */

    const struct resp_command *command; /* of the first request; NULL: unknown */
    const struct resp_command *last;    /* for CLIENT LIST */
    struct resp_kept *kept;             /* NULL: not parsed yet */
    size_t taken;                       /* size of the request in the input */
    size_t covered;                     /* READING: input bytes that the barrier covers */
    size_t fresh;                       /* input bytes whose reads need no further barrier */
    struct pending_request *awaited;    /* READING, TRANSACTING */

    struct list acquires; /* in the order of the requests */
    uint32_t acquire_count;

    struct buffer reply; /* of an unconfirmed transaction */
    uint32_t attempts;
    bool needs_barrier;  /* before the next attempt */
    bool has_policy;     /* after a barrier: a denial is final */
    uint64_t submitted;  /* number of the last run's transaction (uncommitted.h) */
    uint64_t busy_index; /* core index plus one at which another run was changing the keys */
    bool busy_early;     /* ... or until no batch is in flight */
    uint64_t busy_ended; /* ... or until another transaction has ended (uncommitted.h) */
    uint64_t give_up_ms; /* boot time */
    struct list pending; /* in shared.pending */
    struct {             /* FLUSHDB and FLUSHALL; see flush.c */
        uint64_t cursor;
        uint64_t next;
        bool is_more; /* after the last run's transaction the command goes on at `next` */
    } flush;
    struct resp_wait *wait_for; /* of a blocking command; NULL: not; see blocking.c */

    uint64_t written; /* bytes, since opened */
    struct list unwritten;

    bool is_multi;     /* between MULTI and EXEC; see multi.c */
    bool multi_failed; /* a queued command was invalid: EXEC does nothing */
    uint32_t multi_count;
    struct buffer multi;
    uint32_t watch_count; /* WATCH; see optimistic.c */
    struct buffer watched;

    struct list subscriptions[SUBSCRIBED_COUNT]; /* see pubsub.c */
    uint32_t subscription_count[SUBSCRIBED_COUNT];

    char address[CLIENT_ADDRESS_MAX + 1];
    char local[CLIENT_ADDRESS_MAX + 1];
    char name[RESP_NAME_MAX + 1]; /* CLIENT SETNAME */
    char lib_name[RESP_NAME_MAX + 1];
    char lib_ver[RESP_NAME_MAX + 1];
    char client[LIMIT_CLIENT + 1]; /* client id, owner of its locks */
    size_t client_len;

    struct list link;     /* in shared.conns */
    struct list ready;    /* in shared.ready */
    struct list deadline; /* in shared.idle or shared.transfers */
};

/* Shared by all connections. */
struct resp_shared {
    struct list conns;
    uint64_t conn_count;
    struct list ready;
    struct list transfers; /* with a partial request or an unwritten last reply */
    struct list idle;
    struct list pending;   /* transactions that wait to run */
    struct list waits;     /* of blocking commands; see blocking.c */
    struct list expecting; /* those that saw uncommitted changes */
    struct table queues;   /* of keys that are waited for, by name */
    struct heap timers;    /* of waits */
    struct list yielding;  /* those that let an earlier one run first */
    uint64_t wait_count;
    uint64_t wait_running;
    struct pool pool;      /* acquires and subscriptions */
    uint64_t hash_key;     /* keys the hash of channels */
    struct table channels; /* subscriptions by channel, ordinary and sharded ones */
    struct list patterns;  /* subscriptions */
    uint32_t pattern_count;
    struct keyspace keyspace;      /* of the current run */
    struct script_engine *scripts; /* NULL: no script yet */
    bool is_behind;                /* script time used up, transactions wait */
    struct resp_parser parser;
    uint8_t name_bytes[RESP_NAME_BYTES];     /* of an acquire, until it is submitted */
    struct slice args[LIMIT_RESP_ARGUMENTS]; /* words of the current request */
    uint32_t arg_count;
    uint64_t born_ms; /* boot time */
    char run_id[41];  /* as of Redis: another one after each start */
    uint64_t ids;
    uint64_t connections; /* since start */
    uint64_t commands;    /* since start */
    uint64_t errors;
    uint64_t conflicts;    /* transactions run again */
    uint64_t dropped;      /* slow subscribers */
    uint64_t published;    /* messages to this node */
    char ttl_problem[192]; /* reply to a TTL that cannot be set, see ttl.c */
};

static inline struct resp_shared *resp_shared(const struct resp_conn *conn)
{
    return conn->service->resp;
}

static inline struct resp_writer resp_conn_writer(struct resp_conn *conn)
{
    return (struct resp_writer){&conn->out, conn->protocol};
}

static inline bool resp_is_subscribed(const struct resp_conn *conn)
{
    return conn->subscription_count[SUBSCRIBED_CHANNEL] +
               conn->subscription_count[SUBSCRIBED_PATTERN] +
               conn->subscription_count[SUBSCRIBED_SHARD] >
           0;
}

static inline bool resp_is_silent(const struct resp_conn *conn)
{
    return conn->replies == RESP_REPLIES_OFF || conn->replies == RESP_REPLIES_SKIP;
}

/* conn.c */
void resp_conn_mark_ready(struct resp_conn *conn);
void resp_conn_shut(struct resp_conn *conn);
/* Begins the requests in the input. */
void resp_conn_advance(struct resp_conn *conn);
void resp_conn_update_clock(struct resp_conn *conn);
/* Drops its requests and its output at once; it is finished then. */
void resp_conn_break_off(struct resp_conn *conn);
/* Replies "-CODE text" and counts the error. */
void resp_conn_error(struct resp_conn *conn, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The first request is answered; resp_run_all begins the next. */
void resp_conn_done(struct resp_conn *conn);
/* Words of the first request, in shared.args. */
const struct slice *resp_conn_args(struct resp_conn *conn, uint32_t *count);
/* The client id, from CLIENT SETNAME and the address. */
void resp_conn_name(struct resp_conn *conn);

/* auth.c, with auth = on. */
bool resp_needs_auth(const struct service *s);
/* Before a request begins; true: it waits for the policy and begins again. */
bool resp_auth_waits(struct resp_conn *conn, const struct slice *args, uint32_t count);

/* True: conn->caller is set. False: the error was sent. */
bool resp_auth_token(struct resp_conn *conn, struct slice user, struct slice token);
/* By certificate, before the first command without AUTH. False: the error was sent. */
bool resp_auth_certificate(struct resp_conn *conn);
/* True: the error was sent. */
bool resp_auth_refuses(struct resp_conn *conn);
void resp_conn_review(struct resp_conn *conn);
/* What concerns all clients of this node: `read` on the cluster. */
bool resp_sees_node(const struct resp_conn *conn);
/* `read` on the channel; false: the error was sent. */
bool resp_may_subscribe(struct resp_conn *conn, struct slice channel, enum subscribed kind);
/* A published message reaches the connection. */
bool resp_may_receive(const struct resp_conn *conn, struct slice channel, enum subscribed kind);
/* Keeps the text of a denial by the leader; NULL command: none. */
void resp_keep_denial(struct resp_conn *conn, const struct command *command);

/* error.c: errors of gateway and core as Redis errors. */
const char *resp_error_code(enum hf_error error);
void resp_conn_fail(struct resp_conn *conn, enum hf_error error);
void resp_put_error(struct resp_writer *w, enum hf_error error);
void resp_conn_fail_quota(struct resp_conn *conn, const struct quota_refusal *refusal);
void resp_put_quota(struct resp_writer *w, const struct resp_conn *conn,
                    const struct quota_refusal *refusal);

/* acquire.c */
struct resp_set {
    struct slice name;
    struct slice value;
    uint64_t ttl_ms;
    uint64_t wait_ms;
    uint32_t max_hold_ms; /* 0: none */
    bool gives_token;     /* reply with the fencing token instead of OK */
};
/* False: not an acquire, or invalid; the CHANGE path reports the fault. */
bool resp_is_acquire(const struct resp_conn *conn, const struct slice *args, uint32_t count,
                     struct resp_set *out);
void resp_acquire_begin(struct resp_conn *conn, const struct resp_set *set);
void resp_acquire_abandon_all(struct resp_conn *conn);
/* One waits in the queue of its name. */
bool resp_acquire_waits(const struct resp_conn *conn);
/* CLIENT UNBLOCK: ends that wait with nil, or with an error. False: none waits. */
bool resp_acquire_unblock(struct resp_conn *conn, bool is_error);
/* No more input: acquires that wait are abandoned (S7.2). */
void resp_acquire_end(struct resp_conn *conn);

/* client.c. False: the error was sent. */
bool resp_set_name(struct resp_conn *conn, struct slice name);

/* ttl.c. The state has version 8: keys are any bytes, and may have any TTL or none. */
bool resp_is_upgraded(const struct service *s);
/* keyspace.c: the name of a key, by the version of the state. */
bool resp_name_in(const struct service *s, uint32_t database, struct slice key,
                  uint8_t out[RESP_NAME_BYTES], struct slice *name);
bool resp_ttl_may_be_none(const struct service *s);
/* Of a key, in bytes; values beyond it that exist may shrink. */
size_t resp_value_max(const struct service *s);
/* "WHAT at most N bytes"; the error is sent. */
void resp_value_too_long(const struct service *s, const char *what, const struct key_sink *to);
/* Of a key that is set without one; perhaps TTL_NONE. */
uint64_t resp_ttl_default_ms(const struct service *s);

/* set.c, token.c: a valid plain acquire. */
bool resp_set_is_acquire(const struct service *s, const struct slice *args, uint32_t count,
                         struct resp_set *out);
bool resp_token_is_acquire(const struct service *s, const struct slice *args, uint32_t count,
                           struct resp_set *out);

/* hash.c: `hash` is of kind KEY_HASH. */
bool resp_hash_has(struct slice hash, struct slice field);

/* transact.c */
void resp_transact_begin(struct resp_conn *conn);
/* Of a command that only reads. */
void resp_read(struct resp_conn *conn, const struct slice *args, uint32_t count);
/* A sink that writes to a buffer, and its writer. Every handler outside a script has such a
 * sink. */
struct key_sink resp_sink(struct resp_writer *w);
struct resp_writer *resp_sink_writer(const struct key_sink *sink);

/* Runs a request that waited once more, with all its attempts. */
void resp_transact_begin_again(struct resp_conn *conn);
/* A request that is not submitted. */
void resp_transact_refuse(struct resp_conn *conn, enum hf_error error);
/* Nothing waits for the answer of the submitted transaction any more: later runs must not build on
 * it, since nobody will report its end. */
void resp_transact_abandon(struct resp_conn *conn);

/* list.c, for blocking.c. The list is not empty; replies with the element. */
void resp_list_pop(struct keyspace *k, struct key *key, struct slice list, bool from_left,
                   const struct key_sink *to);
/* False: not LEFT or RIGHT; the error was sent. */
bool resp_list_ends(struct slice from, struct slice target, const struct key_sink *to);

/* blocking.c: BLPOP and its relatives. */
void resp_waits_open(struct service *s);
void resp_waits_close(struct service *s);
/* The run found nothing: the connection waits until one of its keys exists. False: the quota of
 * watchers is used up. */
bool resp_wait_park(struct resp_conn *conn, struct keyspace *k, struct quota_refusal *refusal);
/* Its wait is over, and the last run must see only what is applied. */
bool resp_wait_is_over(const struct resp_conn *conn);
/* It is answered, or gone. */
void resp_wait_end(struct resp_conn *conn);
/* No more input: a client that waits is gone. */
void resp_wait_input_ended(struct resp_conn *conn);
/* A key exists now. */
void resp_waits_on_key(struct service *s, uint32_t tenant, struct slice name);
/* Uncommitted changes were applied or forgotten. */
void resp_waits_on_settled(struct resp_shared *shared);
/* Before a run: an earlier client of its queues is to run first, and this one is parked. */
bool resp_wait_yields(struct resp_conn *conn);
void resp_waits_run_deadlines(struct service *s, uint64_t now_ms);
uint64_t resp_waits_next_ms(const struct service *s);
void resp_waits_drain(struct service *s);
bool resp_wait_is_on(const struct resp_conn *conn);
/* CLIENT UNBLOCK: as when its time is over, or with an error. False: it does not wait. */
bool resp_wait_unblock(struct resp_conn *conn, bool is_error);

/* multi.c: true when the command was queued for EXEC, or refused. */
bool resp_multi_takes(struct resp_conn *conn, const struct slice *args, uint32_t count);
void resp_multi_end(struct resp_conn *conn);

/* optimistic.c */
void resp_watch_end(struct resp_conn *conn);
/* For EXEC. `*failed`: the error was sent. */
bool resp_watched_changed(struct keyspace *k, const struct key_sink *to, bool *failed);

/* pubsub.c */
void resp_pubsub_open(struct service *s);
void resp_pubsub_close(struct service *s);
void resp_pubsub_leave(struct resp_conn *conn);
void resp_pubsub_deliver(struct service *s, uint32_t tenant, struct slice name,
                         struct slice message);
uint64_t resp_pubsub_receivers(struct service *s, uint32_t tenant, struct slice channel,
                               bool is_shard);

/* script.c */
void resp_script_close(struct service *s);
struct resp_script_work {
    uint64_t busy_us;
    uint64_t steps;
};
/* Used by scripts since start. */
struct resp_script_work resp_script_work(const struct service *s);
/* Scripts used up one turn's limit since `before`. */
bool resp_script_turn_is_over(const struct service *s, struct resp_script_work before);
void resp_script_stats(const struct service *s, struct service_stats *out);
struct resp_script_cache {
    uint32_t count;
    size_t bytes;
};
struct resp_script_cache resp_script_cache(const struct service *s);

#define RESP_LOCAL_HANDLER(name) \
    void name(struct resp_conn *conn, const struct slice *args, uint32_t count)
RESP_LOCAL_HANDLER(resp_hello);
RESP_LOCAL_HANDLER(resp_auth);
RESP_LOCAL_HANDLER(resp_client);
RESP_LOCAL_HANDLER(resp_command);
RESP_LOCAL_HANDLER(resp_config);
RESP_LOCAL_HANDLER(resp_discard);
RESP_LOCAL_HANDLER(resp_echo);
RESP_LOCAL_HANDLER(resp_info);
RESP_LOCAL_HANDLER(resp_multi);
RESP_LOCAL_HANDLER(resp_ping);
RESP_LOCAL_HANDLER(resp_quit);
RESP_LOCAL_HANDLER(resp_reset);
RESP_LOCAL_HANDLER(resp_script);
RESP_LOCAL_HANDLER(resp_select);
RESP_LOCAL_HANDLER(resp_subscribe);
RESP_LOCAL_HANDLER(resp_unsubscribe);
RESP_LOCAL_HANDLER(resp_psubscribe);
RESP_LOCAL_HANDLER(resp_punsubscribe);
RESP_LOCAL_HANDLER(resp_ssubscribe);
RESP_LOCAL_HANDLER(resp_sunsubscribe);
RESP_LOCAL_HANDLER(resp_pubsub);
RESP_LOCAL_HANDLER(resp_time);
RESP_LOCAL_HANDLER(resp_monitor);
RESP_LOCAL_HANDLER(resp_role);
RESP_LOCAL_HANDLER(resp_unwatch);
RESP_LOCAL_HANDLER(resp_wait);

#define RESP_KEY_HANDLER(name)                                              \
    void name(struct keyspace *k, const struct slice *args, uint32_t count, \
              const struct key_sink *to)
RESP_KEY_HANDLER(key_acquire);
RESP_KEY_HANDLER(key_set);
RESP_KEY_HANDLER(key_setnx);
RESP_KEY_HANDLER(key_setex);
RESP_KEY_HANDLER(key_get);
RESP_KEY_HANDLER(key_getdel);
RESP_KEY_HANDLER(key_getex);
RESP_KEY_HANDLER(key_getrange);
RESP_KEY_HANDLER(key_getset);
RESP_KEY_HANDLER(key_mget);
RESP_KEY_HANDLER(key_mset);
RESP_KEY_HANDLER(key_msetnx);
RESP_KEY_HANDLER(key_strlen);
RESP_KEY_HANDLER(key_del);
RESP_KEY_HANDLER(key_exec);
RESP_KEY_HANDLER(key_eval);
RESP_KEY_HANDLER(key_exists);
RESP_KEY_HANDLER(key_flush);
RESP_KEY_HANDLER(key_ttl);
RESP_KEY_HANDLER(key_expire);
RESP_KEY_HANDLER(key_persist);
RESP_KEY_HANDLER(key_incr);
RESP_KEY_HANDLER(key_type);
RESP_KEY_HANDLER(key_scan);
RESP_KEY_HANDLER(key_dbsize);
RESP_KEY_HANDLER(key_token);
RESP_KEY_HANDLER(key_publish);
RESP_KEY_HANDLER(key_hset);
RESP_KEY_HANDLER(key_hget);
RESP_KEY_HANDLER(key_hmget);
RESP_KEY_HANDLER(key_hgetall);
RESP_KEY_HANDLER(key_hexists);
RESP_KEY_HANDLER(key_hlen);
RESP_KEY_HANDLER(key_hincrby);
RESP_KEY_HANDLER(key_hdel);
RESP_KEY_HANDLER(key_hsetnx);
RESP_KEY_HANDLER(key_keys);
RESP_KEY_HANDLER(key_time);
RESP_KEY_HANDLER(key_watch);
RESP_KEY_HANDLER(key_blmove);
RESP_KEY_HANDLER(key_blpop);
RESP_KEY_HANDLER(key_lindex);
RESP_KEY_HANDLER(key_linsert);
RESP_KEY_HANDLER(key_llen);
RESP_KEY_HANDLER(key_lmove);
RESP_KEY_HANDLER(key_lrange);
RESP_KEY_HANDLER(key_lrem);
RESP_KEY_HANDLER(key_lset);
RESP_KEY_HANDLER(key_ltrim);
RESP_KEY_HANDLER(key_pop);
RESP_KEY_HANDLER(key_push);
RESP_KEY_HANDLER(key_rpoplpush);
RESP_KEY_HANDLER(key_sadd);
RESP_KEY_HANDLER(key_scard);
RESP_KEY_HANDLER(key_sismember);
RESP_KEY_HANDLER(key_smembers);
RESP_KEY_HANDLER(key_srem);
RESP_KEY_HANDLER(key_sscan);
RESP_KEY_HANDLER(key_zadd);
RESP_KEY_HANDLER(key_zcard);
RESP_KEY_HANDLER(key_zcount);
RESP_KEY_HANDLER(key_zincrby);
RESP_KEY_HANDLER(key_zpop);
RESP_KEY_HANDLER(key_zrange);
RESP_KEY_HANDLER(key_zrank);
RESP_KEY_HANDLER(key_zrem);
RESP_KEY_HANDLER(key_zremrange);
RESP_KEY_HANDLER(key_zscore);

#endif
