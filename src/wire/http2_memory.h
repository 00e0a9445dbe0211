/* The memory of nghttp2's sessions: malloc, with two habits of ours.
 *
 * nghttp2 gives each session a buffer of 16 KiB for the frame that it is writing. We take a frame
 * out as a whole, and copy it before anything else happens, so one buffer serves all sessions:
 * without that, it would be most of what an idle connection costs (decision 0012).
 *
 * Each request takes seven small blocks and gives them back. A batch of 64 does so 64 times before
 * the first is given back, more than malloc keeps at hand, so they are kept here: by exact size, no
 * more of each than HTTP2_KEPT. Under AddressSanitizer nothing is kept, so that it sees what is
 * used too late. */
#ifndef HOLDFAST_WIRE_HTTP2_MEMORY_H
#define HOLDFAST_WIRE_HTTP2_MEMORY_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"

enum {
    HTTP2_KEPT = 256,        /* blocks of a size */
    HTTP2_KEPT_CLASSES = 32, /* up to 512 bytes, in steps of 16 */
    HTTP2_FRAME_MIN = 16384, /* a block of that size is taken for the frame's */
    HTTP2_FRAME_MAX = 17408,
};

struct http2_memory {
    nghttp2_mem allocator; /* to be given to nghttp2; points to this object */
    const struct memory *memory;
    void *frame;
    bool is_making; /* a session, whose first large block is that buffer */
    uint32_t most;  /* that are kept of a size: HTTP2_KEPT or 0 */
    struct {
        void *first; /* each holds the next in its first bytes */
        uint32_t count;
    } kept[HTTP2_KEPT_CLASSES];
};

void http2_memory_open(struct http2_memory *m, const struct memory *memory);
/* All sessions are gone. */
void http2_memory_close(struct http2_memory *m);

#endif
