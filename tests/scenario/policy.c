/* Changes of the policy (S14) from words: `olga changes the policy, add tenant "pay" because "..."`. */
#include <string.h>

#include "core/policy.h"
#include "words.h"

/* "TENANT/NAME", or a name of the tenant `default`. */
static void take_principal(struct words *w, struct policy_change *change)
{
    struct slice text = slice_of(words_quoted(w, "a principal in quotes"));
    const uint8_t *slash = text.len == 0 ? NULL : memchr(text.data, '/', text.len);
    size_t home = slash == NULL ? 0 : (size_t)(slash - text.data);
    change->tenant = slash == NULL ? slice_of("default") : slice_make(text.data, home);
    change->name = slash == NULL ? text : slice_make(text.data + home + 1, text.len - home - 1);
}

static uint32_t take_rights(struct words *w)
{
    static const enum right rights[] = {RIGHT_LOCK, RIGHT_READ, RIGHT_OPERATE, RIGHT_ADMIN};
    uint32_t taken = words_take(w, "everything") ? RIGHTS_ALL : 0;
    bool more = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
            if (words_take(w, right_name(rights[i]))) {
                taken |= rights[i];
                more = true;
            }
        }
    }
    return taken;
}

/* `with lock read on "a/" of "pay"`: without `on` every name, without `of` every tenant. */
static struct packed take_grants(struct words *w)
{
    enum { GRANT_BYTES = 4096 };
    struct packer grants = packer_make(arena_alloc(&w->runner->step, GRANT_BYTES), GRANT_BYTES);
    while (words_take(w, "with")) {
        struct policy_grant grant = {.tenant = slice_of("*"), .rights = take_rights(w)};
        if (words_take(w, "on")) {
            grant.prefix = slice_of(words_quoted(w, "a prefix in quotes"));
        }
        if (words_take(w, "of")) {
            grant.tenant = slice_of(words_quoted(w, "a tenant in quotes"));
        }
        if (!pack_policy_grant(&grants, &grant)) {
            runner_fail(w->runner, "there is no space for so many grants");
        }
    }
    return packer_list(&grants);
}

static void take_token(struct words *w, struct policy_change *change)
{
    uint8_t *hash = arena_alloc(&w->runner->step, TOKEN_SHA_BYTES);
    struct slice secret = slice_of(words_quoted(w, "a secret in quotes"));
    memset(hash, 0, TOKEN_SHA_BYTES); /* the core does not know what it is the hash of */
    memcpy(hash, secret.data, secret.len < TOKEN_SHA_BYTES ? secret.len : TOKEN_SHA_BYTES);
    change->sha256 = slice_make(hash, TOKEN_SHA_BYTES);
    words_need(w, "of");
    take_principal(w, change);
}

static bool take_change(struct words *w, struct policy_change *change)
{
    *change = (struct policy_change){.kind = POLICY_CHANGE_NONE};
    if (words_take(w, "add tenant")) {
        change->kind = POLICY_TENANT_PUT;
        change->tenant = slice_of(words_quoted(w, "a tenant in quotes"));
    } else if (words_take(w, "remove tenant")) {
        change->kind = POLICY_TENANT_REMOVE;
        change->tenant = slice_of(words_quoted(w, "a tenant in quotes"));
    } else if (words_take(w, "add token")) {
        change->kind = POLICY_TOKEN_ADD;
        take_token(w, change);
    } else if (words_take(w, "remove token")) {
        change->kind = POLICY_TOKEN_REMOVE;
        change->token = words_number(w, "its number");
    } else if (words_take(w, "add")) {
        change->kind = POLICY_PRINCIPAL_PUT;
        take_principal(w, change);
        change->grants = take_grants(w);
    } else if (words_take(w, "remove")) {
        change->kind = POLICY_PRINCIPAL_REMOVE;
        take_principal(w, change);
    } else {
        return false;
    }
    return true;
}

static bool policy_option(struct words *w, struct command_policy_change *p)
{
    if (words_take(w, "ending sessions")) {
        p->end_sessions = 1;
    } else if (words_take(w, "by bootstrap")) {
        p->origin = POLICY_BOOTSTRAP;
    } else if (words_take(w, "by rescue")) {
        p->origin = POLICY_RESCUE;
    } else if (words_take(w, "of version")) {
        p->expect = words_number(w, "a version of the policy");
    } else if (words_take(w, "because")) {
        p->reason = slice_of(words_quoted(w, "a reason in quotes"));
    } else {
        return false;
    }
    return true;
}

void request_policy_change(struct words *w, const char *actor, struct request_line *out)
{
    enum { CHANGE_BYTES = 1 << 16 };
    struct runner *p = w->runner;
    struct packer changes = packer_make(arena_alloc(&p->step, CHANGE_BYTES), CHANGE_BYTES);
    struct policy_change change;
    command_init(&out->command, COMMAND_POLICY_CHANGE);
    struct command_policy_change *c = &out->command.policy_change;
    c->expect = UINT64_MAX;
    c->actor = slice_of(actor);
    c->reason = slice_of("a scenario");
    while (words_left(w)) {
        if (take_change(w, &change)) {
            if (!pack_policy_change(&changes, &change)) {
                runner_fail(p, "there is no space for so many changes");
            }
        } else if (!policy_option(w, c) && !request_common_option(w, out)) {
            words_finish(w);
        }
    }
    c->changes = packer_list(&changes);
}
