/* The TLS part of a transport: what transport.c calls when a context is set. */
#ifndef HOLDFAST_TRANSPORT_SECURE_H
#define HOLDFAST_TRANSPORT_SECURE_H

#include "transport/transport.h"

struct transport_tls;

enum secure_step { SECURE_MORE, SECURE_DONE, SECURE_FAILED };

struct transport_tls *secure_new(struct security *security, const char *host);
void secure_free(struct transport_tls *tls);
/* After close_notify, if the connection is up; as far as the socket takes it. */
void secure_end(struct transport *t);
/* Continues the handshake on a connected socket. FAILED: t->problem is set. */
enum secure_step secure_advance(struct transport *t);
/* The handshake has bytes that the socket did not take. */
bool secure_has_output(const struct transport_tls *tls);
bool secure_has_input(const struct transport_tls *tls);

#endif
