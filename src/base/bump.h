/* Memory for one message: allocated piece by piece, freed all at once.
 *
 * One block serves nearly all messages and is kept; larger needs get extra blocks until the next
 * reset. Beyond the limit bump_take returns NULL, and the caller refuses the message. */
#ifndef HOLDFAST_BASE_BUMP_H
#define HOLDFAST_BASE_BUMP_H

#include "base/memory.h"
#include "base/slice.h"

struct bump_block;

struct bump {
    const struct memory *memory;
    struct bump_block *blocks; /* newest first; the oldest one is kept */
    size_t used;               /* bytes of the newest */
    size_t taken;              /* bytes in total */
    size_t max;
};

void bump_init(struct bump *a, const struct memory *memory, size_t max);
void bump_close(struct bump *a);

/* Aligned for any type, not zeroed; NULL beyond the limit. */
void *bump_take(struct bump *a, size_t size);
/* A copy with a terminating NUL. Beyond the limit, "". */
char *bump_text(struct bump *a, struct slice text);
/* Frees everything that was taken. */
void bump_reset(struct bump *a);

#endif
