/* Tests of the quotas of tenants (S15): which commands the leader refuses, with what is in flight. */
#include "base_testing.h"

#include "core/view.h"
#include "replica/admission.h"

enum { IN_FLIGHT = 40 };

/* A leader: commands go through admission into the open batch. The one in flight is applied first. */
struct leader {
    struct core *core;
    struct core *memory; /* of the tier EFFICIENCY */
    struct admission admission;
    struct admitted adds; /* of the last check */
    uint64_t index;
    uint64_t now_us;
    uint64_t ids;
    uint32_t red; /* tenants */
    uint32_t blue;
    struct result result;
};

static uint64_t now_ms(const struct leader *l)
{
    return l->now_us / 1000;
}

static void pass_us(struct leader *l, uint64_t us)
{
    l->now_us += us;
    core_begin(l->core, ++l->index, now_ms(l), now_ms(l));
    core_begin(l->memory, l->index, now_ms(l), now_ms(l));
}

static struct core *new_core(void)
{
    return core_new(
        &(struct core_options){.memory = memory_system(), .hash_key = 1, .version = CORE_VERSION});
}

static void apply_to(struct leader *l, struct core *core, const struct command *c)
{
    core_apply(core, c, &l->result);
    assert_string_equal(hf_error_code(l->result.error), "ok");
}

static uint32_t set_quotas(struct leader *l, const char *tenant, struct quotas quotas)
{
    uint8_t bytes[512];
    struct packer p = packer_make(bytes, sizeof(bytes));
    struct policy_change change = {
        .kind = POLICY_TENANT_PUT, .tenant = slice_of(tenant), .quotas = quotas};
    assert_true(pack_policy_change(&p, &change));
    struct command c;
    command_init(&c, COMMAND_POLICY_CHANGE);
    c.policy_change.expect = UINT64_MAX;
    c.policy_change.actor = slice_of("olga");
    c.policy_change.reason = slice_of("test");
    c.policy_change.changes = packer_list(&p);
    apply_to(l, l->core, &c);
    struct tenant_view view;
    assert_true(policy_find_tenant(core_policy(l->core), slice_of(tenant), &view));
    return view.number;
}

static int setup(void **state)
{
    struct leader *l = calloc(1, sizeof(*l));
    assert_non_null(l);
    l->core = new_core();
    l->memory = new_core();
    l->admission.quotas = quota_book_new(memory_system());
    pass_us(l, 10000000);
    l->red = set_quotas(l, "red", (struct quotas){.locks = 0});
    l->blue = set_quotas(l, "blue", (struct quotas){.locks = 0});
    *state = l;
    return 0;
}

static int teardown(void **state)
{
    struct leader *l = *state;
    assert_null(core_check_invariants(l->core));
    quota_book_free(l->admission.quotas);
    core_free(l->memory);
    core_free(l->core);
    free(l);
    return 0;
}

static struct command acquire(struct leader *l, uint32_t tenant, const char *name)
{
    struct command c;
    command_init(&c, COMMAND_ACQUIRE);
    c.tenant = tenant;
    c.acquire.lease = (struct id){++l->ids, 7};
    c.acquire.node = 1;
    c.acquire.client = slice_of("client");
    c.acquire.names.count = 1;
    c.acquire.names.at[0] = slice_of(name);
    c.acquire.ttl_ms = 60000;
    return c;
}

static struct command waiting(struct leader *l, uint32_t tenant, const char *name)
{
    struct command c = acquire(l, tenant, name);
    c.acquire.wait_ms = 60000;
    return c;
}

static struct command release(uint32_t tenant, struct id lease)
{
    struct command c;
    command_init(&c, COMMAND_RELEASE);
    c.tenant = tenant;
    c.release.lease = lease;
    return c;
}

static enum hf_error check(struct leader *l, const struct command *c)
{
    return admission_check(&l->admission, l->core, l->memory, c, l->now_us, &l->adds);
}

/* Admitted, proposed and applied. */
static void done(struct leader *l, const struct command *c)
{
    struct admitted sum = {.bytes = 0};
    assert_string_equal(hf_error_code(check(l, c)), "ok");
    admission_take(&l->admission, &l->adds, l->now_us);
    admission_propose(&l->admission, &l->adds, &sum);
    apply_to(l, l->core, c);
    admission_settle(&l->admission, &sum);
}

static void assert_refused(struct leader *l, const struct command *c, enum quota quota,
                           uint64_t limit)
{
    assert_string_equal(hf_error_code(check(l, c)), "quota_exceeded");
    assert_string_equal(quota_name(l->admission.refusal.quota), quota_name(quota));
    assert_int_equal(l->admission.refusal.limit, limit);
    assert_true(l->admission.refusal.retry_ms > 0);
}

/* ---- state ---- */

static void a_tenant_at_its_quota_of_locks_is_refused_and_others_are_not(void **state)
{
    struct leader *l = *state;
    set_quotas(l, "red", (struct quotas){.locks = 2});
    struct command first = acquire(l, l->red, "a");
    struct command second = acquire(l, l->red, "b");
    struct command third = acquire(l, l->red, "c");
    struct command theirs = acquire(l, l->blue, "c");
    done(l, &first);
    done(l, &second);
    assert_refused(l, &third, QUOTA_LOCKS, 2);
    done(l, &theirs);
    struct command end = release(l->red, first.acquire.lease);
    done(l, &end);
    done(l, &third);
}

static void a_tenant_without_quotas_has_no_entry(void **state)
{
    struct leader *l = *state;
    struct command c = acquire(l, l->red, "a");
    done(l, &c);
    assert_null(quota_tenant_find(l->admission.quotas, l->red));
}

static void both_tiers_count(void **state)
{
    struct leader *l = *state;
    set_quotas(l, "red", (struct quotas){.locks = 1});
    struct command quick = acquire(l, l->red, "quick");
    struct command durable = acquire(l, l->red, "durable");
    apply_to(l, l->memory, &quick);
    assert_refused(l, &durable, QUOTA_LOCKS, 1);
}

static void what_is_in_flight_counts_and_is_awaited(void **state)
{
    struct leader *l = *state;
    struct admitted sum = {.bytes = 0};
    set_quotas(l, "red", (struct quotas){.locks = 1});
    set_quotas(l, "blue", (struct quotas){.locks = 1});
    struct command first = acquire(l, l->red, "a");
    struct command second = acquire(l, l->red, "b");
    struct command theirs = acquire(l, l->blue, "b");
    assert_int_equal(check(l, &first), HF_OK);
    admission_propose(&l->admission, &l->adds, &sum);
    assert_int_equal(check(l, &second), HF_BUSY);
    assert_true(l->admission.is_tenant_busy);
    assert_int_equal(check(l, &theirs), HF_OK);
    assert_false(l->admission.is_tenant_busy);
    admission_settle(&l->admission, &sum); /* it was not done */
    assert_int_equal(check(l, &second), HF_OK);
}

static void each_quota_of_the_state_refuses_what_adds_to_it(void **state)
{
    struct leader *l = *state;
    struct command held = acquire(l, l->red, "held");
    done(l, &held);
    struct command open;
    command_init(&open, COMMAND_SESSION_OPEN);
    open.tenant = l->red;
    open.session_open.id = (struct id){++l->ids, 7};
    open.session_open.client = slice_of("client");
    open.session_open.ttl_ms = 60000;
    struct command fresh = acquire(l, l->red, "fresh");
    struct command waits = waiting(l, l->red, "held");
    set_quotas(l, "red", (struct quotas){.sessions = 1});
    assert_refused(l, &open, QUOTA_SESSIONS, 1);
    assert_refused(l, &fresh, QUOTA_SESSIONS, 1); /* its private session */
    set_quotas(l, "red", (struct quotas){.waiters = 1});
    done(l, &waits);
    struct command another = waiting(l, l->red, "held");
    assert_refused(l, &another, QUOTA_WAITERS, 1);
    set_quotas(l, "red", (struct quotas){.state_bytes = 1});
    assert_refused(l, &fresh, QUOTA_STATE_BYTES, 1);
    assert_refused(l, &open, QUOTA_STATE_BYTES, 1);
}

static void what_is_there_already_adds_nothing(void **state)
{
    struct leader *l = *state;
    struct command held = acquire(l, l->red, "held");
    done(l, &held);
    set_quotas(l, "red", (struct quotas){.locks = 1, .waiters = 1});
    struct command waits = waiting(l, l->red, "held");
    done(l, &waits); /* the name counts already */
    set_quotas(l, "red", (struct quotas){.waiters = 1});
    struct command free = waiting(l, l->red, "free");
    done(l, &free); /* it does not wait */
}

static void transaction(struct leader *l, struct command *c, struct packer *p, const char *name,
                        enum effect_kind kind)
{
    assert_true(pack_effect(p, &(struct effect){.kind = kind,
                                                .name = slice_of(name),
                                                .value = slice_of("v"),
                                                .lease = {++l->ids, 7},
                                                .ttl_ms = 60000}));
    command_init(c, COMMAND_TRANSACT);
    c->tenant = l->red;
    c->transact.id = (struct id){++l->ids, 9};
    c->transact.client = slice_of("resp");
    c->transact.effects = packer_list(p);
}

static void keys_and_counters_are_locks(void **state)
{
    struct leader *l = *state;
    uint8_t bytes[4][512];
    struct packer p[4];
    struct command key;
    struct command counter;
    struct command again;
    struct command drop;
    for (unsigned i = 0; i < 4; i++) {
        p[i] = packer_make(bytes[i], sizeof(bytes[i]));
    }
    set_quotas(l, "red", (struct quotas){.locks = 1});
    transaction(l, &key, &p[0], "key", EFFECT_PUT);
    transaction(l, &counter, &p[1], "n", EFFECT_COUNTER);
    transaction(l, &again, &p[2], "key", EFFECT_PUT);
    transaction(l, &drop, &p[3], "key", EFFECT_DROP);
    done(l, &key);
    assert_refused(l, &counter, QUOTA_LOCKS, 1);
    done(l, &again);
    done(l, &drop);
    done(l, &counter);
}

static void what_ends_something_and_operators_pass(void **state)
{
    static const enum command_type types[] = {
        COMMAND_TICK,          COMMAND_KEEPALIVE,   COMMAND_SESSION_CLOSE, COMMAND_STREAM_UP,
        COMMAND_STREAM_DOWN,   COMMAND_CANCEL,      COMMAND_DETACH,        COMMAND_NODE_GONE,
        COMMAND_RELEASE,       COMMAND_RENEW,       COMMAND_FORCE_UNLOCK,  COMMAND_REVOKE,
        COMMAND_POLICY_CHANGE, COMMAND_FENCE_RESET,
    };
    struct leader *l = *state;
    struct command held = acquire(l, l->red, "held");
    done(l, &held);
    set_quotas(
        l, "red",
        (struct quotas){
            .locks = 1, .sessions = 1, .waiters = 1, .state_bytes = 1, .requests_per_second = 1});
    struct command taken = acquire(l, l->red, "held");
    l->adds.quota = (struct quota_use){.tenant = l->red, .rate = 1};
    for (int i = 0; i < 10; i++) {
        admission_take(&l->admission, &l->adds, l->now_us); /* far over the rate */
    }
    assert_refused(l, &taken, QUOTA_REQUESTS_PER_SECOND, 1);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        struct command c;
        command_init(&c, types[i]);
        c.tenant = l->red;
        assert_string_equal(hf_error_code(check(l, &c)), "ok");
    }
}

static void a_retry_of_what_was_done_passes(void **state)
{
    struct leader *l = *state;
    set_quotas(l, "red", (struct quotas){.locks = 1, .requests_per_second = 1});
    struct command c = acquire(l, l->red, "a");
    done(l, &c);
    assert_int_equal(check(l, &c), HF_OK);
    struct command other = acquire(l, l->red, "a");
    assert_refused(l, &other, QUOTA_REQUESTS_PER_SECOND, 1);
}

static void a_tenant_above_a_lowered_quota_adds_nothing(void **state)
{
    struct leader *l = *state;
    for (int i = 0; i < 5; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%d", i);
        struct command c = acquire(l, l->red, name);
        done(l, &c);
    }
    set_quotas(l, "red", (struct quotas){.locks = 3});
    struct command c = acquire(l, l->red, "more");
    assert_refused(l, &c, QUOTA_LOCKS, 3);
}

/* Two batches: one in flight, one open. Names are few, so that they are released and acquired again
 * while commands on them are in flight. */
static void no_order_of_commands_exceeds_a_quota(void **state)
{
    enum { ROUNDS = 3000, NAMES = 12, LOCKS = 5, SESSIONS = 7, WAITERS = 2 };
    static struct command commands[2][IN_FLIGHT];
    static struct admitted sums[2][IN_FLIGHT];
    static char names[NAMES][4];
    struct id leases[64] = {{0, 0}};
    uint32_t counts[2] = {0, 0};
    unsigned open = 0;
    struct leader *l = *state;
    uint64_t refused = 0;
    uint64_t most = 0;
    uint32_t random = 1;
    set_quotas(l, "red", (struct quotas){.locks = LOCKS, .sessions = SESSIONS, .waiters = WAITERS});
    for (unsigned i = 0; i < NAMES; i++) {
        snprintf(names[i], sizeof(names[i]), "%u", i);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < IN_FLIGHT / 2; i++) {
            random = random * 1103515245 + 12345;
            uint32_t drawn = random >> 8;
            struct command c = drawn % 5 < 3    ? acquire(l, l->red, names[drawn / 8 % NAMES])
                               : drawn % 5 == 3 ? waiting(l, l->red, names[drawn / 8 % NAMES])
                                                : release(l->red, leases[drawn / 8 % 64]);
            c.acquire.ttl_ms = c.type == COMMAND_ACQUIRE ? 1000 + drawn % 4000 : 0;
            if (c.type == COMMAND_RELEASE && id_is_zero(c.release.lease)) {
                continue;
            }
            enum hf_error error = check(l, &c);
            refused += error == HF_QUOTA;
            if (error == HF_OK && counts[open] < IN_FLIGHT) {
                sums[open][counts[open]] = (struct admitted){.bytes = 0};
                admission_propose(&l->admission, &l->adds, &sums[open][counts[open]]);
                commands[open][counts[open]++] = c;
            }
            if (c.type == COMMAND_ACQUIRE) {
                leases[drawn / 16 % 64] = c.acquire.lease;
            }
        }
        open = 1 - open; /* the other one was in flight and is applied now */
        pass_us(l, 50000);
        for (uint32_t i = 0; i < counts[open]; i++) {
            core_apply(l->core, &commands[open][i], &l->result);
            admission_settle(&l->admission, &sums[open][i]);
            struct tenant_usage usage;
            core_tenant_usage(l->core, l->red, &usage);
            assert_in_range(usage.names, 0, LOCKS);
            assert_in_range(usage.sessions, 0, SESSIONS);
            assert_in_range(usage.waiters, 0, WAITERS);
            most = usage.names > most ? usage.names : most;
        }
        counts[open] = 0;
    }
    assert_true(refused > 100);
    assert_int_equal(most, LOCKS);
}

/* ---- requests a second ---- */

static uint32_t admitted_now(struct leader *l)
{
    uint32_t count = 0;
    for (struct command c = acquire(l, l->red, "a"); check(l, &c) == HF_OK;
         c = acquire(l, l->red, "a")) {
        admission_take(&l->admission, &l->adds, l->now_us);
        count++;
    }
    return count;
}

static void a_rate_allows_the_requests_of_one_second_at_once(void **state)
{
    struct leader *l = *state;
    set_quotas(l, "red", (struct quotas){.requests_per_second = 50});
    assert_int_equal(admitted_now(l), 50);
    struct command c = acquire(l, l->red, "a");
    assert_refused(l, &c, QUOTA_REQUESTS_PER_SECOND, 50);
    assert_int_equal(l->admission.refusal.retry_ms, 20);
    pass_us(l, 19999);
    assert_int_equal(admitted_now(l), 0);
    pass_us(l, 1);
    assert_int_equal(admitted_now(l), 1);
    pass_us(l, 100000);
    assert_int_equal(admitted_now(l), 5);
    pass_us(l, 60000000);
    assert_int_equal(admitted_now(l), 50);
    struct command theirs = acquire(l, l->blue, "a");
    assert_int_equal(check(l, &theirs), HF_OK);
}

static void a_release_takes_a_token_and_the_debt_is_a_second(void **state)
{
    struct leader *l = *state;
    set_quotas(l, "red", (struct quotas){.requests_per_second = 10});
    for (int i = 0; i < 1000; i++) {
        struct command c = release(l->red, (struct id){9, 9});
        assert_int_equal(check(l, &c), HF_OK);
        admission_take(&l->admission, &l->adds, l->now_us);
    }
    struct command c = acquire(l, l->red, "a");
    assert_refused(l, &c, QUOTA_REQUESTS_PER_SECOND, 10);
    assert_int_equal(l->admission.refusal.retry_ms, 1100);
    pass_us(l, 1100000);
    assert_int_equal(admitted_now(l), 1);
}

static void rates_of_any_size_are_kept(void **state)
{
    struct leader *l = *state;
    set_quotas(l, "red", (struct quotas){.requests_per_second = 1});
    assert_int_equal(admitted_now(l), 1);
    pass_us(l, 999999);
    assert_int_equal(admitted_now(l), 0);
    pass_us(l, 1);
    assert_int_equal(admitted_now(l), 1);
    set_quotas(l, "red", (struct quotas){.requests_per_second = LIMIT_NUMBER - 1});
    pass_us(l, 1000000);
    for (int i = 0; i < 5000; i++) {
        struct command c = acquire(l, l->red, "a");
        assert_int_equal(check(l, &c), HF_OK);
        admission_take(&l->admission, &l->adds, l->now_us);
    }
}

/* ---- entries ---- */

static void entries_of_tenants_without_quotas_are_removed(void **state)
{
    struct leader *l = *state;
    struct quota_book *book = l->admission.quotas;
    struct admitted sum = {.bytes = 0};
    set_quotas(l, "red", (struct quotas){.locks = 5});
    struct command c = acquire(l, l->red, "a");
    assert_int_equal(check(l, &c), HF_OK);
    admission_propose(&l->admission, &l->adds, &sum);
    set_quotas(l, "red", (struct quotas){.locks = 0});
    (void)quota_tenant_get(book, 999); /* no such tenant */
    quota_book_prune(book, core_policy(l->core));
    assert_null(quota_tenant_find(book, 999));
    assert_non_null(quota_tenant_find(book, l->red)); /* a command is in flight */
    admission_settle(&l->admission, &sum);
    quota_book_prune(book, core_policy(l->core));
    assert_null(quota_tenant_find(book, l->red));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_tenant_at_its_quota_of_locks_is_refused_and_others_are_not),
        TEST(a_tenant_without_quotas_has_no_entry),
        TEST(both_tiers_count),
        TEST(what_is_in_flight_counts_and_is_awaited),
        TEST(each_quota_of_the_state_refuses_what_adds_to_it),
        TEST(what_is_there_already_adds_nothing),
        TEST(keys_and_counters_are_locks),
        TEST(what_ends_something_and_operators_pass),
        TEST(a_retry_of_what_was_done_passes),
        TEST(a_tenant_above_a_lowered_quota_adds_nothing),
        TEST(no_order_of_commands_exceeds_a_quota),
        TEST(a_rate_allows_the_requests_of_one_second_at_once),
        TEST(a_release_takes_a_token_and_the_debt_is_a_second),
        TEST(rates_of_any_size_are_kept),
        TEST(entries_of_tenants_without_quotas_are_removed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
