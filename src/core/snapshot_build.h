/* Building a core from the records of a snapshot, one at a time, trusting none of them. The bytes
 * around the records are the business of snapshot_read.c. */
#ifndef HOLDFAST_CORE_SNAPSHOT_BUILD_H
#define HOLDFAST_CORE_SNAPSHOT_BUILD_H

#include "base/codec.h"
#include "core/keyed.h"
#include "core/snapshot_format.h"

struct builder {
    struct core *c;
    enum record_type last;         /* the type of the last record */
    uint64_t counts[RECORD_COUNT]; /* of the records so far, by type */

    uint8_t sessions_magnitude; /* by the word of the first record */
    uint8_t names_magnitude;
    uint8_t leases_magnitude;

    /* The session whose records come at the moment. */
    ref session;
    uint64_t last_token;
    uint64_t last_ticket;
    ref reply_at;        /* where the last tied reply was found */
    uint32_t open_ties;  /* replies that say WAITING or HOLDING and whose target is to come */
    ref first_part;      /* of the multi-lock whose parts come */
    uint32_t parts_left; /* of it */

    /* Rings that are ordered by number are put together when all sessions are known. */
    bool is_linked;
    struct keyed_list sharers; /* grants of shared locks and semaphores, by token */
    struct keyed_list waiters; /* by ticket */
};

/* The builder fills `c`, which stays the caller's. */
void builder_init(struct builder *b, struct core *c);
void builder_close(struct builder *b);

/* Takes the next record. NULL, or a text that says what is wrong with it; then the core is good for
 * nothing but core_free. */
const char *builder_take(struct builder *b, enum record_type type, struct reader *r);

/* What is wrong with the whole once the end record was taken, or NULL. */
const char *builder_finish(struct builder *b);

/* "grant", "ended_grant", ... */
const char *record_name(enum record_type type);

/* ---- within the builder ---- */

/* Deadlines lie past the largest stamp by no more than the longest TTL or delay. */
#define SNAPSHOT_DEADLINE_END (LIMIT_NUMBER + (UINT64_C(1) << 33))

extern const char undecodable[];

bool is_plain_text(struct slice text, size_t min, size_t max);
bool is_ttl(uint64_t ttl_ms);
/* Finds or makes a name. NULL, or why the record cannot have it. */
const char *build_name(struct builder *b, uint32_t tenant, struct slice name, uint64_t mode,
                       uint64_t limit, ref *out);
/* Makes sure of the lock's extra. */
const char *build_extra(struct builder *b, ref lock, struct lock_extra **out);
void read_answer(struct reader *r, struct request *out);
const char *check_answer(const struct request *answer);
/* Makes a request by id. One that is not done is put into its table. */
const char *build_request(struct builder *b, const struct request *fields, struct slice scope,
                          struct slice id, ref *out);

/* snapshot_memory.c: requests by id, ends, fence marks, audit, counters, transactions. */
const char *build_done_request(struct builder *b, struct reader *r);
const char *build_drawn_request(struct builder *b, struct reader *r);
const char *build_operator_request(struct builder *b, struct reader *r);
const char *build_ended_grant(struct builder *b, struct reader *r);
const char *build_ended_session(struct builder *b, struct reader *r);
const char *build_fence(struct builder *b, struct reader *r);
const char *build_audit(struct builder *b, struct reader *r);
const char *build_counter(struct builder *b, struct reader *r);
const char *build_transact(struct builder *b, struct reader *r);

/* snapshot_session.c, snapshot_grant.c, snapshot_waiter.c: sessions and what they own. */
const char *build_session(struct builder *b, struct reader *r);
const char *build_reply(struct builder *b, struct reader *r);
const char *build_grant(struct builder *b, struct reader *r);
const char *build_part(struct builder *b, struct reader *r);
const char *build_waiter(struct builder *b, struct reader *r);
/* What is wrong with a session whose records have all come, or NULL. */
const char *session_complete(struct builder *b);
/* Counts names that the session at hand holds or waits for. */
const char *count_entries(struct builder *b, uint32_t entries, bool is_new);

/* How a waiter or a grant names the request that it answers. */
struct tie {
    unsigned kind;
    struct slice id;
    uint64_t digest;
    uint64_t seq;
};

struct tie read_tie(struct reader *r, unsigned kind);
/* Ties the request to its waiter or grant, which is to point to `*out`. */
const char *build_tie(struct builder *b, const struct tie *tie, enum request_state state,
                      ref target, ref *out);

static inline struct session *current(const struct builder *b)
{
    return session_at(b->c, b->session);
}

static inline bool is_past(const struct builder *b, uint64_t time_ms)
{
    return time_ms <= b->c->now_ms;
}

static inline bool is_deadline(uint64_t time_ms)
{
    return time_ms != 0 && time_ms < SNAPSHOT_DEADLINE_END;
}

static inline bool is_id_taken(const struct core *c, struct id id)
{
    return session_find(c, id) != 0 || lease_find(c, id) != 0;
}

#endif
