/* A watch that resumes from before the ring of recent events: it reads the event log (gateway.scan_events)
 * until the ring has what follows, and then continues there (S9.3).
 *
 *      resume ──in the ring?──yes──────────────────────────▶ live
 *                    │ no                                      ▲
 *                    ▼                                         │ the ring has all that follows
 *               replay_possible ──▶ replaying: page after page ┘
 *                    │ no                    │ a gap
 *                    ▼                       ▼
 *               reset and full listing, or 410; both name the missing entries
 *
 * A page is examined up to a position. Everything up to it was sent or is not for this stream; the ring
 * takes over after it. So no event is lost or sent twice, whatever happens meanwhile. */
#ifndef HOLDFAST_SERVICE_REQUEST_WATCH_REPLAY_H
#define HOLDFAST_SERVICE_REQUEST_WATCH_REPLAY_H

#include "service/request/api_request.h"

/* Whether the event log has all events after watcher.seen. Else sets watcher.missing_from and _to. */
bool replay_possible(struct api_request *x);
/* Sends the events after watcher.seen. */
void replay_begin(struct api_request *x);
/* Reads the next page, if it is time. True: the stream is live, in the ring at watcher.position. */
bool replay_step(struct api_request *x);
/* The stream ends. */
void replay_stop(struct api_request *x);
/* Boot time of the next attempt; UINT64_MAX: none. */
uint64_t replay_next_ms(const struct api_request *x);
/* Whether that time is reached: once. */
bool replay_is_due(struct api_request *x, uint64_t now_ms);

/* The end of a sentence: the entries that are missing; or "". */
enum { REPLAY_TEXT = 160 };
void replay_missing_text(const struct watcher *watcher, char out[REPLAY_TEXT]);

/* watch.c */
void watch_limit_step(struct api_request *x);
void watch_add_event(struct api_request *x, const struct event *e);
void watch_send_scratch(struct api_request *x);
void watch_start_over(struct api_request *x);

#endif
