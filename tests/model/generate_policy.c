/* Changes of the policy, and who sends a command (S14). Most principals may lock, so that commands have a
 * chance; now and then one is narrowed or removed while it holds and waits. */
#include "generator.h"

static struct slice any_tenant_name(struct generator *g)
{
    static const char *const names[] = {"default", "default", "default", "t1",
                                        "t1",      "t2",      "t3",      "t4"};
    return slice_of(names[random_below(&g->random, 8)]);
}

static struct slice any_principal_name(struct generator *g)
{
    return arena_text(g, "p%u", random_below(&g->random, 3));
}

static struct policy_grant any_policy_grant(struct generator *g)
{
    static const char *const prefixes[] = {"a", "a/", "b", "job", "job/", "name/", "client-1"};
    struct random *r = &g->random;
    struct policy_grant grant = {.rights = RIGHT_LOCK | random_below(r, RIGHTS_ALL + 1)};
    grant.tenant = random_chance(r, 40) ? slice_of("*") : any_tenant_name(g);
    grant.prefix = slice_of(random_chance(r, 65) ? "" : prefixes[random_below(r, 7)]);
    if (random_chance(r, 15)) {
        grant.rights = random_between(r, 1, RIGHTS_ALL);
    }
    if (random_chance(r, 60)) {
        grant.rights &= ~(uint32_t)RIGHT_ADMIN;
        grant.rights |= grant.rights == 0;
    }
    return grant;
}

static void any_change(struct generator *g, struct policy_change *change)
{
    struct random *r = &g->random;
    const struct model_policy *p = model_policy_of(g->model);
    uint8_t *hash = arena_take(g, TOKEN_SHA_BYTES);
    struct packer grants = packer_make(arena_take(g, 1024), 1024);
    memset(hash, 0, TOKEN_SHA_BYTES);
    hash[random_below(r, 2)] = (uint8_t)random_below(r, 12);
    uint32_t percent = random_below(r, 100);
    change->tenant = any_tenant_name(g);
    change->name = any_principal_name(g);
    if (percent < 12) {
        change->kind = POLICY_TENANT_PUT;
        change->quotas.locks = random_below(r, 3);
    } else if (percent < 18) {
        change->kind = POLICY_TENANT_REMOVE;
    } else if (percent < 60) {
        change->kind = POLICY_PRINCIPAL_PUT;
        change->description =
            random_chance(r, 50) ? slice_of("one of the generator") : slice_make(NULL, 0);
        for (uint32_t i = random_below(r, 4); i > 0; i--) {
            struct policy_grant grant = any_policy_grant(g);
            hf_assert(pack_policy_grant(&grants, &grant));
        }
        change->grants = packer_list(&grants);
    } else if (percent < 75) {
        change->kind = POLICY_PRINCIPAL_REMOVE;
    } else if (percent < 88) {
        change->kind = POLICY_TOKEN_ADD;
        change->sha256 = slice_make(hash, TOKEN_SHA_BYTES);
        change->expires_wall_ms = random_below(r, 2);
        change->description = slice_of("ci");
    } else if (percent < 94) {
        change->kind = POLICY_TOKEN_REMOVE;
        change->token = p->last_token + 1 - random_below(r, 6);
        change->token = change->token == 0 || change->token >= LIMIT_NUMBER ? 1 : change->token;
    } else {
        change->kind = random_chance(r, 60) ? POLICY_SERIAL_BAR : POLICY_SERIAL_ALLOW;
        change->serial = arena_text(g, "%x", random_between(r, 1, 6));
    }
}

static void add_administrator(struct generator *g, struct packer *changes)
{
    struct packer grants = packer_make(arena_take(g, 64), 64);
    struct policy_grant grant = {slice_of("*"), slice_of(""), RIGHTS_ALL};
    hf_assert(pack_policy_grant(&grants, &grant));
    struct policy_change change = {.kind = POLICY_PRINCIPAL_PUT,
                                   .tenant = slice_of("default"),
                                   .name = arena_text(g, "root%u", random_below(&g->random, 2)),
                                   .grants = packer_list(&grants)};
    hf_assert(pack_policy_change(changes, &change));
}

void generate_policy_change(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    const struct model_policy *p = model_policy_of(g->model);
    struct packer changes = packer_make(arena_take(g, 8192), 8192);
    struct command_policy_change *change = &c->policy_change;
    change->expect = random_chance(r, 80) ? UINT64_MAX : p->version + random_below(r, 2);
    change->actor = arena_text(g, "admin-%u", random_below(r, 2));
    change->reason = arena_text(g, "change %u", random_below(r, 3));
    change->origin = random_chance(r, 92) ? POLICY_BY_PRINCIPAL : random_below(r, POLICY_ORIGINS);
    change->end_sessions = random_chance(r, 35);
    if (change->origin != POLICY_BY_PRINCIPAL || p->last_principal == 0 || random_chance(r, 10)) {
        add_administrator(g, &changes);
    }
    uint32_t count = random_chance(r, 70) ? 1 : random_between(r, 2, 6);
    for (uint32_t i = 0; i < count; i++) {
        struct policy_change one = {.kind = POLICY_CHANGE_NONE};
        any_change(g, &one);
        hf_assert(pack_policy_change(&changes, &one));
    }
    change->changes = packer_list(&changes);
}

static uint32_t any_principal(struct generator *g)
{
    const struct model_policy *p = model_policy_of(g->model);
    if (p->principals.count == 0 || random_chance(&g->random, 5)) {
        return random_below(&g->random, p->last_principal + 2);
    }
    uint32_t i = random_below(&g->random, (uint32_t)p->principals.count);
    return ((const struct model_principal *)p->principals.at[i])->number;
}

void give_principal(struct generator *g, struct command *c)
{
    struct random *r = &g->random;
    struct session_view session;
    bool of_node = c->type == COMMAND_LEAD || c->type == COMMAND_TICK ||
                   c->type == COMMAND_ADVANCE || c->type == COMMAND_UPGRADE ||
                   c->type == COMMAND_NODE_GONE || c->type == COMMAND_POLICY_CHANGE;
    uint32_t owner = g->owner;
    c->principal = 0;
    if (!id_is_zero(c->session) && model_view_session(g->model, c->session, &session)) {
        owner = session.principal;
    }
    if (!random_chance(r, of_node ? 10 : g->profile->principals)) {
        return;
    }
    c->principal = owner != 0 && random_chance(r, 85) ? owner : any_principal(g);
}

void invalid_policy_change(struct generator *g, struct command *c)
{
    static const struct packed none = {0, {NULL, 0}};
    switch (random_below(&g->random, 4)) {
    case 0:
        c->policy_change.actor = slice_make(NULL, 0);
        break;
    case 1:
        c->policy_change.reason = slice_of("\n");
        break;
    case 2:
        c->policy_change.origin = POLICY_ORIGINS;
        break;
    default:
        c->policy_change.changes = none;
        break;
    }
}
