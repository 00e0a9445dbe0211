/* Tests of the tier EFFICIENCY without a node around it: a replicated core that the test feeds, the
 * tier next to it, and time as an argument (S3.1, S10). */
#include "base_testing.h"

#include "core/effect.h"
#include "core/view.h"
#include "replica/contact.h"
#include "replica/memory_tier.h"

enum { MANY = 4096 };

static struct {
    struct counted counted;
    struct core *core; /* the replicated one */
    struct memory_tier *tier;
    uint64_t index;
    uint64_t now_ms;
    uint64_t drawn;
    bool majority;
    bool refuses; /* to propose */
    uint32_t advances;
    struct result last;
    uint32_t results;
    uint32_t unknown;
    struct event events[MANY];
    uint32_t event_count;
    /* The backend, when there is one. */
    bool waits;
    uint64_t asked[16];
    uint32_t asked_count;
    uint32_t ends;
    uint32_t renewals;
    uint32_t agains;
    uint64_t first;
    enum tier_word route;
    char holder[64];
    struct slice last_holder;
} w;

static const struct core *replicated(void *ctx)
{
    (void)ctx;
    return w.core;
}

static void on_result(void *ctx, void *cookie, const struct result *result)
{
    (void)ctx;
    assert_ptr_equal(cookie, &w);
    w.results++;
    if (result == NULL) {
        w.unknown++;
    } else {
        w.last = *result;
        snprintf(w.holder, sizeof(w.holder), "%.*s", (int)result->holder.client.len,
                 result->has_holder ? (const char *)result->holder.client.data : "");
        w.last_holder = slice_of(w.holder);
    }
}

static struct tier_time now(void *ctx)
{
    (void)ctx;
    return (struct tier_time){.cluster_ms = w.now_ms, .wall_ms = 5, .majority = w.majority};
}

static void on_again(void *ctx, void *cookie)
{
    (void)ctx;
    assert_ptr_equal(cookie, &w);
    w.agains++;
}

static void on_event(void *ctx, const struct event *event)
{
    (void)ctx;
    assert_int_equal(event->tier, TIER_EFFICIENCY);
    w.events[w.event_count++ % MANY] = *event;
}

static bool propose(void *ctx, const struct command *command)
{
    (void)ctx;
    if (command->type == COMMAND_NOTE) {
        struct result result;
        if (w.refuses) {
            return false;
        }
        core_begin(w.core, ++w.index, w.now_ms, 0);
        core_apply(w.core, command, &result);
        assert_int_equal(result.error, HF_OK);
        return true;
    }
    assert_int_equal(command->type, COMMAND_ADVANCE);
    w.advances += !w.refuses;
    return !w.refuses;
}

static void on_replicated_event(void *ctx, const struct event *event)
{
    (void)ctx;
    memory_tier_on_event(w.tier, event);
}

/* One entry of the log with one command, as the replica would apply it. */
static struct result replicate(const struct command *command)
{
    struct result result;
    core_begin(w.core, ++w.index, w.now_ms, 0);
    core_apply(w.core, command, &result);
    memory_tier_on_replicated(w.tier, command);
    return result;
}

static void replicate_plain(enum command_type type)
{
    struct command command;
    command_init(&command, type);
    command.lead.node = type == COMMAND_LEAD ? 1 : 0;
    (void)replicate(&command);
}

static void begin(void)
{
    memset(&w, 0, sizeof(w));
    counted_init(&w.counted);
    w.now_ms = 1000;
    w.majority = true;
    struct memory_tier_options options = {.memory = &w.counted.memory,
                                          .replicated = replicated,
                                          .on_result = on_result,
                                          .on_again = on_again,
                                          .now = now,
                                          .on_event = on_event,
                                          .propose = propose};
    w.tier = memory_tier_new(&options);
    struct core_options core = {
        .memory = &w.counted.memory, .hash_key = 1, .on_event = on_replicated_event};
    w.core = core_new(&core);
    replicate_plain(COMMAND_LEAD);
    memory_tier_begin(w.tier, 1);
}

static void end(void)
{
    const struct core *core = memory_tier_core(w.tier);
    assert_null(core == NULL ? NULL : core_check_invariants(core));
    assert_null(core_check_invariants(w.core));
    memory_tier_free(w.tier);
    core_free(w.core);
    assert_all_given_back(&w.counted);
}

static struct tier_time at(void)
{
    return (struct tier_time){.cluster_ms = w.now_ms, .wall_ms = 5, .majority = w.majority};
}

static void make_acquire(struct command *c, const char *name, uint64_t wait_ms)
{
    command_init(c, COMMAND_ACQUIRE);
    c->acquire.lease = (struct id){7, ++w.drawn};
    c->acquire.node = 1;
    c->acquire.client = slice_of("client");
    c->acquire.names.count = 1;
    c->acquire.names.at[0] = slice_of(name);
    c->acquire.ttl_ms = 1000;
    c->acquire.wait_ms = wait_ms;
}

static enum tier_taken submit(enum tier tier, const struct command *c)
{
    return memory_tier_submit(w.tier, tier, c, &w, at());
}

static uint64_t take(const char *name)
{
    struct command c;
    make_acquire(&c, name, 0);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.last.error, HF_OK);
    assert_int_equal(w.last.outcome, OUTCOME_GRANTED);
    return w.last.token;
}

static uint64_t take_replicated(const char *name)
{
    struct command c;
    make_acquire(&c, name, 0);
    assert_int_equal(submit(TIER_CORRECTNESS, &c), TIER_PROPOSE);
    memory_tier_on_proposed(w.tier, &c);
    struct result r = replicate(&c);
    memory_tier_on_settled(w.tier);
    assert_int_equal(r.outcome, OUTCOME_GRANTED);
    return r.token;
}

static void give(uint64_t token, const char *name)
{
    struct command c;
    command_init(&c, COMMAND_RELEASE);
    c.release.name = slice_of(name);
    c.release.client = slice_of("client");
    c.release.token = token;
    assert_int_equal(submit(TIER_CORRECTNESS, &c), TIER_TAKEN); /* the token tells */
    assert_int_equal(w.last.outcome, OUTCOME_DONE);
}

/* ---- tokens ---- */

static void tokens_rise_through_both_tiers(void **state)
{
    (void)state;
    begin();
    uint64_t last = 0;
    char name[16];
    for (int i = 0; i < 60; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        uint64_t token = i % 3 == 2 ? take_replicated(name) : take(name);
        assert_int_equal(tier_of_token(token), i % 3 == 2 ? TIER_CORRECTNESS : TIER_EFFICIENCY);
        assert_true(token > last);
        assert_int_equal(token / 1024, core_counter(w.core));
        last = token;
    }
    end();
}

static void at_half_of_the_tokens_an_advance_is_proposed_once(void **state)
{
    (void)state;
    begin();
    for (int i = 1; i <= 511; i++) {
        give(take("n"), "n");
    }
    assert_int_equal(w.advances, 0);
    give(take("n"), "n");
    assert_int_equal(w.advances, 1);
    give(take("n"), "n");
    assert_int_equal(w.advances, 1);
    replicate_plain(COMMAND_ADVANCE);
    assert_int_equal(take("n") % 1024, 1);
    assert_int_equal(w.advances, 1);
    end();
}

static void without_tokens_grants_wait_and_are_not_refused(void **state)
{
    (void)state;
    begin();
    struct command c;
    w.refuses = true;
    for (int i = 1; i <= 1022; i++) {
        give(take("n"), "n");
    }
    uint64_t last = take("held");
    assert_int_equal(last % 1024, 1023);
    /* Who comes now waits outside, who waits inside stays there, and a release is still taken. */
    make_acquire(&c, "n", 0);
    uint32_t results = w.results;
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_LATER);
    assert_int_equal(w.results, results);
    w.refuses = false;
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_LATER);
    assert_int_equal(w.advances, 1); /* as soon as it can be */
    give(last, "held");
    replicate_plain(COMMAND_ADVANCE);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.last.token, core_counter(w.core) * 1024 + 1);
    end();
}

static void a_waiter_that_is_next_without_a_token_gets_it_after_the_advance(void **state)
{
    (void)state;
    begin();
    struct command c;
    w.refuses = true;
    uint64_t first = take("held");
    make_acquire(&c, "held", 60000);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.last.outcome, OUTCOME_QUEUED);
    assert_true(w.last.attachment > TIER_ATTACHMENTS);
    for (int i = 2; i <= 1023; i++) {
        give(take("n"), "n");
    }
    give(first, "held");
    assert_int_not_equal(w.events[w.event_count - 1].type, EVENT_GRANTED);
    assert_int_equal(memory_tier_next_ms(w.tier), UINT64_MAX); /* and nobody spins meanwhile */
    replicate_plain(COMMAND_ADVANCE);
    assert_true(memory_tier_next_ms(w.tier) <= w.now_ms);
    memory_tier_run(w.tier, at());
    const struct event *e = &w.events[w.event_count - 1];
    assert_int_equal(e->type, EVENT_GRANTED);
    assert_int_equal(e->token, core_counter(w.core) * 1024 + 1);
    assert_true(id_equal(e->lease, c.acquire.lease));
    end();
}

/* ---- the other tier ---- */

static void assert_wrong_tier(enum tier tier, const char *name)
{
    struct command c;
    make_acquire(&c, name, 0);
    assert_int_equal(submit(tier, &c), TIER_TAKEN);
    assert_int_equal(w.last.error, HF_WRONG_TIER);
}

static void a_name_in_one_tier_is_refused_in_the_other(void **state)
{
    (void)state;
    begin();
    uint64_t token = take("fast");
    assert_wrong_tier(TIER_CORRECTNESS, "fast");
    (void)take_replicated("safe");
    assert_wrong_tier(TIER_EFFICIENCY, "safe");
    give(token, "fast");
    (void)take_replicated("fast");
    assert_wrong_tier(TIER_EFFICIENCY, "fast");
    /* One of several names is enough. */
    struct command c;
    make_acquire(&c, "other", 0);
    c.acquire.names.count = 2;
    c.acquire.names.at[1] = slice_of("safe");
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.last.error, HF_WRONG_TIER);
    end();
}

static void a_name_in_a_batch_is_decided_by_its_outcome(void **state)
{
    (void)state;
    begin();
    struct command proposed;
    struct command c;
    make_acquire(&proposed, "n", 0);
    assert_int_equal(submit(TIER_CORRECTNESS, &proposed), TIER_PROPOSE);
    memory_tier_on_proposed(w.tier, &proposed);
    make_acquire(&c, "n", 0);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_LATER);
    (void)take("another"); /* names that nobody proposed are free */
    (void)replicate(&proposed);
    memory_tier_on_settled(w.tier);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.last.error, HF_WRONG_TIER);
    /* One that came to nothing leaves the name free. */
    make_acquire(&proposed, "m", 0);
    memory_tier_on_proposed(w.tier, &proposed);
    make_acquire(&c, "m", 0);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_LATER);
    memory_tier_on_settled(w.tier);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.last.outcome, OUTCOME_GRANTED);
    end();
}

/* ---- routing ---- */

static void a_token_a_lease_and_a_name_find_their_tier(void **state)
{
    (void)state;
    begin();
    struct command c;
    uint64_t safe = take_replicated("safe");
    (void)take("fast");
    struct id lease = w.last.lease;
    command_init(&c, COMMAND_RENEW);
    c.renew.name = slice_of("safe");
    c.renew.token = safe;
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_PROPOSE);
    command_init(&c, COMMAND_RENEW);
    c.renew.lease = lease;
    c.renew.ttl_ms = 5000;
    assert_int_equal(submit(TIER_CORRECTNESS, &c), TIER_TAKEN);
    assert_int_equal(w.last.deadline_ms, w.now_ms + 5000);
    c.renew.lease = (struct id){9, 9};
    assert_int_equal(submit(TIER_CORRECTNESS, &c), TIER_PROPOSE);
    command_init(&c, COMMAND_FORCE_UNLOCK);
    c.force_unlock.name = slice_of("safe");
    c.force_unlock.actor = c.force_unlock.reason = slice_of("x");
    assert_int_equal(submit(TIER_CORRECTNESS, &c), TIER_PROPOSE);
    command_init(&c, COMMAND_CANCEL);
    c.cancel.lease = lease;
    c.cancel.attachment = 3;
    assert_int_equal(submit(TIER_CORRECTNESS, &c), TIER_PROPOSE);
    /* What has ended is remembered where it was. */
    command_init(&c, COMMAND_RELEASE);
    c.release.lease = lease;
    assert_int_equal(submit(TIER_CORRECTNESS, &c), TIER_TAKEN);
    assert_int_equal(submit(TIER_CORRECTNESS, &c), TIER_TAKEN);
    assert_int_equal(w.last.reason, REASON_ALREADY_RELEASED);
    end();
}

static void without_a_majority_nothing_is_served(void **state)
{
    (void)state;
    begin();
    struct command c;
    uint64_t token = take("n");
    w.majority = false;
    make_acquire(&c, "m", 0);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_LATER);
    command_init(&c, COMMAND_RELEASE);
    c.release.name = slice_of("n");
    c.release.token = token;
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_LATER);
    w.now_ms += 2000;
    uint32_t events = w.event_count;
    memory_tier_run(w.tier, at());
    assert_int_equal(w.event_count, events);
    w.majority = true;
    memory_tier_run(w.tier, at());
    assert_int_equal(w.events[events].type, EVENT_EXPIRED);
    end();
}

static void a_new_leadership_begins_empty_and_with_higher_tokens(void **state)
{
    (void)state;
    begin();
    struct command c;
    uint64_t before = take("n");
    make_acquire(&c, "n", 60000);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    uint64_t attachment = w.last.attachment;
    memory_tier_end(w.tier);
    assert_null(memory_tier_core(w.tier));
    make_acquire(&c, "n", 60000);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_LATER);
    assert_int_equal(submit(TIER_CORRECTNESS, &c), TIER_PROPOSE);
    replicate_plain(COMMAND_LEAD);
    memory_tier_begin(w.tier, 1);
    assert_true(take("n") > before);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_not_equal(w.last.attachment, attachment);
    end();
}

/* ---- sessions ---- */

static void open_session(struct id id, uint32_t ttl_ms, uint32_t linger_ms)
{
    struct command c;
    command_init(&c, COMMAND_SESSION_OPEN);
    c.session_open.id = id;
    c.session_open.client = slice_of("client");
    c.session_open.ttl_ms = ttl_ms;
    c.session_open.linger_ms = linger_ms;
    assert_int_equal(replicate(&c).error, HF_OK);
}

static uint64_t take_in(struct id session, const char *name)
{
    struct command c;
    make_acquire(&c, name, 0);
    c.session = session;
    c.acquire.ttl_ms = 0;
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    return w.last.error == HF_OK ? w.last.token : 0;
}

static void keep_alive(struct id id)
{
    struct command c;
    uint8_t packed[16];
    memcpy(packed, &id, 16);
    command_init(&c, COMMAND_KEEPALIVE);
    c.keepalive.sessions = (struct ids){1, packed};
    (void)replicate(&c);
}

static void a_replicated_session_holds_here_as_long_as_it_lives_there(void **state)
{
    (void)state;
    begin();
    struct id id = {1, 2};
    struct session_view view;
    open_session(id, 1000, 0);
    w.now_ms += 400;
    assert_true(take_in(id, "n") != 0);
    assert_int_equal(w.last.deadline_ms, 2000); /* the session's own, not one from now on (S4.2) */
    w.now_ms += 400;
    keep_alive(id);
    assert_true(view_session(memory_tier_core(w.tier), id, &view));
    assert_int_equal(view.deadline_ms, w.now_ms + 1000);
    w.now_ms += 900;
    memory_tier_run(w.tier, at());
    assert_int_equal(core_names(memory_tier_core(w.tier)), 1);
    w.now_ms += 200;
    replicate_plain(COMMAND_TICK); /* it expires there, and takes its locks here with it */
    memory_tier_run(w.tier, at());
    assert_int_equal(core_names(memory_tier_core(w.tier)), 0);
    bool is_lost = false;
    for (uint32_t i = 0; i < w.event_count; i++) {
        is_lost = is_lost || w.events[i].type == EVENT_LOST;
        assert_int_not_equal(w.events[i].type, EVENT_SESSION_EXPIRED); /* that is told there */
    }
    assert_true(is_lost);
    assert_int_equal(take_in(id, "n"), 0);
    assert_int_equal(w.last.error, HF_SESSION_EXPIRED);
    assert_int_equal(take_in((struct id){5, 5}, "n"), 0);
    assert_int_equal(w.last.error, HF_SESSION_NOT_FOUND);
    end();
}

static void a_session_that_is_closed_gives_its_locks_to_the_next(void **state)
{
    (void)state;
    begin();
    struct command c;
    struct id id = {1, 2};
    open_session(id, 10000, 0);
    assert_true(take_in(id, "n") != 0);
    make_acquire(&c, "n", 60000);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    command_init(&c, COMMAND_SESSION_CLOSE);
    c.session = id;
    (void)replicate(&c);
    assert_true(memory_tier_next_ms(w.tier) <= w.now_ms);
    memory_tier_run(w.tier, at());
    assert_int_equal(w.events[w.event_count - 1].type, EVENT_GRANTED);
    end();
}

static void a_broken_stream_that_lingers_shortens_the_session_here_too(void **state)
{
    (void)state;
    begin();
    struct command c;
    struct id id = {1, 2};
    struct session_view view;
    open_session(id, 10000, 500);
    assert_true(take_in(id, "n") != 0);
    command_init(&c, COMMAND_STREAM_UP);
    c.session = id;
    struct result up = replicate(&c);
    command_init(&c, COMMAND_STREAM_DOWN);
    c.session = id;
    c.stream_down.stream = up.attachment;
    (void)replicate(&c);
    assert_true(view_session(memory_tier_core(w.tier), id, &view));
    assert_int_equal(view.deadline_ms, w.now_ms + 500);
    end();
}

static void a_node_that_is_gone_is_gone_for_both(void **state)
{
    (void)state;
    begin();
    struct command c;
    (void)take("n");
    make_acquire(&c, "n", 60000);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    command_init(&c, COMMAND_NODE_GONE);
    c.node_gone.node = 1;
    assert_int_equal(submit(TIER_CORRECTNESS, &c), TIER_PROPOSE);
    assert_int_equal(w.events[w.event_count - 1].type, EVENT_DETACHED);
    assert_int_equal(w.events[w.event_count - 1].node, 1);
    end();
}

static void on_record(void *ctx, const struct audit_view *record)
{
    struct audit_view *out = ctx;
    *out = *record;
}

static void what_operators_do_here_is_on_the_replicated_trail(void **state)
{
    (void)state;
    begin();
    struct command c;
    struct audit_view record;
    (void)take("n");
    command_init(&c, COMMAND_FORCE_UNLOCK);
    c.force_unlock.name = slice_of("n");
    c.force_unlock.actor = slice_of("admin");
    c.force_unlock.reason = slice_of("stuck");
    w.refuses = true;
    assert_int_equal(submit(TIER_CORRECTNESS, &c), TIER_TAKEN);
    assert_int_equal(w.last.count, 1);
    assert_int_equal(core_audited(w.core), 0);
    w.refuses = false;
    (void)take("m");
    assert_int_equal(core_audited(w.core), 1); /* later, when it could not be at once */
    (void)take("o");
    assert_int_equal(core_audited(w.core), 1); /* and once */
    (void)view_audit(w.core, 1, 1, on_record, &record);
    assert_true(slice_equal(record.action, slice_of("FORCE_UNLOCK")));
    assert_true(slice_equal(record.resource, slice_of("n")));
    assert_true(slice_equal(record.actor, slice_of("admin")));
    assert_true(slice_equal(record.reason, slice_of("stuck")));
    assert_int_equal(record.count, 1);
    end();
}

static void a_transaction_takes_a_token_for_each_name(void **state)
{
    (void)state;
    begin();
    uint8_t bytes[512];
    struct packer p = packer_make(bytes, sizeof(bytes));
    struct command c;
    struct effect put = {.kind = EFFECT_PUT, .value = slice_of("v"), .ttl_ms = 5000};
    put.name = slice_of("a");
    put.lease = (struct id){8, 1};
    assert_true(pack_effect(&p, &put));
    put.name = slice_of("b");
    put.lease = (struct id){8, 2};
    assert_true(pack_effect(&p, &put));
    command_init(&c, COMMAND_TRANSACT);
    c.transact.id = (struct id){8, 3};
    c.transact.client = slice_of("client");
    c.transact.effects = packer_list(&p);
    w.refuses = true;
    for (int i = 1; i <= 1022; i++) {
        give(take("n"), "n");
    }
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_LATER); /* one is left, two are needed */
    replicate_plain(COMMAND_ADVANCE);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.last.error, HF_OK);
    assert_int_equal(core_names(memory_tier_core(w.tier)), 2);
    assert_wrong_tier(TIER_CORRECTNESS, "b");
    assert_int_equal(submit(TIER_CORRECTNESS, &c), TIER_TAKEN);
    assert_int_equal(w.last.error, HF_WRONG_TIER);
    end();
}

/* ---- a backend (tier_backend.h) ---- */

static bool backend_grant(void *ctx, const struct tier_hold *hold)
{
    (void)ctx;
    assert_true(hold->name.len > 0);
    w.asked[w.asked_count++] = hold->token;
    return w.waits;
}

static bool backend_renew(void *ctx, uint64_t token, uint32_t ttl_ms)
{
    (void)ctx;
    assert_true(token != 0 && ttl_ms > 0);
    w.renewals++;
    return w.waits;
}

static void backend_end(void *ctx, uint64_t token, struct slice name)
{
    (void)ctx;
    assert_true(token != 0 && name.len > 0);
    w.ends++;
}

static void backend_lead(void *ctx, uint64_t first)
{
    (void)ctx;
    w.first = first;
}

static enum tier_word backend_route(void *ctx)
{
    (void)ctx;
    return w.route;
}

static void say(uint64_t token, enum tier_word word)
{
    memory_tier_confirm(w.tier, token, word, slice_of("cron\xff"), 5000);
}

static void begin_with_backend(void)
{
    begin();
    struct tier_backend backend = {.lead = backend_lead,
                                   .route = backend_route,
                                   .grant = backend_grant,
                                   .renew = backend_renew,
                                   .end = backend_end};
    memory_tier_set_backend(w.tier, &backend);
    w.waits = true;
}

static void what_a_backend_has_not_confirmed_nobody_is_told(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    make_acquire(&c, "n", 0);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.asked_count, 1);
    assert_int_equal(w.results + w.event_count, 0);
    say(w.asked[0], TIER_CONFIRMED);
    assert_int_equal(w.results, 1);
    assert_int_equal(w.last.token, w.asked[0]);
    assert_int_equal(w.events[0].type, EVENT_GRANTED);
    /* A waiter that is next is confirmed, too. */
    make_acquire(&c, "n", 60000);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    give(w.asked[0], "n");
    assert_int_equal(w.ends, 1);
    assert_int_equal(w.asked_count, 2);
    assert_int_not_equal(w.events[w.event_count - 1].type, EVENT_GRANTED);
    say(w.asked[1], TIER_CONFIRMED);
    assert_int_equal(w.events[w.event_count - 1].type, EVENT_GRANTED);
    say(w.asked[1], TIER_CONFIRMED); /* once more changes nothing */
    assert_int_equal(w.asked_count, 2);
    end();
}

static void what_a_backend_refuses_is_taken_back(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    make_acquire(&c, "n", 0);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(w.asked[0], TIER_FOREIGN);
    assert_int_equal(w.results, 1);
    assert_int_equal(w.last.outcome, OUTCOME_REFUSED);
    assert_int_equal(w.last.reason, REASON_HELD);
    assert_true(w.last.has_holder);
    assert_true(slice_equal(w.last_holder, slice_of("cron?")));
    assert_int_equal(w.event_count, 0);
    assert_int_equal(core_names(memory_tier_core(w.tier)), 0);
    end();
}

static void when_the_leadership_ends_what_was_not_confirmed_is_unknown(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    make_acquire(&c, "n", 0);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    memory_tier_end(w.tier);
    assert_int_equal(w.unknown, 1);
    say(w.asked[0], TIER_CONFIRMED); /* too late */
    assert_int_equal(w.results, 1);
    end();
}

static void a_wait_for_somebody_outside_is_like_one_in_the_queue(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    make_acquire(&c, "n", 60000);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(w.asked[0], TIER_WAITS);
    assert_int_equal(w.results, 1);
    assert_int_equal(w.last.outcome, OUTCOME_QUEUED);
    assert_int_equal(w.last.wait_deadline_ms, w.now_ms + 60000);
    assert_int_equal(tier_of_attachment(w.last.attachment), TIER_EFFICIENCY);
    uint64_t attachment = w.last.attachment;
    /* Longer than its TTL, which starts when the wait is over (S4.3). */
    w.now_ms += 30000;
    memory_tier_run(w.tier, at());
    assert_int_equal(w.event_count, 0);
    /* Who asks again is attached anew (S7.1). */
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.last.outcome, OUTCOME_QUEUED);
    assert_true(w.last.attachment > attachment);
    assert_int_equal(w.events[0].type, EVENT_SUPERSEDED);
    assert_int_equal(w.events[0].attachment, attachment);
    attachment = w.last.attachment;
    w.now_ms += 10000;
    say(w.asked[0], TIER_CONFIRMED);
    assert_int_equal(w.results, 2);
    assert_int_equal(w.event_count, 2);
    assert_int_equal(w.events[1].type, EVENT_GRANTED);
    assert_int_equal(w.events[1].attachment, attachment);
    assert_int_equal(w.events[1].deadline_ms, w.now_ms + 1000);
    w.now_ms += 1000;
    memory_tier_run(w.tier, at());
    assert_int_equal(w.events[2].type, EVENT_EXPIRED);
    assert_int_equal(w.ends, 1);
    end();
}

static void a_wait_that_is_over_ends_and_the_next_is_asked_for(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    make_acquire(&c, "n", 5000);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(w.asked[0], TIER_WAITS);
    uint64_t attachment = w.last.attachment;
    make_acquire(&c, "n", 60000);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.last.outcome, OUTCOME_QUEUED);
    assert_int_equal(w.asked_count, 1);
    w.event_count = 0;
    say(w.asked[0], TIER_FOREIGN);
    assert_int_equal(w.event_count, 1);
    assert_int_equal(w.events[0].type, EVENT_WAIT_ENDED);
    assert_int_equal(w.events[0].reason, REASON_TIMEOUT);
    assert_int_equal(w.events[0].attachment, attachment);
    assert_int_equal(w.asked_count, 2);
    say(w.asked[1], TIER_CONFIRMED);
    assert_int_equal(w.events[1].type, EVENT_GRANTED);
    end();
}

static void a_grant_that_ends_unconfirmed_was_never_there(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    make_acquire(&c, "n", 5000);
    struct id lease = c.acquire.lease;
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(w.asked[0], TIER_WAITS);
    w.event_count = 0;
    /* Its client is gone (S7.2). */
    command_init(&c, COMMAND_RELEASE);
    c.release.lease = lease;
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.ends, 1);
    assert_int_equal(w.event_count, 1);
    assert_int_equal(w.events[0].type, EVENT_WAIT_ENDED);
    say(w.asked[0], TIER_CONFIRMED);
    assert_int_equal(w.event_count, 1);
    assert_int_equal(core_names(memory_tier_core(w.tier)), 0);
    end();
}

static void what_failed_can_be_asked_for_again_with_the_same_id(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    make_acquire(&c, "n", 0);
    c.request_id = slice_of("once");
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(w.asked[0], TIER_FAILED);
    assert_int_equal(w.last.error, HF_BACKEND_UNAVAILABLE);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.asked_count, 2);
    say(w.asked[1], TIER_AGAIN);
    assert_int_equal(w.agains, 1);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.asked_count, 3);
    say(w.asked[2], TIER_CONFIRMED);
    assert_int_equal(w.last.outcome, OUTCOME_GRANTED);
    assert_int_equal(w.last.token, w.asked[2]);
    assert_int_equal(w.last.ended, ENDED_NOT);
    end();
}

static void a_backend_that_is_away_routes_only_what_is_new(void **state)
{
    (void)state;
    begin_with_backend();
    struct command held;
    make_acquire(&held, "n", 0);
    assert_int_equal(submit(TIER_EFFICIENCY, &held), TIER_TAKEN);
    say(w.asked[0], TIER_CONFIRMED);
    struct command c;
    make_acquire(&c, "m", 0);
    w.route = TIER_FAILED;
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.last.error, HF_BACKEND_UNAVAILABLE);
    w.route = TIER_AGAIN;
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_PROPOSE);
    /* One name is in one tier. */
    make_acquire(&c, "n", 0);
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    assert_int_equal(w.last.reason, REASON_HELD);
    /* Its own answer, once more. */
    assert_int_equal(submit(TIER_EFFICIENCY, &held), TIER_TAKEN);
    assert_int_equal(w.last.token, w.asked[0]);
    end();
}

static void a_renewal_is_told_when_it_is_confirmed(void **state)
{
    (void)state;
    begin_with_backend();
    struct command c;
    make_acquire(&c, "n", 0);
    struct id lease = c.acquire.lease;
    assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
    say(w.asked[0], TIER_CONFIRMED);
    command_init(&c, COMMAND_RENEW);
    c.renew.lease = lease;
    static const enum tier_word words[] = {TIER_CONFIRMED, TIER_AGAIN, TIER_FOREIGN};
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(submit(TIER_EFFICIENCY, &c), TIER_TAKEN);
        assert_int_equal(w.results, 1 + i);
        memory_tier_confirm_renewal(w.tier, w.asked[0], words[i]);
        assert_int_equal(w.results, 2 + i);
        assert_int_equal(w.unknown, i >= 1);
    }
    assert_int_equal(w.last.outcome, OUTCOME_REFUSED);
    assert_int_equal(w.last.reason, REASON_EXPIRED);
    /* Lost: it expires, and its holder hears of it. */
    memory_tier_lose(w.tier, lease);
    assert_int_equal(w.events[w.event_count - 2].type, EVENT_EXPIRED);
    assert_int_equal(w.events[w.event_count - 1].type, EVENT_LOST);
    assert_int_equal(core_names(memory_tier_core(w.tier)), 0);
    assert_int_equal(w.ends, 1);
    end();
}

static void the_backend_hears_of_the_leadership(void **state)
{
    (void)state;
    begin_with_backend();
    memory_tier_end(w.tier);
    assert_int_equal(w.first, 0);
    replicate_plain(COMMAND_LEAD);
    memory_tier_begin(w.tier, 1);
    assert_int_equal(w.first, core_epoch(w.core) * 1024 + 1);
    end();
}

/* ---- a majority (S10.1) ---- */

static void a_majority_is_more_than_half_of_the_voters_within_the_time(void **state)
{
    (void)state;
    struct contact c;
    static const uint64_t voters[] = {1, 2, 3, 4, 5};
    contact_reset(&c);
    assert_true(contact_is_majority(&c, voters, 1, 1, 300, 1000)); /* alone: always */
    contact_reset(&c);
    assert_false(contact_is_majority(&c, voters, 5, 1, 300, 1000));
    contact_note(&c, 2, 1000);
    contact_note(&c, 9, 1000); /* no voter */
    assert_false(contact_is_majority(&c, voters, 5, 1, 300, 1001));
    contact_note(&c, 4, 1100);
    assert_true(contact_is_majority(&c, voters, 5, 1, 300, 1101));
    assert_true(contact_is_majority(&c, voters, 5, 1, 300, 1300));
    assert_false(contact_is_majority(&c, voters, 5, 1, 300, 1301));
    contact_note(&c, 5, 1290);
    assert_true(contact_is_majority(&c, voters, 5, 1, 300, 1302));
    assert_true(contact_is_majority(&c, voters, 5, 1, 300, 1400));
    assert_false(contact_is_majority(&c, voters, 5, 1, 300, 1401));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_rise_through_both_tiers),
        cmocka_unit_test(at_half_of_the_tokens_an_advance_is_proposed_once),
        cmocka_unit_test(without_tokens_grants_wait_and_are_not_refused),
        cmocka_unit_test(a_waiter_that_is_next_without_a_token_gets_it_after_the_advance),
        cmocka_unit_test(a_name_in_one_tier_is_refused_in_the_other),
        cmocka_unit_test(a_name_in_a_batch_is_decided_by_its_outcome),
        cmocka_unit_test(a_token_a_lease_and_a_name_find_their_tier),
        cmocka_unit_test(without_a_majority_nothing_is_served),
        cmocka_unit_test(a_new_leadership_begins_empty_and_with_higher_tokens),
        cmocka_unit_test(a_replicated_session_holds_here_as_long_as_it_lives_there),
        cmocka_unit_test(a_session_that_is_closed_gives_its_locks_to_the_next),
        cmocka_unit_test(a_broken_stream_that_lingers_shortens_the_session_here_too),
        cmocka_unit_test(a_node_that_is_gone_is_gone_for_both),
        cmocka_unit_test(what_operators_do_here_is_on_the_replicated_trail),
        cmocka_unit_test(a_transaction_takes_a_token_for_each_name),
        cmocka_unit_test(what_a_backend_has_not_confirmed_nobody_is_told),
        cmocka_unit_test(what_a_backend_refuses_is_taken_back),
        cmocka_unit_test(a_wait_for_somebody_outside_is_like_one_in_the_queue),
        cmocka_unit_test(a_wait_that_is_over_ends_and_the_next_is_asked_for),
        cmocka_unit_test(a_grant_that_ends_unconfirmed_was_never_there),
        cmocka_unit_test(what_failed_can_be_asked_for_again_with_the_same_id),
        cmocka_unit_test(a_backend_that_is_away_routes_only_what_is_new),
        cmocka_unit_test(a_renewal_is_told_when_it_is_confirmed),
        cmocka_unit_test(the_backend_hears_of_the_leadership),
        cmocka_unit_test(when_the_leadership_ends_what_was_not_confirmed_is_unknown),
        cmocka_unit_test(a_majority_is_more_than_half_of_the_voters_within_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
