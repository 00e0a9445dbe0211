/* Tests of the growable run of bytes: against a plain array as the model, of its limit, and of what
 * it takes and moves. */
#include "base_testing.h"

#include "base/buffer.h"

struct fixture {
    struct counted counted;
    struct buffer buffer;
};

static void fixture_init(struct fixture *f, size_t max)
{
    counted_init(&f->counted);
    buffer_init(&f->buffer, &f->counted.memory, max);
}

static void fixture_close(struct fixture *f)
{
    buffer_close(&f->buffer);
    assert_all_given_back(&f->counted);
}

static void assert_holds(const struct buffer *b, const char *text)
{
    assert_int_equal(buffer_len(b), strlen(text));
    assert_memory_equal(buffer_bytes(b).data, text, strlen(text));
}

static void an_empty_buffer_takes_no_memory(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 100);
    assert_int_equal(buffer_len(&f.buffer), 0);
    assert_int_equal(f.counted.calls, 0);
    buffer_consume(&f.buffer, 0);
    buffer_release(&f.buffer);
    fixture_close(&f);
}

static void what_is_appended_is_held_in_order(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 100);
    assert_true(buffer_append_text(&f.buffer, "hold"));
    assert_true(buffer_append_byte(&f.buffer, ' '));
    assert_true(buffer_printf(&f.buffer, "%s %d", "fast", 42));
    assert_true(buffer_append_slice(&f.buffer, slice_make(NULL, 0)));
    assert_holds(&f.buffer, "hold fast 42");
    buffer_consume(&f.buffer, 5);
    assert_holds(&f.buffer, "fast 42");
    fixture_close(&f);
}

static void an_append_past_the_limit_appends_nothing_and_is_remembered(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 10);
    assert_true(buffer_append_text(&f.buffer, "12345678"));
    assert_false(buffer_append_text(&f.buffer, "abc"));
    assert_true(f.buffer.overflowed);
    assert_false(buffer_append_text(&f.buffer, "a")); /* would fit, but the middle is missing */
    assert_null(buffer_reserve(&f.buffer, 1));
    assert_false(buffer_printf(&f.buffer, "a"));
    assert_holds(&f.buffer, "12345678");
    buffer_truncate(&f.buffer, 7);
    assert_true(buffer_append_text(&f.buffer, "xyz"));
    assert_holds(&f.buffer, "1234567xyz");
    assert_int_equal(buffer_space(&f.buffer), 0);
    fixture_close(&f);
}

static void printf_of_any_length_fits_exactly(void **state)
{
    (void)state;
    for (int len = 250; len < 1100; len++) {
        struct fixture f;
        fixture_init(&f, 1000);
        bool fits = buffer_printf(&f.buffer, "%*d", len, 7);
        assert_int_equal(fits, len <= 1000);
        assert_int_equal(f.buffer.overflowed, !fits);
        assert_int_equal(buffer_len(&f.buffer), fits ? len : 0);
        if (fits)
            assert_int_equal(buffer_bytes(&f.buffer).data[len - 1], '7');
        fixture_close(&f);
    }
}

static void what_is_reserved_counts_only_when_committed(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 4096);
    uint8_t *space = buffer_reserve(&f.buffer, 4096);
    assert_non_null(space);
    assert_int_equal(buffer_len(&f.buffer), 0);
    memcpy(space, "abc", 3);
    buffer_commit(&f.buffer, 3);
    assert_holds(&f.buffer, "abc");
    assert_null(buffer_reserve(&f.buffer, 4094));
    fixture_close(&f);
}

static void a_released_empty_buffer_gives_its_block_back(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 100);
    buffer_append_text(&f.buffer, "abc");
    buffer_release(&f.buffer);
    assert_int_equal(f.counted.blocks, 1);
    assert_holds(&f.buffer, "abc");
    buffer_consume(&f.buffer, 3);
    buffer_release(&f.buffer);
    assert_int_equal(f.counted.blocks, 0);
    assert_true(buffer_append_text(&f.buffer, "again"));
    assert_holds(&f.buffer, "again");
    fixture_close(&f);
}

static void a_small_block_is_kept_for_the_next_and_a_large_one_given_back(void **state)
{
    (void)state;
    struct fixture f;
    char large[3000];
    memset(large, 'x', sizeof(large));
    fixture_init(&f, 10000);
    buffer_append_text(&f.buffer, "abc");
    buffer_consume(&f.buffer, 3);
    const uint8_t *block = f.buffer.data;
    buffer_release_above(&f.buffer, 1024);
    assert_ptr_equal(f.buffer.data, block);
    buffer_append(&f.buffer, large, sizeof(large));
    buffer_consume(&f.buffer, 1);
    buffer_release_above(&f.buffer, 1024);
    assert_int_equal(buffer_len(&f.buffer), sizeof(large) - 1);
    buffer_consume(&f.buffer, sizeof(large) - 1);
    buffer_release_above(&f.buffer, 1024);
    assert_null(f.buffer.data);
    fixture_close(&f);
}

static void a_random_history_agrees_with_a_plain_array(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, __func__);
    enum { MAX = 3000 };
    static uint8_t model[MAX + 1000];
    for (int round = 0; round < 20; round++) {
        struct fixture f;
        fixture_init(&f, MAX);
        size_t len = 0;
        for (int step = 0; step < 2000; step++) {
            uint8_t piece[700];
            size_t n = random_below(&random, random_below(&random, 4) == 0 ? sizeof(piece) : 30);
            if (random_below(&random, 2) == 0) {
                for (size_t i = 0; i < n; i++)
                    piece[i] = (uint8_t)random_next(&random);
                bool fits = buffer_append(&f.buffer, piece, n);
                assert_int_equal(fits, len + n <= MAX);
                if (fits) {
                    memcpy(model + len, piece, n);
                    len += n;
                } else {
                    buffer_truncate(&f.buffer, len);
                }
            } else {
                n = n < len ? n : len;
                buffer_consume(&f.buffer, n);
                memmove(model, model + n, len - n);
                len -= n;
            }
            assert_int_equal(buffer_len(&f.buffer), len);
            if (len > 0)
                assert_memory_equal(buffer_bytes(&f.buffer).data, model, len);
            assert_true(f.counted.largest <= MAX + MAX / 2);
        }
        fixture_close(&f);
    }
}

/* One in, one out, at the limit: the case where a naive buffer moves everything at each step. */
static void a_full_buffer_that_is_consumed_slowly_is_not_moved_at_each_step(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 10000);
    while (buffer_space(&f.buffer) > 0)
        buffer_append_byte(&f.buffer, 'x');
    unsigned moves = 0;
    for (int i = 0; i < 100000; i++) {
        size_t start = f.buffer.start;
        buffer_consume(&f.buffer, 1);
        assert_true(buffer_append_byte(&f.buffer, 'x'));
        moves += f.buffer.start < start;
    }
    assert_in_range(moves, 1, 100000 / 5000 + 1);
    fixture_close(&f);
}

static void consume_too_much(void *ctx)
{
    buffer_consume(ctx, 4);
}

static void commit_too_much(void *ctx)
{
    buffer_commit(ctx, 5000);
}

static void misuse_of_a_buffer_ends_the_process(void **state)
{
    (void)state;
    struct fixture f;
    fixture_init(&f, 100);
    buffer_append_text(&f.buffer, "abc");
    assert_panics(consume_too_much, &f.buffer, "len <= buffer_len(b)");
    assert_panics(commit_too_much, &f.buffer, "len <= b->capacity - b->end");
    fixture_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_buffer_takes_no_memory),
        cmocka_unit_test(what_is_appended_is_held_in_order),
        cmocka_unit_test(an_append_past_the_limit_appends_nothing_and_is_remembered),
        cmocka_unit_test(printf_of_any_length_fits_exactly),
        cmocka_unit_test(what_is_reserved_counts_only_when_committed),
        cmocka_unit_test(a_released_empty_buffer_gives_its_block_back),
        cmocka_unit_test(a_small_block_is_kept_for_the_next_and_a_large_one_given_back),
        cmocka_unit_test(a_random_history_agrees_with_a_plain_array),
        cmocka_unit_test(a_full_buffer_that_is_consumed_slowly_is_not_moved_at_each_step),
        cmocka_unit_test(misuse_of_a_buffer_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
