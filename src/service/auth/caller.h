/* Who a request comes from. With auth = off everybody is principal 0 of tenant 0. */
#ifndef HOLDFAST_SERVICE_AUTH_CALLER_H
#define HOLDFAST_SERVICE_AUTH_CALLER_H

#include "core/command.h"

/* For whom a command is submitted. */
struct caller_id {
    uint32_t tenant;
    uint32_t principal; /* 0: everybody, or the node itself */
};

enum caller_by {
    CALLER_NONE, /* no credentials, or auth = off */
    CALLER_TOKEN,
    CALLER_CERTIFICATE,
};

enum { CALLER_HASH = 32 };

struct caller {
    struct caller_id id;
    enum caller_by by;
    uint64_t expires_ms;       /* wall clock; UINT64_MAX: never */
    uint8_t hash[CALLER_HASH]; /* CALLER_TOKEN: SHA-256 of the token */
};

/* A command of the node itself, for a tenant. */
static inline struct caller_id caller_node(uint32_t tenant)
{
    return (struct caller_id){.tenant = tenant, .principal = 0};
}

static inline void caller_sign(struct command *c, struct caller_id who)
{
    c->tenant = who.tenant;
    c->principal = who.principal;
}

static inline struct caller_id caller_of(const struct command *c)
{
    return (struct caller_id){.tenant = c->tenant, .principal = c->principal};
}

static inline bool caller_is(struct caller_id a, struct caller_id b)
{
    return a.tenant == b.tenant && a.principal == b.principal;
}

#endif
