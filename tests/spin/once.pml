/* Exactly once (S8): does a request that is tried again take effect once, and is what was promised
 * not to happen never done?
 *
 * One client in a session, its requests numbered by `seq`, two attempts under way at a time: the
 * second may be a retry through another node, or the first a late one of an earlier request. The log
 * is an agreed sequence; one entry is in flight. When its leader falls the entry is in limbo: each
 * later leader has it in its log or not, until the `lead` of one of them is committed.
 *
 * Mutants: NO_ID, LEADERS_CACHE, FORGETS_ACKED, ACKS_ITSELF, DEPOSED_SAYS_NO, CUT_SAYS_NO. */

#ifndef REQUESTS
#define REQUESTS 2
#endif
#define NONE 2

mtype = { idle, network, flight, done, refused };

/* The replicated state, for requests 1 to REQUESTS. */
byte effects[REQUESTS + 1];
bool reply[REQUESTS + 1];
byte acked;

/* The log's end. */
byte entry = NONE;       /* the attempt in flight, or in limbo, and its seq */
byte entry_seq;
bool led, serving;
bool kept;               /* the new leader's log has the entry in limbo */

/* The client and its attempts. */
byte seq = 1;
mtype at[2] = idle;
byte at_seq[2];
bool is_stale[2];        /* the answer is `seq_acknowledged` */
bool unknown;            /* some attempt of this seq may have been submitted, for all it knows */
bool given_up[REQUESTS + 1];

inline apply(a)
{
    s = entry_seq;
    is_stale[a] = false;
    assert(!given_up[s]);                        /* S8.4: 503 is a promise */
    if                                           /* S8.2: `acked_through` comes with each request */
    :: s > acked + 1 ->
        acked = s - 1;
        reply[acked] = false
    :: else
    fi;
    if
#ifdef NO_ID
    :: true -> effects[s]++
#else
#ifndef FORGETS_ACKED
    :: s <= acked -> is_stale[a] = true
#endif
    :: s > acked && reply[s]
#ifdef FORGETS_ACKED
    :: s <= acked && reply[s]
    :: s <= acked && !reply[s] -> effects[s]++
#endif
    :: s > acked && !reply[s] -> effects[s]++; reply[s] = true
#endif
    fi;
#ifdef ACKS_ITSELF
    acked = (s > acked -> s : acked);
#endif
    assert(effects[s] <= 1);
    s = 0;
    at[a] = (at[a] == flight -> done : at[a])
}

/* At the old leader's place another entry was committed: it was not done, and never will be. */
inline overwritten(a)
{
    at[a] = (at[a] == flight -> refused : at[a])
}

inline client_receives(a)
{
    if
    :: at[a] == done && at_seq[a] == seq ->
        assert(effects[seq] == 1 && !is_stale[a]);
        next()
    :: at[a] == refused && at_seq[a] == seq ->   /* it may try again, or believe it */
        if
        :: at[1 - a] == idle && !unknown -> given_up[seq] = true; next()
        :: true
        fi
    :: else
    fi;
    at[a] = idle; at_seq[a] = 0; is_stale[a] = false
}

inline next()
{
    seq++;
    unknown = false
}

init {
    byte s;
    do
    :: atomic { seq <= REQUESTS && at[0] == idle && entry != 0 -> at[0] = network; at_seq[0] = seq }
    :: atomic { seq <= REQUESTS && at[1] == idle && entry != 1 -> at[1] = network; at_seq[1] = seq }
    :: atomic { at[0] == done || at[0] == refused -> client_receives(0) }
    :: atomic { at[1] == done || at[1] == refused -> client_receives(1) }
       /* an answer is lost: the client does not know */
    :: atomic { at[0] == done || at[0] == refused ->
        unknown = (at_seq[0] == seq -> true : unknown); at[0] = idle; at_seq[0] = 0; is_stale[0] = false }
    :: atomic { at[1] == done || at[1] == refused ->
        unknown = (at_seq[1] == seq -> true : unknown); at[1] = idle; at_seq[1] = 0; is_stale[1] = false }
       /* no leader is known: refused, nothing was submitted */
    :: atomic { at[0] == network -> at[0] = refused }
    :: atomic { at[1] == network -> at[1] = refused }
       /* the leader */
    :: atomic { serving && entry == NONE && at[0] == network -> at[0] = flight; entry = 0; entry_seq = at_seq[0] }
    :: atomic { serving && entry == NONE && at[1] == network -> at[1] = flight; entry = 1; entry_seq = at_seq[1] }
    :: atomic { serving && entry != NONE -> apply(entry); entry = NONE; entry_seq = 0 }
    :: atomic { led -> led = false; serving = false; kept = false;
#ifdef DEPOSED_SAYS_NO
        if
        :: entry != NONE && at[entry] == flight -> at[entry] = refused
        :: else
        fi
#endif
      }
    :: atomic { !led -> led = true;
        if
        :: entry != NONE -> kept = true
        :: kept = false
        fi }
#ifdef CUT_SAYS_NO       /* docs/decisions/0006: the old leader's log was cut, it says no */
    :: atomic { led && !serving && !kept && entry != NONE && at[entry] == flight -> at[entry] = refused }
#endif
    :: atomic { led && !serving ->               /* its `lead` is committed */
        if
        :: kept -> apply(entry)
        :: !kept && entry != NONE -> overwritten(entry)
        :: else
        fi;
        entry = NONE; entry_seq = 0; kept = false; serving = true;
#ifdef LEADERS_CACHE
        reply[1] = false; reply[REQUESTS] = false
#endif
      }
    od
}
