/* Doubly-linked rings of pool objects. The owner keeps a reference to the last element. An object
 * may be in several rings, each through a `struct links` at its own offset. The order is replicated
 * state. */
#ifndef HOLDFAST_CORE_RING_H
#define HOLDFAST_CORE_RING_H

#include "base/panic.h"
#include "base/pool.h"

struct links {
    ref prev;
    ref next; /* 0: in no ring */
};

static inline struct links *ring_links(const struct pool *p, ref obj, size_t offset)
{
    return (struct links *)(void *)((char *)pool_at(p, obj) + offset);
}

static inline ref ring_first(const struct pool *p, ref last, size_t offset)
{
    return last == 0 ? 0 : ring_links(p, last, offset)->next;
}

/* 0 at the end. */
static inline ref ring_after(const struct pool *p, ref last, ref obj, size_t offset)
{
    return obj == last ? 0 : ring_links(p, obj, offset)->next;
}

static inline ref ring_before(const struct pool *p, ref last, ref obj, size_t offset)
{
    ref prev = ring_links(p, obj, offset)->prev;
    return prev == last ? 0 : prev;
}

static inline bool ring_contains_link(const struct pool *p, ref obj, size_t offset)
{
    return ring_links(p, obj, offset)->next != 0;
}

/* Behind `before`; 0: at the front. */
static inline void ring_insert(const struct pool *p, ref *last, ref before, ref obj, size_t offset)
{
    struct links *w = ring_links(p, obj, offset);
    hf_assert(w->next == 0 && obj != before);
    if (*last == 0) {
        w->prev = w->next = obj;
        *last = obj;
        return;
    }
    ref left = before == 0 ? *last : before;
    struct links *l = ring_links(p, left, offset);
    w->prev = left;
    w->next = l->next;
    ring_links(p, l->next, offset)->prev = obj;
    l->next = obj;
    if (before != 0 && before == *last) {
        *last = obj;
    }
}

static inline void ring_append(const struct pool *p, ref *last, ref obj, size_t offset)
{
    ring_insert(p, last, *last, obj, offset);
    *last = obj;
}

static inline void ring_remove(const struct pool *p, ref *last, ref obj, size_t offset)
{
    struct links *w = ring_links(p, obj, offset);
    hf_assert(w->next != 0);
    if (w->next == obj) {
        hf_assert(*last == obj);
        *last = 0;
    } else {
        ring_links(p, w->prev, offset)->next = w->next;
        ring_links(p, w->next, offset)->prev = w->prev;
        if (*last == obj) {
            *last = w->prev;
        }
    }
    w->prev = w->next = 0;
}

#endif
