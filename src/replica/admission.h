/* The limit of the state in bytes (S12.14): which commands a leader refuses before it proposes them.
 *
 * The decision is the leader's, never the state machine's: members may have different limits, and
 * what is in the log is applied by all of them alike. So a state may be above the limit, after a
 * start with a lower one or by commands that always pass; it then only shrinks, until it is below.
 *
 *      adds nothing ─────────────────────────────────────────────▶ HF_OK
 *      fits, with what is proposed and not yet applied ──────────▶ HF_OK
 *      does not fit, something that adds is not yet applied ─────▶ HF_BUSY, judge it again
 *      does not fit, repeats an earlier answer ──────────────────▶ HF_OK
 *      does not fit ─────────────────────────────────────────────▶ HF_STATE_FULL
 *
 * HF_BUSY comes before HF_STATE_FULL since a retry must not hear that nothing was done while the
 * first try is in flight. While the state is full nothing that adds is proposed, so it ends soon. */
#ifndef HOLDFAST_REPLICA_ADMISSION_H
#define HOLDFAST_REPLICA_ADMISSION_H

#include "core/core.h"

struct admission {
    uint64_t max;     /* bytes of both tiers together; 0: no limit */
    uint64_t pending; /* bytes that proposed commands may add, not applied yet; the caller counts */
    uint64_t refused; /* commands, since the start; the caller counts */
    /* Commands that add so much are admitted before the bytes are looked at again: this is all that
     * most of them pay. The caller sets it to 0 from time to time, and when `max` changes. */
    uint64_t room;
};

/* A warning at this share of the limit, which ends at the lower one. */
enum { ADMISSION_WARN_PERCENT = 80, ADMISSION_CALM_PERCENT = 70 };

/* What the command may add at most, about; 0: nothing that counts. Releases, renewals, keep-alives,
 * the end of sessions and operators' commands have 0. */
uint64_t admission_adds(const struct command *command);

/* `memory` is the state of the tier EFFICIENCY, NULL: there is none. On HF_OK `adds` is set. */
enum hf_error admission_judge(struct admission *a, const struct core *replicated,
                              const struct core *memory, const struct command *command,
                              uint64_t *adds);

/* Of both tiers. */
uint64_t admission_bytes(const struct core *replicated, const struct core *memory);

/* Whether the warning stands now, if it stood `before`. */
bool admission_warns(const struct admission *a, uint64_t bytes, bool before);

#endif
