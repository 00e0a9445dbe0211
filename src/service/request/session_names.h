/* The names that one session holds or waits for, in both tiers.
 *
 * Its cursors are those of view_session_names, times two; the lowest bit is the tier EFFICIENCY. */
#ifndef HOLDFAST_SERVICE_REQUEST_SESSION_NAMES_H
#define HOLDFAST_SERVICE_REQUEST_SESSION_NAMES_H

#include "service/request/api_request.h"

/* After api_request_look(MEMORY_SESSION_NAMES), with x->id. False: the caller knows no such session
 * (S9.5), or it is a private one of EFFICIENCY and that tier is not known here. `next` is LIST_END
 * after the last page. Sets page.is_omitted if the leader cannot show its tier. */
bool session_names_list(struct api_request *x, view_session_name_fn on_name, void *ctx,
                        uint64_t *next);

/* The names that x->id holds, from `cursor`, at most LIMIT_PAGE_MAX and what a multi-lock adds; for the
 * owner of the session, whatever it may read. After a query of the kind MEMORY_SESSION_NAMES. Returns
 * the next cursor, or LIST_END. */
uint64_t session_names_held(struct api_request *x, struct id session, uint64_t cursor,
                            view_session_name_fn on_name, void *ctx);

/* The cursor for the page of EFFICIENCY: 0, its first page, also with pages of CORRECTNESS. */
static inline uint64_t session_names_memory_cursor(uint64_t cursor)
{
    return (cursor & 1) != 0 ? cursor >> 1 : 0;
}

#endif
