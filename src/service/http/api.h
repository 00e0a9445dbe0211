/* Handlers of the HTTP API, one per row of router.c. */
#ifndef HOLDFAST_SERVICE_HTTP_API_H
#define HOLDFAST_SERVICE_HTTP_API_H

#include "service/request/api_request.h"

/* api_lock.c */
void api_acquire(struct api_request *x);
void api_multilock_acquire(struct api_request *x);
/* api_holder.c */
void api_release(struct api_request *x);
void api_renew(struct api_request *x);
void api_multilock_release(struct api_request *x);
void api_multilock_renew(struct api_request *x);
/* api_seed.c */
void api_seed_acquire(struct api_request *x);
void api_seed_renew(struct api_request *x);
void api_seed_release(struct api_request *x);
/* api_terraform.c */
void api_terraform_lock(struct api_request *x);
void api_terraform_unlock(struct api_request *x);
/* api_history.c */
void api_lock_history(struct api_request *x);
/* api_list.c */
void api_lock_list(struct api_request *x);
void api_lock_show(struct api_request *x);
/* api_operator.c */
void api_force_unlock(struct api_request *x);
void api_revoke(struct api_request *x);
void api_fence_reset(struct api_request *x);
/* api_audit.c */
void api_audit(struct api_request *x);
/* api_alert.c */
void api_alerts(struct api_request *x);
void api_alert_set(struct api_request *x);
void api_alert_remove(struct api_request *x);
/* api_session.c */
void api_session_open(struct api_request *x);
void api_session_keepalive(struct api_request *x);
void api_session_close(struct api_request *x);
void api_session_list(struct api_request *x);
void api_session_show(struct api_request *x);
/* api_session_locks.c */
void api_session_locks(struct api_request *x);
/* api_election.c */
void api_campaign(struct api_request *x);
void api_proclaim(struct api_request *x);
void api_resign(struct api_request *x);
void api_election_show(struct api_request *x);
/* api_fence.c */
void api_fence_check(struct api_request *x);
/* api_log.c */
void api_log_level(struct api_request *x);
void api_log_level_set(struct api_request *x);
/* api_member.c */
void api_member_add(struct api_request *x);
void api_member_promote(struct api_request *x);
void api_member_demote(struct api_request *x);
void api_member_remove(struct api_request *x);
void api_member_transfer(struct api_request *x);
/* auth/policy_api.c */
void api_policy(struct api_request *x);
void api_policy_put(struct api_request *x);
void api_explain(struct api_request *x);
void api_whoami(struct api_request *x);
/* auth/token_api.c */
void api_tenants(struct api_request *x);
void api_tokens(struct api_request *x);
void api_token_create(struct api_request *x);
void api_token_revoke(struct api_request *x);
/* api_sinks.c */
void api_sinks(struct api_request *x);
/* api_snapshot.c */
void api_snapshot(struct api_request *x);
/* api_hot.c */
void api_hot(struct api_request *x);
/* api_stats.c */
void api_stats(struct api_request *x);
/* api_status.c */
void api_cluster(struct api_request *x);
void api_members(struct api_request *x);
void api_livez(struct api_request *x);
void api_readyz(struct api_request *x);
void api_openapi(struct api_request *x);

#endif
