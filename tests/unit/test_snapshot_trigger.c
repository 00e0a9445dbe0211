/* When a snapshot is taken (S12.5): after so much log, which follows the size of the last one and
 * differs from node to node. */
#include "base_testing.h"

#include "node/snapshot/snapshot_child.h"
#include "replica_alone.h"

#define MIB (UINT64_C(1) << 20)

static void the_trigger_is_twice_the_last_snapshot_but_not_less_than_configured(void **state)
{
    (void)state;
    assert_true(snapshot_trigger_bytes(64 * MIB, 0, 8) == 64 * MIB);
    assert_true(snapshot_trigger_bytes(64 * MIB, 32 * MIB, 8) == 64 * MIB);
    assert_true(snapshot_trigger_bytes(64 * MIB, 100 * MIB, 8) == 200 * MIB);
    assert_true(snapshot_trigger_bytes(64 * MIB, UINT64_MAX, 8) >= UINT64_MAX / 2);
}

static void no_two_nodes_have_the_same_trigger(void **state)
{
    (void)state;
    for (uint64_t a = 1; a <= 8; a++) {
        for (uint64_t b = 1; b < a; b++) {
            uint64_t one = snapshot_trigger_bytes(64 * MIB, 100 * MIB, a);
            uint64_t other = snapshot_trigger_bytes(64 * MIB, 100 * MIB, b);
            assert_true(one >= other ? one - other >= 4 * MIB : other - one >= 4 * MIB);
        }
        assert_true(snapshot_trigger_bytes(64 * MIB, 0, a) < 96 * MIB);
    }
}

/* Batches until a snapshot is requested, on a node that is its own cluster. */
static int batches_until_taken(struct alone *a)
{
    int takes = a->takes;
    int batches = 0;
    while (a->takes == takes && batches < 1000) {
        alone_submit(a);
        alone_all_written(a);
        batches++;
    }
    return batches;
}

/* Its first batch is one millisecond of cluster time after its lead (S16.1). */
static void open_serving(struct alone *a)
{
    alone_open(a, 1);
    alone_all_written(a);
    assert_true(a->replica->serving);
    alone_pass_us(a, 1000);
}

static void a_larger_snapshot_is_followed_by_more_log(void **state)
{
    (void)state;
    struct alone a;
    open_serving(&a);
    replica_set_snapshot_bytes(a.replica, 2000);
    int first = batches_until_taken(&a);
    assert_true(first > 10 && first < 100);
    replica_set_snapshot_bytes(a.replica, 8000); /* it has become four times as large */
    replica_snapshot_taken(a.replica, a.about.index, a.now);
    int second = batches_until_taken(&a);
    assert_true(second > 3 * first && second < 6 * first);
    replica_set_snapshot_bytes(a.replica, 2000); /* the locks are gone again */
    replica_snapshot_taken(a.replica, a.about.index, a.now);
    int third = batches_until_taken(&a);
    assert_true(third < 2 * first);
    alone_close(&a);
}

static void one_that_failed_is_tried_again_without_waiting_for_more_log(void **state)
{
    (void)state;
    struct alone a;
    open_serving(&a);
    replica_set_snapshot_bytes(a.replica, 2000);
    assert_true(batches_until_taken(&a) > 10);
    replica_snapshot_failed(a.replica, a.now);
    assert_int_equal(batches_until_taken(&a), 1);
    alone_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_trigger_is_twice_the_last_snapshot_but_not_less_than_configured),
        cmocka_unit_test(no_two_nodes_have_the_same_trigger),
        cmocka_unit_test(a_larger_snapshot_is_followed_by_more_log),
        cmocka_unit_test(one_that_failed_is_tried_again_without_waiting_for_more_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
