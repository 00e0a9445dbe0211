/* How long a lock or session is certainly held: the arithmetic of S5.
 *
 * A confirmation counts from the sending of the confirmed message, on CLOCK_BOOTTIME: the service
 * cannot have received it earlier. From that plus the TTL, 0.1 % is subtracted for different clock
 * rates (S1.6) and 5 ms for rounding. Times are ms of that clock. */
#ifndef HOLDFAST_CLIENT_DEADLINE_H
#define HOLDFAST_CLIENT_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#define NEVER_MS INT64_MAX

enum { DEADLINE_MARGIN_MS = 5, DEADLINE_RATE = 1000 };

struct life {
    int64_t confirmed_ms; /* sending of the last confirmed message */
    int64_t ttl_ms;
};

enum standing {
    STANDING_SAFE,
    STANDING_JEOPARDY, /* at most a third of the TTL is left */
    STANDING_LOST,
};

static inline int64_t life_safe_until(struct life l)
{
    int64_t drift_ms = (l.ttl_ms + DEADLINE_RATE - 1) / DEADLINE_RATE;
    return l.confirmed_ms + l.ttl_ms - drift_ms - DEADLINE_MARGIN_MS;
}

static inline int64_t life_jeopardy_at(struct life l)
{
    return life_safe_until(l) - l.ttl_ms / 3;
}

/* A confirmed session confirms its locks; no lock outlives its session (S4.2). */
static inline struct life life_of_lock(struct life lock, struct life session)
{
    if (session.confirmed_ms > lock.confirmed_ms) {
        lock.confirmed_ms = session.confirmed_ms;
    }
    return lock;
}

static inline int64_t life_lock_safe_until(struct life lock, struct life session)
{
    int64_t own_ms = life_safe_until(life_of_lock(lock, session));
    int64_t session_ms = life_safe_until(session);
    return own_ms < session_ms ? own_ms : session_ms;
}

static inline int64_t life_lock_jeopardy_at(struct life lock, struct life session)
{
    int64_t own_ms = life_jeopardy_at(life_of_lock(lock, session));
    int64_t session_ms = life_jeopardy_at(session);
    return own_ms < session_ms ? own_ms : session_ms;
}

static inline enum standing life_standing(int64_t jeopardy_at_ms, int64_t safe_until_ms,
                                          int64_t now_ms)
{
    if (now_ms >= safe_until_ms) {
        return STANDING_LOST;
    }
    return now_ms >= jeopardy_at_ms ? STANDING_JEOPARDY : STANDING_SAFE;
}

static inline int64_t life_left(int64_t safe_until_ms, int64_t now_ms)
{
    return safe_until_ms > now_ms ? safe_until_ms - now_ms : 0;
}

/* An older confirmation changes nothing. */
static inline void life_confirm(struct life *l, int64_t sent_ms)
{
    if (sent_ms > l->confirmed_ms) {
        l->confirmed_ms = sent_ms;
    }
}

/* The deadlines that a lock may have at the service while renewals that set a TTL are unanswered.
 *
 * A renewal sent at t with TTL d may be applied, at t or later: then the lock lasts at least until
 * t + d, else the earlier TTL counts. Until the answer, the shorter one counts. An unanswered
 * renewal counts as long as the lock is held: a delayed request may be applied even after a later
 * renewal was confirmed. TTL 0: no such renewal. */
struct lock_life {
    struct life known;      /* newest answer */
    struct life in_flight;  /* the renewal that may still be answered */
    struct life unanswered; /* others: earliest send time, shortest TTL */
    struct life hold; /* with max_hold, as the TTL: from when the lock was certainly not granted
                               yet. Nothing confirms it. ttl_ms 0: no max_hold */
};

static inline int64_t lock_life_moment(const struct lock_life *l, struct life session,
                                       int64_t (*moment)(struct life, struct life))
{
    const struct life lives[] = {l->in_flight, l->unanswered};
    int64_t at_ms = moment(l->known, session);
    for (unsigned i = 0; i < 2; i++) {
        if (lives[i].ttl_ms != 0 && moment(lives[i], session) < at_ms) {
            at_ms = moment(lives[i], session);
        }
    }
    return at_ms;
}

/* The earlier of the two, if there is a max_hold. */
static inline int64_t lock_life_within_hold(const struct lock_life *l, int64_t at_ms,
                                            int64_t hold_ms)
{
    return l->hold.ttl_ms != 0 && hold_ms < at_ms ? hold_ms : at_ms;
}

static inline int64_t lock_life_safe_until(const struct lock_life *l, struct life session)
{
    return lock_life_within_hold(l, lock_life_moment(l, session, life_lock_safe_until),
                                 life_safe_until(l->hold));
}

/* Of a max_hold: half a TTL before its end. */
static inline int64_t lock_life_jeopardy_at(const struct lock_life *l, struct life session)
{
    return lock_life_within_hold(l, lock_life_moment(l, session, life_lock_jeopardy_at),
                                 life_safe_until(l->hold) - l->known.ttl_ms / 2);
}

/* Whether max_hold, and not a missing confirmation, is what ends it then. */
static inline bool lock_life_ends_by_hold(const struct lock_life *l, struct life session)
{
    return l->hold.ttl_ms != 0 && lock_life_safe_until(l, session) == life_safe_until(l->hold);
}

/* The shortest that the service may apply. */
static inline int64_t lock_life_ttl(const struct lock_life *l)
{
    int64_t ttl_ms = l->known.ttl_ms;
    if (l->in_flight.ttl_ms != 0 && l->in_flight.ttl_ms < ttl_ms) {
        ttl_ms = l->in_flight.ttl_ms;
    }
    if (l->unanswered.ttl_ms != 0 && l->unanswered.ttl_ms < ttl_ms) {
        ttl_ms = l->unanswered.ttl_ms;
    }
    return ttl_ms;
}

/* Counts for whichever TTL the service has. */
static inline void lock_life_confirm(struct lock_life *l, int64_t sent_ms)
{
    life_confirm(&l->known, sent_ms);
    life_confirm(&l->in_flight, sent_ms);
    life_confirm(&l->unanswered, sent_ms);
}

/* Of a renewal that sets a TTL; at most one is in flight. */
enum renewal { RENEWAL_APPLIED, RENEWAL_NOT_APPLIED, RENEWAL_UNANSWERED };

static inline void lock_life_renewal_sent(struct lock_life *l, int64_t ttl_ms, int64_t sent_ms)
{
    l->in_flight = (struct life){sent_ms, ttl_ms};
}

static inline void lock_life_renewal_ended(struct lock_life *l, enum renewal how)
{
    struct life sent = l->in_flight;
    l->in_flight = (struct life){0, 0};
    if (how == RENEWAL_APPLIED) {
        l->known.ttl_ms = sent.ttl_ms;
        lock_life_confirm(l, sent.confirmed_ms);
    } else if (how == RENEWAL_UNANSWERED && l->unanswered.ttl_ms == 0) {
        l->unanswered = sent;
    } else if (how == RENEWAL_UNANSWERED) {
        if (sent.ttl_ms < l->unanswered.ttl_ms) {
            l->unanswered.ttl_ms = sent.ttl_ms;
        }
        if (sent.confirmed_ms < l->unanswered.confirmed_ms) {
            l->unanswered.confirmed_ms = sent.confirmed_ms;
        }
    }
}

#endif
