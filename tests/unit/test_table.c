/* Tests of the hash index: against a plain array as the model, at size, and of the promise that a
 * scan keeps while the table grows and shrinks under it. */
#include "base_testing.h"

#include "base/table.h"

struct item {
    uint64_t key;
    uint32_t hash;
    ref next;
};

/* How keys become hashes. The bad ones make long chains and dense parts of the scan order. */
enum hash_shape {
    HASH_GOOD,
    HASH_LOW_BITS,
    HASH_HIGH_BITS,
    HASH_SEQUENTIAL,
    HASH_FEW,
    HASH_SHAPES
};

struct fixture {
    struct counted counted;
    struct pool pool;
    struct table table;
    struct random random;
    uint64_t hash_calls;
    uint64_t *hash_counter; /* points at hash_calls: the ctx of the hash function is const */
    enum hash_shape shape;
};

static uint32_t hash_key(enum hash_shape shape, uint64_t key)
{
    struct random mixer = {key};
    uint32_t good = (uint32_t)random_next(&mixer);
    switch (shape) {
    case HASH_LOW_BITS:
        return good & 0xff;
    case HASH_HIGH_BITS:
        return good & UINT32_C(0xff000000);
    case HASH_SEQUENTIAL:
        return (uint32_t)key;
    case HASH_FEW:
        return key % 3 == 0 ? 0 : key % 3 == 1 ? UINT32_MAX : UINT32_C(0x80000000);
    default:
        return good;
    }
}

static uint32_t item_hash(const void *ctx, const void *object)
{
    uint64_t *const *calls = ctx;
    const struct item *item = object;
    ++**calls;
    return item->hash;
}

static struct fixture *fixture_new(enum hash_shape shape)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->shape = shape;
    f->hash_counter = &f->hash_calls;
    counted_init(&f->counted);
    pool_init(&f->pool, &f->counted.memory);
    table_init(&f->table, &f->counted.memory, &f->pool, offsetof(struct item, next), item_hash,
               &f->hash_counter);
    return f;
}

static void fixture_free(struct fixture *f)
{
    table_close(&f->table);
    pool_close(&f->pool);
    assert_all_given_back(&f->counted);
    free(f);
}

static struct item *item_at(const struct fixture *f, ref who)
{
    return pool_at(&f->pool, who);
}

/* There are two buckets for each element, see table.c. */
enum { PER_ELEMENT = 2 };

/* Inserts, and checks that this cost no more than two splits. */
static ref put(struct fixture *f, uint64_t key)
{
    ref who;
    struct item *item = pool_alloc(&f->pool, sizeof(*item), &who);
    item->key = key;
    item->hash = hash_key(f->shape, key);
    uint32_t buckets = f->table.bucket_count;
    table_insert(&f->table, item->hash, who);
    assert_in_range(f->table.bucket_count, buckets, buckets + PER_ELEMENT);
    return who;
}

static void drop(struct fixture *f, ref who)
{
    uint32_t buckets = f->table.bucket_count;
    table_remove(&f->table, item_at(f, who)->hash, who);
    assert_in_range(f->table.bucket_count, buckets - PER_ELEMENT, buckets);
    assert_true(f->table.bucket_count >= 16);
    pool_free(&f->pool, who, sizeof(struct item));
}

static ref find(const struct fixture *f, uint64_t key)
{
    ref who = table_first(&f->table, hash_key(f->shape, key));
    while (who != 0 && item_at(f, who)->key != key)
        who = item_at(f, who)->next;
    return who;
}

/* Each element is in the bucket of its hash, and there are as many as the table says. */
static void check_structure(const struct fixture *f)
{
    const struct table *t = &f->table;
    assert_true(t->bucket_count > t->mask >> 1 && t->bucket_count - 1 <= t->mask);
    uint64_t seen = 0;
    for (uint32_t bucket = 0; bucket < t->bucket_count; bucket++) {
        for (ref who = *table_head(t, bucket); who != 0; who = item_at(f, who)->next) {
            uint32_t hash = item_at(f, who)->hash;
            uint32_t expected = hash & t->mask;
            if (expected >= t->bucket_count)
                expected = hash & t->mask >> 1;
            if (expected != bucket)
                fail_msg("hash %x is in bucket %u of %u", hash, bucket, t->bucket_count);
            assert_true(++seen <= t->count);
        }
    }
    assert_int_equal(seen, t->count);
}

static void an_empty_table_finds_nothing(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(HASH_GOOD);
    assert_int_equal(table_count(&f->table), 0);
    for (uint64_t key = 0; key < 100; key++)
        assert_int_equal(find(f, key), 0);
    fixture_free(f);
}

static void an_inserted_object_is_found_until_it_is_removed(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(HASH_GOOD);
    ref who = put(f, 7);
    assert_int_equal(find(f, 7), who);
    assert_int_equal(table_count(&f->table), 1);
    drop(f, who);
    assert_int_equal(find(f, 7), 0);
    assert_int_equal(table_count(&f->table), 0);
    fixture_free(f);
}

static void the_newest_of_two_equal_keys_is_found_first(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(HASH_GOOD);
    ref older = put(f, 7);
    ref newer = put(f, 7);
    assert_int_equal(find(f, 7), newer);
    drop(f, newer);
    assert_int_equal(find(f, 7), older);
    fixture_free(f);
}

/* One random step of the model: position i of `held` is the object with key i, or 0. */
static void random_step(struct fixture *f, ref *held, uint32_t keys, uint32_t percent_in)
{
    uint32_t key = random_below(&f->random, keys);
    bool in = random_below(&f->random, 100) < percent_in;
    if (in && held[key] == 0) {
        held[key] = put(f, key);
    } else if (!in && held[key] != 0) {
        drop(f, held[key]);
        held[key] = 0;
    }
}

static void a_random_history_agrees_with_a_plain_array(void **state)
{
    (void)state;
    enum { KEYS = 3000, PHASES = 12, STEPS = 4000 };
    struct random random;
    random_init(&random, __func__);
    for (int shape = 0; shape < HASH_SHAPES; shape++) {
        uint32_t keys = shape == HASH_GOOD || shape == HASH_SEQUENTIAL ? KEYS : KEYS / 10;
        struct fixture *f = fixture_new((enum hash_shape)shape);
        f->random.state = random_next(&random);
        ref *held = calloc(KEYS, sizeof(*held));
        for (int phase = 0; phase < PHASES; phase++) {
            uint32_t percent_in = phase % 3 == 0 ? 95 : phase % 3 == 1 ? 50 : 3;
            for (int step = 0; step < STEPS; step++) {
                random_step(f, held, keys, percent_in);
                uint32_t key = random_below(&f->random, keys);
                assert_int_equal(find(f, key), held[key]);
            }
            uint64_t count = 0;
            for (uint32_t key = 0; key < keys; key++) {
                assert_int_equal(find(f, key), held[key]);
                count += held[key] != 0;
            }
            assert_int_equal(table_count(&f->table), count);
            check_structure(f);
        }
        free(held);
        fixture_free(f);
    }
}

static void a_million_entries_grow_and_shrink_without_a_step(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    struct fixture *f = fixture_new(HASH_GOOD);
    ref *held = calloc(MANY, sizeof(*held));
    uint64_t most_hashes = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        f->hash_calls = 0;
        held[i] = put(f, i);
        if (f->hash_calls > most_hashes)
            most_hashes = f->hash_calls;
    }
    assert_true(most_hashes <= 16); /* a split looks at one chain only */
    assert_int_equal(f->table.bucket_count, MANY * PER_ELEMENT);
    assert_int_equal(f->counted.bytes, table_bytes(&f->table) + pool_bytes_reserved(&f->pool));
    assert_true(table_bytes(&f->table) < MANY * UINT64_C(4) * PER_ELEMENT + 32768);
    check_structure(f);
    for (uint32_t i = 0; i < MANY; i++)
        assert_int_equal(find(f, i), held[i]);
    for (uint32_t i = MANY; i < MANY + 1000; i++)
        assert_int_equal(find(f, i), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        drop(f, held[i]);
        assert_true(f->table.bucket_count <= table_count(&f->table) * PER_ELEMENT + 4096 + 16);
    }
    assert_int_equal(f->counted.bytes, table_bytes(&f->table) + pool_bytes_reserved(&f->pool));
    assert_true(table_bytes(&f->table) < 65536);
    free(held);
    fixture_free(f);
}

static void a_small_table_shrinks_back_to_sixteen_buckets(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(HASH_GOOD);
    ref held[1000];
    for (uint32_t i = 0; i < 1000; i++)
        held[i] = put(f, i);
    assert_int_equal(f->table.bucket_count, 1000 * PER_ELEMENT);
    for (uint32_t i = 0; i < 1000; i++)
        drop(f, held[i]);
    for (uint32_t i = 0; i < 1000; i++)
        drop(f, put(f, i));
    assert_int_equal(f->table.bucket_count, 16);
    fixture_free(f);
}

static void going_up_and_down_at_a_boundary_does_not_thrash(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(HASH_GOOD);
    for (uint32_t size = 0; size < 10000; size++) {
        put(f, size);
        uint32_t changes = 0;
        uint64_t calls = f->counted.calls;
        for (int i = 0; i < 10; i++) {
            uint32_t before = f->table.bucket_count;
            ref who = put(f, UINT64_C(1) << 40);
            changes += f->table.bucket_count != before;
            before = f->table.bucket_count;
            drop(f, who);
            changes += f->table.bucket_count != before;
        }
        assert_true(changes <= 1);
        assert_true(f->counted.calls <= calls + 2);
    }
    fixture_free(f);
}

static void space_that_was_made_ahead_is_not_split_again(void **state)
{
    (void)state;
    enum { KEYS = 3000 };
    struct fixture *f = fixture_new(HASH_GOOD);
    table_reserve(&f->table, KEYS);
    uint32_t buckets = f->table.bucket_count;
    assert_int_equal(buckets, KEYS * PER_ELEMENT);
    ref held[KEYS];
    for (uint32_t i = 0; i < KEYS; i++)
        held[i] = put(f, i);
    assert_int_equal(f->table.bucket_count, buckets);
    assert_int_equal(f->hash_calls, 0);
    for (uint32_t i = 0; i < KEYS; i++)
        assert_int_equal(find(f, i), held[i]);
    check_structure(f);
    for (uint32_t i = 0; i < KEYS; i++)
        drop(f, held[i]);
    check_structure(f);
    fixture_free(f);
}

static void remove_an_absent_object(void *ctx)
{
    struct fixture *f = ctx;
    ref who;
    pool_alloc(&f->pool, sizeof(struct item), &who);
    table_remove(&f->table, 0, who);
}

static void insert_with_a_wrong_hash(void *ctx)
{
    struct fixture *f = ctx;
    for (uint64_t key = 0; key < 100; key++) {
        ref who = put(f, key);
        item_at(f, who)->hash++;
    }
}

static void misuse_of_a_table_ends_the_process(void **state)
{
    (void)state;
    struct fixture *f = fixture_new(HASH_SEQUENTIAL);
    assert_panics(remove_an_absent_object, f, "*link != 0");
    assert_panics(insert_with_a_wrong_hash, f, "== parent");
    fixture_free(f);
}

/* ---- scans ---- */

/* What a scan must have seen: for each key, how often it was visited since its object was put in,
 * and whether it has been in the table since the scan began. */
struct watch {
    struct fixture *f;
    ref *held;
    uint32_t *visits;
    bool *throughout;
    uint32_t keys;
    uint64_t visited;
};

static struct watch *watch_new(struct fixture *f, uint32_t keys)
{
    struct watch *w = calloc(1, sizeof(*w));
    w->f = f;
    w->keys = keys;
    w->held = calloc(keys, sizeof(*w->held));
    w->visits = calloc(keys, sizeof(*w->visits));
    w->throughout = calloc(keys, sizeof(*w->throughout));
    return w;
}

static void watch_free(struct watch *w)
{
    free(w->held);
    free(w->visits);
    free(w->throughout);
    free(w);
}

static void watch_visit(void *ctx, ref who)
{
    struct watch *w = ctx;
    uint64_t key = item_at(w->f, who)->key;
    assert_true(key < w->keys);
    assert_int_equal(w->held[key], who); /* never one that is gone */
    w->visits[key]++;
    w->visited++;
}

static void watch_put(struct watch *w, uint32_t key)
{
    if (w->held[key] != 0)
        return;
    w->held[key] = put(w->f, key);
    w->visits[key] = 0;
    w->throughout[key] = false;
}

static void watch_drop(struct watch *w, uint32_t key)
{
    if (w->held[key] == 0)
        return;
    drop(w->f, w->held[key]);
    w->held[key] = 0;
    w->throughout[key] = false;
}

static void watch_begin(struct watch *w)
{
    w->visited = 0;
    for (uint32_t key = 0; key < w->keys; key++) {
        w->visits[key] = 0;
        w->throughout[key] = w->held[key] != 0;
    }
}

static void watch_end(const struct watch *w, int round)
{
    for (uint32_t key = 0; key < w->keys; key++) {
        if (w->throughout[key] && w->visits[key] != 1)
            fail_msg("round %d: key %u (hash %x) was there throughout and visited %u times", round,
                     key, hash_key(w->f->shape, key), w->visits[key]);
        if (w->held[key] != 0)
            assert_true(w->visits[key] <= 1);
    }
}

static void a_scan_of_a_quiet_table_visits_everything_once(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {0, 1, 15, 16, 17, 31, 32, 33, 100, 4095, 4096, 4097, 5000};
    for (int shape = 0; shape < HASH_SHAPES; shape++) {
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
            struct fixture *f = fixture_new((enum hash_shape)shape);
            uint32_t size =
                shape == HASH_GOOD || shape == HASH_SEQUENTIAL ? sizes[i] : sizes[i] / 5;
            struct watch *w = watch_new(f, size + 1);
            for (uint32_t key = 0; key < size; key++)
                watch_put(w, key);
            watch_begin(w);
            uint64_t cursor = 0;
            uint32_t calls = 0;
            while (cursor != TABLE_SCAN_END) {
                uint64_t next = table_scan(&f->table, cursor, watch_visit, w);
                assert_true(next > cursor && next <= TABLE_SCAN_END);
                cursor = next;
                calls++;
            }
            assert_int_equal(calls, f->table.bucket_count);
            assert_int_equal(w->visited, size);
            watch_end(w, 0);
            watch_free(w);
            fixture_free(f);
        }
    }
}

/* Puts in or takes out random keys of the changing part. */
static void drift(struct watch *w, uint32_t stable, uint32_t steps, uint32_t percent_in)
{
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t key = stable + random_below(&w->f->random, w->keys - stable);
        if (random_below(&w->f->random, 100) < percent_in)
            watch_put(w, key);
        else
            watch_drop(w, key);
    }
}

/* One scan with changes between the calls; `stable` keys stay in, the others come and go. The mood
 * (growing, shrinking, mixed, a flood, a drain) changes at random moments. */
static void scan_while_changing(struct watch *w, uint32_t stable)
{
    struct fixture *f = w->f;
    uint32_t percent_in = 50;
    uint32_t pace = 4;
    uint64_t cursor = 0;
    while (cursor != TABLE_SCAN_END) {
        cursor = table_scan(&f->table, cursor, watch_visit, w);
        switch (random_below(&f->random, 40)) {
        case 0:
            percent_in = 100;
            pace = 20;
            break;
        case 1:
            percent_in = 0;
            pace = 20;
            break;
        case 2:
            percent_in = random_below(&f->random, 101);
            pace = random_below(&f->random, 10);
            break;
        case 3: /* a flood or a drain between two calls */
            drift(w, stable, w->keys, random_below(&f->random, 2) * 100);
            break;
        default:
            break;
        }
        drift(w, stable, pace, percent_in);
        if (random_below(&f->random, 8) == 0) { /* now and then a stable one leaves or comes, too */
            uint32_t key = random_below(&f->random, stable);
            if (w->held[key] != 0)
                watch_drop(w, key);
            else
                watch_put(w, key);
        }
    }
}

static void a_scan_visits_what_stays_whatever_comes_and_goes(void **state)
{
    (void)state;
    enum { ROUNDS = 60 };
    struct random random;
    random_init(&random, __func__);
    uint64_t grown = 0, shrunk = 0;
    for (int shape = 0; shape < HASH_SHAPES; shape++) {
        for (int round = 0; round < ROUNDS; round++) {
            bool good = shape == HASH_GOOD || shape == HASH_SEQUENTIAL;
            struct fixture *f = fixture_new((enum hash_shape)shape);
            f->random.state = random_next(&random);
            uint32_t stable = 1 + random_below(&f->random, good ? 500 : 60);
            uint32_t moving = 1 + random_below(&f->random, good ? 6000 : 300);
            struct watch *w = watch_new(f, stable + moving);
            for (uint32_t key = 0; key < stable; key++)
                watch_put(w, key);
            drift(w, stable, moving * 2, random_below(&f->random, 101));
            for (int scan = 0; scan < 3; scan++) {
                uint32_t buckets = f->table.bucket_count;
                watch_begin(w);
                scan_while_changing(w, stable);
                watch_end(w, round);
                grown += f->table.bucket_count > buckets;
                shrunk += f->table.bucket_count < buckets;
            }
            check_structure(f);
            watch_free(w);
            fixture_free(f);
        }
    }
    assert_true(grown > 20 && shrunk > 20); /* else the test did not test much */
}

/* Scans a table of `from` elements that has `to` of them from call number `when` on. */
static void scan_with_one_change(struct watch *w, uint32_t from, uint32_t to, uint32_t when)
{
    for (uint32_t key = 0; key < from; key++)
        watch_put(w, key);
    watch_begin(w);
    uint64_t cursor = 0;
    for (uint32_t call = 0; cursor != TABLE_SCAN_END; call++) {
        for (uint32_t key = from; call == when && key < to; key++)
            watch_put(w, key);
        for (uint32_t key = to; call == when && key < from; key++)
            watch_drop(w, key);
        cursor = table_scan(&w->f->table, cursor, watch_visit, w);
    }
    watch_end(w, (int)when);
    for (uint32_t key = 0; key < w->keys; key++)
        watch_drop(w, key);
}

static void a_scan_survives_every_change_of_size_at_every_cursor(void **state)
{
    (void)state;
    enum { KEYS = 70, STABLE = 10 };
    struct fixture *f = fixture_new(HASH_GOOD);
    struct watch *w = watch_new(f, KEYS);
    for (uint32_t from = STABLE; from <= KEYS; from++) {
        for (uint32_t to = STABLE; to <= KEYS; to++) {
            for (uint32_t when = 0; when < from; when += 3) {
                scan_with_one_change(w, from, to, when);
                while (f->table.bucket_count > TABLE_MIN_BUCKETS)
                    drop(f, put(f, 0));
            }
        }
    }
    watch_free(w);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_finds_nothing),
        cmocka_unit_test(an_inserted_object_is_found_until_it_is_removed),
        cmocka_unit_test(the_newest_of_two_equal_keys_is_found_first),
        cmocka_unit_test(a_random_history_agrees_with_a_plain_array),
        cmocka_unit_test(a_million_entries_grow_and_shrink_without_a_step),
        cmocka_unit_test(a_small_table_shrinks_back_to_sixteen_buckets),
        cmocka_unit_test(going_up_and_down_at_a_boundary_does_not_thrash),
        cmocka_unit_test(space_that_was_made_ahead_is_not_split_again),
        cmocka_unit_test(misuse_of_a_table_ends_the_process),
        cmocka_unit_test(a_scan_of_a_quiet_table_visits_everything_once),
        cmocka_unit_test(a_scan_visits_what_stays_whatever_comes_and_goes),
        cmocka_unit_test(a_scan_survives_every_change_of_size_at_every_cursor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
