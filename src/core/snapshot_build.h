/* Builds a core from the records of a snapshot, one at a time, and validates each of them.
 * snapshot_read.c handles the framing of the records. */
#ifndef HOLDFAST_CORE_SNAPSHOT_BUILD_H
#define HOLDFAST_CORE_SNAPSHOT_BUILD_H

#include "core/keyed.h"
#include "core/snapshot_record.h"

struct builder {
    struct core *c;
    enum record_type last;         /* the type of the last record */
    uint64_t counts[RECORD_COUNT]; /* number of records so far, by type */

    uint8_t sessions_magnitude; /* as announced by the first record */
    uint8_t names_magnitude;
    uint8_t leases_magnitude;

    /* The session whose records are being read. */
    ref session;
    uint64_t last_token;
    uint64_t last_ticket;
    ref reply_at;        /* where the last tied reply was found */
    uint32_t open_ties;  /* replies in WAITING or HOLDING whose target has not been read yet */
    ref first_part;      /* of the multi-lock whose parts are being read */
    uint32_t parts_left; /* parts of it still to be read */

    /* Rings that are ordered by number are linked when all sessions have been read. */
    bool is_linked;
    struct keyed_list sharers; /* grants of shared locks and semaphores, by token */
    struct keyed_list waiters; /* by ticket */
};

/* The builder fills `c`; the caller keeps its ownership. */
void builder_init(struct builder *b, struct core *c);
void builder_close(struct builder *b);

/* Processes the next record. NULL, or a text that describes what is wrong with it; the core may
 * then only be passed to core_free. */
const char *builder_take(struct builder *b, enum record_type type, struct reader *r);

/* NULL, or what is wrong with the whole; call it after the end record. */
const char *builder_finish(struct builder *b);

/* "grant", "ended_grant", ... */
const char *record_name(enum record_type type);

/* ---- within the builder ---- */

/* Deadlines exceed the largest stamp by at most the longest TTL or delay. */
#define SNAPSHOT_DEADLINE_END (LIMIT_NUMBER + (UINT64_C(1) << 33))

extern const char undecodable[];

bool is_plain_text(struct slice text, size_t min, size_t max);
bool is_ttl(uint64_t ttl_ms);
/* Finds or creates a name. NULL, or why the record cannot have it. */
const char *build_name(struct builder *b, uint32_t tenant, struct slice name, uint64_t mode,
                       uint64_t limit, ref *out);
/* Creates the lock's extra unless it exists. */
const char *build_extra(struct builder *b, ref lock, struct lock_extra **out);
void read_answer(struct reader *r, struct request *out);
const char *check_answer(const struct request *answer);
/* Creates a request by id. One that is not done is added to its table. */
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
/* NULL, or what is wrong with a session whose records have all been read. */
const char *session_complete(struct builder *b);
/* Counts names that the current session holds or waits for. */
const char *count_entries(struct builder *b, uint32_t entries, bool is_new);

/* Links the request with its waiter or grant; `*out` becomes the request. */
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
