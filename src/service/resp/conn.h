/* One connection of the Redis protocol in memory: what resp_*.c share.
 *
 *            SET NX                  READ                        CHANGE
 *   ACQUIRING ◀───── IDLE ──────────────▶ READING     IDLE ────────────────▶ TRANSACTING
 *       │ more SET NX ▲ all are answered     │ barrier  ▲                        │ runs, is
 * submitted, └─────────────┘ ◀────────────────────┘          └── answered ────────────┘ conflict:
 * again
 *
 * Acquires of one connection are on their way together, since the log keeps their order. Anything
 * else begins only when all before it is answered, so a client always sees what it did itself, and
 * answers are in the order of the requests. What has not begun lies in the input. */
#ifndef HOLDFAST_SERVICE_RESP_CONN_H
#define HOLDFAST_SERVICE_RESP_CONN_H

#include "service/resp/api.h"
#include "service/resp/commands.h"
#include "service/resp/keyspace_state.h"
#include "service/state.h"
#include "wire/resp.h"

/* What clients are told that we speak: a Redis of that version, as far as it goes. */
#define RESP_REDIS_VERSION "7.0.0"

enum {
    RESP_INPUT_SOFT = 64 << 10, /* more is not asked for while a request is worked on */
    RESP_INPUT_MAX = (int)LIMIT_RESP_REQUEST + 2 * (int)RESP_CONN_READ,
    RESP_OUTPUT_SOFT =
        256 << 10, /* no further request is begun while so much waits to be written */
    RESP_OUTPUT_MAX = 4 << 20,
    RESP_BUFFER_KEPT = 1 << 10, /* of either buffer, between two requests */
    RESP_REPLY_MAX = 1 << 20,   /* bytes of one answer of a command or script that changes */
    RESP_MULTI_MAX = 64 << 10,  /* bytes of the commands between MULTI and EXEC */
    RESP_PUSH_MAX = 1 << 20,    /* bytes that a subscriber may leave unread before it is dropped */
    RESP_ACQUIRES = 1024,       /* of one connection, on their way */
    RESP_ATTEMPTS = 8,          /* of a transaction (issue: then -TRYAGAIN) */
    RESP_PENDING_MS = 5000,     /* until a transaction that does not get its turn is given up */
    RESP_NAME_MAX = 100,        /* bytes of CLIENT SETNAME */
    RESP_IDLE_MS = 3600000,
};

enum resp_mode { RESP_MODE_IDLE, RESP_MODE_ACQUIRING, RESP_MODE_READING, RESP_MODE_TRANSACTING };
enum resp_clock { RESP_CLOCK_NONE, RESP_CLOCK_IDLE, RESP_CLOCK_TRANSFER };

/* The request that is worked on, or waits for its turn: where its words lie in the input. */
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
    bool is_ended;   /* no more input comes */
    bool is_closing; /* nothing more is begun; the end follows the output */
    bool is_authenticated;
    int protocol;
    uint64_t id;
    uint64_t source;   /* see gateway_call */
    uint64_t since_ms; /* boot time: when the clock started */
    uint64_t born_ms;
    uint64_t heard_ms;
    struct buffer in;
    struct buffer out;
    struct resp_parser *parser; /* of a request that comes in pieces; NULL: of none */
    const char *broken;         /* what is wrong with the input; told when all before is answered */

    const struct resp_command *command; /* of the request at the front; NULL: there is no such */
    const struct resp_command *last;    /* for CLIENT LIST */
    struct resp_kept *kept;             /* NULL: it has not been read yet */
    size_t taken;                       /* its bytes in the input */
    size_t covered;                     /* READING: bytes of input that the barrier is for */
    size_t fresh;                       /* bytes of input whose reads need no further barrier */
    struct pending_request *awaited;    /* READING, TRANSACTING */

    struct list acquires; /* in order */
    uint32_t acquire_count;

    struct buffer reply; /* of a transaction that is not confirmed yet */
    uint32_t attempts;
    bool needs_barrier;  /* before it is run again */
    uint64_t busy_index; /* the state's, plus one, at which another run was changing its keys */
    uint64_t give_up_ms; /* boot time */
    struct list pending; /* in shared.pending */

    uint64_t written; /* bytes, ever */
    struct list unwritten;

    bool is_multi;     /* between MULTI and EXEC; resp_multi.c */
    bool multi_failed; /* ... and something was wrong, so EXEC does nothing */
    uint32_t multi_count;
    struct buffer multi; /* the commands that wait for EXEC */

    struct list channels; /* subscriptions; resp_pubsub.c */
    struct list patterns;
    uint32_t channel_count;
    uint32_t pattern_count;

    char address[RESP_ADDRESS_MAX + 1];
    char name[RESP_NAME_MAX + 1]; /* CLIENT SETNAME */
    char lib_name[RESP_NAME_MAX + 1];
    char lib_ver[RESP_NAME_MAX + 1];
    char client[LIMIT_CLIENT + 1]; /* who holds what it takes */
    size_t client_len;

    struct list link;     /* in shared.conns */
    struct list ready;    /* in shared.ready */
    struct list deadline; /* in shared.idle or shared.transfers */
};

/* What all connections of a service share. */
struct resp_shared {
    struct list conns;
    uint64_t conn_count;
    struct list ready;
    struct list transfers; /* in the middle of a request, or of the last answer */
    struct list idle;
    struct list pending;   /* transactions that are to be run */
    struct pool pool;      /* acquires and subscriptions */
    uint64_t hash_key;     /* of channels */
    struct table channels; /* subscriptions by channel */
    struct list patterns;  /* ... to patterns */
    uint32_t pattern_count;
    struct keyspace keyspace;      /* of the run that is going on */
    struct script_engine *scripts; /* NULL: none has come yet */
    bool is_behind;                /* scripts took long, and some transactions had to wait */
    struct resp_parser parser;
    struct slice args[LIMIT_RESP_ARGUMENTS]; /* the words of the request that is looked at */
    uint32_t arg_count;
    uint64_t born_ms; /* boot time */
    uint64_t ids;
    uint64_t connections;     /* ever */
    uint64_t commands;        /* ever */
    uint64_t errors;          /* answers that were errors */
    uint64_t conflicts;       /* transactions that were run again */
    uint64_t dropped;         /* subscribers that were too slow */
    uint64_t published;       /* messages that came by */
    char expire_problem[192]; /* the answer to a TTL out of range, with the range */
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
    return conn->channel_count + conn->pattern_count > 0;
}

/* resp_conn.c */
void resp_conn_mark_ready(struct resp_conn *conn);
void resp_conn_shut(struct resp_conn *conn);
/* "-CODE text" as the answer to the request, and counted. */
void resp_conn_error(struct resp_conn *conn, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The request at the front is answered; the next may begin, in resp_run_all. */
void resp_conn_done(struct resp_conn *conn);
/* The words of the request at the front, in shared.args. */
const struct slice *resp_conn_args(struct resp_conn *conn, uint32_t *count);
/* Its holder's name, after CLIENT SETNAME. */
void resp_conn_name(struct resp_conn *conn);

/* resp_error.c: what the gateway or the core said, as Redis would. */
const char *resp_error_code(enum hf_error error);
void resp_conn_fail(struct resp_conn *conn, enum hf_error error);
void resp_put_error(struct resp_writer *w, enum hf_error error);

/* resp_acquire.c: SET with NX and HF.ACQUIRE, as the acquire that they are. */
struct resp_set {
    struct slice name;
    struct slice value;
    uint32_t ttl_ms;
    uint64_t wait_ms;
    bool gives_token; /* the answer is the fencing token, not OK */
};
/* False: the command in `args` is none, or has a fault, which the general way reports. */
bool resp_is_acquire(const struct resp_conn *conn, const struct slice *args, uint32_t count,
                     struct resp_set *out);
void resp_acquire_begin(struct resp_conn *conn, const struct resp_set *set);
void resp_acquire_abandon_all(struct resp_conn *conn);
/* The client sends nothing more. One that waits for a lock is taken for gone (S7.2). */
void resp_acquire_end(struct resp_conn *conn);

/* resp_set.c: fills in shared.expire_problem. */
void resp_set_open(struct service *s);
/* resp_set.c, resp_token.c: whether a SET, or an HF.ACQUIRE, is a plain acquire without a fault. */
bool resp_set_is_acquire(const struct service *s, const struct slice *args, uint32_t count,
                         struct resp_set *out);
bool resp_token_is_acquire(const struct service *s, const struct slice *args, uint32_t count,
                           struct resp_set *out);

/* resp_hash.c: whether a value of the kind KEY_HASH has this field. */
bool resp_hash_has(struct slice hash, struct slice field);

/* resp_transact.c */
void resp_transact_begin(struct resp_conn *conn);
/* A READ, or anything else that only looks. */
void resp_look(struct resp_conn *conn, const struct slice *args, uint32_t count);
/* A sink that writes onto a connection or into any other buffer; and the writer behind such a one,
 * which every handler that is not called from a script has. */
struct key_sink resp_sink(struct resp_writer *w);
struct resp_writer *resp_sink_writer(const struct key_sink *sink);

/* resp_multi.c: true when the command was kept for EXEC, or refused there. */
bool resp_multi_takes(struct resp_conn *conn, const struct slice *args, uint32_t count);
void resp_multi_end(struct resp_conn *conn);

/* resp_pubsub.c */
void resp_pubsub_open(struct service *s);
void resp_pubsub_close(struct service *s);
void resp_pubsub_leave(struct resp_conn *conn);
void resp_pubsub_deliver(struct service *s, struct slice channel, struct slice message);
uint64_t resp_pubsub_receivers(struct service *s, struct slice channel);

/* resp_script.c */
void resp_script_close(struct service *s);
struct resp_script_work {
    uint64_t busy_us;
    uint64_t steps;
};
/* What scripts have taken so far. */
struct resp_script_work resp_script_work(const struct service *s);
/* Whether scripts have taken all that one turn gives them since then. */
bool resp_script_turn_is_over(const struct service *s, struct resp_script_work before);
void resp_script_stats(const struct service *s, struct service_stats *out);

/* The handlers of the table. */
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
RESP_LOCAL_HANDLER(resp_pubsub);
RESP_LOCAL_HANDLER(resp_time);

#define RESP_KEY_HANDLER(name)                                              \
    void name(struct keyspace *k, const struct slice *args, uint32_t count, \
              const struct key_sink *to)
RESP_KEY_HANDLER(key_acquire);
RESP_KEY_HANDLER(key_set);
RESP_KEY_HANDLER(key_setnx);
RESP_KEY_HANDLER(key_setex);
RESP_KEY_HANDLER(key_get);
RESP_KEY_HANDLER(key_getrange);
RESP_KEY_HANDLER(key_mget);
RESP_KEY_HANDLER(key_mset);
RESP_KEY_HANDLER(key_msetnx);
RESP_KEY_HANDLER(key_strlen);
RESP_KEY_HANDLER(key_del);
RESP_KEY_HANDLER(key_exec);
RESP_KEY_HANDLER(key_eval);
RESP_KEY_HANDLER(key_exists);
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

#endif
