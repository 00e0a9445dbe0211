/* The busiest prefixes of lock names, from the leader's memory: GET /api/v1/hot. */
#ifndef HOLDFAST_SERVICE_REQUEST_LEADER_HOT_H
#define HOLDFAST_SERVICE_REQUEST_LEADER_HOT_H

#include "base/buffer.h"
#include "core/field.h"
#include "core/policy.h"
#include "service/request/leader_query.h"

/* What is added up for a prefix. */
#define HOT_BY_LIST(X)                                                            \
    X(CONTENTION, "contention") /* acquires that found the lock taken */          \
    X(HOLD, "hold")             /* time held, at the end of each hold */          \
    X(WAIT, "wait")             /* time waited in queues, at the end of a wait */ \
    X(RATE, "rate")             /* acquires */

enum hot_by {
#define X(symbol, word) HOT_##symbol,
    HOT_BY_LIST(X)
#undef X
        HOT_BY_COUNT
};

enum {
    HOT_PREFIX_MAX = 96,
    HOT_ROWS_MAX = 100,
    HOT_EVENT = 1000, /* weight of one acquire; times weigh 1 for each us */
};

/* weight: at least the true one. error: by how much it may be too large. */
struct hot_row {
    uint32_t tenant;
    uint32_t prefix_len;
    uint64_t weight;
    uint64_t error;
    char prefix[HOT_PREFIX_MAX];
};

/* window_us: how long the weights were added up, older time counting less. since_wall_ms: when this
 * leader began. total: of all prefixes. */
#define LEADER_HOT_FIELDS(F)                  \
    F(NOW, 7, u64, node, UINT64_MAX)          \
    F(NOW, 7, u64, term, UINT64_MAX)          \
    F(NOW, 7, u64, since_wall_ms, UINT64_MAX) \
    F(NOW, 7, u64, window_us, UINT64_MAX)     \
    F(NOW, 7, u32, by, HOT_BY_COUNT - 1)      \
    F(NOW, 7, u64, total, UINT64_MAX)         \
    F(NOW, 7, u32, count, HOT_ROWS_MAX)

struct leader_hot {
    LEADER_HOT_FIELDS(FIELD_MEMBER)
    struct hot_row rows[HOT_ROWS_MAX]; /* by falling weight */
};

enum { LEADER_HOT_QUERY = LEADER_QUERY_HEAD + 2 };
size_t leader_hot_query(enum hot_by by, uint32_t limit, uint8_t at[LEADER_HOT_QUERY]);
/* On the leader. False: malformed. */
bool leader_hot_requested(struct slice query, enum hot_by *by, uint32_t *limit);
bool leader_hot_answer(const struct leader_hot *hot, struct slice query, struct buffer *out);
/* On any node. False: the leader's program has no such figures, or the answer is malformed. */
bool leader_hot_read(struct slice answer, struct leader_hot *out);

const char *hot_by_name(enum hot_by by);
/* Acquires, or seconds, in each second. `weight`: of a row, or the total. */
double hot_per_second(const struct leader_hot *hot, uint64_t weight);
/* The name of its tenant; of a removed one the number, in `text`. */
enum { HOT_TENANT_TEXT = 24 };
struct slice hot_tenant(const struct policy *policy, const struct hot_row *row,
                        char text[HOT_TENANT_TEXT]);
/* Of the total. */
double hot_share(const struct leader_hot *hot, const struct hot_row *row);

#endif
