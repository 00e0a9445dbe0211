/* Memory for the time of one message: taken piece by piece, given back all at once.
 *
 * One block serves nearly everything and stays; what does not fit gets blocks of its own until the
 * next reset. There is a limit, since what is taken depends on what a client sent: beyond it
 * bump_take returns NULL, and the caller refuses the message. */
#ifndef HOLDFAST_BASE_BUMP_H
#define HOLDFAST_BASE_BUMP_H

#include "base/memory.h"
#include "base/slice.h"

struct bump_block;

struct bump {
    const struct memory *memory;
    struct bump_block *blocks; /* the newest first; the oldest one stays */
    size_t used;               /* of the newest */
    size_t taken;              /* in all */
    size_t max;
};

void bump_init(struct bump *a, const struct memory *memory, size_t max);
void bump_close(struct bump *a);

/* Aligned for any type, not zeroed; NULL beyond the limit. */
void *bump_take(struct bump *a, size_t size);
/* A copy with a NUL behind it, for those who want one. Beyond the limit, "". */
char *bump_text(struct bump *a, struct slice text);
/* Everything that was taken is given back. */
void bump_reset(struct bump *a);

#endif
