/* A TLS session as the filter of a connection. */
#ifndef HOLDFAST_NODE_CLIENTS_TLS_FILTER_H
#define HOLDFAST_NODE_CLIENTS_TLS_FILTER_H

#include "net/connection.h"
#include "tls/session.h"

/* Before connection_start. `begins`: this end is the client of the handshake. `clear_text` is sent, unencrypted, to a client that does not speak TLS;
 * static; NULL: nothing. */
void tls_filter_set(struct connection *c, const struct memory *memory, struct tls_context *context,
                    bool begins, const char *clear_text);

#endif
