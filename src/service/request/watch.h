/* Streams of events (S9.3). */
#ifndef HOLDFAST_SERVICE_REQUEST_WATCH_H
#define HOLDFAST_SERVICE_REQUEST_WATCH_H

#include "core/event.h"
#include "service/list.h"
#include "service/request/event_ring.h"

struct api_request;
struct lock_view;

enum watch_kind {
    WATCH_PREFIX,   /* names with prefix x->name; empty: all events */
    WATCH_ELECTION, /* the leaders of one election */
    WATCH_SESSION,  /* events of one session, for its owner */
};

/* How a stream is encoded into service.scratch: SSE or gRPC. A function that a kind of stream never
 * needs may be NULL. */
struct watch_format {
    void (*event)(struct api_request *x, const struct event *event);
    void (*position)(struct api_request *x, const char *type); /* the id of the last event sent */
    void (*reset)(struct api_request *x);                      /* names missing_from, missing_to */
    void (*skipped)(struct api_request *x, uint64_t events);   /* with the id of the last one */
    void (*dropped)(struct api_request *x, const char *why);
    void (*lock)(struct api_request *x, const struct lock_view *lock); /* of a listing */
    void (*leader)(struct api_request *x,
                   const struct lock_view *lock); /* of an election, at the start */
    void (*beat)(struct api_request *x);
};

struct service;

enum { WATCH_SECOND_MS = 1000, WATCH_RATE_MAX = 100000 };

/* `max_rate` of a stream (S9.4). After `sent` events of a second the rest of that second is skipped and
 * counted. The count is sent at the end of the second, before the next event. */
struct watch_limit {
    uint32_t max_rate;  /* events a second; 0: no limit */
    uint32_t sent;      /* since second_ms */
    uint64_t second_ms; /* boot time */
    uint64_t skipped;   /* not reported yet */
    uint64_t report_ms; /* boot time of the report; 0: none is due */
};

struct watcher {
    struct list link; /* in service.streams while it runs */
    const struct watch_format *format;
    enum watch_kind kind;
    bool is_resumed; /* from an id of the client */
    bool no_reset;   /* 410 instead of a listing if events after it are gone */
    bool is_listing; /* full listing first */
    bool is_brief;   /* WATCH_SESSION: only what its client must act on (session_events.c) */
    bool is_over;    /* the last event is sent */
    bool is_listed;  /* begun with `reset` */
    uint64_t list_cursor;
    uint64_t position; /* in the ring */
    uint64_t behind;   /* smallest distance to the ring's tail so far, bytes */
    uint64_t stream;   /* WATCH_SESSION: its number (S4.6) */
    uint64_t beat_ms;  /* boot time of the next heartbeat */
    struct id session; /* WATCH_SESSION */
    struct event_id seen;
    struct watch_limit limit;
    /* watch_replay.h */
    bool is_replaying;               /* `position` is not valid */
    bool is_reading;                 /* a page is in flight */
    uint32_t replay_tries;           /* since the last progress */
    struct event_position replay_at; /* all up to here was examined */
    uint64_t replay_ms;              /* boot time of the next page */
    uint64_t missing_from;           /* entries whose events are missing, for `reset` */
    uint64_t missing_to;             /* 0: unknown */
};

/* Handlers, see router.c. */
void api_watch(struct api_request *x);
void api_session_events(struct api_request *x);
void api_election_observe(struct api_request *x);

/* last_event_id and `reset` of a request. False: not valid, answered. */
bool watch_read_resume(struct api_request *x);

/* Sets the limit of a stream. False: not valid, answered. */
bool watch_set_rate(struct api_request *x, uint64_t max_rate);

/* Needs a complete x->watcher. Submits a barrier or a stream_up if needed, then begins the
 * stream. */
void watch_begin(struct api_request *x);

/* Events were skipped. */
void watch_state_replaced(struct service *s);

/* The client is gone. */
void watch_stop(struct api_request *x);
void watch_drop(struct api_request *x, enum hf_error error, const char *why);

#endif
