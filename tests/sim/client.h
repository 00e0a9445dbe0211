/* One client, as the files about clients share it: what it does, what it holds, what it counts on.
 *
 *   clients.c         what a client does next, and what it hears
 *   client_lock.c     acquiring, holding, renewing, releasing, checking the fence
 *   client_tier.c     what is different in the tier EFFICIENCY (S10)
 *   client_operator.c force-unlock and revocation
 *   client_key.c      counters, by transactions
 *   client_put.c      keys, by transactions
 *   client_session.c  sessions and keep-alives; what a client may count on (S5)
 *   calls.c           the way of a request to the leader and back */
#ifndef HOLDFAST_TESTS_SIM_CLIENT_H
#define HOLDFAST_TESTS_SIM_CLIENT_H

#include "calls.h"
#include "history.h"

enum {
    MAIN,
    KEEPALIVE,
    LANES,
    PATIENCE_US = 600000,
    TRIES = 4,
    CHECKED_NAMES = NAMES - 2, /* the others are an operator's alone */
    MULTI_STEP = 3,            /* between the names of a multi-lock */
    HOT_NAMES = 10,            /* half of the requests are for these */
    TAKEN_FIRST = 6,           /* some of which an operator takes away */
    TAKEN_NAMES = 8,
    OPERATOR = CLIENTS,
    COUNTERS = 4,
};

enum doing {
    IDLE,
    REQUESTING,
    WAITING,
    HOLDING,
    RENEWING,
    RELEASING,
    OPENING,
    CLOSING,
    READING,
    CHECKING,
    MEDDLING,
    CHANGING
};

struct sim_hold {
    uint64_t token;
    uint32_t names[3];
    uint32_t count;
    bool shared;
    enum tier tier;
    uint64_t epoch; /* EFFICIENCY: of the leader that granted it */
    uint64_t ttl_ms;
    uint64_t safe_us;  /* may count on it until then; 0: not at all (S5) */
    uint64_t limit_us; /* may not longer, by its max_hold; 0: it has none */
    uint64_t until_us;
};

/* A transaction on its way. */
struct sim_transaction {
    uint64_t number; /* of keys, see keys.h; 0: of counters */
    uint32_t counters[2];
    uint64_t seen[2];
    uint64_t run;     /* its number in `uncommitted` ... */
    int node;         /* ... of this node */
    bool is_built[2]; /* on a change that was not applied yet */
    bool is_older;    /* read before an upgrade, which changes the versions of counters */
    uint32_t count;
    char names[2][16];
    uint8_t checks[128];
    uint8_t effects[256];
};

struct sim_client {
    int id;
    double rate;
    enum doing doing;
    int entry;
    uint32_t entry_life;
    uint64_t attempt[LANES]; /* raised by each step, so that late answers and timers are known */
    struct command command;  /* of the main lane, for the repetition */
    char names[3][16];
    char owner[16];
    char trace[LIMIT_TRACE + 1];
    char request[24];
    char reason[32];
    uint64_t seen_token; /* the operator's: a holder's, at some time */
    uint32_t name;       /* of a read, of a fence check */
    uint64_t call_us;
    uint64_t renewal_us;
    uint32_t tries;
    uint32_t number; /* of requests */
    struct id lease;
    struct sim_hold hold;
    struct sim_transaction change;
    uint64_t old_token;
    uint32_t old_name;
    /* A session, if it uses one. */
    bool in_session;
    struct id session;
    uint64_t session_ttl_ms;
    uint64_t alive_us; /* sending of what last confirmed it */
    uint64_t keepalive_us;
    bool vanished;
    uint64_t seq;
    uint64_t acked;
    uint64_t done;
    uint64_t epoch; /* the highest that it heard of (S10.2) */
};

extern struct sim_client clients[CLIENTS + 1];
extern bool clients_stopping;

/* ---- clients.c ---- */
void client_record_one(uint32_t name, struct history_op op);
/* For each name that it holds or requests. */
void client_record(const struct sim_client *c, struct history_op op);
void client_choose_entry(struct sim_client *c);
void client_begin(struct sim_client *c, enum doing doing, enum command_type type);
void client_submit(struct sim_client *c);
void client_idle(struct sim_client *c, uint64_t in_us);
void client_next_step(struct sim_client *c, uint64_t in_us);
uint64_t client_think_us(void);

/* ---- client_session.c ---- */
uint64_t client_safe_until(const struct sim_client *c, uint64_t from_us, uint64_t ttl_ms);
/* It holds at least until then, by its max_hold, from the sending of its acquire (S16.3). */
uint64_t client_limit_us(const struct sim_client *c, uint64_t max_hold_ms);
uint64_t client_session_safe_us(const struct sim_client *c);
void client_confirm(struct sim_client *c, uint64_t sent_us);
uint64_t client_lease_us(const struct sim_client *c, uint64_t from_us, uint64_t ttl_ms);
void client_keep_alive(struct happening *h);
void client_open_session(struct sim_client *c);
void client_close_session(struct sim_client *c);
void client_session_is_gone(struct sim_client *c);
void client_hear_keepalive(struct sim_client *c, const struct sim_answer *a);

/* ---- client_operator.c ---- */
void client_meddle(struct sim_client *c);
void client_hear_meddling(struct sim_client *c, const struct sim_answer *a);
void client_give_up_meddling(struct sim_client *c);
bool client_may_lose(const struct sim_client *c); /* what it holds, to the operator */

/* ---- client_tier.c ---- */
enum tier client_choose_tier(uint32_t name);
enum tier client_tier(const struct sim_client *c); /* of what it is doing */
/* An answer came: whoever holds something of an older epoch has lost it. */
void client_hear_epoch(struct sim_client *c, const struct sim_answer *a);
bool client_is_lost(const struct sim_client *c);
/* What was reported to it about the lock that it holds. */
void client_check_held(const struct sim_client *c, const struct sim_answer *a, bool held);
void client_wrong_tier(struct sim_client *c);

/* ---- client_key.c ---- */
void client_change(struct sim_client *c);
/* What clients of this node submitted and is not applied yet. */
struct uncommitted *client_uncommitted(int node);
void client_hear_change(struct sim_client *c, const struct sim_answer *a);
void client_give_up_change(struct sim_client *c);
void client_changes_begin(void);
void client_changes_check(void);
void client_changes_end(void);

/* ---- client_put.c ---- */
void client_put(struct sim_client *c, const struct sim_node *n);
void client_hear_put(struct sim_client *c, const struct sim_answer *a);

/* ---- client_lock.c ---- */
void client_acquire(struct sim_client *c);
void client_trace(struct sim_client *c);
void client_hold(struct sim_client *c, const struct sim_answer *a, bool waited);
void client_not_granted(struct sim_client *c, enum reason reason);
void client_give_up_acquire(struct sim_client *c);
uint64_t client_may_last_us(const struct sim_client *c);
void client_hear_acquire(struct sim_client *c, const struct sim_answer *a);
void client_while_holding(struct sim_client *c);
void client_check_fence(struct sim_client *c);
void client_hear_renewal(struct sim_client *c, const struct sim_answer *a);
void client_hear_release(struct sim_client *c, const struct sim_answer *a);
void client_give_up_release(struct sim_client *c);

#endif
