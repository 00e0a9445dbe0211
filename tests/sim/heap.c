/* libraft's heap. It reads the second byte of a pointer to one of the smallest pieces as a flag
 * (E18). In some worlds that byte is zero for all of them, as by chance it is for one of 256, and
 * in the others for none: so a world does the same each time. */
#define _DEFAULT_SOURCE
#include "world.h"

#include <raft.h>
#include <sys/mman.h>

enum { PAGE = 1 << 16, PAGES = 64, SLOT = 16, PER_PAGE = 256 / SLOT };

static char *pages;      /* aligned to PAGE; 256 bytes of each are used */
static void **free_slot; /* a list through the slots */

static bool is_slot(const void *p)
{
    return (const char *)p >= pages && (const char *)p < pages + (size_t)PAGES * PAGE;
}

static void *heap_malloc(void *data, size_t size)
{
    (void)data;
    if (size <= 1 && free_slot != NULL) {
        void **slot = free_slot;
        free_slot = *slot;
        return slot;
    }
    return malloc(size);
}

static void heap_free(void *data, void *p)
{
    (void)data;
    if (is_slot(p)) {
        *(void **)p = free_slot;
        free_slot = p;
        return;
    }
    free(p);
}

static void *heap_calloc(void *data, size_t count, size_t size)
{
    (void)data;
    return calloc(count, size);
}

static void *heap_realloc(void *data, void *p, size_t size)
{
    (void)data;
    if (is_slot(p)) {
        violation("libraft reallocates a piece of one byte");
    }
    return realloc(p, size);
}

static void *heap_aligned_alloc(void *data, size_t alignment, size_t size)
{
    (void)data;
    return aligned_alloc(alignment, size);
}

static void heap_aligned_free(void *data, size_t alignment, void *p)
{
    (void)alignment;
    heap_free(data, p);
}

void heap_begin(void)
{
    static struct raft_heap heap = {NULL,         heap_malloc,        heap_free,        heap_calloc,
                                    heap_realloc, heap_aligned_alloc, heap_aligned_free};
    char *p = mmap(NULL, (size_t)(PAGES + 1) * PAGE, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        perror("sim: mmap");
        exit(70);
    }
    pages = p + (PAGE - (uintptr_t)p % PAGE) % PAGE;
    size_t offset = world.weather.low_addresses ? 0 : 256;
    for (size_t i = 0; i < PAGES; i++) {
        for (size_t k = 0; k < PER_PAGE; k++) {
            heap_free(NULL, pages + i * PAGE + offset + k * SLOT);
        }
    }
    raft_heap_set(&heap);
}
