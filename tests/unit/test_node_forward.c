/* Tests of forwarding: the states of a call, with a replica and peers that the test controls. What
 * counts is S8.4: UNAVAILABLE only when it was surely done nowhere. */
#include "base_testing.h"

#include "forward_world.h"

/* ---- here ---- */

static void on_the_leader_it_is_submitted_and_answered(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    forward_lead();
    forward_request(f, &a, 7);
    forward_run(f);
    assert_int_equal(fake.submitted, 1);
    assert_int_equal(fake.leases[0].low, 7);
    struct result result = {.token = 42};
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &result);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_OK);
    assert_int_equal(a.result.token, 42);
    assert_int_equal(forward_outstanding(f), 0);
    forward_end(f);
}

static void a_busy_replica_gets_it_later_and_in_order(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    struct forwarded_call b;
    forward_lead();
    fake.submit_error = HF_BUSY;
    forward_request(f, &a, 1);
    forward_request(f, &b, 2);
    forward_run(f);
    assert_int_equal(fake.submitted, 0);
    fake.submit_error = HF_OK;
    forward_pass(f, 20);
    assert_int_equal(fake.submitted, 2);
    assert_int_equal(fake.leases[0].low, 1);
    assert_int_equal(fake.leases[1].low, 2);
    forward_end(f);
}

static void what_was_not_done_here_is_tried_at_the_next_leader(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    forward_lead();
    forward_request(f, &a, 1);
    forward_run(f);
    forward_follow(f, 2);
    forward_on_result(f, fake.cookies[0], REPLICA_NOT_DONE, NULL);
    forward_run(f);
    assert_int_equal(fake.requests, 1);
    assert_int_equal(fake.peers[0], 2);
    forward_answer_remotely(f, 0, DONE, 43);
    assert_int_equal(a.result.token, 43);
    forward_end(f);
}

static void after_lost_leadership_the_first_to_tell_wins(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    forward_lead();
    forward_request(f, &a, 1);
    forward_run(f);
    forward_follow(f, 2); /* in flight here: the outcome is not known */
    forward_run(f);
    assert_int_equal(fake.requests, 1);
    struct result result = {.token = 44};
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &result);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.result.token, 44);
    forward_answer_remotely(f, 0, DONE, 45); /* too late, and not reported twice */
    assert_int_equal(a.answers, 1);
    forward_end(f);
}

/* ---- there ---- */

static void a_follower_sends_it_to_the_leader(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    forward_follow(f, 3);
    forward_request(f, &a, 1);
    forward_run(f);
    assert_int_equal(fake.requests, 1);
    assert_int_equal(fake.peers[0], 3);
    assert_int_equal(fake.kinds[0], COMMAND);
    assert_true(forward_on_answer(f, 4, fake.numbers[0], DONE, slice_of("")));
    assert_int_equal(a.answers, 0); /* another node has no say in it */
    forward_answer_remotely(f, 0, DONE, 46);
    assert_int_equal(a.result.token, 46);
    forward_end(f);
}

/* During a rolling upgrade: the leader could not read it. */
static void a_command_that_the_leaders_program_does_not_support_is_refused(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call refused = {.call = {.done = forward_on_done, .owner = &refused}};
    struct forwarded_call sent;
    struct command reset;
    command_init(&reset, COMMAND_FENCE_RESET);
    reset.fence_reset.resource = slice_of("disk/1");
    fake.peer_version = 3;
    forward_follow(f, 3);
    forward_submit(f, &reset, &refused.call);
    forward_request(f, &sent, 1);
    forward_run(f);
    assert_int_equal(refused.answers, 1);
    assert_int_equal(refused.error, HF_OK);
    assert_int_equal(refused.result.error, HF_NOT_UPGRADED);
    assert_int_equal(fake.requests, 1); /* the other command is sent, in a format of version 3 */
    assert_int_equal(fake.formats[0], record_format(3));
    fake.peer_version = CORE_VERSION;
    refused = (struct forwarded_call){.call = {.done = forward_on_done, .owner = &refused}};
    forward_submit(f, &reset, &refused.call);
    forward_run(f);
    assert_int_equal(fake.requests, 2);
    assert_int_equal(refused.answers, 0);
    forward_answer_remotely(f, 0, DONE, 47);
    forward_answer_remotely(f, 1, DONE, 48);
    forward_end(f);
}

static void a_broken_link_means_the_same_bytes_once_more(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    forward_follow(f, 3);
    forward_request(f, &a, 1);
    forward_run(f);
    fake.link_up = false;
    forward_on_down(f, 3);
    forward_run(f);
    assert_int_equal(fake.requests, 1);
    fake.link_up = true;
    forward_pass(f, 40);
    assert_int_equal(fake.requests, 2);
    assert_true(fake.numbers[0] != fake.numbers[1]);
    forward_answer_remotely(f, 0, DONE, 1); /* of the older attempt: nobody listens any more */
    assert_int_equal(a.answers, 0);
    forward_answer_remotely(f, 1, DONE, 47);
    assert_int_equal(a.result.token, 47);
    forward_end(f);
}

static void another_leader_gets_the_request_without_waiting_for_the_old_one(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    forward_follow(f, 3);
    forward_request(f, &a, 1);
    forward_run(f);
    forward_follow(f, 4);
    forward_run(f);
    assert_int_equal(fake.requests, 2);
    assert_int_equal(fake.peers[1], 4);
    forward_answer_remotely(f, 1, DONE, 48);
    assert_int_equal(a.result.token, 48);
    forward_end(f);
}

static void what_came_to_nothing_everywhere_is_unavailable(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    forward_follow(f, 0);
    forward_request(f, &a, 1);
    forward_pass(f, 2900);
    assert_int_equal(a.answers, 0);
    forward_pass(f, 200);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_UNAVAILABLE);
    /* The next one need not wait: there is no leader, and has been none for long. */
    forward_request(f, &a, 2);
    forward_run(f);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_UNAVAILABLE);
    forward_end(f);
}

/* A wait is answered soon after its end, also where no leader can be reached. */
static void who_cannot_wait_long_is_answered_sooner(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct command command;
    struct forwarded_call short_one = {.call = {.done = forward_on_done, .within_ms = 500}};
    struct forwarded_call long_one = {.call = {.done = forward_on_done, .within_ms = 60000}};
    short_one.call.owner = &short_one;
    long_one.call.owner = &long_one;
    forward_make_acquire(&command, 1);
    forward_submit(f, &command, &short_one.call);
    forward_submit(f, &command, &long_one.call);
    forward_pass(f, 480);
    assert_int_equal(short_one.answers, 0);
    forward_pass(f, 40);
    assert_int_equal(short_one.answers, 1);
    assert_int_equal(short_one.error, HF_UNAVAILABLE);
    forward_pass(f, 2400); /* the limit of every request is three seconds */
    assert_int_equal(long_one.answers, 0);
    forward_pass(f, 200);
    assert_int_equal(long_one.answers, 1);
    forward_end(f);
}

static void refusals_leave_no_doubt(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    forward_follow(f, 3);
    forward_request(f, &a, 1);
    forward_run(f);
    forward_answer_remotely(f, 0, NOT_DONE, 0);
    forward_follow(f, 0);
    forward_pass(f, 3100);
    assert_int_equal(a.error, HF_UNAVAILABLE);
    forward_end(f);
}

static void what_may_have_been_done_is_outcome_unknown(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        struct forward *f = forward_begin();
        struct forwarded_call a;
        forward_follow(f, 3);
        if (way == 3) {
            forward_lead();
        }
        forward_request(f, &a, 1);
        forward_run(f);
        if (way == 0) { /* sent, and never answered */
            forward_pass(f, 20);
        } else if (way == 1) { /* the link broke */
            fake.link_up = false;
            forward_on_down(f, 3);
        } else if (way == 2) { /* the leader itself does not know */
            forward_answer_remotely(f, 0, UNKNOWN, 0);
        } /* or it is in flight here */
        forward_follow(f, 0);
        forward_pass(f, 3100);
        assert_int_equal(a.answers, 1);
        assert_int_equal(a.error, HF_OUTCOME_UNKNOWN);
        if (way == 3) { /* the replica tells at last: no request is sent */
            forward_on_result(f, fake.cookies[0], REPLICA_NOT_DONE, NULL);
        }
        assert_int_equal(a.answers, 1);
        forward_end(f);
    }
}

static void an_operators_command_without_a_request_id_is_not_sent_twice(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct command command;
    struct forwarded_call a = {.call = {.done = forward_on_done, .owner = &a}};
    command_init(&command, COMMAND_FORCE_UNLOCK);
    command.force_unlock.name = slice_of("name");
    command.force_unlock.actor = slice_of("actor");
    command.force_unlock.reason = slice_of("reason");
    forward_follow(f, 3);
    forward_submit(f, &command, &a.call);
    forward_run(f);
    assert_int_equal(fake.requests, 1);
    forward_on_down(f, 3);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_OUTCOME_UNKNOWN);
    forward_end(f);
}

static void an_acquire_that_counts_is_sent_twice_only_with_a_request_id(void **state)
{
    (void)state;
    for (int has_id = 0; has_id < 2; has_id++) {
        struct forward *f = forward_begin();
        struct command command;
        struct forwarded_call a = {.call = {.done = forward_on_done, .owner = &a}};
        command_init(&command, COMMAND_ACQUIRE);
        command.session = (struct id){1, 2};
        command.acquire.lease = (struct id){3, 4};
        command.acquire.names = (struct names){.count = 1, .at = {slice_of("name")}};
        command.acquire.flags = ACQUIRE_REENTRANT;
        command.request_id = has_id ? slice_of("id") : slice_make(NULL, 0);
        forward_follow(f, 3);
        forward_submit(f, &command, &a.call);
        forward_run(f);
        assert_int_equal(fake.requests, 1);
        forward_on_down(f, 3);
        assert_int_equal(a.answers, !has_id);
        if (!has_id) {
            assert_int_equal(a.error, HF_OUTCOME_UNKNOWN);
        }
        forward_follow(f, 4);
        forward_run(f);
        assert_int_equal(fake.requests, has_id ? 2 : 1);
        forward_end(f);
    }
}

/* ---- barriers ---- */

static void a_barrier_on_a_follower_waits_for_its_own_state(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    forward_follow(f, 3);
    fake.core_index = 99;
    forward_request_barrier(f, &a);
    forward_run(f);
    assert_int_equal(fake.kinds[0], BARRIER);
    static const uint8_t index[8] = {101};
    assert_true(forward_on_answer(f, 3, fake.numbers[0], DONE, slice_make(index, 8)));
    forward_run(f);
    assert_int_equal(a.answers, 0);
    fake.core_index = 101;
    forward_run(f);
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.error, HF_OK);
    assert_false(a.has_result);
    forward_end(f);
}

static void a_barrier_that_is_not_reached_is_unavailable_and_never_unknown(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    forward_lead();
    forward_request_barrier(f, &a);
    forward_run(f);
    assert_int_equal(fake.barriers, 1);
    forward_follow(f, 0);
    forward_on_barrier(f, fake.cookies[0], false);
    forward_pass(f, 3100);
    assert_int_equal(a.error, HF_UNAVAILABLE);
    forward_end(f);
}

/* ---- the first command, and a full disk ---- */

static void everything_waits_for_the_first_command(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call first = {.call = {.done = forward_on_done, .owner = &first}};
    struct forwarded_call a;
    struct command gone;
    command_init(&gone, COMMAND_NODE_GONE);
    gone.node_gone.node = 1;
    forward_lead();
    forward_submit_first(f, &gone, &first.call);
    forward_request(f, &a, 1);
    forward_run(f);
    assert_int_equal(fake.submitted, 1);
    struct result result = {.token = 0};
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &result);
    assert_int_equal(first.answers, 1);
    forward_run(f);
    assert_int_equal(fake.submitted, 2);
    forward_end(f);
}

static void a_full_disk_refuses_commands_and_lets_reads_through(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    struct forwarded_call read;
    forward_lead();
    forward_set_read_only(f, true, false);
    forward_request(f, &a, 1);
    forward_request_barrier(f, &read);
    forward_run(f);
    assert_int_equal(fake.barriers, 1);
    assert_int_equal(fake.submitted, 1);
    forward_on_barrier(f, fake.cookies[0], true);
    assert_int_equal(read.error, HF_OK);
    assert_int_equal(read.answers, 1);
    assert_int_equal(a.answers, 0); /* another node may lead soon */
    forward_pass(f, 3100);
    assert_int_equal(a.error, HF_DISK_FULL);
    forward_set_read_only(f, true, true);
    forward_request(f, &a, 2);
    forward_run(f);
    assert_int_equal(a.error, HF_DISK_FULL); /* there is no other */
    forward_end(f);
}

/* ---- requests of other nodes ---- */

static void a_forwarded_command_is_submitted_and_its_result_relayed(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    uint8_t buffer[512];
    forward_lead();
    assert_true(forward_on_request(f, 2, 10, 77, COMMAND, forward_encode_acquire(buffer, 512)));
    assert_int_equal(fake.leases[0].low, 5);
    struct result result = {.type = COMMAND_ACQUIRE, .token = 50};
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &result);
    assert_int_equal(fake.answer_status, DONE);
    struct result_scratch scratch;
    assert_true(result_decode(buffer_bytes(&fake.answer_body), &scratch, &result));
    assert_int_equal(result.token, 50);
    forward_end(f);
}

static void a_forwarded_command_is_refused_where_it_cannot_be_done(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    uint8_t buffer[512];
    struct slice good = forward_encode_acquire(buffer, 512);
    fake.submit_error = HF_UNAVAILABLE;
    assert_true(forward_on_request(f, 2, 10, 77, COMMAND, good));
    assert_int_equal(fake.answer_status, NOT_DONE);
    fake.submit_error = HF_BUSY;
    assert_true(forward_on_request(f, 2, 10, 78, COMMAND, good));
    assert_int_equal(fake.answer_status, BUSY);
    fake.submit_error = HF_OK;
    assert_true(forward_on_request(f, 2, 10, 79, COMMAND, slice_of("nonsense")));
    assert_int_equal(fake.answer_status, MALFORMED);
    assert_true(forward_on_request(f, 2, 10, 80, 99, slice_of("")));
    assert_int_equal(fake.answer_status, MALFORMED);
    assert_true(forward_on_request(f, 2, 10, 81, COMMAND, good));
    forward_on_result(f, fake.cookies[0], REPLICA_UNKNOWN, NULL);
    assert_int_equal(fake.answer_status, UNKNOWN);
    assert_int_equal(fake.answers, 5);
    forward_end(f);
}

static void a_forwarded_barrier_is_answered_with_the_index(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    forward_lead();
    fake.core_index = 300;
    assert_true(forward_on_request(f, 2, 10, 77, BARRIER, slice_of("")));
    forward_on_barrier(f, fake.cookies[0], true);
    assert_int_equal(fake.answer_status, DONE);
    static const uint8_t index[8] = {44, 1};
    assert_memory_equal(buffer_bytes(&fake.answer_body).data, index, 8);
    forward_end(f);
}

/* ---- the leader's epoch (S10.2) ---- */

/* A follower that has not applied the leader's first entry learns the epoch from the answer. */
static void every_answer_of_the_leader_tells_its_epoch(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    uint8_t buffer[512];
    struct buffer keepalive;
    struct buffer barrier;
    buffer_init(&keepalive, memory_system(), RESULT_BYTES_MAX + 64);
    buffer_init(&barrier, memory_system(), 64);
    fake.protocol = PEER_PROTOCOL_EPOCH;
    forward_lead();
    assert_true(forward_on_request(f, 2, 10, 77, COMMAND, forward_encode_acquire(buffer, 512)));
    static const uint8_t alive[1] = {HF_OK};
    struct result result = {.type = COMMAND_KEEPALIVE, .count = 1, .alive = alive};
    forward_on_result(f, fake.cookies[0], REPLICA_DONE, &result);
    assert_true(buffer_append_slice(&keepalive, buffer_bytes(&fake.answer_body)));
    assert_true(forward_on_request(f, 2, 10, 78, BARRIER, slice_of("")));
    forward_on_barrier(f, fake.cookies[1], true);
    assert_true(buffer_append_slice(&barrier, buffer_bytes(&fake.answer_body)));
    assert_int_equal(buffer_len(&barrier), 16);
    forward_end(f);

    struct forwarded_call a;
    f = forward_begin();
    fake.protocol = PEER_PROTOCOL_EPOCH;
    forward_follow(f, 3);
    forward_request(f, &a, 1);
    forward_run(f);
    assert_int_equal(forward_epoch(f), 0);
    assert_true(forward_on_answer(f, 3, fake.numbers[0], DONE, buffer_bytes(&keepalive)));
    assert_int_equal(a.answers, 1);
    assert_int_equal(a.result.type, COMMAND_KEEPALIVE);
    assert_int_equal(a.result.count, 1);
    assert_int_equal(forward_epoch(f), 7);
    forward_request_barrier(f, &a);
    forward_run(f);
    assert_true(forward_on_answer(f, 3, fake.numbers[1], DONE, buffer_bytes(&barrier)));
    forward_run(f);
    assert_int_equal(a.answers, 1);
    /* An answer without it is garbled: the connection is closed. */
    forward_request(f, &a, 2);
    forward_run(f);
    assert_false(forward_on_answer(f, 3, fake.numbers[2], DONE, slice_of("short")));
    forward_end(f);
    buffer_close(&keepalive);
    buffer_close(&barrier);
}

/* An epoch only rises, whatever an older leader's late answer says. */
static void an_older_epoch_does_not_replace_a_newer_one(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    static const uint8_t newer[16] = {9, 0, 0, 0, 0, 0, 0, 0, 1};
    static const uint8_t older[16] = {8, 0, 0, 0, 0, 0, 0, 0, 1};
    fake.protocol = PEER_PROTOCOL_EPOCH;
    fake.core_index = 1;
    forward_follow(f, 3);
    forward_request_barrier(f, &a);
    forward_run(f);
    assert_true(forward_on_answer(f, 3, fake.numbers[0], DONE, slice_make(newer, 16)));
    forward_run(f);
    forward_request_barrier(f, &a);
    forward_run(f);
    assert_true(forward_on_answer(f, 3, fake.numbers[1], DONE, slice_make(older, 16)));
    forward_run(f);
    assert_int_equal(a.answers, 1);
    assert_int_equal(forward_epoch(f), 9);
    forward_end(f);
}

/* ---- changes of members ---- */

static void on_change_done(struct gateway_change_call *call, enum hf_error error,
                           const char *problem)
{
    (void)problem;
    *(enum hf_error *)call->owner = error;
}

/* A leader transfers the leadership first and declines (E16). A change that is sent to it again
 * meanwhile might be on its way when it leads no more, and would end in doubt. */
static void a_change_that_names_the_leader_waits_for_the_next_one_and_others_pass_it(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    struct forwarded_call a;
    enum hf_error error = HF_BUSY;
    struct gateway_change_call call = {.done = on_change_done, .owner = &error};
    forward_follow(f, 2);
    forward_change(f, GATEWAY_REMOVE, 2, "", &call);
    forward_run(f);
    assert_int_equal(fake.requests, 1);
    forward_answer_remotely(f, 0, NOT_DONE, 0);
    forward_request(f, &a, 7);
    forward_pass(f, 400);
    assert_int_equal(fake.requests, 2);
    assert_int_equal(fake.kinds[1], COMMAND);
    forward_follow(f, 0);
    forward_pass(f, 20);
    forward_follow(f, 3);
    forward_pass(f, 20);
    assert_int_equal(error, HF_BUSY); /* not in doubt */
    uint32_t last = fake.requests - 1;
    while (last > 0 && fake.kinds[last] != CHANGE) {
        last--;
    }
    assert_int_equal(fake.peers[last], 3);
    assert_true(forward_on_answer(f, 3, fake.numbers[last], DONE, slice_make(NULL, 0)));
    assert_int_equal(error, HF_OK);
    forward_end(f);
}

/* It may have failed to transfer the leadership, and then it says so. */
static void a_change_that_the_leader_declined_is_sent_there_again_later(void **state)
{
    (void)state;
    struct forward *f = forward_begin();
    enum hf_error error = HF_BUSY;
    struct gateway_change_call call = {.done = on_change_done, .owner = &error};
    forward_follow(f, 2);
    forward_change(f, GATEWAY_DEMOTE, 2, "", &call);
    forward_run(f);
    forward_answer_remotely(f, 0, NOT_DONE, 0);
    forward_pass(f, 400);
    assert_int_equal(fake.requests, 1);
    forward_pass(f, 200);
    assert_int_equal(fake.requests, 2);
    assert_int_equal(fake.peers[1], 2);
    assert_true(forward_on_answer(f, 2, fake.numbers[1], REFUSED, slice_of("this node leads")));
    assert_int_equal(error, HF_MEMBERSHIP);
    /* One that names somebody else waits only for the leader to serve. */
    error = HF_BUSY;
    forward_change(f, GATEWAY_REMOVE, 3, "", &call);
    forward_pass(f, 20);
    assert_int_equal(fake.requests, 3);
    forward_answer_remotely(f, 2, NOT_DONE, 0);
    forward_pass(f, 40);
    assert_int_equal(fake.requests, 4);
    forward_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_leader_it_is_submitted_and_answered),
        cmocka_unit_test(a_busy_replica_gets_it_later_and_in_order),
        cmocka_unit_test(what_was_not_done_here_is_tried_at_the_next_leader),
        cmocka_unit_test(after_lost_leadership_the_first_to_tell_wins),
        cmocka_unit_test(a_follower_sends_it_to_the_leader),
        cmocka_unit_test(a_command_that_the_leaders_program_does_not_support_is_refused),
        cmocka_unit_test(a_broken_link_means_the_same_bytes_once_more),
        cmocka_unit_test(another_leader_gets_the_request_without_waiting_for_the_old_one),
        cmocka_unit_test(what_came_to_nothing_everywhere_is_unavailable),
        cmocka_unit_test(who_cannot_wait_long_is_answered_sooner),
        cmocka_unit_test(refusals_leave_no_doubt),
        cmocka_unit_test(what_may_have_been_done_is_outcome_unknown),
        cmocka_unit_test(an_operators_command_without_a_request_id_is_not_sent_twice),
        cmocka_unit_test(an_acquire_that_counts_is_sent_twice_only_with_a_request_id),
        cmocka_unit_test(a_barrier_on_a_follower_waits_for_its_own_state),
        cmocka_unit_test(a_barrier_that_is_not_reached_is_unavailable_and_never_unknown),
        cmocka_unit_test(everything_waits_for_the_first_command),
        cmocka_unit_test(a_full_disk_refuses_commands_and_lets_reads_through),
        cmocka_unit_test(a_forwarded_command_is_submitted_and_its_result_relayed),
        cmocka_unit_test(a_forwarded_command_is_refused_where_it_cannot_be_done),
        cmocka_unit_test(a_forwarded_barrier_is_answered_with_the_index),
        cmocka_unit_test(every_answer_of_the_leader_tells_its_epoch),
        cmocka_unit_test(an_older_epoch_does_not_replace_a_newer_one),
        cmocka_unit_test(a_change_that_names_the_leader_waits_for_the_next_one_and_others_pass_it),
        cmocka_unit_test(a_change_that_the_leader_declined_is_sent_there_again_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
