/* How often each thing happened. What is expected is listed here, so that the test cannot lose its
 * teeth unnoticed: something expected that never happened is a failure. */
#include "driver.h"

#include <inttypes.h>

static uint64_t commands[COMMAND_COUNT];
static uint64_t outcomes[COMMAND_COUNT][4][REASON_COUNT];
static uint64_t replays[COMMAND_COUNT];
static uint64_t errors[COMMAND_COUNT][HF_ERROR_COUNT];
static uint64_t ended_answers[ENDED_COUNT];
static uint64_t events[EVENT_COUNT];
static uint64_t wait_ends[REASON_COUNT];
static uint64_t ends[ENDED_COUNT];
static uint64_t extras[EXTRA_COUNT];
static uint32_t most_steps;
static uint32_t most_sweep_steps;

static const char *const extra_names[EXTRA_COUNT] = {
    [EXTRA_BACKLOG] = "commands that met a backlog",
    [EXTRA_WAKE_LEFT] = "hand-overs left to the next command",
    [EXTRA_RESTORED] = "restores from a snapshot",
    [EXTRA_DAMAGED] = "damaged entries refused",
    [EXTRA_UNCHECKED] = "deadlock searches given up",
    [EXTRA_LONG_CYCLE] = "cycles of three or more owners",
    [EXTRA_RESERVED] = "free names kept for a multi-lock",
    [EXTRA_FAR_POSITION] = "positions too far back to tell",
    [EXTRA_MORE] = "force-unlocks that left some",
    [EXTRA_GRANT_WAITED] = "grants after a wait",
    [EXTRA_SLOT] = "semaphore slots above 0",
    [EXTRA_FLOOR] = "fence floors above 0",
    [EXTRA_AUDIT_FULL] = "audit trails that forgot",
    [EXTRA_SESSIONS_FULL] = "memories of sessions that forgot",
    [EXTRA_GRANTS_FULL] = "memories of grants that forgot",
    [EXTRA_REQUESTS_FULL] = "memories of request ids that forgot",
    [EXTRA_DRAWN_FULL] = "memories of drawn request ids that forgot",
    [EXTRA_OPERATORS_FULL] = "memories of operators' request ids that forgot",
    [EXTRA_TRANSACTS_FULL] = "memories of transactions that forgot",
    [EXTRA_TRACED] = "ends of multi-locks with a trace",
    [EXTRA_RECOVERED] = "recoveries of a lost majority",
    [EXTRA_PURGE_LEFT] = "sessions of removed principals left to the next entry",
    [EXTRA_RESCUED] = "rescues",
};

void coverage_steps(uint32_t command, uint32_t sweep)
{
    most_steps = command > most_steps ? command : most_steps;
    most_sweep_steps = sweep > most_sweep_steps ? sweep : most_sweep_steps;
}

void coverage_extra(enum coverage_extra extra)
{
    extras[extra]++;
}

void coverage_result(const struct command *c, const struct result *r)
{
    commands[c->type]++;
    if (r->error != HF_OK) {
        errors[c->type][r->error]++;
        return;
    }
    outcomes[c->type][r->outcome][r->reason]++;
    replays[c->type] += r->replayed;
    ended_answers[r->ended]++;
    extras[EXTRA_UNCHECKED] += r->deadlock_unchecked;
    extras[EXTRA_LONG_CYCLE] += r->cycle_length >= 3;
    extras[EXTRA_RESERVED] += r->reserved_for.len > 0;
    extras[EXTRA_FAR_POSITION] += r->queue_position > LIMIT_POSITION;
    extras[EXTRA_MORE] += r->more;
    extras[EXTRA_SLOT] += r->slot > 0;
    extras[EXTRA_RESCUED] +=
        c->type == COMMAND_POLICY_CHANGE && c->policy_change.origin == POLICY_RESCUE;
}

void coverage_event(const struct event *e)
{
    events[e->type]++;
    if (e->type == EVENT_WAIT_ENDED) {
        wait_ends[e->reason]++;
    }
    if (e->type != EVENT_RENEWAL_FAILED) {
        ends[e->ended]++;
    }
    extras[EXTRA_TRACED] += e->ended != ENDED_NOT && e->parts > 1 && e->trace.len > 0;
    extras[EXTRA_GRANT_WAITED] += e->type == EVENT_GRANTED && e->attachment != 0;
}

static const char *const outcome_names[] = {"done", "granted", "queued", "refused"};

void coverage_print(void)
{
    printf("coverage:\n");
    for (int c = 1; c < COMMAND_COUNT; c++) {
        printf("  %s %" PRIu64 ":", command_name((enum command_type)c), commands[c]);
        for (int o = 0; o < 4; o++) {
            for (int r = 0; r < REASON_COUNT; r++) {
                if (outcomes[c][o][r] > 0) {
                    printf(" %s%s%s=%" PRIu64, outcome_names[o], r > 0 ? "/" : "",
                           r > 0 ? reason_name((enum reason)r) : "", outcomes[c][o][r]);
                }
            }
        }
        if (replays[c] > 0) {
            printf(" (replayed %" PRIu64 ")", replays[c]);
        }
        for (int e = 1; e < HF_ERROR_COUNT; e++) {
            if (errors[c][e] > 0) {
                printf(" %s=%" PRIu64, hf_error_code((enum hf_error)e), errors[c][e]);
            }
        }
        printf("\n");
    }
    printf("  answers about the past:");
    for (int e = 1; e < ENDED_COUNT; e++) {
        printf(" %s=%" PRIu64, ended_name((enum ended)e), ended_answers[e]);
    }
    printf("\n  events:");
    for (int e = 1; e < EVENT_COUNT; e++) {
        printf(" %s=%" PRIu64, event_name((enum event_type)e), events[e]);
    }
    printf("\n  ended:");
    for (int e = 1; e < ENDED_COUNT; e++) {
        printf(" %s=%" PRIu64, ended_name((enum ended)e), ends[e]);
    }
    printf("\n  waits ended:");
    for (int r = 1; r < REASON_COUNT; r++) {
        if (wait_ends[r] > 0) {
            printf(" %s=%" PRIu64, reason_name((enum reason)r), wait_ends[r]);
        }
    }
    printf("\n");
    for (int e = 0; e < EXTRA_COUNT; e++) {
        printf("  %s: %" PRIu64 "\n", extra_names[e], extras[e]);
    }
    printf("  most steps of a command: %" PRIu32 " of %d, of a sweep: %" PRIu32 " of %d\n",
           most_steps, LIMIT_COMMAND_STEPS, most_sweep_steps, LIMIT_SWEEP_STEPS);
}

struct expected_outcome {
    enum command_type command;
    enum outcome outcome;
    enum reason reason;
};

static const struct expected_outcome expected_outcomes[] = {
    {COMMAND_LEAD, OUTCOME_DONE, REASON_NONE},
    {COMMAND_TICK, OUTCOME_DONE, REASON_NONE},
    {COMMAND_ADVANCE, OUTCOME_DONE, REASON_NONE},
    {COMMAND_UPGRADE, OUTCOME_DONE, REASON_NONE},
    {COMMAND_NOTE, OUTCOME_DONE, REASON_NONE},
    {COMMAND_SESSION_OPEN, OUTCOME_DONE, REASON_NONE},
    {COMMAND_KEEPALIVE, OUTCOME_DONE, REASON_NONE},
    {COMMAND_SESSION_CLOSE, OUTCOME_DONE, REASON_NONE},
    {COMMAND_STREAM_UP, OUTCOME_DONE, REASON_NONE},
    {COMMAND_STREAM_THROUGH, OUTCOME_DONE, REASON_NONE},
    {COMMAND_STREAM_DOWN, OUTCOME_DONE, REASON_NONE},
    {COMMAND_STREAM_DOWN, OUTCOME_REFUSED, REASON_SUPERSEDED},
    {COMMAND_ACQUIRE, OUTCOME_GRANTED, REASON_NONE},
    {COMMAND_ACQUIRE, OUTCOME_QUEUED, REASON_NONE},
    {COMMAND_ACQUIRE, OUTCOME_REFUSED, REASON_HELD},
    {COMMAND_ACQUIRE, OUTCOME_REFUSED, REASON_DELAYED},
    {COMMAND_ACQUIRE, OUTCOME_REFUSED, REASON_DEADLOCK},
    {COMMAND_ACQUIRE, OUTCOME_REFUSED, REASON_ALREADY_HELD},
    {COMMAND_ACQUIRE, OUTCOME_REFUSED, REASON_MODE_MISMATCH},
    {COMMAND_ACQUIRE, OUTCOME_REFUSED, REASON_LIMIT_MISMATCH},
    {COMMAND_ACQUIRE, OUTCOME_REFUSED, REASON_PERMITS_EXCEED_LIMIT},
    /* The answers to a wait that ended, to a repeated request. */
    {COMMAND_ACQUIRE, OUTCOME_REFUSED, REASON_TIMEOUT},
    {COMMAND_ACQUIRE, OUTCOME_REFUSED, REASON_CANCELLED},
#if !TINY_LIMITS /* a memory of four request ids does not outlive ten seconds */
    {COMMAND_ACQUIRE, OUTCOME_REFUSED, REASON_DETACHED},
    {COMMAND_ACQUIRE, OUTCOME_REFUSED, REASON_DENIED},
#endif
    {COMMAND_CANCEL, OUTCOME_DONE, REASON_NONE},
    {COMMAND_CANCEL, OUTCOME_REFUSED, REASON_SUPERSEDED},
    {COMMAND_CANCEL, OUTCOME_REFUSED, REASON_NOT_WAITING},
    {COMMAND_DETACH, OUTCOME_DONE, REASON_NONE},
    {COMMAND_DETACH, OUTCOME_REFUSED, REASON_SUPERSEDED},
    {COMMAND_DETACH, OUTCOME_REFUSED, REASON_NOT_WAITING},
    {COMMAND_NODE_GONE, OUTCOME_DONE, REASON_NONE},
    {COMMAND_RELEASE, OUTCOME_DONE, REASON_NONE},
    {COMMAND_RELEASE, OUTCOME_REFUSED, REASON_NOT_OWNER},
    {COMMAND_RELEASE, OUTCOME_REFUSED, REASON_ALREADY_RELEASED},
    {COMMAND_RELEASE, OUTCOME_REFUSED, REASON_EXPIRED},
    {COMMAND_RENEW, OUTCOME_DONE, REASON_NONE},
    {COMMAND_RENEW, OUTCOME_REFUSED, REASON_NOT_OWNER},
    {COMMAND_RENEW, OUTCOME_REFUSED, REASON_ALREADY_RELEASED},
    {COMMAND_RENEW, OUTCOME_REFUSED, REASON_EXPIRED},
    {COMMAND_PROCLAIM, OUTCOME_DONE, REASON_NONE},
    {COMMAND_PROCLAIM, OUTCOME_REFUSED, REASON_NOT_OWNER},
    {COMMAND_PROCLAIM, OUTCOME_REFUSED, REASON_ALREADY_RELEASED},
    {COMMAND_PROCLAIM, OUTCOME_REFUSED, REASON_EXPIRED},
    {COMMAND_PROCLAIM, OUTCOME_REFUSED, REASON_MODE_MISMATCH},
    {COMMAND_FORCE_UNLOCK, OUTCOME_DONE, REASON_NONE},
    {COMMAND_REVOKE, OUTCOME_DONE, REASON_NONE},
    {COMMAND_FENCE_CHECK, OUTCOME_DONE, REASON_NONE},
    {COMMAND_FENCE_CHECK, OUTCOME_REFUSED, REASON_STALE_TOKEN},
    {COMMAND_FENCE_CHECK, OUTCOME_REFUSED, REASON_BELOW_FLOOR},
    {COMMAND_FENCE_CHECK, OUTCOME_REFUSED, REASON_NOT_ISSUED},
    {COMMAND_FENCE_RESET, OUTCOME_DONE, REASON_NONE},
    {COMMAND_POLICY_CHANGE, OUTCOME_DONE, REASON_NONE},
    {COMMAND_ALERT_SET, OUTCOME_DONE, REASON_NONE},
    {COMMAND_ALERT_REMOVE, OUTCOME_DONE, REASON_NONE},
    {COMMAND_LONG_HELD, OUTCOME_DONE, REASON_NONE},
    {COMMAND_SINK_POSITION, OUTCOME_DONE, REASON_NONE},
    {COMMAND_ACQUIRE, OUTCOME_REFUSED, REASON_WRONG_KIND},
    {COMMAND_TRANSACT, OUTCOME_DONE, REASON_NONE},
    {COMMAND_TRANSACT, OUTCOME_REFUSED, REASON_CONFLICT},
    {COMMAND_TRANSACT, OUTCOME_REFUSED, REASON_WRONG_KIND},
    {COMMAND_TRANSACT, OUTCOME_REFUSED, REASON_NOT_OWNER},
    {COMMAND_TRANSACT, OUTCOME_REFUSED, REASON_HELD},
    {COMMAND_TRANSACT, OUTCOME_REFUSED, REASON_DELAYED},
    {COMMAND_TRANSACT, OUTCOME_REFUSED, REASON_MODE_MISMATCH},
};

static const enum command_type expected_replays[] = {
    COMMAND_SESSION_OPEN, COMMAND_SESSION_CLOSE, COMMAND_ACQUIRE,     COMMAND_RELEASE,
    COMMAND_RENEW,        COMMAND_PROCLAIM,      COMMAND_REVOKE,      COMMAND_FORCE_UNLOCK,
    COMMAND_FENCE_CHECK,  COMMAND_TRANSACT,      COMMAND_FENCE_RESET, COMMAND_ALERT_SET,
    COMMAND_ALERT_REMOVE,
};

/* Not here: what only other layers give: malformed, corrupt, unsupported_version. */
static const struct {
    enum command_type command;
    enum hf_error error;
} expected_errors[] = {
    {COMMAND_ACQUIRE, HF_INVALID_NAME},
    {COMMAND_ACQUIRE, HF_INVALID_CLIENT},
    {COMMAND_ACQUIRE, HF_INVALID_OWNER},
    {COMMAND_ACQUIRE, HF_INVALID_ID},
    {COMMAND_ACQUIRE, HF_INVALID_TTL},
    {COMMAND_ACQUIRE, HF_INVALID_MODE},
    {COMMAND_ACQUIRE, HF_INVALID_LIMIT},
    {COMMAND_ACQUIRE, HF_INVALID_DELAY},
    {COMMAND_ACQUIRE, HF_INVALID_METADATA},
    {COMMAND_ACQUIRE, HF_INVALID_TRACE},
    {COMMAND_ACQUIRE, HF_INVALID_REQUEST_ID},
    {COMMAND_FORCE_UNLOCK, HF_INVALID_ACTOR},
    {COMMAND_RELEASE, HF_INVALID_TOKEN},
    {COMMAND_ACQUIRE, HF_DUPLICATE_NAME},
    {COMMAND_ACQUIRE, HF_SESSION_NOT_FOUND},
    {COMMAND_ACQUIRE, HF_SESSION_EXPIRED},
    {COMMAND_SESSION_OPEN, HF_SESSION_EXPIRED},
    {COMMAND_SESSION_CLOSE, HF_SESSION_NOT_FOUND},
    {COMMAND_SESSION_CLOSE, HF_SESSION_EXPIRED},
    {COMMAND_SESSION_OPEN, HF_REQUEST_ID_REUSED},
    {COMMAND_ACQUIRE, HF_REQUEST_ID_REUSED},
    {COMMAND_RELEASE, HF_REQUEST_ID_REUSED},
    {COMMAND_RENEW, HF_REQUEST_ID_REUSED},
    {COMMAND_ACQUIRE, HF_SEQ_ACKNOWLEDGED},
    {COMMAND_FORCE_UNLOCK, HF_NOT_HELD},
    {COMMAND_REVOKE, HF_NOT_HELD},
    {COMMAND_ACQUIRE, HF_TOO_MANY_UNACKED},
    {COMMAND_ACQUIRE, HF_TOO_MANY_LOCKS},
    {COMMAND_ACQUIRE, HF_TOO_MANY_NODES},
    {COMMAND_TRANSACT, HF_REQUEST_ID_REUSED},
    {COMMAND_TRANSACT, HF_DUPLICATE_NAME},
    {COMMAND_TRANSACT, HF_INVALID_NAME},
    {COMMAND_TRANSACT, HF_INVALID_ID},
    {COMMAND_TRANSACT, HF_INVALID_ACTOR},
    {COMMAND_TRANSACT, HF_INVALID_CLIENT},
    {COMMAND_TRANSACT, HF_NOT_UPGRADED},
    {COMMAND_NOTE, HF_NOT_UPGRADED},
    {COMMAND_FENCE_RESET, HF_NOT_UPGRADED},
    {COMMAND_FENCE_RESET, HF_FENCE_NOT_FOUND},
    {COMMAND_FENCE_RESET, HF_TOKEN_NOT_ISSUED},
    {COMMAND_FENCE_RESET, HF_INVALID_ACTOR},
    {COMMAND_ACQUIRE, HF_NOT_UPGRADED},
    {COMMAND_POLICY_CHANGE, HF_NOT_UPGRADED},
    {COMMAND_POLICY_CHANGE, HF_POLICY_CONFLICT},
    {COMMAND_POLICY_CHANGE, HF_POLICY_NOT_FOUND},
    {COMMAND_POLICY_CHANGE, HF_POLICY_EXISTS},
    {COMMAND_POLICY_CHANGE, HF_INVALID_POLICY},
    {COMMAND_POLICY_CHANGE, HF_INVALID_ACTOR},
    {COMMAND_POLICY_CHANGE, HF_DENIED},
    {COMMAND_SESSION_OPEN, HF_DENIED},
    {COMMAND_ACQUIRE, HF_DENIED},
    {COMMAND_RENEW, HF_DENIED},
    {COMMAND_PROCLAIM, HF_DENIED},
    {COMMAND_TRANSACT, HF_DENIED},
    {COMMAND_FORCE_UNLOCK, HF_DENIED},
    {COMMAND_REVOKE, HF_DENIED},
    {COMMAND_FENCE_CHECK, HF_DENIED},
    {COMMAND_FENCE_RESET, HF_DENIED},
    {COMMAND_NOTE, HF_DENIED},
    {COMMAND_ACQUIRE, HF_INVALID_HOLD},
    {COMMAND_FORCE_UNLOCK, HF_TOKEN_MISMATCH},
    {COMMAND_REVOKE, HF_TOKEN_MISMATCH},
    {COMMAND_ALERT_SET, HF_INVALID_ALERT},
    {COMMAND_ALERT_SET, HF_NOT_UPGRADED},
    {COMMAND_ALERT_SET, HF_DENIED},
    {COMMAND_ALERT_REMOVE, HF_ALERT_NOT_FOUND},
    {COMMAND_LONG_HELD, HF_INVALID_TOKEN},
    {COMMAND_SINK_POSITION, HF_INVALID_NAME},
    {COMMAND_LEAD, HF_DENIED},
    {COMMAND_UPGRADE, HF_DENIED},
    {COMMAND_NODE_GONE, HF_DENIED},
#if TINY_LIMITS /* else it would take sixteen million sessions, and a queue of a million */
    {COMMAND_ACQUIRE, HF_TOO_MANY_SESSIONS},
    {COMMAND_SESSION_OPEN, HF_TOO_MANY_SESSIONS},
    {COMMAND_ACQUIRE, HF_QUEUE_FULL},
    {COMMAND_TRANSACT, HF_TOO_MANY_SESSIONS},
    {COMMAND_TRANSACT, HF_TOO_MANY_COUNTERS},
    {COMMAND_POLICY_CHANGE, HF_POLICY_FULL},
    {COMMAND_ALERT_SET, HF_TOO_MANY_ALERTS},
#endif
};

static bool missing(const char *kind, const char *a, const char *b, const char *c)
{
    printf("  NEVER HAPPENED: %s %s %s %s\n", kind, a, b, c);
    return false;
}

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

bool coverage_complete(void)
{
    bool complete = true;
    for (size_t i = 0; i < COUNT_OF(expected_outcomes); i++) {
        const struct expected_outcome *e = &expected_outcomes[i];
        if (outcomes[e->command][e->outcome][e->reason] == 0) {
            complete = missing("outcome", command_name(e->command), outcome_names[e->outcome],
                               reason_name(e->reason));
        }
    }
    for (size_t i = 0; i < COUNT_OF(expected_replays); i++) {
        if (replays[expected_replays[i]] == 0) {
            complete = missing("replay of", command_name(expected_replays[i]), "", "");
        }
    }
    for (size_t i = 0; i < COUNT_OF(expected_errors); i++) {
        if (errors[expected_errors[i].command][expected_errors[i].error] == 0) {
            complete = missing("error", command_name(expected_errors[i].command),
                               hf_error_code(expected_errors[i].error), "");
        }
    }
    for (int e = 1; e < EVENT_COUNT; e++) {
        if (events[e] == 0) {
            complete = missing("event", event_name((enum event_type)e), "", "");
        }
    }
    for (int e = 1; e < ENDED_COUNT; e++) {
        if (ends[e] == 0) {
            complete = missing("end", ended_name((enum ended)e), "", "");
        }
        if (ended_answers[e] == 0) {
            complete = missing("answer about an end", ended_name((enum ended)e), "", "");
        }
    }
    static const enum reason waits[] = {REASON_TIMEOUT, REASON_CANCELLED, REASON_DETACHED,
                                        REASON_SESSION_ENDED, REASON_DENIED};
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        if (wait_ends[waits[i]] == 0) {
            complete = missing("end of a wait", reason_name(waits[i]), "", "");
        }
    }
    for (int e = 0; e < EXTRA_COUNT; e++) {
        bool needs_many_waiters = e == EXTRA_FAR_POSITION || e == EXTRA_MORE;
        /* With the real limits test_transact.c and the scenarios once_* see to these. */
        bool needs_tiny =
            e == EXTRA_TRANSACTS_FULL || e == EXTRA_DRAWN_FULL || e == EXTRA_OPERATORS_FULL;
        if (extras[e] == 0 && !(TINY_LIMITS ? needs_many_waiters : needs_tiny)) {
            complete = missing("", extra_names[e], "", "");
        }
    }
    return complete;
}
