/* The handlers of the HTTP API, one for each row of the table in router.c. */
#ifndef HOLDFAST_SERVICE_API_H
#define HOLDFAST_SERVICE_API_H

#include "service/exchange.h"

/* api_lock.c */
void api_acquire(struct exchange *x);
void api_multilock_acquire(struct exchange *x);
/* api_holder.c */
void api_release(struct exchange *x);
void api_renew(struct exchange *x);
void api_multilock_release(struct exchange *x);
void api_multilock_renew(struct exchange *x);
/* api_seed.c */
void api_seed_acquire(struct exchange *x);
void api_seed_renew(struct exchange *x);
void api_seed_release(struct exchange *x);
/* api_list.c */
void api_lock_list(struct exchange *x);
void api_lock_show(struct exchange *x);
/* api_operator.c */
void api_force_unlock(struct exchange *x);
void api_revoke(struct exchange *x);
void api_fence_reset(struct exchange *x);
void api_audit(struct exchange *x);
/* api_session.c */
void api_session_open(struct exchange *x);
void api_session_keepalive(struct exchange *x);
void api_session_close(struct exchange *x);
void api_session_list(struct exchange *x);
void api_session_show(struct exchange *x);
/* api_election.c */
void api_campaign(struct exchange *x);
void api_proclaim(struct exchange *x);
void api_resign(struct exchange *x);
void api_election_show(struct exchange *x);
/* api_fence.c */
void api_fence_check(struct exchange *x);
/* api_log.c */
void api_log_level(struct exchange *x);
void api_log_level_set(struct exchange *x);
/* api_member.c */
void api_member_add(struct exchange *x);
void api_member_promote(struct exchange *x);
void api_member_demote(struct exchange *x);
void api_member_remove(struct exchange *x);
void api_member_transfer(struct exchange *x);
/* api_snapshot.c */
void api_snapshot(struct exchange *x);
/* api_status.c */
void api_cluster(struct exchange *x);
void api_members(struct exchange *x);
void api_livez(struct exchange *x);
void api_readyz(struct exchange *x);
void api_openapi(struct exchange *x);

#endif
