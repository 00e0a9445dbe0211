/* Tests of the meta file: it never goes back, whatever happens to it, or says that it cannot go on.
 */
#include "storage_testing.h"

#include "storage/bytes.h"
#include "storage/meta.h"

static const struct meta_state fresh = {.store = {1, 2}, .cluster = {3, 4}, .node = 5};

static struct disk_fake *fake_with_meta(uint64_t seed)
{
    struct problem problem;
    struct disk_fake *fake = disk_fake_new(seed);
    assert_done(meta_create(disk_fake_disk(fake), &fresh, &problem));
    return fake;
}

static void what_is_saved_comes_back(void **state)
{
    (void)state;
    struct problem problem;
    struct disk_fake *fake = fake_with_meta(1);
    struct meta meta;
    assert_done(meta_open(&meta, disk_fake_disk(fake), &problem));
    assert_memory_equal(&meta.state, &fresh, sizeof(fresh));
    assert_done(meta_begin_life(&meta, &problem));
    assert_int_equal(meta.state.life, 1);
    struct meta_state next = meta.state;
    next.term = 7;
    next.vote = 2;
    next.bootstrapped = true;
    next.log_made = true;
    assert_done(meta_save(&meta, &next, &problem));
    meta_close(&meta);
    for (uint64_t life = 2; life < 6; life++) {
        assert_done(meta_open(&meta, disk_fake_disk(fake), &problem));
        assert_memory_equal(&meta.state, &next, sizeof(next));
        assert_false(meta.repaired);
        assert_done(meta_begin_life(&meta, &problem));
        assert_int_equal(meta.state.life, life);
        next = meta.state;
        next.term++;
        next.vote = 0;
        assert_done(meta_save_vote(&meta, next.term, 0, &problem));
        next.vote = 3;
        assert_done(meta_save_vote(&meta, next.term, 3, &problem));
        meta_close(&meta);
    }
    disk_fake_free(fake);
}

static void a_save_is_two_writes_and_two_syncs_of_allocated_bytes(void **state)
{
    (void)state;
    struct problem problem;
    struct disk_fake *fake = fake_with_meta(1);
    struct meta meta;
    assert_done(meta_open(&meta, disk_fake_disk(fake), &problem));
    disk_fake_set_capacity(fake, 0);
    struct disk_fake_counts before = disk_fake_counts(fake);
    assert_done(meta_save_vote(&meta, 1, 0, &problem));
    struct disk_fake_counts after = disk_fake_counts(fake);
    assert_int_equal(after.writes - before.writes, 2);
    assert_int_equal(after.syncs - before.syncs, 2);
    meta_close(&meta);
    disk_fake_free(fake);
}

static void a_missing_file_is_an_answer(void **state)
{
    (void)state;
    struct problem problem;
    struct disk_fake *fake = disk_fake_new(1);
    struct meta meta;
    assert_problem(meta_open(&meta, disk_fake_disk(fake), &problem), STORAGE_MISSING, "meta");
    meta_close(&meta);
    disk_fake_free(fake);
}

/* ---- crashes ---- */

/* Acknowledged is the first one; behind it, what was tried since then and may have been done. (Also
 * what was under way before the last crash: a write that repairs one torn sector and then stops can
 * bring it back.) */
struct saved {
    uint64_t terms[64];
    uint64_t votes[64];
    size_t count;
    uint64_t life, next_life;
};

static void try(struct saved *saved, uint64_t term, uint64_t vote)
{
    assert_true(saved->count < 64);
    saved->terms[saved->count] = term;
    saved->votes[saved->count++] = vote;
}

static void acknowledge(struct saved *saved, const struct meta_state *state)
{
    saved->count = 0;
    saved->life = saved->next_life = state->life;
    try(saved, state->term, state->vote);
}

static bool is_allowed(const struct meta_state *state, const struct saved *saved)
{
    bool found = false;
    for (size_t i = 0; i < saved->count; i++)
        found = found || (state->term == saved->terms[i] && state->vote == saved->votes[i]);
    return found && state->life >= saved->life && state->life <= saved->next_life;
}

/* A life of elections, until the disk stops. */
static void elect(struct disk_fake *fake, struct saved *saved, struct random *random)
{
    struct problem problem;
    struct meta meta;
    if (meta_open(&meta, disk_fake_disk(fake), &problem) != STORAGE_OK)
        fail_msg("%s", problem.text);
    if (!is_allowed(&meta.state, saved))
        fail_msg("term %llu vote %llu after term %llu vote %llu",
                 (unsigned long long)meta.state.term, (unsigned long long)meta.state.vote,
                 (unsigned long long)saved->terms[0], (unsigned long long)saved->votes[0]);
    /* What is visible may not be durable before the life has begun. */
    try(saved, meta.state.term, meta.state.vote);
    if (saved->next_life < meta.state.life + 1)
        saved->next_life = meta.state.life + 1;
    bool alive = meta_begin_life(&meta, &problem) == STORAGE_OK;
    while (alive) {
        acknowledge(saved, &meta.state);
        uint64_t term = meta.state.term, vote = meta.state.vote;
        if (vote != 0 || random_below(random, 3) == 0) {
            term++;
            vote = 0;
        } else {
            vote = 1 + random_below(random, 5);
        }
        try(saved, term, vote);
        alive = meta_save_vote(&meta, term, vote, &problem) == STORAGE_OK;
        if (!alive) {
            struct problem again;
            assert_int_equal(meta_save_vote(&meta, term, vote, &again), problem.status);
        }
    }
    meta_close(&meta);
}

static void term_and_vote_never_go_back(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, __func__);
    uint64_t lives = 0;
    for (int round = 0; round < 400; round++) {
        struct disk_fake *fake = fake_with_meta(random_next(&random));
        disk_fake_set_garbage(fake, true);
        struct saved saved = {.count = 0};
        acknowledge(&saved, &fresh);
        for (int life = 0; life < 50; life++, lives++) {
            if (life % 3 == 2)
                disk_fake_fail_after(fake, random_below(&random, 20), STORAGE_IO);
            else
                disk_fake_stop_after(fake, random_below(&random, 20));
            elect(fake, &saved, &random);
            if (random_below(&random, 2) == 0)
                disk_fake_power_cut(fake);
            else
                disk_fake_crash(fake);
        }
        disk_fake_free(fake);
    }
    printf("           %llu lives\n", (unsigned long long)lives);
}

static void a_crash_while_the_file_is_made_leaves_none_or_a_whole_one(void **state)
{
    (void)state;
    struct problem problem;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct disk_fake *fake = disk_fake_new(seed);
        disk_fake_stop_after(fake, seed % 6);
        enum storage_status made = meta_create(disk_fake_disk(fake), &fresh, &problem);
        disk_fake_power_cut(fake);
        struct meta meta;
        enum storage_status status = meta_open(&meta, disk_fake_disk(fake), &problem);
        assert_true(status == STORAGE_OK || status == STORAGE_MISSING);
        assert_true(made != STORAGE_OK || status == STORAGE_OK);
        if (status == STORAGE_OK)
            assert_memory_equal(&meta.state, &fresh, sizeof(fresh));
        meta_close(&meta);
        disk_fake_free(fake);
    }
}

/* ---- damage ---- */

static void a_flipped_bit_anywhere_harms_nothing(void **state)
{
    (void)state;
    struct problem problem;
    struct disk_fake *fake = fake_with_meta(1);
    struct meta meta;
    assert_done(meta_open(&meta, disk_fake_disk(fake), &problem));
    assert_done(meta_save_vote(&meta, 9, 4, &problem));
    meta_close(&meta);
    for (uint64_t bit = 0; bit < 8192 * 8; bit += 3) {
        assert_true(disk_fake_flip(fake, "meta", bit / 8, (unsigned)(bit % 8)));
        assert_done(meta_open(&meta, disk_fake_disk(fake), &problem));
        assert_true(meta.repaired);
        assert_int_equal(meta.state.term, 9);
        assert_int_equal(meta.state.vote, 4);
        meta_close(&meta);
        assert_true(disk_fake_flip(fake, "meta", bit / 8, (unsigned)(bit % 8)));
    }
    /* The next life makes both copies sound again. */
    disk_fake_flip(fake, "meta", 100, 0);
    assert_done(meta_open(&meta, disk_fake_disk(fake), &problem));
    assert_done(meta_begin_life(&meta, &problem));
    meta_close(&meta);
    assert_done(meta_open(&meta, disk_fake_disk(fake), &problem));
    assert_false(meta.repaired);
    meta_close(&meta);
    disk_fake_free(fake);
}

static void two_damaged_copies_are_named(void **state)
{
    (void)state;
    struct problem problem;
    struct disk_fake *fake = fake_with_meta(1);
    struct meta meta;
    disk_fake_flip(fake, "meta", 80, 0);
    disk_fake_flip(fake, "meta", 4096 + 80, 0);
    assert_problem(meta_open(&meta, disk_fake_disk(fake), &problem), STORAGE_CORRUPT,
                   "meta is damaged: neither of its two copies");
    meta_close(&meta);
    disk_fake_put(fake, "meta", "", 0);
    assert_problem(meta_open(&meta, disk_fake_disk(fake), &problem), STORAGE_CORRUPT,
                   "meta is damaged");
    meta_close(&meta);
    disk_fake_free(fake);
}

static void a_newer_format_is_named(void **state)
{
    (void)state;
    struct problem problem;
    struct disk_fake *fake = fake_with_meta(1);
    uint64_t size;
    uint8_t bytes[8192];
    memcpy(bytes, disk_fake_file(fake, "meta", &size), sizeof(bytes));
    put_u32(bytes + 16, 9);
    put_u64(bytes, storage_checksum(bytes + 8, 4096 - 8, 0));
    disk_fake_put(fake, "meta", bytes, sizeof(bytes));
    struct meta meta;
    assert_problem(meta_open(&meta, disk_fake_disk(fake), &problem), STORAGE_VERSION,
                   "meta has format version 9");
    meta_close(&meta);
    disk_fake_free(fake);
}

/* ---- what must not be called ---- */

static struct meta *open_for_misuse(struct disk_fake *fake, struct meta *meta)
{
    struct problem problem;
    assert_done(meta_open(meta, disk_fake_disk(fake), &problem));
    assert_done(meta_save_vote(meta, 5, 2, &problem));
    return meta;
}

static void lower_the_term(void *ctx)
{
    struct problem problem;
    meta_save_vote(ctx, 4, 0, &problem);
}

static void vote_twice(void *ctx)
{
    struct problem problem;
    meta_save_vote(ctx, 5, 3, &problem);
}

static void become_another_store(void *ctx)
{
    struct problem problem;
    struct meta_state next = ((struct meta *)ctx)->state;
    next.store.low++;
    meta_save(ctx, &next, &problem);
}

static void a_save_that_would_go_back_ends_the_process(void **state)
{
    (void)state;
    struct disk_fake *fake = fake_with_meta(1);
    struct meta meta;
    open_for_misuse(fake, &meta);
    assert_panics(lower_the_term, &meta, "next->term >= now->term");
    assert_panics(vote_twice, &meta, "next->vote == now->vote");
    assert_panics(become_another_store, &meta, "next->store, now->store");
    meta_close(&meta);
    disk_fake_free(fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_saved_comes_back),
        cmocka_unit_test(a_save_is_two_writes_and_two_syncs_of_allocated_bytes),
        cmocka_unit_test(a_missing_file_is_an_answer),
        cmocka_unit_test(term_and_vote_never_go_back),
        cmocka_unit_test(a_crash_while_the_file_is_made_leaves_none_or_a_whole_one),
        cmocka_unit_test(a_flipped_bit_anywhere_harms_nothing),
        cmocka_unit_test(two_damaged_copies_are_named),
        cmocka_unit_test(a_newer_format_is_named),
        cmocka_unit_test(a_save_that_would_go_back_ends_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
