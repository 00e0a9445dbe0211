/* All client connections of a node: their limits, and which one is closed in favour of a new one.
 * Uses no sockets.
 *
 * A connection is idle while nothing is in progress on it and nothing is bound to it; its owner
 * reports that. At a limit, the connection idle for longest is closed; if none is idle, the new one
 * is refused.
 *
 *     limit         counts                    closes the oldest idle connection ...
 *     max           all                       of all
 *     reserved      those not from loopback   ... that is not from loopback
 *     per_address   those of one address      of that address
 *
 * `reserved` of `max` connections are for clients on this machine. */
#ifndef HOLDFAST_NODE_CLIENTS_CLIENT_TABLE_H
#define HOLDFAST_NODE_CLIENTS_CLIENT_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/memory.h"
#include "net/address.h"

struct client_table;
struct client_host;

/* Part of the owner's object; private to client_table.c. */
struct client_entry {
    struct client_host *host; /* NULL: not in the table */
    bool is_loopback;
    bool is_idle;
    uint64_t idle_number;   /* rises with each connection that becomes idle */
    struct list idle;       /* in the table's list of its origin, while idle */
    struct list idle_there; /* in its host's list, while idle */
};

struct client_limits {
    uint32_t max;         /* at least 1 */
    uint32_t per_address; /* 0: none */
    uint32_t reserved;    /* less than max */
};

enum client_verdict {
    CLIENT_ADMITTED,
    CLIENT_OVER_MAX,         /* all connections are in use */
    CLIENT_OVER_PER_ADDRESS, /* all of that address are */
};

/* The owner closes the connection, which is no longer in the table. */
typedef void (*client_evict_fn)(struct client_entry *entry);

/* Since the start. */
struct client_table_stats {
    uint64_t count; /* now */
    uint64_t max;   /* now */
    uint64_t refused;
    uint64_t evicted;
};

struct client_table *client_table_new(const struct memory *memory,
                                      const struct client_limits *limits, uint64_t hash_key);
/* Every entry must have been removed. */
void client_table_free(struct client_table *t);

/* Adds a connection, not idle. Calls `evict` for those closed in favour of it. */
enum client_verdict client_table_admit(struct client_table *t, struct client_entry *entry,
                                       const struct ip_address *ip, client_evict_fn evict);
/* Does nothing if it is not in the table. */
void client_table_remove(struct client_table *t, struct client_entry *entry);
/* Does nothing if it is not in the table, or in that state already. */
void client_table_set_idle(struct client_table *t, struct client_entry *entry, bool is_idle);

/* `max` is above `reserved`. Closes idle connections over it, oldest first; keeps the others. */
void client_table_set_max(struct client_table *t, uint32_t max, client_evict_fn evict);

void client_table_stats(const struct client_table *t, struct client_table_stats *out);

#endif
