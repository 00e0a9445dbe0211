/* Principals of the clients of parties.h: a policy, and its changes. */
#include "core/policy.h"
#include "parties.h"
#include "tls/digest.h"

enum { CHANGE_MAX = 512 };

bool parties_auth;

static void (*submit_inside)(void *ctx, const struct command *command, struct gateway_call *call);

/* A refusal means that the principal is not there, or is there already. */
static void change_policy(const struct policy_change *change)
{
    uint8_t bytes[CHANGE_MAX];
    struct packer p = packer_make(bytes, sizeof(bytes));
    struct command c;
    struct result r;
    hf_assert(pack_policy_change(&p, change));
    command_init(&c, COMMAND_POLICY_CHANGE);
    c.policy_change.expect = UINT64_MAX;
    c.policy_change.actor = c.policy_change.reason = slice_of("fuzz");
    c.policy_change.changes = packer_list(&p);
    fake_gateway_apply(&parties_gateway, &c, &r);
}

static void put(const char *tenant, const char *name, const char *of, const char *prefix,
                uint32_t rights, const char *token)
{
    uint8_t bytes[128], sha256[DIGEST_SIZE];
    struct packer grants = packer_make(bytes, sizeof(bytes));
    struct policy_grant grant = {slice_of(of), slice_of(prefix), rights};
    struct policy_change principal = {
        .kind = POLICY_PRINCIPAL_PUT, .tenant = slice_of(tenant), .name = slice_of(name)};
    struct policy_change secret = {
        .kind = POLICY_TOKEN_ADD, .tenant = slice_of(tenant), .name = slice_of(name)};
    hf_assert(pack_policy_grant(&grants, &grant));
    principal.grants = packer_list(&grants);
    digest_sha256(slice_of(token), sha256);
    secret.sha256 = slice_make(sha256, sizeof(sha256));
    change_policy(&principal);
    change_policy(&secret);
}

void parties_put_policy(void)
{
    change_policy(&(struct policy_change){.kind = POLICY_TENANT_PUT, .tenant = slice_of("red")});
    put("default", "app", "default", "", RIGHT_LOCK | RIGHT_READ, "t-app");
    put("red", "read", "red", "n", RIGHT_READ, "t-read");
    put("default", "root", "*", "", RIGHTS_ALL, "t-root");
}

bool parties_auth_step(uint8_t letter)
{
    if (parties_auth && letter == 'R') {
        change_policy(&(struct policy_change){.kind = POLICY_PRINCIPAL_REMOVE,
                                              .tenant = slice_of("default"),
                                              .name = slice_of("app")});
    } else if (parties_auth && letter == 'P') {
        parties_put_policy();
    } else {
        return false;
    }
    return true;
}

static void submit_known(void *ctx, const struct command *command, struct gateway_call *call)
{
    if (command->principal == 0 && !call->is_own) {
        parties_broken("a command of nobody", "with auth = on");
    }
    submit_inside(ctx, command, call);
}

void parties_watch_submits(struct gateway *gateway)
{
    submit_inside = gateway->submit;
    gateway->submit = submit_known;
}
