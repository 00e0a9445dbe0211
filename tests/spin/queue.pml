/* The queue of a name (S6, S7): who is next, and does each waiter keep its place while connections,
 * nodes and leaders come and go?
 *
 * One lock, WAITERS requests, two nodes. A request is sent through node 0, and with a request id
 * perhaps again through node 1, whether or not the first connection is still there. Commands reach
 * the log late and in any order; each is tried again until it is answered, so one whose answer is
 * lost by a leader change is applied twice.
 *
 * Every run ends, since faults are counted and each duty is done once: what must happen in the end,
 * once the faults stop (`calm`) and a leader lives, is asserted where nothing more can happen.
 *
 * Mutants: NEW_PLACE, OVERTAKE, GRANT_TWICE, CANCEL_ANY, NO_RELEASE, NO_WAKE, WAKE_IN_MEMORY,
 * NO_REPEAT. */

#ifndef WAITERS
#define WAITERS 2
#endif
#ifndef ATTACHMENTS
#define ATTACHMENTS 2
#endif
#ifndef LOST_ANSWERS
#define LOST_ANSWERS 1
#endif
#ifndef OUTAGES
#define OUTAGES 1
#endif

#define EACH(w) w : 0 .. WAITERS - 1
#define S(w, k) (2 * (w) + (k))          /* the state of request w at node k */

#ifdef OVERTAKE
#define IS_BEFORE(x, y) (ticket[x] > ticket[y])
#else
#define IS_BEFORE(x, y) (ticket[x] < ticket[y])
#endif
#ifdef GRANT_TWICE
#define TWICE true
#else
#define TWICE false
#endif
#ifdef CANCEL_ANY
#define IS_LATEST(w, k) true
#else
#define IS_LATEST(w, k) (request_number[S(w, k)] == number[w])
#endif
#ifdef NO_RELEASE
#define NEVER_RELEASES true
#else
#define NEVER_RELEASES false
#endif

mtype = { out, waits, holds, ended };                       /* a request in the replicated state */
mtype = { no, requesting, parked, leaving, releasing, notified };   /* a request at its node */

/* The replicated state. */
mtype is[WAITERS] = out;
byte ticket[WAITERS];
byte tickets;
byte number[WAITERS];                    /* of the latest attachment (S7.1) */
byte node[WAITERS];
bool detached[WAITERS];
bool woken;                              /* handing over was left to the next entry (S2.1) */

/* The nodes. */
mtype request[2 * WAITERS] = no;
byte request_number[2 * WAITERS];
bool open[2 * WAITERS];                  /* the client's connection */
bool was_gone[2];                        /* it restarts: its earlier life is to be detached first */

hidden byte v, best;
hidden byte busy;

/* For the properties, and to bound the runs. */
bool has_id[WAITERS];
byte arrived[WAITERS];
byte lost_answers, outages;
bool orphan[WAITERS];                    /* its node died: nobody will release what it is given */
bool calm;

#define attached(w) (is[w] == waits && !detached[w])
#define is_served(w, k) (request[S(w, k)] == parked && open[S(w, k)] && request_number[S(w, k)] == number[w])

/* S6.1: the first in the queue that is attached, if nobody holds. */
inline hand_over()
{
    best = WAITERS;
    busy = false;
    for (EACH(v)) {
        if
        :: is[v] == holds -> busy = true
        :: attached(v) && (best == WAITERS || IS_BEFORE(v, best)) -> best = v
        :: else
        fi
    }
    woken = false;
    if
    :: (!busy || TWICE) && best < WAITERS ->
        for (EACH(v)) {
            assert(is[v] != holds);                                       /* one holder */
            assert(!attached(v) || arrived[v] >= arrived[best])           /* in order, by first request */
        }
        is[best] = holds
    :: else
    fi;
    best = 0; busy = false; v = 0
}

inline wake()
{
    if
    :: hand_over()
    :: woken = true
    fi
}

inline end_of(w)
{
    is[w] = ended; ticket[w] = 0; node[w] = 0; detached[w] = false;
    number[w] = 0; arrived[w] = 0; orphan[w] = false; has_id[w] = false;
    wake()
}

inline release(w)
{
    if
    :: is[w] == holds -> end_of(w)
    :: else
    fi
}

/* What a node learns of a command: its result, or nothing, and then it will send it again. */
inline answer(s, next)
{
    if
    :: request[s] = next
    :: lost_answers < LOST_ANSWERS && !calm -> lost_answers++; request_number[s] = 0
    fi
}

inline apply_acquire(w, k)
{
    if
    :: is[w] == out ->
        tickets++;
        ticket[w] = tickets; arrived[w] = tickets;
        is[w] = waits; number[w]++; node[w] = k;
        request_number[S(w, k)] = number[w];
        answer(S(w, k), parked);
        wake()
    :: is[w] == waits ->                                    /* S7.1: attached anew, in its place */
        number[w]++; node[w] = k; detached[w] = false;
#ifdef NEW_PLACE
        tickets++; ticket[w] = tickets;
#endif
        request_number[S(w, k)] = number[w];
        answer(S(w, k), parked);
#ifndef NO_WAKE                                             /* it may have been passed over */
        wake()
#endif
    :: is[w] == holds ->                                    /* S8.3: answered from the grant */
        request_number[S(w, k)] = number[w];
        answer(S(w, k), parked)
    :: is[w] == ended ->
        forget(w, k)
    fi;
    if                                                      /* the client left in the meantime */
    :: request[S(w, k)] == parked && !open[S(w, k)] -> request[S(w, k)] = leaving
    :: else
    fi
}

/* What the log says to whoever waits here: granted, ended or superseded. */
inline notify(w, k)
{
    if
    :: is[w] == holds && request_number[S(w, k)] == number[w] -> request[S(w, k)] = notified
    :: else -> request[S(w, k)] = no; open[S(w, k)] = false; request_number[S(w, k)] = 0
    fi
}

inline apply_leave(w, k)
{
    if
    :: is[w] == waits && !IS_LATEST(w, k) -> forget(w, k)   /* superseded: it does nothing */
    :: is[w] == waits && IS_LATEST(w, k) && has_id[w] ->
        assert(!is_served(w, 1 - k));
        detached[w] = true;
        if
        :: forget(w, k)
        :: lost_answers < LOST_ANSWERS && !calm -> lost_answers++
        fi;
        wake()
    :: is[w] == waits && IS_LATEST(w, k) && !has_id[w] ->
        end_of(w);
        if
        :: forget(w, k)
        :: lost_answers < LOST_ANSWERS && !calm -> lost_answers++
        fi
    :: is[w] == holds && !has_id[w] && !NEVER_RELEASES -> request[S(w, k)] = releasing
    :: else -> forget(w, k)
    fi
}

inline forget(w, k)
{
    request[S(w, k)] = no; open[S(w, k)] = false; request_number[S(w, k)] = 0
}

/* S7.3: the waiters of node k are detached. One that lives sees it, and sends all of them again. */
inline gone(k)
{
    for (EACH(v)) {
        if
        :: is[v] == waits && node[v] == k -> detached[v] = true
        :: else
        fi;
#ifndef NO_REPEAT
        if
        :: request[S(v, k)] == parked -> request[S(v, k)] = requesting; request_number[S(v, k)] = 0
        :: else
        fi
#endif
    }
    v = 0;
    wake()
}

/* The node dies, and with it what it knew. */
inline crash(k)
{
    for (EACH(v)) {
        orphan[v] = orphan[v] || request[S(v, k)] != no;
        forget(v, k)
    }
    v = 0;
    was_gone[k] = true
}

#define nobody_requests(w) (request[S(w, 0)] == no && request[S(w, 1)] == no)
#define is_left(w) (is[w] == holds && (has_id[w] || orphan[w]) && nobody_requests(w))

#define notified_somewhere(w) (request[S(w, 0)] == notified || request[S(w, 1)] == notified)
#define requested_somewhere(w) (request[S(w, 0)] == requesting || request[S(w, 1)] == requesting)

/* All that may happen to request w at node k. */
proctype at_node(byte w; byte k)
{
end:
    do
       /* the client sends the request, or repeats it */
    :: atomic { !calm && request[S(w, k)] == no && !was_gone[k] && number[w] < ATTACHMENTS && !notified_somewhere(w) &&
                ((k == 0 && is[w] == out) || (has_id[w] && (is[w] == waits || is[w] == holds))) ->
                request[S(w, k)] = requesting; open[S(w, k)] = true }
    :: atomic { request[S(w, k)] == requesting -> apply_acquire(w, k) }
    :: atomic { request[S(w, k)] == parked &&
                (is[w] == holds || is[w] == ended || request_number[S(w, k)] != number[w]) ->
                notify(w, k) }
       /* the client closes its connection */
    :: atomic { !calm && open[S(w, k)] && request[S(w, k)] != notified -> open[S(w, k)] = false;
                request[S(w, k)] = (request[S(w, k)] == parked -> leaving : request[S(w, k)]) }
    :: atomic { request[S(w, k)] == leaving -> apply_leave(w, k) }
    :: atomic { request[S(w, k)] == releasing -> release(w); forget(w, k) }
       /* the client is done; or it dies while it holds */
    :: atomic { !calm && request[S(w, k)] == notified -> release(w); forget(w, k) }
    :: atomic { !calm && request[S(w, k)] == notified -> orphan[w] = true; forget(w, k) }
    od
}

/* What time alone does to request w. */
proctype clock(byte w)
{
end:
    do
    :: atomic { is_left(w) -> end_of(w) }                   /* nobody renews it */
    :: atomic { is[w] == waits && detached[w] && !requested_somewhere(w) ->
                assert(!is_served(w, 0) && !is_served(w, 1));
                end_of(w) }                                 /* S7.3: 10 s are over */
    od
}

/* Node k is out of touch for a while, or dies and comes back. */
proctype outage(byte k)
{
end:
    do
    :: atomic { !calm && outages < OUTAGES -> outages++; gone(k) }
    :: atomic { !calm && outages < OUTAGES -> outages++; crash(k) }
    :: atomic { was_gone[k] -> was_gone[k] = false; gone(k) }
    od
}

proctype leader()
{
end:
    do
    :: atomic { woken -> hand_over() }
#ifdef WAKE_IN_MEMORY
    :: atomic { !calm && woken -> woken = false }           /* the next leader knows nothing of it */
#endif
    :: atomic { !calm -> calm = true }
    od
}

/* The end of every run. */
proctype outcome()
{
    atomic {
        timeout ->
        busy = false;
        for (EACH(v)) {
            busy = busy || is[v] == holds;
            assert(is[v] != holds || notified_somewhere(v));    /* notified, or released */
            assert(is[v] != waits || is_served(v, 0) || is_served(v, 1))
        }
        for (EACH(v)) {
            assert(busy || !attached(v))                    /* a free lock is given */
        }
    }
}

init {
    atomic {
        for (EACH(v)) {
            if
            :: has_id[v] = true
            :: has_id[v] = false
            fi
        }
        v = 0;
        do
        :: v < WAITERS -> run at_node(v, 0); run at_node(v, 1); run clock(v); v++
        :: else -> v = 0; break
        od;
        run outage(0); run outage(1); run leader(); run outcome()
    }
}
