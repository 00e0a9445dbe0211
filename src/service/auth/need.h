/* What a request needs: a column of the three tables of requests (http/router.c, grpc/methods.c,
 * resp/commands.c). A row without one fails a unit test. */
#ifndef HOLDFAST_SERVICE_AUTH_NEED_H
#define HOLDFAST_SERVICE_AUTH_NEED_H

enum need {
    NEED_UNSET,         /* no valid row has it */
    NEED_NOTHING,       /* answered without credentials */
    NEED_CALLER,        /* a known principal, no right */
    NEED_OWNER,         /* the same; the core compares the owner of the session or lease */
    NEED_LOCK,          /* `lock` on each name; the leader checks the command */
    NEED_SESSION,       /* `lock` on some name; the leader checks the command */
    NEED_READ,          /* `read` on each name, after the barrier */
    NEED_ROWS,          /* `read` on some name; other rows are left out */
    NEED_OPERATE,       /* `operate` on the name; the leader checks the command */
    NEED_AUDIT,         /* `operate` on some name; other rows are left out */
    NEED_TENANT_ADMIN,  /* `admin` on the tenant of the principal that the request names */
    NEED_CLUSTER_READ,  /* `read` on all names of all tenants */
    NEED_CLUSTER_ADMIN, /* `admin` on the cluster */
    NEED_COUNT
};

/* "lock", "cluster admin", ... for tables and tests. */
const char *need_name(enum need need);

#endif
