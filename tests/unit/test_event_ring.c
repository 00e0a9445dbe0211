/* The ring of the newest events, by itself: what streams are resumed from (S9.3). */
#include "base_testing.h"

#include "service/request/event_ring.h"

static void the_ring_keeps_the_newest_and_knows_what_it_lost(void **state)
{
    (void)state;
    struct counted counted;
    struct event_ring ring;
    counted_init(&counted);
    event_ring_open(&ring, &counted.memory, 64 << 10);
    event_ring_reset(&ring, (struct event_id){5, UINT32_MAX});
    struct random random;
    random_init(&random, "the ring");
    char text[5000];
    memset(text, 'x', sizeof(text));
    for (uint64_t i = 0; i < 20000; i++) {
        struct event e = {.type = EVENT_GRANTED, .index = 6 + i / 3, .ordinal = (uint32_t)(i % 3)};
        e.name = slice_make(text, 1 + random_below(&random, 100));
        e.text = slice_make(text, random_below(&random, 20) == 0 ? random_below(&random, 4096) : 0);
        e.token = i;
        event_ring_add(&ring, &e);
        if (i % 97 != 0) {
            continue;
        }
        uint64_t position = ring.head;
        const struct event *got;
        uint64_t expected = 0;
        bool is_first = true;
        while ((got = event_ring_next(&ring, &position)) != NULL) {
            if (is_first && (ring.floor.index > 5)) {
                struct event_id before = {6 + (got->token - 1) / 3,
                                          (uint32_t)((got->token - 1) % 3)};
                assert_int_equal(ring.floor.index, before.index);
                assert_int_equal(ring.floor.ordinal, before.ordinal);
            }
            assert_true(is_first || got->token == expected);
            expected = got->token + 1;
            is_first = false;
            assert_true(got->name.len > 0 && got->name.data[0] == 'x');
        }
        assert_int_equal(expected, i + 1);
        struct event_id back = {6 + (i - i / 2) / 3, 1};
        bool is_kept = event_ring_find(&ring, back, &position);
        assert_int_equal(is_kept, !event_id_after(ring.floor, back));
        if (is_kept && (got = event_ring_next(&ring, &position)) != NULL) {
            assert_true(event_id_after((struct event_id){got->index, got->ordinal}, back));
            assert_int_equal(got->token, (back.index - 6) * 3 + 2);
        }
    }
    uint64_t end = ring.tail;
    event_ring_reset(&ring, (struct event_id){99999, 0});
    assert_true(end < ring.head);
    event_ring_close(&ring);
    assert_all_given_back(&counted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ring_keeps_the_newest_and_knows_what_it_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
