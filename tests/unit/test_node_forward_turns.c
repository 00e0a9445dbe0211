/* Tests of the turns that connections take when their calls are sent: how many calls of which
 * connection enter the log, and in which order. */
#include "base_testing.h"

#include "forward_world.h"

enum {
    WINDOW = 128,        /* FORWARD_WINDOW, which is private */
    ALONE = 512,         /* FORWARD_ALONE */
    NODE_WINDOW = 2048,  /* FORWARD_NODE_WINDOW */
    TENANT_WINDOW = 512, /* FORWARD_TENANT_WINDOW */
    TURN = 16,           /* FORWARD_TURN */
    BULK = 1000,         /* calls of a client that pipelines */
};

/* Leases are connection * SCALE + place, so that `fake.leases` shows who entered, and when. */
enum { SCALE = 100000 };

static void request_many(struct forward *f, struct forwarded_call *made, uint64_t source,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        forward_request_of(f, &made[i], source, source * SCALE + i);
    }
}

static uint64_t source_at(uint32_t place)
{
    return fake.leases[place].low / SCALE;
}

static uint32_t count_of(uint64_t source, uint32_t from)
{
    uint32_t count = 0;
    for (uint32_t i = from; i < fake.submitted; i++) {
        count += source_at(i) == source;
    }
    return count;
}

/* Within a connection the order is that of its requests. */
static void assert_in_order(void)
{
    for (uint32_t i = 0; i < fake.submitted; i++) {
        for (uint32_t j = i + 1; j < fake.submitted; j++) {
            if (source_at(i) == source_at(j)) {
                assert_true(fake.leases[i].low < fake.leases[j].low);
                break;
            }
        }
    }
}

static void answer_here(struct forward *f, uint32_t from, uint32_t to)
{
    struct result result = {.token = 1};
    for (uint32_t i = from; i < to; i++) {
        forward_on_result(f, fake.cookies[i], REPLICA_DONE, &result);
    }
}

static void a_pipeline_enters_a_batch_with_its_share_only(void **state)
{
    (void)state;
    struct forwarded_call *bulk = calloc(BULK, sizeof(*bulk));
    struct forwarded_call one[2];
    struct forward *f = forward_begin();
    forward_lead();
    forward_request_of(f, &one[0], 2, UINT64_C(2) * SCALE);
    request_many(f, bulk, 1, BULK);
    forward_run(f);
    assert_int_equal(fake.submitted, WINDOW + 1);
    forward_request_of(f, &one[1], 2,
                       UINT64_C(2) * SCALE + 1); /* it came last, and does not wait */
    forward_run(f);
    assert_int_equal(fake.submitted, WINDOW + 2);
    assert_int_equal(source_at(WINDOW + 1), 2);
    /* Each answer makes space for one more, and no more than that. */
    answer_here(f, 1, 11);
    forward_run(f);
    assert_int_equal(fake.submitted, WINDOW + 12);
    assert_in_order();
    forward_end(f);
    free(bulk);
}

static void a_pipeline_that_is_alone_has_more_until_somebody_else_sends(void **state)
{
    (void)state;
    struct forwarded_call *bulk = calloc(BULK, sizeof(*bulk));
    struct forwarded_call one;
    struct forward *f = forward_begin();
    forward_lead();
    request_many(f, bulk, 1, BULK);
    forward_run(f);
    assert_int_equal(fake.submitted, ALONE);
    forward_request_of(f, &one, 2, UINT64_C(2) * SCALE);
    forward_run(f);
    assert_int_equal(fake.submitted, ALONE + 1);
    answer_here(f, 0, ALONE - WINDOW); /* as many as it has too many by now */
    forward_run(f);
    assert_int_equal(fake.submitted, ALONE + 1);
    answer_here(f, ALONE - WINDOW, ALONE - WINDOW + 5);
    forward_run(f);
    assert_int_equal(fake.submitted, ALONE + 1 + 5);
    forward_pass(f, 200); /* nobody else sent anything for a while */
    assert_int_equal(count_of(1, 0), ALONE - WINDOW + 5 + ALONE);
    forward_end(f);
    free(bulk);
}

/* Clients of other nodes count as well. */
static void a_request_of_another_node_ends_being_alone(void **state)
{
    (void)state;
    struct forwarded_call *bulk = calloc(BULK, sizeof(*bulk));
    uint8_t bytes[512];
    struct forward *f = forward_begin();
    forward_lead();
    assert_true(
        forward_on_request(f, 2, 10, 77, COMMAND, forward_encode_acquire(bytes, sizeof(bytes))));
    request_many(f, bulk, 1, BULK);
    forward_run(f);
    assert_int_equal(fake.submitted, WINDOW + 1);
    forward_end(f);
    free(bulk);
}

static void all_of_a_pipeline_is_done_in_order(void **state)
{
    (void)state;
    struct forwarded_call *bulk = calloc(BULK, sizeof(*bulk));
    struct forward *f = forward_begin();
    forward_lead();
    request_many(f, bulk, 1, BULK);
    for (uint32_t answered = 0; answered < BULK;) {
        forward_run(f);
        assert_true(fake.submitted > answered);
        uint32_t submitted = fake.submitted;
        answer_here(f, answered, submitted);
        answered = submitted;
    }
    for (uint32_t i = 0; i < BULK; i++) {
        assert_int_equal(bulk[i].answers, 1);
    }
    assert_in_order();
    assert_int_equal(forward_outstanding(f), 0);
    forward_end(f);
    free(bulk);
}

static void connections_take_turns_of_the_same_size(void **state)
{
    (void)state;
    enum { CONNECTIONS = 3 };
    struct forwarded_call *bulk = calloc((size_t)CONNECTIONS * BULK, sizeof(*bulk));
    struct forward *f = forward_begin();
    forward_lead();
    for (uint64_t i = 0; i < CONNECTIONS; i++) {
        request_many(f, bulk + i * BULK, i + 1, BULK);
    }
    forward_run(f);
    assert_int_equal(fake.submitted, CONNECTIONS * WINDOW);
    for (uint32_t i = 0; i < fake.submitted; i++) {
        assert_int_equal(source_at(i), 1 + i / TURN % CONNECTIONS);
    }
    assert_in_order();
    forward_end(f);
    free(bulk);
}

/* When the window of the node is full, who has waited longest has its turn first. */
static void a_node_with_many_pipelines_serves_each_in_turn(void **state)
{
    (void)state;
    enum { CONNECTIONS = 2 * NODE_WINDOW / WINDOW, CALLS = 2 * WINDOW };
    struct forwarded_call *bulk = calloc((size_t)CONNECTIONS * CALLS, sizeof(*bulk));
    struct forward *f = forward_begin();
    forward_lead();
    for (uint64_t i = 0; i < CONNECTIONS; i++) {
        request_many(f, bulk + i * CALLS, i + 1, CALLS);
    }
    forward_run(f);
    assert_int_equal(fake.submitted, NODE_WINDOW);
    for (uint64_t i = 0; i < CONNECTIONS; i++) {
        assert_int_equal(count_of(i + 1, 0), NODE_WINDOW / CONNECTIONS);
    }
    answer_here(f, 0, NODE_WINDOW);
    forward_run(f);
    assert_int_equal(fake.submitted, 2 * NODE_WINDOW);
    for (uint64_t i = 0; i < CONNECTIONS; i++) {
        assert_int_equal(count_of(i + 1, NODE_WINDOW), NODE_WINDOW / CONNECTIONS);
    }
    forward_end(f);
    free(bulk);
}

static void a_follower_takes_turns_between_its_connections_too(void **state)
{
    (void)state;
    struct forwarded_call *bulk = calloc(BULK, sizeof(*bulk));
    struct forwarded_call one;
    struct forward *f = forward_begin();
    forward_follow(f, 3);
    request_many(f, bulk, 1, BULK);
    forward_run(f);
    assert_int_equal(fake.requests, WINDOW);
    forward_request_of(f, &one, 2, UINT64_C(2) * SCALE);
    forward_run(f);
    assert_int_equal(fake.requests, WINDOW + 1);
    forward_answer_remotely(f, WINDOW, DONE, 5);
    assert_int_equal(one.result.token, 5);
    forward_answer_remotely(f, 0, DONE, 6);
    forward_run(f);
    assert_int_equal(fake.requests, WINDOW + 2);
    /* Another leader gets no more than that, either. */
    forward_follow(f, 2);
    forward_run(f);
    assert_int_equal(fake.requests, 2 * WINDOW + 2);
    forward_end(f);
    free(bulk);
}

static void what_the_node_itself_submits_waits_for_no_turn(void **state)
{
    (void)state;
    struct forwarded_call *bulk = calloc(2 * BULK, sizeof(*bulk));
    struct forward *f = forward_begin();
    forward_lead();
    request_many(f, bulk, 1, BULK);
    request_many(f, bulk + BULK, 0, BULK);
    forward_run(f);
    assert_int_equal(count_of(0, 0), BULK);
    assert_int_equal(count_of(1, 0), ALONE);
    assert_int_equal(source_at(TURN), 0); /* what a connection may send at once was there before */
    forward_end(f);
    free(bulk);
}

static void what_never_had_its_turn_is_busy(void **state)
{
    (void)state;
    struct forwarded_call *bulk = calloc(BULK, sizeof(*bulk));
    struct forward *f = forward_begin();
    forward_lead();
    request_many(f, bulk, 1, BULK);
    forward_pass(f, 3100);
    assert_int_equal(bulk[0].error, HF_OUTCOME_UNKNOWN);
    assert_int_equal(bulk[ALONE].error, HF_BUSY);
    answer_here(f, 0, ALONE);
    forward_end(f);
    free(bulk);
}

/* A tenant with many connections gets no more than one with a single connection. */
static void tenants_take_turns_whatever_their_connections(void **state)
{
    (void)state;
    enum { CONNECTIONS = 3, CALLS = 8 * TURN };
    struct forwarded_call *bulk = calloc((size_t)(CONNECTIONS + 1) * CALLS, sizeof(*bulk));
    struct forward *f = forward_begin();
    forward_lead();
    for (uint64_t i = 0; i <= CONNECTIONS; i++) {
        fake.tenant = i == CONNECTIONS ? 2 : 1;
        request_many(f, bulk + i * CALLS, i + 1, CALLS);
    }
    uint32_t before = fake.submitted; /* the first turn of the first tenant, sent at once */
    forward_run(f);
    for (uint32_t i = before; i < before + 6 * TURN; i++) {
        bool is_second = source_at(i) == CONNECTIONS + 1;
        assert_int_equal(is_second, (i - before) / TURN % 2 == 0);
    }
    assert_in_order();
    forward_end(f);
    free(bulk);
}

/* Calls of one tenant that wait for its window do not delay those of another. */
static void a_tenant_that_floods_has_its_window_only(void **state)
{
    (void)state;
    enum { CONNECTIONS = 2 * NODE_WINDOW / WINDOW, CALLS = WINDOW };
    struct forwarded_call *bulk = calloc((size_t)CONNECTIONS * CALLS, sizeof(*bulk));
    struct forwarded_call one[2];
    struct forward *f = forward_begin();
    forward_lead();
    fake.tenant = 2;
    forward_request_of(f, &one[0], CONNECTIONS + 1, (uint64_t)(CONNECTIONS + 1) * SCALE);
    fake.tenant = 1;
    for (uint64_t i = 0; i < CONNECTIONS; i++) {
        request_many(f, bulk + i * CALLS, i + 1, CALLS);
    }
    forward_run(f);
    assert_int_equal(fake.submitted, TENANT_WINDOW + 1);
    fake.tenant = 2;
    forward_request_of(f, &one[1], CONNECTIONS + 1, (uint64_t)(CONNECTIONS + 1) * SCALE + 1);
    forward_run(f);
    assert_int_equal(fake.submitted, TENANT_WINDOW + 2);
    assert_int_equal(source_at(TENANT_WINDOW + 1), CONNECTIONS + 1);
    forward_pass(f, 200); /* the other tenant sent nothing for a while */
    assert_int_equal(fake.submitted, NODE_WINDOW);
    forward_end(f);
    free(bulk);
}

/* Queues of tenants without calls are used again. */
static void ten_thousand_tenants_need_bounded_memory(void **state)
{
    (void)state;
    struct forwarded_call made;
    struct forward *f = forward_begin();
    forward_lead();
    for (uint32_t i = 1; i <= 10000; i++) {
        fake.tenant = i;
        fake.submitted = 0;
        forward_request_of(f, &made, 1, i);
        forward_run(f);
        answer_here(f, 0, 1);
        assert_int_equal(made.answers, 1);
    }
    assert_in_range(forward_memory_in_use(), 1, 32 << 20);
    forward_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pipeline_enters_a_batch_with_its_share_only),
        cmocka_unit_test(a_pipeline_that_is_alone_has_more_until_somebody_else_sends),
        cmocka_unit_test(a_request_of_another_node_ends_being_alone),
        cmocka_unit_test(all_of_a_pipeline_is_done_in_order),
        cmocka_unit_test(connections_take_turns_of_the_same_size),
        cmocka_unit_test(a_node_with_many_pipelines_serves_each_in_turn),
        cmocka_unit_test(a_follower_takes_turns_between_its_connections_too),
        cmocka_unit_test(what_the_node_itself_submits_waits_for_no_turn),
        cmocka_unit_test(what_never_had_its_turn_is_busy),
        cmocka_unit_test(tenants_take_turns_whatever_their_connections),
        cmocka_unit_test(a_tenant_that_floods_has_its_window_only),
        cmocka_unit_test(ten_thousand_tenants_need_bounded_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
