/* The pages of the client port beside the API: `/`, for browsers, and `/metrics`. */
#ifndef HOLDFAST_SERVER_PAGES_H
#define HOLDFAST_SERVER_PAGES_H

#include "base/buffer.h"
#include "node/node.h"

/* False: there is no such page. */
bool pages_write(struct node *node, struct slice path, struct buffer *out,
                 const char **content_type);

#endif
