/* Tests of the heap of deadlines: against a plain array as the model, at size, and of what it tells
 * the objects about their positions. */
#include "base_testing.h"

#include "base/heap.h"

/* Objects are numbers from 1; `rank` breaks ties and is no simple function of the number. */
struct object {
    uint64_t at;
    uint32_t rank;
    uint32_t position;
};

struct fixture {
    struct counted counted;
    struct heap heap;
    struct object *objects;
    uint32_t object_count;
    uint64_t moved_calls; /* calls of moved */
    uint64_t moved_same;  /* those that said what the object knew already */
};

static bool rank_before(const void *ctx, ref a, ref b)
{
    const struct fixture *f = ctx;
    assert_int_not_equal(a, b);
    return f->objects[a].rank < f->objects[b].rank;
}

static void note_position(void *ctx, ref who, uint32_t position)
{
    struct fixture *f = ctx;
    assert_true(who >= 1 && who < f->object_count);
    f->moved_calls++;
    f->moved_same += f->objects[who].position == position;
    f->objects[who].position = position;
}

static const struct heap_ops ops = {rank_before, note_position};

static struct fixture *fixture_new(uint32_t objects)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->object_count = objects + 1;
    f->objects = calloc(f->object_count, sizeof(*f->objects));
    for (uint32_t i = 0; i < f->object_count; i++)
        f->objects[i].rank = i * UINT32_C(2654435761); /* odd factor: no two are equal */
    counted_init(&f->counted);
    heap_init(&f->heap, &f->counted.memory, &ops, f);
    return f;
}

static void fixture_free(struct fixture *f)
{
    assert_int_equal(f->moved_same, 0);
    heap_close(&f->heap);
    assert_all_given_back(&f->counted);
    free(f->objects);
    free(f);
}

static void put(struct fixture *f, ref who, uint64_t at)
{
    f->objects[who].at = at;
    heap_insert(&f->heap, at, who);
}

static bool object_before(const struct fixture *f, ref a, ref b)
{
    const struct object *x = &f->objects[a], *y = &f->objects[b];
    return x->at != y->at ? x->at < y->at : x->rank < y->rank;
}

/* The model: a search through all objects. */
static ref naive_min(const struct fixture *f)
{
    ref min = 0;
    for (ref who = 1; who < f->object_count; who++)
        if (f->objects[who].position != 0 && (min == 0 || object_before(f, who, min)))
            min = who;
    return min;
}

/* Positions are a permutation of 1..count, the heap's `at` is the object's, and no child comes
 * before its parent. */
static void check_structure(const struct fixture *f)
{
    uint32_t count = heap_count(&f->heap);
    ref *by_position = calloc((size_t)count + 1, sizeof(*by_position));
    uint32_t inside = 0;
    for (ref who = 1; who < f->object_count; who++) {
        uint32_t position = f->objects[who].position;
        if (position == 0)
            continue;
        inside++;
        assert_true(position <= count);
        assert_int_equal(by_position[position], 0);
        by_position[position] = who;
        assert_int_equal(heap_at(&f->heap, position), f->objects[who].at);
    }
    assert_int_equal(inside, count);
    for (uint32_t position = 2; position <= count; position++)
        assert_false(object_before(f, by_position[position], by_position[(position + 2) / 4]));
    free(by_position);
}

static void an_empty_heap_has_no_minimum_and_takes_no_memory(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(1);
    assert_int_equal(heap_count(&f->heap), 0);
    assert_int_equal(heap_min(&f->heap), 0);
    assert_true(heap_min_at(&f->heap) == UINT64_MAX);
    assert_int_equal(heap_bytes(&f->heap), 0);
    fixture_free(f);
}

static void the_earliest_comes_first(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(3);
    put(f, 1, 30);
    put(f, 2, 10);
    put(f, 3, 20);
    assert_int_equal(heap_min(&f->heap), 2);
    assert_int_equal(heap_min_at(&f->heap), 10);
    heap_remove(&f->heap, f->objects[2].position);
    assert_int_equal(f->objects[2].position, 0);
    assert_int_equal(heap_min(&f->heap), 3);
    heap_change(&f->heap, f->objects[1].position, 5);
    assert_int_equal(heap_min(&f->heap), 1);
    assert_int_equal(heap_count(&f->heap), 2);
    fixture_free(f);
}

static void the_extremes_of_time_are_ordinary_times(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(3);
    put(f, 1, UINT64_MAX);
    put(f, 2, 0);
    put(f, 3, UINT64_MAX - 1);
    static const ref expected[] = {2, 3, 1};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(heap_min(&f->heap), expected[i]);
        heap_remove(&f->heap, 1);
    }
    fixture_free(f);
}

static void equal_times_leave_in_the_order_that_before_gives(void **state)
{
    (void)state;
    enum { MANY = 500 };
    struct fixture *f = fixture_new(MANY);
    for (ref who = 1; who <= MANY; who++)
        put(f, who, 7);
    ref previous = 0;
    while (heap_count(&f->heap) > 0) {
        ref who = heap_min(&f->heap);
        if (previous != 0)
            assert_true(f->objects[previous].rank < f->objects[who].rank);
        previous = who;
        heap_remove(&f->heap, 1);
    }
    fixture_free(f);
}

static void a_change_of_rank_is_taken_up_by_a_change_to_the_same_time(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(50);
    for (ref who = 1; who <= 50; who++) {
        f->objects[who].rank = 1000 + who;
        put(f, who, 7);
    }
    f->objects[40].rank = 1;
    heap_change(&f->heap, f->objects[40].position, 7);
    assert_int_equal(heap_min(&f->heap), 40);
    f->objects[40].rank = 5000;
    heap_change(&f->heap, f->objects[40].position, 7);
    assert_int_equal(heap_min(&f->heap), 1);
    check_structure(f);
    fixture_free(f);
}

static void only_what_moves_is_reported_and_only_once(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(1000);
    for (ref who = 1; who <= 1000; who++) {
        f->moved_calls = 0;
        put(f, who, 1000 + who); /* in order: nobody has to make space */
        assert_int_equal(f->moved_calls, 1);
    }
    f->moved_calls = 0;
    heap_change(&f->heap, f->objects[1].position, 1000); /* still the first */
    heap_change(&f->heap, f->objects[1000].position, 5000);
    assert_int_equal(f->moved_calls, 0);
    f->objects[1].at = 1000;
    f->objects[1000].at = 5000;

    heap_remove(&f->heap, f->objects[1000].position); /* the last place: nobody fills it */
    assert_int_equal(f->moved_calls, 1);

    f->moved_calls = 0;
    heap_remove(&f->heap, 1); /* one for each level, and the one that left */
    assert_true(f->moved_calls >= 2 && f->moved_calls <= 7);
    check_structure(f);
    fixture_free(f);
}

static void random_step(struct fixture *f, struct random *random, uint32_t span,
                        uint32_t percent_in)
{
    ref who = 1 + random_below(random, f->object_count - 1);
    struct object *object = &f->objects[who];
    uint64_t at = random_below(random, span);
    bool in = random_below(random, 100) < percent_in;
    if (object->position == 0) {
        if (in)
            put(f, who, at);
    } else if (!in) {
        uint32_t position = random_below(random, 3) == 0 ? 1 : object->position;
        heap_remove(&f->heap, position);
    } else {
        object->at = at;
        heap_change(&f->heap, object->position, at);
    }
}

static void a_random_history_agrees_with_a_plain_array(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 5, 6, 7, 22, 300};
    static const uint32_t spans[] = {1, 10, UINT32_MAX};
    struct random random;
    random_init(&random, __func__);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        for (size_t j = 0; j < sizeof(spans) / sizeof(spans[0]); j++) {
            struct fixture *f = fixture_new(sizes[i]);
            for (int step = 0; step < 6000; step++) {
                uint32_t percent_in = step / 1000 % 3 == 0 ? 90 : step / 1000 % 3 == 1 ? 50 : 10;
                random_step(f, &random, spans[j], percent_in);
                ref min = naive_min(f);
                assert_int_equal(heap_min(&f->heap), min);
                assert_true(heap_min_at(&f->heap) == (min == 0 ? UINT64_MAX : f->objects[min].at));
                if (step % 16 == 0)
                    check_structure(f);
            }
            fixture_free(f);
        }
    }
}

static void what_goes_in_at_random_comes_out_in_order(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    struct random random;
    random_init(&random, __func__);
    struct fixture *f = fixture_new(MANY);
    for (ref who = 1; who <= MANY; who++)
        put(f, who, random_below(&random, MANY / 4));
    check_structure(f);
    ref previous = 0;
    for (uint32_t left = MANY; left > 0; left--) {
        assert_int_equal(heap_count(&f->heap), left);
        ref who = heap_min(&f->heap);
        if (previous != 0)
            assert_true(object_before(f, previous, who));
        previous = who;
        heap_remove(&f->heap, 1);
    }
    fixture_free(f);
}

static void a_million_entries_grow_in_pieces_and_give_them_back(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    struct random random;
    random_init(&random, __func__);
    struct fixture *f = fixture_new(MANY);
    for (ref who = 1; who <= MANY; who++)
        put(f, who, random_next(&random) >> 20);
    check_structure(f);
    assert_int_equal(f->counted.bytes, heap_bytes(&f->heap));
    assert_true(heap_bytes(&f->heap) < UINT64_C(12) * MANY + 65536);
    assert_int_equal(f->counted.largest, 49152); /* one segment; nothing large was ever copied */
    for (ref who = 1; who <= MANY; who++) {
        f->objects[who].at += 1 + random_below(&random, 1000000);
        heap_change(&f->heap, f->objects[who].position, f->objects[who].at);
    }
    check_structure(f);
    for (ref who = 1; who <= MANY; who += 2) /* half of them from anywhere, half from the front */
        heap_remove(&f->heap, f->objects[who].position);
    check_structure(f);
    uint64_t latest = 0;
    while (heap_count(&f->heap) > 0) {
        assert_true(heap_min_at(&f->heap) >= latest);
        latest = heap_min_at(&f->heap);
        heap_remove(&f->heap, 1);
    }
    assert_true(heap_bytes(&f->heap) < 65536);
    assert_int_equal(f->counted.bytes, heap_bytes(&f->heap));
    fixture_free(f);
}

static void going_up_and_down_at_a_boundary_takes_no_memory(void **state)
{
    (void)state;
    enum { MANY = 20000 };
    struct fixture *f = fixture_new(MANY);
    for (ref who = 1; who < MANY; who++) {
        put(f, who, who);
        uint64_t calls = f->counted.calls;
        for (int i = 0; i < 4; i++) {
            put(f, MANY, UINT64_MAX);
            heap_remove(&f->heap, f->objects[MANY].position);
        }
        assert_true(f->counted.calls <= calls + 2);
        calls = f->counted.calls;
        put(f, MANY, 0);
        heap_remove(&f->heap, 1);
        assert_int_equal(f->counted.calls, calls);
    }
    fixture_free(f);
}

static void remove_position_zero(void *ctx)
{
    heap_remove(&((struct fixture *)ctx)->heap, 0);
}

static void change_past_the_end(void *ctx)
{
    heap_change(&((struct fixture *)ctx)->heap, 2, 1);
}

static void read_past_the_end(void *ctx)
{
    heap_at(&((struct fixture *)ctx)->heap, 2);
}

static void insert_none(void *ctx)
{
    heap_insert(&((struct fixture *)ctx)->heap, 1, 0);
}

static void misuse_of_a_heap_ends_the_process(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(1);
    put(f, 1, 1);
    assert_panics(remove_position_zero, f, "position >= 1");
    assert_panics(change_past_the_end, f, "position <= h->count");
    assert_panics(read_past_the_end, f, "position <= h->count");
    assert_panics(insert_none, f, "who != 0");
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_heap_has_no_minimum_and_takes_no_memory),
        cmocka_unit_test(the_earliest_comes_first),
        cmocka_unit_test(the_extremes_of_time_are_ordinary_times),
        cmocka_unit_test(equal_times_leave_in_the_order_that_before_gives),
        cmocka_unit_test(a_change_of_rank_is_taken_up_by_a_change_to_the_same_time),
        cmocka_unit_test(only_what_moves_is_reported_and_only_once),
        cmocka_unit_test(a_random_history_agrees_with_a_plain_array),
        cmocka_unit_test(what_goes_in_at_random_comes_out_in_order),
        cmocka_unit_test(a_million_entries_grow_in_pieces_and_give_them_back),
        cmocka_unit_test(going_up_and_down_at_a_boundary_takes_no_memory),
        cmocka_unit_test(misuse_of_a_heap_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
