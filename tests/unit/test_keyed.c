/* The list that is sorted by number: against the simplest sort there is. */
#include "base_testing.h"

#include "core/keyed.h"

static void fill(struct keyed_list *list, struct random *random, uint32_t count, uint64_t mask)
{
    for (uint32_t i = 0; i < count; i++) {
        keyed_add(list, random_next(random) & mask, i + 1);
    }
}

static void any_list_is_sorted_and_equal_keys_keep_their_order(void **state)
{
    (void)state;
    struct counted counted;
    counted_init(&counted);
    struct random random;
    random_init(&random, "sorting");
    const uint64_t masks[] = {0, 7, 0xff, 0xff00, UINT64_C(0xff000000ff), UINT64_MAX};
    for (size_t m = 0; m < sizeof(masks) / sizeof(masks[0]); m++) {
        for (uint32_t count = 0; count < 700; count = count * 2 + 1) {
            struct keyed_list list;
            keyed_init(&list, &counted.memory);
            fill(&list, &random, count, masks[m]);
            uint64_t sum = 0;
            uint64_t refs = 0;
            for (size_t i = 0; i < list.count; i++) {
                sum += list.at[i].key * list.at[i].who;
            }
            keyed_sort(&list);
            assert_int_equal(list.count, count);
            bool twice = false;
            for (size_t i = 0; i < list.count; i++) {
                sum -= list.at[i].key * list.at[i].who;
                refs += list.at[i].who;
                if (i > 0) {
                    assert_true(list.at[i - 1].key <= list.at[i].key);
                    bool same = list.at[i - 1].key == list.at[i].key;
                    assert_true(!same || list.at[i - 1].who < list.at[i].who);
                    twice = twice || same;
                }
            }
            assert_int_equal(sum, 0);
            assert_int_equal(refs, (uint64_t)count * (count + 1) / 2);
            assert_int_equal(keyed_is_unique(&list), !twice);
            keyed_close(&list);
        }
    }
    assert_all_given_back(&counted);
}

static void a_list_in_order_is_left_alone(void **state)
{
    (void)state;
    struct counted counted;
    counted_init(&counted);
    struct keyed_list list;
    keyed_init(&list, &counted.memory);
    for (uint32_t i = 0; i < 100; i++) {
        keyed_add(&list, i / 2, i + 1);
    }
    uint64_t calls = counted.calls;
    keyed_sort(&list);
    assert_int_equal(counted.calls, calls);
    keyed_close(&list);
    assert_all_given_back(&counted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_list_is_sorted_and_equal_keys_keep_their_order),
        cmocka_unit_test(a_list_in_order_is_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
