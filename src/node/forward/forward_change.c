/* Sends a change of members. The leader begins or refuses it immediately. One that may have been
 * made is never sent again. */
#include "node/forward/forward_state.h"

enum { DECLINED_MS = 500 };

bool change_here(struct forward *f, struct call *call)
{
    struct change change;
    const char *problem = "";
    bool sound = change_decode(call->bytes, &change);
    hf_assert(sound);
    enum hf_error error =
        f->options.change(f->options.ctx, change.change, change.id, change.address, &problem);
    if (error == HF_UNAVAILABLE || error == HF_BUSY) {
        return false;
    }
    call_answer(f, call, error, NULL, problem);
    return true;
}

/* A leader that is to be demoted or removed transfers the leadership first. A change sent to it
 * meanwhile would be in doubt. */
void change_declined(struct forward *f, struct call *call)
{
    struct change change;
    if (call->kind == FORWARD_CHANGE && change_decode(call->bytes, &change) &&
        change.id == call->peer) {
        call->not_before_ms = forward_now_ms(f) + DECLINED_MS;
    }
}

bool change_may_go_to(const struct forward *f, const struct call *call, uint64_t leader)
{
    return call->kind != FORWARD_CHANGE || leader != call->peer ||
           forward_now_ms(f) >= call->not_before_ms;
}
