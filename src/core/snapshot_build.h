/* Builds a core from the records of a snapshot and validates each. snapshot_read.c has the
 * framing. */
#ifndef HOLDFAST_CORE_SNAPSHOT_BUILD_H
#define HOLDFAST_CORE_SNAPSHOT_BUILD_H

#include "core/keyed.h"
#include "core/snapshot_record.h"

struct builder {
    struct core *c;
    enum record_type last;         /* of the last record */
    uint64_t counts[RECORD_COUNT]; /* records so far, by type */

    uint8_t sessions_magnitude; /* announced by the first record */
    uint8_t names_magnitude;
    uint8_t leases_magnitude;

    /* The session being read. */
    ref session;
    uint64_t last_token;
    uint64_t last_ticket;
    ref reply_at;        /* of the last tied reply */
    uint32_t open_ties;  /* replies WAITING or HOLDING whose target is not read yet */
    ref first_part;      /* of the multi-lock being read */
    uint32_t parts_left; /* still to be read */

    /* Rings ordered by number are linked after all sessions. */
    bool is_linked;
    struct keyed_list sharers; /* of shared locks and semaphores, by token */
    struct keyed_list waiters; /* by ticket */

    enum record_type memory; /* type of the last remembered object, and its tenant */
    uint32_t tenant;
};

/* Fills `c`, which stays the caller's. */
void builder_init(struct builder *b, struct core *c);
void builder_close(struct builder *b);

/* NULL, or what is wrong with the record; then only core_free may be called. */
const char *builder_take(struct builder *b, enum record_type type, struct reader *r);

/* After the end record: NULL, or what is wrong. */
const char *builder_finish(struct builder *b);

const char *record_name(enum record_type type);

/* ---- within the builder ---- */

/* Deadlines exceed the largest stamp by at most the longest TTL or delay. */
#define SNAPSHOT_DEADLINE_END (LIMIT_NUMBER + (UINT64_C(1) << 39))

extern const char undecodable[];

bool is_plain_text(struct slice text, size_t min, size_t max);
bool is_ttl(uint64_t ttl_ms);
bool is_key_ttl(const struct builder *b, uint64_t ttl_ms); /* in this version */
/* Finds or creates a name. NULL, or why the record cannot have it. */
const char *build_name(struct builder *b, uint32_t tenant, struct slice name, uint64_t mode,
                       uint64_t limit, ref *out);
const char *build_extra(struct builder *b, ref lock, struct lock_extra **out);
void read_answer(struct reader *r, struct request *out);
const char *check_answer(const struct request *answer);
/* Creates a request by id; adds it to its table unless it is done. */
const char *build_request(struct builder *b, const struct request *fields, struct slice scope,
                          struct slice id, ref *out);

/* snapshot_memory.c */
const char *build_done_request(struct builder *b, struct reader *r);
const char *build_drawn_request(struct builder *b, struct reader *r);
const char *build_operator_request(struct builder *b, struct reader *r);
const char *build_ended_grant(struct builder *b, struct reader *r);
const char *build_ended_session(struct builder *b, struct reader *r);
const char *build_fence(struct builder *b, struct reader *r);
const char *build_audit(struct builder *b, struct reader *r);
const char *build_counter(struct builder *b, struct reader *r);
const char *build_transact(struct builder *b, struct reader *r);
const char *build_tenant(struct builder *b, struct reader *r);

/* snapshot_session.c, snapshot_grant.c, snapshot_waiter.c */
const char *build_session(struct builder *b, struct reader *r);
const char *build_reply(struct builder *b, struct reader *r);
const char *build_grant(struct builder *b, struct reader *r);
const char *build_part(struct builder *b, struct reader *r);
const char *build_waiter(struct builder *b, struct reader *r);
/* All its records are read: NULL, or what is wrong. */
const char *session_complete(struct builder *b);
/* Counts names held or waited for by the session. */
const char *count_entries(struct builder *b, uint32_t entries, bool is_new);

/* Links request (`*out`) and waiter or grant. */
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
