/* The limit of the state in bytes (S12.14) and the quotas of tenants (S15): which commands a leader
 * refuses before it proposes them.
 *
 * Only the leader decides, never the state machine: limits may differ between members, and all
 * apply the same log. A state above the limit (lowered, or by commands that always pass) only
 * shrinks until it is below.
 *
 *      adds nothing ─────────────────────────────────────────────▶ HF_OK
 *      fits, with what is proposed and not yet applied ──────────▶ HF_OK
 *      does not fit, something that adds is not yet applied ─────▶ HF_BUSY, check it again
 *      does not fit, repeats an earlier answer ──────────────────▶ HF_OK
 *      does not fit ─────────────────────────────────────────────▶ HF_STATE_FULL
 *
 * The same holds for each quota of a tenant, with what this tenant has and what it has in flight:
 * HF_BUSY with `is_tenant_busy`, HF_QUOTA. Other tenants do not wait for it.
 *
 * HF_BUSY comes before HF_STATE_FULL: a retry must not be answered with "nothing was done" while
 * the first attempt is in flight. A full state proposes no command that adds, so HF_BUSY ends
 * soon. */
#ifndef HOLDFAST_REPLICA_ADMISSION_H
#define HOLDFAST_REPLICA_ADMISSION_H

#include "core/core.h"
#include "replica/quota.h"

/* What an admitted command may add; the caller keeps it until the command is applied. */
struct admitted {
    uint64_t bytes;
    struct quota_use quota;
};

struct admission {
    uint64_t max;     /* bytes of both tiers; 0: no limit */
    uint64_t pending; /* bytes that proposed, unapplied commands may add; the caller counts */
    uint64_t refused; /* commands since the start; the caller counts */
    /* Fast path: commands that add at most this much in total are admitted without counting again.
     * The caller sets it to 0 from time to time, and when `max` changes. */
    uint64_t space;
    struct quota_book *quotas; /* NULL: none are enforced */
    /* Of the last check. */
    bool is_tenant_busy;          /* HF_BUSY because of a quota */
    struct quota_refusal refusal; /* HF_QUOTA */
};

/* The warning begins at the first percentage and ends below the second. */
enum { ADMISSION_WARN_PERCENT = 80, ADMISSION_CALM_PERCENT = 70 };

/* Upper estimate in bytes; 0 for releases, renewals, keep-alives, ends of sessions and operators'
 * commands. */
uint64_t admission_adds(const struct command *command);

/* `memory` is the state of the EFFICIENCY tier, or NULL. On HF_OK `adds` is set. */
enum hf_error admission_check(struct admission *a, const struct core *replicated,
                              const struct core *memory, const struct command *command,
                              uint64_t now_us, struct admitted *adds);
/* The admitted command is proposed, or done at once. */
void admission_take(struct admission *a, const struct admitted *adds, uint64_t now_us);
/* The command is proposed; its outcome is known. `sum` is that of all attempts of one call. */
void admission_propose(struct admission *a, const struct admitted *adds, struct admitted *sum);
void admission_settle(struct admission *a, struct admitted *sum);
/* It repeats an earlier answer, or changes what is there without making it longer. */
bool admission_passes(const struct core *replicated, const struct core *memory,
                      const struct command *command);

uint64_t admission_bytes(const struct core *replicated, const struct core *memory);

/* `before`: whether the warning was active. */
bool admission_warns(const struct admission *a, uint64_t bytes, bool before);

#endif
