/* The session and its locks: confirmed, in jeopardy, lost; never overstated (S4, S5, S10.2). */
#include "client_testing.h"

static void it_opens_a_session_and_takes_a_lock(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    assert_int_equal(w->nodes[0].opened, 1);
    assert_int_equal(lock->token, fake_holder(&w->nodes[0], "a"));
    assert_int_equal(world_await(w, world_release(w, lock), 1000, NULL), 0);
    assert_int_equal(fake_holder(&w->nodes[0], "a"), 0);
}

static void a_lock_counts_from_the_first_sending_of_its_acquire(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    int64_t sent_ms = w->now_ms;
    w->nodes[0].refuse = 3; /* it is sent again a few times: S5.1 */
    struct hf_call *ticket = world_acquire(w, "a", NULL);
    struct hf_lock *lock = NULL;
    assert_int_equal(world_await(w, ticket, 4000, &lock), 0);
    assert_true(w->now_ms > sent_ms);
    assert_int_equal(lock->life.known.confirmed_ms, sent_ms);
    assert_int_equal(left(w, lock), sent_ms + 30000 - 30 - 5 - w->now_ms);
    lock_unref(lock);
}

static void keep_alives_go_at_a_third_of_the_ttl_and_confirm_from_their_sending(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    world_run(w, 10000);
    assert_int_equal(w->nodes[0].keepalives, 1);
    assert_int_equal(left(w, lock), 30000 - 30 - 5);
    world_run(w, 300000);
    assert_int_equal(w->nodes[0].keepalives, 31);
    assert_false(world_event(w, HF_EVENT_JEOPARDY, NULL, NULL));
    lock_unref(lock);
}

static void the_shortest_ttl_of_a_lock_sets_the_pace(void **state)
{
    struct client_world *w = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.ttl_ms = 3000;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", &options);
    world_run(w, 30000);
    assert_in_range(w->nodes[0].keepalives, 29, 31);
    assert_false(world_event(w, HF_EVENT_JEOPARDY, NULL, NULL));
    assert_int_equal(world_await(w, world_release(w, lock), 1000, NULL), 0);
    unsigned before = w->nodes[0].keepalives;
    world_run(w, 30000);
    assert_in_range(w->nodes[0].keepalives - before, 3, 5);
}

static void without_confirmation_jeopardy_and_then_lost_come_on_time(void **state)
{
    struct client_world *w = *state;
    char text[WORDS_TEXT];
    world_begin(w, "n0:1");
    int64_t begun_ms = w->now_ms;
    struct hf_lock *lock = take(w, "a", NULL);
    w->nodes[0].is_stopped = true;
    int64_t jeopardy_ms = begun_ms + 30000 - 35 - 10000;
    world_run(w, jeopardy_ms - 1 - w->now_ms);
    assert_false(world_event(w, HF_EVENT_JEOPARDY, NULL, NULL));
    world_run(w, 1);
    assert_true(world_event(w, HF_EVENT_JEOPARDY, lock, NULL));
    assert_true(world_event(w, HF_EVENT_JEOPARDY, NULL, NULL)); /* the session's own */
    world_run(w, 9999);
    assert_int_equal(lock->state, LOCK_HELD);
    assert_int_equal(left(w, lock), 1);
    assert_false(world_event(w, HF_EVENT_LOST, NULL, NULL));
    world_run(w, 1);
    assert_int_equal(lock->state, LOCK_LOST);
    assert_true(world_event(w, HF_EVENT_LOST, lock, text));
    assert_string_equal(text, "unconfirmed");
    assert_true(world_event(w, HF_EVENT_LOST, NULL, NULL));
    assert_int_equal(left(w, lock), 0);
    lock_unref(lock);
}

static void a_late_answer_does_not_rescue_what_is_lost(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    world_run(w, 10000);
    /* A keep-alive is confirmed, but this process is stopped before it can read that. */
    w->nodes[0].is_deaf = true;
    world_run(w, 10000);
    w->now_ms += 30000;
    w->nodes[0].is_deaf = false;
    world_settle(w);
    client_engine_go(&w->client_engine, w->now_ms);
    assert_int_equal(lock->state, LOCK_LOST);
    assert_int_equal(left(w, lock), 0);
    world_run(w, 60000);
    assert_int_equal(lock->state, LOCK_LOST);
    lock_unref(lock);
}

static void safe_comes_again_when_a_keep_alive_is_confirmed(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    w->nodes[0].is_stopped = true;
    world_run(w, 22000);
    assert_true(world_event(w, HF_EVENT_JEOPARDY, lock, NULL));
    assert_false(world_event(w, HF_EVENT_SAFE, NULL, NULL));
    w->nodes[0].is_stopped = false;
    world_run(w, 4000);
    assert_true(world_event(w, HF_EVENT_SAFE, lock, NULL));
    assert_true(world_event(w, HF_EVENT_SAFE, NULL, NULL));
    assert_int_equal(lock->state, LOCK_HELD);
    lock_unref(lock);
}

static void a_renewal_that_is_tried_again_counts_from_its_last_sending(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    struct hf_call *ticket = ticket_new(NULL);
    w->nodes[0].refuse = 2;
    assert_int_equal(client_engine_renew(&w->client_engine, lock, 0, ticket, w->now_ms), 0);
    int64_t begun_ms = w->now_ms;
    assert_int_equal(world_await(w, ticket, 3000, NULL), 0);
    assert_int_equal(fake_count(&w->nodes[0], "Renew"), 1); /* two were refused before that */
    assert_true(lock->life.known.confirmed_ms > begun_ms);  /* S5.1 */
    lock_unref(lock);
}

static struct hf_call *renew(struct client_world *w, struct hf_lock *lock, uint32_t ttl_ms)
{
    struct hf_call *ticket = ticket_new(NULL);
    assert_int_equal(client_engine_renew(&w->client_engine, lock, ttl_ms, ticket, w->now_ms), 0);
    world_settle(w);
    return ticket;
}

/* How long the node keeps it after the last sign of life that the node has had. */
static int64_t served_until(struct client_world *w, const struct hf_lock *lock)
{
    const struct fake_lock *served = fake_by_token(&w->nodes[0], lock->token);
    assert_non_null(served);
    int64_t alive_ms = w->nodes[0].alive_ms;
    alive_ms = served->alive_ms > alive_ms ? served->alive_ms : alive_ms;
    return alive_ms + served->ttl_ms;
}

static void a_shorter_ttl_counts_although_its_renewal_was_cut_off_after_it_was_applied(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    world_run(w, 10000);
    w->stalls_in[0] = true; /* the node hears us, we do not hear the node */
    struct hf_call *ticket = renew(w, lock, 2000);
    assert_int_equal(fake_by_token(&w->nodes[0], lock->token)->ttl_ms, 2000);
    assert_int_equal(left(w, lock), 2000 - 2 - 5);
    world_run(w, 500);
    assert_true(lock_safe_until(lock) < served_until(w, lock));
    /* Nothing of ours arrives any more: the lock is lost before the service gives it away. */
    w->stalls_out[0] = true;
    while (lock->state == LOCK_HELD) {
        assert_true(w->now_ms < served_until(w, lock));
        world_run(w, 1);
    }
    assert_true(w->now_ms < served_until(w, lock));
    assert_int_not_equal(world_await(w, ticket, 6000, NULL), 0);
    lock_unref(lock);
}

static void a_longer_ttl_counts_when_it_is_confirmed(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    assert_int_equal(world_await(w, renew(w, lock, 2000), 1000, NULL), 0);
    assert_int_equal(left(w, lock), 2000 - 2 - 5);
    w->stalls_in[0] = true;
    struct hf_call *ticket = renew(w, lock, 20000);
    assert_int_equal(left(w, lock), 2000 - 2 - 5);
    w->stalls_in[0] = false;
    assert_int_equal(world_await(w, ticket, 1000, NULL), 0);
    assert_int_equal(left(w, lock), 20000 - 20 - 5);
    lock_unref(lock);
}

static void an_unanswered_shorter_ttl_outlasts_the_confirmation_of_a_longer_one(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    w->nodes[0].forget = 1; /* it is done, and answered with outcome_unknown */
    assert_int_equal(world_await(w, renew(w, lock, 2000), 1000, NULL), 0); /* by the second try */
    assert_int_equal(world_await(w, renew(w, lock, 20000), 1000, NULL), 0);
    /* The first try may be applied yet, however late. */
    assert_in_range(left(w, lock), 1, 2000 - 2 - 5);
    world_run(w, 60000);
    assert_int_equal(lock->state, LOCK_HELD); /* keep-alives go at the pace of the shorter one */
    assert_false(world_event(w, HF_EVENT_JEOPARDY, NULL, NULL));
    lock_unref(lock);
}

static void renewals_that_set_a_ttl_go_one_after_the_other(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    w->stalls_in[0] = true;
    struct hf_call *first = renew(w, lock, 2000);
    struct hf_call *second = renew(w, lock, 20000);
    assert_int_equal(fake_count(&w->nodes[0], "Renew"), 1);
    w->stalls_in[0] = false;
    assert_int_equal(world_await(w, first, 1000, NULL), 0);
    assert_int_equal(world_await(w, second, 1000, NULL), 0);
    assert_int_equal(fake_count(&w->nodes[0], "Renew"), 2);
    assert_int_equal(left(w, lock), 20000 - 20 - 5);
    lock_unref(lock);
}

static void keep_alives_are_never_sent_again_under_their_number(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    w->stalls_in[0] = true; /* the answer is on its way when the connection breaks */
    world_run(w, 10000);
    uint64_t number = w->client_engine.session.keepalive_number;
    world_kill(w, 0);
    world_start(w, 0);
    w->stalls_in[0] = false;
    int64_t before_ms = w->now_ms;
    world_run(w, 1000);
    assert_true(w->client_engine.session.keepalive_number > number);
    assert_true(w->client_engine.session.life.confirmed_ms >= before_ms);
    lock_unref(lock);
}

static void after_a_loss_a_new_session_serves_new_locks(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    fake_end_sessions(&w->nodes[0], "session_expired");
    world_settle(w);
    assert_int_equal(lock->state, LOCK_LOST);
    assert_string_equal(lock->loss, "session_expired");
    struct hf_lock *other = take(w, "b", NULL);
    assert_int_equal(w->nodes[0].opened, 2);
    assert_int_equal(lock->state, LOCK_LOST);
    assert_int_equal(world_await(w, world_release(w, lock), 1000, NULL), HF_ERR_LOST);
    lock_unref(other);
}

static void a_session_that_cannot_be_resumed_is_lost(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1,n1:1");
    struct hf_lock *lock = take(w, "a", NULL);
    w->nodes[1].has_no_sessions = true;
    world_kill(w, 0);
    world_run(w, 1000);
    assert_int_equal(lock->state, LOCK_LOST);
    assert_string_equal(lock->loss, "session_expired");
    lock_unref(lock);
}

static void forced_and_revoked_are_reported(void **state)
{
    struct client_world *w = *state;
    char text[WORDS_TEXT];
    world_begin(w, "n0:1");
    struct hf_lock *first = take(w, "a", NULL);
    struct hf_lock *second = take(w, "b", NULL);
    fake_revoke(&w->nodes[0], second->token, 5000, "maintenance");
    fake_lose(&w->nodes[0], first->token, "forced");
    world_settle(w);
    assert_true(world_event(w, HF_EVENT_REVOKE_REQUESTED, second, text));
    assert_string_equal(text, "maintenance");
    assert_true(world_event(w, HF_EVENT_LOST, first, NULL));
    assert_string_equal(first->loss, "forced");
    assert_int_equal(second->state, LOCK_HELD);
    assert_false(world_event(w, HF_EVENT_LOST, NULL, NULL));
    lock_unref(first);
    lock_unref(second);
}

static void what_was_forced_while_nobody_could_tell_is_found_after_the_resume(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1,n1:1");
    struct hf_lock *lock = take(w, "a", NULL);
    /* n1 knows nothing of the lock: it was forced while the stream was down. */
    w->nodes[1].ended = "forced";
    world_kill(w, 0);
    world_run(w, 1000);
    assert_int_equal(w->nodes[1].resumed, 1);
    assert_int_equal(fake_count(&w->nodes[1], "Renew"), 1);
    assert_int_equal(lock->state, LOCK_LOST);
    assert_true(world_event(w, HF_EVENT_LOST, lock, NULL));
    assert_string_equal(lock->loss, "forced");
    lock_unref(lock);
}

static void a_loss_that_no_stream_reports_is_found_by_the_next_keep_alive(void **state)
{
    struct client_world *w = *state;
    w->nodes[0].compares = true;
    world_begin(w, "n0:1");
    struct hf_lock *lost = take(w, "a", NULL);
    struct hf_lock *kept = take(w, "b", NULL);
    world_run(w, 30000);
    assert_int_equal(w->nodes[0].lists, 0); /* the numbers were equal */
    fake_free(&w->nodes[0], "a");
    w->nodes[0].ended = "forced";
    world_run(w, 10000);
    assert_int_equal(lost->state, LOCK_LOST);
    assert_string_equal(lost->loss, "forced");
    assert_true(world_event(w, HF_EVENT_LOST, lost, NULL));
    assert_int_equal(kept->state, LOCK_HELD);
    assert_int_equal(w->nodes[0].lists, 1);
    assert_int_equal(fake_count(&w->nodes[0], "Renew"),
                     1); /* only of the lock that was not listed */
    world_run(w, 30000);
    assert_int_equal(w->nodes[0].lists, 1);
    assert_int_equal(kept->state, LOCK_HELD);
    lock_unref(lost);
    lock_unref(kept);
}

static void the_pages_of_a_list_are_compared_together(void **state)
{
    enum { LOCKS = 7, LOST = 3 };
    struct client_world *w = *state;
    struct hf_lock *locks[LOCKS];
    char name[2] = "a";
    w->nodes[0].compares = true;
    w->nodes[0].page = 2;
    w->nodes[0].ended = "expired";
    world_begin(w, "n0:1");
    for (int i = 0; i < LOCKS; i++, name[0]++) {
        locks[i] = take(w, name, NULL);
    }
    fake_free(&w->nodes[0], "d");
    unsigned keepalives = w->nodes[0].keepalives;
    world_run(w, 10000);
    for (int i = 0; i < LOCKS; i++) {
        assert_int_equal(locks[i]->state, i == LOST ? LOCK_LOST : LOCK_HELD);
        lock_unref(locks[i]);
    }
    assert_int_equal(w->nodes[0].lists, 4); /* six locks, and an empty page */
    assert_int_equal(w->nodes[0].keepalives, keepalives + 4);
    assert_int_equal(fake_count(&w->nodes[0], "Renew"), 1);
}

static void a_list_is_not_compared_with_locks_that_are_newer_than_its_keep_alive(void **state)
{
    struct client_world *w = *state;
    w->nodes[0].compares = true;
    w->nodes[0].delays_lists = true;
    world_begin(w, "n0:1");
    struct hf_lock *lost = take(w, "a", NULL);
    fake_free(&w->nodes[0], "a");
    world_run(w, 10000);
    assert_int_equal(w->nodes[0].lists, 1);
    struct hf_lock *newer = take(w, "b", NULL);
    fake_send_list(&w->nodes[0]);
    world_run(w, 100);
    assert_int_equal(lost->state, LOCK_LOST);
    assert_int_equal(newer->state, LOCK_HELD);
    assert_int_equal(fake_count(&w->nodes[0], "Renew"), 1);
    lock_unref(lost);
    lock_unref(newer);
}

static void a_list_whose_stream_breaks_is_forgotten(void **state)
{
    struct client_world *w = *state;
    w->nodes[0].compares = true;
    w->nodes[0].page = 1;
    w->nodes[0].delays_lists = true;
    world_begin(w, "n0:1");
    struct hf_lock *first = take(w, "a", NULL);
    struct hf_lock *second = take(w, "b", NULL);
    fake_hold(&w->nodes[0], "another"); /* a token that the client does not have: no loss */
    world_run(w, 10000);
    assert_int_equal(w->nodes[0].lists, 1);
    fake_send_list(&w->nodes[0]);
    world_run(w, 100);
    assert_int_equal(w->nodes[0].lists, 2); /* the request for the second page, not answered */
    w->nodes[0].delays_lists = false;
    world_kill(w, 0);
    world_start(w, 0);
    world_run(w, 20000);
    assert_true(w->nodes[0].lists > 3);
    assert_int_equal(w->client_engine.session.listing.expected, 0);
    assert_int_equal(first->state, LOCK_HELD);
    assert_int_equal(second->state, LOCK_HELD);
    assert_int_equal(fake_count(&w->nodes[0], "Renew"), 2); /* after the resume */
    lock_unref(first);
    lock_unref(second);
}

static void an_older_node_does_not_say_how_a_lock_was_lost(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1,n1:1");
    struct hf_lock *lock = take(w, "a", NULL);
    world_kill(w, 0);
    world_run(w, 1000);
    assert_int_equal(lock->state, LOCK_LOST);
    assert_string_equal(lock->loss, "taken");
    lock_unref(lock);
}

static void a_new_epoch_loses_efficiency_locks_and_no_others(void **state)
{
    struct client_world *w = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.tier = HF_EFFICIENCY;
    world_begin(w, "n0:1");
    struct hf_lock *fast = take(w, "fast", &options);
    struct hf_lock *sure = take(w, "sure", NULL);
    w->nodes[0].epoch = 9;
    world_run(w, 10000);
    assert_int_equal(fast->state, LOCK_LOST);
    assert_string_equal(fast->loss, "epoch");
    assert_int_equal(sure->state, LOCK_HELD);
    lock_unref(fast);
    lock_unref(sure);
}

static void a_lock_of_a_shorter_ttl_is_lost_alone_and_given_back_after_its_delay(void **state)
{
    struct client_world *w = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.ttl_ms = 1000;
    options.lock_delay_ms = 2000;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", &options);
    w->nodes[0].is_deaf = true;
    world_run(w, 1100);
    assert_int_equal(lock->state, LOCK_LOST);
    assert_true(world_event(w, HF_EVENT_LOST, lock, NULL));
    assert_false(world_event(w, HF_EVENT_LOST, NULL, NULL)); /* the session lives */
    world_run(w, 1800);
    assert_int_not_equal(fake_holder(&w->nodes[0], "a"), 0);
    world_run(w, 300);
    assert_int_equal(fake_holder(&w->nodes[0], "a"), 0);
    lock_unref(lock);
}

static void a_lock_is_lost_at_its_max_hold_while_the_session_lives(void **state)
{
    struct client_world *w = *state;
    struct hf_lock_options options = HF_LOCK_OPTIONS;
    options.max_hold_ms = 60000;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", &options);
    world_run(w, 40000);
    assert_int_equal(lock->state, LOCK_HELD);
    assert_false(world_event(w, HF_EVENT_JEOPARDY, lock, NULL));
    world_run(w, 10000);
    char why[WORDS_TEXT];
    assert_true(world_event(w, HF_EVENT_JEOPARDY, lock, why));
    assert_string_equal(why, "max_hold");
    world_run(w, 11000);
    assert_int_equal(lock->state, LOCK_LOST);
    assert_string_equal(lock->loss, "max_hold");
    assert_true(world_event(w, HF_EVENT_LOST, lock, NULL));
    assert_false(world_event(w, HF_EVENT_LOST, NULL, NULL)); /* the session lives */
    lock_unref(lock);
}

static void closing_says_so_to_the_service(void **state)
{
    struct client_world *w = *state;
    world_begin(w, "n0:1");
    struct hf_lock *lock = take(w, "a", NULL);
    client_engine_shut(&w->client_engine, w->now_ms);
    world_settle(w);
    assert_true(w->client_engine.is_closed);
    assert_int_equal(w->nodes[0].closed, 1);
    lock_unref(lock);
}

static void a_session_that_is_refused_fails_the_calls_that_wait_for_it(void **state)
{
    struct client_world *w = *state;
    w->nodes[0].refuse_open = "client_id is wrong";
    world_begin(w, "n0:1");
    struct hf_call *ticket = world_acquire(w, "a", NULL);
    world_run(w, 1100);
    assert_true(ticket->is_done);
    assert_string_equal(ticket->text, "client_id is wrong");
    assert_int_equal(world_await(w, ticket, 0, NULL), HF_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        world_test(it_opens_a_session_and_takes_a_lock),
        world_test(a_lock_counts_from_the_first_sending_of_its_acquire),
        world_test(keep_alives_go_at_a_third_of_the_ttl_and_confirm_from_their_sending),
        world_test(the_shortest_ttl_of_a_lock_sets_the_pace),
        world_test(without_confirmation_jeopardy_and_then_lost_come_on_time),
        world_test(a_late_answer_does_not_rescue_what_is_lost),
        world_test(safe_comes_again_when_a_keep_alive_is_confirmed),
        world_test(a_renewal_that_is_tried_again_counts_from_its_last_sending),
        world_test(a_shorter_ttl_counts_although_its_renewal_was_cut_off_after_it_was_applied),
        world_test(a_longer_ttl_counts_when_it_is_confirmed),
        world_test(an_unanswered_shorter_ttl_outlasts_the_confirmation_of_a_longer_one),
        world_test(renewals_that_set_a_ttl_go_one_after_the_other),
        world_test(keep_alives_are_never_sent_again_under_their_number),
        world_test(after_a_loss_a_new_session_serves_new_locks),
        world_test(a_session_that_cannot_be_resumed_is_lost),
        world_test(forced_and_revoked_are_reported),
        world_test(what_was_forced_while_nobody_could_tell_is_found_after_the_resume),
        world_test(a_loss_that_no_stream_reports_is_found_by_the_next_keep_alive),
        world_test(the_pages_of_a_list_are_compared_together),
        world_test(a_list_is_not_compared_with_locks_that_are_newer_than_its_keep_alive),
        world_test(a_list_whose_stream_breaks_is_forgotten),
        world_test(an_older_node_does_not_say_how_a_lock_was_lost),
        world_test(a_new_epoch_loses_efficiency_locks_and_no_others),
        world_test(a_lock_of_a_shorter_ttl_is_lost_alone_and_given_back_after_its_delay),
        world_test(a_lock_is_lost_at_its_max_hold_while_the_session_lives),
        world_test(closing_says_so_to_the_service),
        world_test(a_session_that_is_refused_fails_the_calls_that_wait_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
