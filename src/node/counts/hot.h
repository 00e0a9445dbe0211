/* The busiest prefixes of lock names on the leader, in bounded memory: for each tenant and each measure the
 * space-saving algorithm (Metwally, Agrawal, El Abbadi 2005) with HOT_PREFIXES counters.
 *
 * The prefix of a name ends with its last '/' or ':', "orders/" of "orders/17". A name without
 * one is its own prefix. A prefix has at most HOT_PREFIX_MAX bytes.
 *
 * A prefix whose weight is more than the total / HOT_PREFIXES is always among the counters. Each counter is at
 * least the true weight, and at most `error` more, which is at most total / HOT_PREFIXES. Weights fade:
 * every HOT_FADE_US all lose a fifteenth, so they halve in about five minutes. The tenants beyond the first
 * HOT_TENANTS share the counters of one.
 *
 * Time is an argument. Memory is allocated with the first weight of a tenant. */
#ifndef HOLDFAST_NODE_COUNTS_HOT_H
#define HOLDFAST_NODE_COUNTS_HOT_H

#include "base/memory.h"
#include "base/slice.h"
#include "service/request/leader_hot.h"

enum {
    HOT_PREFIXES = 512,
    HOT_TENANTS = 32,
    HOT_FADE_US = 30000000,
};

struct hot;

struct hot *hot_new(const struct memory *memory, uint64_t hash_key);
void hot_free(struct hot *h);
/* Forgets all; a new leader begins. */
void hot_reset(struct hot *h, uint64_t now_us, uint64_t wall_ms);
/* Call this at least every few seconds. */
void hot_tick(struct hot *h, uint64_t now_us);
/* `name` is a valid name. */
void hot_add(struct hot *h, enum hot_by by, uint32_t tenant, struct slice name, uint64_t weight);
/* Sets rows, count, total, window_us and since_wall_ms, of all tenants. */
void hot_top(const struct hot *h, enum hot_by by, uint32_t limit, uint64_t now_us,
             struct leader_hot *out);

struct slice hot_prefix(struct slice name);

#endif
