/* The process's memory: malloc and its family, for one thread, as quick as they can be. A simulated
 * minute makes some million small pieces that live for a few events; each comes from a list of its
 * size and goes back to it. Nothing is given back to the system: a world ends with its process.
 *
 * With a sanitizer its own malloc stays, which checks what this one does not. */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#endif

#ifndef __SANITIZE_ADDRESS__

enum {
    STEP = 16,    /* small sizes are rounded up to it, and everything is aligned to it */
    SMALL = 1024, /* above that there are four sizes up to the double */
    SMALL_CLASSES = SMALL / STEP + 1,
    CLASSES = SMALL_CLASSES + 4 * 64,
    CHUNK = 4 << 20,
    HUGE = 2 << 20, /* a page of the large kind: some thousand faults fewer a world */
};

/* In front of each piece. */
struct header {
    size_t size; /* of its class */
    size_t class;
};
_Static_assert(sizeof(struct header) == STEP, "what follows is aligned");

struct free_piece {
    struct free_piece *next;
};

static struct free_piece *free_lists[CLASSES];
static char *chunk;
static size_t chunk_left;

static size_t class_of(size_t size, size_t *rounded)
{
    if (size <= SMALL) {
        *rounded = (size + STEP - 1) / STEP * STEP;
        return *rounded / STEP;
    }
    unsigned log = 63 - (unsigned)__builtin_clzll(size - 1); /* 2^log is the highest bit */
    size_t step = (size_t)1 << (log - 2);
    *rounded = (size + step - 1) & ~(step - 1);
    return SMALL_CLASSES + 4 * (size_t)log + ((size - 1) >> (log - 2)) % 4;
}

static char *fresh(size_t bytes)
{
    char *p = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return NULL;
    }
    p += (HUGE - (uintptr_t)p % HUGE) % HUGE;
    (void)madvise(p, bytes, MADV_HUGEPAGE); /* where there are none, it works as well */
    return p;
}

/* Never used before, so all zeros. */
static struct header *carve(size_t bytes)
{
    if (bytes > CHUNK / 4) {
        return (struct header *)(void *)fresh(bytes);
    }
    if (bytes > chunk_left) {
        char *next = fresh(CHUNK);
        if (next == NULL) {
            return NULL;
        }
        chunk = next;
        chunk_left = CHUNK;
    }
    struct header *h = (struct header *)(void *)chunk;
    chunk += bytes;
    chunk_left -= bytes;
    return h;
}

static void *take(size_t size, int zeroed)
{
    size_t rounded = 0;
    if (size > PTRDIFF_MAX / 4) {
        errno = ENOMEM;
        return NULL;
    }
    size_t class = class_of(size, &rounded);
    struct free_piece *piece = free_lists[class];
    if (piece != NULL) {
        free_lists[class] = piece->next;
        return zeroed ? memset(piece, 0, rounded) : piece;
    }
    struct header *h = carve(rounded + sizeof(*h));
    if (h == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    *h = (struct header){rounded, class};
    return h + 1;
}

void *malloc(size_t size)
{
    return take(size, 0);
}

void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return take(bytes, 1);
}

void free(void *p)
{
    if (p != NULL) {
        size_t class = ((struct header *)p)[-1].class;
        struct free_piece *piece = p;
        piece->next = free_lists[class];
        free_lists[class] = piece;
    }
}

void *realloc(void *p, size_t size)
{
    if (p == NULL) {
        return malloc(size);
    }
    size_t had = ((struct header *)p)[-1].size;
    if (size <= had) {
        return p;
    }
    void *more = malloc(size);
    if (more != NULL) {
        memcpy(more, p, had);
        free(p);
    }
    return more;
}

/* Nothing here requests more than the usual alignment. */
void *aligned_alloc(size_t alignment, size_t size)
{
    if (alignment > STEP) {
        errno = EINVAL;
        return NULL;
    }
    return malloc(size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (alignment > STEP) {
        return EINVAL;
    }
    *out = malloc(size);
    return *out == NULL ? ENOMEM : 0;
}

#else
extern int arena_is_left_out;
#endif
