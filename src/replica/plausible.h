/* Refuses messages of members that cannot be true (S12.11). libraft would accept any term and time
 * permanently, and ends the process when entries contradict committed ones. Decision 23 has the
 * reasons.
 *
 * Term: at most the term at the start of this process, plus TERM_SLACK, plus one for each elapsed
 * millisecond.
 *
 * Cluster time: a leader's cluster time minus our boot time is nearly constant (S1.3, S1.6).
 * `line_ms` is that difference. A time above the line by more than TIME_SLACK_MS is refused. The
 * line follows the highest difference of each window of WINDOW_MS: down by at most FALL_MS a
 * window, up by the drift of S1.6. So one late message does not lower it much, and a false time
 * does not raise it.
 *
 *      refused
 *      ──────────────────────── line + TIME_SLACK_MS
 *      accepted
 *      ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─  line: the leader's clock
 *      accepted
 *
 * There is no line after the start, and after FORGET_MS without a message of a leader: a suspended
 * machine counts no time. Then any time up to TIME_MOST_MS is accepted for SETTLE_MS, and the
 * highest begins a new line. */
#ifndef HOLDFAST_REPLICA_PLAUSIBLE_H
#define HOLDFAST_REPLICA_PLAUSIBLE_H

#include "replica/message.h"

struct engine;

#define PLAUSIBLE_TEXT 240

struct plausible {
    uint64_t start_term;
    uint64_t start_ms;

    bool has_line;
    int64_t line_ms; /* cluster time minus boot time */
    int64_t best_ms; /* the highest of the window */
    bool has_best;
    uint64_t since_ms;  /* when the line began */
    uint64_t window_ms; /* when the window began */
    uint64_t heard_ms;  /* when a leader's time was last accepted */

    char refusal[PLAUSIBLE_TEXT];
};

void plausible_init(struct plausible *p, uint64_t term, uint64_t now_ms);

/* NULL: plausible. Else a sentence that names the sender, valid until the next call. `e` has its
 * present cluster time. */
const char *plausible_check(struct plausible *p, const struct engine *e,
                            const struct message_in *in, uint64_t now_ms);

#endif
