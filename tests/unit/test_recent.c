/* Tests of the memory of the last so many objects: against a plain array as the model, at the
 * limits, with bad hashes, and past the end of its numbers. */
#include "base_testing.h"

#include "base/recent.h"

enum { MODEL = 4096 };

/* Everything ever added, as far as the model goes back. Objects are refs without a pool behind
 * them: nobody looks into them. */
struct fixture {
    struct counted counted;
    struct recent recent;
    uint32_t limit;
    uint32_t added;
    ref who[MODEL];
    uint32_t hashes[MODEL][RECENT_INDEXES];
};

static struct fixture *fixture_new(uint32_t limit, uint32_t indexes)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->limit = limit;
    counted_init(&f->counted);
    recent_init(&f->recent, &f->counted.memory, limit, indexes);
    return f;
}

static void fixture_free(struct fixture *f)
{
    assert_int_equal(recent_bytes(&f->recent), f->counted.bytes);
    recent_close(&f->recent);
    assert_all_given_back(&f->counted);
    free(f);
}

/* Adds one, and checks who is forgotten for it. */
static void add(struct fixture *f, uint32_t first, uint32_t second)
{
    assert_true(f->added < MODEL);
    uint32_t i = f->added++;
    f->who[i] = i + 1;
    f->hashes[i][0] = first;
    f->hashes[i][1] = second;
    ref forgotten = recent_add(&f->recent, f->who[i], f->hashes[i]);
    assert_int_equal(forgotten, i < f->limit ? 0 : f->who[i - f->limit]);
}

/* How often `who` comes on a walk, which must be from new to old. */
static uint32_t times_found(const struct fixture *f, uint32_t index, uint32_t hash, ref who)
{
    uint32_t times = 0;
    ref last = UINT32_MAX;
    for (struct recent_walk w = recent_find(&f->recent, index, hash); recent_next(&w);) {
        assert_true(w.who < last);
        last = w.who;
        times += w.who == who;
    }
    return times;
}

/* Those remembered are found, once, by each hash; the others are not. */
static void check(const struct fixture *f)
{
    const struct recent *r = &f->recent;
    uint32_t count = f->added < f->limit ? f->added : f->limit;
    assert_int_equal(recent_count(r), count);
    for (uint32_t i = 0; i < f->added; i++) {
        bool is_remembered = i + count >= f->added;
        for (uint32_t index = 0; index < r->indexes; index++)
            assert_int_equal(times_found(f, index, f->hashes[i][index], f->who[i]), is_remembered);
        if (is_remembered)
            assert_int_equal(recent_at(r, i + count - f->added), f->who[i]);
    }
}

static void an_empty_one_takes_no_memory_and_finds_nothing(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(65536, 2);
    assert_int_equal(f->counted.calls, 0);
    assert_int_equal(recent_count(&f->recent), 0);
    assert_int_equal(times_found(f, 0, 0, 1), 0);
    assert_int_equal(times_found(f, 1, UINT32_MAX, 1), 0);
    fixture_free(f);
}

static void the_oldest_is_forgotten_first_at_every_limit(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, __func__);
    for (uint32_t limit = 1; limit <= 18; limit++) {
        struct fixture *f = fixture_new(limit, 2);
        for (uint32_t i = 0; i < 5 * limit; i++) {
            add(f, (uint32_t)random_next(&random), i);
            check(f);
        }
        fixture_free(f);
    }
}

static void a_random_history_agrees_with_a_plain_array(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(100, 2);
    struct random random;
    random_init(&random, __func__);
    for (uint32_t i = 0; i < 1000; i++) {
        /* In the second index, few chains, which are long. */
        add(f, (uint32_t)random_next(&random), random_below(&random, 3) << 16);
        if (i % 10 == 0)
            check(f);
    }
    fixture_free(f);
}

static void equal_hashes_are_found_newest_first(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(10, 1);
    for (uint32_t i = 0; i < 35; i++)
        add(f, 7, 0);
    struct recent_walk w = recent_find(&f->recent, 0, 7);
    for (ref who = 35; who > 25; who--) {
        assert_true(recent_next(&w));
        assert_int_equal(w.who, who);
    }
    assert_false(recent_next(&w));
    fixture_free(f);
}

static void what_is_dropped_is_the_oldest_and_not_found(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(10, 1);
    for (uint32_t i = 0; i < 13; i++)
        add(f, 7, 0);
    for (ref who = 4; who <= 13; who++) {
        assert_int_equal(times_found(f, 0, 7, who), 1);
        assert_int_equal(recent_drop_oldest(&f->recent), who);
        assert_int_equal(times_found(f, 0, 7, who), 0);
        assert_int_equal(recent_count(&f->recent), 13 - who);
    }
    const uint32_t hash = 7;
    assert_int_equal(recent_add(&f->recent, 99, &hash), 0);
    assert_int_equal(times_found(f, 0, 7, 99), 1);
    fixture_free(f);
}

/* A node adds so many in a few days. */
static void numbers_begin_anew_after_2_to_the_32(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, __func__);
    for (uint32_t before = 0; before < 40; before++) {
        struct fixture *f = fixture_new(10, 1);
        f->recent.newest = UINT32_MAX - before;
        for (uint32_t i = 0; i < 60; i++) {
            add(f, (uint32_t)random_next(&random), 0);
            check(f);
        }
        fixture_free(f);
    }
}

/* Distances fit 16 bits only just. */
static void the_largest_finds_the_oldest_of_a_chain(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(RECENT_MAX, 1);
    const uint32_t ours = UINT32_C(0xabcd0000);
    assert_int_equal(recent_add(&f->recent, 1, &ours), 0);
    for (uint32_t i = 1; i < RECENT_MAX - 1; i++) {
        uint32_t hash = 1 + i % 65535;
        assert_int_equal(recent_add(&f->recent, 1 + i, &hash), 0);
    }
    assert_int_equal(times_found(f, 0, ours, 1), 1);
    assert_int_equal(recent_add(&f->recent, RECENT_MAX, &ours), 0);
    assert_int_equal(times_found(f, 0, ours, 1), 1);
    assert_int_equal(times_found(f, 0, ours, RECENT_MAX), 1);
    assert_int_equal(recent_add(&f->recent, RECENT_MAX + 1, &ours), 1);
    assert_int_equal(times_found(f, 0, ours, 1), 0);
    assert_int_equal(times_found(f, 0, ours, RECENT_MAX), 1);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_one_takes_no_memory_and_finds_nothing),
        cmocka_unit_test(the_oldest_is_forgotten_first_at_every_limit),
        cmocka_unit_test(a_random_history_agrees_with_a_plain_array),
        cmocka_unit_test(equal_hashes_are_found_newest_first),
        cmocka_unit_test(what_is_dropped_is_the_oldest_and_not_found),
        cmocka_unit_test(numbers_begin_anew_after_2_to_the_32),
        cmocka_unit_test(the_largest_finds_the_oldest_of_a_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
