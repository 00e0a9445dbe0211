/* The memory of nghttp2's sessions: http2_memory.h. */
#include "base_testing.h"

#include "wire/http2_memory.h"

static struct http2_memory memory;

static int open_memory(void **state)
{
    (void)state;
    http2_memory_open(&memory, memory_system());
    memory.most = HTTP2_KEPT; /* with sanitizers too: what is kept here is a test's own */
    return 0;
}

static int close_memory(void **state)
{
    (void)state;
    http2_memory_close(&memory);
    return 0;
}

static void *take(size_t size)
{
    void *block = memory.allocator.malloc(size, memory.allocator.mem_user_data);
    assert_non_null(block);
    memset(block, 0xa5, size);
    return block;
}

static void give(void *block)
{
    memory.allocator.free(block, memory.allocator.mem_user_data);
}

static void a_block_that_was_given_back_is_taken_again_for_that_size(void **state)
{
    (void)state;
    void *first = take(200);
    void *second = take(200);
    give(first);
    give(second);
    void *other = take(72); /* never the block of another size */
    assert_true(other != first && other != second);
    assert_ptr_equal(take(200), second);
    assert_ptr_equal(take(200), first);
    give(first);
    give(second);
    give(other);
}

static void blocks_of_every_size_have_space_for_all_that_was_requested(void **state)
{
    (void)state;
    void *blocks[700];
    for (int round = 0; round < 3; round++) {
        for (size_t size = 1; size < 700; size++) {
            blocks[size] = take(size);
        }
        for (size_t size = 1; size < 700; size++) {
            give(blocks[size]);
        }
    }
}

static void no_more_are_kept_than_the_limit_says(void **state)
{
    (void)state;
    void *blocks[HTTP2_KEPT + 10];
    for (size_t i = 0; i < HTTP2_KEPT + 10; i++) {
        blocks[i] = take(100);
    }
    uint32_t most = 0;
    for (size_t i = 0; i < HTTP2_KEPT + 10; i++) {
        give(blocks[i]);
    }
    for (size_t i = 0; i < HTTP2_KEPT_CLASSES; i++) {
        most = memory.kept[i].count > most ? memory.kept[i].count : most;
    }
    assert_int_equal(most, HTTP2_KEPT);
}

static void large_blocks_and_nothing_are_not_kept(void **state)
{
    (void)state;
    give(take(4096));
    give(NULL);
    for (size_t i = 0; i < HTTP2_KEPT_CLASSES; i++) {
        assert_int_equal(memory.kept[i].count, 0);
    }
}

static void the_frame_of_a_session_is_the_one_that_all_share(void **state)
{
    (void)state;
    for (int session = 0; session < 2; session++) {
        memory.is_making = true;
        void *frame = take(HTTP2_FRAME_MIN + 10);
        assert_ptr_equal(frame, memory.frame);
        void *another = take(HTTP2_FRAME_MIN + 10); /* a session has one */
        assert_ptr_not_equal(another, memory.frame);
        give(another);
        give(frame);
    }
    memory.is_making = false;
    void *later = take(HTTP2_FRAME_MIN + 10);
    assert_ptr_not_equal(later, memory.frame);
    give(later);
}

static void a_frame_that_grows_is_copied_and_stays_shared(void **state)
{
    (void)state;
    memory.is_making = true;
    void *frame = take(HTTP2_FRAME_MIN);
    uint8_t *larger =
        memory.allocator.realloc(frame, 2 * HTTP2_FRAME_MAX, memory.allocator.mem_user_data);
    assert_ptr_not_equal(larger, memory.frame);
    assert_int_equal(larger[HTTP2_FRAME_MIN - 1], 0xa5);
    give(larger);
}

static void zeroed_blocks_are_zero_although_blocks_are_kept(void **state)
{
    (void)state;
    give(take(64));
    uint8_t *block = memory.allocator.calloc(8, 8, memory.allocator.mem_user_data);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(block[i], 0);
    }
    give(block);
}

#define T(name) cmocka_unit_test_setup_teardown(name, open_memory, close_memory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_block_that_was_given_back_is_taken_again_for_that_size),
        T(blocks_of_every_size_have_space_for_all_that_was_requested),
        T(no_more_are_kept_than_the_limit_says),
        T(large_blocks_and_nothing_are_not_kept),
        T(the_frame_of_a_session_is_the_one_that_all_share),
        T(a_frame_that_grows_is_copied_and_stays_shared),
        T(zeroed_blocks_are_zero_although_blocks_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
