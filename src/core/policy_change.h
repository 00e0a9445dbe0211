/* The changes of a policy_change command: one list gives each kind its fields and encoding. A command
 * carries them as packed bytes in the caller's buffer, like the effects of a transaction
 * (core/effect.h). */
#ifndef HOLDFAST_CORE_POLICY_CHANGE_H
#define HOLDFAST_CORE_POLICY_CHANGE_H

#include "core/effect.h"

enum { TOKEN_SHA_BYTES = 32 };

/* Rights on names (S14). LOCK implies READ of the same names. */
enum right { RIGHT_LOCK = 1, RIGHT_READ = 2, RIGHT_OPERATE = 4, RIGHT_ADMIN = 8, RIGHTS_ALL = 15 };

/* Upper limits of a tenant; 0: none. */
#define QUOTA_LIST(X) \
    X(locks)          \
    X(sessions)       \
    X(waiters)        \
    X(watchers)       \
    X(state_bytes)    \
    X(requests_per_second)

struct quotas {
#define X(name) uint64_t name;
    QUOTA_LIST(X)
#undef X
};

/* Symbol, name. */
#define POLICY_CHANGE_LIST(X)                                                                  \
    X(TENANT_PUT, tenant_put)       /* creates it, or sets its quotas */                       \
    X(TENANT_REMOVE, tenant_remove) /* policy_exists while anything belongs or refers to it */ \
    X(PRINCIPAL_PUT, principal_put) /* creates it, or replaces description and grants */       \
    X(PRINCIPAL_REMOVE, principal_remove) /* with its tokens */                                \
    X(TOKEN_ADD, token_add)                                                                    \
    X(TOKEN_REMOVE, token_remove)                                                              \
    X(SERIAL_BAR, serial_bar) /* a certificate with this serial number is refused */           \
    X(SERIAL_ALLOW, serial_allow)

/* Type, name, largest length. */
#define POLICY_FIELDS_tenant_put(F)      \
    F(slice, tenant, LIMIT_POLICY_BYTES) \
    F(quotas, quotas, 0)
#define POLICY_FIELDS_tenant_remove(F) F(slice, tenant, LIMIT_POLICY_BYTES)
#define POLICY_FIELDS_principal_put(F)        \
    F(slice, tenant, LIMIT_POLICY_BYTES)      \
    F(slice, name, LIMIT_POLICY_BYTES)        \
    F(slice, description, LIMIT_POLICY_BYTES) \
    F(list, grants, LIMIT_POLICY_BYTES)
#define POLICY_FIELDS_principal_remove(F) \
    F(slice, tenant, LIMIT_POLICY_BYTES)  \
    F(slice, name, LIMIT_POLICY_BYTES)
#define POLICY_FIELDS_token_add(F)       \
    F(slice, tenant, LIMIT_POLICY_BYTES) \
    F(slice, name, LIMIT_POLICY_BYTES)   \
    F(slice, sha256, TOKEN_SHA_BYTES)    \
    F(u64, expires_wall_ms, 0)           \
    F(slice, description, LIMIT_POLICY_BYTES)
#define POLICY_FIELDS_token_remove(F) F(u64, token, 0)
#define POLICY_FIELDS_serial_bar(F) F(slice, serial, LIMIT_POLICY_BYTES)
#define POLICY_FIELDS_serial_allow(F) F(slice, serial, LIMIT_POLICY_BYTES)

enum policy_change_kind {
    POLICY_CHANGE_NONE,
#define X(symbol, name) POLICY_##symbol,
    POLICY_CHANGE_LIST(X)
#undef X
        POLICY_CHANGE_COUNT
};

/* A change uses the fields of its kind. Tenants and principals are named, so that one command can
 * create a tenant and refer to it. */
struct policy_change {
    enum policy_change_kind kind;
    struct slice tenant; /* the home tenant, of a principal */
    struct slice name;   /* of the principal */
    struct slice description;
    struct packed grants; /* pack_policy_grant */
    struct quotas quotas;
    struct slice sha256;      /* of the token's text: TOKEN_SHA_BYTES */
    uint64_t expires_wall_ms; /* 0: never */
    uint64_t token;           /* its number */
    struct slice serial;      /* lower-case hexadecimal digits, without leading zeros */
};

/* A grant of a principal. */
struct policy_grant {
    struct slice tenant; /* its name; "*": every tenant, and the cluster itself */
    struct slice
        prefix; /* empty: every name; ends in '/': names that begin with it; else one name */
    uint32_t rights;
};

const char *policy_change_name(enum policy_change_kind kind);

/* False: buffer or list is full; the list is unchanged. packer_list gives the list. */
bool pack_policy_change(struct packer *p, const struct policy_change *change);
bool pack_policy_grant(struct packer *p, const struct policy_grant *grant);

/* As unpack_effect. */
bool unpack_policy_change(struct reader *r, struct policy_change *out);
bool unpack_policy_grant(struct reader *r, struct policy_grant *out);

/* The rules that need no state: HF_OK, HF_INVALID_POLICY, HF_POLICY_FULL, HF_MALFORMED. */
enum hf_error policy_changes_check(const struct packed *changes);

/* 1 to LIMIT_POLICY_NAME of a-z A-Z 0-9 . _ - that begin with a letter or digit. */
bool policy_name_is_valid(struct slice name);
/* Empty, a name, or a name and '/'. */
bool policy_prefix_is_valid(struct slice prefix);
bool policy_quotas_are_valid(const struct quotas *quotas);
/* 1 to LIMIT_SERIAL lower-case hexadecimal digits; no leading zero. */
bool policy_serial_is_valid(struct slice serial);

#endif
