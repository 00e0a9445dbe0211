/* Rows and ends of lists. */
#ifndef HOLDFAST_SERVICE_REQUEST_LIST_LOCK_H
#define HOLDFAST_SERVICE_REQUEST_LIST_LOCK_H

#include "service/request/api_request.h"

/* Public members of a name, without and with its first holder. */
void list_lock_members(struct json_writer *w, const struct service *s,
                       const struct lock_view *lock);
void list_lock_row(struct json_writer *w, const struct service *s, const struct lock_view *lock);

/* One holder, one waiter. */
void list_grant_members(struct json_writer *w, const struct api_request *x,
                        const struct grant_view *grant);
void list_waiter_members(struct json_writer *w, const struct api_request *x,
                         const struct waiter_view *waiter);

/* By the policy applied here; an empty name: all names of the tenant. */
bool list_may_read(const struct api_request *x, struct slice name);
/* A page of both tiers, after api_request_look. Returns the next cursor, or LIST_END. */
#define LIST_END UINT64_MAX
bool list_is_cursor(uint64_t cursor);
uint64_t list_locks(struct api_request *x, view_lock_fn on_lock, void *ctx);
uint64_t list_sessions(struct api_request *x, view_session_fn on_session, void *ctx);
/* The names whose earliest holder is past its long-held rule; since version 7 of the state. */
uint64_t list_long_held(struct api_request *x, view_lock_fn on_lock, void *ctx);
/* x->name, in the tier that uses it. */
void list_show(struct api_request *x, struct lock_view *lock);
void list_holders(struct api_request *x, const struct lock_view *lock, uint32_t max,
                  view_grant_fn on_grant, view_waiter_fn on_waiter, void *ctx);

/* next_cursor, null on the last page (S9.2). */
void list_put_next(struct json_writer *w, uint64_t cursor, uint64_t end);
/* Of a stale read (S9.1). */
void list_put_stale(struct json_writer *w, const struct api_request *x);

#endif
