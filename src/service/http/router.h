/* Which handler a request belongs to, by method and path. */
#ifndef HOLDFAST_SERVICE_HTTP_ROUTER_H
#define HOLDFAST_SERVICE_HTTP_ROUTER_H

#include "service/request/api_request.h"

enum route_kind {
    ROUTE_EXACT,  /* the path is `prefix` */
    ROUTE_NAME,   /* prefix NAME, or prefix NAME / tail: a name may hold slashes */
    ROUTE_ID,     /* prefix ID, or prefix ID / tail */
    ROUTE_MEMBER, /* the same with the number of a member */
};

struct route {
    enum http_method method;
    enum route_kind kind;
    const char *prefix;
    const char *tail; /* NULL: none */
    void (*handle)(struct api_request *x);
    const char *const *parameters; /* that the query may have, ends with NULL; NULL: none */
};

enum { ROUTER_ALLOW = 48 };

/* The route and what stands in the path for its name or id, as it was sent. NULL when there is
 * none; `allow` then lists the methods that the path has, and is "" when it has none. */
const struct route *router_find(enum http_method method, struct slice path, struct slice *variable,
                                char allow[ROUTER_ALLOW]);

/* All routes, for the test that compares them with docs/openapi.yaml. */
const struct route *router_table(size_t *count);

#endif
