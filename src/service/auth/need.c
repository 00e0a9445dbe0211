/* See need.h. */
#include "service/auth/need.h"

#include "base/panic.h"

const char *need_name(enum need need)
{
    static const char *const names[NEED_COUNT] = {
        [NEED_UNSET] = "unset",
        [NEED_NOTHING] = "nothing",
        [NEED_CALLER] = "caller",
        [NEED_OWNER] = "owner",
        [NEED_LOCK] = "lock",
        [NEED_SESSION] = "session",
        [NEED_READ] = "read",
        [NEED_ROWS] = "rows",
        [NEED_OPERATE] = "operate",
        [NEED_AUDIT] = "audit",
        [NEED_TENANT_ADMIN] = "tenant_admin",
        [NEED_CLUSTER_READ] = "cluster_read",
        [NEED_CLUSTER_ADMIN] = "cluster_admin",
    };
    hf_assert(need < NEED_COUNT && names[need] != 0);
    return names[need];
}
