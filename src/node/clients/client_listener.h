/* A listener for clients of one protocol, HTTP or Redis. */
#ifndef HOLDFAST_NODE_CLIENTS_CLIENT_LISTENER_H
#define HOLDFAST_NODE_CLIENTS_CLIENT_LISTENER_H

#include "base/journal.h"
#include "net/address.h"
#include "net/net.h"
#include "node/clients/client_table.h"
#include "node/clients/refusal.h"
#include "service/service.h"
#include "tls/context.h"

struct client_listener;

enum client_protocol { CLIENT_HTTP, CLIENT_RESP };

struct client_listener_options {
    enum client_protocol protocol;
    struct net *net;
    struct service *service;
    const struct journal *journal;
    struct address listen;
    struct client_table *clients;   /* of all listeners of the node */
    struct refusals *refusals;      /* likewise */
    struct tls_context *const *tls; /* of new connections; to NULL: clear text */
};

/* On failure returns NULL and sets `problem`. */
struct client_listener *client_listener_new(const struct client_listener_options *options,
                                            char *problem, size_t problem_size);
/* Accepts no more clients; existing connections continue. */
void client_listener_shut(struct client_listener *l);
/* After client_listener_shut, when every connection is closed. */
void client_listener_free(struct client_listener *l);

/* Of any listener, in favour of a new connection. */
void client_listener_evict(struct client_entry *entry);

uint16_t client_listener_port(const struct client_listener *l);
uint32_t client_listener_clients(const struct client_listener *l);

#endif
