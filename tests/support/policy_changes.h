/* Makes the command policy_change, for tests. */
#ifndef HOLDFAST_TESTS_SUPPORT_POLICY_CHANGES_H
#define HOLDFAST_TESTS_SUPPORT_POLICY_CHANGES_H

#include <stdio.h>
#include <string.h>

#include "base/panic.h"
#include "core/policy.h"

struct policy_changes {
    struct packer packer;
    uint8_t bytes[LIMIT_POLICY_BYTES];
};

static inline void changes_begin(struct policy_changes *c)
{
    c->packer = packer_make(c->bytes, sizeof(c->bytes));
}

static inline void changes_add(struct policy_changes *c, const struct policy_change *change)
{
    bool fits = pack_policy_change(&c->packer, change);
    hf_assert(fits);
}

static inline void add_tenant(struct policy_changes *c, const char *tenant)
{
    changes_add(c, &(struct policy_change){.kind = POLICY_TENANT_PUT, .tenant = slice_of(tenant)});
}

static inline void remove_tenant(struct policy_changes *c, const char *tenant)
{
    changes_add(c,
                &(struct policy_change){.kind = POLICY_TENANT_REMOVE, .tenant = slice_of(tenant)});
}

static inline void add_principal_with(struct policy_changes *c, const char *tenant,
                                      const char *name, const struct policy_grant *grants,
                                      size_t count)
{
    uint8_t bytes[LIMIT_POLICY_BYTES];
    struct packer packer = packer_make(bytes, sizeof(bytes));
    for (size_t i = 0; i < count; i++) {
        bool fits = pack_policy_grant(&packer, &grants[i]);
        hf_assert(fits);
    }
    changes_add(c, &(struct policy_change){.kind = POLICY_PRINCIPAL_PUT,
                                           .tenant = slice_of(tenant),
                                           .name = slice_of(name),
                                           .grants = packer_list(&packer)});
}

/* With one grant; rights 0: with none. */
static inline void add_principal(struct policy_changes *c, const char *tenant, const char *name,
                                 const char *grant_tenant, const char *prefix, uint32_t rights)
{
    struct policy_grant grant = {slice_of(grant_tenant), slice_of(prefix), rights};
    add_principal_with(c, tenant, name, &grant, rights != 0);
}

static inline void remove_principal(struct policy_changes *c, const char *tenant, const char *name)
{
    changes_add(c, &(struct policy_change){.kind = POLICY_PRINCIPAL_REMOVE,
                                           .tenant = slice_of(tenant),
                                           .name = slice_of(name)});
}

/* The hash is made of the number. */
static inline void add_token(struct policy_changes *c, const char *tenant, const char *name,
                             uint64_t number)
{
    uint8_t hash[TOKEN_SHA_BYTES] = {0};
    uint64_t mixed = number * UINT64_C(0x9e3779b97f4a7c15);
    memcpy(hash, &mixed, sizeof(mixed));
    memcpy(hash + 8, &number, sizeof(number));
    changes_add(c, &(struct policy_change){.kind = POLICY_TOKEN_ADD,
                                           .tenant = slice_of(tenant),
                                           .name = slice_of(name),
                                           .sha256 = slice_make(hash, sizeof(hash)),
                                           .description = slice_of("of a test")});
}

static inline void remove_token(struct policy_changes *c, uint64_t token)
{
    changes_add(c, &(struct policy_change){.kind = POLICY_TOKEN_REMOVE, .token = token});
}

static inline void change_serial(struct policy_changes *c, bool bar, const char *serial)
{
    changes_add(c, &(struct policy_change){.kind = bar ? POLICY_SERIAL_BAR : POLICY_SERIAL_ALLOW,
                                           .serial = slice_of(serial)});
}

/* The bytes stay those of `c`. */
static inline struct command changes_command(const struct policy_changes *c)
{
    struct command cmd;
    command_init(&cmd, COMMAND_POLICY_CHANGE);
    cmd.policy_change.expect = UINT64_MAX;
    cmd.policy_change.actor = slice_of("op");
    cmd.policy_change.reason = slice_of("why");
    cmd.policy_change.changes = packer_list(&c->packer);
    return cmd;
}

#endif
