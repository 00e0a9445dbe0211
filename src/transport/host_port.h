/* The address of a node: HOST:PORT or [IPV6]:PORT. */
#ifndef HOLDFAST_TRANSPORT_HOST_PORT_H
#define HOLDFAST_TRANSPORT_HOST_PORT_H

#include <stdbool.h>
#include <stddef.h>

enum { HOST_PORT_TEXT = 272 /* DNS name, brackets, port */ };

struct host_port {
    char host[HOST_PORT_TEXT]; /* without brackets */
    char port[8];
};

/* Parses `len` bytes. A missing port is `default_port`, an error if that is NULL. On failure `out`
 * is untouched. */
bool host_port_parse(const char *text, size_t len, const char *default_port, struct host_port *out);

void host_port_format(const struct host_port *address, char *text, size_t size);

#endif
