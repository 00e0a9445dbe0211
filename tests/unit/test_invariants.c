/* The invariants see what they say they see: each is broken by hand, and named. */
#include "base_testing.h"

#include "../support/rich_core.h"
#include "core/state.h"

static struct counted memory;

static struct rich make(void)
{
    counted_init(&memory);
    struct core_options options = {.memory = &memory.memory, .hash_key = 3};
    struct rich r = rich_new(&options);
    const char *broken = core_check_invariants(r.core);
    if (broken != NULL) {
        fail_msg("broken before anything was done: %s", broken);
    }
    return r;
}

/* ---- ways into the state ---- */

static struct lock *lock_named(struct core *c, const char *name)
{
    ref who = lock_find(c, 0, slice_of(name));
    assert_int_not_equal(who, 0);
    return lock_at(c, who);
}

static struct lock_extra *extra_of(struct core *c, const char *name)
{
    struct lock_extra *x = lock_extra_get(c, lock_named(c, name));
    assert_non_null(x);
    return x;
}

static ref first_holder(struct core *c, const char *name)
{
    return RING_FIRST(c, lock_named(c, name)->holders, grant, in_lock);
}

static struct grant *holder_of(struct core *c, const char *name)
{
    return grant_at(c, first_holder(c, name));
}

static struct detail *detail_of(struct core *c, const char *name)
{
    struct detail *d = grant_detail(c, holder_of(c, name));
    assert_non_null(d);
    return d;
}

static struct waiter *waiter_of(struct core *c, uint64_t lease)
{
    bool is_grant = false;
    ref who = lease_target(c, rich_lease(lease), &is_grant);
    assert_true(who != 0 && !is_grant);
    return waiter_at(c, who);
}

static ref session_ref(struct core *c, uint64_t i)
{
    ref who = session_find(c, rich_session(i));
    assert_int_not_equal(who, 0);
    return who;
}

static struct session *session_of(struct core *c, uint64_t i)
{
    return session_at(c, session_ref(c, i));
}

/* ---- the breaking ---- */

static void a_number_too_large(struct core *c)
{
    c->ticket = LIMIT_NUMBER;
}

static void an_epoch_above_the_counter(struct core *c)
{
    c->epoch = c->counter + 1;
}

static void a_ring_with_a_wrong_neighbour(struct core *c)
{
    struct session *s = session_at(c, RING_FIRST(c, c->all_sessions, session, all));
    session_at(c, s->all.next)->all.prev = s->all.next;
}

static void a_ring_without_end(struct core *c)
{
    struct session *s = session_of(c, 1); /* it has four grants: the second leads to itself */
    struct grant *first = grant_at(c, RING_FIRST(c, s->holds, grant, in_session));
    struct grant *second = grant_at(c, first->in_session.next);
    second->in_session.prev = second->in_session.next = first->in_session.next;
}

static void an_extra_of_another(struct core *c)
{
    extra_of(c, "plain")->lock = extra_of(c, "pool")->lock;
}

static void two_exclusive_holders(struct core *c)
{
    lock_named(c, "shared/one")->mode = MODE_EXCLUSIVE;
}

static void permits_miscounted(struct core *c)
{
    extra_of(c, "pool")->used++;
}

static void permits_above_the_limit(struct core *c)
{
    holder_of(c, "pool")->permits = 10;
    extra_of(c, "pool")->used += 8;
}

static void two_holders_of_a_slot(struct core *c)
{
    struct grant *g = holder_of(c, "pool");
    g->slot = grant_at(c, g->in_lock.next)->slot;
}

static void a_slot_that_nobody_has(struct core *c)
{
    uint64_t *words = pool_at(&c->pool, extra_of(c, "pool")->slots);
    words[0] |= 1 << 6;
}

static void holders_out_of_order(struct core *c)
{
    struct grant *g = holder_of(c, "shared/one");
    g->token = c->counter << 10;
}

/* The sum of the session stays right. */
static void set_token(struct core *c, struct grant *g, uint64_t token)
{
    session_at(c, g->session)->token_xor ^= g->token ^ token;
    g->token = token;
}

static void a_token_from_the_future(struct core *c)
{
    set_token(c, holder_of(c, "contended"), (c->counter << 10) + 1);
}

static void a_token_twice(struct core *c)
{
    set_token(c, holder_of(c, "contended"), holder_of(c, "leader")->token);
}

static void a_token_of_one_that_ended(struct core *c)
{
    ref who = recent_at(&c->own.ended_grants, 0);
    set_token(c, holder_of(c, "contended"), ended_grant_at(c, who)->token);
}

static void holders_miscounted(struct core *c)
{
    extra_of(c, "shared/one")->holders--;
}

static void a_queue_miscounted(struct core *c)
{
    extra_of(c, "plain")->queue_length++;
}

static void a_queue_out_of_order(struct core *c)
{
    waiter_of(c, 40)->ticket = c->ticket;
}

static void a_waiter_of_another_class(struct core *c)
{
    waiter_of(c, 40)->mode = MODE_ELECTION;
}

static void a_waiter_of_another_limit(struct core *c)
{
    waiter_of(c, 51)->limit = 6;
}

static void a_cursor_too_far(struct core *c)
{
    struct lock_extra *x = extra_of(c, "plain");
    x->cursor = x->queue;
}

static void a_cursor_at_the_end(struct core *c)
{
    extra_of(c, "plain")->cursor = 0;
}

static void a_lost_wake_up(struct core *c)
{
    struct slice none = slice_make(NULL, 0);
    grant_end(c, first_holder(c, "plain"), ENDED_RELEASED, c->now_ms, none, none, true);
    struct lock_extra *x = extra_of(c, "plain");
    RING_REMOVE(c, &c->woken, lock_named(c, "plain")->extra, lock_extra, woken);
    assert_int_equal(x->woken.next, 0);
}

static void a_lost_wake_up_of_readers(struct core *c)
{
    struct slice none = slice_make(NULL, 0);
    grant_end(c, first_holder(c, "leader"), ENDED_RELEASED, c->now_ms, none, none, true);
    RING_REMOVE(c, &c->woken, lock_named(c, "leader")->extra, lock_extra, woken);
}

static void a_name_that_nobody_uses(struct core *c)
{
    (void)lock_new(c, hash_name(c, 0, slice_of("idle")), 0, slice_of("idle"));
}

static void a_delay_without_its_ring(struct core *c)
{
    extra_of(c, "delayed")->delayed_until_ms = 0;
}

static void a_delay_with_a_wrong_timer(struct core *c)
{
    extra_of(c, "delayed")->delayed_until_ms++;
}

static void a_ring_of_woken_that_lost_one(struct core *c)
{
    lock_wake(c, lock_find(c, 0, slice_of("plain")));
    c->woken = 0;
}

static void names_of_a_session_miscounted(struct core *c)
{
    session_of(c, 1)->entries++;
}

static void tokens_of_a_session_miscounted(struct core *c)
{
    session_of(c, 1)->token_count--;
}

static void tokens_of_a_session_mixed_up(struct core *c)
{
    session_of(c, 1)->token_xor ^= 1024;
}

static void a_grant_of_another_session(struct core *c)
{
    holder_of(c, "leader")->session = session_ref(c, 1);
}

static void holds_out_of_order(struct core *c)
{
    holder_of(c, "own-ttl")->token = 1024 * 2;
    holder_of(c, "plain")->token = 1024 * 3;
}

static void a_private_session_with_extras(struct core *c)
{
    (void)session_extra_make(c, session_find(c, rich_lease(32)));
}

static void an_empty_private_session(struct core *c)
{
    ref who = session_new(c, 0, (struct id){9, 9}, slice_of("x"), true, 1000);
    assert_int_not_equal(who, 0);
}

static void a_lease_that_is_not_found(struct core *c)
{
    waiter_of(c, 40)->lease.low ^= 1;
}

static void a_lease_table_with_a_foreign_object(struct core *c)
{
    struct grant *g = holder_of(c, "alone");
    table_insert(&c->leases, hash_id(c, grant_lease(c, g)), first_holder(c, "alone"));
}

static void a_multi_lock_out_of_order(struct core *c)
{
    struct group *all = group_at(c, detail_of(c, "multi/a")->group);
    ref second = all->grants[1];
    all->grants[1] = all->grants[2];
    all->grants[2] = second;
}

static void a_later_part_with_a_ttl(struct core *c)
{
    detail_of(c, "multi/b")->ttl_ms = 1000;
}

static void a_token_that_is_not_found(struct core *c)
{
    detail_of(c, "shared/one")->by_token = 0;
}

static void a_session_without_a_timer(struct core *c)
{
    timer_set(c, session_ref(c, 3), UINT64_MAX);
}

static void a_session_with_a_late_timer(struct core *c)
{
    timer_set(c, session_ref(c, 3), session_deadline(c, session_of(c, 3)) + 1);
}

static void a_grant_without_a_timer(struct core *c)
{
    timer_set(c, first_holder(c, "own-ttl"), UINT64_MAX);
}

static void a_waiter_without_a_timer(struct core *c)
{
    struct waiter *w = waiter_of(c, 40);
    w->wait_deadline_ms -= 1;
}

static void node_waiters_with_a_wrong_timer(struct core *c)
{
    node_waiters_at(c, waiter_of(c, 44)->node_waiters)->until_ms++;
}

static void a_waiter_of_another_node(struct core *c)
{
    waiter_of(c, 42)->node++;
}

static void a_number_of_two_attachments(struct core *c)
{
    waiter_of(c, 43)->attachment = waiter_of(c, 40)->attachment;
}

static void a_revisit_of_node_waiters_that_are_attached(struct core *c)
{
    struct node_waiters *node_waiters = node_waiters_at(c, waiter_of(c, 42)->node_waiters);
    node_waiters->revisit = RING_FIRST(c, node_waiters->waiters, waiter, in_node_waiters);
}

static void a_request_that_lost_its_grant(struct core *c)
{
    request_at(c, detail_of(c, "leader")->request)->target = 0;
}

static void a_reply_that_lost_its_grant(struct core *c)
{
    detail_of(c, "own-ttl")->request = 0;
}

static void a_request_that_is_done_and_holds(struct core *c)
{
    request_at(c, recent_at(&c->own.done_requests[DONE_OF_CLIENTS], 0))->state = REQUEST_HOLDING;
}

static void a_request_that_is_done_among_the_others(struct core *c)
{
    ref who = recent_at(&c->own.done_requests[DONE_OF_CLIENTS], 0);
    table_insert(&c->requests, request_at(c, who)->hash, who);
}

static void strays_miscounted(struct core *c)
{
    c->own.strays--;
}

static void a_drawn_request_among_those_of_operators(struct core *c)
{
    ref who = recent_drop_oldest(&c->own.done_requests[DONE_DRAWN]);
    (void)recent_add(&c->own.done_requests[DONE_OF_OPERATORS], who, &request_at(c, who)->hash);
}

static void an_operators_request_of_the_future(struct core *c)
{
    request_at(c, recent_at(&c->own.done_requests[DONE_OF_OPERATORS], 0))->done_ms = c->now_ms + 1;
}

static void a_request_that_holds_and_is_not_found(struct core *c)
{
    ref who = detail_of(c, "leader")->request;
    table_remove(&c->requests, request_at(c, who)->hash, who);
}

static void a_reply_that_was_acknowledged(struct core *c)
{
    session_extra_get(c, session_of(c, 1))->acked_through = 100;
}

static void replies_miscounted(struct core *c)
{
    session_extra_get(c, session_of(c, 1))->unacked++;
}

static void an_end_of_one_who_lives(struct core *c)
{
    history_add_session(c, 0, rich_session(1), ENDED_SESSION_CLOSED);
}

static void an_end_of_a_grant_that_lives(struct core *c)
{
    history_add_grant(c, 0, 7, rich_lease(1), ENDED_RELEASED);
}

static void a_mark_at_the_wrong_place(struct core *c)
{
    fence_find(c, 0, slice_of("disk/1"), 0)->token++;
}

static void a_floor_without_need(struct core *c)
{
    c->own.fence_floor = 1;
}

static void a_floor_above_the_issued(struct core *c)
{
    c->own.fence_floor = LIMIT_NUMBER - 1;
    RING_EACH(c, who, c->own.fence_marks, fence_mark, ring)
    {
        struct fence_mark *f = fence_mark_at(c, who);
        f->token = LIMIT_NUMBER - 1;
        heap_change(&c->own.fence_heap, f->position, f->token);
    }
}

static void a_gap_in_the_audit(struct core *c)
{
    audit_record_at(c, RING_FIRST(c, c->own.audit, audit_record, ring))->number = 77;
}

static void a_record_beyond_the_newest(struct core *c)
{
    c->own.audit_number--;
}

static void grants_miscounted(struct core *c)
{
    c->grants++;
}

static void waiters_miscounted(struct core *c)
{
    c->waiters--;
}

static void a_sign_of_life_from_the_future(struct core *c)
{
    session_of(c, 1)->life_ms = c->now_ms + 1;
}

static void a_name_of_a_tenant_counted_twice(struct core *c)
{
    c->own.usage.names++;
}

static void a_principal_that_was_never_given(struct core *c)
{
    session_of(c, 1)->principal = 1000;
}

static void tokens_of_a_principal_miscounted(struct core *c)
{
    policy_principal_row(c->policy, 2)->tokens++;
}

static void grants_of_the_policy_miscounted(struct core *c)
{
    c->policy->terms_bytes++;
}

static void a_principal_above_the_last_number(struct core *c)
{
    c->policy->last_principal--;
    c->policy->last_principal--;
}

static void a_request_of_another_principal(struct core *c)
{
    ref session = session_find(c, rich_lease(602));
    ref grant = RING_FIRST(c, session_at(c, session)->holds, grant, in_session);
    struct request *r = request_at(c, grant_detail(c, grant_at(c, grant))->request);
    r->principal = 1;
}

static void each_broken_invariant_is_named(void **state)
{
    (void)state;
#define BROKEN(number, act)        \
    {                              \
        "I" #number ":", #act, act \
    }
    static const struct {
        const char *number;
        const char *name;
        void (*act)(struct core *c);
    } rows[] = {
        BROKEN(1, a_number_too_large),
        BROKEN(1, an_epoch_above_the_counter),
        BROKEN(2, a_ring_with_a_wrong_neighbour),
        BROKEN(2, a_ring_without_end),
        BROKEN(3, an_extra_of_another),
        BROKEN(4, two_exclusive_holders),
        BROKEN(5, permits_miscounted),
        BROKEN(5, permits_above_the_limit),
        BROKEN(6, two_holders_of_a_slot),
        BROKEN(6, a_slot_that_nobody_has),
        BROKEN(7, holders_out_of_order),
        BROKEN(7, a_token_from_the_future),
        BROKEN(8, a_token_twice),
        BROKEN(8, a_token_of_one_that_ended),
        BROKEN(9, holders_miscounted),
        BROKEN(10, a_queue_miscounted),
        BROKEN(10, a_queue_out_of_order),
        BROKEN(10, a_waiter_of_another_class),
        BROKEN(10, a_waiter_of_another_limit),
        BROKEN(11, a_cursor_too_far),
        BROKEN(11, a_cursor_at_the_end),
        BROKEN(12, a_lost_wake_up),
        BROKEN(12, a_lost_wake_up_of_readers),
        BROKEN(13, a_name_that_nobody_uses),
        BROKEN(14, a_delay_without_its_ring),
        BROKEN(14, a_delay_with_a_wrong_timer),
        BROKEN(15, a_ring_of_woken_that_lost_one),
        BROKEN(16, names_of_a_session_miscounted),
        BROKEN(41, tokens_of_a_session_miscounted),
        BROKEN(41, tokens_of_a_session_mixed_up),
        BROKEN(16, a_grant_of_another_session),
        BROKEN(16, holds_out_of_order),
        BROKEN(17, a_private_session_with_extras),
        BROKEN(17, an_empty_private_session),
        BROKEN(18, a_lease_that_is_not_found),
        BROKEN(18, a_lease_table_with_a_foreign_object),
        BROKEN(19, a_multi_lock_out_of_order),
        BROKEN(19, a_later_part_with_a_ttl),
        BROKEN(20, a_token_that_is_not_found),
        BROKEN(21, a_session_without_a_timer),
        BROKEN(21, a_session_with_a_late_timer),
        BROKEN(21, a_grant_without_a_timer),
        BROKEN(21, a_waiter_without_a_timer),
        BROKEN(21, node_waiters_with_a_wrong_timer),
        BROKEN(22, a_waiter_of_another_node),
        BROKEN(22, a_number_of_two_attachments),
        BROKEN(23, a_revisit_of_node_waiters_that_are_attached),
        BROKEN(24, a_request_that_lost_its_grant),
        BROKEN(24, a_reply_that_lost_its_grant),
        BROKEN(24, a_request_that_is_done_and_holds),
        BROKEN(24, a_request_that_is_done_among_the_others),
        BROKEN(24, a_request_that_holds_and_is_not_found),
        BROKEN(24, strays_miscounted),
        BROKEN(24, a_drawn_request_among_those_of_operators),
        BROKEN(24, an_operators_request_of_the_future),
        BROKEN(25, a_reply_that_was_acknowledged),
        BROKEN(25, replies_miscounted),
        BROKEN(26, an_end_of_one_who_lives),
        BROKEN(26, an_end_of_a_grant_that_lives),
        BROKEN(27, a_mark_at_the_wrong_place),
        BROKEN(27, a_floor_without_need),
        BROKEN(27, a_floor_above_the_issued),
        BROKEN(28, a_gap_in_the_audit),
        BROKEN(28, a_record_beyond_the_newest),
        BROKEN(29, grants_miscounted),
        BROKEN(29, waiters_miscounted),
        BROKEN(30, a_sign_of_life_from_the_future),
        BROKEN(36, a_name_of_a_tenant_counted_twice),
        BROKEN(37, a_principal_that_was_never_given),
        BROKEN(37, tokens_of_a_principal_miscounted),
        BROKEN(37, grants_of_the_policy_miscounted),
        BROKEN(37, a_principal_above_the_last_number),
        BROKEN(24, a_request_of_another_principal),
    };
#undef BROKEN
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rich r = make();
        rows[i].act(r.core);
        const char *broken = core_check_invariants(r.core);
        if (broken == NULL || strncmp(broken, rows[i].number, strlen(rows[i].number)) != 0) {
            fail_msg("%s: expected %s, got %s", rows[i].name, rows[i].number,
                     broken == NULL ? "nothing" : broken);
        }
        core_free(r.core);
        assert_all_given_back(&memory);
    }
}

static void they_hold_when_work_is_left_over(void **state)
{
    (void)state;
    struct rich r = make();
    rich_overflow(&r);
    assert_true(r.core->backlog);
    assert_int_not_equal(r.core->woken, 0);
    assert_int_not_equal(r.core->revisits, 0);
    assert_null(core_check_invariants(r.core));
    for (unsigned i = 0; core_next_due_ms(r.core) <= r.now_ms; i++) {
        assert_true(i < 100);
        rich_pass(&r, 0);
        const char *broken = core_check_invariants(r.core);
        if (broken != NULL) {
            fail_msg("after %u entries: %s", i, broken);
        }
    }
    core_free(r.core);
    assert_all_given_back(&memory);
}

static void they_hold_after_a_recovery(void **state)
{
    (void)state;
    struct rich r = make();
    rich_pass(&r, 1);
    core_recover(r.core, slice_of("ann"), slice_of("lost two disks"));
    assert_null(core_check_invariants(r.core));
    core_free(r.core);
}

static void the_check_gives_back_what_it_takes(void **state)
{
    (void)state;
    struct rich r = make();
    uint64_t bytes = memory.bytes;
    assert_null(core_check_invariants(r.core));
    assert_int_equal(memory.bytes, bytes);
    core_free(r.core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_broken_invariant_is_named),
        cmocka_unit_test(they_hold_when_work_is_left_over),
        cmocka_unit_test(they_hold_after_a_recovery),
        cmocka_unit_test(the_check_gives_back_what_it_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
