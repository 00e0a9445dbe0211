/* Withdraws an acquire by its request id, on any node (S7.5).
 *
 *      the acquire again ──QUEUED──▶ cancel ──done──▶ answered: CANCELLED
 *        │  ▲     │ GRANTED            │ │ granted meanwhile        ▲
 *        │  │     └────────────────────┼─┴────────▶ release ──done──┘
 *        │  └──attached anew, or over──┘
 *        └──anything else──▶ answered with that
 *
 * The same acquire is submitted first: its result names the lease and attachment number that a
 * cancel needs. If the cluster has not received the request yet, this uses up its id: a later copy
 * is a replay and gets no lock. Each step follows the previous result, so the answer proves that
 * the request is over. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "service/state.h"

/* For the id of the release, see pending_cleanup_run: the same in every attempt, so a re-entered
 * lock loses one level only. */
static struct id request_hash(const struct command *acquire)
{
    struct slice client = acquire->acquire.client;
    struct slice id = acquire->request_id;
    uint64_t seed = XXH3_64bits_withSeed(client.data, client.len, acquire->seq);
    seed ^= acquire->session.high ^ acquire->session.low;
    XXH128_hash_t hash = XXH3_128bits_withSeed(id.data, id.len, seed);
    return (struct id){hash.high64, hash.low64};
}

struct pending_request *pending_cancel(struct service *s, const struct command *acquire,
                                       enum tier tier, pending_answer_fn on_answer, void *owner)
{
    struct command command = *acquire;
    struct pending_request *a = pending_new(s, on_answer, owner);
    hf_assert(command.type == COMMAND_ACQUIRE);
    a->state = PENDING_SUBMITTED;
    a->cancels = true;
    a->is_acquire = true;
    a->tier = tier;
    a->who = caller_of(&command);
    a->lease = command.acquire.lease;
    a->cleanup_id = request_hash(&command);
    if (command.request_id.len == 0 && command.seq == 0) {
        command.acquire.wait_ms = 0; /* identified by lease only: must not start a new wait */
    }
    pending_keep_command(a, &command);
    pending_send(a, &command);
    return a;
}

static void schedule_step(struct pending_request *a, enum pending_cleanup step)
{
    a->cleanup = step;
    list_append(&a->service->cleanups, &a->work);
}

static void answer_cancelled(struct pending_request *a)
{
    struct result cancelled = {
        .type = COMMAND_ACQUIRE, .outcome = OUTCOME_REFUSED, .reason = REASON_CANCELLED};
    pending_answer(a, HF_OK, &cancelled);
}

static void on_acquire_result(struct pending_request *a, const struct result *result)
{
    if (result->outcome == OUTCOME_QUEUED) {
        a->lease = result->lease;
        a->attachment = result->attachment;
        schedule_step(a, CLEANUP_CANCEL);
    } else if (result->outcome == OUTCOME_GRANTED && result->ended == ENDED_NOT) {
        a->lease = result->lease;
        schedule_step(a, CLEANUP_RELEASE);
    } else {
        pending_answer(a, HF_OK, result);
    }
}

static void on_cancel_result(struct pending_request *a, const struct result *result)
{
    if (result->outcome == OUTCOME_DONE) {
        answer_cancelled(a);
    } else if (result->token != 0) {
        schedule_step(a, CLEANUP_RELEASE);
    } else {
        schedule_step(a, CLEANUP_AGAIN); /* an older attempt attached it again, or it is over */
    }
}

/* The client is gone: does the remaining steps until the cluster answers. */
static void continue_as_cleanup(struct pending_request *a, enum hf_error error,
                                const struct result *result)
{
    a->cancels = false;
    if (a->cleanup == CLEANUP_CANCEL || a->cleanup == CLEANUP_RELEASE) {
        a->state = PENDING_CLEANUP;
        pending_cleanup_done(a, error, result);
    } else if (error == HF_OK) {
        pending_leave(a, error, result);
    } else {
        /* The acquire may wait since an earlier attempt. */
        pending_leave(a, HF_OUTCOME_UNKNOWN, NULL);
    }
}

void pending_cancel_step(struct pending_request *a, enum hf_error error,
                         const struct result *result)
{
    if (a->gone) {
        continue_as_cleanup(a, error, result);
    } else if (error != HF_OK || result->error != HF_OK) {
        pending_answer(a, error, result);
    } else if (a->cleanup == CLEANUP_CANCEL) {
        on_cancel_result(a, result);
    } else if (a->cleanup == CLEANUP_RELEASE) {
        answer_cancelled(a);
    } else {
        on_acquire_result(a, result);
    }
}
