/* The rows of the policy and the changes of them: their form, their rules, all or nothing, their
 * numbers and their records in a snapshot. */
#include "base_testing.h"

#include "core/policy_state.h"
#include "core_harness.h"
#include "policy_changes.h"

static struct counted memory;

struct world {
    struct policy *policy;
    struct policy_changes changes;
    uint32_t tenant_in_use; /* 0: none */
    struct policy_outcome out;
};

static bool is_in_use(void *ctx, uint32_t tenant)
{
    const struct world *w = ctx;
    return w->tenant_in_use != 0 && w->tenant_in_use == tenant;
}

static void world_open(struct world *w)
{
    counted_init(&memory);
    w->policy = policy_new(&memory.memory);
    w->tenant_in_use = 0;
    changes_begin(&w->changes);
}

static void world_close(struct world *w)
{
    assert_null(policy_check_invariants(w->policy));
    policy_free(w->policy);
    assert_all_given_back(&memory);
}

/* Applies the changes that were added, and begins new ones. */
static enum hf_error change_as(struct world *w, enum policy_origin origin, uint64_t expect)
{
    struct command c = changes_command(&w->changes);
    c.policy_change.origin = origin;
    c.policy_change.expect = expect;
    struct policy_situation now = {.wall_ms = 1234, .in_use = is_in_use, .ctx = w};
    assert_int_equal(command_check(&c), HF_OK);
    policy_apply(w->policy, &c.policy_change, &now, &w->out);
    assert_null(policy_check_invariants(w->policy));
    changes_begin(&w->changes);
    return w->out.error;
}

static enum hf_error change(struct world *w)
{
    return change_as(w, POLICY_BY_PRINCIPAL, UINT64_MAX);
}

static void put_record(void *ctx, enum policy_record_kind kind, const void *row)
{
    struct bytes *out = ((void **)ctx)[0];
    const struct policy *p = ((void **)ctx)[1];
    uint8_t bytes[POLICY_RECORD_MAX];
    struct writer w = writer_make(bytes + 4, sizeof(bytes) - 4);
    policy_record_write(&w, p, kind, row);
    assert_false(w.full);
    uint32_t len = (uint32_t)(w.at - bytes - 4);
    memcpy(bytes, &len, 4);
    bytes_add(out, bytes, len + 4);
}

/* All records, each after its length. */
static struct bytes records_of(struct policy *p)
{
    struct bytes out = {NULL, 0, 0};
    void *ctx[] = {&out, p};
    policy_each_record(p, put_record, ctx);
    return out;
}

static void assert_survives_a_snapshot(struct policy *p)
{
    struct bytes records = records_of(p);
    struct policy *copy = policy_new(&memory.memory);
    for (size_t at = 0; at < records.len;) {
        uint32_t len;
        memcpy(&len, records.data + at, 4);
        struct reader r = reader_make(slice_make(records.data + at + 4, len));
        const char *wrong = policy_record_read(copy, at == 0, &r);
        if (wrong != NULL) {
            fail_msg("%s", wrong);
        }
        at += len + 4;
    }
    assert_null(policy_check_invariants(copy));
    struct bytes again = records_of(copy);
    assert_true(bytes_equal(&records, &again));
    bytes_free(&records);
    bytes_free(&again);
    policy_free(copy);
}

static const struct policy_grant all_rights[] = {
    {{(const uint8_t *)"*", 1}, {NULL, 0}, RIGHTS_ALL}};

static void add_admin(struct world *w, const char *name)
{
    add_principal_with(&w->changes, "default", name, all_rights, 1);
}

/* ---- the form ---- */

static void a_new_policy_has_the_default_tenant_only(void **state)
{
    (void)state;
    struct world w;
    struct tenant_view tenant;
    world_open(&w);
    assert_int_equal(policy_tenants(w.policy), 1);
    assert_true(policy_find_tenant(w.policy, slice_of("default"), &tenant));
    assert_int_equal(tenant.number, 0);
    assert_int_equal(policy_principals(w.policy) + policy_tokens(w.policy), 0);
    assert_int_equal(policy_version(w.policy), 0);
    assert_survives_a_snapshot(w.policy);
    world_close(&w);
}

static void each_broken_rule_of_a_change_is_refused(void **state)
{
    (void)state;
    const uint8_t hash[TOKEN_SHA_BYTES] = {1};
    char long_name[LIMIT_POLICY_NAME + 2];
    char long_text[LIMIT_POLICY_TEXT + 2];
    memset(long_name, 'n', sizeof(long_name));
    memset(long_text, 't', sizeof(long_text));
    long_name[LIMIT_POLICY_NAME + 1] = '\0';
    long_text[LIMIT_POLICY_TEXT + 1] = '\0';
    struct slice t = slice_of("t");
    struct slice n = slice_of("n");
    struct slice sha = slice_make(hash, sizeof(hash));
    const struct policy_change rows[] = {
        {.kind = POLICY_TENANT_PUT, .tenant = slice_of("")},
        {.kind = POLICY_TENANT_PUT, .tenant = slice_of("a/b")},
        {.kind = POLICY_TENANT_PUT, .tenant = slice_of("*")},
        {.kind = POLICY_TENANT_PUT, .tenant = slice_of("-a")},
        {.kind = POLICY_TENANT_PUT, .tenant = slice_of("ä")},
        {.kind = POLICY_TENANT_PUT, .tenant = slice_of(long_name)},
        {.kind = POLICY_TENANT_PUT, .tenant = t, .quotas = {.waiters = LIMIT_NUMBER}},
        {.kind = POLICY_TENANT_REMOVE, .tenant = slice_of("")},
        {.kind = POLICY_PRINCIPAL_PUT, .tenant = t, .name = slice_of("a b")},
        {.kind = POLICY_PRINCIPAL_PUT, .tenant = slice_of(""), .name = n},
        {.kind = POLICY_PRINCIPAL_PUT, .tenant = t, .name = n, .description = slice_of("a\nb")},
        {.kind = POLICY_PRINCIPAL_PUT, .tenant = t, .name = n, .description = slice_of(long_text)},
        {.kind = POLICY_PRINCIPAL_REMOVE, .tenant = t, .name = slice_of("")},
        {.kind = POLICY_TOKEN_ADD, .tenant = t, .name = n, .sha256 = slice_of("short")},
        {.kind = POLICY_TOKEN_ADD, .tenant = t, .name = slice_of(""), .sha256 = sha},
        {.kind = POLICY_TOKEN_ADD,
         .tenant = t,
         .name = n,
         .sha256 = sha,
         .expires_wall_ms = LIMIT_NUMBER},
        {.kind = POLICY_TOKEN_ADD,
         .tenant = t,
         .name = n,
         .sha256 = sha,
         .description = slice_of("\x7f")},
        {.kind = POLICY_TOKEN_REMOVE, .token = 0},
        {.kind = POLICY_TOKEN_REMOVE, .token = LIMIT_NUMBER},
        {.kind = POLICY_SERIAL_BAR, .serial = slice_of("")},
        {.kind = POLICY_SERIAL_BAR, .serial = slice_of("0a")},
        {.kind = POLICY_SERIAL_BAR, .serial = slice_of("AB")},
        {.kind = POLICY_SERIAL_ALLOW, .serial = slice_of("12g")},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct policy_changes changes;
        changes_begin(&changes);
        changes_add(&changes, &rows[i]);
        struct command c = changes_command(&changes);
        if (command_check(&c) != HF_INVALID_POLICY) {
            fail_msg("row %zu: %s", i, hf_error_code(command_check(&c)));
        }
    }
}

static void each_broken_grant_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *tenant;
        const char *prefix;
        uint32_t rights;
        enum hf_error error;
    } rows[] = {
        {"t", "", RIGHT_LOCK, HF_OK},
        {"*", "a/", RIGHTS_ALL, HF_OK},
        {"t", "a/b", RIGHT_READ, HF_OK},
        {"t", "a//", RIGHT_LOCK, HF_INVALID_POLICY},
        {"t", "/", RIGHT_LOCK, HF_INVALID_POLICY},
        {"t", "/a", RIGHT_LOCK, HF_INVALID_POLICY},
        {"t", "a\n", RIGHT_LOCK, HF_INVALID_POLICY},
        {"", "a", RIGHT_LOCK, HF_INVALID_POLICY},
        {"t*", "a", RIGHT_LOCK, HF_INVALID_POLICY},
        {"t", "a", RIGHTS_ALL + 1, HF_INVALID_POLICY},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct policy_changes changes;
        changes_begin(&changes);
        add_principal(&changes, "t", "n", rows[i].tenant, rows[i].prefix, rows[i].rights);
        struct command c = changes_command(&changes);
        if (command_check(&c) != rows[i].error) {
            fail_msg("row %zu: %s", i, hf_error_code(command_check(&c)));
        }
    }
    struct policy_changes changes;
    struct policy_grant none = {slice_of("t"), slice_of("a"), 0};
    changes_begin(&changes);
    add_principal_with(&changes, "t", "n", &none, 1);
    struct command c = changes_command(&changes);
    assert_int_equal(command_check(&c), HF_INVALID_POLICY);
    struct policy_grant many[LIMIT_PRINCIPAL_GRANTS + 1];
    for (size_t i = 0; i <= LIMIT_PRINCIPAL_GRANTS; i++) {
        many[i] = all_rights[0];
    }
    changes_begin(&changes);
    add_principal_with(&changes, "t", "n", many, LIMIT_PRINCIPAL_GRANTS);
    c = changes_command(&changes);
    assert_int_equal(command_check(&c), HF_OK);
    changes_begin(&changes);
    add_principal_with(&changes, "t", "n", many, LIMIT_PRINCIPAL_GRANTS + 1);
    c = changes_command(&changes);
    assert_int_equal(command_check(&c), HF_POLICY_FULL);
}

static void a_command_says_who_why_and_what(void **state)
{
    (void)state;
    struct policy_changes changes;
    changes_begin(&changes);
    struct command c = changes_command(&changes);
    assert_int_equal(command_check(&c), HF_INVALID_POLICY); /* no change */
    add_tenant(&changes, "t");
    c = changes_command(&changes);
    assert_int_equal(command_check(&c), HF_OK);
    c.policy_change.end_sessions = 1;
    assert_int_equal(command_check(&c), HF_OK);
    c.policy_change.end_sessions = 2;
    assert_int_equal(command_check(&c), HF_INVALID_POLICY);
    c.policy_change.end_sessions = 0;
    c.policy_change.origin = POLICY_ORIGINS;
    assert_int_equal(command_check(&c), HF_INVALID_POLICY);
    c.policy_change.origin = POLICY_RESCUE;
    c.policy_change.actor = slice_of("");
    assert_int_equal(command_check(&c), HF_INVALID_ACTOR);
    c.policy_change.actor = slice_of("op");
    c.policy_change.reason = slice_of("");
    assert_int_equal(command_check(&c), HF_INVALID_ACTOR);
}

/* ---- changes ---- */

static void changes_of_one_command_build_on_each_other(void **state)
{
    (void)state;
    struct world w;
    struct principal_view principal;
    struct token_view token;
    struct policy_grant_view grant;
    uint8_t hash[TOKEN_SHA_BYTES];
    world_open(&w);
    add_tenant(&w.changes, "pay");
    add_principal(&w.changes, "pay", "worker", "pay", "jobs/", RIGHT_LOCK);
    add_token(&w.changes, "pay", "worker", 7);
    assert_int_equal(change(&w), HF_OK);
    assert_int_equal(w.out.changes, 3);
    assert_int_equal(w.out.first_token, 1);
    assert_int_equal(policy_version(w.policy), 1);
    assert_true(policy_find_principal(w.policy, 1, slice_of("worker"), &principal));
    assert_int_equal(principal.number, 1);
    assert_int_equal(principal.tenant, 1);
    assert_int_equal(principal.grants, 1);
    assert_int_equal(principal.tokens, 1);
    assert_true(policy_grant_at(w.policy, 1, 0, &grant));
    assert_int_equal(grant.tenant, 1);
    assert_true(slice_equal(grant.prefix, slice_of("jobs/")));
    assert_false(policy_grant_at(w.policy, 1, 1, &grant));
    assert_true(policy_token(w.policy, 1, &token));
    assert_int_equal(token.principal, 1);
    assert_int_equal(token.created_wall_ms, 1234);
    memcpy(hash, policy_token_row(w.policy, 1)->sha256, sizeof(hash));
    assert_true(policy_find_token(w.policy, hash, &token));
    hash[31] ^= 1;
    assert_false(policy_find_token(w.policy, hash, &token));
    uint8_t text[PRINCIPAL_TEXT];
    assert_true(slice_equal(policy_principal_text(w.policy, 1, text), slice_of("pay/worker")));
    assert_int_equal(policy_principal_text(w.policy, 2, text).len, 0);
    assert_survives_a_snapshot(w.policy);
    world_close(&w);
}

static void a_put_replaces_grants_and_keeps_tokens(void **state)
{
    (void)state;
    struct world w;
    struct principal_view principal;
    world_open(&w);
    add_principal(&w.changes, "default", "p", "default", "a/", RIGHT_LOCK);
    add_token(&w.changes, "default", "p", 1);
    assert_int_equal(change(&w), HF_OK);
    assert_true(policy_allows(w.policy, 1, 0, RIGHT_LOCK, slice_of("a/b")));
    add_principal(&w.changes, "default", "p", "default", "b/", RIGHT_LOCK);
    assert_int_equal(change(&w), HF_OK);
    assert_true(policy_principal(w.policy, 1, &principal));
    assert_int_equal(principal.tokens, 1);
    assert_false(policy_allows(w.policy, 1, 0, RIGHT_LOCK, slice_of("a/b")));
    assert_true(policy_allows(w.policy, 1, 0, RIGHT_LOCK, slice_of("b/b")));
    world_close(&w);
}

/* The fields of the error: what the policy has not, has already, or may not lose. */
static void each_change_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add_tenant(&w.changes, "t");
    add_tenant(&w.changes, "used");
    add_admin(&w, "root");
    add_principal(&w.changes, "t", "p", "t", "", RIGHT_LOCK);
    add_token(&w.changes, "t", "p", 1);
    change_serial(&w.changes, true, "1f");
    assert_int_equal(change(&w), HF_OK);
    w.tenant_in_use = 2;
    struct bytes before = records_of(w.policy);
    for (unsigned row = 0;; row++) {
        enum hf_error expected = HF_POLICY_NOT_FOUND;
        add_tenant(&w.changes, "made-before-it-fails"); /* and undone */
        add_token(&w.changes, "t", "p", 99);
        add_principal(&w.changes, "t", "p", "t", "elsewhere", RIGHT_READ);
        change_serial(&w.changes, false, "1f");
        remove_token(&w.changes, 1);
        if (row == 0) {
            remove_tenant(&w.changes, "unknown");
        } else if (row == 1) {
            remove_tenant(&w.changes, "default");
            expected = HF_INVALID_POLICY;
        } else if (row == 2) {
            remove_tenant(&w.changes, "t"); /* has a principal */
            expected = HF_POLICY_EXISTS;
        } else if (row == 3) {
            remove_tenant(&w.changes, "used"); /* has locks */
            expected = HF_POLICY_EXISTS;
        } else if (row == 4) {
            add_principal(&w.changes, "unknown", "p", "t", "", RIGHT_LOCK);
        } else if (row == 5) {
            add_principal(&w.changes, "t", "q", "unknown", "", RIGHT_LOCK);
        } else if (row == 6) {
            remove_principal(&w.changes, "t", "unknown");
        } else if (row == 7) {
            add_token(&w.changes, "t", "unknown", 2);
        } else if (row == 8) {
            add_token(&w.changes, "t", "p", 99); /* the same hash */
            expected = HF_POLICY_EXISTS;
        } else if (row == 9) {
            remove_token(&w.changes, 1); /* again */
        } else if (row == 10) {
            change_serial(&w.changes, true, "2f");
            change_serial(&w.changes, true, "2f");
            expected = HF_POLICY_EXISTS;
        } else if (row == 11) {
            change_serial(&w.changes, false, "3f");
        } else if (row == 12) {
            remove_principal(&w.changes, "default", "root"); /* the last administrator */
            expected = HF_INVALID_POLICY;
        } else if (row == 13) {
            remove_principal(&w.changes, "t", "p"); /* with its tokens */
            remove_tenant(&w.changes, "t");
            remove_tenant(&w.changes, "t");
        } else {
            break;
        }
        if (change(&w) != expected) {
            fail_msg("row %u: %s", row, hf_error_code(w.out.error));
        }
        struct bytes after = records_of(w.policy);
        if (!bytes_equal(&before, &after)) {
            fail_msg("row %u changed the policy", row);
        }
        bytes_free(&after);
        changes_begin(&w.changes);
    }
    changes_begin(&w.changes);
    remove_token(&w.changes, 1);
    assert_int_equal(change_as(&w, POLICY_BY_PRINCIPAL, 7), HF_POLICY_CONFLICT);
    remove_token(&w.changes, 1);
    assert_int_equal(change_as(&w, POLICY_BY_PRINCIPAL, 1), HF_OK);
    bytes_free(&before);
    world_close(&w);
}

static void numbers_are_never_used_again(void **state)
{
    (void)state;
    struct world w;
    struct tenant_view tenant;
    struct principal_view principal;
    world_open(&w);
    for (uint32_t i = 1; i <= 3; i++) {
        add_tenant(&w.changes, "t");
        add_principal(&w.changes, "t", "p", "t", "", RIGHT_LOCK);
        add_token(&w.changes, "t", "p", 5);
        assert_int_equal(change(&w), HF_OK);
        assert_int_equal(w.out.first_token, i);
        assert_true(policy_find_tenant(w.policy, slice_of("t"), &tenant));
        assert_int_equal(tenant.number, i);
        assert_true(policy_find_principal(w.policy, i, slice_of("p"), &principal));
        assert_int_equal(principal.number, i);
        remove_principal(&w.changes, "t", "p");
        remove_tenant(&w.changes, "t");
        assert_int_equal(change(&w), HF_OK);
        assert_int_equal(policy_tokens(w.policy), 0);
        assert_survives_a_snapshot(w.policy);
    }
    world_close(&w);
}

static void the_first_administrator_is_made_once(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add_principal(&w.changes, "default", "p", "default", "", RIGHTS_ALL);
    assert_int_equal(change_as(&w, POLICY_BOOTSTRAP, UINT64_MAX), HF_INVALID_POLICY);
    add_admin(&w, "root");
    assert_int_equal(change_as(&w, POLICY_BOOTSTRAP, UINT64_MAX), HF_OK);
    add_admin(&w, "other");
    assert_int_equal(change_as(&w, POLICY_BOOTSTRAP, UINT64_MAX), HF_POLICY_EXISTS);
    world_close(&w);
}

static void a_rescue_replaces_all_administrators(void **state)
{
    (void)state;
    struct world w;
    struct principal_view principal;
    world_open(&w);
    add_admin(&w, "one");
    add_admin(&w, "two");
    add_token(&w.changes, "default", "one", 1);
    add_principal(&w.changes, "default", "worker", "default", "", RIGHT_LOCK);
    add_token(&w.changes, "default", "worker", 2);
    assert_int_equal(change(&w), HF_OK);
    add_tenant(&w.changes, "t"); /* no new administrator: nothing is done */
    assert_int_equal(change_as(&w, POLICY_RESCUE, UINT64_MAX), HF_INVALID_POLICY);
    assert_int_equal(policy_principals(w.policy), 3);
    add_admin(&w, "one"); /* the name of an earlier one */
    add_token(&w.changes, "default", "one", 3);
    assert_int_equal(change_as(&w, POLICY_RESCUE, UINT64_MAX), HF_OK);
    assert_int_equal(w.out.changes, 4); /* two removed */
    assert_int_equal(policy_principals(w.policy), 2);
    assert_true(policy_find_principal(w.policy, 0, slice_of("one"), &principal));
    assert_int_equal(principal.number, 4);
    assert_false(policy_principal(w.policy, 1, NULL));
    assert_false(policy_principal(w.policy, 2, NULL));
    assert_false(policy_token(w.policy, 1, NULL));
    assert_true(policy_token(w.policy, 2, NULL));
    world_close(&w);
}

static void the_last_administrator_stays(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add_principal(&w.changes, "default", "p", "default", "", RIGHT_LOCK);
    assert_int_equal(change(&w), HF_OK); /* a policy without any may go on without */
    add_admin(&w, "one");
    assert_int_equal(change(&w), HF_OK);
    add_principal(&w.changes, "default", "one", "default", "", RIGHTS_ALL); /* narrowed */
    assert_int_equal(change(&w), HF_INVALID_POLICY);
    remove_principal(&w.changes, "default", "one");
    assert_int_equal(change(&w), HF_INVALID_POLICY);
    remove_principal(&w.changes, "default", "one");
    add_admin(&w, "two"); /* in the same command */
    assert_int_equal(change(&w), HF_OK);
    world_close(&w);
}

/* ---- limits ---- */

static void the_policy_has_limits(void **state)
{
    (void)state;
    struct world w;
    char name[32];
    world_open(&w);
    for (unsigned i = 0; i <= LIMIT_CLUSTER_ADMINS; i++) {
        (void)snprintf(name, sizeof(name), "admin%u", i);
        add_admin(&w, name);
        assert_int_equal(change(&w), i < LIMIT_CLUSTER_ADMINS ? HF_OK : HF_POLICY_FULL);
    }
    for (unsigned i = 1; i <= LIMIT_TENANTS; i++) {
        (void)snprintf(name, sizeof(name), "t%u", i);
        add_tenant(&w.changes, name);
        assert_int_equal(change(&w), i < LIMIT_TENANTS ? HF_OK : HF_POLICY_FULL);
    }
    for (unsigned i = 0; i <= LIMIT_BARRED_SERIALS; i++) {
        (void)snprintf(name, sizeof(name), "%x", i + 1);
        change_serial(&w.changes, true, name);
        assert_int_equal(change(&w), i < LIMIT_BARRED_SERIALS ? HF_OK : HF_POLICY_FULL);
    }
    for (unsigned i = 0; i <= LIMIT_PRINCIPAL_TOKENS; i++) {
        add_token(&w.changes, "default", "admin1", i);
        assert_int_equal(change(&w), i < LIMIT_PRINCIPAL_TOKENS ? HF_OK : HF_POLICY_FULL);
    }
    for (unsigned i = LIMIT_CLUSTER_ADMINS; i <= LIMIT_PRINCIPALS; i++) {
        (void)snprintf(name, sizeof(name), "p%u", i);
        add_principal(&w.changes, "t9", name, "t8", "jobs/", RIGHT_LOCK);
        add_token(&w.changes, "t9", name, 100000 + i);
        add_token(&w.changes, "t9", name, 200000 + i);
        add_token(&w.changes, "t9", name, 300000 + i);
        bool fits = i < LIMIT_PRINCIPALS;
        if (policy_tokens(w.policy) + 3 > LIMIT_TOKENS) {
            assert_int_equal(change(&w), HF_POLICY_FULL);
            add_principal(&w.changes, "t9", name, "t8", "jobs/", RIGHT_LOCK);
        }
        assert_int_equal(change(&w), fits ? HF_OK : HF_POLICY_FULL);
    }
    assert_int_equal(policy_principals(w.policy), LIMIT_PRINCIPALS);
    assert_true(policy_tokens(w.policy) > LIMIT_TOKENS - 3);
    assert_survives_a_snapshot(w.policy);
    world_close(&w);
}

static void the_grants_of_all_principals_have_a_limit(void **state)
{
    (void)state;
    struct world w;
    char prefix[LIMIT_NAME + 1];
    char name[32];
    struct policy_grant grants[LIMIT_PRINCIPAL_GRANTS];
    world_open(&w);
    memset(prefix, 'x', LIMIT_NAME);
    prefix[LIMIT_NAME] = '\0';
    for (size_t i = 0; i < LIMIT_PRINCIPAL_GRANTS; i++) {
        grants[i] = (struct policy_grant){slice_of("default"), slice_of(prefix), RIGHT_LOCK};
    }
    enum hf_error error = HF_OK;
    unsigned count = 0;
    for (; error == HF_OK && count < LIMIT_PRINCIPALS; count++) {
        (void)snprintf(name, sizeof(name), "p%u", count);
        add_principal_with(&w.changes, "default", name, grants, LIMIT_PRINCIPAL_GRANTS);
        error = change(&w);
    }
    assert_int_equal(error, HF_POLICY_FULL);
    assert_int_equal(policy_principals(w.policy),
                     LIMIT_POLICY_TERMS / (LIMIT_PRINCIPAL_GRANTS * (LIMIT_NAME + 32)));
    assert_true(memory.bytes < 2 * LIMIT_POLICY_TERMS);
    world_close(&w);
}

/* Many changes of every kind, most of which fit, a part of the commands fails. */
static void random_changes_keep_the_policy_whole(void **state)
{
    (void)state;
    struct world w;
    struct random random;
    uint32_t done = 0;
    uint32_t refused = 0;
    random_init(&random, __func__);
    world_open(&w);
    for (unsigned i = 0; i < 4000; i++) {
        uint64_t count = 1 + random_next(&random) % 6;
        for (uint64_t k = 0; k < count; k++) {
            char tenant[32];
            char name[32];
            char serial[32];
            (void)snprintf(tenant, sizeof(tenant), "t%u", (unsigned)(random_next(&random) % 4));
            (void)snprintf(name, sizeof(name), "p%u", (unsigned)(random_next(&random) % 5));
            (void)snprintf(serial, sizeof(serial), "%x", (unsigned)(1 + random_next(&random) % 5));
            switch (random_next(&random) % 10) {
            case 0:
            case 1:
                add_tenant(&w.changes, tenant);
                break;
            case 2:
                remove_tenant(&w.changes, tenant);
                break;
            case 3:
            case 4:
                add_principal(&w.changes, tenant, name, "*", "a/", RIGHT_LOCK);
                break;
            case 5:
                add_principal(&w.changes, tenant, name, tenant, "", RIGHTS_ALL);
                break;
            case 6:
                remove_principal(&w.changes, tenant, name);
                break;
            case 7:
                add_token(&w.changes, tenant, name, random_next(&random) % 50);
                break;
            case 8:
                remove_token(&w.changes, 1 + random_next(&random) % (w.policy->last_token + 1));
                break;
            default:
                change_serial(&w.changes, random_next(&random) % 2 == 0, serial);
                break;
            }
        }
        struct bytes before = records_of(w.policy);
        enum hf_error error = change(&w);
        struct bytes after = records_of(w.policy);
        assert_true(bytes_equal(&before, &after) == (error != HF_OK));
        done += error == HF_OK;
        refused += error != HF_OK;
        bytes_free(&before);
        bytes_free(&after);
        if (i % 16 == 0) {
            assert_survives_a_snapshot(w.policy);
        }
    }
    assert_true(done > 300 && refused > 300);
    world_close(&w);
}

/* ---- untrusted records ---- */

static void each_untrue_record_is_refused(void **state)
{
    (void)state;
    struct world w;
    world_open(&w);
    add_tenant(&w.changes, "t");
    add_principal(&w.changes, "t", "p", "t", "a/", RIGHT_LOCK);
    add_token(&w.changes, "t", "p", 1);
    change_serial(&w.changes, true, "1f");
    assert_int_equal(change(&w), HF_OK);
    struct bytes records = records_of(w.policy);
    uint32_t refused = 0;
    for (size_t bit = 0; bit < records.len * 8; bit++) {
        struct policy *copy = policy_new(&memory.memory);
        uint8_t *bytes = malloc(records.len);
        memcpy(bytes, records.data, records.len);
        const char *wrong = NULL;
        for (size_t at = 0; at < records.len && wrong == NULL;) {
            uint32_t len;
            memcpy(&len, records.data + at, 4); /* the lengths are not damaged */
            if (bit / 8 >= at + 4 && bit / 8 < at + 4 + len) {
                bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            }
            struct reader r = reader_make(slice_make(bytes + at + 4, len));
            wrong = policy_record_read(copy, at == 0, &r);
            at += len + 4;
        }
        if (wrong == NULL && policy_check_invariants(copy) != NULL) {
            fail_msg("bit %zu: %s", bit, policy_check_invariants(copy));
        }
        refused += wrong != NULL;
        policy_free(copy);
        free(bytes);
    }
    assert_true(refused > 100);
    bytes_free(&records);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_policy_has_the_default_tenant_only),
        cmocka_unit_test(each_broken_rule_of_a_change_is_refused),
        cmocka_unit_test(each_broken_grant_is_refused),
        cmocka_unit_test(a_command_says_who_why_and_what),
        cmocka_unit_test(changes_of_one_command_build_on_each_other),
        cmocka_unit_test(a_put_replaces_grants_and_keeps_tokens),
        cmocka_unit_test(each_change_that_does_not_fit_is_refused),
        cmocka_unit_test(numbers_are_never_used_again),
        cmocka_unit_test(the_first_administrator_is_made_once),
        cmocka_unit_test(a_rescue_replaces_all_administrators),
        cmocka_unit_test(the_last_administrator_stays),
        cmocka_unit_test(the_policy_has_limits),
        cmocka_unit_test(the_grants_of_all_principals_have_a_limit),
        cmocka_unit_test(random_changes_keep_the_policy_whole),
        cmocka_unit_test(each_untrue_record_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
