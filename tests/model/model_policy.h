/* What the model knows of the policy (S14). Rows are in the order of their numbers. */
#ifndef HF_TESTS_MODEL_MODEL_POLICY_H
#define HF_TESTS_MODEL_MODEL_POLICY_H

#include "core/policy.h"

/* Bytes of our own. */
struct owned {
    uint8_t *data;
    size_t len;
};

/* An array of pointers that keeps its order. */
struct list {
    void **at;
    size_t count;
    size_t size;
};

struct model_tenant {
    int64_t number;
    struct owned name;
    struct quotas quotas;
};

struct model_policy_grant {
    int64_t tenant; /* -1: all */
    struct owned prefix;
    uint32_t rights;
};

struct model_principal {
    uint32_t number;
    int64_t tenant; /* home */
    struct owned name;
    struct owned description;
    size_t grant_count;
    struct model_policy_grant grants[LIMIT_PRINCIPAL_GRANTS];
};

struct model_token {
    uint64_t number;
    uint32_t principal;
    uint64_t created_wall_ms;
    uint64_t expires_wall_ms;
    uint8_t sha256[TOKEN_SHA_BYTES];
    struct owned description;
};

struct model_policy {
    uint64_t version;
    int64_t last_tenant;
    uint32_t last_principal;
    uint64_t last_token;
    struct list tenants;
    struct list principals;
    struct list tokens;
    struct list serials; /* struct owned */
};

struct model;
const struct model_policy *model_policy_of(const struct model *model);

#endif
