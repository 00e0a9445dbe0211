/* The policy in memory; for policy*.c, core.c and the snapshot only.
 *
 * A policy is small and rarely changed: sorted arrays of pointers. A change of one row moves at most
 * LIMIT_TOKENS pointers. */
#ifndef HOLDFAST_CORE_POLICY_STATE_H
#define HOLDFAST_CORE_POLICY_STATE_H

#include "base/memory.h"
#include "core/policy.h"

/* The first version of the state that has a policy. */
#define POLICY_VERSION 6

/* Pointers to rows of one kind, in an order. */
struct policy_list {
    void **at;
    uint32_t count;
    uint32_t capacity;
};

/* What a grant counts for LIMIT_POLICY_TERMS besides its prefix. */
enum { POLICY_GRANT_COST = 32 };

/* Bytes of a record, at most: 64 grants with prefixes. */
enum { POLICY_RECORD_MAX = 44 << 10 };

struct policy_tenant_row {
    uint32_t number;
    uint32_t principals; /* whose home it is */
    uint32_t grants;     /* that name it */
    struct quotas quotas;
    uint32_t name_len;
    uint8_t name[LIMIT_POLICY_NAME];
};

struct policy_grant_row {
    uint32_t tenant; /* or TENANT_ALL */
    uint32_t rights;
    struct slice prefix; /* in the principal's `texts` */
};

/* What principal_put replaces. */
struct policy_terms {
    struct slice description;        /* in `texts` */
    struct policy_grant_row *grants; /* grant_count of them */
    uint8_t *texts;                  /* texts_len bytes: description, then the prefixes */
    uint32_t grant_count;
    uint32_t texts_len;
};

struct policy_token_row;

struct policy_principal_row {
    uint32_t number;
    uint32_t tenant;
    uint32_t tokens;
    uint32_t name_len;
    uint8_t name[LIMIT_POLICY_NAME];
    struct policy_terms terms;
    struct policy_token_row *first_token; /* chain `next`, in no order that shows */
};

struct policy_token_row {
    struct policy_token_row *next; /* of the same principal */
    uint64_t number;
    uint32_t principal;
    uint32_t description_len;
    uint64_t created_wall_ms;
    uint64_t expires_wall_ms;
    uint8_t sha256[TOKEN_SHA_BYTES];
    uint8_t description[LIMIT_POLICY_TEXT];
};

struct policy_serial_row {
    uint32_t len;
    uint8_t digits[LIMIT_SERIAL];
};

struct policy {
    const struct memory *memory;
    uint64_t version;
    /* The last numbers given. */
    uint32_t last_tenant;
    uint32_t last_principal;
    uint64_t last_token;
    uint8_t read;                       /* kind of the last record that was read */
    uint32_t admins;                    /* principals with `admin` on the cluster */
    uint64_t terms_bytes;               /* of all principals, at most LIMIT_POLICY_TERMS */
    struct policy_list tenants;         /* by number */
    struct policy_list tenants_by_name; /* ... by name */
    struct policy_list principals;      /* by number */
    struct policy_list by_name;         /* principals, by tenant and name */
    struct policy_list tokens;          /* by number */
    struct policy_list by_hash;         /* tokens, by sha256 */
    struct policy_list serials;         /* in the order of barring */
};

/* The caller owns it. A new policy has the tenant `default` and nothing else. */
struct policy *policy_new(const struct memory *memory);
void policy_free(struct policy *p);

/* NULL: no such row. */
struct policy_tenant_row *policy_tenant_row(const struct policy *p, uint32_t number);
struct policy_tenant_row *policy_tenant_named(const struct policy *p, struct slice name);
struct policy_principal_row *policy_principal_row(const struct policy *p, uint32_t number);
struct policy_principal_row *policy_principal_named(const struct policy *p, uint32_t tenant,
                                                    struct slice name);
struct policy_token_row *policy_token_row(const struct policy *p, uint64_t number);
struct policy_token_row *policy_token_hashed(const struct policy *p,
                                             const uint8_t sha256[TOKEN_SHA_BYTES]);
/* Has `admin` on the cluster. */
bool policy_row_is_admin(const struct policy_principal_row *row);

/* Single changes. The caller has checked the rules. An unlinked row is the caller's: it links it again
 * or frees it. */
struct policy_tenant_row *policy_add_tenant(struct policy *p, uint32_t number, struct slice name);
void policy_link_tenant(struct policy *p, struct policy_tenant_row *row);
void policy_unlink_tenant(struct policy *p, struct policy_tenant_row *row);
void policy_free_tenant(struct policy *p, struct policy_tenant_row *row);

struct policy_principal_row *policy_add_principal(struct policy *p, uint32_t number,
                                                  uint32_t tenant, struct slice name);
/* With its tokens. */
void policy_link_principal(struct policy *p, struct policy_principal_row *row);
void policy_unlink_principal(struct policy *p, struct policy_principal_row *row);
void policy_free_principal(struct policy *p, struct policy_principal_row *row);
/* The tenants of the grants exist. */
struct policy_terms policy_terms_new(struct policy *p, struct slice description,
                                     const struct packed *grants);
void policy_terms_free(struct policy *p, const struct policy_terms *terms);
/* Swaps the terms of the row and `*terms`. */
void policy_swap_terms(struct policy *p, struct policy_principal_row *row,
                       struct policy_terms *terms);

/* Copies the row. */
struct policy_token_row *policy_add_token(struct policy *p, const struct policy_token_row *fields);
void policy_link_token(struct policy *p, struct policy_token_row *row);
void policy_unlink_token(struct policy *p, struct policy_token_row *row);
void policy_free_token(struct policy *p, struct policy_token_row *row);

struct policy_serial_row *policy_serial_new(struct policy *p, struct slice serial);
/* UINT32_MAX: not barred. */
uint32_t policy_serial_at(const struct policy *p, struct slice serial);
void policy_link_serial(struct policy *p, uint32_t at, struct policy_serial_row *row);
struct policy_serial_row *policy_unlink_serial(struct policy *p, uint32_t at);
void policy_free_serial(struct policy *p, struct policy_serial_row *row);

/* ---- policy_apply.c ---- */

/* Whether the state has objects of this tenant outside of the policy. */
typedef bool (*policy_in_use_fn)(void *ctx, uint32_t tenant);

struct policy_situation {
    uint64_t wall_ms;
    policy_in_use_fn in_use;
    void *ctx;
};

struct policy_outcome {
    enum hf_error error;
    uint64_t first_token; /* added; 0: none */
    uint32_t changes;     /* with those of a rescue */
    uint32_t steps;
};

/* All changes, or none and an error. */
void policy_apply(struct policy *p, const struct command_policy_change *change,
                  const struct policy_situation *now, struct policy_outcome *out);

/* ---- policy_snapshot.c: one record a row, in one canonical order ---- */

enum policy_record_kind {
    POLICY_RECORD_HEAD = 1, /* version and last numbers */
    POLICY_RECORD_TENANT,
    POLICY_RECORD_PRINCIPAL,
    POLICY_RECORD_TOKEN,
    POLICY_RECORD_SERIAL,
    POLICY_RECORD_KINDS
};

typedef void (*policy_put_fn)(void *ctx, enum policy_record_kind kind, const void *row);
void policy_each_record(const struct policy *p, policy_put_fn put, void *ctx);
void policy_record_write(struct writer *w, const struct policy *p, enum policy_record_kind kind,
                         const void *row);
/* NULL, or what is wrong; then only policy_free may be called. */
const char *policy_record_read(struct policy *p, bool is_first, struct reader *r);

/* NULL, or a text that names the broken invariant. */
const char *policy_check_invariants(const struct policy *p);

#endif
