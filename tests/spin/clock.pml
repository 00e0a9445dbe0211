/* The cluster clock (S1): may any stamp come too early or too late for what an earlier one promised?
 *
 * Three nodes with clocks of their own rates, one log. The log is an agreed sequence of stamps; a
 * leader change keeps or loses the batch that was in flight. Leaders that were deposed do not know
 * it: their clocks run on, and they go on telling their time. One step is one line of the loop at
 * the end; what it takes is a function above.
 *
 * A client's clock makes R units a tick, a node's R-1 to R+1: that is S1.6, made visible.
 *
 * Mutants: LOCAL_CLOCK, LOG_ONLY, HEARD_ONLY, ANY_TERM, NO_FLOOR, NO_TICKS. */

#ifndef R
#define R 2
#endif
#ifndef HORIZON
#define HORIZON 3    /* ticks of real time */
#endif
#ifndef TERMS
#define TERMS 3
#endif
#ifndef IDLE
#define IDLE 1       /* S1.4: so many ticks with a leader, and something is logged */
#endif

#ifdef NO_TICKS
#define NO_TICK_IS_DUE true
#else
#define NO_TICK_IS_DUE (!watching)
#endif

#define N 3
#define NOBODY N

byte now;            /* real time, in ticks */
byte rate[N];
byte clock[N];       /* leading: cluster time, running. Else the highest heard (S1.2) ... */
byte clock_term[N];  /* ... and the term of the leader whose clock that was */
bool lags[N];        /* it has missed one */
bool leads[N];       /* it believes so; the one of the latest term is right */

byte leader = NOBODY;
byte term;
bool serving;        /* its `lead` has been applied (S1.3) */
byte lead_stamp;

byte last;           /* the highest committed stamp, and its term */
byte last_term;
byte idle;

bool in_flight;      /* one batch; after a leader change it is in limbo until the next `lead` */
byte batch, batch_term, batch_now;
bool kept;           /* the new leader's log holds it */

/* The watcher: the first batch grants a lease, and all later stamps are measured against it. */
bool watching;
bool restarted;      /* once is enough */
byte watch, watch_now;
byte led;            /* ticks since then in which a leader reached a majority */
byte excused;        /* elections of nodes that had missed heartbeats since the last commit */

inline pick(x)
{
    if
    :: x = 0
    :: x = 1
    :: x = 2
    fi
}

inline hear(j, t, ms)
{
    if
#ifdef ANY_TERM      /* the highest time wins, whoever's clock it was */
    :: !leads[j] && ms > clock[j] -> clock[j] = ms
#else
    :: t > clock_term[j] -> clock_term[j] = t; clock[j] = ms; leads[j] = false
    :: t == clock_term[j] && ms > clock[j] -> clock[j] = ms
#endif
    :: else
    fi
}

/* What every stamp must satisfy when it is made. */
inline check(stamp)
{
    assert(stamp >= last);
    if
    :: watching ->
        assert(stamp <= watch + (R + 1) * (now - watch_now));     /* no lease is cut short */
        /* nor is idle time lost, but for what S1.4 leaves to a node that was not reached */
        assert(stamp + excused * IDLE * (R - 1) >= watch + (R - 1) * led)
    :: else
    fi
}

/* j is elected. Votes teach no time (decision 0010). */
inline elect(j)
{
    term++;
    excused = excused + (lags[j] && watching);
    lags[j] = false;
    leader = j;
    leads[j] = true;
    serving = false;
    kept = false;
    if
    :: in_flight -> kept = true
    :: true
    fi;
#ifdef LOCAL_CLOCK
    if
    :: clock[j] = 0                              /* its own clock shows anything */
    :: clock[j] = (R + 1) * HORIZON
    fi;
#else
#ifdef LOG_ONLY
    clock[j] = 0; clock_term[j] = 0;
#endif
#ifndef HEARD_ONLY
    hear_log(j, last_term, last);
    if
    :: kept -> hear_log(j, batch_term, batch)
    :: else
    fi;
#endif
#endif
    clock_term[j] = term;
    lead_stamp = clock[j];
    check(lead_stamp)
}

/* A stamp in the log is heard like any other time, and is a floor in any case. */
inline hear_log(j, t, ms)
{
    if
#ifndef ANY_TERM
    :: t > clock_term[j] -> clock[j] = ms
#ifdef NO_FLOOR
    :: t == clock_term[j] && ms > clock[j] -> clock[j] = ms
#else
    :: t <= clock_term[j] && ms > clock[j] -> clock[j] = ms
#endif
#else
    :: ms > clock[j] -> clock[j] = ms
#endif
    :: else
    fi
}

/* Whoever is elected has all that is committed. */
inline note_commit(stamp, t)
{
    assert(stamp >= last);                                        /* S1.1: never back */
    last = stamp; last_term = t; idle = 0;
    lags[0] = false; lags[1] = false; lags[2] = false
}

inline forget_batch()
{
    in_flight = false; kept = false; batch = 0; batch_term = 0; batch_now = 0
}

inline commit_batch()
{
    note_commit(batch, batch_term);
    watching = true;
    watch = batch;
    watch_now = batch_now;
    forget_batch()
}

inline commit_lead()
{
    if
    :: kept -> commit_batch()
    :: else -> forget_batch()                    /* overwritten, for good */
    fi;
    note_commit(lead_stamp, term);
    lead_stamp = 0;
    serving = true
}

inline seal()
{
    batch = clock[leader];
    batch_term = term;
    batch_now = now;
    in_flight = true;
    check(batch)
}

inline run_clocks()
{
    now++;
    for (i : 0 .. N - 1) {
        if
        :: leads[i] -> clock[i] = clock[i] + rate[i]
        :: else
        fi
    }
}

init {
    byte i, a, b;
    atomic {
        pick(a);                                 /* the nodes are alike: how many are slow is all */
        for (i : 0 .. N - 1) {
            rate[i] = (i < a -> R - 1 : R + 1)
        }
        i = 0; a = 0
    }
    do
    :: atomic {                                  /* an election, when a leader is missed or not heard */
        term < TERMS && now < HORIZON ->
        pick(a);
        if
        :: a != leader -> elect(a)
        :: else
        fi;
        a = 0
      }
    :: atomic { leader != NOBODY && !serving -> commit_lead() }
    :: atomic { serving && leader != NOBODY && !in_flight && !watching -> seal() }
    :: atomic { serving && leader != NOBODY && !in_flight && watching -> check(clock[leader]);
                note_commit(clock[leader], term) }  /* or a tick (S1.4), at once */
    :: atomic { serving && leader != NOBODY && in_flight -> commit_batch() }
    :: atomic {                                  /* a tick in which the leader reaches a majority */
        leader != NOBODY && serving && !in_flight && now < HORIZON && (idle < IDLE || NO_TICK_IS_DUE) ->
        run_clocks();
        i = 0;
        idle = (idle < IDLE -> idle + 1 : idle);
        led = led + watching;
        pick(a);                                 /* one other hears it, or by a message below both */
        a = (a == leader -> (leader + 1) % N : a);
        hear(a, clock_term[leader], clock[leader]);
        lags[a] = false;
        lags[N - leader - a] = true;             /* 0 + 1 + 2 = N: the third one */
        a = 0
      }
    :: atomic { now < HORIZON -> run_clocks(); i = 0 }   /* one in which nobody is heard */
    :: atomic {                                  /* a leader tells its time, a deposed one too */
        pick(a); pick(b);
        if
        :: a != b && leads[a] && b != leader ->
            hear(b, clock_term[a], clock[a]);
            lags[b] = lags[b] && a != leader
        :: else
        fi;
        a = 0; b = 0
      }
    :: atomic { leader != NOBODY -> leader = NOBODY; serving = false } /* cut off: it does not know */
    :: atomic {                                  /* a node restarts: what it heard is forgotten */
        watching && !restarted ->
        pick(a);
        if
        :: a == leader -> leader = NOBODY; serving = false
        :: else
        fi;
        leads[a] = false; clock[a] = 0; clock_term[a] = 0;
        lags[a] = true; restarted = true; a = 0
      }
    od
}
