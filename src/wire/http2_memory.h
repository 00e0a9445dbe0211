/* The allocator of nghttp2's sessions: malloc, with two changes.
 *
 * nghttp2 gives each session a buffer of 16 KiB for the frame that it writes. http2.c copies each
 * frame immediately, so one buffer serves all sessions. Otherwise it would be most of the cost of
 * an idle connection (decision 0012).
 *
 * Each request allocates seven small blocks; a batch of 64 requests more of them than malloc
 * caches. So they are cached here: by exact size, at most HTTP2_KEPT of each. Under
 * AddressSanitizer nothing is cached. */
#ifndef HOLDFAST_WIRE_HTTP2_MEMORY_H
#define HOLDFAST_WIRE_HTTP2_MEMORY_H

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/memory.h"

enum {
    HTTP2_KEPT = 256,        /* cached blocks per size */
    HTTP2_KEPT_CLASSES = 32, /* up to 512 bytes, in steps of 16 */
    HTTP2_FRAME_MIN = 16384, /* a block of this size is the frame buffer */
    HTTP2_FRAME_MAX = 17408,
};

struct http2_memory {
    nghttp2_mem allocator; /* for nghttp2; points to this object */
    const struct memory *memory;
    void *frame;
    bool is_making; /* a session is being created; its first large block is that buffer */
    uint32_t most;  /* cached blocks per size: HTTP2_KEPT or 0 */
    struct {
        void *first; /* each block begins with a pointer to the next */
        uint32_t count;
    } kept[HTTP2_KEPT_CLASSES];
};

void http2_memory_open(struct http2_memory *m, const struct memory *memory);
/* All sessions must be freed before. */
void http2_memory_close(struct http2_memory *m);

#endif
