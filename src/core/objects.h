/* The objects of the state, for the files of core/ only; a part of core/state.h.
 *
 * They are stored in one pool and refer to each other by 32-bit references. Rare fields are in side
 * objects (`detail`, `extra`). Both keep a live lock small.
 *
 *   session ──holds──▶ grant ◀──holders── lock ──queue──▶ place ◀── waiter ◀──waits── session
 *
 * A lock is a name with holders, a queue or a delay; without any it does not exist. A grant is one
 * name held under one token; the grants of a multi-lock share their token and are linked by a group
 * object. A waiter is one waiting request; it has one place in the queue of each of its names. */
#ifndef HOLDFAST_CORE_OBJECTS_H
#define HOLDFAST_CORE_OBJECTS_H

#include "base/pool.h"
#include "core/core.h"
#include "core/ring.h"

/* The kinds of objects with a deadline, in the order in which equal deadlines are handled. */
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

/* The fields of struct carried, each a blob or 0. */
struct carried_refs {
#define F(role, since, type, name, limit) ref name;
    CARRIED_FIELDS(F)
#undef F
};

struct session {
    uint8_t kind;
    uint8_t is_private; /* made for one lock; its id is that lock's lease id (S4.3) */
    uint8_t client_len;
    uint8_t unused;
    uint32_t tenant;
    ref next;         /* chain of core->sessions by id */
    struct links all; /* core->all_sessions, in the order of their opening */
    ref holds;        /* grants, in the order of granting */
    ref waits;        /* waiters, in the order of arrival */
    uint32_t entries; /* names held or waited for */
    ref extra;        /* struct session_extra, or 0 */
    uint32_t ttl_ms;
    uint32_t timer; /* position in the heap; 0 while a private session waits */
    struct id id;
    uint64_t life_ms; /* the last sign of life */
    char client[];
};

struct session_extra {
    uint64_t acked_through;
    uint64_t stream;           /* the number of the latest stream (S4.6) */
    uint64_t lingers_until_ms; /* 0: the stream is up, or no linger time was requested */
    uint32_t linger_ms;
    uint32_t node;    /* of the stream; 0: unknown (before version 4) */
    ref metadata;     /* blob */
    ref replies;      /* requests by seq, rising */
    uint32_t unacked; /* how many */
};

struct lock {
    uint8_t kind;
    uint8_t mode; /* of the holders, all the same; without holders only its class matters */
    uint16_t name_len;
    uint32_t tenant;
    ref next;    /* chain of core->locks by name */
    ref holders; /* grants, by rising token */
    ref extra;   /* struct lock_extra, or 0 */
    char name[];
};

/* Extra state of a lock that is more than one exclusive holder. */
struct lock_extra {
    uint64_t delayed_until_ms; /* 0: no delay */
    ref queue;                 /* places, by rising ticket */
    ref cursor;                /* place; all before it are detached. 0: all are */
    uint32_t queue_length;
    uint32_t holders;     /* how many */
    uint32_t limit;       /* semaphore */
    uint32_t used;        /* permits */
    ref slots;            /* semaphore: bits of the slots in use */
    uint32_t timer;       /* of the delay */
    struct links woken;   /* core->woken */
    struct links delayed; /* core->delayed */
    ref lock;
    uint32_t slots_from; /* all words before it are full; shortens the search for a slot */
};

enum {
    GRANT_HAS_LEASE = 1, /* of a real session: the lease id is in the tail */
    GRANT_IS_KEY = 2,  /* has a value, by ACQUIRE_KEY or a transaction (S13); session is private */
    GRANT_IS_HASH = 4, /* the value is a hash */
    GRANT_KEY_FLAGS = GRANT_IS_KEY | GRANT_IS_HASH
};

struct grant {
    uint8_t kind;
    uint8_t flags;
    uint16_t depth; /* how often the same owner holds it (S4.1) */
    ref lock;
    ref session;
    ref lease_next; /* chain of core->leases; at the same offset in waiter */
    struct links in_session;
    struct links in_lock;
    ref detail;        /* struct detail, or 0 */
    uint16_t permits;  /* semaphore */
    uint16_t slot;     /* semaphore */
    uint32_t delay_ms; /* the lock-delay after an unclean end (S6.5) */
    uint8_t owner_len;
    uint64_t token;
    uint64_t since_ms;
    char tail[]; /* the lease id if it has one, then the owner */
};

/* Fields that most grants do not need: a TTL of their own, a group, metadata. */
struct detail {
    ref grant;
    ref token_next; /* chain of core->tokens; shared, semaphore and multi-lock grants are there */
    ref group;      /* struct group of a multi-lock, or 0 */
    ref request;    /* struct request that made it, or 0 */
    struct carried_refs carried;
    uint32_t ttl_ms; /* 0: the session's. Of a multi-lock only the first part has one */
    uint32_t timer;
    uint64_t life_ms;       /* of the grant or its last renewal */
    uint64_t revoke_at_ms;  /* 0: no revocation. Of a multi-lock only the first part has one */
    uint64_t revoke_record; /* number of the audit record of the revocation */
    uint32_t changes;       /* how often a key's value was set again */
    uint8_t by_token;       /* is in core->tokens */
};

/* The grants of one multi-lock, in canonical order; the first carries TTL and request. */
struct group {
    uint32_t count;
    ref grants[];
};

struct waiter {
    uint8_t kind;
    uint8_t mode;
    uint8_t flags; /* ACQUIRE_* */
    uint8_t owner_len;
    ref places; /* the first of them, in canonical order of names */
    ref session;
    ref lease_next;
    struct links in_session;
    struct links in_node_waiters;
    ref node_waiters; /* the waiters of its node; 0 for a waiter of a real session */
    ref request;
    struct carried_refs carried;
    uint32_t parts;
    uint32_t timer;
    uint32_t ttl_ms;
    uint32_t delay_ms;
    uint32_t limit;
    uint32_t permits;
    uint32_t node;
    struct id lease;
    uint64_t ticket;
    uint64_t attachment;
    uint64_t wait_deadline_ms;  /* UINT64_MAX: none */
    uint64_t detached_until_ms; /* 0: not detached individually; its node may be gone */
    char owner[];
};

struct place {
    ref waiter;
    ref lock;
    ref sibling; /* next place of the same waiter */
    struct links in_queue;
};

/* The waiters attached through one node. When the node is gone, the whole list is detached in one
 * step and a later waiter starts a new one. So the command is O(1) (S7.3). */
struct node_waiters {
    uint8_t kind;
    uint8_t gone;
    uint16_t unused;
    uint32_t node;
    uint64_t number;   /* rises in the order of creation */
    uint64_t until_ms; /* node gone: when its waiters leave */
    uint32_t timer;
    ref waiters; /* by rising attachment number */
    ref revisit; /* next waiter whose names must be woken because the queue skips it now */
    struct links all;
    struct links revisited; /* core->revisits */
};

/* Memories of done requests by id. Each kind can displace only entries of its own memory. Before
 * version 4 all were in DONE_OF_CLIENTS. */
enum done_kind {
    DONE_OF_CLIENTS,
    DONE_DRAWN,        /* the id was drawn by a node (REQUEST_ID_NODE, REQUEST_ID_LEASE) */
    DONE_OF_OPERATORS, /* force_unlock, revoke, fence_reset; kept for LIMIT_OPERATOR_KEPT_MS */
    DONE_KINDS
};

/* A remembered request: by request_id in core->requests, or by seq in its session (S8). */
enum request_state { REQUEST_WAITING, REQUEST_HOLDING, REQUEST_DONE };

struct request {
    ref next;          /* chain of core->requests, while it waits or holds */
    struct links ring; /* by seq: the session's replies */
    ref target;        /* the waiter or the first grant; 0: none */
    uint32_t tenant;
    uint8_t type; /* command_type */
    uint8_t state;
    uint8_t scope_len; /* client or actor; the session's id otherwise */
    uint8_t id_len;    /* 0: identified by seq */
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
        uint64_t done_ms; /* among DONE_OF_OPERATORS: when it was answered */
    };
    uint64_t digest;
    uint64_t token;
    uint64_t deadline_ms;
    uint64_t highest;
    char text[]; /* scope, then id */
};

struct ended_grant {
    uint32_t tenant;
    uint8_t how;
    uint64_t token;
    struct id lease;
};

/* The indexes of core->ended_grants. */
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

/* The texts of an audit record, in the order in which they are stored. */
enum audit_text { AUDIT_RESOURCE, AUDIT_ACTOR, AUDIT_REASON, AUDIT_TRACE, AUDIT_TEXTS };

struct audit_record {
    struct links ring;
    uint32_t tenant;
    uint32_t count;
    uint64_t number;
    uint64_t index;
    uint64_t wall_ms;
    uint64_t mark_before; /* FENCE_RESET: the mark before, of the resource and this slot */
    uint64_t mark_after;
    uint32_t slot;
    uint8_t action;
    bool is_note; /* written by `note`; since version 3 */
    uint16_t text_len[AUDIT_TEXTS];
    char text[]; /* the texts, one after the other */
};

enum audit_action {
    AUDIT_FORCE_UNLOCK,
    AUDIT_FORCE_UNLOCK_NOW,
    AUDIT_REVOKE,
    AUDIT_REVOKE_TAKEN,
    AUDIT_RECOVER,
    AUDIT_FENCE_RESET, /* since version 4 */
    AUDIT_COUNT
};

#endif
