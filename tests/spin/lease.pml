/* Leases (S3, S4, S5): does a client that believes it holds the lock hold it?
 *
 * One lock, two clients, messages that are late, lost or doubled, and leaders that come and go. The
 * cluster clock is what clock.pml shows of it: it runs R-1 to R+1 units a tick while there is a
 * leader, stands while there is none, and a new leader may have missed some of it, but no stamp in
 * its log. A client's clock makes R units a tick. The TTL is so long that a fast leader needs a tick
 * less for it than a client.
 *
 * The log is an agreed sequence. One batch is in flight; a leader change keeps or loses it.
 *
 * Mutants: FROM_ANSWER, NO_MARGIN, RENEW_OLD_ID, STAMP_AT_OPEN, EARLY_ANSWER, LOCAL_EXPIRY,
 * TTL_RESET, STALE_EXPIRY, ANY_OWNER, LEADERS_TOKEN. */

#ifndef R
#define R 2
#endif
#ifndef HORIZON
#define HORIZON 4        /* ticks of real time */
#endif
#ifndef GRANTS
#define GRANTS 2
#endif
#define TTL (R * (R + 1))

#ifdef NO_MARGIN
#define SAFE TTL
#else
#define SAFE (TTL - TTL / R)                     /* S5.2 */
#endif
#ifdef LOCAL_EXPIRY
#define SKEW (R + 1)     /* of the clock of the node that decides */
#else
#define SKEW 0
#endif
#ifdef ANY_OWNER
#define IS_OWNER (holder != FREE)
#else
#define IS_OWNER (holder == who && token == of_token)
#endif
#ifdef RENEW_OLD_ID
#define IS_AWAITED (requests[who] == kind)
#else
#define IS_AWAITED (requests[who] == kind && id[who] == of_id && sent[who] == of_sent)
#endif
#ifdef STALE_EXPIRY
#define STALE true
#else
#define STALE false      /* refused: its term is over */
#endif

#define FREE 2
mtype = { none, acquire, renew, release, sweep };

byte now;                /* real time, in ticks */
byte time;               /* cluster time */
bool led;                /* there is a leader, and it serves */

/* The truth: what the log says. */
byte holder = FREE;
byte holder_id;          /* of the acquire that was granted (S8) */
byte token, deadline;
byte given, highest;     /* C of S3; what was given so far */
byte last;               /* stamp */

/* For the properties only. */
byte alive_now;          /* when the batch was sealed that last prolonged the lease */
byte ran;                /* cluster time since then in ticks with a leader that commits */
byte missed;             /* and what new leaders missed of it */

/* The batch in flight. */
mtype kind = none;
byte who, stamp, sealed_now, of_token, of_sent, of_id;
byte opened;             /* STAMP_AT_OPEN: when its first command may have come */
bool stale;              /* STALE_EXPIRY: a deposed leader has yet to append what it decided */

/* The clients. */
mtype requests[2] = none;    /* under way, to be taken into batches as often as the network likes */
byte sent[2];
byte id[2];              /* of its acquire; a renewal is known by its sending */
bool answered[2];        /* under way back */
byte answer_token[2];
bool has[2];             /* it was notified that it holds */
byte has_token[2];
byte counts_from[2];     /* S5.1 */
bool leaves[2];          /* a release under way; nobody waits for it */
byte leaves_token[2];

#define believes(c) (has[c] && R * now < R * counts_from[c] + SAFE)
#define is_true(c) (holder == c && token == has_token[c] && deadline > time)

inline end_lease()
{
    holder = FREE; holder_id = 0; token = 0; deadline = 0; alive_now = 0; ran = 0; missed = 0
}

inline prolong()
{
    deadline = stamp + TTL; alive_now = sealed_now; ran = 0; missed = 0
}

/* S1.7: first what is due, at a stamp that was made at `at_now`. */
inline expire(at, at_now)
{
    if
    :: holder != FREE && deadline <= at + SKEW ->
        assert((R + 1) * (at_now - alive_now) >= TTL);            /* no lease is cut short */
        end_lease()
    :: else
    fi
}

inline grant()
{
    holder = who;
    holder_id = of_id;
    given++;
    token = given;
    assert(token > highest);                                      /* S3.1 */
    highest = token;
    prolong()
}

inline answer()
{
    if
    :: IS_AWAITED -> answered[who] = true; answer_token[who] = token
    :: else
    fi
}

inline forget_batch()
{
    kind = none; who = 0; stamp = 0; sealed_now = 0; of_token = 0; of_sent = 0; of_id = 0
}

inline apply()
{
    expire(stamp, sealed_now);
    last = stamp;
    if
    :: kind == acquire && holder == FREE && given < GRANTS -> grant(); answer()
    :: kind == acquire && holder == who && holder_id == of_id -> answer() /* S8.3 */
    :: kind == renew && holder == who && token == of_token -> prolong(); answer()
    :: kind == release && IS_OWNER -> end_lease()
    :: else
    fi;
    forget_batch();
#ifdef STAMP_AT_OPEN
    opened = time
#endif
}

inline seal(k, c, t)
{
    kind = k; who = c; of_token = t; of_sent = sent[c]; of_id = id[c];
    stamp = time; sealed_now = now;
#ifdef STAMP_AT_OPEN
    stamp = opened;
#endif
#ifdef EARLY_ANSWER
    if
    :: k == acquire && holder == FREE ->
        answered[c] = true; answer_token[c] = given + 1
    :: else
    fi
#endif
}

/* A new leader: the batch in limbo is kept or lost, and `lead` is applied (S1.3). */
inline lead()
{
    floor = last;
    if
    :: kind != none -> floor = stamp; apply()
    :: stale = (kind == sweep && STALE); forget_batch()
    fi;
    if
    :: missed = missed + (holder != FREE -> time - floor : 0); time = floor
    :: skip
    fi;
#ifdef TTL_RESET
    deadline = (holder != FREE -> time + TTL : 0);                /* etcd#9888 */
#endif
#ifdef LEADERS_TOKEN
    given = 0;
#endif
#ifdef STAMP_AT_OPEN
    opened = time;
#endif
    floor = 0;
    expire(time, now);
    last = time;
    led = true
}

inline run_clock()
{
    now++;
    if
    :: led && kind == none ->
        assert(holder == FREE || ran < TTL + missed);             /* nor does it stay */
        if
        :: time = time + R - 1; ran = ran + (holder != FREE -> R - 1 : 0)
        :: time = time + R + 1; ran = ran + (holder != FREE -> R + 1 : 0)
        fi
    :: led && kind != none ->
        if
        :: time = time + R - 1
        :: time = time + R + 1
        fi
    :: else
    fi
}

inline client(c)
{
    if
    :: !has[c] && requests[c] == none -> requests[c] = acquire; sent[c] = now; id[c] = (id[c] + 1) % 4
    :: has[c] && requests[c] == none -> requests[c] = renew; sent[c] = now
    :: requests[c] == renew -> requests[c] = none; sent[c] = 0; answered[c] = false; answer_token[c] = 0
#ifdef RENEW_OLD_ID
    :: requests[c] == renew -> sent[c] = now
#endif
    :: answered[c] ->
        has[c] = true;
        has_token[c] = answer_token[c];
        counts_from[c] = sent[c];
#ifdef FROM_ANSWER
        counts_from[c] = now;
#endif
        requests[c] = none; sent[c] = 0; answered[c] = false; answer_token[c] = 0
    :: has[c] && !leaves[c] ->                                    /* done with it, or LOST */
        leaves[c] = true;
        leaves_token[c] = has_token[c];
        has[c] = false; has_token[c] = 0; counts_from[c] = 0;
        requests[c] = none; sent[c] = 0; answered[c] = false; answer_token[c] = 0
    :: leaves[c] -> leaves[c] = false; leaves_token[c] = 0        /* it was lost, or comes no more */
    fi
}

inline leader(c)
{
    if
    :: requests[c] != none -> seal(requests[c], c, has_token[c])
    :: leaves[c] -> seal(release, c, leaves_token[c])
    :: else
    fi
}

#define due (holder != FREE && deadline <= time)

init {
    byte floor;
    do
    :: atomic { client(0) }
    :: atomic { client(1) }
    :: atomic { led && kind == none -> leader(0) }
    :: atomic { led && kind == none -> leader(1) }
    :: atomic { led && kind == none && due -> seal(sweep, 0, 0) }
    :: atomic { led && kind != none -> apply() }
    :: atomic { now < HORIZON && !(led && kind == none && due) -> run_clock() }
    :: atomic { led -> led = false }
    :: atomic { !led -> lead() }
    :: atomic { stale -> stale = false;
        if
        :: holder != FREE -> end_lease()
        :: else
        fi }
    :: atomic { believes(0) && !is_true(0) -> assert(false) }
    :: atomic { believes(1) && !is_true(1) -> assert(false) }
    od
}
