/* All limits of Holdfast. A limit that a request can exceed has its own error in base/error.h. */
#ifndef HOLDFAST_BASE_LIMITS_H
#define HOLDFAST_BASE_LIMITS_H

/* Sizes, in bytes. */
#define LIMIT_NAME 512
#define LIMIT_CLIENT 255
#define LIMIT_OWNER 64
#define LIMIT_TRACE 55 /* a W3C traceparent */
#define LIMIT_METADATA 4096
#define LIMIT_VALUE 4096 /* of an election's leader; of a message */
#define LIMIT_KEY_VALUE \
    (64u << 10) /* of a key, by PUT; up to version 8 of the state LIMIT_VALUE (S13) */
#define LIMIT_ACTOR 255
#define LIMIT_REASON 1024
#define LIMIT_REQUEST_ID 64
#define LIMIT_ENTRY (8u << 20) /* one log entry, a whole batch */

/* Counts in one command (S2.1). */
#define LIMIT_MULTILOCK_NAMES 64
#define LIMIT_KEEPALIVE_IDS 10000
#define LIMIT_CHECKS 64                    /* of a transaction (S13) */
#define LIMIT_EFFECTS 64                   /* ... */
#define LIMIT_TRANSACT_BYTES (160u << 10)  /* of all its checks and effects together */
#define LIMIT_TRANSACT_8_BYTES (40u << 10) /* ... up to version 8 of the state */
#define LIMIT_POLICY_CHANGES 256           /* of a policy_change (S14) */
#define LIMIT_POLICY_BYTES (40u << 10)     /* of all of them together */
#define LIMIT_POLICY_CHANGE_GRANTS 4096    /* ... */

/* The policy (S14). */
#define LIMIT_POLICY_NAME 64  /* bytes of the name of a tenant or a principal */
#define LIMIT_POLICY_TEXT 256 /* ... of a description */
#define LIMIT_SERIAL 64       /* hexadecimal digits of a certificate's serial number */
#define LIMIT_TENANTS 1024    /* the tenant `default` included */
#define LIMIT_PRINCIPALS 10000
#define LIMIT_PRINCIPAL_GRANTS 64
#define LIMIT_POLICY_TERMS (32u << 20) /* bytes of all descriptions and grants */
#define LIMIT_CLUSTER_ADMINS 128       /* principals with `admin` on the cluster */
#define LIMIT_TOKENS 20000             /* bearer tokens */
#define LIMIT_PRINCIPAL_TOKENS 64      /* ... of one principal */
#define LIMIT_BARRED_SERIALS 1024

/* Counts in the state. */
#define LIMIT_WALL_ROWS 1024          /* rows of (cluster time, wall clock) (S16.1) */
#define LIMIT_ALERTS 256              /* long-held rules of a tenant (S16.2) */
#define LIMIT_SINKS 16                /* positions of event sinks */
#define LIMIT_SINK_NAME 64            /* bytes of the name of a sink */
#define LIMIT_SESSION_ENTRIES 10000   /* names held or waited for by one session (S2.1) */
#define LIMIT_SESSION_UNACKED 1024    /* replies kept for one session (S8.2) */
#define LIMIT_SESSIONS 16000000       /* private ones included */
#define LIMIT_HOLDERS 10000           /* of one name; also the largest semaphore */
#define LIMIT_QUEUE 1000000           /* places of one name */
#define LIMIT_NODES 64                /* nodes that waiters may be attached through */
#define LIMIT_FENCE_MARKS 65536       /* resources with a high-water mark (S11) */
#define LIMIT_AUDIT 10000             /* records of the audit trail */
#define LIMIT_DENIED_MS 60000         /* denied calls of a principal share a record of this age */
#define LIMIT_ENDED 65536             /* ended grants, and sessions, remembered (S8.3) */
#define LIMIT_REQUESTS 65536          /* request ids remembered after their end (S8.3) */
#define LIMIT_DRAWN_REQUESTS 65536    /* ... of those that nodes drew */
#define LIMIT_OPERATOR_REQUESTS 16384 /* ... of operators, for LIMIT_OPERATOR_KEPT_MS */
#define LIMIT_TRANSACTS 65536         /* transactions remembered by their ids (S13.6) */
#define LIMIT_COUNTERS 10000          /* counters (S13.5) */

/* Work (S2.1). */
#define LIMIT_COMMAND_STEPS 20000
#define LIMIT_SWEEP_STEPS 40000 /* follows from the limits below */
#define LIMIT_SWEEP_SESSIONS 1000
#define LIMIT_SWEEP_LOCKS 10000
#define LIMIT_SWEEP_VISITS 20000 /* deadlines checked in one entry, moved ones included */
#define LIMIT_WAKE_STEPS 4000    /* spent on handing over after one command or one sweep */
#define LIMIT_PRUNE 1000         /* holders and waiters that a command checks before the sweep */
#define LIMIT_DEADLOCK_EDGES 1024
#define LIMIT_DEADLOCK_VISITS 3072
#define LIMIT_DEADLOCK_CYCLE 64 /* owners listed in a refusal */
#define LIMIT_POSITION 1000     /* a later place is reported as this + 1 */
#define LIMIT_LIST_VISITS 10000 /* entries examined for one page (S9.2) */
#define LIMIT_PAGE 100          /* entries of a page, when the client sets no limit */
#define LIMIT_PAGE_MAX 1000     /* ... at most */

/* Milliseconds. The default TTL limits of the edge are stricter than those of the core. */
#define LIMIT_TTL_MIN_MS 100u
#define LIMIT_TTL_MAX_MS 86400000u
#define LIMIT_KEY_TTL_MAX_MS UINT64_C(315360000000) /* 10 years: of a key or counter (S13) */
#define LIMIT_COUNTER_TTL_7_MS 2678400000u /* 31 days: of a counter before version 8 (S13.5) */
#define LIMIT_DELAY_MAX_MS 86400000u
#define LIMIT_LINGER_MAX_MS 86400000u
#define LIMIT_HELD_MIN_MS 1000u         /* of a long-held rule (S16.2) */
#define LIMIT_HELD_MAX_MS 2678400000u   /* 31 days; of a long-held rule and of max_hold_ms */
#define LIMIT_WALL_STEP_MS 100u         /* a larger step of the wall clock is a new row (S16.1) */
#define LIMIT_DETACHED_MS 10000u        /* how long a detached waiter keeps its place (S7.3) */
#define LIMIT_OPERATOR_KEPT_MS 3600000u /* how long operators' ids are kept (S8.3) */

/* One HTTP request and its JSON. */
#define LIMIT_HTTP_LINE 8192            /* bytes of a request line */
#define LIMIT_HTTP_HEADER_BYTES 16384   /* of all header lines of a request together */
#define LIMIT_HTTP_HEADERS 64           /* header lines of a request */
#define LIMIT_HTTP_BODY (1u << 20)      /* bytes; a keep-alive of all its ids takes a third */
#define LIMIT_HTTP_CHUNK_LINE 256       /* bytes of a chunk's size and extensions */
#define LIMIT_HTTP_EXTENSIONS 4096      /* bytes of all chunk extensions of a request together */
#define LIMIT_HTTP_TRAILERS 4096        /* bytes of all trailer lines of a request together */
#define LIMIT_HTTP_PARAMETERS 16        /* in a query */
#define LIMIT_HTTP2_STREAMS 1024        /* concurrent requests of one connection */
#define LIMIT_HTTP2_BODIES (4u << 20)   /* bytes of all their unfinished bodies together */
#define LIMIT_HTTP2_BACKLOG (20u << 20) /* unsent bytes of responses */
#define LIMIT_HTTP2_RESETS 2048         /* streams that a client may reset at once ... */
#define LIMIT_HTTP2_RESETS_PER_S 512    /* ... and in the long run */
#define LIMIT_GRPC_MESSAGE (256u << 10) /* bytes; a multi-lock of all its names takes a seventh */
#define LIMIT_JSON_DEPTH 32             /* nesting of arrays and objects */

/* One request of the Redis protocol. Smaller than Redis's own limits. */
#define LIMIT_RESP_ARGUMENTS 1024
#define LIMIT_RESP_BULK (64u << 10)   /* bytes of one argument: a script */
#define LIMIT_RESP_REQUEST (1u << 20) /* ... of all of them */
#define LIMIT_RESP_INLINE 8192u       /* ... of an inline request */
#define LIMIT_RESP_HEAD 32u           /* ... of a line that contains only a length */
#define LIMIT_RESP_ERROR 512          /* ... of an error message */
#define LIMIT_RESP_PATTERN 128        /* ... of a channel pattern */
#define LIMIT_RESP_PATTERNS 256       /* patterns subscribed by the clients of a node */
#define LIMIT_RESP_MATCH 4096         /* steps of matching a pattern with a name or channel */
#define LIMIT_RESP_SUBSCRIPTIONS 1024 /* channels and patterns of one connection */
#define LIMIT_RESP_WAIT_MS 86400000u  /* of HF.ACQUIRE */

/* One run of a script, which shares the node with other requests. */
#define LIMIT_SCRIPT_STEPS 500000           /* a few milliseconds of Lua */
#define LIMIT_SCRIPT_CPU_MS 20              /* for runs whose steps are slow */
#define LIMIT_SCRIPT_TURN_US 5000           /* all scripts, before other requests run */
#define LIMIT_SCRIPT_TURN_STEPS 500000      /* ... in steps, the same on every machine */
#define LIMIT_SCRIPT_MEMORY (4u << 20)      /* bytes */
#define LIMIT_SCRIPT_BLOCK (512u << 10)     /* ... of one string, or one part of a table */
#define LIMIT_SCRIPT_REPLY (1u << 20)       /* ... of a command's reply to a script */
#define LIMIT_SCRIPT_DEPTH 64               /* nesting of tables in a result */
#define LIMIT_SCRIPT_CACHE_BYTES (8u << 20) /* all compiled scripts of a node */

/* Tokens, event numbers, times and indexes stay below this (S3.2). */
#define LIMIT_NUMBER (UINT64_C(1) << 53)

/* The simulator, tests/sim/: reached within its minute, with small snapshots. */
#ifdef HOLDFAST_SIM_LIMITS
#undef LIMIT_FENCE_MARKS
#define LIMIT_FENCE_MARKS 24
#undef LIMIT_ENDED
#define LIMIT_ENDED 1024
#undef LIMIT_REQUESTS
#define LIMIT_REQUESTS 1024
#undef LIMIT_DRAWN_REQUESTS
#define LIMIT_DRAWN_REQUESTS 1024
#undef LIMIT_OPERATOR_REQUESTS
#define LIMIT_OPERATOR_REQUESTS 64
#undef LIMIT_OPERATOR_KEPT_MS
#define LIMIT_OPERATOR_KEPT_MS 20000u
#undef LIMIT_TRANSACTS
#define LIMIT_TRANSACTS 1024
#undef LIMIT_WALL_ROWS
#define LIMIT_WALL_ROWS 8
#endif

/* Only for tests/fuzz/fuzz_script.c: a few dozen commands reach every limit. */
#ifdef HOLDFAST_TINY_LIMITS
#undef LIMIT_SESSION_ENTRIES
#define LIMIT_SESSION_ENTRIES 8
#undef LIMIT_SESSION_UNACKED
#define LIMIT_SESSION_UNACKED 4
#undef LIMIT_SESSIONS
#define LIMIT_SESSIONS 24
#undef LIMIT_HOLDERS
#define LIMIT_HOLDERS 5
#undef LIMIT_QUEUE
#define LIMIT_QUEUE 8
#undef LIMIT_NODES
#define LIMIT_NODES 3
#undef LIMIT_FENCE_MARKS
#define LIMIT_FENCE_MARKS 4
#undef LIMIT_AUDIT
#define LIMIT_AUDIT 4
#undef LIMIT_ENDED
#define LIMIT_ENDED 6
#undef LIMIT_REQUESTS
#define LIMIT_REQUESTS 4
#undef LIMIT_DRAWN_REQUESTS
#define LIMIT_DRAWN_REQUESTS 3
#undef LIMIT_OPERATOR_REQUESTS
#define LIMIT_OPERATOR_REQUESTS 5
#undef LIMIT_OPERATOR_KEPT_MS
#define LIMIT_OPERATOR_KEPT_MS 600u
#undef LIMIT_TRANSACTS
#define LIMIT_TRANSACTS 4
#undef LIMIT_COUNTERS
#define LIMIT_COUNTERS 3
#undef LIMIT_SWEEP_SESSIONS
#define LIMIT_SWEEP_SESSIONS 2
#undef LIMIT_SWEEP_LOCKS
#define LIMIT_SWEEP_LOCKS 4
#undef LIMIT_SWEEP_VISITS
#define LIMIT_SWEEP_VISITS 6
#undef LIMIT_WAKE_STEPS
#define LIMIT_WAKE_STEPS 8
#undef LIMIT_PRUNE
#define LIMIT_PRUNE 2
#undef LIMIT_DEADLOCK_EDGES
#define LIMIT_DEADLOCK_EDGES 6
#undef LIMIT_DEADLOCK_VISITS
#define LIMIT_DEADLOCK_VISITS 24
#undef LIMIT_WALL_ROWS
#define LIMIT_WALL_ROWS 3
#undef LIMIT_ALERTS
#define LIMIT_ALERTS 3
#undef LIMIT_SINKS
#define LIMIT_SINKS 3
#undef LIMIT_TENANTS
#define LIMIT_TENANTS 4
#undef LIMIT_PRINCIPALS
#define LIMIT_PRINCIPALS 6
#undef LIMIT_CLUSTER_ADMINS
#define LIMIT_CLUSTER_ADMINS 3
#undef LIMIT_TOKENS
#define LIMIT_TOKENS 5
#undef LIMIT_PRINCIPAL_TOKENS
#define LIMIT_PRINCIPAL_TOKENS 3
#undef LIMIT_BARRED_SERIALS
#define LIMIT_BARRED_SERIALS 3
#endif

#endif
