/* The tier EFFICIENCY with a backend behind it (tier_backend.h): nothing is reported that it has not
 * confirmed. */
#include "base_testing.h"

#include "tier_world.h"

/* The backend, as the test controls it. */
static struct {
    bool waits;
    uint64_t requests[16];
    uint32_t request_count;
    uint32_t ends;
    uint32_t renewals;
    uint32_t releases;
    bool releases_wait;
    uint32_t tenant; /* of all names */
    uint64_t first;
    enum tier_word route;
} backend;

static bool backend_grant(void *ctx, const struct tier_hold *hold)
{
    (void)ctx;
    assert_true(hold->name.len > 0);
    assert_int_equal(hold->tenant, backend.tenant);
    backend.requests[backend.request_count++] = hold->token;
    return backend.waits;
}

static bool backend_renew(void *ctx, uint64_t token, uint32_t ttl_ms)
{
    (void)ctx;
    assert_true(token != 0 && ttl_ms > 0);
    backend.renewals++;
    return backend.waits;
}

static void backend_end(void *ctx, uint64_t token, uint32_t tenant, struct slice name)
{
    (void)ctx;
    assert_int_equal(tenant, backend.tenant);
    assert_true(token != 0 && name.len > 0);
    backend.ends++;
}

static bool backend_release(void *ctx, uint64_t token)
{
    (void)ctx;
    assert_true(token != 0);
    backend.releases++;
    return backend.releases_wait;
}

static void backend_lead(void *ctx, uint64_t first)
{
    (void)ctx;
    backend.first = first;
}

static enum tier_word backend_route(void *ctx)
{
    (void)ctx;
    return backend.route;
}

static void say(uint64_t token, enum tier_word word)
{
    memory_tier_confirm(world.tier, token, word, slice_of("cron\xff"), 5000);
}

static void begin_with_backend(void)
{
    memset(&backend, 0, sizeof(backend));
    tier_world_open();
    struct tier_backend calls = {.lead = backend_lead,
                                 .route = backend_route,
                                 .grant = backend_grant,
                                 .renew = backend_renew,
                                 .end = backend_end,
                                 .release = backend_release};
    memory_tier_set_backend(world.tier, &calls);
    backend.waits = true;
}

static void what_a_backend_has_not_confirmed_is_not_reported(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    tier_make_acquire(&c, "n", 0);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(backend.request_count, 1);
    assert_int_equal(world.results + world.event_count, 0);
    say(backend.requests[0], TIER_CONFIRMED);
    assert_int_equal(world.results, 1);
    assert_int_equal(world.last.token, backend.requests[0]);
    assert_int_equal(world.events[0].type, EVENT_GRANTED);
    /* A waiter that is next is confirmed, too. */
    tier_make_acquire(&c, "n", 60000);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    tier_give(backend.requests[0], "n");
    assert_int_equal(backend.ends, 1);
    assert_int_equal(backend.request_count, 2);
    assert_int_not_equal(world.events[world.event_count - 1].type, EVENT_GRANTED);
    say(backend.requests[1], TIER_CONFIRMED);
    assert_int_equal(world.events[world.event_count - 1].type, EVENT_GRANTED);
    say(backend.requests[1], TIER_CONFIRMED); /* once more changes nothing */
    assert_int_equal(backend.request_count, 2);
    tier_world_close();
}

static void a_backend_gets_the_tenant_of_a_name(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    backend.tenant = 3;
    tier_make_acquire(&c, "n", 0);
    c.tenant = 3;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(backend.requests[0], TIER_CONFIRMED);
    command_init(&c, COMMAND_RELEASE);
    c.tenant = 3;
    c.release.name = slice_of("n");
    c.release.token = backend.requests[0];
    assert_int_equal(tier_submit(TIER_CORRECTNESS, &c), TIER_TAKEN);
    assert_int_equal(backend.ends, 1);
    tier_world_close();
}

static void what_a_backend_refuses_is_taken_back(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    tier_make_acquire(&c, "n", 0);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(backend.requests[0], TIER_FOREIGN);
    assert_int_equal(world.results, 1);
    assert_int_equal(world.last.outcome, OUTCOME_REFUSED);
    assert_int_equal(world.last.reason, REASON_HELD);
    assert_true(world.last.has_holder);
    assert_string_equal(world.last_holder, "cron?");
    assert_int_equal(world.event_count, 0);
    assert_int_equal(core_names(memory_tier_core(world.tier)), 0);
    tier_world_close();
}

static void when_the_leadership_ends_what_was_not_confirmed_is_unknown(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    tier_make_acquire(&c, "n", 0);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    memory_tier_end(world.tier);
    assert_int_equal(world.unknown, 1);
    say(backend.requests[0], TIER_CONFIRMED); /* too late */
    assert_int_equal(world.results, 1);
    tier_world_close();
}

static void a_wait_for_somebody_outside_is_like_one_in_the_queue(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    tier_make_acquire(&c, "n", 60000);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(backend.requests[0], TIER_WAITS);
    assert_int_equal(world.results, 1);
    assert_int_equal(world.last.outcome, OUTCOME_QUEUED);
    assert_int_equal(world.last.wait_deadline_ms, world.now_ms + 60000);
    assert_int_equal(tier_of_attachment(world.last.attachment), TIER_EFFICIENCY);
    uint64_t attachment = world.last.attachment;
    /* Longer than its TTL, which starts when the wait is over (S4.3). */
    world.now_ms += 30000;
    memory_tier_run(world.tier, tier_at());
    assert_int_equal(world.event_count, 0);
    /* A repeated request is attached anew (S7.1). */
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.last.outcome, OUTCOME_QUEUED);
    assert_true(world.last.attachment > attachment);
    assert_int_equal(world.events[0].type, EVENT_SUPERSEDED);
    assert_int_equal(world.events[0].attachment, attachment);
    attachment = world.last.attachment;
    world.now_ms += 10000;
    say(backend.requests[0], TIER_CONFIRMED);
    assert_int_equal(world.results, 2);
    assert_int_equal(world.event_count, 2);
    assert_int_equal(world.events[1].type, EVENT_GRANTED);
    assert_int_equal(world.events[1].attachment, attachment);
    assert_int_equal(world.events[1].deadline_ms, world.now_ms + 1000);
    world.now_ms += 1000;
    memory_tier_run(world.tier, tier_at());
    assert_int_equal(world.events[2].type, EVENT_EXPIRED);
    assert_int_equal(backend.ends, 1);
    tier_world_close();
}

static void a_wait_that_is_over_ends_and_the_next_is_requested(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    tier_make_acquire(&c, "n", 5000);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(backend.requests[0], TIER_WAITS);
    uint64_t attachment = world.last.attachment;
    tier_make_acquire(&c, "n", 60000);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.last.outcome, OUTCOME_QUEUED);
    assert_int_equal(backend.request_count, 1);
    world.event_count = 0;
    say(backend.requests[0], TIER_FOREIGN);
    assert_int_equal(world.event_count, 1);
    assert_int_equal(world.events[0].type, EVENT_WAIT_ENDED);
    assert_int_equal(world.events[0].reason, REASON_TIMEOUT);
    assert_int_equal(world.events[0].attachment, attachment);
    assert_int_equal(backend.request_count, 2);
    say(backend.requests[1], TIER_CONFIRMED);
    assert_int_equal(world.events[1].type, EVENT_GRANTED);
    tier_world_close();
}

static void a_grant_that_ends_unconfirmed_was_never_there(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    tier_make_acquire(&c, "n", 5000);
    struct id lease = c.acquire.lease;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(backend.requests[0], TIER_WAITS);
    world.event_count = 0;
    /* Its client is gone (S7.2). */
    command_init(&c, COMMAND_RELEASE);
    c.release.lease = lease;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(backend.ends, 1);
    assert_int_equal(world.event_count, 1);
    assert_int_equal(world.events[0].type, EVENT_WAIT_ENDED);
    say(backend.requests[0], TIER_CONFIRMED);
    assert_int_equal(world.event_count, 1);
    assert_int_equal(core_names(memory_tier_core(world.tier)), 0);
    tier_world_close();
}

static void what_failed_can_be_requested_again_with_the_same_id(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    tier_make_acquire(&c, "n", 0);
    c.request_id = slice_of("once");
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(backend.requests[0], TIER_FAILED);
    assert_int_equal(world.last.error, HF_BACKEND_UNAVAILABLE);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(backend.request_count, 2);
    say(backend.requests[1], TIER_AGAIN);
    assert_int_equal(world.agains, 1);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(backend.request_count, 3);
    say(backend.requests[2], TIER_CONFIRMED);
    assert_int_equal(world.last.outcome, OUTCOME_GRANTED);
    assert_int_equal(world.last.token, backend.requests[2]);
    assert_int_equal(world.last.ended, ENDED_NOT);
    tier_world_close();
}

static void a_backend_that_is_away_routes_only_what_is_new(void **state)
{
    (void)state;
    begin_with_backend();
    struct command held;
    tier_make_acquire(&held, "n", 0);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &held), TIER_TAKEN);
    say(backend.requests[0], TIER_CONFIRMED);
    struct command c;
    tier_make_acquire(&c, "m", 0);
    backend.route = TIER_FAILED;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.last.error, HF_BACKEND_UNAVAILABLE);
    backend.route = TIER_AGAIN;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_PROPOSE);
    /* One name is in one tier. */
    tier_make_acquire(&c, "n", 0);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.last.reason, REASON_HELD);
    /* Its own answer, once more. */
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &held), TIER_TAKEN);
    assert_int_equal(world.last.token, backend.requests[0]);
    tier_world_close();
}

static void a_renewal_is_reported_when_it_is_confirmed(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    tier_make_acquire(&c, "n", 0);
    struct id lease = c.acquire.lease;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(backend.requests[0], TIER_CONFIRMED);
    command_init(&c, COMMAND_RENEW);
    c.renew.lease = lease;
    static const enum tier_word words[] = {TIER_CONFIRMED, TIER_AGAIN, TIER_FOREIGN};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
        assert_int_equal(world.results, 1 + i);
        memory_tier_confirm_renewal(world.tier, backend.requests[0], words[i]);
        assert_int_equal(world.results, 2 + i);
        assert_int_equal(world.unknown, i >= 1);
    }
    assert_int_equal(world.last.outcome, OUTCOME_REFUSED);
    assert_int_equal(world.last.reason, REASON_EXPIRED);
    /* Lost: it expires, and its holder hears of it. */
    memory_tier_lose(world.tier, lease);
    assert_int_equal(world.events[world.event_count - 2].type, EVENT_EXPIRED);
    assert_int_equal(world.events[world.event_count - 1].type, EVENT_LOST);
    assert_int_equal(core_names(memory_tier_core(world.tier)), 0);
    assert_int_equal(backend.ends, 1);
    tier_world_close();
}

static void a_release_is_reported_when_it_is_confirmed(void **state)
{
    (void)state;
    begin_with_backend();
    backend.releases_wait = true;
    struct command c;
    tier_make_acquire(&c, "n", 0);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(backend.requests[0], TIER_CONFIRMED);
    command_init(&c, COMMAND_RELEASE);
    c.release.name = slice_of("n");
    c.release.token = backend.requests[0];
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.results, 1);
    assert_int_equal(backend.ends, 1);
    /* The outcome is unknown: it is requested again, and waits as well. */
    memory_tier_confirm_release(world.tier, backend.requests[0], TIER_AGAIN);
    assert_int_equal(world.unknown, 1);
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.results, 2);
    memory_tier_confirm_release(world.tier, backend.requests[0], TIER_CONFIRMED);
    assert_int_equal(world.results, 3);
    assert_int_equal(world.last.reason, REASON_ALREADY_RELEASED);
    /* What it knows nothing of is reported at once. */
    backend.releases_wait = false;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(world.results, 4);
    /* The leadership ends meanwhile. */
    backend.releases_wait = true;
    assert_int_equal(tier_submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(backend.releases, 4);
    memory_tier_end(world.tier);
    assert_int_equal(world.unknown, 2);
    tier_world_close();
}

static void the_backend_hears_of_the_leadership(void **state)
{
    (void)state;
    begin_with_backend();
    memory_tier_end(world.tier);
    assert_int_equal(backend.first, 0);
    tier_replicate_plain(COMMAND_LEAD);
    memory_tier_begin(world.tier, 1);
    assert_int_equal(backend.first, core_epoch(world.core) * 1024 + 1);
    tier_world_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_backend_has_not_confirmed_is_not_reported),
        cmocka_unit_test(a_backend_gets_the_tenant_of_a_name),
        cmocka_unit_test(what_a_backend_refuses_is_taken_back),
        cmocka_unit_test(when_the_leadership_ends_what_was_not_confirmed_is_unknown),
        cmocka_unit_test(a_wait_for_somebody_outside_is_like_one_in_the_queue),
        cmocka_unit_test(a_wait_that_is_over_ends_and_the_next_is_requested),
        cmocka_unit_test(a_grant_that_ends_unconfirmed_was_never_there),
        cmocka_unit_test(what_failed_can_be_requested_again_with_the_same_id),
        cmocka_unit_test(a_backend_that_is_away_routes_only_what_is_new),
        cmocka_unit_test(a_renewal_is_reported_when_it_is_confirmed),
        cmocka_unit_test(a_release_is_reported_when_it_is_confirmed),
        cmocka_unit_test(the_backend_hears_of_the_leadership),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
