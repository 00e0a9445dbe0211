/* Who held a name, and when: the present holders, then searches in the event log of this node
 * (events/holds.h). For HTTP and gRPC. */
#ifndef HOLDFAST_SERVICE_REQUEST_HISTORY_H
#define HOLDFAST_SERVICE_REQUEST_HISTORY_H

#include "events/holds.h"
#include "service/request/api_request.h"

/* Wall clock; 0: not given. */
struct history_query {
    bool is_at;
    uint64_t at_ms;
    uint64_t since_ms;
    uint64_t until_ms;
    bool is_continued;
    struct event_position after;
};

/* For x->name, at most x->page.limit holds. A request for this: NEED_READ. */
void history_begin(struct api_request *x, const struct history_query *query, render_fn render);
/* For the render function; valid during it. */
const struct holds *history_found(const struct api_request *x);
/* 0: nothing is missing at all. */
uint64_t history_complete_since_ms(const struct holds *h);
/* "released", ..., "unknown"; NULL: still held. */
const char *history_end_name(const struct past_hold *hold);

#endif
