/* The table of gRPC methods. What is called most comes first. */
#include "service/rpc.h"

#define LOCK "/holdfast.v1.LockService/"

#define ONE(path, type, handle)                                      \
    {                                                                \
        path, RPC_ONE, &type##__descriptor, handle, NULL, NULL, NULL \
    }

static const struct rpc_method methods[] = {
    ONE(LOCK "Lock", holdfast__v1__lock_request, rpc_lock),
    ONE(LOCK "Unlock", holdfast__v1__unlock_request, rpc_unlock),
    ONE(LOCK "Renew", holdfast__v1__renew_request, rpc_renew),
    ONE(LOCK "MultiLock", holdfast__v1__multi_lock_request, rpc_multilock),
    ONE(LOCK "CheckFence", holdfast__v1__check_fence_request, rpc_check_fence),
};

const struct rpc_method *rpc_methods(size_t *count)
{
    *count = sizeof(methods) / sizeof(methods[0]);
    return methods;
}
