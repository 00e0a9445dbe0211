/* How long something is certainly still held: the arithmetic of S5, and nothing else.
 *
 * A confirmation counts from the sending of the message that was confirmed, on CLOCK_BOOTTIME: the
 * service cannot have heard it earlier, so what it promises lasts at least until then plus the TTL.
 * From that, 0.1 % goes to clocks that run at different rates (S1.6) and 5 ms to rounding. Times
 * are milliseconds of that clock and always an argument. */
#ifndef HOLDFAST_CLIENT_DEADLINE_H
#define HOLDFAST_CLIENT_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

#define NEVER_MS INT64_MAX

enum { DEADLINE_MARGIN_MS = 5, DEADLINE_RATE = 1000 };

struct life {
    int64_t confirmed_ms; /* when the last message that was confirmed was sent */
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

/* What confirms the session confirms its locks too, and no lock outlives its session (S4.2). These
 * are the two moments of a lock. */
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

/* A confirmation of what was sent at `sent_ms`. An older one changes nothing. */
static inline void life_confirm(struct life *l, int64_t sent_ms)
{
    if (sent_ms > l->confirmed_ms) {
        l->confirmed_ms = sent_ms;
    }
}

#endif
