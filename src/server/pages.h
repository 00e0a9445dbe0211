/* The pages of the client port that are not the API's: `/`, for a person with a browser, and
 * `/metrics`. */
#ifndef HOLDFAST_SERVER_PAGES_H
#define HOLDFAST_SERVER_PAGES_H

#include "base/buffer.h"
#include "node/node.h"

/* False when there is no such page. */
bool pages_write(struct node *node, struct slice path, struct buffer *out,
                 const char **content_type);

#endif
