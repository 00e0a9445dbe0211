/* Which principal may send which command (S14.1): a table with a row for each type of command. */
#include "base_testing.h"

#include "core/policy_state.h"
#include "policy_changes.h"

/* The principals of the tests, in the order of their numbers. `team` and `other` are tenants. */
enum {
    LOCKER = 1, /* `lock` on jobs/ of team */
    READER,     /* `read` ... */
    OPERATOR,   /* `operate` ... */
    CHIEF,      /* `admin` on all of team */
    ADMIN,      /* `admin` on the cluster, and nothing else */
    NARROW,     /* every right on the name jobs/2 of team */
    FOREIGN,    /* every right on all of other */
    NOBODY,     /* at home in team, without a grant */
    MIXED,      /* at home in team, with a grant in other */
    EVERYTHING, /* every right on every tenant */
    PRINCIPALS
};

#define BIT(principal) (1u << (principal))
#define ALL_OF_TEAM                                                                      \
    (BIT(LOCKER) | BIT(READER) | BIT(OPERATOR) | BIT(CHIEF) | BIT(ADMIN) | BIT(NARROW) | \
     BIT(FOREIGN) | BIT(NOBODY) | BIT(MIXED) | BIT(EVERYTHING))

static struct counted memory;
static struct policy *policy;
static struct policy_changes changes; /* of the command under test, too */

static bool nothing_is_in_use(void *ctx, uint32_t tenant)
{
    (void)ctx;
    (void)tenant;
    return false;
}

static int set_up(void **state)
{
    (void)state;
    counted_init(&memory);
    policy = policy_new(&memory.memory);
    changes_begin(&changes);
    add_tenant(&changes, "team");
    add_tenant(&changes, "other");
    add_principal(&changes, "team", "locker", "team", "jobs/", RIGHT_LOCK);
    add_principal(&changes, "team", "reader", "team", "jobs/", RIGHT_READ);
    add_principal(&changes, "team", "operator", "team", "jobs/", RIGHT_OPERATE);
    add_principal(&changes, "team", "chief", "team", "", RIGHT_ADMIN);
    add_principal(&changes, "default", "admin", "*", "", RIGHT_ADMIN);
    add_principal(&changes, "team", "narrow", "team", "jobs/2", RIGHTS_ALL);
    add_principal(&changes, "other", "foreign", "other", "", RIGHTS_ALL);
    add_principal(&changes, "team", "nobody", "team", "", 0);
    add_principal(&changes, "team", "mixed", "other", "", RIGHT_READ);
    add_principal(&changes, "default", "everything", "*", "", RIGHTS_ALL);
    add_token(&changes, "team", "locker", 1); /* its number is 1 */
    add_token(&changes, "other", "foreign", 2);
    struct command c = changes_command(&changes);
    struct policy_situation now = {.in_use = nothing_is_in_use};
    struct policy_outcome out;
    policy_apply(policy, &c.policy_change, &now, &out);
    assert_int_equal(out.error, HF_OK);
    assert_int_equal(policy_principals(policy), PRINCIPALS - 1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    policy_free(policy);
    assert_all_given_back(&memory);
    return 0;
}

/* ---- rights on names ---- */

static void a_prefix_covers_names_below_it(void **state)
{
    (void)state;
    static const struct {
        const char *prefix;
        const char *name;
        bool is_covered;
    } rows[] = {
        {"", "a", true},         {"", "a/b", true},      {"a/", "a/b", true},
        {"a/", "a/b/c", true},   {"a/", "a", false},     {"a/", "ab", false},
        {"a/", "b/a/", false},   {"a", "a", true},       {"a", "a/b", false},
        {"a", "ab", false},      {"a/b", "a/b", true},   {"a/b", "a/b/c", false},
        {"a/b/", "a/b/c", true}, {"a/b/", "a/c", false}, {"ä/", "ä/1", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        changes_begin(&changes);
        add_principal(&changes, "team", "nobody", "team", rows[i].prefix, RIGHT_LOCK);
        struct command c = changes_command(&changes);
        struct policy_situation now = {.in_use = nothing_is_in_use};
        struct policy_outcome out;
        policy_apply(policy, &c.policy_change, &now, &out);
        assert_int_equal(out.error, HF_OK);
        if (policy_allows(policy, NOBODY, 1, RIGHT_LOCK, slice_of(rows[i].name)) !=
            rows[i].is_covered) {
            fail_msg("\"%s\" and \"%s\"", rows[i].prefix, rows[i].name);
        }
        assert_false(policy_allows(policy, NOBODY, 2, RIGHT_LOCK, slice_of(rows[i].name)));
        assert_false(policy_allows(policy, NOBODY, 1, RIGHT_OPERATE, slice_of(rows[i].name)));
    }
}

static void lock_implies_read_and_nothing_else_implies_anything(void **state)
{
    (void)state;
    static const enum right rights[] = {RIGHT_LOCK, RIGHT_READ, RIGHT_OPERATE, RIGHT_ADMIN};
    const uint32_t holders[] = {LOCKER, READER, OPERATOR, CHIEF};
    for (size_t has = 0; has < 4; has++) {
        for (size_t wants = 0; wants < 4; wants++) {
            bool expected = has == wants || (has == 0 && wants == 1);
            assert_int_equal(
                policy_allows(policy, holders[has], 1, rights[wants], slice_of("jobs/1")),
                expected);
            assert_int_equal(policy_allows_some(policy, holders[has], 1, rights[wants]), expected);
        }
    }
    for (size_t i = 0; i < 4; i++) {
        assert_true(right_of_word(slice_of(right_name(rights[i]))) == rights[i]);
    }
    assert_int_equal(right_of_word(slice_of("own")), 0);
}

static void the_reach_of_a_grant_is_a_name_a_tenant_or_the_cluster(void **state)
{
    (void)state;
    assert_true(policy_allows_tenant(policy, CHIEF, 1, RIGHT_ADMIN));
    assert_false(policy_allows_tenant(policy, CHIEF, 2, RIGHT_ADMIN));
    assert_false(policy_allows_cluster(policy, CHIEF, RIGHT_ADMIN));
    assert_true(policy_allows_tenant(policy, ADMIN, 1, RIGHT_ADMIN));
    assert_true(policy_allows_cluster(policy, ADMIN, RIGHT_ADMIN));
    assert_false(policy_allows_cluster(policy, ADMIN, RIGHT_READ));
    assert_false(policy_allows_tenant(policy, NARROW, 1, RIGHT_ADMIN));
    assert_false(policy_allows_some(policy, NOBODY, 1, RIGHT_READ));
}

static void principal_0_may_do_everything_and_a_removed_one_nothing(void **state)
{
    (void)state;
    assert_true(policy_allows(policy, 0, 77, RIGHT_ADMIN, slice_of("a")));
    assert_true(policy_allows_cluster(policy, 0, RIGHT_ADMIN));
    assert_false(policy_allows_some(policy, 1000, 0, RIGHT_READ));
}

/* ---- commands ---- */

static struct slice the_name;

static void with_names(struct command *c)
{
    switch (c->type) {
    case COMMAND_ACQUIRE:
        c->acquire.names.count = 1;
        c->acquire.names.at[0] = the_name;
        break;
    case COMMAND_RELEASE:
        c->release.name = the_name;
        break;
    case COMMAND_RENEW:
        c->renew.name = the_name;
        break;
    case COMMAND_PROCLAIM:
        c->proclaim.name = the_name;
        break;
    case COMMAND_FORCE_UNLOCK:
        c->force_unlock.name = the_name;
        break;
    case COMMAND_REVOKE:
        c->revoke.name = the_name;
        break;
    case COMMAND_FENCE_CHECK:
        c->fence_check.resource = the_name;
        break;
    case COMMAND_FENCE_RESET:
        c->fence_reset.resource = the_name;
        break;
    case COMMAND_NOTE:
        c->note.name = the_name;
        break;
    default:
        break;
    }
}

#define LOCKS (BIT(LOCKER) | BIT(EVERYTHING))
#define OPERATES (BIT(OPERATOR) | BIT(EVERYTHING))
#define ADMINS (BIT(ADMIN) | BIT(EVERYTHING))

/* Who may send the command about jobs/1 of team. A new type needs a row. */
static const struct {
    bool is_here;
    uint32_t who;
} rows[COMMAND_COUNT] = {
    [COMMAND_LEAD] = {true, 0},
    [COMMAND_TICK] = {true, 0},
    [COMMAND_ADVANCE] = {true, 0},
    [COMMAND_UPGRADE] = {true, 0},
    [COMMAND_NODE_GONE] = {true, 0},
    [COMMAND_SESSION_OPEN] = {true, LOCKS | BIT(NARROW)}, /* on some name */
    /* Ownership decides, later. */
    [COMMAND_KEEPALIVE] = {true, ALL_OF_TEAM},
    [COMMAND_SESSION_CLOSE] = {true, ALL_OF_TEAM},
    [COMMAND_STREAM_UP] = {true, ALL_OF_TEAM},
    [COMMAND_STREAM_THROUGH] = {true, ALL_OF_TEAM},
    [COMMAND_STREAM_DOWN] = {true, ALL_OF_TEAM},
    [COMMAND_CANCEL] = {true, ALL_OF_TEAM},
    [COMMAND_DETACH] = {true, ALL_OF_TEAM},
    [COMMAND_RELEASE] = {true, ALL_OF_TEAM},
    [COMMAND_ACQUIRE] = {true, LOCKS},
    [COMMAND_RENEW] = {true, LOCKS},
    [COMMAND_PROCLAIM] = {true, LOCKS},
    [COMMAND_FENCE_CHECK] = {true, LOCKS},
    [COMMAND_FORCE_UNLOCK] = {true, OPERATES},
    [COMMAND_REVOKE] = {true, OPERATES},
    [COMMAND_FENCE_RESET] = {true, OPERATES},
    [COMMAND_NOTE] = {true, OPERATES},
    [COMMAND_TRANSACT] = {true, LOCKS},            /* see the test of transactions */
    [COMMAND_POLICY_CHANGE] = {true, ADMINS},      /* ... and of policy changes */
    [COMMAND_ALERT_SET] = {true, BIT(EVERYTHING)}, /* `operate` on the whole tenant */
    [COMMAND_ALERT_REMOVE] = {true, BIT(EVERYTHING)},
    [COMMAND_LONG_HELD] = {true, 0},
    [COMMAND_SINK_POSITION] = {true, 0},
};

static uint32_t who_may(const struct command *c)
{
    uint32_t who = 0;
    for (uint32_t principal = 1; principal < PRINCIPALS; principal++) {
        struct command sent = *c;
        struct denial denial = {.right = 0};
        sent.principal = principal;
        enum hf_error error = authorise_command(policy, &sent, &denial);
        assert_int_equal(authorise_command(policy, &sent, NULL), error);
        assert_true(error == HF_OK || (error == HF_DENIED && denial.right != 0));
        who |= error == HF_OK ? BIT(principal) : 0;
    }
    struct command sent = *c;
    assert_int_equal(authorise_command(policy, &sent, NULL), HF_OK);
    sent.principal = 999; /* removed, or never given */
    if (authorise_command(policy, &sent, NULL) == HF_OK) {
        assert_int_equal(who, ALL_OF_TEAM); /* only what ownership decides */
    }
    return who;
}

static void fill_transact_of(struct command *c, const struct effect *effect, const char *read)
{
    static uint8_t check_bytes[64];
    static uint8_t effect_bytes[256];
    struct packer checks = packer_make(check_bytes, sizeof(check_bytes));
    struct packer effects = packer_make(effect_bytes, sizeof(effect_bytes));
    if (read != NULL) {
        assert_true(pack_check(&checks, &(struct key_check){slice_of(read), {0, 0, 0}}));
    }
    if (effect != NULL) {
        assert_true(pack_effect(&effects, effect));
    }
    c->transact.checks = packer_list(&checks);
    c->transact.effects = packer_list(&effects);
}

static void every_command_needs_its_right(void **state)
{
    (void)state;
    the_name = slice_of("jobs/1");
    struct effect put = {.kind = EFFECT_PUT, .name = the_name, .ttl_ms = 1000, .lease = {1, 1}};
    for (int type = COMMAND_NONE + 1; type < COMMAND_COUNT; type++) {
        struct command c;
        command_init(&c, (enum command_type)type);
        c.tenant = 1;
        if (!rows[type].is_here) {
            fail_msg("the table has no row for %s", command_name((enum command_type)type));
        }
        with_names(&c);
        if (type == COMMAND_TRANSACT) {
            fill_transact_of(&c, &put, NULL);
        } else if (type == COMMAND_POLICY_CHANGE) {
            changes_begin(&changes);
            add_tenant(&changes, "new");
            c = changes_command(&changes);
            c.tenant = 1;
        }
        if (who_may(&c) != rows[type].who) {
            fail_msg("%s: %x instead of %x", command_name((enum command_type)type), who_may(&c),
                     rows[type].who);
        }
    }
}

static void a_denial_names_the_right_and_the_name(void **state)
{
    (void)state;
    struct command c;
    struct denial denial;
    command_init(&c, COMMAND_ACQUIRE);
    c.tenant = 1;
    c.principal = LOCKER;
    c.acquire.names.count = 3; /* a multi-lock needs all */
    c.acquire.names.at[0] = slice_of("jobs/1");
    c.acquire.names.at[1] = slice_of("jobs/2");
    c.acquire.names.at[2] = slice_of("other");
    assert_int_equal(authorise_command(policy, &c, &denial), HF_DENIED);
    assert_int_equal(denial.right, RIGHT_LOCK);
    assert_true(slice_equal(denial.name, slice_of("other")));
    assert_false(denial.of_cluster);
    c.acquire.names.count = 2;
    assert_int_equal(authorise_command(policy, &c, &denial), HF_OK);
    command_init(&c, COMMAND_LEAD);
    c.principal = EVERYTHING;
    assert_int_equal(authorise_command(policy, &c, &denial), HF_DENIED);
    assert_true(denial.of_cluster);
}

static void a_renewal_without_a_name_is_decided_by_its_grant(void **state)
{
    (void)state;
    struct command c;
    command_init(&c, COMMAND_RENEW);
    c.tenant = 1;
    c.renew.token = 1024;
    assert_int_equal(who_may(&c), ALL_OF_TEAM); /* core_apply knows the names */
}

/* A node notes what it denied, with the principal that it denied it to. */
static void a_note_of_denied_calls_needs_no_right(void **state)
{
    (void)state;
    struct command c;
    command_init(&c, COMMAND_NOTE);
    c.tenant = 1;
    c.note.action = NOTE_DENIED;
    c.note.name = slice_of("jobs/1");
    assert_int_equal(who_may(&c), ALL_OF_TEAM);
}

static void no_command_reaches_a_tenant_that_does_not_exist(void **state)
{
    (void)state;
    for (int type = COMMAND_NONE + 1; type < COMMAND_COUNT; type++) {
        struct command c;
        command_init(&c, (enum command_type)type);
        c.tenant = 3; /* the number that comes next */
        c.principal = EVERYTHING;
        assert_int_equal(authorise_command(policy, &c, NULL), HF_DENIED);
        c.principal = 0;
        assert_int_equal(authorise_command(policy, &c, NULL), HF_OK);
    }
}

static void a_transaction_needs_the_rights_of_its_parts(void **state)
{
    (void)state;
    static const struct {
        enum effect_kind kind;
        uint32_t flags;
        const char *read;
        uint32_t who;
    } parts[] = {
        {EFFECT_NONE, 0, "jobs/1", LOCKS | BIT(READER)},
        {EFFECT_PUT, 0, NULL, LOCKS},
        {EFFECT_EXPIRE, 0, NULL, LOCKS},
        {EFFECT_DROP, 0, NULL, LOCKS},
        {EFFECT_DROP, EFFECT_FORCED, NULL, OPERATES},
        {EFFECT_COUNTER, 0, NULL, LOCKS},
        {EFFECT_PUBLISH, 0, NULL, LOCKS},
        {EFFECT_PUT, 0, "jobs/2", LOCKS},
        {EFFECT_PUT, 0, "elsewhere", BIT(EVERYTHING)},
        {EFFECT_DROP, EFFECT_FORCED, "jobs/1", BIT(EVERYTHING)},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct command c;
        command_init(&c, COMMAND_TRANSACT);
        c.tenant = 1;
        struct effect effect = {.kind = parts[i].kind,
                                .flags = parts[i].flags,
                                .name = slice_of("jobs/1"),
                                .lease = {1, 1},
                                .ttl_ms = 1000};
        fill_transact_of(&c, effect.kind == EFFECT_NONE ? NULL : &effect, parts[i].read);
        if (who_may(&c) != parts[i].who) {
            fail_msg("row %zu: %x instead of %x", i, who_may(&c), parts[i].who);
        }
    }
}

static uint32_t who_may_change(void)
{
    struct command c = changes_command(&changes);
    c.tenant = 1;
    uint32_t who = who_may(&c);
    for (uint32_t origin = POLICY_BOOTSTRAP; origin < POLICY_ORIGINS; origin++) {
        c.policy_change.origin = origin;
        assert_int_equal(who_may(&c), ADMINS);
    }
    c.policy_change.origin = POLICY_BY_PRINCIPAL;
    c.policy_change.end_sessions = 1;
    assert_int_equal(who_may(&c), ADMINS);
    changes_begin(&changes);
    return who;
}

/* An administrator of a tenant gives and takes tokens of its principals, and nothing else. */
static void an_administrator_of_a_tenant_changes_its_tokens_only(void **state)
{
    (void)state;
    changes_begin(&changes);
    add_token(&changes, "team", "locker", 5);
    assert_int_equal(who_may_change(), ADMINS | BIT(CHIEF));
    add_token(&changes, "team", "locker", 5);
    remove_token(&changes, 1);
    assert_int_equal(who_may_change(), ADMINS | BIT(CHIEF));
    remove_token(&changes, 2); /* of another tenant */
    assert_int_equal(who_may_change(), ADMINS | BIT(FOREIGN));
    remove_token(&changes, 99);
    assert_int_equal(who_may_change(), ADMINS);
    add_token(&changes, "other", "foreign", 5);
    assert_int_equal(who_may_change(), ADMINS | BIT(FOREIGN));
    add_token(&changes, "team", "mixed", 5); /* it has rights elsewhere */
    assert_int_equal(who_may_change(), ADMINS);
    add_token(&changes, "team", "unknown", 5);
    assert_int_equal(who_may_change(), ADMINS);
    add_token(&changes, "unknown", "locker", 5);
    assert_int_equal(who_may_change(), ADMINS);
    add_token(&changes, "team", "locker", 5);
    add_principal(&changes, "team", "locker", "team", "", RIGHT_LOCK);
    assert_int_equal(who_may_change(), ADMINS);
    change_serial(&changes, true, "1f");
    assert_int_equal(who_may_change(), ADMINS);
    remove_principal(&changes, "team", "nobody");
    assert_int_equal(who_may_change(), ADMINS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_prefix_covers_names_below_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lock_implies_read_and_nothing_else_implies_anything, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_reach_of_a_grant_is_a_name_a_tenant_or_the_cluster,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(principal_0_may_do_everything_and_a_removed_one_nothing,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_command_needs_its_right, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_denial_names_the_right_and_the_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_renewal_without_a_name_is_decided_by_its_grant, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_note_of_denied_calls_needs_no_right, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_command_reaches_a_tenant_that_does_not_exist, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_transaction_needs_the_rights_of_its_parts, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_administrator_of_a_tenant_changes_its_tokens_only,
                                        set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
