/* Client connections that are over the limit: each gets the error of its protocol, and its end.
 *
 * HTTP is answered when the first bytes of the request have come, since they say whether it is
 * HTTP/1.1 (503 `limit_clients`) or HTTP/2 (GOAWAY); the Redis protocol at once ("-ERR max number
 * of clients reached"). A connection takes its descriptor for a second at most. Only
 * DESCRIPTORS_REFUSALS are treated so at a time; others are closed without an answer. */
#ifndef HOLDFAST_NODE_CLIENTS_REFUSAL_H
#define HOLDFAST_NODE_CLIENTS_REFUSAL_H

#include "net/connection.h"

struct refusals;

enum refusal_protocol { REFUSE_HTTP, REFUSE_RESP };

struct refusals *refusals_new(const struct memory *memory);
/* Every connection must be gone. */
void refusals_free(struct refusals *r);

/* Takes over a connection that was accepted and not started. */
void refuse(struct refusals *r, struct connection *c, enum refusal_protocol protocol);

#endif
