/* Every request has a row that says what it needs (src/service/auth/need.h). */
#include "base_testing.h"

#include "service/auth/need.h"
#include "service/grpc/rpc.h"
#include "service/http/router.h"
#include "service/resp/commands.h"

static bool is_set(enum need need)
{
    return need > NEED_UNSET && need < NEED_COUNT;
}

static void every_route_has_a_need(void **state)
{
    size_t count;
    const struct route *routes = router_table(&count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        if (!is_set(routes[i].need)) {
            fail_msg("%s has no need", routes[i].prefix);
        }
    }
}

static void every_grpc_method_has_a_need(void **state)
{
    size_t count;
    const struct rpc_method *methods = rpc_methods(&count);
    assert_true(count > 0);
    for (size_t i = 0; i < count; i++) {
        if (!is_set(methods[i].need)) {
            fail_msg("%s has no need", methods[i].path);
        }
    }
}

static void every_redis_command_has_a_need(void **state)
{
    uint32_t count;
    const struct resp_command *commands = resp_command_all(&count);
    assert_true(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        bool is_open = (commands[i].flags & RESP_NO_AUTH) != 0;
        if (!is_set(commands[i].need)) {
            fail_msg("%s has no need", commands[i].name);
        }
        assert_true(is_open == (commands[i].need == NEED_NOTHING));
    }
}

static void every_need_has_a_name(void **state)
{
    for (int need = NEED_UNSET; need < NEED_COUNT; need++) {
        assert_true(need_name((enum need)need)[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_route_has_a_need),
        cmocka_unit_test(every_grpc_method_has_a_need),
        cmocka_unit_test(every_redis_command_has_a_need),
        cmocka_unit_test(every_need_has_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
