/* How long a lock or session is certainly still held: the arithmetic of S5 only.
 *
 * A confirmation counts from the sending of the confirmed message, on CLOCK_BOOTTIME. The service
 * cannot have received it earlier, so its promise lasts at least until then plus the TTL. From
 * that, 0.1 % is subtracted for different clock rates (S1.6) and 5 ms for rounding. Times are
 * milliseconds of that clock and always an argument. */
#ifndef HOLDFAST_CLIENT_DEADLINE_H
#define HOLDFAST_CLIENT_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#define NEVER_MS INT64_MAX

enum { DEADLINE_MARGIN_MS = 5, DEADLINE_RATE = 1000 };

struct life {
    int64_t confirmed_ms; /* when the last confirmed message was sent */
    int64_t ttl_ms;
};

enum standing {
    STANDING_SAFE,
    STANDING_JEOPARDY, /* a third of the TTL is left, or less */
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

/* A confirmation of the session confirms its locks too, and no lock outlives its session (S4.2).
 * The functions below compute the two deadlines of a lock. */
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

/* Confirms what was sent at `sent_ms`. An older confirmation changes nothing. */
static inline void life_confirm(struct life *l, int64_t sent_ms)
{
    if (sent_ms > l->confirmed_ms) {
        l->confirmed_ms = sent_ms;
    }
}

/* The deadlines that a lock may have at the service while renewals that set a TTL are unanswered.
 *
 * A renewal sent at t with TTL d is either applied, at t or later, or not. If it is, the lock lasts
 * at least until t + d; if not, the earlier TTL counts. Until the answer is received, the client
 * uses the shorter of the two. A renewal that is never answered counts for as long as the lock is
 * held: a network may delay a request without bound, so it may be applied even after a later
 * renewal was confirmed. A TTL of 0 ms means that there is no such renewal. */
struct lock_life {
    struct life known;      /* from the newest answer */
    struct life in_flight;  /* the one renewal that was sent and may still be answered */
    struct life unanswered; /* the others: their earliest send time and their shortest TTL */
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

static inline int64_t lock_life_safe_until(const struct lock_life *l, struct life session)
{
    return lock_life_moment(l, session, life_lock_safe_until);
}

static inline int64_t lock_life_jeopardy_at(const struct lock_life *l, struct life session)
{
    return lock_life_moment(l, session, life_lock_jeopardy_at);
}

/* The shortest TTL that the service may apply. */
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

/* A keep-alive counts whichever TTL the service has. */
static inline void lock_life_confirm(struct lock_life *l, int64_t sent_ms)
{
    life_confirm(&l->known, sent_ms);
    life_confirm(&l->in_flight, sent_ms);
    life_confirm(&l->unanswered, sent_ms);
}

/* The outcome of a renewal that sets a TTL. There is at most one in flight. */
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
