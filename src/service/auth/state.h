/* struct auth_state: what a node with auth = on keeps. Private to service/auth. */
#ifndef HOLDFAST_SERVICE_AUTH_STATE_H
#define HOLDFAST_SERVICE_AUTH_STATE_H

#include "service/auth/auth.h"
#include "service/state.h"

enum {
    AUTH_WAITS_MAX = 4096,    /* requests that wait at the same time */
    AUTH_ADDRESS_WAITS = 64,  /* ... of the addresses of one slot */
    AUTH_BARRIER_MS = 100,    /* between two shared barriers */
    AUTH_FREE_FAILURES = 3,   /* of an address, before its refusals are delayed */
    AUTH_DELAY_MS = 100,      /* the first delay; doubles */
    AUTH_DELAY_DOUBLINGS = 6, /* at most 6.4 s */
    AUTH_FORGET_MS = 60000,   /* after the last failure */
    AUTH_ADDRESSES = 4096,    /* slots; the last address of a slot counts */
    AUTH_PRUNE_MS = 10000,    /* between two prunings of the quotas' entries */
    AUTH_REVIEW_MS = 1000,    /* the longest time between two looks at the wall clock */
    AUTH_DENIALS_MAX = 1024,  /* principals with denied calls that are not noted yet */
};

struct auth_address {
    uint64_t address; /* hash; 0: empty */
    uint64_t last_ms; /* boot time of the last failure */
    uint32_t failures;
    uint32_t waits; /* of all addresses that share the slot */
};

struct auth_state {
    struct list delayed; /* until their back-off is over */
    struct list next;    /* for the next barrier */
    struct list current; /* for the barrier in flight */
    struct list decided; /* after it */
    uint32_t waits;
    struct pending_request *barrier; /* in flight */
    bool wants_version;              /* a barrier is wanted to know the version of the state */
    bool is_version_sure;            /* a barrier passed */
    uint64_t barrier_ms;             /* boot time of the last one */
    uint64_t hash_key;
    struct auth_address addresses[AUTH_ADDRESSES];
    uint64_t served_ms;        /* boot time: when a leader was known last */
    uint64_t reviewed;         /* version of the policy that was reviewed */
    uint64_t expires_ms;       /* wall clock: the earliest expiry of a caller; UINT64_MAX: none */
    struct quota_book *quotas; /* of this node's reads and watches; quota.c */
    uint64_t quotas_ms;        /* boot time of the next pruning */
    struct list denials;       /* denied.c */
    uint32_t denial_count;
    uint64_t denied_due_ms; /* boot time: of the first of them; UINT64_MAX: none */
};

/* denied.c */
void auth_denied_run(struct service *s, uint64_t now_ms);
void auth_denied_close(struct service *s);

#endif
