/* Finds the handler of a request. */
#ifndef HOLDFAST_SERVICE_HTTP_ROUTER_H
#define HOLDFAST_SERVICE_HTTP_ROUTER_H

#include "service/auth/need.h"
#include "service/request/api_request.h"

enum route_kind {
    ROUTE_EXACT,  /* the path is `prefix` */
    ROUTE_NAME,   /* prefix NAME, or prefix NAME / tail; a name may contain slashes */
    ROUTE_ID,     /* prefix ID, or prefix ID / tail */
    ROUTE_MEMBER, /* the same with the number of a member or a token */
};

struct route {
    enum http_method method;
    enum route_kind kind;
    const char *prefix;
    const char *tail; /* NULL: none */
    void (*handle)(struct api_request *x);
    enum need need;
    const char *const *parameters; /* allowed in the query, NULL-terminated; NULL: none */
};

enum { ROUTER_ALLOW = 64 };

/* `variable`: the name or id in the path, not decoded. NULL: no route; `allow` lists the methods of
 * the path, or is "". */
const struct route *router_find(enum http_method method, struct slice path, struct slice *variable,
                                char allow[ROUTER_ALLOW]);

/* For the test that compares the routes with docs/openapi.yaml. */
const struct route *router_table(size_t *count);

#endif
