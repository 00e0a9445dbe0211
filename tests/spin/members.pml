/* Elections and replication while the members change (E1, E3, E5, E13, E15, E16, E23 of docs/ENGINE.md): there
 * is one leader a term and one log, and a leader can always be elected.
 *
 * SERVERS servers; VOTERS is the set of those that vote at first, the others are learners. Each has a log in
 * memory and a durable part of it; term and vote are always durable (E1). A server acts by the newest
 * configuration in its log, committed or not. A change promotes a learner, demotes a voter, or removes a voter
 * for good.
 *
 * A message and its answer are one step, so a cut link or a lost message is a step that does not happen. Entries
 * are sent before they are durable at the leader. A power cut loses what is not durable and all that is volatile;
 * it may hit any server at any time, CUTS times in all. There is no pre-vote: every voter may campaign at any
 * time and no server ignores a candidate, so there are more elections than in the service.
 *
 * An entry is its term and its content: a configuration, or the command with which a leader begins, which names
 * the leader and its life. As in Raft, a follower compares terms only.
 *
 * SAFETY_ONLY leaves out the check that a leader can be elected. Mutants: SAME_TERM, NO_OWN_VOTE,
 * LEARNER_REFUSES, SELF_CHANGE, DEMOTION_SENT, EARLY_CHANGE, TWO_CHANGES, COUNTS_MEMORY, ACKS_MEMORY,
 * VOTE_IN_MEMORY. */

#ifndef SERVERS
#define SERVERS 2
#endif
#ifndef VOTERS
#define VOTERS 1
#endif
#ifndef ENTRIES
#define ENTRIES 3
#endif
#ifndef TERMS
#define TERMS 3
#endif
#ifndef CUTS
#define CUTS 1
#endif

#ifdef SAME_TERM
#define RAISES_TERM false
#else
#define RAISES_TERM true
#endif
#ifdef NO_OWN_VOTE
#define OWN_VOTE(s) 0
#else
#define OWN_VOTE(s) (s + 1)
#endif
#ifdef LEARNER_REFUSES
#define MAY_VOTE(s) is_voter(s, s)
#else
#define MAY_VOTE(s) is_member(s, s)          /* also as a learner */
#endif
#ifdef SELF_CHANGE
#define MAY_CHANGE(s, f) true
#else
#define MAY_CHANGE(s, f) (s != f)
#endif
#ifdef DEMOTION_SENT
#define WITHHOLDS false
#else
#define WITHHOLDS true
#endif
#ifdef EARLY_CHANGE
#define HAS_COMMITTED(s) true
#else
#define HAS_COMMITTED(s) (commit[s] > 0 && term_at(s, commit[s] - 1) == term[s])
#endif
#ifdef TWO_CHANGES
#define IS_SETTLED(s) true
#else
#define IS_SETTLED(s) (conf_end[s] <= commit[s])
#endif
#ifdef COUNTS_MEMORY
#define OWN_MATCH(s) length[s]
#else
#define OWN_MATCH(s) durable[s]
#endif
#ifdef ACKS_MEMORY
#define ACKED(s) length[s]
#else
#define ACKED(s) durable[s]
#endif
#ifdef VOTE_IN_MEMORY
#define KEPT_VOTE(s) 0
#else
#define KEPT_VOTE(s) vote[s]
#endif

#define BIT(s) (1 << (s))
#define ALL (BIT(SERVERS) - 1)
#define COUNT(set) (((set) & 1) + (((set) >> 1) & 1) + (((set) >> 2) & 1) + (((set) >> 3) & 1))
#define IS_MAJORITY(set, voters) (2 * COUNT((set) & (voters)) > COUNT(voters))

/* What an entry holds: members and voters of a configuration, or a command, which has no members. */
#define CONFIGURATION(members, voters) ((members) * 16 + (voters))
#define COMMAND(s) (SERVERS * lives[s] + s)
#define voters_of(conf) ((conf) & 15)
#define members_of(conf) ((conf) >> 4)

mtype = { follower, candidate, leader };

/* Durable. */
byte term[SERVERS];
byte vote[SERVERS];                      /* id + 1, 0 is nobody */
byte entry_term[SERVERS * ENTRIES];
byte entry_holds[SERVERS * ENTRIES];
byte durable[SERVERS];                   /* so many entries */

/* Volatile. */
mtype is[SERVERS] = follower;
byte length[SERVERS];
byte votes[SERVERS];                     /* of a candidate, a set */
byte commit[SERVERS];                    /* of a leader */
byte match[SERVERS * SERVERS];           /* of a leader, by follower */

/* Follows from the log. */
byte conf[SERVERS] = CONFIGURATION(ALL, VOTERS);
byte conf_end[SERVERS];                  /* it is entry conf_end - 1; 0: the first configuration */

/* For the properties, and to bound the runs. */
byte leader_of[TERMS + 1];               /* id + 1 */
byte committed;
byte committed_term[ENTRIES];            /* of the entry */
byte committed_holds[ENTRIES];
byte committed_in[ENTRIES];              /* the term of the leader that committed it first */
byte lives[SERVERS];
byte cuts;

hidden byte i, j, k, limit, set, earlier;
hidden byte gets[SERVERS];               /* whose votes it would get */
hidden byte settled, settled_end;        /* the newest committed configuration */
hidden byte is_enough, can_elect;

/* The properties. A variable each, because spin prints the text of an assertion that fails. */
hidden byte one_leader_a_term, entries_agree, commits_agree, leader_has_commits, leader_can_be_elected;

#define at(s, n) ((s) * ENTRIES + (n))
#define term_at(s, n) entry_term[at(s, n)]
#define holds_at(s, n) entry_holds[at(s, n)]
#define is_voter(s, t) ((voters_of(conf[t]) & BIT(s)) != 0)    /* s, by the configuration of t */
#define is_member(s, t) ((members_of(conf[t]) & BIT(s)) != 0)
#define is_only_voter(s) (voters_of(conf[s]) == BIT(s))
#define last_term(s) (length[s] == 0 -> 0 : term_at(s, length[s] - 1))
#define is_up_to_date(s, f) \
    (last_term(s) > last_term(f) || (last_term(s) == last_term(f) && length[s] >= length[f]))

/* The configuration in force, after its log has changed. */
inline find_conf(s)
{
    conf[s] = CONFIGURATION(ALL, VOTERS);
    conf_end[s] = 0;
    for (j : 0 .. ENTRIES - 1) {
        if
        :: j < length[s] && members_of(holds_at(s, j)) != 0 -> conf[s] = holds_at(s, j); conf_end[s] = j + 1
        :: else
        fi
    }
    j = 0
}

inline forget(s)
{
    votes[s] = 0;
    commit[s] = 0;
    for (j : 0 .. SERVERS - 1) {
        match[s * SERVERS + j] = 0
    }
    j = 0
}

inline truncate(s, n)
{
    if
    :: length[s] > n ->
        for (j : 0 .. ENTRIES - 1) {
            if
            :: j >= n -> term_at(s, j) = 0; holds_at(s, j) = 0
            :: else
            fi
        }
        length[s] = n
    :: else
    fi;
    durable[s] = (durable[s] > n -> n : durable[s]);
    j = 0
}

inline raise_term(s, t)
{
    term[s] = t;
    vote[s] = 0;
    is[s] = follower;
    forget(s)
}

/* Two entries of one index and term are equal. */
inline check_logs()
{
    for (i : 0 .. SERVERS - 1) {
        for (j : 0 .. ENTRIES - 1) {
            for (k : 0 .. SERVERS - 1) {
                entries_agree = (j >= length[i] || j >= length[k] || term_at(i, j) != term_at(k, j) ||
                                 holds_at(i, j) == holds_at(k, j));
                assert(entries_agree)
            }
        }
    }
    i = 0; j = 0; k = 0
}

inline append(s, what)
{
    term_at(s, length[s]) = term[s];
    holds_at(s, length[s]) = what;
    length[s]++;
    find_conf(s);
    check_logs()
}

/* What is committed stays, whoever commits. */
inline commit_up_to(s, n)
{
    commit[s] = n;
    for (j : 0 .. ENTRIES - 1) {
        if
        :: j < n && j < committed ->
            commits_agree = (committed_term[j] == term_at(s, j) && committed_holds[j] == holds_at(s, j));
            assert(commits_agree)
        :: j < n && j >= committed ->
            committed_term[j] = term_at(s, j);
            committed_holds[j] = holds_at(s, j);
            committed_in[j] = term[s];
            committed = j + 1
        :: else
        fi
    }
    j = 0;
    if                                                                    /* E8: it is out */
    :: conf_end[s] <= n && !is_voter(s, s) -> is[s] = follower; forget(s)
    :: else
    fi
}

/* The highest entry of its own term that a majority of its voters has. */
inline commit_what_is_stored(s)
{
    k = 0;
    for (i : 0 .. ENTRIES - 1) {
        set = 0;
        for (j : 0 .. SERVERS - 1) {
            set = set | ((j == s -> OWN_MATCH(s) : match[s * SERVERS + j]) > i -> BIT(j) : 0)
        }
        if
        :: i < length[s] && term_at(s, i) == term[s] && IS_MAJORITY(set, voters_of(conf[s])) -> k = i + 1
        :: else
        fi
    }
    i = 0; j = 0; set = 0;
    if
    :: k > commit[s] -> commit_up_to(s, k)
    :: else
    fi;
    k = 0
}

inline lead(s)
{
    is[s] = leader;
    forget(s);
    one_leader_a_term = (leader_of[term[s]] == 0 || leader_of[term[s]] == s + 1);
    assert(one_leader_a_term);
    leader_of[term[s]] = s + 1;
    for (j : 0 .. ENTRIES - 1) {
        leader_has_commits = (j >= committed || committed_in[j] >= term[s] ||
                              (j < length[s] && committed_term[j] == term_at(s, j) &&
                               committed_holds[j] == holds_at(s, j)));
        assert(leader_has_commits)
    }
    j = 0;
    if
    :: is_only_voter(s) -> commit_up_to(s, durable[s])
    :: else
    fi;
    if
    :: length[s] < ENTRIES -> append(s, COMMAND(s))
    :: else
    fi
}

/* libraft campaigns when all of its log is durable. */
inline campaign(s)
{
    if
    :: !is_only_voter(s) ->
        term[s]++;
        vote[s] = s + 1;
        is[s] = candidate;
        forget(s);
        votes[s] = BIT(s)
    :: else ->
        if
        :: RAISES_TERM -> term[s]++; vote[s] = OWN_VOTE(s)                /* E13 */
        :: else
        fi;
        lead(s)
    fi
}

inline request_vote(s, f)
{
    if
    :: term[f] > term[s] -> raise_term(s, term[f])
    :: else ->
        if
        :: term[f] < term[s] -> raise_term(f, term[s])
        :: else
        fi;
        if
        :: (vote[f] == 0 || vote[f] == s + 1) && is_up_to_date(s, f) && MAY_VOTE(f) ->   /* E15 */
            vote[f] = s + 1;
            votes[s] = votes[s] | BIT(f)
        :: else
        fi
    fi
}

/* E23: what the follower may have; less while an uncommitted change demotes it. */
inline find_limit(s, f)
{
    limit = length[s];
    earlier = CONFIGURATION(ALL, VOTERS);
    for (j : 0 .. ENTRIES - 1) {
        if
        :: j + 1 < conf_end[s] && members_of(holds_at(s, j)) != 0 -> earlier = holds_at(s, j)
        :: else
        fi
    }
    j = 0;
    if
    :: WITHHOLDS && conf_end[s] > commit[s] && !is_voter(f, s) && (voters_of(earlier) & BIT(f)) != 0 ->
        limit = conf_end[s] - 1
    :: else
    fi;
    earlier = 0
}

inline copy_entries(s, f)
{
    for (i : 0 .. ENTRIES - 1) {
        if
        :: i < limit && (i >= length[f] || term_at(f, i) != term_at(s, i)) ->
            truncate(f, i);
            term_at(f, i) = term_at(s, i);
            holds_at(f, i) = holds_at(s, i);
            length[f] = i + 1
        :: else
        fi
    }
    i = 0;
    find_conf(f);
    check_logs()
}

inline replicate(s, f)
{
    if
    :: term[f] > term[s] -> raise_term(s, term[f])
    :: else ->
        if
        :: term[f] < term[s] -> raise_term(f, term[s])
        :: else
        fi;
        one_leader_a_term = (is[f] != leader);
        assert(one_leader_a_term);
        is[f] = follower;
        votes[f] = 0;
        find_limit(s, f);
        copy_entries(s, f);
        k = (ACKED(f) < limit -> ACKED(f) : limit);
        if
        :: k > match[s * SERVERS + f] -> match[s * SERVERS + f] = k
        :: else
        fi;
        k = 0; limit = 0;
        commit_what_is_stored(s)
    fi
}

inline cut_power(s)
{
    cuts++;
    lives[s]++;
    is[s] = follower;
    vote[s] = KEPT_VOTE(s);
    truncate(s, durable[s]);
    find_conf(s);
    forget(s)
}

#define may_change(s, f) \
    (f < SERVERS && is[s] == leader && length[s] < ENTRIES && is_member(f, s) && \
     HAS_COMMITTED(s) && IS_SETTLED(s) && MAY_CHANGE(s, f))
#define may_lose(s, f) (may_change(s, f) && is_voter(f, s) && COUNT(voters_of(conf[s])) > 1)

/* Let a set of servers be up that has a majority in the newest committed configuration and in every newer one
 * that is in force somewhere. One of them can be elected by the others, once the present leaders are gone and
 * all logs are durable. */
inline check_electorate()
{
    settled = CONFIGURATION(ALL, VOTERS);
    settled_end = 0;
    for (i : 0 .. ENTRIES - 1) {
        if
        :: i < committed && members_of(committed_holds[i]) != 0 -> settled = committed_holds[i]; settled_end = i + 1
        :: else
        fi
    }
    for (i : 0 .. SERVERS - 1) {
        gets[i] = 0;
        for (j : 0 .. SERVERS - 1) {
            if
            :: is_voter(i, i) && (i == j || (is_up_to_date(i, j) && MAY_VOTE(j))) -> gets[i] = gets[i] | BIT(j)
            :: else
            fi
        }
    }
    for (set : 1 .. ALL) {
        is_enough = IS_MAJORITY(set, voters_of(settled));
        can_elect = false;
        for (i : 0 .. SERVERS - 1) {
            is_enough = is_enough && (conf_end[i] <= settled_end || IS_MAJORITY(set, voters_of(conf[i])));
            can_elect = can_elect || ((set & BIT(i)) != 0 && IS_MAJORITY(set & gets[i], voters_of(conf[i])))
        }
        leader_can_be_elected = (!is_enough || can_elect);
        assert(leader_can_be_elected)
    }
    i = 0; j = 0; set = 0
}

#define WITH(f) \
    :: d_step { f < SERVERS && f != _pid && is[_pid] == candidate && is_voter(f, _pid) && \
                (votes[_pid] & BIT(f)) == 0 -> request_vote(_pid, f) } \
    :: d_step { f < SERVERS && f != _pid && is[_pid] == leader && is_member(f, _pid) -> \
                replicate(_pid, f) } \
    :: d_step { may_change(_pid, f) && !is_voter(f, _pid) -> \
                append(_pid, CONFIGURATION(members_of(conf[_pid]), voters_of(conf[_pid]) | BIT(f))) } \
    :: d_step { may_lose(_pid, f) -> \
                append(_pid, CONFIGURATION(members_of(conf[_pid]), voters_of(conf[_pid]) - BIT(f))) } \
    :: d_step { may_lose(_pid, f) -> \
                append(_pid, CONFIGURATION(members_of(conf[_pid]) - BIT(f), voters_of(conf[_pid]) - BIT(f))) }

active [SERVERS] proctype server()
{
end:
    do
    :: d_step { is[_pid] != leader && durable[_pid] == length[_pid] && is_voter(_pid, _pid) &&
                term[_pid] < TERMS -> campaign(_pid) }
    :: d_step { is[_pid] == candidate && IS_MAJORITY(votes[_pid], voters_of(conf[_pid])) -> lead(_pid) }
    :: d_step { durable[_pid] < length[_pid] ->
                durable[_pid] = length[_pid];
                if
                :: is[_pid] == leader -> commit_what_is_stored(_pid)
                :: else
                fi }
    :: d_step { cuts < CUTS -> cut_power(_pid) }
    WITH(0)
    WITH(1)
#if SERVERS > 2
    WITH(2)
#endif
#if SERVERS > 3
    WITH(3)
#endif
    od
}

#ifndef SAFETY_ONLY
active proctype electorate()
{
end:
    do
    :: d_step { check_electorate() }
    od
}
#endif
