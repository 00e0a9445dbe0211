/* The tokens that clients believe to hold, compared with those that their sessions hold in both tiers (S4.8).
 *
 * Only the leader knows the tier EFFICIENCY. So a query goes to it with the keep-alive (gateway_call.look),
 * and it compares the count and the XOR when it has applied the keep-alive. */
#ifndef HOLDFAST_SERVICE_REQUEST_SESSION_CHECK_H
#define HOLDFAST_SERVICE_REQUEST_SESSION_CHECK_H

#include "base/buffer.h"
#include "core/view.h"
#include "service/request/leader_query.h"

/* In one query; the query and its answer in bytes, at most. */
enum { SESSION_CHECKS_MAX = 4096, SESSION_CHECK_BYTES = 32 };
#define SESSION_CHECKS_BYTES(count) (16 + (size_t)(count)*SESSION_CHECK_BYTES)

struct session_check {
    struct id session;
    struct token_sum tokens;
};

/* One byte of the answer. UNKNOWN: the leader does not serve the tier EFFICIENCY now. */
enum session_check_outcome { SESSION_SAME, SESSION_DIFFERS, SESSION_UNKNOWN, SESSION_OUTCOMES };

/* The beginning of a query of `count` checks; they follow. */
void session_checks_begin(struct writer *w, uint32_t version, uint32_t count);
void session_checks_put(struct writer *w, const struct session_check *check);

/* On the leader: appends the answer. `memory`: the state of EFFICIENCY; NULL: not known. False: malformed. */
bool session_checks_answer(const struct core *core, const struct core *memory, struct slice query,
                           struct buffer *out);

/* One session_check_outcome for each check, in their order. Empty if there is no answer: an older leader. */
struct slice session_checks_read(struct slice answer, uint32_t count);

#endif
