/* The faults of `holdfast dev --chaos`: which, and when they may be done. */
#include "base_testing.h"

#include "server/dev_chaos.h"

enum { NODES = 5, INTERVAL = 10000 };

static struct dev_cluster cluster;

static struct dev_chaos begin(unsigned nodes, uint64_t seed)
{
    struct dev_chaos chaos;
    dev_cluster_init(&cluster, nodes, 4653, "/nowhere", false);
    for (unsigned i = 0; i < nodes; i++) {
        cluster.nodes[i].pid = (pid_t)(1000 + i); /* no signal is sent */
        cluster.nodes[i].ready = true;
    }
    dev_chaos_begin(&chaos, &cluster, seed, INTERVAL, 0);
    return chaos;
}

static void a_seed_gives_one_sequence(void **state)
{
    struct dev_chaos a = begin(NODES, 7), b = begin(NODES, 7), other = begin(NODES, 8);
    unsigned kills = 0, nodes = 0, same = 0;
    int64_t sum_ms = 0;
    for (unsigned i = 0; i < 1000; i++) {
        struct dev_fault x = dev_chaos_draw(&a, NODES), y = dev_chaos_draw(&b, NODES);
        struct dev_fault z = dev_chaos_draw(&other, NODES);
        assert_true(x.node == y.node && x.is_kill == y.is_kill && x.stop_ms == y.stop_ms &&
                    x.after_ms == y.after_ms);
        assert_true(x.node < NODES && x.stop_ms >= INTERVAL / 4 && x.stop_ms < INTERVAL * 3 / 4);
        assert_true(x.after_ms >= INTERVAL / 2 && x.after_ms < INTERVAL * 3 / 2);
        kills += x.is_kill ? 1 : 0;
        nodes |= 1u << x.node;
        same += x.stop_ms == z.stop_ms ? 1 : 0;
        sum_ms += x.after_ms;
    }
    assert_true(kills > 400 && kills < 600 && nodes == (1u << NODES) - 1 && same < 10);
    assert_true(sum_ms > 950 * INTERVAL && sum_ms < 1050 * INTERVAL);
}

/* How many may be away while one more fault is allowed. */
static unsigned most_away(unsigned nodes)
{
    struct dev_chaos chaos = begin(nodes, 1);
    chaos.planned.node = nodes - 1;
    unsigned away = 0;
    while (dev_chaos_is_allowed(&chaos, &cluster, 0)) {
        assert_true(away < nodes - 1);
        cluster.nodes[away++].pid = 0;
    }
    return away;
}

static void a_majority_serves_always(void **state)
{
    /* The last fault was allowed with one less. */
    assert_int_equal(most_away(3), 1);
    assert_int_equal(most_away(4), 1);
    assert_int_equal(most_away(5), 2);
    assert_int_equal(most_away(6), 2);
    assert_int_equal(most_away(7), 3);
    assert_int_equal(most_away(9), 4);
}

static void a_node_is_away_until_it_serves_again(void **state)
{
    struct dev_chaos chaos = begin(NODES, 1);
    struct dev_node *node = &cluster.nodes[2];
    assert_false(dev_chaos_is_away(&chaos, &cluster, 2, 0));
    chaos.killed[2] = node->pid; /* and not reaped yet */
    assert_true(dev_chaos_is_away(&chaos, &cluster, 2, 0));
    node->pid = 0;
    assert_true(dev_chaos_is_away(&chaos, &cluster, 2, 0));
    node->pid = 2000;
    node->ready = false;
    assert_true(dev_chaos_is_away(&chaos, &cluster, 2, 0));
    node->ready = true;
    assert_false(dev_chaos_is_away(&chaos, &cluster, 2, 0));
    chaos.stopped[2] = node->pid;
    assert_true(dev_chaos_is_away(&chaos, &cluster, 2, 0));
    chaos.stopped[2] = 0;
    chaos.settled_ms[2] = 50 + DEV_CHAOS_SETTLE_MS;
    assert_true(dev_chaos_is_away(&chaos, &cluster, 2, 50));
    assert_false(dev_chaos_is_away(&chaos, &cluster, 2, 50 + DEV_CHAOS_SETTLE_MS));
    chaos.planned.node = 2;
    assert_true(dev_chaos_is_allowed(&chaos, &cluster, 50 + DEV_CHAOS_SETTLE_MS));
    assert_false(dev_chaos_is_allowed(&chaos, &cluster, 50)); /* the node itself is away */
}

static void a_fault_that_has_to_wait_is_not_dropped(void **state)
{
    struct dev_chaos chaos = begin(3, 1);
    unsigned target = chaos.planned.node;
    struct dev_node *node = &cluster.nodes[(target + 1) % 3];
    node->pid = 0;
    node->restart.due_ms = 1;
    int64_t due_ms = chaos.due_ms;
    assert_int_equal(dev_chaos_in_ms(&chaos, &cluster, 0), due_ms);
    dev_chaos_run(&chaos, &cluster, due_ms + 5000);
    assert_true(chaos.planned.node == target && chaos.due_ms == due_ms);
    assert_true(dev_chaos_in_ms(&chaos, &cluster, due_ms) > 0); /* no busy loop */
    /* One that will never start again is left out. */
    cluster.nodes[target].pid = 0;
    cluster.nodes[target].restart.due_ms = 0;
    dev_chaos_run(&chaos, &cluster, due_ms + 5000);
    assert_true(chaos.due_ms > due_ms + 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_seed_gives_one_sequence),
        cmocka_unit_test(a_majority_serves_always),
        cmocka_unit_test(a_node_is_away_until_it_serves_again),
        cmocka_unit_test(a_fault_that_has_to_wait_is_not_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
