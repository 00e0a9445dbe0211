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

#define ONE(path, type, handle)                                      \
    {                                                                \
        path, RPC_ONE, &type##__descriptor, handle, NULL, NULL, NULL \
    }
#define REFLECT(path)                                                                      \
    {                                                                                      \
        path, RPC_MANY, &grpc__reflection__v1alpha__server_reflection_request__descriptor, \
            rpc_reflection, rpc_reflection_end, NULL, rpc_reflection_drain                 \
    }

static const struct rpc_method methods[] = {
    ONE(LOCK "Lock", holdfast__v1__lock_request, rpc_lock),
    ONE(LOCK "Unlock", holdfast__v1__unlock_request, rpc_unlock),
    ONE(LOCK "Renew", holdfast__v1__renew_request, rpc_renew),
    {LOCK "Session", RPC_MANY, &holdfast__v1__session_request__descriptor, rpc_session,
     session_call_end, session_call_over, session_call_drain},
    ONE(LOCK "MultiLock", holdfast__v1__multi_lock_request, rpc_multilock),
    ONE(LOCK "Watch", holdfast__v1__watch_request, rpc_watch),
    ONE(LOCK "CheckFence", holdfast__v1__check_fence_request, rpc_check_fence),
    ONE(ELECTION "Campaign", holdfast__v1__campaign_request, rpc_campaign),
    ONE(ELECTION "Proclaim", holdfast__v1__proclaim_request, rpc_proclaim),
    ONE(ELECTION "Resign", holdfast__v1__resign_request, rpc_resign),
    ONE(ELECTION "Leader", holdfast__v1__leader_request, rpc_leader),
    ONE(ELECTION "Observe", holdfast__v1__leader_request, rpc_observe),
    ONE(ADMIN "List", holdfast__v1__list_request, rpc_list),
    ONE(ADMIN "Show", holdfast__v1__show_request, rpc_show),
    ONE(ADMIN "Sessions", holdfast__v1__sessions_request, rpc_sessions),
    ONE(ADMIN "ForceUnlock", holdfast__v1__force_unlock_request, rpc_force_unlock),
    ONE(ADMIN "Revoke", holdfast__v1__revoke_request, rpc_revoke),
    ONE(ADMIN "ResetFence", holdfast__v1__reset_fence_request, rpc_reset_fence),
    ONE(ADMIN "Audit", holdfast__v1__audit_request, rpc_audit),
    ONE(ADMIN "Cluster", holdfast__v1__cluster_request, rpc_cluster),
    ONE(ADMIN "AddMember", holdfast__v1__add_member_request, rpc_member_add),
    ONE(ADMIN "PromoteMember", holdfast__v1__member_request, rpc_member_promote),
    ONE(ADMIN "DemoteMember", holdfast__v1__member_request, rpc_member_demote),
    ONE(ADMIN "RemoveMember", holdfast__v1__member_request, rpc_member_remove),
    ONE(ADMIN "TransferLeadership", holdfast__v1__member_request, rpc_member_transfer),
    ONE(HEALTH "Check", grpc__health__v1__health_check_request, rpc_health),
    {HEALTH "Watch", RPC_ONE, &grpc__health__v1__health_check_request__descriptor, rpc_health_watch,
     NULL, rpc_health_over, rpc_health_drain},
    REFLECT("/grpc.reflection.v1alpha." REFLECTION),
    REFLECT("/grpc.reflection.v1." REFLECTION), /* has the same messages */
};

const struct rpc_method *rpc_methods(size_t *count)
{
    *count = sizeof(methods) / sizeof(methods[0]);
    return methods;
}
