/* The objects of the state, for the files of core/ only; a part of core/state.h.
 *
 * They are in one pool and refer to each other by 32-bit references. Rare fields are in side
 * objects (`detail`, `extra`).
 *
 *   session ──holds──▶ grant ◀──holders── lock ──queue──▶ place ◀── waiter ◀──waits── session
 *
 * A lock is a name with holders, a queue or a delay. A grant is one name under one token; a group
 * links the grants of a multi-lock, which share their token. A waiter is one waiting request with a
 * place in the queue of each of its names. */
#ifndef HOLDFAST_CORE_OBJECTS_H
#define HOLDFAST_CORE_OBJECTS_H

#include "base/pool.h"
#include "core/core.h"
#include "core/ring.h"

/* Kinds with a deadline, in the order of handling equal deadlines. */
enum object_kind {
    KIND_SESSION = 1,
    KIND_GRANT,
    KIND_WAITER,
    KIND_LOCK,
    KIND_NODE_WAITERS,
    KIND_COUNTER
};

struct blob {
    uint32_t len;
    uint8_t bytes[];
};

/* struct carried; each a blob or 0. */
struct carried_refs {
#define F(role, since, type, name, limit) ref name;
    CARRIED_FIELDS(F)
#undef F
};

struct session {
    uint8_t kind;
    uint8_t is_private; /* for one lock; its id is the lease id (S4.3) */
    uint8_t client_len;
    uint8_t unused;
    uint32_t tenant;
    ref next;         /* chain of core->sessions */
    struct links all; /* core->all_sessions, in the order of opening */
    ref holds;        /* grants, in the order of granting */
    ref waits;        /* waiters, in the order of arrival */
    uint32_t entries; /* names held or waited for */
    ref extra;        /* struct session_extra, or 0 */
    uint32_t timer;   /* in the heap; 0: no deadline, or a private session that waits */
    uint64_t ttl_ms;  /* of a key also TTL_NONE */
    struct id id;
    uint64_t life_ms;     /* last sign of life */
    uint64_t token_xor;   /* of the tokens of its grants */
    uint32_t principal;   /* that opened it; 0: none */
    uint32_t token_count; /* of its grants; a multi-lock has one token */
    char client[];
};

struct session_extra {
    uint64_t acked_through;
    uint64_t stream;           /* number of the latest stream (S4.6) */
    uint64_t lingers_until_ms; /* 0: the stream is up, or no linger time */
    uint32_t linger_ms;
    uint32_t node;    /* of the stream; 0: unknown (before version 4) */
    ref metadata;     /* blob */
    ref replies;      /* requests by seq, rising */
    uint32_t unacked; /* their number */
};

struct lock {
    uint8_t kind;
    uint8_t mode; /* of all holders; without holders only its class matters */
    uint16_t name_len;
    uint32_t tenant;
    ref next;    /* chain of core->locks */
    ref holders; /* grants, by rising token */
    ref extra;   /* struct lock_extra, or 0 */
    char name[];
};

/* Of a lock that is more than one exclusive holder. */
struct lock_extra {
    uint64_t delayed_until_ms; /* 0: no delay */
    ref queue;                 /* places, by rising ticket */
    ref cursor;                /* place; all before it are detached. 0: all are */
    uint32_t queue_length;
    uint32_t holders;     /* their number */
    uint32_t limit;       /* semaphore */
    uint32_t used;        /* permits */
    ref slots;            /* semaphore: bits of used slots */
    uint32_t timer;       /* of the delay */
    struct links woken;   /* core->woken */
    struct links delayed; /* core->delayed */
    ref lock;
    uint32_t slots_from; /* all words before it are full */
};

enum {
    GRANT_HAS_LEASE = 1, /* of a real session: lease id in the tail */
    GRANT_IS_KEY = 2,    /* has a value, by ACQUIRE_KEY or a transaction (S13); private session */
    GRANT_IS_HASH = 4,
    GRANT_IS_LONG_HELD = 8, /* was reported (S16.2) */
    GRANT_IS_VALUE = 16,    /* a key without an owner (S13.9) */
    GRANT_IS_LIST = 32,     /* since version 9 */
    GRANT_IS_SORTED_SET = 64,
    GRANT_IS_SET = 128,
    /* At most one. */
    GRANT_TYPES = GRANT_IS_HASH | GRANT_IS_LIST | GRANT_IS_SORTED_SET | GRANT_IS_SET,
    GRANT_KEY_FLAGS = GRANT_IS_KEY | GRANT_TYPES | GRANT_IS_VALUE
};

struct grant {
    uint8_t kind;
    uint8_t flags;
    uint16_t depth; /* how often its owner holds it (S4.1) */
    ref lock;
    ref session;
    ref lease_next; /* chain of core->leases; at the offset of waiter's */
    struct links in_session;
    struct links in_lock;
    ref detail;        /* struct detail, or 0 */
    uint16_t permits;  /* semaphore */
    uint16_t slot;     /* semaphore */
    uint32_t delay_ms; /* lock-delay after an unclean end (S6.5) */
    uint8_t owner_len;
    uint64_t token;
    uint64_t since_ms;
    char tail[]; /* lease id if any, then owner */
};

/* Fields that most grants do not need. */
struct detail {
    ref grant;
    ref token_next; /* chain of core->tokens: shared, semaphore, multi-lock */
    ref group;      /* of a multi-lock, or 0 */
    ref request;    /* that made it, or 0 */
    struct carried_refs carried;
    uint32_t ttl_ms; /* 0: the session's. Multi-lock: only in the first part */
    uint32_t timer;
    uint64_t life_ms;      /* of the grant or its last renewal */
    uint64_t revoke_at_ms; /* 0: none. Multi-lock: only in the first part */
    uint64_t revoke_record;
    uint64_t hold_until_ms; /* 0: no max_hold. Multi-lock: only in the first part */
    uint32_t changes;       /* how often the value was set again */
    uint8_t by_token;       /* in core->tokens */
};

/* A multi-lock's grants, in canonical order; the first carries TTL and request. */
struct group {
    uint32_t count;
    ref grants[];
};

struct waiter {
    uint8_t kind;
    uint8_t mode;
    uint8_t flags; /* ACQUIRE_* */
    uint8_t owner_len;
    ref places; /* the first; in canonical order of names */
    ref session;
    ref lease_next;
    struct links in_session;
    struct links in_node_waiters;
    ref node_waiters; /* of its node; 0: of a real session */
    ref request;
    struct carried_refs carried;
    uint32_t parts;
    uint32_t timer;
    uint32_t delay_ms;
    uint32_t limit;
    uint32_t permits;
    uint32_t node;
    uint32_t max_hold_ms;
    uint64_t ttl_ms;
    struct id lease;
    uint64_t since_ms; /* when it was queued; 0: before version 7 */
    uint64_t ticket;
    uint64_t attachment;
    uint64_t wait_deadline_ms;  /* UINT64_MAX: none */
    uint64_t detached_until_ms; /* 0: not detached individually; its node may be gone */
    char owner[];
};

struct place {
    ref waiter;
    ref lock;
    ref sibling; /* next of this waiter */
    struct links in_queue;
};

/* The waiters attached through one node. When the node is gone, the whole list is detached and a
 * later waiter starts a new one. So the command is O(1) (S7.3). */
struct node_waiters {
    uint8_t kind;
    uint8_t gone;
    uint16_t unused;
    uint32_t node;
    uint64_t number;   /* rises with each creation */
    uint64_t until_ms; /* node gone: when its waiters leave */
    uint32_t timer;
    ref waiters; /* by rising attachment number */
    ref revisit; /* next waiter that the queue skips now, whose names must be woken */
    struct links all;
    struct links revisited; /* core->revisits */
};

/* Memories of done requests by id; no kind displaces another. Before version 4 all were in
 * DONE_OF_CLIENTS. */
enum done_kind {
    DONE_OF_CLIENTS,
    DONE_DRAWN,        /* drawn by a node (REQUEST_ID_NODE, REQUEST_ID_LEASE) */
    DONE_OF_OPERATORS, /* force_unlock, revoke, fence_reset; for LIMIT_OPERATOR_KEPT_MS */
    DONE_KINDS
};

/* By request_id in core->requests, or by seq in its session (S8). */
enum request_state { REQUEST_WAITING, REQUEST_HOLDING, REQUEST_DONE };

struct request {
    ref next;          /* chain of core->requests while it waits or holds */
    struct links ring; /* by seq: session's replies */
    ref target;        /* waiter or first grant; 0: none */
    uint32_t tenant;
    uint32_t principal; /* that sent it; 0 in a session */
    uint8_t type;
    uint8_t state;
    uint8_t scope_len; /* client or actor; else the session's id */
    uint8_t id_len;    /* 0: by seq */
    uint8_t outcome;
    uint8_t reason;
    uint8_t ended;
    uint8_t accepted;
    uint32_t count;
    uint32_t depth;
    uint32_t hash; /* of scope and id */
    struct id session;
    struct id lease;
    union {
        uint64_t seq;     /* id_len 0 */
        uint64_t done_ms; /* in DONE_OF_OPERATORS: time of the answer */
    };
    uint64_t digest;
    uint64_t token;
    uint64_t deadline_ms;
    uint64_t highest;
    char text[]; /* scope, then id */
};

/* From `cluster_ms` on, the wall clock is ahead of cluster time by wall_ms - cluster_ms (S16.1). */
struct wall_row {
    uint64_t cluster_ms;
    uint64_t wall_ms;
};

/* Of a tenant, by prefix (S16.2). */
struct alert_rule {
    uint64_t held_ms;
    uint32_t prefix_len;
    uint8_t prefix[];
};

struct sink {
    uint64_t index;
    uint32_t ordinal;
    uint32_t name_len;
    uint8_t name[LIMIT_SINK_NAME];
};

struct ended_grant {
    uint32_t tenant;
    uint8_t how;
    uint64_t token;
    struct id lease;
};

enum { ENDED_BY_LEASE, ENDED_BY_TOKEN };

struct ended_session {
    ref next;
    struct links ring;
    uint32_t tenant;
    uint8_t how;
    struct id id;
};

struct fence_mark {
    ref next;
    uint32_t position; /* in core->fence_heap */
    struct links ring; /* in the order of creation */
    uint32_t tenant;
    uint32_t slot;
    uint32_t name_len;
    uint64_t token;
    char name[];
};

/* Texts of an audit record, as stored. */
enum audit_text { AUDIT_RESOURCE, AUDIT_ACTOR, AUDIT_REASON, AUDIT_TRACE, AUDIT_TEXTS };

struct audit_record {
    struct links ring;
    uint32_t tenant;
    uint32_t count;
    uint64_t number;
    uint64_t index;
    uint64_t wall_ms;
    uint64_t mark_before; /* FENCE_RESET: the earlier mark of resource and slot */
    uint64_t mark_after;
    uint32_t slot;
    uint8_t action;
    bool is_note; /* by `note`; since version 3 */
    uint16_t text_len[AUDIT_TEXTS];
    char text[]; /* one after the other */
};

enum audit_action {
    AUDIT_FORCE_UNLOCK,
    AUDIT_FORCE_UNLOCK_NOW,
    AUDIT_REVOKE,
    AUDIT_REVOKE_TAKEN,
    AUDIT_RECOVER,
    AUDIT_FENCE_RESET, /* since version 4 */
    AUDIT_POLICY,      /* these since version 6 */
    AUDIT_BOOTSTRAP,
    AUDIT_RESCUE,
    AUDIT_DENIED,       /* calls of a principal, by `note` */
    AUDIT_PEER_REFUSED, /* by a node, by `note` */
    AUDIT_MEMBER_ADD,   /* these since version 7; up to SETTING by `note` */
    AUDIT_MEMBER_PROMOTE,
    AUDIT_MEMBER_DEMOTE,
    AUDIT_MEMBER_REMOVE,
    AUDIT_TRANSFER,
    AUDIT_SETTING,
    AUDIT_ALERT_SET,
    AUDIT_ALERT_REMOVE,
    AUDIT_COUNT
};

#endif
