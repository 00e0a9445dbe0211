/* What the policy means for sessions, grants and waiters (S14.2, S14.4): who owns them, and what
 * happens to them when a principal is narrowed or removed. */
#include "base_testing.h"

#include "core/view.h"
#include "core_harness.h"
#include "policy_changes.h"

enum { TENANT = 1, ANN = 1, BOB, OPS, ROOT };

struct world {
    struct core *core;
    uint64_t index;
    uint64_t now;
    uint32_t events[EVENT_COUNT];
    uint32_t denied; /* waits that ended so */
    uint32_t most_sweep_steps;
    struct policy_changes changes;
    struct result result;
    struct counted memory;
};

static void on_event(void *ctx, const struct event *e)
{
    struct world *w = ctx;
    w->events[e->type]++;
    w->denied += e->type == EVENT_WAIT_ENDED && e->reason == REASON_DENIED;
}

static void begin(struct world *w, uint64_t later)
{
    w->now += later;
    core_begin(w->core, ++w->index, w->now, 1700000000000 + w->now);
    struct core_stats stats;
    core_stats(w->core, &stats);
    assert_true(stats.last_sweep_steps <= LIMIT_SWEEP_STEPS);
    w->most_sweep_steps =
        stats.last_sweep_steps > w->most_sweep_steps ? stats.last_sweep_steps : w->most_sweep_steps;
}

static enum hf_error apply(struct world *w, const struct command *c)
{
    core_apply(w->core, c, &w->result);
    struct core_stats stats;
    core_stats(w->core, &stats);
    assert_true(stats.last_steps <= LIMIT_COMMAND_STEPS);
    return w->result.error;
}

static enum hf_error change(struct world *w, bool ends)
{
    struct command c = changes_command(&w->changes);
    c.policy_change.end_sessions = ends;
    enum hf_error error = apply(w, &c);
    changes_begin(&w->changes);
    return error;
}

static void world_open_at(struct world *w, uint32_t version)
{
    memset(w, 0, sizeof(*w));
    counted_init(&w->memory);
    struct core_options options = {.memory = &w->memory.memory,
                                   .hash_key = 3,
                                   .on_event = on_event,
                                   .event_ctx = w,
                                   .version = version};
    w->core = core_new(&options);
    changes_begin(&w->changes);
    begin(w, 1000);
}

static void world_open(struct world *w)
{
    world_open_at(w, CORE_VERSION);
    add_tenant(&w->changes, "team");
    add_principal(&w->changes, "team", "ann", "team", "", RIGHT_LOCK);
    add_principal(&w->changes, "team", "bob", "team", "", RIGHT_LOCK);
    add_principal(&w->changes, "team", "ops", "team", "", RIGHT_OPERATE);
    add_principal(&w->changes, "default", "root", "*", "", RIGHTS_ALL);
    assert_int_equal(change(w, false), HF_OK);
}

static void world_close(struct world *w)
{
    assert_null(core_check_invariants(w->core));
    core_free(w->core);
    assert_all_given_back(&w->memory);
}

/* The snapshot of the core, restored, gives the same snapshot. Goes on with the restored one. */
static void pass_through_a_snapshot(struct world *w)
{
    struct bytes before = snapshot_of(w->core);
    struct core_options options = {
        .memory = &w->memory.memory, .hash_key = 99, .on_event = on_event, .event_ctx = w};
    enum hf_error error;
    struct snapshot_problem problem;
    struct core *core = core_from(&options, before.data, before.len, 1000, &error, &problem);
    if (core == NULL) {
        fail_msg("refused: %s", problem.text);
    }
    struct bytes after = snapshot_of(core);
    assert_true(bytes_equal(&before, &after));
    bytes_free(&before);
    bytes_free(&after);
    core_free(w->core);
    w->core = core;
}

static struct command of(uint32_t principal, enum command_type type)
{
    struct command c;
    command_init(&c, type);
    c.tenant = TENANT;
    c.principal = principal;
    return c;
}

static struct id an_id(uint64_t number)
{
    return (struct id){7, number};
}

static enum hf_error open_session(struct world *w, uint32_t principal, uint64_t id)
{
    struct command c = of(principal, COMMAND_SESSION_OPEN);
    c.session_open.id = an_id(id);
    c.session_open.client = slice_of("client");
    c.session_open.ttl_ms = 10000;
    return apply(w, &c);
}

/* Session 0: none. */
static struct command acquire_of(uint32_t principal, uint64_t session, uint64_t lease,
                                 const char *name)
{
    struct command c = of(principal, COMMAND_ACQUIRE);
    c.session = session == 0 ? (struct id){0, 0} : an_id(session);
    c.acquire.lease = an_id(lease);
    c.acquire.node = 1;
    c.acquire.client = slice_of("client");
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = slice_of(name);
    c.acquire.ttl_ms = session == 0 ? 10000 : 0;
    c.acquire.wait_ms = 60000;
    return c;
}

static enum outcome acquire(struct world *w, uint32_t principal, uint64_t session, uint64_t lease,
                            const char *name)
{
    struct command c = acquire_of(principal, session, lease, name);
    assert_int_equal(apply(w, &c), HF_OK);
    return w->result.outcome;
}

static enum hf_error release(struct world *w, uint32_t principal, uint64_t lease)
{
    struct command c = of(principal, COMMAND_RELEASE);
    c.release.lease = an_id(lease);
    return apply(w, &c);
}

static enum hf_error renew(struct world *w, uint32_t principal, uint64_t lease)
{
    struct command c = of(principal, COMMAND_RENEW);
    c.renew.lease = an_id(lease);
    return apply(w, &c);
}

/* Of one session; by a node: principal 0. */
static enum hf_error keep_alive(struct world *w, uint32_t principal, uint64_t session)
{
    uint8_t packed[16];
    struct id id = an_id(session);
    struct command c = of(principal, COMMAND_KEEPALIVE);
    memcpy(packed, &id.high, 8);
    memcpy(packed + 8, &id.low, 8);
    c.keepalive.sessions = (struct ids){1, packed};
    assert_int_equal(apply(w, &c), HF_OK);
    return (enum hf_error)w->result.alive[0];
}

static void fire(struct world *w, const char *name, bool ends)
{
    remove_principal(&w->changes, "team", name);
    assert_int_equal(change(w, ends), HF_OK);
}

/* ---- ownership ---- */

static void sessions_and_grants_belong_to_their_principal(void **state)
{
    (void)state;
    struct world w;
    struct session_view session;
    struct key_view key;
    world_open(&w);
    assert_int_equal(open_session(&w, ANN, 1), HF_OK);
    assert_int_equal(acquire(&w, ANN, 1, 10, "in-session"), OUTCOME_GRANTED);
    assert_int_equal(acquire(&w, ANN, 0, 11, "alone"), OUTCOME_GRANTED);
    assert_true(view_session(w.core, an_id(1), &session));
    assert_int_equal(session.principal, ANN);
    view_key(w.core, TENANT, slice_of("alone"), &key);
    assert_int_equal(key.principal, ANN);
    for (uint64_t lease = 10; lease <= 11; lease++) {
        assert_int_equal(release(&w, BOB, lease), HF_OK);
        assert_int_equal(w.result.outcome, OUTCOME_REFUSED);
        assert_int_equal(w.result.reason, REASON_NOT_OWNER);
        assert_int_equal(renew(&w, BOB, lease), HF_OK);
        assert_int_equal(w.result.reason, REASON_NOT_OWNER);
        struct command c = of(BOB, COMMAND_CANCEL);
        c.cancel.lease = an_id(lease);
        assert_int_equal(apply(&w, &c), HF_OK);
        assert_int_equal(w.result.token, 0); /* it does not learn that it is held */
    }
    struct command c = acquire_of(BOB, 1, 12, "x"); /* in the session of another */
    assert_int_equal(apply(&w, &c), HF_SESSION_NOT_FOUND);
    c = acquire_of(BOB, 0, 11, "alone"); /* with the lease id of another */
    assert_int_equal(apply(&w, &c), HF_REQUEST_ID_REUSED);
    assert_int_equal(open_session(&w, BOB, 1), HF_REQUEST_ID_REUSED);
    assert_int_equal(keep_alive(&w, BOB, 1), HF_SESSION_NOT_FOUND);
    c = of(BOB, COMMAND_SESSION_CLOSE);
    c.session = an_id(1);
    assert_int_equal(apply(&w, &c), HF_SESSION_NOT_FOUND);
    c = of(BOB, COMMAND_STREAM_UP);
    c.session = an_id(1);
    assert_int_equal(apply(&w, &c), HF_SESSION_NOT_FOUND);
    pass_through_a_snapshot(&w);
    assert_int_equal(keep_alive(&w, ANN, 1), HF_OK);
    assert_int_equal(keep_alive(&w, 0, 1), HF_OK); /* a node, for many */
    assert_int_equal(release(&w, BOB, 10), HF_OK);
    assert_int_equal(w.result.reason, REASON_NOT_OWNER);
    assert_int_equal(release(&w, ANN, 10), HF_OK);
    assert_int_equal(w.result.outcome, OUTCOME_DONE);
    assert_int_equal(release(&w, ANN, 11), HF_OK);
    assert_int_equal(w.result.outcome, OUTCOME_DONE);
    world_close(&w);
}

static void a_principal_is_part_of_the_scope_of_a_request_id(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    struct command c = acquire_of(ANN, 0, 10, "a");
    c.request_id = slice_of("r1");
    assert_int_equal(apply(&w, &c), HF_OK);
    uint64_t token = w.result.token;
    c = acquire_of(BOB, 0, 11, "b"); /* the same client id and request id, another body */
    c.request_id = slice_of("r1");
    assert_int_equal(apply(&w, &c), HF_OK);
    assert_false(w.result.replayed);
    for (unsigned i = 0; i < 2; i++) { /* while they hold, and when they are done */
        pass_through_a_snapshot(&w);
        c = acquire_of(ANN, 0, 20 + i, "a");
        c.request_id = slice_of("r1");
        assert_int_equal(apply(&w, &c), HF_OK);
        assert_true(w.result.replayed);
        assert_int_equal(w.result.token, token);
        c.acquire.names.at[0] = slice_of("b");
        assert_int_equal(apply(&w, &c), HF_REQUEST_ID_REUSED);
        c.principal = BOB;
        assert_int_equal(apply(&w, &c), HF_OK);
        assert_true(w.result.replayed);
        assert_true(w.result.token != token);
        assert_int_equal(release(&w, ANN, 10), HF_OK);
        assert_int_equal(release(&w, BOB, 11), HF_OK);
    }
    world_close(&w);
}

static void a_new_principal_of_the_same_name_owns_nothing(void **state)
{
    (void)state;
    struct world w;
    struct principal_view principal;
    world_open(&w);
    assert_int_equal(open_session(&w, ANN, 1), HF_OK);
    assert_int_equal(acquire(&w, ANN, 1, 10, "a"), OUTCOME_GRANTED);
    remove_principal(&w.changes, "team", "ann");
    add_principal(&w.changes, "team", "ann", "team", "", RIGHT_LOCK);
    assert_int_equal(change(&w, false), HF_OK);
    assert_true(policy_find_principal(core_policy(w.core), TENANT, slice_of("ann"), &principal));
    assert_int_equal(principal.number, 5);
    assert_int_equal(keep_alive(&w, 5, 1), HF_SESSION_NOT_FOUND);
    assert_int_equal(release(&w, 5, 10), HF_OK);
    assert_int_equal(w.result.reason, REASON_NOT_OWNER);
    world_close(&w);
}

/* ---- narrowed rights ---- */

static void a_narrowed_principal_releases_and_does_not_renew(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    assert_int_equal(open_session(&w, ANN, 1), HF_OK);
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(acquire(&w, ANN, i, 10 + i, i == 0 ? "a" : "b"), OUTCOME_GRANTED);
    }
    struct command multi = acquire_of(ANN, 1, 12, "jobs/1");
    multi.acquire.names.count = 2;
    multi.acquire.names.at[1] = slice_of("z");
    assert_int_equal(apply(&w, &multi), HF_OK);
    uint64_t token = w.result.token;
    add_principal(&w.changes, "team", "ann", "team", "jobs/", RIGHT_LOCK);
    assert_int_equal(change(&w, false), HF_OK);
    assert_int_equal(renew(&w, ANN, 10), HF_DENIED);
    assert_int_equal(renew(&w, ANN, 11), HF_DENIED);
    assert_int_equal(renew(&w, ANN, 12), HF_DENIED); /* it may lock only one of the names */
    struct command c = of(ANN, COMMAND_RENEW);
    c.renew.token = token; /* without a name */
    assert_int_equal(apply(&w, &c), HF_DENIED);
    c.renew.name = slice_of("jobs/1"); /* with the one that it may lock */
    assert_int_equal(apply(&w, &c), HF_DENIED);
    assert_int_equal(renew(&w, 0, 12), HF_OK);
    assert_int_equal(w.result.outcome, OUTCOME_DONE);
    assert_int_equal(keep_alive(&w, ANN, 1), HF_OK); /* the session lives on */
    for (uint64_t i = 0; i < 3; i++) {
        assert_int_equal(release(&w, ANN, 10 + i), HF_OK);
        assert_int_equal(w.result.outcome, OUTCOME_DONE);
    }
    c = acquire_of(ANN, 1, 13, "a");
    assert_int_equal(apply(&w, &c), HF_DENIED);
    assert_int_equal(acquire(&w, ANN, 1, 13, "jobs/2"), OUTCOME_GRANTED);
    assert_int_equal(renew(&w, ANN, 13), HF_OK);
    assert_int_equal(w.result.outcome, OUTCOME_DONE);
    world_close(&w);
}

static void a_waiter_that_may_not_lock_any_more_ends_denied(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    assert_int_equal(acquire(&w, BOB, 0, 10, "a"), OUTCOME_GRANTED);
    assert_int_equal(open_session(&w, ANN, 1), HF_OK);
    assert_int_equal(acquire(&w, ANN, 0, 11, "a"), OUTCOME_QUEUED);
    assert_int_equal(acquire(&w, ANN, 1, 12, "a"), OUTCOME_QUEUED);
    struct command c = acquire_of(ANN, 1, 13, "a"); /* a multi-lock */
    c.acquire.owner = slice_of("other");
    c.acquire.names.count = 2;
    c.acquire.names.at[1] = slice_of("jobs/1");
    assert_int_equal(apply(&w, &c), HF_OK);
    assert_int_equal(w.result.outcome, OUTCOME_QUEUED);
    c = acquire_of(ANN, 0, 14, "a");
    c.request_id = slice_of("once");
    assert_int_equal(apply(&w, &c), HF_OK);
    assert_int_equal(acquire(&w, BOB, 0, 15, "a"), OUTCOME_QUEUED);
    add_principal(&w.changes, "team", "ann", "team", "jobs/", RIGHT_LOCK);
    assert_int_equal(change(&w, false), HF_OK);
    pass_through_a_snapshot(&w);
    assert_int_equal(w.denied, 0); /* they stay until they would be granted */
    assert_int_equal(release(&w, BOB, 10), HF_OK);
    assert_int_equal(w.denied, 5); /* once for each name of the multi-lock */
    struct key_view key;
    view_key(w.core, TENANT, slice_of("a"), &key);
    assert_int_equal(key.principal, BOB);
    add_principal(&w.changes, "team", "ann", "team", "", RIGHT_LOCK); /* it may lock again */
    assert_int_equal(change(&w, false), HF_OK);
    c.acquire.lease = an_id(99); /* the answer to the waiter is remembered */
    assert_int_equal(apply(&w, &c), HF_OK);
    assert_true(w.result.replayed);
    assert_int_equal(w.result.outcome, OUTCOME_REFUSED);
    assert_int_equal(w.result.reason, REASON_DENIED);
    world_close(&w);
}

/* ---- removed principals ---- */

static void the_sessions_of_a_removed_principal_are_not_kept_alive(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    assert_int_equal(open_session(&w, ANN, 1), HF_OK);
    assert_int_equal(open_session(&w, BOB, 2), HF_OK);
    assert_int_equal(acquire(&w, ANN, 1, 10, "a"), OUTCOME_GRANTED);
    assert_int_equal(acquire(&w, ANN, 0, 11, "b"), OUTCOME_GRANTED);
    fire(&w, "ann", false);
    assert_int_equal(keep_alive(&w, ANN, 1), HF_SESSION_NOT_FOUND);
    assert_int_equal(keep_alive(&w, 0, 1), HF_SESSION_NOT_FOUND); /* by the node, for many */
    assert_int_equal(keep_alive(&w, 0, 2), HF_OK);
    assert_int_equal(renew(&w, ANN, 11), HF_DENIED);
    assert_int_equal(open_session(&w, ANN, 3), HF_DENIED);
    begin(&w, 10000); /* their TTL ends them, without any right */
    assert_int_equal(w.events[EVENT_SESSION_EXPIRED], 2);
    assert_int_equal(w.events[EVENT_LOST], 2);
    assert_int_equal(w.events[EVENT_REVOKED], 0);
    world_close(&w);
}

static void end_sessions_ends_them_with_the_next_entry(void **state)
{
    (void)state;
    struct world w;
    struct session_view session;
    world_open(&w);
    assert_int_equal(open_session(&w, ANN, 1), HF_OK);
    assert_int_equal(open_session(&w, BOB, 2), HF_OK);
    assert_int_equal(acquire(&w, ANN, 1, 10, "held"), OUTCOME_GRANTED);
    assert_int_equal(acquire(&w, BOB, 2, 20, "wanted"), OUTCOME_GRANTED);
    assert_int_equal(acquire(&w, ANN, 1, 11, "wanted"), OUTCOME_QUEUED);
    struct command c = acquire_of(ANN, 0, 12, "alone");
    c.acquire.delay_ms = 5000;
    assert_int_equal(apply(&w, &c), HF_OK);
    assert_int_equal(acquire(&w, ANN, 0, 13, "wanted"), OUTCOME_QUEUED);
    assert_int_equal(acquire(&w, BOB, 2, 21, "held"), OUTCOME_QUEUED);
    fire(&w, "ann", true);
    assert_true(core_next_due_ms(w.core) <= w.now); /* the next entry is due at once */
    pass_through_a_snapshot(&w);
    assert_true(core_next_due_ms(w.core) <= w.now);
    begin(&w, 0);
    assert_false(view_session(w.core, an_id(1), &session));
    assert_true(view_session(w.core, an_id(2), &session));
    assert_int_equal(w.denied, 2);
    assert_int_equal(w.events[EVENT_REVOKED], 2);
    assert_int_equal(w.events[EVENT_LOST], 2);
    assert_int_equal(w.events[EVENT_DELAYED], 1); /* an unclean end */
    assert_int_equal(w.events[EVENT_SESSION_EXPIRED], 1);
    assert_int_equal(w.events[EVENT_GRANTED], 3 + 1); /* "held" went to the next waiter */
    assert_true(core_next_due_ms(w.core) > w.now);
    assert_int_equal(release(&w, ANN, 10), HF_OK);
    assert_int_equal(w.result.reason, REASON_NOT_OWNER);
    assert_int_equal(w.result.ended, ENDED_REVOKED);
    assert_int_equal(keep_alive(&w, ANN, 1), HF_SESSION_EXPIRED);
    c = of(ANN, COMMAND_SESSION_CLOSE);
    c.session = an_id(1);
    assert_int_equal(apply(&w, &c), HF_SESSION_EXPIRED);
    world_close(&w);
}

static void end_sessions_also_ends_those_of_earlier_removals(void **state)
{
    (void)state;
    struct world w;
    struct session_view session;
    world_open(&w);
    assert_int_equal(open_session(&w, ANN, 1), HF_OK);
    assert_int_equal(open_session(&w, BOB, 2), HF_OK);
    fire(&w, "ann", false);
    begin(&w, 1);
    assert_true(view_session(w.core, an_id(1), &session));
    fire(&w, "bob", true);
    begin(&w, 1);
    assert_false(view_session(w.core, an_id(1), &session));
    assert_false(view_session(w.core, an_id(2), &session));
    world_close(&w);
}

/* More than one sweep ends: the rest is state, and follows. */
static void ending_many_sessions_is_bounded_work(void **state)
{
    (void)state;
    enum { MANY = 3 * LIMIT_SWEEP_SESSIONS + 10, BYSTANDERS = 25000 };
    struct world w;
    struct core_stats stats;
    char name[32];
    world_open(&w);
    for (uint64_t i = 0; i < BYSTANDERS; i++) {
        assert_int_equal(open_session(&w, BOB, 1000000 + i), HF_OK);
    }
    for (uint64_t i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "n%u", (unsigned)i);
        assert_int_equal(open_session(&w, ANN, 100 + i), HF_OK);
        assert_int_equal(acquire(&w, ANN, 100 + i, 100000 + i, name), OUTCOME_GRANTED);
    }
    assert_int_equal(open_session(&w, ANN, 99), HF_OK); /* one with more than a sweep takes */
    for (uint64_t i = 0; i < LIMIT_SESSION_ENTRIES; i++) {
        (void)snprintf(name, sizeof(name), "m%u", (unsigned)i);
        assert_int_equal(acquire(&w, ANN, 99, 200000 + i, name), OUTCOME_GRANTED);
    }
    fire(&w, "ann", true);
    unsigned entries = 0;
    while (core_next_due_ms(w.core) <= w.now) {
        begin(&w, 0);
        assert_null(core_check_invariants(w.core));
        entries++;
        if (entries == 2) {
            assert_int_equal(open_session(&w, BOB, 5), HF_OK); /* life goes on */
            pass_through_a_snapshot(&w);
        }
        struct command close = of(BOB, COMMAND_SESSION_CLOSE); /* also where the purge is */
        close.session = an_id(1000000 + LIMIT_SWEEP_VISITS);
        (void)apply(&w, &close);
        assert_true(entries < 20);
    }
    assert_true(entries >= 5);
    core_stats(w.core, &stats);
    assert_int_equal(stats.sessions, BYSTANDERS);
    assert_int_equal(stats.grants, 0);
    world_close(&w);
}

static void a_rescue_may_end_the_sessions_of_the_earlier_administrators(void **state)
{
    (void)state;
    struct world w;
    struct session_view session;
    world_open(&w);
    assert_int_equal(open_session(&w, ROOT, 1), HF_OK);
    add_principal(&w.changes, "default", "new", "*", "", RIGHTS_ALL);
    struct command c = changes_command(&w.changes);
    c.policy_change.origin = POLICY_RESCUE;
    c.policy_change.end_sessions = 1;
    assert_int_equal(apply(&w, &c), HF_OK);
    begin(&w, 0);
    assert_false(view_session(w.core, an_id(1), &session));
    c = of(ROOT, COMMAND_FORCE_UNLOCK);
    c.force_unlock.name = slice_of("a");
    c.force_unlock.actor = slice_of("x");
    c.force_unlock.reason = slice_of("y");
    assert_int_equal(apply(&w, &c), HF_DENIED);
    world_close(&w);
}

/* ---- tenants ---- */

static void a_tenant_in_use_is_not_removed(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add_tenant(&w.changes, "spare"); /* 2 */
    assert_int_equal(change(&w, false), HF_OK);
    struct command c = acquire_of(ROOT, 0, 10, "a");
    c.tenant = 2;
    assert_int_equal(apply(&w, &c), HF_OK);
    remove_tenant(&w.changes, "spare");
    assert_int_equal(change(&w, false), HF_POLICY_EXISTS);
    c = of(ROOT, COMMAND_RELEASE);
    c.tenant = 2;
    c.release.lease = an_id(10);
    assert_int_equal(apply(&w, &c), HF_OK);
    remove_tenant(&w.changes, "spare");
    assert_int_equal(change(&w, false), HF_OK);
    c = acquire_of(ROOT, 0, 11, "a");
    c.tenant = 2;
    assert_int_equal(apply(&w, &c), HF_DENIED); /* nothing can come to be in it */
    world_close(&w);
}

/* ---- audit ---- */

static void check_actor(void *ctx, const struct audit_view *record)
{
    const char **expected = ctx;
    assert_true(slice_equal(record->action, slice_of(expected[0])));
    if (!slice_equal(record->actor, slice_of(expected[1]))) {
        fail_msg("%s by %.*s", expected[0], (int)record->actor.len,
                 (const char *)record->actor.data);
    }
}

static void the_audit_trail_names_the_principal(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    assert_int_equal(acquire(&w, ANN, 0, 10, "a"), OUTCOME_GRANTED);
    struct command c = of(OPS, COMMAND_REVOKE);
    c.revoke.name = slice_of("a");
    c.revoke.actor = slice_of("who I say I am");
    c.revoke.reason = slice_of("y");
    c.revoke.grace_ms = 1000;
    assert_int_equal(apply(&w, &c), HF_OK);
    const char *expected[] = {"REVOKE", "team/ops"};
    assert_int_equal(view_audit(w.core, TENANT, 1, 1, check_actor, expected), 2);
    c.principal = 0;
    assert_int_equal(apply(&w, &c), HF_OK);
    expected[1] = "who I say I am";
    assert_int_equal(view_audit(w.core, TENANT, 2, 1, check_actor, expected), 3);
    /* The trail of the policy is that of tenant 0. An administrator that removes itself is named. */
    add_principal(&w.changes, "default", "heir", "*", "", RIGHTS_ALL);
    remove_principal(&w.changes, "default", "root");
    c = changes_command(&w.changes);
    c.principal = ROOT;
    assert_int_equal(apply(&w, &c), HF_OK);
    expected[0] = "POLICY";
    expected[1] = "default/root";
    assert_int_equal(view_audit(w.core, 0, 2, 1, check_actor, expected), 3);
    pass_through_a_snapshot(&w);
    assert_int_equal(view_audit(w.core, 0, 2, 1, check_actor, expected), 3);
    world_close(&w);
}

struct entry_trail {
    uint32_t count;
    uint32_t tenants[4];
    uint64_t numbers[4];
};

static void add_to_trail(void *ctx, const struct audit_view *record)
{
    struct entry_trail *trail = ctx;
    assert_true(trail->count < 4);
    trail->tenants[trail->count] = record->tenant;
    trail->numbers[trail->count++] = record->number;
}

static void the_records_of_an_entry_are_those_of_all_tenants(void **state)
{
    (void)state;
    struct world w;
    struct entry_trail trail = {0};
    world_open(&w);
    assert_int_equal(acquire(&w, ANN, 0, 10, "a"), OUTCOME_GRANTED);
    begin(&w, 10);
    view_audit_of_entry(w.core, add_to_trail, &trail);
    assert_int_equal(trail.count, 0);
    uint64_t before = core_audits(w.core);
    struct command c = of(OPS, COMMAND_REVOKE);
    c.revoke.name = slice_of("a");
    c.revoke.actor = slice_of("x");
    c.revoke.reason = slice_of("y");
    c.revoke.grace_ms = 1000;
    assert_int_equal(apply(&w, &c), HF_OK);
    assert_int_equal(apply(&w, &c), HF_OK);
    add_principal(&w.changes, "default", "heir", "*", "", RIGHTS_ALL);
    c = changes_command(&w.changes);
    c.principal = ROOT;
    assert_int_equal(apply(&w, &c), HF_OK);
    changes_begin(&w.changes);
    assert_int_equal(core_audits(w.core), before + 3);
    view_audit_of_entry(w.core, add_to_trail, &trail);
    assert_int_equal(trail.count, 3);
    assert_int_equal(trail.tenants[0], 0);
    assert_int_equal(trail.tenants[1], TENANT);
    assert_int_equal(trail.tenants[2], TENANT);
    assert_int_equal(trail.numbers[2], trail.numbers[1] + 1);
    trail.count = 0;
    begin(&w, 10);
    view_audit_of_entry(w.core, add_to_trail, &trail);
    assert_int_equal(trail.count, 0);
    world_close(&w);
}

/* ---- versions, recovery, the other tier ---- */

static void a_state_before_version_6_refuses_principals_and_policies(void **state)
{
    (void)state;
    struct world w;
    world_open_at(&w, 5);
    struct command c = acquire_of(ANN, 0, 10, "a");
    c.tenant = 0;
    assert_int_equal(apply(&w, &c), HF_NOT_UPGRADED);
    add_principal(&w.changes, "default", "root", "*", "", RIGHTS_ALL);
    assert_int_equal(change(&w, false), HF_NOT_UPGRADED);
    c.principal = 0;
    c.request_id = slice_of("r1");
    assert_int_equal(apply(&w, &c), HF_OK);
    uint64_t token = w.result.token;
    pass_through_a_snapshot(&w);
    struct command upgrade = of(0, COMMAND_UPGRADE);
    upgrade.upgrade.version = 6;
    assert_int_equal(apply(&w, &upgrade), HF_OK);
    assert_null(core_check_invariants(w.core));
    pass_through_a_snapshot(&w);
    add_principal(&w.changes, "default", "root", "*", "", RIGHTS_ALL);
    assert_int_equal(change(&w, false), HF_OK);
    assert_int_equal(apply(&w, &c), HF_OK); /* the request of before is remembered */
    assert_true(w.result.replayed);
    assert_int_equal(w.result.token, token);
    c = of(1, COMMAND_RENEW); /* what nobody owns belongs to the tenant */
    c.tenant = 0;
    c.renew.lease = an_id(10);
    assert_int_equal(apply(&w, &c), HF_OK);
    assert_int_equal(w.result.outcome, OUTCOME_DONE);
    world_close(&w);
}

static void a_recovery_keeps_the_policy(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    assert_int_equal(open_session(&w, ANN, 1), HF_OK);
    fire(&w, "ann", true);
    begin(&w, 1);
    core_recover(w.core, slice_of("op"), slice_of("lost"));
    assert_null(core_check_invariants(w.core));
    assert_int_equal(policy_principals(core_policy(w.core)), 3);
    assert_int_equal(open_session(&w, BOB, 2), HF_OK);
    pass_through_a_snapshot(&w);
    assert_int_equal(policy_principals(core_policy(w.core)), 3);
    assert_int_equal(policy_version(core_policy(w.core)), 2);
    world_close(&w);
}

static void the_tier_without_a_log_follows_the_policy_of_the_other(void **state)
{
    (void)state;
    struct world w;
    struct world t;
    struct session_view session;
    world_open(&w);
    world_open_at(&t, CORE_VERSION);
    core_set_tokens(t.core, 1025, 2048);
    core_set_policy_source(t.core, w.core);
    assert_int_equal(open_session(&w, ANN, 1), HF_OK);
    assert_int_equal(core_mirror_session(t.core, w.core, TENANT, an_id(1)), HF_OK);
    assert_int_equal(acquire(&t, ANN, 1, 10, "a"), OUTCOME_GRANTED);
    assert_int_equal(acquire(&t, ANN, 0, 11, "b"), OUTCOME_GRANTED);
    assert_int_equal(acquire(&t, BOB, 0, 12, "c"), OUTCOME_GRANTED);
    assert_int_equal(acquire(&t, ANN, 0, 13, "c"), OUTCOME_QUEUED);
    fire(&w, "ann", true);
    struct command c = acquire_of(ANN, 0, 14, "d");
    assert_int_equal(apply(&t, &c), HF_DENIED);
    core_end_removed(t.core);
    begin(&t, 1);
    assert_int_equal(t.denied, 1);
    assert_false(view_session(t.core, an_id(11), &session));
    assert_true(view_session(t.core, an_id(12), &session));
    assert_true(view_session(t.core, an_id(1), &session)); /* the other core ends that one */
    assert_int_equal(release(&t, BOB, 12), HF_OK);
    assert_null(core_check_invariants(t.core));
    core_free(t.core);
    assert_all_given_back(&t.memory);
    world_close(&w);
}

static void a_large_policy_changes_quickly_and_within_the_steps(void **state)
{
    (void)state;
    struct world w;
    char name[32];
    world_open(&w);
    for (unsigned i = 0; i < LIMIT_TOKENS; i++) {
        (void)snprintf(name, sizeof(name), "p%u", i / LIMIT_PRINCIPAL_TOKENS);
        if (i % LIMIT_PRINCIPAL_TOKENS == 0) {
            add_principal(&w.changes, "team", name, "team", "", RIGHT_LOCK);
        }
        add_token(&w.changes, "team", name, i);
        if (i % 128 == 127 || i + 1 == LIMIT_TOKENS) {
            assert_int_equal(change(&w, false), HF_OK);
        }
    }
    for (unsigned i = 0; i < 200; i++) { /* the largest that removes: 12,800 tokens */
        (void)snprintf(name, sizeof(name), "p%u", i);
        remove_principal(&w.changes, "team", name);
    }
    assert_int_equal(change(&w, true), HF_OK);
    assert_int_equal(policy_tokens(core_policy(w.core)), LIMIT_TOKENS - 200 * 64);
    begin(&w, 1);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sessions_and_grants_belong_to_their_principal),
        cmocka_unit_test(a_principal_is_part_of_the_scope_of_a_request_id),
        cmocka_unit_test(a_new_principal_of_the_same_name_owns_nothing),
        cmocka_unit_test(a_narrowed_principal_releases_and_does_not_renew),
        cmocka_unit_test(a_waiter_that_may_not_lock_any_more_ends_denied),
        cmocka_unit_test(the_sessions_of_a_removed_principal_are_not_kept_alive),
        cmocka_unit_test(end_sessions_ends_them_with_the_next_entry),
        cmocka_unit_test(end_sessions_also_ends_those_of_earlier_removals),
        cmocka_unit_test(ending_many_sessions_is_bounded_work),
        cmocka_unit_test(a_rescue_may_end_the_sessions_of_the_earlier_administrators),
        cmocka_unit_test(a_tenant_in_use_is_not_removed),
        cmocka_unit_test(the_audit_trail_names_the_principal),
        cmocka_unit_test(the_records_of_an_entry_are_those_of_all_tenants),
        cmocka_unit_test(a_state_before_version_6_refuses_principals_and_policies),
        cmocka_unit_test(a_recovery_keeps_the_policy),
        cmocka_unit_test(the_tier_without_a_log_follows_the_policy_of_the_other),
        cmocka_unit_test(a_large_policy_changes_quickly_and_within_the_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
