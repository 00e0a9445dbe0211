/* The limit of the state in bytes (S12.14): which commands a leader refuses before it proposes
 * them.
 *
 * Only the leader decides, never the state machine: members may have different limits, and all of
 * them apply the log in the same way. So the state may be above the limit, after a start with a
 * lower limit or because of commands that always pass. Then it only shrinks until it is below the
 * limit.
 *
 *      adds nothing ─────────────────────────────────────────────▶ HF_OK
 *      fits, with what is proposed and not yet applied ──────────▶ HF_OK
 *      does not fit, something that adds is not yet applied ─────▶ HF_BUSY, check it again
 *      does not fit, repeats an earlier answer ──────────────────▶ HF_OK
 *      does not fit ─────────────────────────────────────────────▶ HF_STATE_FULL
 *
 * HF_BUSY is checked before HF_STATE_FULL: a retry must not be answered with "nothing was done"
 * while the first attempt is in flight. While the state is full no command that adds is proposed,
 * so HF_BUSY ends soon. */
#ifndef HOLDFAST_REPLICA_ADMISSION_H
#define HOLDFAST_REPLICA_ADMISSION_H

#include "core/core.h"

struct admission {
    uint64_t max;     /* bytes of both tiers together; 0: no limit */
    uint64_t pending; /* bytes that proposed commands may add, not applied yet; the caller counts */
    uint64_t refused; /* commands, since the start; the caller counts */
    /* Commands that add at most this much in total are admitted without computing the bytes again,
     * which is the fast path. The caller sets it to 0 from time to time, and when `max` changes. */
    uint64_t space;
};

/* The warning begins at the first share of the limit and ends below the second. */
enum { ADMISSION_WARN_PERCENT = 80, ADMISSION_CALM_PERCENT = 70 };

/* An upper estimate of the bytes that the command adds; 0: nothing that counts. It is 0 for
 * releases, renewals, keep-alives, ends of sessions and operators' commands. */
uint64_t admission_adds(const struct command *command);

/* `memory` is the state of the EFFICIENCY tier, NULL: there is none. On HF_OK `adds` is set. */
enum hf_error admission_check(struct admission *a, const struct core *replicated,
                              const struct core *memory, const struct command *command,
                              uint64_t *adds);

/* The bytes of both tiers. */
uint64_t admission_bytes(const struct core *replicated, const struct core *memory);

/* Whether the warning is active now, given whether it was active `before`. */
bool admission_warns(const struct admission *a, uint64_t bytes, bool before);

#endif
