/* The circuit breaker of the client: while it is open calls fail at once, and one attempt at a time
 * probes whether an endpoint answers again. */
#include "client_testing.h"

static void the_circuit_opens_and_is_probed_now_and_then(void **state)
{
    struct client_world *w = *state;
    w->refuses[0] = true;
    world_begin(w, "n0:1");
    world_run(w, 1000);
    assert_true(endpoints_all_open(&w->client_engine.endpoints));
    unsigned before = w->dials[0];
    world_run(w, 20000);
    assert_in_range(w->dials[0] - before, 10, 21); /* every one to two seconds */
    world_start(w, 0);
    world_run(w, 2500);
    assert_false(endpoints_all_open(&w->client_engine.endpoints));
    lock_unref(take(w, "a", NULL));
}

static void calls_fail_at_once_while_the_circuit_is_open(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1,n1:1");
    struct hf_lock *lock = take(w, "a", NULL);
    struct hf_lock *other = take(w, "b", NULL);
    w->refuses[1] = true;
    world_kill(w, 0);
    struct hf_call *early = world_acquire(w, "c", NULL);
    assert_false(early->is_done); /* the circuit is closed: it waits for the next attempt */
    world_run(w, 2000);
    assert_true(client_engine_circuit_is_open(&w->client_engine));
    assert_false(early->is_done);
    unsigned before = w->dials[0] + w->dials[1];

    struct hf_call *ticket = world_acquire(w, "d", NULL);
    assert_true(ticket->is_done);
    assert_non_null(strstr(ticket->text, "n0:1 (connection re"));
    assert_non_null(strstr(ticket->text, "n1:1 (connection re"));
    assert_non_null(strstr(ticket->text, "the next attempt is in "));
    assert_int_equal(world_await(w, ticket, 0, NULL), HF_ERR_UNREACHABLE);
    ticket = ticket_new(NULL);
    assert_int_equal(client_engine_renew(&w->client_engine, lock, 0, ticket, w->now_ms), 0);
    assert_int_equal(world_await(w, ticket, 0, NULL), HF_ERR_UNREACHABLE);
    assert_int_equal(world_await(w, world_release(w, lock), 0, NULL), HF_ERR_UNREACHABLE);
    assert_int_equal(w->dials[0] + w->dials[1], before); /* no call brings an attempt forward */

    world_start(w, 0); /* where both locks are; what was begun goes on there */
    world_run(w, 2500);
    assert_false(client_engine_circuit_is_open(&w->client_engine));
    assert_int_equal(fake_holder(&w->nodes[0], "a"), 0);
    assert_int_equal(other->state, LOCK_HELD);
    assert_int_equal(world_await(w, early, 0, &lock), 0);
    lock_unref(lock);
    lock_unref(other);
    lock_unref(take(w, "d", NULL));
}

static void an_open_circuit_is_probed_by_one_attempt_at_a_time(void **state)
{
    struct client_world *w = *state;
    w->refuses[0] = w->refuses[1] = true;
    world_begin(w, "n0:1,n1:1");
    world_run(w, 2000);
    assert_true(client_engine_circuit_is_open(&w->client_engine));
    /* Now connections are made, and nothing is said on them: each attempt lasts a second. */
    world_start(w, 0);
    world_start(w, 1);
    w->stalls_in[0] = w->stalls_in[1] = true;
    unsigned before = w->dials[0] + w->dials[1];
    while (w->dials[0] + w->dials[1] == before) {
        world_run(w, 1);
    }
    world_run(w, 990);
    assert_int_equal(w->dials[0] + w->dials[1], before + 1);
    struct hf_call *ticket = world_acquire(w, "a", NULL);
    assert_non_null(strstr(ticket->text, "one is being tried again"));
    assert_int_equal(world_await(w, ticket, 0, NULL), HF_ERR_UNREACHABLE);
}

static void waiting_for_a_connection_waits_also_while_the_circuit_is_open(void **state)
{
    struct client_world *w = *state;
    w->refuses[0] = true;
    world_begin(w, "n0:1");
    world_run(w, 2000);
    struct hf_call *ticket = ticket_new(NULL);
    client_engine_ready(&w->client_engine, ticket, 5000, w->now_ms);
    assert_false(ticket->is_done);
    world_start(w, 0);
    assert_int_equal(world_await(w, ticket, 2500, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(the_circuit_opens_and_is_probed_now_and_then),
        world_test(calls_fail_at_once_while_the_circuit_is_open),
        world_test(an_open_circuit_is_probed_by_one_attempt_at_a_time),
        world_test(waiting_for_a_connection_waits_also_while_the_circuit_is_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
