/* Grants of the EFFICIENCY tier that a backend has not confirmed: what may be told about them only
 * then (tier_backend.h). In the order in which they were given, which is how a backend answers. */
#ifndef HOLDFAST_REPLICA_TIER_HELD_H
#define HOLDFAST_REPLICA_TIER_HELD_H

#include "core/core.h"

struct held_item;

struct held_list {
    const struct memory *memory;
    struct held_item *first;
    struct held_item *last;
};

/* A result for `cookie`, or an event. Both are copied. */
struct held_item {
    struct held_item *next;
    struct held_item *prev;
    uint64_t token;
    void *cookie; /* NULL: an event */
    struct result result;
    struct event event;
    size_t size;
    uint8_t bytes[];
};

bool held_has(const struct held_list *list, uint64_t token);
void held_result(struct held_list *list, void *cookie, const struct result *result);
void held_event(struct held_list *list, const struct event *event);
/* The first one of the token, or of any (0), which is the caller's then; NULL: there is none. */
struct held_item *held_take(struct held_list *list, uint64_t token);
void held_free(struct held_list *list, struct held_item *item);

#endif
