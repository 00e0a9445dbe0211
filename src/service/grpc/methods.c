/* The gRPC methods. Frequent ones come first; those of one service are adjacent. */
#include <grpc/health/v1/health.pb-c.h>
#include <grpc/reflection/v1alpha/reflection.pb-c.h>
#include <holdfast/v1/admin.pb-c.h>

#include "service/grpc/rpc.h"

#define LOCK "/holdfast.v1.LockService/"
#define ELECTION "/holdfast.v1.ElectionService/"
#define ADMIN "/holdfast.v1.AdminService/"
#define HEALTH "/grpc.health.v1.Health/"
#define REFLECTION "ServerReflection/ServerReflectionInfo"

#define ONE(path, type, handle, need)                                      \
    {                                                                      \
        path, RPC_ONE, need, &type##__descriptor, handle, NULL, NULL, NULL \
    }
#define REFLECT(path)                                                                          \
    {                                                                                          \
        path, RPC_MANY, NEED_CALLER,                                                           \
            &grpc__reflection__v1alpha__server_reflection_request__descriptor, rpc_reflection, \
            rpc_reflection_end, NULL, rpc_reflection_drain                                     \
    }

static const struct rpc_method methods[] = {
    ONE(LOCK "Lock", holdfast__v1__lock_request, rpc_lock, NEED_LOCK),
    ONE(LOCK "Unlock", holdfast__v1__unlock_request, rpc_unlock, NEED_OWNER),
    ONE(LOCK "Renew", holdfast__v1__renew_request, rpc_renew, NEED_LOCK),
    {LOCK "Session", RPC_MANY, NEED_SESSION, &holdfast__v1__session_request__descriptor,
     rpc_session, session_call_end, session_call_over, session_call_drain},
    ONE(LOCK "MultiLock", holdfast__v1__multi_lock_request, rpc_multilock, NEED_LOCK),
    ONE(LOCK "Watch", holdfast__v1__watch_request, rpc_watch, NEED_ROWS),
    ONE(LOCK "CheckFence", holdfast__v1__check_fence_request, rpc_check_fence, NEED_LOCK),
    ONE(ELECTION "Campaign", holdfast__v1__campaign_request, rpc_campaign, NEED_LOCK),
    ONE(ELECTION "Proclaim", holdfast__v1__proclaim_request, rpc_proclaim, NEED_LOCK),
    ONE(ELECTION "Resign", holdfast__v1__resign_request, rpc_resign, NEED_OWNER),
    ONE(ELECTION "Leader", holdfast__v1__leader_request, rpc_leader, NEED_READ),
    ONE(ELECTION "Observe", holdfast__v1__leader_request, rpc_observe, NEED_READ),
    ONE(ADMIN "List", holdfast__v1__list_request, rpc_list, NEED_ROWS),
    ONE(ADMIN "Show", holdfast__v1__show_request, rpc_show, NEED_READ),
    ONE(ADMIN "History", holdfast__v1__history_request, rpc_history, NEED_READ),
    ONE(ADMIN "Sessions", holdfast__v1__sessions_request, rpc_sessions, NEED_ROWS),
    ONE(ADMIN "SessionLocks", holdfast__v1__session_locks_request, rpc_session_locks, NEED_ROWS),
    ONE(ADMIN "ForceUnlock", holdfast__v1__force_unlock_request, rpc_force_unlock, NEED_OPERATE),
    ONE(ADMIN "Revoke", holdfast__v1__revoke_request, rpc_revoke, NEED_OPERATE),
    ONE(ADMIN "ResetFence", holdfast__v1__reset_fence_request, rpc_reset_fence, NEED_OPERATE),
    ONE(ADMIN "Audit", holdfast__v1__audit_request, rpc_audit, NEED_AUDIT),
    ONE(ADMIN "Alerts", holdfast__v1__alerts_request, rpc_alerts, NEED_ROWS),
    ONE(ADMIN "SetAlert", holdfast__v1__set_alert_request, rpc_alert_set, NEED_OPERATE),
    ONE(ADMIN "RemoveAlert", holdfast__v1__remove_alert_request, rpc_alert_remove, NEED_OPERATE),
    ONE(ADMIN "Hot", holdfast__v1__hot_request, rpc_hot, NEED_CLUSTER_READ),
    ONE(ADMIN "Cluster", holdfast__v1__cluster_request, rpc_cluster, NEED_CALLER),
    ONE(ADMIN "AddMember", holdfast__v1__add_member_request, rpc_member_add, NEED_CLUSTER_ADMIN),
    ONE(ADMIN "PromoteMember", holdfast__v1__member_request, rpc_member_promote,
        NEED_CLUSTER_ADMIN),
    ONE(ADMIN "DemoteMember", holdfast__v1__member_request, rpc_member_demote, NEED_CLUSTER_ADMIN),
    ONE(ADMIN "RemoveMember", holdfast__v1__member_request, rpc_member_remove, NEED_CLUSTER_ADMIN),
    ONE(ADMIN "TransferLeadership", holdfast__v1__member_request, rpc_member_transfer,
        NEED_CLUSTER_ADMIN),
    ONE(HEALTH "Check", grpc__health__v1__health_check_request, rpc_health, NEED_NOTHING),
    {HEALTH "Watch", RPC_ONE, NEED_NOTHING, &grpc__health__v1__health_check_request__descriptor,
     rpc_health_watch, NULL, rpc_health_over, rpc_health_drain},
    REFLECT("/grpc.reflection.v1alpha." REFLECTION),
    REFLECT("/grpc.reflection.v1." REFLECTION), /* has the same messages */
};

const struct rpc_method *rpc_methods(size_t *count)
{
    *count = sizeof(methods) / sizeof(methods[0]);
    return methods;
}
