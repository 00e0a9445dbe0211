/* Operator actions. `render` makes the answer; a broken rule is answered at once. */
#ifndef HOLDFAST_SERVICE_REQUEST_OPERATOR_H
#define HOLDFAST_SERVICE_REQUEST_OPERATOR_H

#include "service/http/body.h"

/* False: not an operator; answered. */
bool operator_is_allowed(struct api_request *x);

/* api_operator.c, for x->name. x->kept gets actor and reason. */
void operator_force_unlock(struct api_request *x, const struct body *b, render_fn render);
void operator_revoke(struct api_request *x, const struct body *b, render_fn render);
/* The body has the resource. fencing_token 0: a mark that no token reaches (S11). */
void operator_fence_reset(struct api_request *x, const struct body *b, render_fn render);

/* api_alert.c: a long-held rule (S16.2). prefix "*": every name. Without a reason one is made. */
void operator_alert_set(struct api_request *x, const struct body *b, render_fn render);
void operator_alert_remove(struct api_request *x, const struct body *b, render_fn render);
/* The rules and the holds past them: list_long_held has the holds. */
void operator_alerts(struct api_request *x, render_fn render);
/* "*" for an empty prefix. */
struct slice operator_alert_prefix(struct slice prefix);
/* A row of the holds past their rule. False: no rule covers it any more. */
struct long_held_row {
    struct alert_view rule;
    uint64_t held_ms;
    uint64_t over_ms;
};
bool operator_long_held(const struct api_request *x, const struct lock_view *lock,
                        struct long_held_row *out);

/* `operate` on the resource of the record; without one, `admin` on the cluster. */
bool operator_may_see(const struct api_request *x, const struct audit_view *a);

/* The tier of the recorded lock. EFFICIENCY has no log; the log of CORRECTNESS notes the action. */
static inline enum tier operator_tier_of(const struct audit_view *record)
{
    return record->is_note ? TIER_EFFICIENCY : TIER_CORRECTNESS;
}

/* api_member.c. The member is x->member; `address` is for adding; `actor`, for the audit record, may be
 * empty. */
enum { MEMBER_ADDRESS_MAX = 255 };
bool member_is_allowed(struct api_request *x);
void member_start(struct api_request *x, enum gateway_change kind, struct slice address,
                  struct slice actor, render_fn render);

#endif
