/* A node's life that is stopped after every single disk operation: what was acknowledged is there
 * afterwards, in the log, the meta file and the snapshots alike, and they fit together. */
#include "storage_node.h"

static void assert_recovers(struct node *n, uint64_t *openings)
{
    struct problem problem;
    for (int again = 0; again < 2; again++) {
        if (node_open(n, &problem) != STORAGE_OK)
            fail_msg("the folder does not open: %s", problem.text);
        (*openings)++;
        if (!node_is_allowed(n))
            fail_msg("opening %d: term %llu, snapshot %llu, log %llu to %llu", again,
                     (unsigned long long)n->store.meta.state.term,
                     (unsigned long long)(snapshots_newest(n->store.snapshots) == NULL
                                              ? 0
                                              : snapshots_newest(n->store.snapshots)->index),
                     (unsigned long long)log_first(n->store.log),
                     (unsigned long long)log_last(n->store.log));
        if (snapshots_newest(n->store.snapshots) != NULL)
            assert_done(snapshots_verify_newest(n->store.snapshots, &problem));
        for (int i = 0; i < 3; i++)
            assert_done(node_step(n, &problem));
        node_close(n);
        disk_fake_power_cut(n->fake);
    }
}

static void every_crash_point_of_a_node_leaves_what_was_acknowledged(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, __func__);
    uint64_t points = 0, openings = 0, seed = random_next(&random);
    for (uint64_t stop = 0;; stop++, points++) {
        struct node *n = calloc(1, sizeof(*n));
        struct problem problem;
        node_init(n, seed);
        disk_fake_stop_after(n->fake, stop);
        enum storage_status status = node_open(n, &problem);
        for (int i = 0; i < 60 && status == STORAGE_OK; i++)
            status = node_step(n, &problem);
        bool stopped = status != STORAGE_OK;
        assert_true(stopped == disk_fake_has_stopped(n->fake));
        node_close(n);
        for (uint64_t variant = 0; variant < 3 && stopped; variant++) {
            struct node *dead = node_copy(n, seed + stop * 5 + variant);
            if (variant > 0)
                disk_fake_power_cut(dead->fake);
            else
                disk_fake_crash(dead->fake);
            /* And once more while it opens. */
            disk_fake_stop_after(dead->fake, random_below(&random, 30));
            node_open(dead, &problem);
            node_close(dead);
            if (random_below(&random, 2) == 0)
                disk_fake_power_cut(dead->fake);
            else
                disk_fake_crash(dead->fake);
            assert_recovers(dead, &openings);
            node_free(dead);
        }
        node_free(n);
        if (!stopped)
            break;
    }
    printf("           %llu crash points, %llu openings compared\n", (unsigned long long)points,
           (unsigned long long)openings);
}

static void many_lives_lose_and_invent_nothing(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, __func__);
    uint64_t lives = 0;
    for (int round = 0; round < 15; round++) {
        struct node *n = calloc(1, sizeof(*n));
        struct problem problem;
        node_init(n, random_next(&random));
        for (int life = 0; life < 60 && n->now.log.last < NAIVE_MAX - 1200; life++, lives++) {
            disk_fake_stop_after(n->fake, random_below(&random, 120));
            enum storage_status status = node_open(n, &problem);
            bool opened = status == STORAGE_OK;
            if (opened && !node_is_allowed(n))
                fail_msg("life %d is not what it may be", life);
            for (int i = 0; i < 60 && status == STORAGE_OK; i++)
                status = node_step(n, &problem);
            if (status != STORAGE_OK && !disk_fake_has_stopped(n->fake))
                fail_msg("life %d: %s", life, problem.text);
            node_close(n);
            if (random_below(&random, 3) > 0)
                disk_fake_power_cut(n->fake);
            else
                disk_fake_crash(n->fake);
        }
        node_free(n);
    }
    printf("           %llu lives\n", (unsigned long long)lives);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_crash_point_of_a_node_leaves_what_was_acknowledged),
        cmocka_unit_test(many_lives_lose_and_invent_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
