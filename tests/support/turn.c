/* The turns of turn.h. */
#include "base_testing.h"

#include "turn.h"

struct service *turn_begin(struct fake_gateway *gateway, const struct memory *memory,
                           const struct service_options *more)
{
    struct service_options options = {.memory = NULL};
    fake_gateway_open(gateway);
    if (more != NULL) {
        options = *more;
    }
    options.memory = memory;
    if (options.server_names == NULL) {
        options.server_names = "*"; /* most tests are not about Host */
    }
    options.gateway = gateway->gateway;
    gateway->service = service_new(&options);
    return gateway->service;
}

void turn_run(const struct turn *t)
{
    const struct fake_gateway *g = t->gateway;
    bool any = true;
    for (int rounds = 0; any; rounds++) {
        assert_true(rounds < 100000);
        any = fake_gateway_deliver(t->gateway);
        service_run(t->service);
        t->visit(t->world);
        any = any || service_next_ms(t->service) <= g->boot_ms ||
              (!g->is_held && !g->is_late && g->first != NULL);
    }
}

/* How long nothing is due, of this many milliseconds. */
static uint64_t quiet_ms(const struct turn *t, uint64_t most)
{
    const struct fake_gateway *g = t->gateway;
    uint64_t service_due = service_next_ms(t->service);
    uint64_t core_due = core_next_due_ms(g->core);
    if (service_due > g->boot_ms && service_due - g->boot_ms < most) {
        most = service_due - g->boot_ms;
    }
    if (core_due > g->cluster_ms && core_due - g->cluster_ms < most) {
        most = core_due - g->cluster_ms;
    }
    return most;
}

void turn_pass(const struct turn *t, uint64_t ms)
{
    uint64_t end_ms = t->gateway->boot_ms + ms;
    turn_run(t);
    while (t->gateway->boot_ms < end_ms) {
        fake_gateway_pass(t->gateway, quiet_ms(t, end_ms - t->gateway->boot_ms));
        turn_run(t);
    }
}
