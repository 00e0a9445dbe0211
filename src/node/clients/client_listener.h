/* The ports of clients: sockets on one side, the service's connections on the other, of HTTP or of
 * the Redis protocol. */
#ifndef HOLDFAST_NODE_CLIENTS_CLIENT_LISTENER_H
#define HOLDFAST_NODE_CLIENTS_CLIENT_LISTENER_H

#include "base/journal.h"
#include "net/address.h"
#include "net/net.h"
#include "node/clients/client_table.h"
#include "node/clients/refusal.h"
#include "service/service.h"

struct door;

enum client_protocol { CLIENT_HTTP, CLIENT_RESP };

struct client_listener_options {
    enum client_protocol protocol;
    struct net *net;
    struct service *service;
    const struct journal *journal;
    struct address listen;
    struct client_table *clients; /* of all listeners of the node */
    struct refusals *refusals;    /* likewise */
};

/* NULL, with a sentence, when the address cannot be listened on. */
struct door *client_listener_new(const struct client_listener_options *options, char *problem,
                                 size_t problem_size);
/* Takes no more clients; those that are there go on until they are done. */
void client_listener_shut(struct door *d);
/* After that, and after every connection is gone. */
void client_listener_free(struct door *d);

/* For client_table.h: closes a connection of any door in favour of a new one. */
void client_listener_evict(struct client_entry *entry);

uint16_t client_listener_port(const struct door *d);
uint32_t client_listener_clients(const struct door *d);

#endif
