/* Calls: tried again under one id, ended in time with a typed error, undone when nobody waits for
 * them any more (S8); and the way to the leader. */
#include "client_testing.h"

#include "client/proto.h"
#include "fake_stream.h"

static void a_held_lock_is_refused_with_its_holder(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    fake_hold(&w->nodes[0], "a");
    struct hf_call *ticket = world_acquire(w, "a", NULL);
    assert_true(ticket->is_done);
    assert_int_equal(ticket->error, HF_ERR_HELD);
    assert_non_null(ticket->holder);
    assert_string_equal(ticket->holder->client_id, "somebody");
    assert_int_equal(ticket->holder->expires_in_ms, 12345);
    assert_int_equal(ticket->holder->queue_length, 3);
    (void)world_await(w, ticket, 0, NULL);
}

static void times_that_cannot_be_of_a_holder_are_the_longest(void **state)
{
    struct client_world *w = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.wait_ms = HF_WAIT_FOREVER;
    world_begin(w, "n0:1");
    fake_hold(&w->nodes[0], "a");
    struct hf_call *ticket = world_acquire(w, "a", &options);

    Holdfast__V1__LockResponse m = HOLDFAST__V1__LOCK_RESPONSE__INIT;
    Holdfast__V1__Holder holder = HOLDFAST__V1__HOLDER__INIT;
    Google__Protobuf__Timestamp since = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    Google__Protobuf__Timestamp expires_at = GOOGLE__PROTOBUF__TIMESTAMP__INIT;
    since.seconds = INT64_MIN;
    since.nanos = INT32_MIN;
    expires_at.seconds = INT64_MAX;
    expires_at.nanos = INT32_MAX;
    holder.since = &since;
    holder.expires_at = &expires_at;
    m.reason = HOLDFAST__V1__REASON__HELD;
    m.holder = &holder;
    size_t len;
    uint8_t *bytes = proto_pack(&m.base, &len);
    struct fake_stream *s = fake_first_waiter(&w->nodes[0], "a");
    fake_stream_send(s, slice_make(bytes, len));
    s->is_waiting = false;
    fake_stream_end(s, GRPC_OK, NULL, NULL);
    free(bytes);
    world_settle(w);
    assert_true(ticket->is_done);
    assert_int_equal(ticket->holder->held_for_ms, INT64_C(1) << 54);
    assert_int_equal(ticket->holder->expires_in_ms, 0);
    assert_int_equal(world_await(w, ticket, 0, NULL), HF_ERR_HELD);
}

static void two_handles_are_two_owners(void **state)
{
    struct client_world *w = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.wait_ms = HF_WAIT_FOREVER;
    world_begin(w, "n0:1");
    struct hf_lock *first = take(w, "a", &options);
    struct hf_call *second = world_acquire(w, "a", &options);
    assert_false(second->is_done);
    assert_int_equal(world_await(w, world_release(w, first), 1000, NULL), 0);
    struct hf_lock *lock = NULL;
    assert_int_equal(world_await(w, second, 1000, &lock), 0);
    const struct fake_request *r = w->nodes[0].requests;
    assert_string_equal(r[1].path, "Lock");
    assert_string_equal(r[2].path, "Lock");
    assert_string_not_equal(r[1].owner, r[2].owner);
    assert_string_not_equal(r[1].id, r[2].id);
    lock_unref(lock);
}

static void a_lock_granted_after_a_wait_counts_from_the_last_confirmed_keep_alive(void **state)
{
    struct client_world *w = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.wait_ms = HF_WAIT_FOREVER;
    world_begin(w, "n0:1");
    fake_hold(&w->nodes[0], "a");
    int64_t requested_ms = w->now_ms;
    struct hf_call *ticket = world_acquire(w, "a", &options);
    world_run(w, 95000);
    assert_false(ticket->is_done);
    fake_free(&w->nodes[0], "a");
    world_settle(w);
    struct hf_lock *lock = NULL;
    assert_int_equal(world_await(w, ticket, 0, &lock), 0);
    /* The last keep-alive went at 90 s: S5.1. */
    assert_int_equal(left(w, lock), requested_ms + 90000 + 30000 - 35 - w->now_ms);
    lock_unref(lock);
}

static void a_retry_has_the_same_id_and_the_first_grant(void **state)
{
    struct client_world *w = *state;
    struct hf_lock *lock = NULL;
    world_begin(w, "n0:1");
    w->nodes[0].forget = 2;
    assert_int_equal(world_await(w, world_acquire(w, "a", NULL), 3000, &lock), 0);
    const struct fake_request *r = w->nodes[0].requests;
    assert_int_equal(fake_count(&w->nodes[0], "Lock"), 3);
    assert_string_equal(r[1].id, r[2].id);
    assert_string_equal(r[2].id, r[3].id);
    assert_int_equal(lock->token, fake_holder(&w->nodes[0], "a"));
    lock_unref(lock);
}

static void a_connection_that_breaks_in_a_call_does_not_lose_it(void **state)
{
    struct client_world *w = *state;
    struct hf_lock *lock = NULL;
    world_begin(w, "n0:1");
    w->nodes[0].break_after = 1;
    assert_int_equal(world_await(w, world_acquire(w, "a", NULL), 3000, &lock), 0);
    assert_int_equal(lock->token, fake_holder(&w->nodes[0], "a"));
    assert_int_equal(w->nodes[0].resumed, 1);
    lock_unref(lock);
}

static void a_release_that_was_done_but_not_answered_is_done(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    w->nodes[0].forget = 1;
    assert_int_equal(world_await(w, world_release(w, lock), 3000, NULL), 0);
    assert_int_equal(fake_count(&w->nodes[0], "Unlock"), 2);
}

static void an_unreachable_cluster_is_reported_in_time_with_what_was_tried(void **state)
{
    struct client_world *w = *state;
    w->refuses[0] = w->refuses[1] = true;
    world_begin(w, "n0:1,n1:1");
    int64_t begun_ms = w->now_ms;
    struct hf_call *ticket = world_acquire(w, "a", NULL);
    while (!ticket->is_done) {
        world_run(w, 10);
        assert_true(w->now_ms - begun_ms <= 5010);
    }
    assert_in_range(w->now_ms - begun_ms, 5000, 5010);
    assert_int_equal(ticket->error, HF_ERR_UNREACHABLE);
    assert_non_null(strstr(ticket->text, "n0:1 (connection refused), n1:1 (connection refused)"));
    (void)world_await(w, ticket, 0, NULL);
}

static void a_forever_wait_fails_too_when_nobody_is_there(void **state)
{
    struct client_world *w = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.wait_ms = HF_WAIT_FOREVER;
    w->refuses[0] = true;
    world_begin(w, "n0:1");
    assert_int_equal(world_await(w, world_acquire(w, "a", &options), 6000, NULL),
                     HF_ERR_UNREACHABLE);
}

static void a_missing_leader_is_reported_in_time(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    w->nodes[0].has_no_leader = true;
    int64_t begun_ms = w->now_ms;
    assert_int_equal(world_await(w, world_acquire(w, "a", NULL), 6000, NULL), HF_ERR_UNREACHABLE);
    assert_in_range(w->now_ms - begun_ms, 4900, 5100);
    assert_in_range(fake_count(&w->nodes[0], "Lock"), 0, 0);
}

static void a_grant_whose_call_was_given_up_is_given_back(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    w->nodes[0].swallow = 2; /* done, and not answered; nor is the attempt to withdraw it */
    assert_int_equal(world_await(w, world_acquire(w, "a", NULL), 6000, NULL), HF_ERR_UNKNOWN);
    assert_int_not_equal(fake_holder(&w->nodes[0], "a"), 0);
    /* The connection breaks, the call is repeated, and what it got is given back. */
    world_kill(w, 0);
    world_start(w, 0);
    world_run(w, 2000);
    assert_int_equal(fake_holder(&w->nodes[0], "a"), 0);
}

/* A service of an earlier version does not know the field. */
static void a_wait_that_is_withdrawn_is_given_back_when_it_is_granted(void **state)
{
    struct client_world *w = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.wait_ms = HF_WAIT_FOREVER;
    world_begin(w, "n0:1");
    fake_hold(&w->nodes[0], "a");
    struct hf_call *ticket = world_acquire(w, "a", &options);
    client_engine_cancel(&w->client_engine, ticket, w->now_ms);
    assert_int_equal(world_await(w, ticket, 0, NULL), HF_ERR_CANCELLED);
    fake_free(&w->nodes[0], "a");
    world_settle(w);
    world_run(w, 10);
    assert_int_equal(fake_holder(&w->nodes[0], "a"), 0);
}

static bool has_no_calls(const struct client_world *w)
{
    return list_is_empty(&w->client_engine.waiting) && list_is_empty(&w->client_engine.sent);
}

/* Until the service has answered it, under the id of the acquire (S7.5). */
static void a_wait_that_is_withdrawn_leaves_the_queue(void **state)
{
    struct client_world *w = *state;
    struct fake *node = &w->nodes[0];
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.wait_ms = HF_WAIT_FOREVER;
    world_begin(w, "n0:1");
    node->knows_cancel = true;
    fake_hold(node, "a");
    struct hf_call *ticket = world_acquire(w, "a", &options);
    world_run(w, 10);
    assert_int_equal(fake_count(node, "Lock"), 1);
    const struct fake_request *request = &node->requests[node->request_count - 1];
    node->forget = 1; /* the first answer to it says nothing */
    client_engine_cancel(&w->client_engine, ticket, w->now_ms);
    assert_int_equal(world_await(w, ticket, 0, NULL), HF_ERR_CANCELLED);
    world_run(w, 1000);
    assert_int_equal(fake_count(node, "Lock"), 3);
    const struct fake_request *last = &node->requests[node->request_count - 1];
    assert_false(request->is_cancel);
    assert_true(last->is_cancel);
    assert_string_equal(last->id, request->id);
    assert_string_equal(last->session, request->session);
    assert_true(has_no_calls(w));
    fake_free(node, "a");
    world_run(w, 10);
    assert_int_equal(fake_holder(node, "a"), 0);
    assert_int_equal(fake_count(node, "Unlock"), 0);
}

/* The grant and the cancel pass each other on the way. */
static void a_grant_that_a_cancel_meets_is_given_up_by_the_service(void **state)
{
    struct client_world *w = *state;
    struct fake *node = &w->nodes[0];
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.wait_ms = HF_WAIT_FOREVER;
    world_begin(w, "n0:1");
    node->knows_cancel = true;
    fake_hold(node, "a");
    struct hf_call *ticket = world_acquire(w, "a", &options);
    world_run(w, 10);
    fake_free(node, "a");
    assert_int_not_equal(fake_holder(node, "a"), 0);
    client_engine_cancel(&w->client_engine, ticket, w->now_ms);
    assert_int_equal(world_await(w, ticket, 0, NULL), HF_ERR_CANCELLED);
    world_run(w, 100);
    assert_int_equal(fake_holder(node, "a"), 0);
    assert_true(has_no_calls(w));
}

static void a_release_goes_on_in_the_background(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    world_kill(w, 0);
    assert_int_equal(world_await(w, world_release(w, lock), 6000, NULL), HF_ERR_UNREACHABLE);
    assert_int_not_equal(fake_holder(&w->nodes[0], "a"), 0);
    world_start(w, 0);
    world_run(w, 3000);
    assert_int_equal(fake_holder(&w->nodes[0], "a"), 0);
}

static void waits_leave_streams_for_what_does_not_wait(void **state)
{
    struct client_world *w = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    struct hf_call *waits[20];
    options.wait_ms = HF_WAIT_FOREVER;
    w->nodes[0].max_streams = 10;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    for (int i = 0; i < 20; i++) {
        waits[i] = world_acquire(w, "a", &options);
    }
    assert_int_equal(world_await(w, world_release(w, lock), 1000, NULL), 0);
    /* Each gets it in turn, those too that were held back here. */
    for (int i = 0; i < 20; i++) {
        assert_int_equal(world_await(w, waits[i], 1000, &lock), 0);
        assert_int_equal(world_await(w, world_release(w, lock), 1000, NULL), 0);
    }
}

/* ---- the way to the leader ---- */

static void it_goes_to_the_leader(void **state)
{
    struct client_world *w = *state;
    w->nodes[0].leader = w->nodes[1].leader = "n1:1";
    world_begin(w, "n0:1");
    world_run(w, 100);
    assert_int_equal(world_current(w), 1);
    assert_int_equal(w->nodes[0].opened, 1);
    assert_int_equal(w->nodes[1].resumed, 1);
}

static void it_stays_where_it_is_when_configured(void **state)
{
    struct client_world *w = *state;
    w->options.any_node = true;
    w->nodes[0].leader = "n1:1";
    world_begin(w, "n0:1,n1:1");
    world_run(w, 1000);
    assert_int_equal(world_current(w), 0);
}

static void who_knows_one_node_soon_knows_all(void **state)
{
    struct client_world *w = *state;
    w->nodes[0].members[0] = "n0:1";
    w->nodes[0].members[1] = "n1:1";
    w->nodes[0].members[2] = "0.0.0.0:1"; /* says nothing */
    w->nodes[0].members[3] = "n2:1";
    world_begin(w, "n0:1");
    world_run(w, 10);
    assert_int_equal(w->client_engine.endpoints.count, 3);
    w->refuses[1] = true;
    world_kill(w, 0);
    struct hf_lock *lock = take(w, "a", NULL);
    assert_int_equal(world_current(w), 2);
    lock_unref(lock);
}

static void a_leader_that_cannot_be_reached_does_not_disturb(void **state)
{
    struct client_world *w = *state;
    w->nodes[0].leader = "n1:1";
    w->refuses[1] = true;
    world_begin(w, "n0:1");
    for (int i = 0; i < 600; i++) { /* each answer names the leader again */
        struct hf_lock *lock = take(w, "a", NULL);
        assert_int_equal(world_await(w, world_release(w, lock), 1000, NULL), 0);
        world_run(w, 100);
    }
    assert_int_equal(world_current(w), 0);
    assert_int_equal(w->nodes[0].opened, 1);
    assert_int_equal(w->nodes[0].resumed, 0);
    assert_in_range(w->dials[1], 30, 70); /* probed every one to two seconds */
}

static void nodes_that_name_each_other_do_not_make_it_run_to_and_fro(void **state)
{
    struct client_world *w = *state;
    w->nodes[0].leader = "n1:1";
    w->nodes[1].leader = "n0:1";
    world_begin(w, "n0:1,n1:1");
    world_run(w, 10);
    assert_int_equal(w->dials[0] + w->dials[1], 2); /* the first step is taken at once */
    world_run(w, 60000);
    assert_in_range(w->dials[0] + w->dials[1], 60, 160); /* every half a second to a whole one */
    struct hf_lock *lock = take(w, "a", NULL);           /* and it is served all the time */

    /* They agree, and after a while the next change is followed at once again. */
    w->nodes[0].leader = "n0:1";
    world_run(w, 5000);
    assert_int_equal(world_current(w), 0);
    w->nodes[0].leader = w->nodes[1].leader = "n1:1";
    lock_unref(lock);
    lock = take(w, "b", NULL);
    world_run(w, 10);
    assert_int_equal(world_current(w), 1);
    lock_unref(lock);
}

static void a_waiter_follows_the_leader(void **state)
{
    struct client_world *w = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.wait_ms = HF_WAIT_FOREVER;
    world_begin(w, "n0:1,n1:1");
    fake_hold(&w->nodes[0], "a");
    fake_hold(&w->nodes[1], "a");
    struct hf_call *ticket = world_acquire(w, "a", &options);
    world_kill(w, 0);
    world_run(w, 500);
    assert_string_equal(w->nodes[0].requests[1].id, w->nodes[1].requests[0].id);
    fake_free(&w->nodes[1], "a");
    world_settle(w);
    struct hf_lock *lock = NULL;
    assert_int_equal(world_await(w, ticket, 0, &lock), 0);
    lock_unref(lock);
}

static void a_node_without_a_leader_is_left(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1,n1:1");
    w->nodes[0].has_no_leader = true;
    struct hf_lock *lock = NULL;
    assert_int_equal(world_await(w, world_acquire(w, "a", NULL), 4000, &lock), 0);
    assert_int_equal(world_current(w), 1);
    lock_unref(lock);
}

static void a_node_that_lives_but_does_not_answer_keep_alives_is_left(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1,n1:1");
    struct hf_lock *lock = take(w, "a", NULL);
    fake_hold(&w->nodes[1], "a");
    w->nodes[1].locks[0].token = lock->token;
    w->nodes[0].is_deaf = true;
    world_run(w, 60000);
    assert_int_equal(world_current(w), 1);
    assert_false(world_event(w, HF_EVENT_JEOPARDY, NULL, NULL));
    assert_int_equal(lock->state, LOCK_HELD);
    lock_unref(lock);
}

static void a_node_that_says_jeopardy_is_left_although_nobody_requests_anything(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1,n1:1");
    world_run(w, 100);
    fake_jeopardy(&w->nodes[0]);
    world_run(w, 600);
    assert_int_equal(world_current(w), 1);
    assert_int_equal(w->nodes[1].resumed, 1);
}

static void a_background_release_outlives_strange_answers(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    world_kill(w, 0);
    assert_int_equal(world_await(w, world_release(w, lock), 6000, NULL), HF_ERR_UNREACHABLE);
    w->nodes[0].limit = 3; /* RESOURCE_EXHAUSTED */
    world_start(w, 0);
    world_run(w, 5000);
    assert_int_equal(w->nodes[0].limit, 0);
    assert_int_equal(fake_holder(&w->nodes[0], "a"), 0);
}

static void a_limit_is_reported_by_its_name(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    w->nodes[0].limit = 1;
    struct hf_call *ticket = world_acquire(w, "a", NULL);
    assert_true(ticket->is_done);
    assert_non_null(strstr(ticket->text, "limit_queue"));
    assert_int_equal(world_await(w, ticket, 0, NULL), HF_ERR_LIMIT);
}

static void a_stopped_node_is_left_before_anything_is_in_jeopardy(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1,n1:1");
    struct hf_lock *lock = take(w, "a", NULL);
    fake_hold(&w->nodes[1], "a"); /* so that the check after the resume finds it */
    w->nodes[1].locks[0].token = lock->token;
    w->nodes[0].is_stopped = true;
    world_run(w, 60000);
    assert_int_equal(world_current(w), 1);
    assert_false(world_event(w, HF_EVENT_JEOPARDY, NULL, NULL));
    assert_int_equal(lock->state, LOCK_HELD);
    lock_unref(lock);
}

static void goaway_moves_to_another_node_without_an_error(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1,n1:1");
    struct hf_lock *lock = take(w, "a", NULL);
    fake_hold(&w->nodes[1], "a");
    w->nodes[1].locks[0].token = lock->token;
    fake_goaway(&w->nodes[0]);
    world_settle(w);
    assert_int_equal(world_current(w), 1);
    assert_int_equal(lock->state, LOCK_HELD);
    assert_int_equal(world_await(w, world_release(w, lock), 1000, NULL), 0);
}

static void goaway_of_the_only_node_is_waited_out(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    fake_goaway(&w->nodes[0]);
    world_settle(w);
    struct hf_lock *lock = take(w, "a", NULL);
    assert_int_equal(w->nodes[0].resumed, 1);
    lock_unref(lock);
}

/* ---- elections ---- */

static void an_observer_hears_changes_and_survives_a_reconnect(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_call *ticket = ticket_new(NULL);
    client_engine_observe(&w->client_engine, "chief", ticket, w->now_ms);
    world_settle(w);
    fake_elect(&w->nodes[0], "anna", "10.0.0.1");
    world_settle(w);
    world_kill(w, 0);
    world_start(w, 0);
    world_run(w, 1000);
    fake_elect(&w->nodes[0], "anna", "10.0.0.1"); /* as before: no notification */
    fake_elect(&w->nodes[0], NULL, NULL);
    world_settle(w);
    unsigned heard = 0;
    bool was_vacant = false;
    for (struct list *at = w->client_engine.notifications.next;
         at != &w->client_engine.notifications; at = at->next) {
        struct notification *notification = LIST_OBJECT(at, struct notification, link);
        if (notification->kind == NOTIFICATION_LEADER) {
            heard++;
            was_vacant = ((struct notification_leader *)notification)->vacant;
        }
    }
    assert_int_equal(heard, 2);
    assert_true(was_vacant);
    client_engine_cancel(&w->client_engine, ticket, w->now_ms);
    assert_int_equal(world_await(w, ticket, 0, NULL), HF_ERR_CANCELLED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(a_held_lock_is_refused_with_its_holder),
        world_test(times_that_cannot_be_of_a_holder_are_the_longest),
        world_test(two_handles_are_two_owners),
        world_test(a_lock_granted_after_a_wait_counts_from_the_last_confirmed_keep_alive),
        world_test(a_retry_has_the_same_id_and_the_first_grant),
        world_test(a_connection_that_breaks_in_a_call_does_not_lose_it),
        world_test(a_release_that_was_done_but_not_answered_is_done),
        world_test(an_unreachable_cluster_is_reported_in_time_with_what_was_tried),
        world_test(a_forever_wait_fails_too_when_nobody_is_there),
        world_test(a_missing_leader_is_reported_in_time),
        world_test(a_grant_whose_call_was_given_up_is_given_back),
        world_test(a_wait_that_is_withdrawn_is_given_back_when_it_is_granted),
        world_test(a_wait_that_is_withdrawn_leaves_the_queue),
        world_test(a_grant_that_a_cancel_meets_is_given_up_by_the_service),
        world_test(a_release_goes_on_in_the_background),
        world_test(waits_leave_streams_for_what_does_not_wait),
        world_test(it_goes_to_the_leader),
        world_test(it_stays_where_it_is_when_configured),
        world_test(who_knows_one_node_soon_knows_all),
        world_test(a_leader_that_cannot_be_reached_does_not_disturb),
        world_test(nodes_that_name_each_other_do_not_make_it_run_to_and_fro),
        world_test(a_waiter_follows_the_leader),
        world_test(a_node_without_a_leader_is_left),
        world_test(a_node_that_lives_but_does_not_answer_keep_alives_is_left),
        world_test(a_node_that_says_jeopardy_is_left_although_nobody_requests_anything),
        world_test(a_background_release_outlives_strange_answers),
        world_test(a_limit_is_reported_by_its_name),
        world_test(a_stopped_node_is_left_before_anything_is_in_jeopardy),
        world_test(goaway_moves_to_another_node_without_an_error),
        world_test(goaway_of_the_only_node_is_waited_out),
        world_test(an_observer_hears_changes_and_survives_a_reconnect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
