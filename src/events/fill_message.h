/* What one node sends another to fill a gap (event_fill.h), as bytes. Private to src/events. */
#ifndef HOLDFAST_EVENTS_FILL_MESSAGE_H
#define HOLDFAST_EVENTS_FILL_MESSAGE_H

#include "events/event_fill.h"

struct fill_answer {
    uint64_t covered; /* all records of the entries up to this one were sent */
    struct event_position next;
    struct slice records;
};

/* `payload`: event_codec.h. */
struct fill_record {
    enum logged_kind kind;
    struct event_id id;
    struct slice payload;
};

bool fill_answer_decode(struct slice bytes, struct fill_answer *out);
/* Takes the first record off `rest`. False: malformed, or `rest` is empty. */
bool fill_record_take(struct slice *rest, struct fill_record *out);

#endif
