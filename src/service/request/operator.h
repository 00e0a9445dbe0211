/* What operators do, for the doors. Each is answered by `render`, or at once where a rule is
 * broken. */
#ifndef HOLDFAST_SERVICE_REQUEST_OPERATOR_H
#define HOLDFAST_SERVICE_REQUEST_OPERATOR_H

#include "service/http/body.h"

/* False when they may not, and then it has been answered so. */
bool operator_is_allowed(struct api_request *x);

/* api_operator.c. The name is x->name; the answer finds actor and reason in x->kept. */
void operator_force_unlock(struct api_request *x, const struct body *b, render_fn render);
void operator_revoke(struct api_request *x, const struct body *b, render_fn render);
/* The resource is in the body; fencing_token 0: a mark that nobody's token reaches (S11). */
void operator_fence_reset(struct api_request *x, const struct body *b, render_fn render);

/* Of the lock that a record is about: the log notes what was done in the one that has none. */
static inline enum tier operator_tier_of(const struct audit_view *record)
{
    return record->is_note ? TIER_EFFICIENCY : TIER_CORRECTNESS;
}

/* api_member.c. The member is x->member; `address` is for adding one. */
enum { MEMBER_ADDRESS_MAX = 255 };
bool member_is_allowed(struct api_request *x);
void member_start(struct api_request *x, enum gateway_change kind, struct slice address,
                  render_fn render);

#endif
