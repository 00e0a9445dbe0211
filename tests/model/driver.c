/* Random commands against the core and the reference model.
 *
 *     model [--seed N] [--commands N] [--trace]
 *
 * Every command goes through the codec of entries into one core, and decoded into a second one with
 * another hash key; the model gets it too. Results and events are compared after each command, the
 * whole state every few entries. Now and then the first core is written to a snapshot and goes on
 * as what was restored from it. A seed replays exactly. */
#include "driver.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/panic.h"

enum {
    LAST = 20,
    BASE_SEED = 8000 /* a multiple of PROFILE_COUNT */
};

struct past {
    uint8_t *bytes;
    size_t len;
    uint64_t index;
    uint64_t time_ms;
};

struct bytes {
    uint8_t *data;
    size_t len;
    size_t size;
};

struct run {
    uint64_t seed;
    bool trace;
    bool failed;
    struct random random; /* of the driver itself; the generator has its own */
    struct core *core;
    struct core *twin; /* another hash key, the same answers */
    struct model *model;
    struct recorder core_events;
    struct recorder twin_events;
    struct recorder model_events;
    struct generator *generator;
    uint64_t index;
    uint64_t time_ms;
    uint64_t number; /* of commands */
    struct past last[LAST];
    struct bytes snapshots[2];
    uint8_t *entry;
    uint8_t *damaged;
};

/* Some begin with an earlier version, and are upgraded some time. */
static uint32_t run_version(uint64_t seed)
{
    uint32_t way = (uint32_t)(seed / 8 % (CORE_VERSION + 1));
    return way < CORE_VERSION - 1 ? way + 1 : CORE_VERSION;
}

static struct core_options options(struct run *run, struct recorder *events)
{
    return (struct core_options){memory_system(), random_next(&run->random), recorder_event, events,
                                 run_version(run->seed)};
}

static void report(struct run *run, const char *what)
{
    if (run->failed) {
        return;
    }
    run->failed = true;
    printf("MISMATCH (%s) at seed %" PRIu64 " (%s), command %" PRIu64 ", entry %" PRIu64
           ", time %" PRIu64 "\n",
           what, run->seed, profiles[profile_of(run->seed)].name, run->number, run->index,
           model_now_ms(run->model));
    printf("the last commands:\n");
    for (uint64_t back = LAST; back > 0; back--) {
        if (back > run->number) {
            continue;
        }
        const struct past *past = &run->last[(run->number - back) % LAST];
        struct command c;
        if (command_decode(slice_make(past->bytes, past->len), &c) == HF_OK) {
            printf("  %6" PRIu64 " entry %" PRIu64 " at %" PRIu64 ": ", run->number - back,
                   past->index, past->time_ms);
            describe_command(stdout, &c);
        }
    }
    printf("replay with: model --seed %" PRIu64 " --commands %" PRIu64 " --trace\n", run->seed,
           run->number + 1);
}

static void print_events(const char *who, const struct recorder *r)
{
    for (size_t i = 0; i < r->count && i < 40; i++) {
        printf("    %s event: ", who);
        describe_event(stdout, &r->events[i]);
    }
}

static void compare_all_events(struct run *run)
{
    if (!compare_events(&run->core_events, &run->model_events)) {
        report(run, "events");
        print_events("core", &run->core_events);
        print_events("model", &run->model_events);
    } else if (!compare_events(&run->core_events, &run->twin_events)) {
        report(run, "events of a core with another hash key");
    } else if (run->trace) {
        print_events("both", &run->core_events);
    }
    for (size_t i = 0; i < run->core_events.count; i++) {
        coverage_event(&run->core_events.events[i]);
    }
    recorder_clear(&run->core_events);
    recorder_clear(&run->twin_events);
    recorder_clear(&run->model_events);
}

static void remember(struct run *run, const struct command *c)
{
    static uint8_t buffer[1 << 18];
    struct past *past = &run->last[run->number % LAST];
    size_t len = command_encode(c, CORE_VERSION, buffer, sizeof(buffer));
    if (past->len < len || past->bytes == NULL) {
        free(past->bytes);
        past->bytes = malloc(len + 1);
        hf_assert(past->bytes != NULL);
    }
    memcpy(past->bytes, buffer, len);
    past->len = len;
    past->index = run->index;
    past->time_ms = model_now_ms(run->model);
}

static void check_steps(struct run *run)
{
    struct core_stats stats;
    core_stats(run->core, &stats);
    coverage_steps(stats.last_steps, stats.last_sweep_steps);
    if (stats.last_steps > LIMIT_COMMAND_STEPS) {
        printf("  %" PRIu32 " steps\n", stats.last_steps);
        report(run, "too many steps");
    }
    if (stats.last_sweep_steps > LIMIT_SWEEP_STEPS) {
        printf("  %" PRIu32 " steps\n", stats.last_sweep_steps);
        report(run, "too many steps of a sweep");
    }
}

/* The core has applied one command of the entry. */
static void on_result(void *ctx, uint32_t number, const struct command *c,
                      const struct result *core_result)
{
    struct run *run = ctx;
    (void)number;
    if (run->failed) {
        return;
    }
    remember(run, c);
    run->number++;
    if (run->trace) {
        printf("%" PRIu64 " entry %" PRIu64 " at %" PRIu64 ": ", run->number - 1, run->index,
               model_now_ms(run->model));
        describe_command(stdout, c);
    }
    check_steps(run);
    if (model_has_backlog(run->model)) {
        coverage_extra(EXTRA_BACKLOG);
    }
    if (model_has_purge(run->model)) {
        coverage_extra(EXTRA_PURGE_LEFT);
    }
    if (model_has_woken(run->model)) {
        coverage_extra(EXTRA_WAKE_LEFT);
    }
    struct result twin_result;
    struct result model_result;
    core_apply(run->twin, c, &twin_result);
    model_apply(run->model, c, core_result, &model_result);
    uint32_t ids = c->type == COMMAND_KEEPALIVE && core_result->error == HF_OK
                       ? c->keepalive.sessions.count
                       : 0;
    if (!compare_results(core_result, &model_result, ids)) {
        report(run, "results");
        printf("    core:  ");
        describe_result(stdout, core_result);
        printf("    model: ");
        describe_result(stdout, &model_result);
    } else if (!compare_results(core_result, &twin_result, ids)) {
        report(run, "results of a core with another hash key");
    } else if (run->trace) {
        printf("    ");
        describe_result(stdout, core_result);
    }
    coverage_result(c, core_result);
    compare_all_events(run);
    generator_note(run->generator, c, core_result);
}

static bool into_bytes(void *ctx, const void *data, size_t len)
{
    struct bytes *bytes = ctx;
    if (bytes->len + len > bytes->size) {
        bytes->size = (bytes->len + len) * 2;
        bytes->data = realloc(bytes->data, bytes->size);
        hf_assert(bytes->data != NULL);
    }
    memcpy(bytes->data + bytes->len, data, len);
    bytes->len += len;
    return true;
}

/* True when both cores give the same snapshot; it is in run->snapshots[0]. */
static bool same_snapshots(struct run *run, const struct core *a, const struct core *b)
{
    run->snapshots[0].len = 0;
    run->snapshots[1].len = 0;
    if (!snapshot_write(a, into_bytes, &run->snapshots[0]) ||
        !snapshot_write(b, into_bytes, &run->snapshots[1])) {
        return false;
    }
    return run->snapshots[0].len == run->snapshots[1].len &&
           memcmp(run->snapshots[0].data, run->snapshots[1].data, run->snapshots[0].len) == 0;
}

/* Goes on with a core that was made from a snapshot, fed in pieces, under another hash key. */
static void restore(struct run *run)
{
    run->snapshots[0].len = 0;
    if (!snapshot_write(run->core, into_bytes, &run->snapshots[0])) {
        report(run, "a snapshot could not be written");
        return;
    }
    struct core_options with = options(run, &run->core_events);
    struct snapshot_reader *reader = snapshot_reader_new(&with);
    size_t at = 0;
    while (at < run->snapshots[0].len) {
        size_t piece = random_between(&run->random, 1, random_chance(&run->random, 50) ? 40 : 9999);
        size_t left = run->snapshots[0].len - at;
        piece = piece < left ? piece : left;
        if (snapshot_reader_feed(reader, run->snapshots[0].data + at, piece) != HF_OK) {
            break;
        }
        at += piece;
    }
    struct core *restored = NULL;
    struct snapshot_problem problem;
    memset(&problem, 0, sizeof(problem));
    enum hf_error error = snapshot_reader_finish(reader, &restored, &problem);
    if (error != HF_OK) {
        printf("  %s: %s\n", hf_error_code(error), problem.text);
        report(run, "a snapshot could not be restored");
        return;
    }
    const char *broken = core_check_invariants(restored);
    if (broken != NULL) {
        printf("  %s\n", broken);
        report(run, "invariants of a restored core");
    }
    if (!same_snapshots(run, run->core, restored)) {
        report(run, "the snapshot of a restored core");
    }
    core_free(run->core);
    run->core = restored;
    recorder_clear(&run->core_events);
    coverage_extra(EXTRA_RESTORED);
}

/* A damaged entry is refused and changes nothing. */
static void try_damaged(struct run *run, size_t len)
{
    memcpy(run->damaged, run->entry, len);
    run->damaged[random_below(&run->random, (uint32_t)len)] ^=
        (uint8_t)random_between(&run->random, 1, 255);
    size_t cut = random_chance(&run->random, 20) ? random_below(&run->random, (uint32_t)len) : len;
    struct entry_header header;
    if (entry_check(slice_make(run->damaged, cut), &header) == HF_OK) {
        return; /* it says something else now, but says it well */
    }
    uint64_t index = core_index(run->core);
    if (entry_apply(run->core, run->index, slice_make(run->damaged, cut), NULL, NULL) == HF_OK ||
        run->core_events.count > 0 || core_index(run->core) != index) {
        report(run, "a damaged entry was applied");
    }
    coverage_extra(EXTRA_DAMAGED);
}

static void check_state(struct run *run)
{
    struct core_stats stats;
    model_stats(run->model, &stats);
    /* With many waiters in the state the checks cost more, so they come less often. */
    uint32_t size =
        (uint32_t)(stats.grants + stats.waiters + stats.sessions + stats.fence_marks / 8);
    uint32_t rare = 1 + size / 128;
    if (random_below(&run->random, 6 * rare) == 0) {
        if (!compare_state(run->core, run->model)) {
            report(run, "state");
        }
        const char *broken = core_check_invariants(run->core);
        if (broken != NULL) {
            printf("  %s\n", broken);
            report(run, "invariants");
        }
    }
    if (random_below(&run->random, 60 * rare) == 0 && !same_snapshots(run, run->core, run->twin)) {
        report(run, "snapshots of two cores with other hash keys");
    }
    if (random_below(&run->random, 120 * rare) == 0) {
        restore(run);
    }
}

static void run_recovery(struct run *run)
{
    run->index++;
    struct slice actor = slice_of("admin-0");
    struct slice reason = slice_of("majority lost");
    core_begin(run->core, run->index, run->time_ms, 5);
    core_begin(run->twin, run->index, run->time_ms, 5);
    model_begin(run->model, run->index, run->time_ms, 5);
    core_recover(run->core, actor, reason);
    core_recover(run->twin, actor, reason);
    model_recover(run->model, actor, reason);
    coverage_extra(EXTRA_RECOVERED);
    compare_all_events(run);
}

static void run_entry(struct run *run, uint64_t limit)
{
    uint64_t wall_ms = 0;
    uint32_t count = generator_entry(run->generator, &run->time_ms, &wall_ms);
    struct entry_writer writer;
    entry_writer_init(&writer, CORE_VERSION, run->entry, ENTRY_BYTES);
    for (uint32_t i = 0; i < count && run->number + i < limit; i++) {
        struct command c;
        generator_command(run->generator, &c);
        hf_assert(entry_writer_add(&writer, &c));
    }
    size_t len = entry_writer_seal(&writer, run->time_ms, wall_ms);
    run->index += random_between(&run->random, 1, 2);
    if (random_chance(&run->random, 3)) {
        try_damaged(run, len);
    }
    model_begin(run->model, run->index, run->time_ms, wall_ms);
    core_begin(run->twin, run->index, run->time_ms, wall_ms);
    if (entry_apply(run->core, run->index, slice_make(run->entry, len), on_result, run) != HF_OK) {
        report(run, "a good entry was refused");
    }
    if (!run->failed) {
        compare_all_events(run);
        check_steps(run);
    }
    if (!run->failed) {
        check_state(run);
    }
    if (!run->failed && profiles[profile_of(run->seed)].recovers &&
        random_below(&run->random, 4000) == 0) {
        run_recovery(run);
    }
}

static void cover_forgotten(const struct model *model)
{
    struct model_forgotten forgotten = model_forgotten(model);
    const struct {
        bool did;
        enum coverage_extra extra;
    } all[] = {{forgotten.audit, EXTRA_AUDIT_FULL},
               {forgotten.sessions, EXTRA_SESSIONS_FULL},
               {forgotten.grants, EXTRA_GRANTS_FULL},
               {forgotten.requests, EXTRA_REQUESTS_FULL},
               {forgotten.transacts, EXTRA_TRANSACTS_FULL},
               {forgotten.fences, EXTRA_FLOOR},
               {forgotten.drawn_requests, EXTRA_DRAWN_FULL},
               {forgotten.operator_requests, EXTRA_OPERATORS_FULL}};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i].did) {
            coverage_extra(all[i].extra);
        }
    }
}

static bool run_seed(uint64_t seed, uint64_t commands, bool trace)
{
    struct run run = {.seed = seed, .trace = trace, .random = {seed ^ UINT64_C(0x5eed)}};
    struct core_options core_with = options(&run, &run.core_events);
    struct core_options twin_with = options(&run, &run.twin_events);
    run.core = core_new(&core_with);
    run.twin = core_new(&twin_with);
    run.model = model_new(run_version(seed), recorder_event, &run.model_events);
    run.generator = generator_new(seed, run.model);
    run.entry = malloc(ENTRY_BYTES);
    run.damaged = malloc(ENTRY_BYTES);
    hf_assert(run.entry != NULL && run.damaged != NULL);
    while (!run.failed && run.number < commands) {
        run_entry(&run, commands);
    }
    if (!run.failed && !compare_state(run.core, run.model)) {
        report(&run, "state at the end");
    }
    cover_forgotten(run.model);
    core_free(run.core);
    core_free(run.twin);
    model_free(run.model);
    generator_free(run.generator);
    recorder_close(&run.core_events);
    recorder_close(&run.twin_events);
    recorder_close(&run.model_events);
    for (size_t i = 0; i < LAST; i++) {
        free(run.last[i].bytes);
    }
    free(run.snapshots[0].data);
    free(run.snapshots[1].data);
    free(run.entry);
    free(run.damaged);
    return !run.failed;
}

/* One test for each profile. */
static bool run_profile(enum profile_kind kind, uint64_t share)
{
    const struct profile *p = &profiles[kind];
    uint64_t seeds = (p->seeds * share + 999) / 1000;
    uint64_t first = BASE_SEED + (uint64_t)kind;
    uint64_t commands = kind == PROFILE_RINGS ? p->commands * share / 1000 : p->commands;
    printf("%s: %" PRIu64 " seeds from %" PRIu64 " in steps of %d, %" PRIu64 " commands each\n",
           p->name, seeds, first, PROFILE_COUNT, commands);
    fflush(stdout);
    for (uint64_t i = 0; i < seeds; i++) {
        if (!run_seed(first + i * PROFILE_COUNT, commands, false)) {
            printf("FAILED: %s\n", p->name);
            return false;
        }
    }
    return true;
}

static uint64_t total_commands(void)
{
    uint64_t total = 0;
    for (int kind = 0; kind < PROFILE_COUNT; kind++) {
        total += (uint64_t)profiles[kind].seeds * profiles[kind].commands;
    }
    return total;
}

static int usage(void)
{
    fprintf(stderr, "usage: model [--seed N] [--commands N] [--trace]\n");
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t seed = 0;
    uint64_t commands = 0;
    bool one_seed = false;
    bool trace = false;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--trace") == 0) {
            trace = true;
        } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
            seed = strtoull(argv[++i], NULL, 10);
            one_seed = true;
        } else if (strcmp(argv[i], "--commands") == 0 && i + 1 < argc) {
            commands = strtoull(argv[++i], NULL, 10);
        } else {
            return usage();
        }
    }
    if (one_seed) {
        const struct profile *p = &profiles[profile_of(seed)];
        bool good = run_seed(seed, commands > 0 ? commands : p->commands, trace);
        if (good) {
            coverage_print();
        }
        printf("%d passed, %d failed\n", good, !good);
        return good ? 0 : 1;
    }
    uint64_t total = total_commands();
    uint64_t share = commands > 0 && commands < total ? commands * 1000 / total + 1 : 1000;
    int passed = 0;
    int failed = 0;
    for (int kind = 0; kind < (TINY_LIMITS ? PROFILE_MANY_WAITERS : PROFILE_COUNT); kind++) {
        bool good = run_profile((enum profile_kind)kind, share);
        passed += good;
        failed += !good;
    }
    coverage_print();
    if (share == 1000) {
        bool complete = coverage_complete();
        passed += complete;
        failed += !complete;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed > 0;
}
