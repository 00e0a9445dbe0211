/* Memory limit for all client connections together, HTTP and RESP: unfinished requests, unsent
 * answers, HTTP/2 streams.
 *
 * Each connection takes its buffers from its account. Above the limit, conn_budget_enforce closes
 * the connections that hold the most. Until then no connection is read and reads are refused with
 * `busy`, so the sum exceeds the limit by one answer at most. */
#ifndef HOLDFAST_SERVICE_HTTP_CONN_BUDGET_H
#define HOLDFAST_SERVICE_HTTP_CONN_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/memory.h"

struct service;
struct http_conn;

enum {
    /* Bytes of answers in one run, after which no more input is taken: heartbeats would be late. */
    CONN_TURN_BYTES = 4 << 20,
    /* ... after which waiting reads are refused with `busy`. */
    CONN_TURN_MOST = 32 << 20,
    /* Added to an answer's bytes: for a read of the state, and for a page (/metrics). */
    CONN_READ_COST = 4 << 10,
    CONN_PAGE_COST = 64 << 10,
    CONN_CLOSED_AT_ONCE = 64, /* in one run of the service */
};

struct conn_budget {
    size_t max;
    size_t used;
    bool is_due;           /* conn_budget_enforce has work */
    size_t turn_bytes;     /* of answers since the last run */
    uint64_t closed;       /* connections, since start */
    uint64_t reset;        /* stalled HTTP/2 streams, since start */
    struct list held_back; /* connections with input for the next run */
};

/* Embedded in its connection; must not move. */
struct conn_account {
    struct memory memory; /* for its buffers */
    const struct memory *from;
    struct conn_budget *budget;
    size_t used;
};

void conn_budget_open(struct conn_budget *budget, size_t max);

void conn_account_open(struct conn_account *account, struct conn_budget *budget,
                       const struct memory *from);
/* All memory must be freed before. */
void conn_account_close(const struct conn_account *account);
/* Memory not allocated from the account. */
void conn_account_add(struct conn_account *account, size_t bytes);
void conn_account_subtract(struct conn_account *account, size_t bytes);

static inline bool conn_budget_is_over(const struct conn_budget *budget)
{
    return budget->used > budget->max;
}

/* False: the answer may be large; refuse the request with `busy`. */
static inline bool conn_budget_admits_read(const struct conn_budget *budget)
{
    return !conn_budget_is_over(budget) && budget->turn_bytes <= CONN_TURN_MOST;
}

/* Whether input is taken in this turn. If not, `ready` is called in the next run. */
bool conn_budget_takes_input(struct http_conn *conn);

/* For http_conn_run_all. The second enforces the limit; the caller's `ready` closes connections
 * without a last frame in the same run. */
void conn_budget_begin_turn(struct service *s);
void conn_budget_enforce(struct service *s);

#endif
