/* Cleanup of requests whose client is gone (S7.2, S7.3): one command each, which service_run
 * retries until the cluster answers. */
#include "service/http/reply.h"
#include "service/request/session.h"
#include "service/state.h"

void pending_cleanup(struct pending_request *a, enum pending_cleanup cleanup)
{
    hf_assert(!a->in_flight);
    pending_timer(a, UINT64_MAX);
    if (a->gone || cleanup != CLEANUP_AGAIN) {
        bool was_parked = a->is_parked; /* stays parked, to discard its events */
        a->is_parked = false;
        pending_stop_waiting(a);
        a->is_parked = was_parked;
        a->state = PENDING_CLEANUP;
    }
    a->cleanup = cleanup;
    if (cleanup == CLEANUP_RELEASE && id_is_zero(a->cleanup_id)) {
        /* A retry without an id would take a second level off a re-entered lock. */
        a->cleanup_id = service_random_id(a->service);
    }
    list_append(&a->service->cleanups, &a->work);
}

void pending_leave(struct pending_request *a, enum hf_error error, const struct result *result)
{
    bool is_answered = error == HF_OK && result != NULL && result->error == HF_OK;
    if (a->is_stream && is_answered) {
        a->attachment = result->attachment;
        pending_cleanup(a, CLEANUP_STREAM_DOWN);
        return;
    }
    if (!a->is_acquire) {
        pending_free(a);
        return;
    }
    if (error == HF_OUTCOME_UNKNOWN && a->command != 0) {
        pending_cleanup(a, CLEANUP_AGAIN); /* to learn the outcome */
        return;
    }
    if (error == HF_OUTCOME_UNKNOWN && !a->keeps_place) {
        pending_cleanup(a, CLEANUP_RELEASE); /* has no effect if it was not granted */
        return;
    }
    if (is_answered && result->outcome == OUTCOME_QUEUED) {
        pending_unpark(a);
        a->lease = result->lease;
        a->attachment = result->attachment;
        pending_park(a); /* to discard its events */
        pending_cleanup(a, a->keeps_place ? CLEANUP_DETACH : CLEANUP_CANCEL);
    } else if (is_answered && result->outcome == OUTCOME_GRANTED && result->ended == ENDED_NOT &&
               !a->keeps_place) {
        a->lease = result->lease;
        pending_cleanup(a, CLEANUP_RELEASE);
    } else {
        pending_free(a);
    }
}

void pending_give_back(struct service *s, struct caller_id who, struct id lease, enum tier tier)
{
    struct pending_request *a = pending_new(s, NULL, NULL);
    a->state = PENDING_CLEANUP;
    a->gone = true;
    a->who = who;
    a->lease = lease;
    a->tier = tier;
    pending_cleanup(a, CLEANUP_RELEASE);
}

static void about_stream(struct service *s, struct caller_id who, struct id session,
                         uint64_t stream, enum pending_cleanup cleanup)
{
    struct pending_request *a = pending_new(s, NULL, NULL);
    a->state = PENDING_CLEANUP;
    a->gone = true;
    a->who = who;
    a->is_own = who.principal == 0;
    a->lease = session;
    a->attachment = stream;
    pending_cleanup(a, cleanup);
}

void pending_stream_down(struct service *s, struct caller_id who, struct id session,
                         uint64_t stream)
{
    about_stream(s, who, session, stream, CLEANUP_STREAM_DOWN);
}

void pending_stream_up(struct service *s, struct caller_id who, struct id session, uint64_t stream)
{
    about_stream(s, who, session, stream, CLEANUP_STREAM_UP);
}

/* Differs for each lease. */
static struct id release_id(const struct pending_request *a)
{
    return (struct id){a->cleanup_id.high ^ a->lease.high, a->cleanup_id.low ^ a->lease.low};
}

void pending_cleanup_run(struct pending_request *a)
{
    struct command command;
    char id[sizeof(REQUEST_ID_NODE) + REPLY_ID] = REQUEST_ID_NODE;
    switch (a->cleanup) {
    case CLEANUP_AGAIN:
        pending_unpark(a);
        if (a->state == PENDING_WAITING) {
            a->state = PENDING_SUBMITTED;
            a->cleanup = CLEANUP_NONE;
        }
        pending_submit_again(a);
        return;
    case CLEANUP_CANCEL:
        command_init(&command, COMMAND_CANCEL);
        command.cancel.lease = a->lease;
        command.cancel.attachment = a->attachment;
        break;
    case CLEANUP_DETACH:
        command_init(&command, COMMAND_DETACH);
        command.detach.lease = a->lease;
        command.detach.attachment = a->attachment;
        break;
    case CLEANUP_RELEASE:
        command_init(&command, COMMAND_RELEASE);
        command.release.lease = a->lease;
        reply_format_id(release_id(a), id + sizeof(REQUEST_ID_NODE) - 1);
        command.request_id = slice_of(id);
        break;
    case CLEANUP_STREAM_DOWN:
        command_init(&command, COMMAND_STREAM_DOWN);
        command.session = a->lease;
        command.stream_down.stream = a->attachment;
        break;
    case CLEANUP_STREAM_UP:
        session_stream_command(a->service, a->who, a->lease, &command);
        break;
    case CLEANUP_NONE:
    default:
        hf_panic(__FILE__, __LINE__, "a pending request without a cleanup is in the list cleanups");
    }
    caller_sign(&command, a->who);
    pending_send(a, &command);
}

void pending_cleanup_done(struct pending_request *a, enum hf_error error,
                          const struct result *result)
{
    if (error == HF_DENIED || error == HF_UNAUTHENTICATED) {
        pending_free(a); /* a retry would be refused too; the TTL ends what is left */
        return;
    }
    if (error != HF_OK) {
        pending_timer(a, service_boot_ms(a->service) + SERVICE_RETRY_MS);
        return;
    }
    if (a->cleanup == CLEANUP_AGAIN) {
        pending_leave(a, HF_OK, result);
    } else if (a->cleanup == CLEANUP_CANCEL && result->error == HF_OK &&
               result->reason == REASON_NOT_WAITING && result->token != 0) {
        pending_unpark(a);
        pending_cleanup(a, CLEANUP_RELEASE); /* granted before the cancel */
    } else if (a->cleanup == CLEANUP_STREAM_UP && result->error == HF_OK) {
        session_stream_raised(a->service, a->who, a->lease, a->attachment, result->attachment);
        pending_free(a);
    } else {
        pending_free(a);
    }
}
