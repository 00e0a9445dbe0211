/* The ports of clients: sockets on one side, the service's connections on the other, of HTTP or of
 * the Redis protocol. */
#ifndef HOLDFAST_NODE_DOOR_H
#define HOLDFAST_NODE_DOOR_H

#include "net/address.h"
#include "net/net.h"
#include "node/client_table.h"
#include "node/journal.h"
#include "node/refusal.h"
#include "service/service.h"

struct door;

enum door_protocol { DOOR_HTTP, DOOR_RESP };

struct door_options {
    enum door_protocol protocol;
    struct net *net;
    struct service *service;
    const struct journal *journal;
    struct address listen;
    struct client_table *clients; /* of all listeners of the node */
    struct refusals *refusals;    /* likewise */
};

/* NULL, with a sentence, when the address cannot be listened on. */
struct door *door_new(const struct door_options *options, char *problem, size_t problem_size);
/* Takes no more clients; those that are there go on until they are done. */
void door_shut(struct door *d);
/* After that, and after every connection is gone. */
void door_free(struct door *d);

/* For client_table.h: closes a connection of any door in favour of a new one. */
void door_evict(struct client_entry *entry);

uint16_t door_port(const struct door *d);
uint32_t door_clients(const struct door *d);

#endif
