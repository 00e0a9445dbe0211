/* The quotas of tenants (S15) at the node that enforces them: the leader for commands
 * (replica/admission.h), each node for its reads and watches (service/auth/quota.c).
 *
 * The state machine counts what a tenant has (core_tenant_usage). The book has what it does not:
 * what commands that were proposed and not yet applied may add, and the requests of the last
 * second. It has an entry for each tenant with a quota that sent something. */
#ifndef HOLDFAST_REPLICA_QUOTA_H
#define HOLDFAST_REPLICA_QUOTA_H

#include "base/memory.h"
#include "base/rate.h"
#include "core/policy.h"

/* In the order of QUOTA_LIST. */
enum quota {
    QUOTA_LOCKS,
    QUOTA_SESSIONS,
    QUOTA_WAITERS,
    QUOTA_WATCHERS,
    QUOTA_STATE_BYTES,
    QUOTA_REQUESTS_PER_SECOND,
    QUOTA_COUNT
};

/* "locks", ... as in a policy document. */
const char *quota_name(enum quota quota);
uint64_t quota_of(const struct quotas *quotas, enum quota quota);
/* Whether some quota is set. */
bool quotas_limit(const struct quotas *quotas);

/* What a command may add at most. */
struct quota_use {
    bool is_counted; /* locks to bytes count until the command is applied */
    uint32_t tenant;
    uint32_t locks; /* names, and counters of the Redis protocol */
    uint32_t sessions;
    uint32_t waiters;
    uint64_t bytes;
    uint64_t rate; /* the quota requests_per_second of which it takes a token; 0: none */
};

static inline bool quota_use_is_nothing(const struct quota_use *use)
{
    return use->locks == 0 && use->sessions == 0 && use->waiters == 0 && use->bytes == 0;
}
/* `sum` gets the tenant of `use`, and no rate. */
void quota_use_add(struct quota_use *sum, const struct quota_use *use);

/* Of a result with HF_QUOTA: `count` is the enum quota, `highest` its value, `ttl_ms` the time after
 * which it is worth trying again. */
struct quota_refusal {
    enum quota quota;
    uint64_t limit;
    uint64_t retry_ms;
};

enum { QUOTA_RETRY_MS = 1000 }; /* of a quota that only the tenant can free */

struct quota_tenant {
    struct quota_tenant *next; /* in its bucket of the index */
    uint32_t number;
    uint32_t watchers;          /* open at this node */
    struct quota_use in_flight; /* proposed, not yet applied */
    struct rate_bucket requests;
    uint64_t refused[QUOTA_COUNT];
};

struct quota_book;

/* The caller owns it; quota_book_free takes NULL. */
struct quota_book *quota_book_new(const struct memory *memory);
void quota_book_free(struct quota_book *book);
/* Makes the entry. */
struct quota_tenant *quota_tenant_get(struct quota_book *book, uint32_t number);
/* NULL: no entry. */
const struct quota_tenant *quota_tenant_find(const struct quota_book *book, uint32_t number);
/* Removes the entries of tenants without quotas, and of removed ones. */
void quota_book_prune(struct quota_book *book, const struct policy *policy);

/* `bytes`: what the command adds to the state at most (admission_adds).
 *
 * HF_OK: `use` is set. HF_QUOTA: `refusal` is set; nothing that is in flight can change that.
 * HF_BUSY: the outcome of a command of this tenant in flight decides it, check it again. */
enum hf_error quota_check(struct quota_book *book, const struct core *replicated,
                          const struct core *memory, const struct command *command, uint64_t bytes,
                          uint64_t now_us, struct quota_use *use, struct quota_refusal *refusal);
/* The checked command is proposed, or done at once: takes its token of requests_per_second. */
void quota_take(struct quota_book *book, const struct quota_use *use, uint64_t now_us);
/* Adds it to what is in flight, or removes it. */
void quota_propose(struct quota_book *book, const struct quota_use *use);
void quota_settle(struct quota_book *book, const struct quota_use *use);

#endif
