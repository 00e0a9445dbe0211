/* Prints the tables of requests for test_auth_matrix.py: a line for each row, with tabs between
 * protocol, request and need. */
#include <stdio.h>

#include "service/grpc/rpc.h"
#include "service/http/router.h"
#include "service/resp/commands.h"

static const char *variable_of(enum route_kind kind)
{
    static const char *const names[] = {[ROUTE_EXACT] = "",
                                        [ROUTE_NAME] = "{name}",
                                        [ROUTE_ID] = "{id}",
                                        [ROUTE_MEMBER] = "{member}"};
    return names[kind];
}

static void print_routes(void)
{
    size_t count;
    const struct route *routes = router_table(&count);
    for (size_t i = 0; i < count; i++) {
        const struct route *r = &routes[i];
        printf("http\t%s %s%s%s%s\t%s\n", http_method_text(r->method), r->prefix,
               variable_of(r->kind), r->tail == NULL ? "" : "/", r->tail == NULL ? "" : r->tail,
               need_name(r->need));
    }
}

static void print_methods(void)
{
    size_t count;
    const struct rpc_method *methods = rpc_methods(&count);
    for (size_t i = 0; i < count; i++) {
        printf("grpc\t%s\t%s\n", methods[i].path, need_name(methods[i].need));
    }
}

static void print_commands(void)
{
    uint32_t count;
    const struct resp_command *commands = resp_command_all(&count);
    for (uint32_t i = 0; i < count; i++) {
        printf("resp\t%s\t%s\n", commands[i].name, need_name(commands[i].need));
    }
}

int main(void)
{
    print_routes();
    print_methods();
    print_commands();
    return 0;
}
