/* What is left to do about a request whose client is gone (S7.2, S7.3). Each errand is one command,
 * submitted by service_run and tried again until the cluster has answered it. */
#include "service/reply.h"
#include "service/session.h"
#include "service/state.h"

void ask_errand(struct ask *a, enum ask_errand errand)
{
    hf_assert(!a->in_flight);
    ask_timer(a, UINT64_MAX);
    if (a->gone || errand != ERRAND_AGAIN) {
        bool was_parked = a->is_parked; /* its events are still ours to swallow */
        a->is_parked = false;
        ask_stop_waiting(a);
        a->is_parked = was_parked;
        a->state = ASK_LEAVING;
    }
    a->errand = errand;
    if (errand == ERRAND_RELEASE && id_is_zero(a->errand_id)) {
        a->errand_id = service_random_id(a->service); /* a re-entered lock would lose two levels */
    }
    list_append(&a->service->errands, &a->work);
}

void ask_leave(struct ask *a, enum hf_error error, const struct result *result)
{
    bool is_answered = error == HF_OK && result != NULL && result->error == HF_OK;
    if (a->is_stream && is_answered) {
        a->attachment = result->attachment;
        ask_errand(a, ERRAND_STREAM_DOWN);
        return;
    }
    if (!a->is_acquire) {
        ask_free(a);
        return;
    }
    if (error == HF_OUTCOME_UNKNOWN && a->command != 0) {
        ask_errand(a, ERRAND_AGAIN); /* where does it stand? */
        return;
    }
    if (error == HF_OUTCOME_UNKNOWN && !a->keeps_place) {
        ask_errand(a, ERRAND_RELEASE); /* if it was granted at all */
        return;
    }
    if (is_answered && result->outcome == OUTCOME_QUEUED) {
        ask_unpark(a);
        a->lease = result->lease;
        a->attachment = result->attachment;
        ask_park(a); /* to swallow its events */
        ask_errand(a, a->keeps_place ? ERRAND_DETACH : ERRAND_CANCEL);
    } else if (is_answered && result->outcome == OUTCOME_GRANTED && result->ended == ENDED_NOT &&
               !a->keeps_place) {
        a->lease = result->lease;
        ask_errand(a, ERRAND_RELEASE);
    } else {
        ask_free(a);
    }
}

void ask_give_back(struct service *s, uint32_t tenant, struct id lease, enum tier tier)
{
    struct ask *a = ask_new(s, NULL, NULL);
    a->state = ASK_LEAVING;
    a->gone = true;
    a->tenant = tenant;
    a->lease = lease;
    a->tier = tier;
    ask_errand(a, ERRAND_RELEASE);
}

static void about_stream(struct service *s, uint32_t tenant, struct id session, uint64_t stream,
                         enum ask_errand errand)
{
    struct ask *a = ask_new(s, NULL, NULL);
    a->state = ASK_LEAVING;
    a->gone = true;
    a->tenant = tenant;
    a->lease = session;
    a->attachment = stream;
    ask_errand(a, errand);
}

void ask_stream_down(struct service *s, uint32_t tenant, struct id session, uint64_t stream)
{
    about_stream(s, tenant, session, stream, ERRAND_STREAM_DOWN);
}

void ask_stream_up(struct service *s, uint32_t tenant, struct id session, uint64_t stream)
{
    about_stream(s, tenant, session, stream, ERRAND_STREAM_UP);
}

/* The id of a release: other leases have other ids. */
static struct id release_id(const struct ask *a)
{
    return (struct id){a->errand_id.high ^ a->lease.high, a->errand_id.low ^ a->lease.low};
}

void ask_errand_run(struct ask *a)
{
    struct command command;
    char id[sizeof(REQUEST_ID_NODE) + REPLY_ID] = REQUEST_ID_NODE;
    switch (a->errand) {
    case ERRAND_AGAIN:
        ask_unpark(a);
        if (a->state == ASK_PARKED) {
            a->state = ASK_ASKED;
            a->errand = ERRAND_NONE;
        }
        ask_submit_again(a);
        return;
    case ERRAND_CANCEL:
        command_init(&command, COMMAND_CANCEL);
        command.cancel.lease = a->lease;
        command.cancel.attachment = a->attachment;
        break;
    case ERRAND_DETACH:
        command_init(&command, COMMAND_DETACH);
        command.detach.lease = a->lease;
        command.detach.attachment = a->attachment;
        break;
    case ERRAND_RELEASE:
        command_init(&command, COMMAND_RELEASE);
        command.release.lease = a->lease;
        reply_format_id(release_id(a), id + sizeof(REQUEST_ID_NODE) - 1);
        command.request_id = slice_of(id);
        break;
    case ERRAND_STREAM_DOWN:
        command_init(&command, COMMAND_STREAM_DOWN);
        command.session = a->lease;
        command.stream_down.stream = a->attachment;
        break;
    case ERRAND_STREAM_UP:
        session_stream_command(a->service, a->tenant, a->lease, &command);
        break;
    case ERRAND_NONE:
    default:
        hf_panic(__FILE__, __LINE__, "an ask without an errand was to run one");
    }
    command.tenant = a->tenant;
    ask_send(a, &command);
}

void ask_errand_done(struct ask *a, enum hf_error error, const struct result *result)
{
    if (error != HF_OK) {
        ask_timer(a, service_boot_ms(a->service) + SERVICE_RETRY_MS);
        return;
    }
    if (a->errand == ERRAND_AGAIN) {
        ask_leave(a, HF_OK, result);
    } else if (a->errand == ERRAND_CANCEL && result->error == HF_OK &&
               result->reason == REASON_NOT_WAITING && result->token != 0) {
        ask_unpark(a);
        ask_errand(a, ERRAND_RELEASE); /* it was granted in the meantime */
    } else if (a->errand == ERRAND_STREAM_UP && result->error == HF_OK) {
        session_stream_raised(a->service, a->tenant, a->lease, a->attachment, result->attachment);
        ask_free(a);
    } else {
        ask_free(a);
    }
}
