/* Grants that a backend has not confirmed (tier_backend.h), by token, with the results and events
 * held back until then. */
#ifndef HOLDFAST_REPLICA_TIER_HELD_H
#define HOLDFAST_REPLICA_TIER_HELD_H

#include "core/core.h"

enum { HELD_BUCKETS = 4096 };

/* A result for `cookie`, or an event. */
struct held_item {
    struct held_item *next;
    void *cookie; /* NULL: an event */
    struct result result;
    struct event event;
    size_t size;
    uint8_t bytes[];
};

struct held {
    struct held *next;
    struct held *next_over;
    uint64_t token;
    struct id lease;
    uint64_t ttl_ms; /* TTL_NONE: none */
    bool is_queued;  /* its request was answered with "queued" */
    bool is_over;    /* it ended before it was confirmed */
    uint64_t attachment;
    uint32_t node; /* the node that it is attached through */
    uint64_t wait_deadline_ms;
    struct held_item *first;
    struct held_item *last;
};

struct held_table {
    const struct memory *memory;
    uint64_t count;
    struct held *buckets[HELD_BUCKETS];
};

struct held *held_find(const struct held_table *t, uint64_t token);
/* The token must not be in the table. */
struct held *held_add(struct held_table *t, uint64_t token);
/* The caller owns it until held_free. */
void held_take(struct held_table *t, struct held *h);
/* NULL: the table is empty. */
struct held *held_take_any(struct held_table *t);
void held_free(struct held_table *t, struct held *h);

/* Both are copied. */
void held_result(struct held_table *t, struct held *h, void *cookie, const struct result *result);
void held_event(struct held_table *t, struct held *h, const struct event *event);
/* Removes the first item; NULL: none. */
struct held_item *held_item_take(struct held *h);
void held_item_free(struct held_table *t, struct held_item *item);

#endif
