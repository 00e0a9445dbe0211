/* Fills a gap of the event log with the records of another node.
 *
 *      segment | gap | segment            the gap begins the segment behind it (writer.c)
 *      segment | file | file | segment    numbers in between; readers find the files in this order
 *
 * A file is in the log after it is closed. Of an end in between, what the closed files cover is in the
 * log, and the rest remains a gap. A file that a kill leaves open is read at the next start.
 *
 * Used by one thread at a time, which may block; at most one for a log. Gaps inside a segment (damage)
 * and in front of the first one remain. */
#ifndef HOLDFAST_EVENTS_EVENT_FILL_H
#define HOLDFAST_EVENTS_EVENT_FILL_H

#include "events/event_codec.h"
#include "events/event_scan.h"

struct event_fill;

/* The newest gap that can be filled. False: none. Any thread; reads no file. */
bool event_fill_find(struct event_log *log, struct event_gap *out);

/* NULL: the gap is no longer there. */
struct event_fill *event_fill_begin(struct event_log *log, const struct event_gap *gap);
/* Closes the file; frees. What was covered is in the log. */
void event_fill_end(struct event_fill *fill);

/* ---- what one node sends another ---- */

/* Records of the tier CORRECTNESS and of the audit trail, oldest first, behind the position `after`. */
struct fill_request {
    struct event_position after;
    uint64_t to; /* entries up to this one */
};

enum { FILL_REQUEST_BYTES = 40, FILL_PAGE = 200 };
size_t fill_request_encode(const struct fill_request *request, uint8_t at[FILL_REQUEST_BYTES]);
bool fill_request_decode(struct slice bytes, struct fill_request *out);
/* The search that answers it. */
struct event_scan fill_request_scan(const struct fill_request *request);

/* Appends the answer to `out`; the records are for receivers of at least this state version. False: this
 * node lacks the entries behind `after`. `*continues` is then an entry behind which it has some;
 * UINT64_MAX: none. */
bool fill_answer_encode(const struct fill_request *request, const struct event_page *page,
                        uint32_t version, struct buffer *out, uint64_t *continues);

/* ---- the receiving node ---- */

/* Where to begin. */
struct event_position event_fill_begins(const struct event_fill *fill);
/* Adds what an answer has; `*next`: where to continue. False: the other node sent something that is not in
 * the gap or out of order, or the disk refused: `problem`; end the fill. */
bool event_fill_take(struct event_fill *fill, struct slice answer, struct event_position *next,
                     struct problem *problem);
/* All entries up to this one are filled. */
uint64_t event_fill_done(const struct event_fill *fill);

#endif
