/* See http2_memory.h. */
#include "wire/http2_memory.h"

#include <malloc.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#define MOST 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MOST 0
#endif
#endif
#ifndef MOST
#define MOST HTTP2_KEPT
#endif

/* Class i has blocks of at least 16 i - 8 bytes, the sizes to which malloc rounds. */
enum { STEP = 16, HEAD = 8 };

static size_t class_that_has(size_t size)
{
    return (size + HEAD + STEP - 1) / STEP;
}

static size_t class_of(void *block)
{
    return (malloc_usable_size(block) + HEAD) / STEP;
}

static void *take_small(struct http2_memory *m, size_t size)
{
    size_t class = class_that_has(size);
    void *block = class < HTTP2_KEPT_CLASSES ? m->kept[class].first : NULL;
    if (block == NULL) {
        return malloc(size);
    }
    memcpy(&m->kept[class].first, block, sizeof(void *));
    m->kept[class].count--;
    return block;
}

static void give_small(struct http2_memory *m, void *block)
{
    size_t class = block == NULL ? 0 : class_of(block);
    if (class == 0 || class >= HTTP2_KEPT_CLASSES || m->kept[class].count >= m->most) {
        free(block);
        return;
    }
    memcpy(block, &m->kept[class].first, sizeof(void *));
    m->kept[class].first = block;
    m->kept[class].count++;
}

static bool is_frame(struct http2_memory *m, size_t size)
{
    bool is_it = m->is_making && size >= HTTP2_FRAME_MIN && size <= HTTP2_FRAME_MAX;
    m->is_making = m->is_making && !is_it; /* a session has only one */
    return is_it;
}

static void *take_block(size_t size, void *user)
{
    struct http2_memory *m = user;
    return is_frame(m, size) ? m->frame : take_small(m, size);
}

static void give_back(void *block, void *user)
{
    struct http2_memory *m = user;
    if (block != m->frame) {
        give_small(m, block);
    }
}

static void *take_zeroed(size_t count, size_t size, void *user)
{
    (void)user;
    return calloc(count, size);
}

static void *take_larger(void *block, size_t size, void *user)
{
    struct http2_memory *m = user;
    if (block == NULL && is_frame(m, size)) {
        return m->frame;
    }
    if (block != m->frame) {
        return realloc(block, size);
    }
    void *larger = malloc(size);
    if (larger != NULL) {
        memcpy(larger, block, size < HTTP2_FRAME_MAX ? size : HTTP2_FRAME_MAX);
    }
    return larger;
}

void http2_memory_open(struct http2_memory *m, const struct memory *memory)
{
    *m = (struct http2_memory){.memory = memory, .most = MOST};
    m->frame = memory_alloc(memory, HTTP2_FRAME_MAX);
    m->allocator = (nghttp2_mem){m, take_block, give_back, take_zeroed, take_larger};
}

void http2_memory_close(struct http2_memory *m)
{
    for (size_t class = 0; class < HTTP2_KEPT_CLASSES; class ++) {
        while (m->kept[class].first != NULL) {
            void *block = m->kept[class].first;
            memcpy(&m->kept[class].first, block, sizeof(void *));
            free(block);
        }
    }
    memory_free(m->memory, m->frame, HTTP2_FRAME_MAX);
}
