/* Searches in the audit trail: the newest LIMIT_AUDIT records of a tenant are in the state, earlier
 * ones in the event log of this node.
 *
 *   oldest first:  START or POSITION ──▶ log ──▶ state ◀── NUMBER
 *   newest first:  START or NUMBER ──▶ state ──▶ log ◀── POSITION
 *
 * A page ends where the source changes, or holds both. Numbers and positions are the same on all
 * nodes, so a cursor is too. */
#ifndef HOLDFAST_SERVICE_REQUEST_AUDIT_SEARCH_H
#define HOLDFAST_SERVICE_REQUEST_AUDIT_SEARCH_H

#include "service/request/api_request.h"

enum { AUDIT_ACTION_MAX = 32 };
enum audit_from { AUDIT_FROM_START, AUDIT_FROM_NUMBER, AUDIT_FROM_POSITION };

/* Empty, 0: no filter. */
struct audit_query {
    enum event_scan_names match;
    struct slice name; /* or prefix */
    struct slice actor;
    struct slice action; /* any case */
    uint64_t since_ms;   /* wall clock: not before */
    uint64_t until_ms;   /* before */
    bool newest_first;
    uint32_t limit;
    enum audit_from from;
    uint64_t number; /* from this one; newest first: before this one */
    struct event_position position;
};

/* The page, for the render function; valid during it. */
struct audit_found {
    const struct audit_view *records; /* that the caller may see */
    uint32_t count;
    char next[EVENT_CURSOR_TEXT]; /* "": this is the last page */
    /* All records since then are in the state or in the log; 0: all there were. */
    uint64_t complete_since_ms;
};

/* False: not the cursor of such a page. */
bool audit_cursor_parse(struct slice text, struct audit_query *out);
/* False: there is no such action; answered. */
bool audit_query_check(struct api_request *x, const struct audit_query *query);
/* The query is copied. A request for this: NEED_AUDIT. */
void audit_search_begin(struct api_request *x, const struct audit_query *query, render_fn render);
const struct audit_found *audit_search_found(const struct api_request *x);

#endif
