/* Who held a name, and when: holds, folded from the events of one name (S19.1).
 * Without I/O: the caller runs the searches, over whatever they read.
 *
 *     holds_open ─▶ holds_present ... ─▶ holds_next ─true──▶ a search ─▶
 * holds_take ─┐ │   ▲                                      │ │
 * └──────────────────────────────────────┘ └─false─▶ rows and answer are
 * complete
 *
 * A hold is known by its end: that event has the holder and the time of the
 * acquisition. So a list is one search backwards, and a hold that began before
 * the log does is complete, except for how long its holder waited. The event of
 * the grant has that. "Who held it then" is a search forwards: a hold of that
 * moment has ended since, or still is. */
#ifndef HOLDFAST_EVENTS_HOLDS_H
#define HOLDFAST_EVENTS_HOLDS_H

#include "core/view.h"
#include "events/event_scan.h"

enum {
    HOLDS_MAX = 1000,   /* rows of an answer */
    HOLDS_DETAILS = 16, /* searches for grants that a list has not passed */
    HOLDS_GAPS = 8,     /* listed in an answer */
};

enum past_hold_state {
    HOLD_CURRENT,
    HOLD_ENDED,
    HOLD_UNKNOWN, /* neither held nor is its end in the log: a gap, or the tier
                   EFFICIENCY */
};

/* Times are wall clock, spans are cluster time. 0, UINT64_MAX of a span:
 * unknown. */
struct past_hold {
    enum past_hold_state state;
    enum tier tier;
    enum mode mode;
    enum ended ended;
    uint32_t slot;
    uint32_t parts;
    uint64_t token;
    uint64_t acquired_ms;
    uint64_t ended_ms;
    uint64_t held_ms;
    uint64_t waited_ms; /* 0: did not wait */
    struct id session;  /* zero: a private one */
    struct id lease;
    struct slice client;
    struct slice owner;
    struct slice actor;  /* FORCED, REVOKED: by whom, and why */
    struct slice reason; /* ... */
    struct slice trace;
    /* Private. */
    bool is_new; /* HOLD_UNKNOWN of a continued list: an earlier page may have its
                  end */
    uint8_t *texts;
    size_t texts_size;
};

struct holds_query {
    uint32_t tenant;
    struct slice name; /* borrowed until holds_close */
    bool is_at;        /* who held it at `at_ms`; else a list */
    uint64_t at_ms;
    uint64_t since_ms; /* list: not ended before; 0: no limit */
    uint64_t until_ms; /* list: acquired before; 0: no limit */
    uint32_t limit;    /* 1 to HOLDS_MAX */
    bool is_continued; /* list: `after` is `next` of the page before */
    struct event_position after;
    /* The moment of the barrier: what is newer is not in the answer. */
    uint64_t now_ms; /* wall clock */
    uint64_t index;  /* applied up to this entry */
};

enum holds_answer {
    HOLDS_UNKNOWN, /* the log does not have that time, and nothing tells of a
                    holder */
    HOLDS_FREE,
    HOLDS_HELD,
};

enum holds_phase {
    HOLDS_SCAN,    /* list: backwards */
    HOLDS_RESOLVE, /* list: has an unknown end an earlier page? */
    HOLDS_FORWARD, /* at */
    HOLDS_BEFORE,  /* at: the last event before */
    HOLDS_DETAIL,  /* grants of rows */
    HOLDS_DONE,
};

struct holds {
    const struct memory *memory;
    struct holds_query query;
    /* List: those that still are, then by end, newest first; an unknown end by
   * its grant. */
    struct past_hold *rows;
    uint32_t count;
    uint32_t space;
    uint32_t present; /* of the state */
    struct past_hold *held;
    uint32_t held_count;
    uint32_t held_space;
    /* at: the hold before, if nobody held it. */
    bool has_previous;
    struct past_hold previous;
    bool is_certain; /* at: nothing is missing */
    bool is_cut;     /* at: there were more holders than `limit` */
    bool more;       /* list: continue after `next` */
    struct event_position next;
    bool has_page; /* then these are those of the log: see struct event_page */
    uint64_t complete_since_ms;
    bool complete_from_begin;
    struct event_gap gaps[HOLDS_GAPS]; /* newest first, of the time that was examined */
    uint32_t gap_count;
    /* Private. */
    enum holds_phase phase;
    bool is_started; /* the phase has `position` */
    struct event_position position;
    uint32_t row; /* HOLDS_RESOLVE, HOLDS_DETAIL */
    uint32_t details;
    bool is_decided;  /* at: all holds of that moment were seen */
    bool is_broken;   /* at: a gap is where a hold of that moment may have ended */
    uint64_t decided; /* at: the entry that decided; 0: the end of the log did */
    uint64_t before;  /* at: the entry of `previous` */
    bool is_doubtful; /* at: some end does not tell when the hold began */
};

void holds_open(struct holds *h, const struct memory *memory, const struct holds_query *query);
void holds_close(struct holds *h);

/* A present holder, before the first holds_next; `cluster_ms` is the cluster
 * time of now_ms. */
void holds_present(struct holds *h, enum tier tier, const struct grant_view *grant,
                   uint64_t acquired_ms, uint64_t cluster_ms);

/* False: the answer is complete. */
bool holds_next(struct holds *h, struct event_scan *out);
/* The page of the last holds_next. */
void holds_take(struct holds *h, const struct event_page *page);
/* The time for the answer is over: it is complete as far as it goes. */
void holds_stop(struct holds *h);

enum holds_answer holds_answer(const struct holds *h);

#endif
