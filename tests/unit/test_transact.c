/* Transactions and keys (S13): what the checks see, that all or nothing is done, and that a second
 * sending changes nothing. tests/scenario has the behaviour; the model has the rest. */
#include "transact_world.h"

static void a_key_that_is_put_is_a_lock(void **state)
{
    struct world *w = *state;
    expect(w, "k", (struct key_version){0, 0, 0});
    put(w, "k", "mine", 5000);
    assert_done(run(w));
    assert_true(w->result.token > 0);
    assert_int_equal(w->result.deadline_ms, w->now_ms + 5000);
    assert_int_equal(w->result.count, 1);
    struct key_view view = look(w, "k");
    assert_int_equal(view.kind, KEY_STRING);
    assert_true(slice_equal(view.value, slice_of("mine")));
    assert_true(slice_equal(view.client, slice_of("resp")));
    assert_int_equal(view.token, w->result.token);
    assert_int_equal(view.deadline_ms, w->now_ms + 5000);
    acquire(w, "k", MODE_EXCLUSIVE, 0);
    assert_int_equal(w->result.reason, REASON_HELD);
    pass(w, 5000);
    assert_int_equal(look(w, "k").kind, KEY_ABSENT);
}

/* Puts `k`, lets `change` happen, and says whether a check by the old version still holds. */
static bool version_stands(struct world *w, void (*change)(struct world *w))
{
    put(w, "k", "v", 60000);
    assert_done(run(w));
    struct key_version before = look(w, "k").version;
    change(w);
    expect(w, "k", before);
    bool stands = run(w)->outcome == OUTCOME_DONE;
    if (look(w, "k").kind != KEY_ABSENT) {
        drop(w, "k", 0);
        assert_done(run(w));
    }
    return stands;
}

static void change_nothing(struct world *w)
{
    pass(w, 10);
    put(w, "other", "v", 60000);
    assert_done(run(w));
}

static void change_value(struct world *w)
{
    put(w, "k", "v", 0);
    assert_done(run(w));
}

static void change_ttl(struct world *w)
{
    effect(w, (struct effect){.kind = EFFECT_EXPIRE, .name = slice_of("k"), .ttl_ms = 60001});
    assert_done(run(w));
}

static void change_by_renewal(struct world *w)
{
    struct command c;
    pass(w, 1);
    command_init(&c, COMMAND_RENEW);
    c.renew.name = slice_of("k");
    c.renew.token = look(w, "k").token;
    core_apply(w->core, &c, &w->result);
    assert_int_equal(w->result.outcome, OUTCOME_DONE);
}

static void change_holder(struct world *w)
{
    drop(w, "k", 0);
    assert_done(run(w));
    put(w, "k", "v", 60000);
    assert_done(run(w));
}

static void change_to_absent(struct world *w)
{
    effect(w, (struct effect){.kind = EFFECT_EXPIRE, .name = slice_of("k")});
    assert_done(run(w));
    assert_int_equal(look(w, "k").kind, KEY_ABSENT);
}

static void the_version_changes_with_everything_that_can_be_read(void **state)
{
    struct world *w = *state;
    assert_true(version_stands(w, change_nothing));
    assert_false(version_stands(w, change_value));
    assert_false(version_stands(w, change_ttl));
    assert_false(version_stands(w, change_by_renewal));
    assert_false(version_stands(w, change_holder));
    assert_false(version_stands(w, change_to_absent));
}

static void a_failed_check_changes_nothing(void **state)
{
    struct world *w = *state;
    put(w, "a", "1", 5000);
    set_counter(w, "n", 3);
    assert_done(run(w));
    struct bytes before = snapshot_of(w->core);
    expect(w, "a", look(w, "a").version);
    expect(w, "b", look(w, "a").version);
    put(w, "a", "2", 0);
    set_counter(w, "n", 4);
    effect(w, (struct effect){
                  .kind = EFFECT_PUBLISH, .name = slice_of("topic"), .value = slice_of("\xff")});
    (void)run(w);
    assert_refused(w, "conflict", "b");
    assert_int_equal(w->published, 0);
    assert_true(slice_equal(look(w, "a").value, slice_of("1")));
    assert_int_equal(look(w, "n").number, 3);
    struct bytes after = snapshot_of(w->core);
    assert_true(after.len > before.len); /* the answer is remembered, and that is all */
    bytes_free(&before);
    bytes_free(&after);
}

static void an_effect_that_cannot_be_done_prevents_those_before_it(void **state)
{
    struct world *w = *state;
    acquire(w, "http", MODE_EXCLUSIVE, 0);
    set_counter(w, "n", 1);
    assert_done(run(w));
    const struct {
        struct effect effect;
        const char *reason;
    } bad[] = {
        {{EFFECT_PUT, 0, slice_of("http"), {NULL, 0}, {77, 7}, 1000, 0}, "not_owner"},
        {{EFFECT_EXPIRE, 0, slice_of("http"), {NULL, 0}, {0, 0}, 1000, 0}, "not_owner"},
        {{EFFECT_DROP, 0, slice_of("http"), {NULL, 0}, {0, 0}, 0, 0}, "not_owner"},
        {{EFFECT_COUNTER, 0, slice_of("http"), {NULL, 0}, {0, 0}, 0, 0}, "wrong_kind"},
        {{EFFECT_PUT, 0, slice_of("n"), {NULL, 0}, {77, 7}, 1000, 0}, "wrong_kind"},
        {{EFFECT_EXPIRE, 0, slice_of("n"), {NULL, 0}, {0, 0}, 1000, 0}, "wrong_kind"},
        {{EFFECT_PUT, 0, slice_of("none"), {NULL, 0}, {77, 7}, 0, 0}, "conflict"},
        {{EFFECT_EXPIRE, 0, slice_of("none"), {NULL, 0}, {0, 0}, 1000, 0}, "conflict"},
        {{EFFECT_DROP, EFFECT_FORCED, slice_of("none"), {NULL, 0}, {0, 0}, 0, 0}, "conflict"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        put(w, "first", "v", 1000);
        effect(w, bad[i].effect);
        (void)run(w);
        char name[16];
        (void)snprintf(name, sizeof(name), "%.*s", (int)bad[i].effect.name.len,
                       (const char *)bad[i].effect.name.data);
        assert_refused(w, bad[i].reason, name);
        assert_int_equal(look(w, "first").kind, KEY_ABSENT);
    }
}

static void a_second_sending_changes_nothing(void **state)
{
    struct world *w = *state;
    effect(w, (struct effect){
                  .kind = EFFECT_PUBLISH, .name = slice_of("topic"), .value = slice_of("\xff")});
    set_counter(w, "n", 1);
    put(w, "k", "v", 5000);
    send(w, 1000);
    assert_done(&w->result);
    uint64_t token = w->result.token;
    struct key_version version = look(w, "k").version;
    pass(w, 10);
    send(w, 1000);
    assert_done(&w->result);
    assert_true(w->result.replayed);
    assert_int_equal(w->result.token, token);
    assert_int_equal(w->result.count, 3);
    assert_int_equal(w->published, 1);
    assert_true(key_version_equal(look(w, "k").version, version));
    set_counter(w, "m", 1);
    send(w, 1000); /* the id of another one */
    assert_string_equal(hf_error_code(w->result.error), "request_id_reused");
    fresh(w);
}

static void a_lease_id_is_taken_once(void **state)
{
    struct world *w = *state;
    put(w, "a", "v", 5000);
    assert_done(run(w));
    struct effect again = {
        .kind = EFFECT_PUT, .name = slice_of("b"), .lease = {w->ids - 1, 7}, .ttl_ms = 1000};
    effect(w, again);
    assert_string_equal(hf_error_code(run(w)->error), "request_id_reused");
    drop(w, "a", 0);
    assert_done(run(w));
    effect(w, again);
    assert_string_equal(hf_error_code(run(w)->error), "request_id_reused");
}

static void a_name_with_waiters_is_not_free(void **state)
{
    struct world *w = *state;
    acquire(w, "k", MODE_EXCLUSIVE, 0);
    acquire(w, "k", MODE_EXCLUSIVE, 60000);
    assert_int_equal(w->result.outcome, OUTCOME_QUEUED);
    drop(w, "k", EFFECT_FORCED);
    put(w, "other", "v", 1000);
    assert_done(run(w));
    struct key_view view = look(w, "k"); /* whoever waited has it now */
    assert_int_equal(view.kind, KEY_LOCK);
    assert_true(slice_equal(view.client, slice_of("http")));
    struct core_stats stats;
    core_stats(w->core, &stats);
    assert_int_equal(stats.audit_records, 1);
}

static void a_name_that_is_shared_is_not_dropped(void **state)
{
    struct world *w = *state;
    acquire(w, "k", MODE_SHARED, 0);
    drop(w, "k", EFFECT_FORCED);
    assert_done(run(w));
    acquire(w, "k", MODE_SHARED, 0);
    acquire(w, "k", MODE_SHARED, 0);
    drop(w, "k", EFFECT_FORCED);
    (void)run(w);
    assert_refused(w, "mode_mismatch", "k");
    assert_int_equal(look(w, "k").holders, 2);
}

static void a_delayed_name_is_reserved(void **state)
{
    struct world *w = *state;
    struct command c;
    command_init(&c, COMMAND_ACQUIRE);
    c.acquire.lease = (struct id){++w->ids, 7};
    c.acquire.client = slice_of("http");
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = slice_of("k");
    c.acquire.ttl_ms = 1000;
    c.acquire.delay_ms = 500;
    core_apply(w->core, &c, &w->result);
    pass(w, 1000);
    struct key_view view = look(w, "k");
    assert_int_equal(view.kind, KEY_RESERVED);
    assert_int_equal(view.deadline_ms, w->now_ms + 500);
    expect(w, "k", view.version);
    put(w, "k", "v", 1000);
    (void)run(w);
    assert_refused(w, "delayed", "k");
    pass(w, 500);
    assert_int_equal(look(w, "k").kind, KEY_ABSENT);
    put(w, "k", "v", 1000);
    assert_done(run(w));
}

static void transactions_are_remembered_within_bounds(void **state)
{
    struct world *w = *state;
    struct command c;
    set_counter(w, "n", 1);
    command_init(&c, COMMAND_TRANSACT);
    c.transact.client = slice_of("resp");
    c.transact.effects = packer_list(&w->effects);
    for (uint64_t i = 0; i <= LIMIT_TRANSACTS; i++) {
        c.transact.id = (struct id){1 + i, 3};
        core_apply(w->core, &c, &w->result);
        assert_false(w->result.replayed);
    }
    c.transact.id = (struct id){2, 3};
    core_apply(w->core, &c, &w->result);
    assert_true(w->result.replayed);
    c.transact.id = (struct id){1, 3};
    core_apply(w->core, &c, &w->result);
    assert_false(w->result.replayed); /* the oldest is forgotten */
}

static void the_largest_transaction_stays_bounded(void **state)
{
    struct world *w = *state;
    char names[LIMIT_EFFECTS][8];
    for (uint32_t i = 0; i < LIMIT_EFFECTS; i++) { /* each ends 64 names and wakes them */
        struct command c;
        command_init(&c, COMMAND_ACQUIRE);
        c.acquire.lease = (struct id){++w->ids, 7};
        c.acquire.client = slice_of("http");
        c.acquire.ttl_ms = 10000;
        char all[LIMIT_MULTILOCK_NAMES][16];
        c.acquire.names.count = LIMIT_MULTILOCK_NAMES;
        for (uint32_t k = 0; k < LIMIT_MULTILOCK_NAMES; k++) {
            (void)snprintf(all[k], sizeof(all[k]), "m%u/%u", (unsigned)i, (unsigned)k);
            c.acquire.names.at[k] = slice_of(all[k]);
        }
        core_apply(w->core, &c, &w->result);
        assert_int_equal(w->result.outcome, OUTCOME_GRANTED);
        c.acquire.lease = (struct id){++w->ids, 7};
        c.acquire.wait_ms = 1000;
        core_apply(w->core, &c, &w->result);
        assert_int_equal(w->result.outcome, OUTCOME_QUEUED);
        (void)snprintf(names[i], sizeof(names[i]), "m%u/%u", (unsigned)i, (unsigned)i);
        expect(w, names[i], look(w, names[i]).version);
        drop(w, names[i], EFFECT_FORCED);
    }
    assert_done(run(w));
    struct core_stats stats;
    core_stats(w->core, &stats);
    assert_true(stats.last_steps > LIMIT_EFFECTS * LIMIT_MULTILOCK_NAMES);
    assert_true(stats.last_steps <= LIMIT_COMMAND_STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_key_that_is_put_is_a_lock, setup, teardown),
        cmocka_unit_test_setup_teardown(the_version_changes_with_everything_that_can_be_read, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_failed_check_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(an_effect_that_cannot_be_done_prevents_those_before_it,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_second_sending_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_lease_id_is_taken_once, setup, teardown),
        cmocka_unit_test_setup_teardown(a_name_with_waiters_is_not_free, setup, teardown),
        cmocka_unit_test_setup_teardown(a_name_that_is_shared_is_not_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(a_delayed_name_is_reserved, setup, teardown),
        cmocka_unit_test_setup_teardown(transactions_are_remembered_within_bounds, setup, teardown),
        cmocka_unit_test_setup_teardown(the_largest_transaction_stays_bounded, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
