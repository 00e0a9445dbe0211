/* Tests of the pool, and of the panic and memory functions that it stands on. */
#include "base_testing.h"

#include "base/panic.h"
#include "base/pool.h"

/* ---- panic and memory ---- */

static void panic_on_purpose(void *ctx)
{
    (void)ctx;
    hf_panic("somewhere.c", 42, "what went wrong");
}

static void a_panic_says_where_and_what_and_aborts(void **state)
{
    (void)state;
    assert_panics(panic_on_purpose, NULL, "holdfast: somewhere.c:42: what went wrong\n");
}

static void assert_false_things(void *ctx)
{
    hf_assert(ctx != NULL);
}

static void a_failed_assert_names_its_condition(void **state)
{
    (void)state;
    hf_assert(state == state);
    assert_panics(assert_false_things, NULL, "assertion failed: ctx != NULL");
}

static void allocate_too_much(void *ctx)
{
    (void)ctx;
    memory_alloc(memory_system(), SIZE_MAX / 4);
}

static void running_out_of_memory_ends_the_process_with_a_clear_message(void **state)
{
    (void)state;
    if (TESTING_ASAN)
        skip(); /* there malloc itself ends the process */
    assert_panics(allocate_too_much, NULL, "out of memory");
}

static void system_memory_can_be_written_and_given_back(void **state)
{
    (void)state;
    char *block = memory_alloc(memory_system(), 100);
    memset(block, 1, 100);
    block = memory_grow(memory_system(), block, 100, 200);
    assert_int_equal(block[99], 1);
    memory_free(memory_system(), block, 200);
}

/* ---- pool ---- */

static size_t naive_class_size(size_t size)
{
    size_t step = size <= 1024 ? 8 : size <= 8192 ? 128 : 1024;
    return (size + step - 1) / step * step;
}

static void an_unused_pool_takes_no_memory(void **state)
{
    (void)state;
    struct counted counted;
    counted_init(&counted);
    struct pool pool;
    pool_init(&pool, &counted.memory);
    assert_int_equal(pool_bytes_reserved(&pool), 0);
    assert_int_equal(pool_bytes_used(&pool), 0);
    assert_int_equal(counted.calls, 0);
    pool_close(&pool);
    assert_all_given_back(&counted);
}

static void an_object_is_zeroed_aligned_and_found_by_its_reference(void **state)
{
    (void)state;
    struct counted counted;
    counted_init(&counted);
    struct pool pool;
    pool_init(&pool, &counted.memory);
    for (size_t size = 1; size <= 3000; size++) {
        ref who = 0;
        unsigned char *object = pool_alloc(&pool, size, &who);
        assert_int_not_equal(who, 0);
        assert_ptr_equal(pool_at(&pool, who), object);
        assert_int_equal((uintptr_t)object % 8, 0);
        for (size_t i = 0; i < size; i++)
            assert_int_equal(object[i], 0);
        memset(object, 0xff, size);
        if (size % 2 == 0)
            pool_free(&pool, who, size); /* so that dirty blocks come back too */
    }
    pool_close(&pool);
    assert_all_given_back(&counted);
}

static void sizes_are_rounded_up_to_their_class(void **state)
{
    (void)state;
    struct counted counted;
    counted_init(&counted);
    struct pool pool;
    pool_init(&pool, &counted.memory);
    for (size_t size = 1; size <= POOL_MAX_OBJECT; size += size < 9000 ? 1 : 61) {
        ref who;
        pool_alloc(&pool, size, &who);
        assert_int_equal(pool_bytes_used(&pool), naive_class_size(size));
        pool_free(&pool, who, size);
        assert_int_equal(pool_bytes_used(&pool), 0);
    }
    ref who;
    pool_alloc(&pool, POOL_MAX_OBJECT, &who);
    assert_int_equal(pool_bytes_used(&pool), POOL_MAX_OBJECT);
    pool_close(&pool);
    assert_all_given_back(&counted);
}

static void a_freed_block_serves_the_next_object_of_its_class(void **state)
{
    (void)state;
    struct counted counted;
    counted_init(&counted);
    struct pool pool;
    pool_init(&pool, &counted.memory);
    ref first, other, again;
    pool_alloc(&pool, 100, &first);
    pool_alloc(&pool, 100, &other);
    pool_free(&pool, first, 100);
    pool_alloc(&pool, 200, &other);
    assert_int_not_equal(other, first);
    pool_alloc(&pool, 104, &again);
    assert_int_equal(again, first);
    pool_close(&pool);
    assert_all_given_back(&counted);
}

/* Fills the pool with objects of one size until it has to take another chunk. */
static uint64_t fill_chunk(struct pool *pool, size_t size)
{
    uint64_t reserved = pool_bytes_reserved(pool);
    uint64_t objects = 0;
    ref who;
    while (pool_bytes_reserved(pool) == reserved) {
        pool_alloc(pool, size, &who);
        objects++;
    }
    return objects - 1;
}

static void the_rest_of_a_chunk_is_used_by_smaller_objects(void **state)
{
    (void)state;
    struct counted counted;
    counted_init(&counted);
    struct pool pool;
    pool_init(&pool, &counted.memory);
    ref who;
    pool_alloc(&pool, 8, &who); /* the first unit is lost, the second is this object */
    /* 15 objects of 65 KiB leave 49 KiB - 16 bytes: a block of 48 KiB and one of 1008 bytes. */
    assert_int_equal(fill_chunk(&pool, POOL_MAX_OBJECT), 15);
    pool_alloc(&pool, 48 * 1024, &who);
    assert_int_equal(who >> POOL_CHUNK_SHIFT, 0);
    pool_alloc(&pool, 1008, &who);
    assert_int_equal(who >> POOL_CHUNK_SHIFT, 0);
    assert_int_equal(pool_bytes_used(&pool), POOL_CHUNK_BYTES - 8 + POOL_MAX_OBJECT);
    pool_close(&pool);
    assert_all_given_back(&counted);
}

static void every_rest_of_a_chunk_is_covered_by_free_blocks(void **state)
{
    (void)state;
    struct counted counted;
    counted_init(&counted);
    /* First leave a rest of every length, then see that blocks of two classes add up to it. */
    for (size_t taken = 8; taken < POOL_MAX_OBJECT; taken += 8 * 37) {
        struct pool pool;
        pool_init(&pool, &counted.memory);
        ref who;
        pool_alloc(&pool, taken, &who);
        uint64_t filled = fill_chunk(&pool, POOL_MAX_OBJECT);
        size_t rest = POOL_CHUNK_BYTES - 8 - naive_class_size(taken) - filled * POOL_MAX_OBJECT;
        uint64_t reserved = pool_bytes_reserved(&pool);
        size_t step = rest <= 1024 ? 8 : rest <= 8192 ? 128 : 1024;
        size_t first = rest / step * step;
        pool_alloc(&pool, first, &who);
        assert_int_equal(who >> POOL_CHUNK_SHIFT, 0);
        if (first < rest) {
            pool_alloc(&pool, rest - first, &who);
            assert_int_equal(who >> POOL_CHUNK_SHIFT, 0);
        }
        assert_int_equal(pool_bytes_reserved(&pool), reserved);
        pool_close(&pool);
    }
    assert_all_given_back(&counted);
}

static void reserved_bytes_are_exactly_those_taken_from_memory(void **state)
{
    (void)state;
    struct counted counted;
    counted_init(&counted);
    struct pool pool;
    pool_init(&pool, &counted.memory);
    for (int i = 0; i < 70 * 16; i++) { /* past the first doubling of the chunk table */
        ref who;
        pool_alloc(&pool, POOL_MAX_OBJECT, &who);
        assert_int_equal(pool_bytes_reserved(&pool), counted.bytes);
    }
    assert_true(pool.chunk_count > 64);
    assert_int_equal(counted.largest, POOL_CHUNK_BYTES);
    pool_close(&pool);
    assert_all_given_back(&counted);
}

struct piece {
    ref who;
    uint32_t size;
    unsigned char fill;
};

static uint32_t random_size(struct random *random)
{
    switch (random_below(random, 8)) {
    case 0:
        return 1 + random_below(random, POOL_MAX_OBJECT);
    case 1:
        return 1 + random_below(random, 8192);
    default:
        return 1 + random_below(random, 300);
    }
}

static void check_piece(const struct pool *pool, const struct piece *piece)
{
    const unsigned char *object = pool_at(pool, piece->who);
    for (uint32_t i = 0; i < piece->size; i++)
        if (object[i] != piece->fill)
            fail_msg("object %u was overwritten at byte %u", piece->who, i);
}

static void objects_never_overlap_whatever_is_allocated_and_freed(void **state)
{
    (void)state;
    enum { PIECES = 2000, STEPS = 40000 };
    struct random random;
    random_init(&random, __func__);
    struct counted counted;
    counted_init(&counted);
    struct pool pool;
    pool_init(&pool, &counted.memory);
    struct piece *pieces = calloc(PIECES, sizeof(*pieces));
    uint64_t used = 0;
    for (int step = 0; step < STEPS; step++) {
        struct piece *piece = &pieces[random_below(&random, PIECES)];
        if (piece->who != 0) {
            check_piece(&pool, piece);
            pool_free(&pool, piece->who, piece->size);
            used -= naive_class_size(piece->size);
            piece->who = 0;
        } else {
            piece->size = random_size(&random);
            piece->fill = (unsigned char)random_next(&random);
            void *object = pool_alloc(&pool, piece->size, &piece->who);
            memset(object, piece->fill, piece->size);
            used += naive_class_size(piece->size);
        }
        assert_int_equal(pool_bytes_used(&pool), used);
    }
    for (int i = 0; i < PIECES; i++)
        if (pieces[i].who != 0)
            check_piece(&pool, &pieces[i]);
    free(pieces);
    pool_close(&pool);
    assert_all_given_back(&counted);
}

static void a_million_objects_keep_their_contents(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    struct counted counted;
    counted_init(&counted);
    struct pool pool;
    pool_init(&pool, &counted.memory);
    ref *names = calloc(MANY, sizeof(*names));
    for (uint32_t i = 0; i < MANY; i++)
        *(uint32_t *)pool_alloc(&pool, 96, &names[i]) = i;
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(*(uint32_t *)pool_at(&pool, names[i]), i);
    assert_int_equal(pool_bytes_used(&pool), UINT64_C(96) * MANY);
    assert_true(pool_bytes_reserved(&pool) < UINT64_C(98) * MANY);
    for (uint32_t i = 0; i < MANY; i++)
        pool_free(&pool, names[i], 96);
    assert_int_equal(pool_bytes_used(&pool), 0);
    uint64_t reserved = pool_bytes_reserved(&pool);
    for (uint32_t i = 0; i < MANY; i++)
        pool_alloc(&pool, 96, &names[i]);
    assert_int_equal(pool_bytes_reserved(&pool), reserved);
    free(names);
    pool_close(&pool);
    assert_all_given_back(&counted);
}

static void take_one_chunk_too_many(void *ctx)
{
    struct pool *pool = ctx;
    pool->chunk_count = POOL_MAX_CHUNKS;
    pool->fresh_unit = POOL_CHUNK_UNITS;
    ref who;
    pool_alloc(pool, 8, &who);
}

static void allocate_nothing(void *ctx)
{
    ref who;
    pool_alloc(ctx, 0, &who);
}

static void allocate_too_large(void *ctx)
{
    ref who;
    pool_alloc(ctx, POOL_MAX_OBJECT + 1, &who);
}

static void free_none(void *ctx)
{
    pool_free(ctx, 0, 8);
}

static void free_what_never_was(void *ctx)
{
    pool_free(ctx, UINT32_MAX, 8);
}

static void misuse_of_a_pool_ends_the_process(void **state)
{
    (void)state;
    struct pool pool;
    pool_init(&pool, memory_system());
    ref who;
    pool_alloc(&pool, 8, &who);
    assert_panics(take_one_chunk_too_many, &pool, "32 GiB");
    assert_panics(allocate_nothing, &pool, "size >= 1");
    assert_panics(allocate_too_large, &pool, "size <= POOL_MAX_OBJECT");
    assert_panics(free_none, &pool, "who != 0");
    assert_panics(free_what_never_was, &pool, "who != 0");
    pool_close(&pool);
}

static void free_twice(void *ctx)
{
    ref who, other;
    pool_alloc(ctx, 24, &other);
    pool_alloc(ctx, 24, &who);
    pool_free(ctx, who, 24);
    pool_free(ctx, who, 24);
}

static void free_with_a_larger_size(void *ctx)
{
    ref who;
    pool_alloc(ctx, 24, &who);
    pool_free(ctx, who, 40);
}

static void the_address_sanitizer_sees_wrong_frees(void **state)
{
    (void)state;
    if (!TESTING_ASAN)
        skip();
    struct pool pool;
    pool_init(&pool, memory_system());
    assert_panics(free_twice, &pool, "is_alive");
    assert_panics(free_with_a_larger_size, &pool, "is_alive");
    pool_close(&pool);
}

#if TESTING_ASAN
#include <sanitizer/asan_interface.h>
#endif

static void the_address_sanitizer_sees_exactly_the_live_bytes(void **state)
{
    (void)state;
#if TESTING_ASAN
    struct pool pool;
    pool_init(&pool, memory_system());
    for (int round = 0; round < 2; round++) { /* fresh, then recycled */
        ref who;
        char *object = pool_alloc(&pool, 21, &who);
        assert_null(__asan_region_is_poisoned(object, 21));
        assert_true(__asan_address_is_poisoned(object - 1));
        assert_true(__asan_address_is_poisoned(object + 21));
        assert_true(__asan_address_is_poisoned(object + 24));
        pool_free(&pool, who, 21);
        for (int i = 0; i < 24; i++)
            assert_true(__asan_address_is_poisoned(object + i));
    }
    ref who;
    char *tiny = pool_alloc(&pool, 1, &who);
    pool_free(&pool, who, 1);
    assert_ptr_equal(pool_alloc(&pool, 1, &who), tiny);
    assert_true(__asan_address_is_poisoned(tiny + 1));
    pool_close(&pool);
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_panic_says_where_and_what_and_aborts),
        cmocka_unit_test(a_failed_assert_names_its_condition),
        cmocka_unit_test(running_out_of_memory_ends_the_process_with_a_clear_message),
        cmocka_unit_test(system_memory_can_be_written_and_given_back),
        cmocka_unit_test(an_unused_pool_takes_no_memory),
        cmocka_unit_test(an_object_is_zeroed_aligned_and_found_by_its_reference),
        cmocka_unit_test(sizes_are_rounded_up_to_their_class),
        cmocka_unit_test(a_freed_block_serves_the_next_object_of_its_class),
        cmocka_unit_test(the_rest_of_a_chunk_is_used_by_smaller_objects),
        cmocka_unit_test(every_rest_of_a_chunk_is_covered_by_free_blocks),
        cmocka_unit_test(reserved_bytes_are_exactly_those_taken_from_memory),
        cmocka_unit_test(objects_never_overlap_whatever_is_allocated_and_freed),
        cmocka_unit_test(a_million_objects_keep_their_contents),
        cmocka_unit_test(misuse_of_a_pool_ends_the_process),
        cmocka_unit_test(the_address_sanitizer_sees_wrong_frees),
        cmocka_unit_test(the_address_sanitizer_sees_exactly_the_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
