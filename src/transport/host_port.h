/* The address of a node as users write it: HOST:PORT or [IPV6]:PORT. */
#ifndef HOLDFAST_TRANSPORT_HOST_PORT_H
#define HOLDFAST_TRANSPORT_HOST_PORT_H

#include <stdbool.h>
#include <stddef.h>

enum { HOST_PORT_TEXT = 272 /* a DNS name, brackets and a port */ };

struct host_port {
    char host[HOST_PORT_TEXT]; /* without brackets */
    char port[8];
};

/* Parses `len` bytes. A missing port is `default_port`; it is required if that is NULL. On failure,
 * returns false and leaves `out` as it is. */
bool host_port_parse(const char *text, size_t len, const char *default_port, struct host_port *out);

/* Writes the address with its port. */
void host_port_format(const struct host_port *address, char *text, size_t size);

#endif
