/* Refuses client connections over the limit: sends the error of the protocol, then closes.
 *
 * HTTP is answered after the first bytes, which show whether it is HTTP/1.1 (503 `limit_clients`)
 * or HTTP/2 (GOAWAY); the Redis protocol immediately ("-ERR max number of clients reached"). A
 * connection keeps its descriptor for a second at most. At most DESCRIPTORS_REFUSALS connections
 * are answered at a time; others are closed without an answer. */
#ifndef HOLDFAST_NODE_CLIENTS_REFUSAL_H
#define HOLDFAST_NODE_CLIENTS_REFUSAL_H

#include "net/connection.h"

struct refusals;

enum refusal_protocol { REFUSE_HTTP, REFUSE_RESP };

struct refusals *refusals_new(const struct memory *memory);
/* Every connection must be closed. */
void refusals_free(struct refusals *r);

/* Takes ownership of an accepted connection that was not started. */
void refuse(struct refusals *r, struct connection *c, enum refusal_protocol protocol);

#endif
