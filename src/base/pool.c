/* The slab allocator of pool.h: free lists by size class over chunks that are used from front to
 * back.
 *
 * No operation touches more memory than one object: a new chunk is neither zeroed nor divided, so
 * no command pays for 1 MiB. The first four bytes of a free block are the reference of the next one
 * of its class.
 *
 * Under AddressSanitizer exactly the requested bytes are addressable. */
#include "base/pool.h"

#include <stdbool.h>

#if defined(__SANITIZE_ADDRESS__)
#define POOL_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POOL_ASAN 1
#endif
#endif

#ifdef POOL_ASAN
#include <sanitizer/asan_interface.h>

static void mark_dead(void *block, size_t size)
{
    ASAN_POISON_MEMORY_REGION(block, size);
}

static void mark_alive(void *block, size_t size)
{
    ASAN_UNPOISON_MEMORY_REGION(block, size);
}

static bool is_alive(void *block, size_t size)
{
    return __asan_region_is_poisoned(block, size) == NULL;
}
#else
static void mark_dead(void *block, size_t size)
{
    (void)block;
    (void)size;
}

static void mark_alive(void *block, size_t size)
{
    (void)block;
    (void)size;
}

static bool is_alive(void *block, size_t size)
{
    (void)block;
    (void)size;
    return true;
}
#endif

enum {
    SMALL_MAX = 1024,
    SMALL_STEP = 8,
    SMALL_CLASSES = SMALL_MAX / SMALL_STEP,
    MEDIUM_MAX = 8192,
    MEDIUM_STEP = 128,
    MEDIUM_CLASSES = (MEDIUM_MAX - SMALL_MAX) / MEDIUM_STEP,
    LARGE_STEP = 1024,
    LARGE_CLASSES = (POOL_MAX_OBJECT - MEDIUM_MAX) / LARGE_STEP,
    FIRST_CHUNK_CAPACITY = 64,
};

_Static_assert(POOL_CLASSES == SMALL_CLASSES + MEDIUM_CLASSES + LARGE_CLASSES,
               "pool.h and pool.c disagree about the size classes");

static size_t class_of(size_t size)
{
    if (size <= SMALL_MAX)
        return (size - 1) / SMALL_STEP;
    if (size <= MEDIUM_MAX)
        return SMALL_CLASSES + (size - SMALL_MAX - 1) / MEDIUM_STEP;
    return SMALL_CLASSES + MEDIUM_CLASSES + (size - MEDIUM_MAX - 1) / LARGE_STEP;
}

static size_t class_size(size_t size_class)
{
    if (size_class < SMALL_CLASSES)
        return (size_class + 1) * SMALL_STEP;
    size_class -= SMALL_CLASSES;
    if (size_class < MEDIUM_CLASSES)
        return SMALL_MAX + (size_class + 1) * MEDIUM_STEP;
    size_class -= MEDIUM_CLASSES;
    return MEDIUM_MAX + (size_class + 1) * LARGE_STEP;
}

static void push_free(struct pool *p, size_t size_class, ref who)
{
    void *block = pool_at(p, who);
    mark_alive(block, sizeof(ref));
    memcpy(block, &p->free_lists[size_class], sizeof(ref));
    mark_dead(block, class_size(size_class));
    p->free_lists[size_class] = who;
}

static ref pop_free(struct pool *p, size_t size_class)
{
    ref who = p->free_lists[size_class];
    void *block = pool_at(p, who);
    mark_alive(block, sizeof(ref));
    memcpy(&p->free_lists[size_class], block, sizeof(ref));
    mark_dead(block, POOL_UNIT);
    return who;
}

static ref newest_chunk_ref(const struct pool *p, uint32_t unit)
{
    return (p->chunk_count - 1) << POOL_CHUNK_SHIFT | unit;
}

/* Adds the rest of the newest chunk to the free lists. Two blocks cover it exactly: the rest after
 * the largest fitting class is a class itself. */
static void free_chunk_rest(struct pool *p)
{
    while (p->fresh_unit < POOL_CHUNK_UNITS) {
        size_t rest = (size_t)(POOL_CHUNK_UNITS - p->fresh_unit) * POOL_UNIT;
        hf_assert(rest <= POOL_MAX_OBJECT);
        size_t size_class = class_of(rest);
        if (class_size(size_class) > rest)
            size_class--;
        push_free(p, size_class, newest_chunk_ref(p, p->fresh_unit));
        p->fresh_unit += (uint32_t)(class_size(size_class) / POOL_UNIT);
    }
}

static void add_chunk(struct pool *p)
{
    if (p->chunk_count == POOL_MAX_CHUNKS)
        hf_panic(__FILE__, __LINE__, "pool: no references left, 32 GiB of objects are in use");
    if (p->chunk_count == p->chunk_capacity) {
        uint32_t capacity = p->chunk_capacity == 0 ? FIRST_CHUNK_CAPACITY : p->chunk_capacity * 2;
        p->chunks = memory_grow(p->memory, p->chunks, p->chunk_capacity * sizeof(*p->chunks),
                                capacity * sizeof(*p->chunks));
        p->chunk_capacity = capacity;
    }
    unsigned char *chunk = memory_alloc(p->memory, POOL_CHUNK_BYTES);
    hf_assert((uintptr_t)chunk % POOL_UNIT == 0);
    mark_dead(chunk, POOL_CHUNK_BYTES);
    p->chunks[p->chunk_count++] = chunk;
    /* The very first unit is not used: reference 0 means none. */
    p->fresh_unit = p->chunk_count == 1 ? 1 : 0;
}

static ref take_fresh(struct pool *p, size_t size)
{
    uint32_t units = (uint32_t)(size / POOL_UNIT);
    if (POOL_CHUNK_UNITS - p->fresh_unit < units) {
        free_chunk_rest(p);
        add_chunk(p);
    }
    ref who = newest_chunk_ref(p, p->fresh_unit);
    p->fresh_unit += units;
    return who;
}

void pool_init(struct pool *p, const struct memory *memory)
{
    hf_assert(memory != NULL);
    memset(p, 0, sizeof(*p));
    p->memory = memory;
    p->fresh_unit = POOL_CHUNK_UNITS; /* there is no chunk yet */
}

void pool_close(struct pool *p)
{
    for (uint32_t i = 0; i < p->chunk_count; i++) {
        mark_alive(p->chunks[i], POOL_CHUNK_BYTES);
        memory_free(p->memory, p->chunks[i], POOL_CHUNK_BYTES);
    }
    if (p->chunk_capacity > 0)
        memory_free(p->memory, p->chunks, p->chunk_capacity * sizeof(*p->chunks));
    memset(p, 0, sizeof(*p));
}

void *pool_alloc(struct pool *p, size_t size, ref *out)
{
    hf_assert(size >= 1 && size <= POOL_MAX_OBJECT);
    hf_assert(out != NULL);
    size_t size_class = class_of(size);
    size_t rounded = class_size(size_class);
    ref who = p->free_lists[size_class] != 0 ? pop_free(p, size_class) : take_fresh(p, rounded);
    void *block = pool_at(p, who);
    mark_alive(block, size);
    memset(block, 0, size);
    p->bytes_used += rounded;
    *out = who;
    return block;
}

void pool_free(struct pool *p, ref who, size_t size)
{
    hf_assert(size >= 1 && size <= POOL_MAX_OBJECT);
    hf_assert(who != 0 && who >> POOL_CHUNK_SHIFT < p->chunk_count);
    hf_assert(is_alive(pool_at(p, who), size));
    size_t size_class = class_of(size);
    hf_assert(p->bytes_used >= class_size(size_class));
    p->bytes_used -= class_size(size_class);
    push_free(p, size_class, who);
}

size_t pool_rounded(size_t size)
{
    hf_assert(size >= 1 && size <= POOL_MAX_OBJECT);
    return class_size(class_of(size));
}

uint64_t pool_bytes_reserved(const struct pool *p)
{
    return (uint64_t)p->chunk_count * POOL_CHUNK_BYTES + p->chunk_capacity * sizeof(*p->chunks);
}

uint64_t pool_bytes_used(const struct pool *p)
{
    return p->bytes_used;
}
