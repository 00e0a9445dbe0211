/* Rows and ends of lists, which the listing of a watch has too. */
#ifndef HOLDFAST_SERVICE_LIST_LOCK_H
#define HOLDFAST_SERVICE_LIST_LOCK_H

#include "service/exchange.h"

/* What everybody may know about a name, without and with its first holder. */
void list_lock_members(struct json_writer *w, const struct service *s,
                       const struct lock_view *lock);
void list_lock_row(struct json_writer *w, const struct service *s, const struct lock_view *lock);

/* next_cursor, null on the last page (S9.2). */
void list_put_next(struct json_writer *w, uint64_t cursor, uint64_t end);
/* A stale read says so (S9.1). */
void list_put_stale(struct json_writer *w, const struct exchange *x);

#endif
