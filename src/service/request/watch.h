/* Streams of events (S9.3): who watches, from where on, and what it may see. */
#ifndef HOLDFAST_SERVICE_REQUEST_WATCH_H
#define HOLDFAST_SERVICE_REQUEST_WATCH_H

#include "core/event.h"
#include "service/list.h"
#include "service/request/event_ring.h"

struct api_request;
struct lock_view;

enum watch_kind {
    WATCH_PREFIX,   /* all names that begin with the exchange's name; all events if that is empty */
    WATCH_ELECTION, /* the leaders of one election */
    WATCH_SESSION,  /* what happens to one session, told to its owner */
};

/* How a stream is written, into the service's scratch; SSE, or messages of gRPC. What a stream of
 * its kind never says may be NULL. */
struct watch_format {
    void (*event)(struct api_request *x, const struct event *event);
    void (*position)(struct api_request *x, const char *type); /* how far it is, and a word */
    void (*reset)(struct api_request *x);
    void (*dropped)(struct api_request *x, const char *why);
    void (*lock)(struct api_request *x, const struct lock_view *lock); /* of a listing */
    void (*leader)(struct api_request *x,
                   const struct lock_view *lock); /* of an election, at first */
    void (*beat)(struct api_request *x);          /* a word, to show that we are alive */
};

struct service;

struct watcher {
    struct list link; /* in service.streams while it runs */
    const struct watch_format *format;
    enum watch_kind kind;
    bool is_resumed; /* from an id that the client named */
    bool no_reset;   /* 410 instead of a listing when that is gone */
    bool is_listing; /* the full listing comes first */
    bool is_listed;  /* ... has begun with `reset` */
    uint64_t list_cursor;
    uint64_t position; /* in the ring */
    uint64_t behind;   /* bytes of it that were still to come, at the best of times */
    uint64_t stream;   /* WATCH_SESSION: its number (S4.6) */
    uint64_t beat_ms;  /* boot time: when a word is due, to show that we are alive */
    struct id session; /* WATCH_SESSION */
    struct event_id seen;
};

/* Handlers, see router.c. */
void api_watch(struct api_request *x);
void api_election_observe(struct api_request *x);

/* Everything in the watcher is set: asks for what is needed, and then the stream begins. */
void watch_begin(struct api_request *x);

/* Events were skipped. */
void watch_state_replaced(struct service *s);

/* The client is gone. */
void watch_stop(struct api_request *x);
/* Ends the stream with a word why. */
void watch_drop(struct api_request *x, const char *why);

#endif
