/* The log at every crash point: a random history is stopped after each single disk operation, the
 * process crashes or the power is cut, the log is opened again (and stopped again while it opens,
 * and again), and must then be what was acknowledged, plus at most the beginning of what was under
 * way; and that must be durable at once. Half of the appends are written in whole blocks, as direct
 * writes are. */
#include "storage_testing.h"

enum { SEGMENT = 12288, HISTORY = 40, BATCH = 12 };

enum action { NOTHING, APPEND, TRUNCATE, RESET, DROP };

/* What was under way when the disk stopped. */
struct pending {
    enum action action;
    uint64_t index;
    size_t count;
    struct naive_entry list[BATCH];
};

struct world {
    struct disk_fake *fake;
    struct log *log;
    uint64_t life;
    struct naive naive; /* what was acknowledged */
    struct pending pending;
    struct random random;
};

static uint64_t checked; /* openings whose outcome was compared */

static enum storage_status open_log(struct world *w, struct problem *problem)
{
    struct log_options options = {.segment_bytes = SEGMENT,
                                  .spare_limit = 2,
                                  .store = test_store,
                                  .life = ++w->life,
                                  .create = true,
                                  .direct = true};
    return log_open(disk_fake_disk(w->fake), &options, &w->log, problem);
}

/* ---- the history ---- */

static void plan_append(struct world *w, uint64_t first)
{
    struct pending *p = &w->pending;
    p->action = APPEND;
    p->index = first;
    p->count = 1 + random_below(&w->random, BATCH);
    /* Few sizes, so that old and new records often lie at the same places. */
    static const uint32_t sizes[] = {0, 8, 200, 200, 200, 464, 464, 3000};
    for (size_t i = 0; i < p->count; i++)
        p->list[i] = (struct naive_entry){.term = w->life,
                                          .seed = random_next(&w->random),
                                          .len = sizes[random_below(&w->random, 8)]};
}

static void plan(struct world *w)
{
    struct naive *naive = &w->naive;
    struct pending *p = &w->pending;
    uint32_t live = (uint32_t)(naive->last + 1 - naive->first);
    uint64_t somewhere = naive->first + random_below(&w->random, live + 1);
    *p = (struct pending){.action = NOTHING, .index = somewhere};
    switch (random_below(&w->random, 12)) {
    case 0:
        p->action = TRUNCATE;
        break;
    case 1:
        p->action = DROP;
        break;
    case 2:
        if (random_below(&w->random, 6) == 0) {
            p->action = RESET;
            p->index = naive->last + random_below(&w->random, 20);
        }
        break;
    case 3:
        plan_append(w, somewhere);
        break;
    case 4:
    case 5:
        break;
    default:
        plan_append(w, naive->last + 1);
    }
}

static enum storage_status act(struct world *w, struct problem *problem)
{
    struct pending *p = &w->pending;
    switch (p->action) {
    case APPEND:
        return append_naive(w->log, p->index, p->list, p->count, problem);
    case TRUNCATE:
        return log_truncate(w->log, p->index, problem);
    case RESET:
        return log_reset(w->log, p->index, 3, problem);
    case DROP:
        return log_drop_before(w->log, p->index, problem);
    case NOTHING:
        break;
    }
    return p->index % 2 == 0 ? log_prepare(w->log, problem) : log_seal(w->log, problem);
}

static void acknowledge(struct world *w)
{
    struct naive *naive = &w->naive;
    const struct pending *p = &w->pending;
    if (p->action == APPEND)
        for (size_t i = 0; i < p->count; i++)
            naive_set(naive, p->index + i, p->list[i]);
    if (p->action == TRUNCATE)
        naive->last = p->index - 1;
    if (p->action == RESET) {
        naive->first = p->index + 1;
        naive->last = p->index;
    }
    if (p->action == DROP)
        naive->first = log_first(w->log);
    w->pending.action = NOTHING;
}

/* Runs the history until the disk stops; false when it came to its end. */
static bool run(struct world *w, int steps)
{
    struct problem problem;
    if (w->log == NULL && open_log(w, &problem) != STORAGE_OK)
        return true;
    for (int i = 0; i < steps; i++) {
        plan(w);
        if (act(w, &problem) != STORAGE_OK) {
            assert_true(disk_fake_has_stopped(w->fake));
            return true;
        }
        acknowledge(w);
    }
    return false;
}

/* ---- what may be found ---- */

static bool equals(struct log *log, const struct naive *naive)
{
    return log_last(log) == naive->last && log_first(log) == naive->first &&
           first_difference(log, naive, naive->first, naive->last, 100000) == 0;
}

/* Whether the log is what it may be; the naive log then becomes the same. */
static bool is_allowed(struct world *w)
{
    struct naive *naive = &w->naive;
    const struct pending *p = &w->pending;
    checked++;
    if (p->action == DROP && log_first(w->log) >= naive->first && log_first(w->log) <= p->index)
        naive->first = log_first(w->log);
    if (equals(w->log, naive))
        return true;
    static struct naive other;
    other = *naive;
    if (p->action == RESET) {
        other.first = p->index + 1;
        other.last = p->index;
    } else if (p->action == TRUNCATE) {
        other.last = p->index - 1;
    } else if (p->action == APPEND) {
        other.last = p->index - 1;
        for (size_t i = 0; i < p->count && other.last < log_last(w->log); i++)
            naive_set(&other, p->index + i, p->list[i]);
        if (other.last < p->index)
            return false;
    }
    if (!equals(w->log, &other))
        return false;
    *naive = other;
    return true;
}

/* ---- ends and beginnings ---- */

static void end_life(struct world *w, bool power_cut)
{
    log_close(w->log);
    w->log = NULL;
    if (power_cut)
        disk_fake_power_cut(w->fake);
    else
        disk_fake_crash(w->fake);
}

static void assert_opens(struct world *w, const char *when)
{
    struct problem problem;
    if (open_log(w, &problem) != STORAGE_OK)
        fail_msg("%s the log does not open: %s", when, problem.text);
}

/* The process is dead. Opens, checks, goes on a little, and sees that all of it is durable. */
static void assert_recovers(struct world *w)
{
    assert_opens(w, "after the crash");
    if (!is_allowed(w))
        fail_msg("the log has %llu to %llu, acknowledged were %llu to %llu, under way was %d",
                 (unsigned long long)log_first(w->log), (unsigned long long)log_last(w->log),
                 (unsigned long long)w->naive.first, (unsigned long long)w->naive.last,
                 w->pending.action);
    w->pending.action = NOTHING;
    end_life(w, true);
    assert_opens(w, "after a power cut behind the opening");
    if (!is_allowed(w))
        fail_msg("what was there after opening was not durable");
    assert_false(run(w, 2));
    end_life(w, true);
    assert_opens(w, "at the end");
    if (!is_allowed(w))
        fail_msg("what was acknowledged after the crash was not durable");
    log_close(w->log);
    w->log = NULL;
}

static struct world *world_copy(const struct world *from, uint64_t seed)
{
    struct world *w = malloc(sizeof(*w));
    *w = *from;
    w->fake = disk_fake_copy(from->fake, seed);
    w->random.state += seed;
    w->log = NULL;
    return w;
}

static void world_free(struct world *w)
{
    log_close(w->log);
    disk_fake_free(w->fake);
    free(w);
}

/* Opens with a stop after each operation of the opening; each of these worlds then recovers, or is
 * stopped in its opening once more. */
static void recover_every_way(const struct world *dead, uint64_t seed, int depth)
{
    for (uint64_t stop = 0;; stop++) {
        struct world *w = world_copy(dead, seed + 1000 * stop);
        struct problem problem;
        disk_fake_stop_after(w->fake, stop);
        bool opened = open_log(w, &problem) == STORAGE_OK;
        bool stopped = disk_fake_has_stopped(w->fake);
        if (!opened && !stopped)
            fail_msg("the log does not open: %s", problem.text);
        end_life(w, (seed + stop) % 2 == 0);
        if (stopped && depth > 1) {
            uint64_t again = random_below(&w->random, 12);
            disk_fake_stop_after(w->fake, again);
            if (open_log(w, &problem) != STORAGE_OK)
                assert_true(disk_fake_has_stopped(w->fake));
            end_life(w, random_below(&w->random, 2) == 0);
        }
        assert_recovers(w);
        world_free(w);
        if (opened)
            return;
    }
}

static uint64_t stop_everywhere(uint64_t seed)
{
    for (uint64_t stop = 0;; stop++) {
        struct world *w = calloc(1, sizeof(*w));
        w->fake = disk_fake_new(seed);
        w->random.state = seed;
        naive_init(&w->naive);
        disk_fake_stop_after(w->fake, stop);
        bool stopped = run(w, HISTORY);
        log_close(w->log);
        w->log = NULL;
        for (uint64_t variant = 0; variant < 3 && stopped; variant++) {
            struct world *dead = world_copy(w, seed * 31 + stop * 7 + variant);
            end_life(dead, variant > 0);
            recover_every_way(dead, seed + stop + variant, 2);
            world_free(dead);
        }
        world_free(w);
        if (!stopped)
            return stop;
    }
}

static void every_crash_point_leaves_what_was_acknowledged(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, __func__);
    /* HOLDFAST_TEST_ROUNDS requests more histories. */
    const char *rounds = getenv("HOLDFAST_TEST_ROUNDS");
    uint64_t points = 0;
    checked = 0;
    for (long i = rounds == NULL ? 1 : strtol(rounds, NULL, 10); i > 0; i--)
        points += stop_everywhere(random_next(&random));
    printf("           %llu crash points, %llu openings compared\n", (unsigned long long)points,
           (unsigned long long)checked);
}

/* One long life with many crashes: what is left behind by one must not show after another. */
static void many_crashes_in_a_row_lose_and_invent_nothing(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, __func__);
    checked = 0;
    for (int life = 0; life < 40; life++) {
        struct world *w = calloc(1, sizeof(*w));
        w->fake = disk_fake_new(random_next(&random));
        w->random.state = random_next(&random);
        naive_init(&w->naive);
        for (int crash = 0; crash < 60; crash++) {
            disk_fake_stop_after(w->fake, random_below(&random, 40));
            run(w, HISTORY);
            end_life(w, random_below(&random, 3) > 0);
            assert_opens(w, "after a crash");
            if (!is_allowed(w))
                fail_msg("after crash %d the log is not what it may be", crash);
            w->pending.action = NOTHING;
            if (w->naive.last > NAIVE_MAX - HISTORY * BATCH - 20 * HISTORY)
                break;
        }
        world_free(w);
    }
    printf("           %llu openings compared\n", (unsigned long long)checked);
}

/* Every operation fails once, and the node exits as it must. */
static void every_failing_operation_leaves_what_was_acknowledged(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, __func__);
    uint64_t seed = random_next(&random);
    checked = 0;
    for (uint64_t at = 0;; at++) {
        struct world *w = calloc(1, sizeof(*w));
        w->fake = disk_fake_new(seed);
        w->random.state = seed;
        naive_init(&w->naive);
        disk_fake_fail_after(w->fake, at, at % 3 == 0 ? STORAGE_FULL : STORAGE_IO);
        struct problem problem;
        enum storage_status status = open_log(w, &problem);
        for (int i = 0; i < HISTORY && status == STORAGE_OK; i++) {
            plan(w);
            status = act(w, &problem);
            if (status == STORAGE_FULL && w->pending.action != DROP)
                w->pending.action = NOTHING; /* the log is as it was; goes on with another thing */
            if (status == STORAGE_FULL || status == STORAGE_OK) {
                acknowledge(w);
                status = STORAGE_OK;
            }
        }
        bool failed = disk_fake_has_failed(w->fake);
        end_life(w, at % 2 == 0);
        recover_every_way(w, seed + at, 1);
        world_free(w);
        if (!failed)
            break;
    }
    printf("           %llu openings compared\n", (unsigned long long)checked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_crash_point_leaves_what_was_acknowledged),
        cmocka_unit_test(many_crashes_in_a_row_lose_and_invent_nothing),
        cmocka_unit_test(every_failing_operation_leaves_what_was_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
