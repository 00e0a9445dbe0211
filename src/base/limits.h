/* Every limit of Holdfast, in one place. Each that a request can hit has an error of its own in
 * base/error.h that names it. */
#ifndef HOLDFAST_BASE_LIMITS_H
#define HOLDFAST_BASE_LIMITS_H

/* Sizes, in bytes. */
#define LIMIT_NAME 512
#define LIMIT_CLIENT 255
#define LIMIT_OWNER 64
#define LIMIT_METADATA 4096
#define LIMIT_VALUE 4096 /* what an election's leader proclaims */
#define LIMIT_ACTOR 255
#define LIMIT_REASON 1024
#define LIMIT_REQUEST_ID 64
#define LIMIT_ENTRY (8u << 20) /* one log entry, a whole batch */

/* Counts in one command (S2.1). */
#define LIMIT_MULTILOCK_NAMES 64
#define LIMIT_KEEPALIVE_IDS 10000

/* Counts in the state. */
#define LIMIT_SESSION_ENTRIES 10000 /* names held or waited for by one session (S2.1) */
#define LIMIT_SESSION_UNACKED 1024  /* replies kept for one session (S8.2) */
#define LIMIT_SESSIONS 16000000     /* private ones included */
#define LIMIT_HOLDERS 10000         /* of one name; also the largest semaphore */
#define LIMIT_QUEUE 1000000         /* places of one name */
#define LIMIT_NODES 64              /* nodes that waiters may be attached through */
#define LIMIT_FENCE_MARKS 65536     /* resources with a high-water mark (S11) */
#define LIMIT_AUDIT 10000           /* records of the audit trail */
#define LIMIT_ENDED 65536           /* grants, and sessions, whose end is remembered (S8.3) */
#define LIMIT_REQUESTS 65536        /* request ids remembered after their end (S8.3) */

/* Work (S2.1). */
#define LIMIT_COMMAND_STEPS 20000
#define LIMIT_SWEEP_SESSIONS 1000
#define LIMIT_SWEEP_LOCKS 10000
#define LIMIT_SWEEP_VISITS 20000 /* deadlines looked at in one entry, moved ones included */
#define LIMIT_WAKE_STEPS 5000    /* spent on handing over after one command or one sweep */
#define LIMIT_PRUNE 5000         /* dead holders a command removes itself before the sweep comes */
#define LIMIT_DEADLOCK_EDGES 1024
#define LIMIT_DEADLOCK_VISITS 8192
#define LIMIT_DEADLOCK_CYCLE 64 /* owners named in a refusal */
#define LIMIT_POSITION 1000     /* a place further back is reported as this + 1 */
#define LIMIT_LIST_VISITS 10000 /* entries examined for one page (S9.2) */

/* Times, in milliseconds. The edge is stricter than the core about TTLs by default. */
#define LIMIT_TTL_MIN_MS 100u
#define LIMIT_TTL_MAX_MS 86400000u
#define LIMIT_DELAY_MAX_MS 86400000u
#define LIMIT_LINGER_MAX_MS 86400000u
#define LIMIT_DETACHED_MS 10000u /* a detached waiter keeps its place that long (S7.3) */

/* Tokens, event numbers, times and indexes stay below this (S3.2). */
#define LIMIT_NUMBER (UINT64_C(1) << 53)

#endif
