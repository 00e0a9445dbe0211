/* Looks up the addresses of a host. */
#ifndef HOLDFAST_TRANSPORT_RESOLVE_H
#define HOLDFAST_TRANSPORT_RESOLVE_H

#include <netdb.h>
#include <sys/socket.h>

#include "transport/host_port.h"

/* A lookup on its own thread, which writes to `wake_fd`, an eventfd, when done. A numeric address
 * is done at once. */
struct resolve *resolve_new(const struct host_port *address, int wake_fd);
/* When true, *out is the list, which the caller frees, or NULL with the resolver's error. */
bool resolve_is_done(struct resolve *resolve, struct addrinfo **out, const char **problem);
/* Takes NULL; the thread may still run. */
void resolve_free(struct resolve *resolve);

/* Blocks. The length of the first address; 0: it cannot be resolved. */
socklen_t resolve_now(const struct host_port *address, struct sockaddr_storage *out);

#endif
