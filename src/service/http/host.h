/* Which values of Host are served. A web page can make a browser send requests to this address
 * under a name of its own (DNS rebinding); the name in Host reveals it. */
#ifndef HOLDFAST_SERVICE_HTTP_HOST_H
#define HOLDFAST_SERVICE_HTTP_HOST_H

#include "base/slice.h"

/* An IP literal, `localhost` or one of `names` (separated by commas; "*": any), each with or without
 * a port. An empty host is allowed: a browser always sends one. */
bool host_is_served(struct slice host, const char *names);

#endif
