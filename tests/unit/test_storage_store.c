/* Tests of the folder as a whole: who may open it, whether its parts fit together, and what is left
 * of a node's life when it is stopped after any single disk operation. */
#include "storage_testing.h"

#include "storage/disk_posix.h"
#include "storage/store.h"

enum { SEGMENT = 12288, BLOCK = 512 };

static const struct store_options options = {
    .node = 3, .cluster = {8, 9}, .new_store = {5, 6}, .segment_bytes = SEGMENT, .spare_limit = 2};

/* ---- a node ---- */

struct facts {
    uint64_t term;
    uint64_t vote;
    uint64_t snapshot_index;
    uint64_t snapshot_term;
    struct naive log;
};

struct node {
    struct disk_fake *fake;
    struct store store;
    bool is_open;
    struct facts now;  /* acknowledged */
    struct facts next; /* if what is under way gets done */
    size_t batch;      /* entries at the end of next.log that are under way */
    struct random random;
};

static void node_init(struct node *n, uint64_t seed)
{
    n->fake = disk_fake_new(seed);
    n->random.state = seed;
    n->is_open = false;
    n->now = (struct facts){.term = 0};
    naive_init(&n->now.log);
    n->next = n->now;
    n->batch = 0;
}

static enum storage_status node_open(struct node *n, struct problem *problem)
{
    enum storage_status status = store_open(&n->store, disk_fake_disk(n->fake), &options, problem);
    n->is_open = status == STORAGE_OK;
    return status;
}

static void node_close(struct node *n)
{
    if (n->is_open)
        store_close(&n->store);
    n->is_open = false;
}

static enum storage_status put_snapshot(struct snapshots *snapshots, uint64_t index, uint64_t term,
                                        struct problem *problem)
{
    struct snapshot_info info = {
        .cluster = options.cluster, .index = index, .term = term, .configuration_index = 1};
    struct snapshot_output *output;
    enum storage_status status = snapshot_output_begin(snapshots, &info, BLOCK, &output, problem);
    if (status != STORAGE_OK)
        return status;
    uint8_t body[1200];
    memset(body, (int)index, sizeof(body));
    status = snapshot_output_put(output, body, sizeof(body), problem);
    if (status == STORAGE_OK)
        status = snapshot_output_finish(output, problem);
    if (status == STORAGE_OK)
        return snapshot_output_commit(output, problem);
    snapshot_output_abort(output);
    return status;
}

/* ---- what a node does ---- */

static enum storage_status do_vote(struct node *n, struct problem *problem)
{
    if (n->now.vote == 0 && n->now.term > 0 && random_below(&n->random, 2) == 0) {
        n->next.vote = 1 + random_below(&n->random, 5);
    } else {
        n->next.term++;
        n->next.vote = 0;
    }
    return meta_save_vote(&n->store.meta, n->next.term, n->next.vote, problem);
}

static enum storage_status do_append(struct node *n, struct problem *problem)
{
    struct naive *log = &n->next.log;
    uint64_t first = log->last + 1;
    uint64_t lowest =
        n->now.snapshot_index + 1 > log->first ? n->now.snapshot_index + 1 : log->first;
    if (random_below(&n->random, 6) == 0 && log->last > lowest)
        first = lowest + random_below(&n->random, (uint32_t)(log->last - lowest));
    struct naive_entry list[8];
    n->batch = 1 + random_below(&n->random, 8);
    for (size_t i = 0; i < n->batch; i++) {
        list[i] = (struct naive_entry){.term = n->now.term,
                                       .seed = random_next(&n->random),
                                       .len = random_below(&n->random, 900)};
        naive_set(log, first + i, list[i]);
    }
    return append_naive(n->store.log, first, list, n->batch, problem);
}

static enum storage_status do_snapshot(struct node *n, struct problem *problem)
{
    struct facts *next = &n->next;
    if (next->log.last <= next->snapshot_index)
        return STORAGE_OK;
    next->snapshot_index +=
        1 + random_below(&n->random, (uint32_t)(next->log.last - next->snapshot_index));
    next->snapshot_term = next->log.entries[next->snapshot_index].term;
    enum storage_status status =
        put_snapshot(n->store.snapshots, next->snapshot_index, next->snapshot_term, problem);
    if (status == STORAGE_OK)
        status = snapshots_prune(n->store.snapshots, problem);
    uint64_t keep = next->snapshot_index > 5 ? next->snapshot_index - 5 : 1;
    if (status == STORAGE_OK)
        status = log_drop_before(n->store.log, keep, problem);
    return status;
}

/* Receives one from a leader, and starts the log anew behind it. */
static enum storage_status do_install(struct node *n, struct problem *problem)
{
    struct facts *next = &n->next;
    next->snapshot_index = next->log.last + random_below(&n->random, 30);
    if (next->snapshot_index == n->now.snapshot_index || n->now.term < 2)
        next->snapshot_index++;
    else if (next->snapshot_index == next->log.last)
        next->snapshot_index++;
    next->snapshot_term = n->now.term;
    next->log.first = next->snapshot_index + 1;
    next->log.last = next->snapshot_index;
    struct disk_fake *leader = disk_fake_new(1);
    struct snapshots *there;
    struct snapshot_intake *intake = NULL;
    struct snapshot_source *source;
    enum storage_status status =
        snapshots_open(disk_fake_disk(leader), options.cluster, &there, problem);
    assert_int_equal(status, STORAGE_OK);
    status = put_snapshot(there, next->snapshot_index, next->snapshot_term, problem);
    assert_int_equal(status, STORAGE_OK);
    status =
        snapshot_source_open(there, next->snapshot_index, next->snapshot_term, &source, problem);
    assert_int_equal(status, STORAGE_OK);
    status = snapshot_intake_begin(n->store.snapshots, snapshots_newest(there), &intake, problem);
    struct snapshot_piece piece = {.last = false};
    while (status == STORAGE_OK && !piece.last) {
        status = snapshot_source_next(source, &piece, problem);
        if (status == STORAGE_OK)
            status = snapshot_intake_feed(intake, piece.raw.data, piece.raw.len, problem);
    }
    if (status == STORAGE_OK)
        status = snapshot_intake_commit(intake, problem);
    else
        snapshot_intake_abort(intake);
    if (status == STORAGE_OK)
        status = log_reset(n->store.log, next->snapshot_index, next->snapshot_term, problem);
    if (status == STORAGE_OK)
        status = snapshots_prune(n->store.snapshots, problem);
    snapshot_source_close(source);
    snapshots_close(there);
    disk_fake_free(leader);
    return status;
}

/* One random thing; then it is acknowledged. */
static enum storage_status node_step(struct node *n, struct problem *problem)
{
    enum storage_status status;
    n->next = n->now;
    n->batch = 0;
    uint32_t what = random_below(&n->random, 20);
    if (n->now.term == 0 || what < 3)
        status = do_vote(n, problem);
    else if (what < 5)
        status = do_snapshot(n, problem);
    else if (what == 5)
        status = do_install(n, problem);
    else if (what == 6)
        status = log_prepare(n->store.log, problem);
    else if (what == 7)
        status = log_seal(n->store.log, problem);
    else
        status = do_append(n, problem);
    if (status == STORAGE_OK) {
        n->now = n->next;
        n->batch = 0;
    }
    return status;
}

/* ---- what may be found ---- */

static bool log_matches(struct node *n, const struct naive *log)
{
    struct log *real = n->store.log;
    uint64_t first = log->first > log_first(real) ? log->first : log_first(real);
    return log_last(real) == log->last && first_difference(real, log, first, log->last, 9999) == 0;
}

static bool facts_match(struct node *n, const struct facts *facts)
{
    const struct meta_state *meta = &n->store.meta.state;
    const struct snapshot_info *newest = snapshots_newest(n->store.snapshots);
    uint64_t index = newest == NULL ? 0 : newest->index;
    return meta->term == facts->term && meta->vote == facts->vote &&
           index == facts->snapshot_index && log_first(n->store.log) <= index + 1 &&
           log_matches(n, &facts->log);
}

/* The old facts, the new ones, or the new ones with a part of the batch. */
static bool node_is_allowed(struct node *n)
{
    if (facts_match(n, &n->now)) {
        n->next = n->now;
        return true;
    }
    bool found = false;
    for (size_t missing = 0; missing <= n->batch && !found; missing++) {
        found = facts_match(n, &n->next);
        if (!found && n->batch > missing)
            n->next.log.last--;
    }
    if (found)
        n->now = n->next;
    return found;
}

static void assert_recovers(struct node *n, uint64_t *openings)
{
    struct problem problem;
    for (int again = 0; again < 2; again++) {
        if (node_open(n, &problem) != STORAGE_OK)
            fail_msg("the folder does not open: %s", problem.text);
        (*openings)++;
        if (!node_is_allowed(n))
            fail_msg("opening %d: term %llu, snapshot %llu, log %llu to %llu", again,
                     (unsigned long long)n->store.meta.state.term,
                     (unsigned long long)(snapshots_newest(n->store.snapshots) == NULL
                                              ? 0
                                              : snapshots_newest(n->store.snapshots)->index),
                     (unsigned long long)log_first(n->store.log),
                     (unsigned long long)log_last(n->store.log));
        if (snapshots_newest(n->store.snapshots) != NULL)
            assert_done(snapshots_verify_newest(n->store.snapshots, &problem));
        for (int i = 0; i < 3; i++)
            assert_done(node_step(n, &problem));
        node_close(n);
        disk_fake_power_cut(n->fake);
    }
}

static struct node *node_copy(const struct node *from, uint64_t seed)
{
    struct node *n = malloc(sizeof(*n));
    *n = *from;
    n->fake = disk_fake_copy(from->fake, seed);
    n->random.state += seed;
    n->is_open = false;
    return n;
}

static void node_free(struct node *n)
{
    node_close(n);
    disk_fake_free(n->fake);
    free(n);
}

static void every_crash_point_of_a_node_leaves_what_was_acknowledged(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, __func__);
    uint64_t points = 0, openings = 0, seed = random_next(&random);
    for (uint64_t stop = 0;; stop++, points++) {
        struct node *n = calloc(1, sizeof(*n));
        struct problem problem;
        node_init(n, seed);
        disk_fake_stop_after(n->fake, stop);
        enum storage_status status = node_open(n, &problem);
        for (int i = 0; i < 60 && status == STORAGE_OK; i++)
            status = node_step(n, &problem);
        bool stopped = status != STORAGE_OK;
        assert_true(stopped == disk_fake_has_stopped(n->fake));
        node_close(n);
        for (uint64_t variant = 0; variant < 3 && stopped; variant++) {
            struct node *dead = node_copy(n, seed + stop * 5 + variant);
            if (variant > 0)
                disk_fake_power_cut(dead->fake);
            else
                disk_fake_crash(dead->fake);
            /* And once more while it opens. */
            disk_fake_stop_after(dead->fake, random_below(&random, 30));
            node_open(dead, &problem);
            node_close(dead);
            if (random_below(&random, 2) == 0)
                disk_fake_power_cut(dead->fake);
            else
                disk_fake_crash(dead->fake);
            assert_recovers(dead, &openings);
            node_free(dead);
        }
        node_free(n);
        if (!stopped)
            break;
    }
    printf("           %llu crash points, %llu openings compared\n", (unsigned long long)points,
           (unsigned long long)openings);
}

static void many_lives_lose_and_invent_nothing(void **state)
{
    (void)state;
    struct random random;
    random_init(&random, __func__);
    uint64_t lives = 0;
    for (int round = 0; round < 15; round++) {
        struct node *n = calloc(1, sizeof(*n));
        struct problem problem;
        node_init(n, random_next(&random));
        for (int life = 0; life < 60 && n->now.log.last < NAIVE_MAX - 1200; life++, lives++) {
            disk_fake_stop_after(n->fake, random_below(&random, 120));
            enum storage_status status = node_open(n, &problem);
            bool opened = status == STORAGE_OK;
            if (opened && !node_is_allowed(n))
                fail_msg("life %d is not what it may be", life);
            for (int i = 0; i < 60 && status == STORAGE_OK; i++)
                status = node_step(n, &problem);
            if (status != STORAGE_OK && !disk_fake_has_stopped(n->fake))
                fail_msg("life %d: %s", life, problem.text);
            node_close(n);
            if (random_below(&random, 3) > 0)
                disk_fake_power_cut(n->fake);
            else
                disk_fake_crash(n->fake);
        }
        node_free(n);
    }
    printf("           %llu lives\n", (unsigned long long)lives);
}

/* ---- who may open it ---- */

static void a_new_folder_gets_its_identity_and_keeps_it(void **state)
{
    (void)state;
    struct problem problem;
    struct disk_fake *fake = disk_fake_new(1);
    struct store store;
    assert_done(store_open(&store, disk_fake_disk(fake), &options, &problem));
    assert_true(store.is_new);
    assert_false(store.meta.state.bootstrapped);
    store_close(&store);
    struct store_options other = options;
    other.new_store = (struct id){1, 1}; /* only for a new one */
    assert_done(store_open(&store, disk_fake_disk(fake), &other, &problem));
    assert_false(store.is_new);
    assert_true(id_equal(store.meta.state.store, options.new_store));
    assert_int_equal(store.meta.state.life, 2);
    store_close(&store);
    other.node = 4;
    assert_problem(store_open(&store, disk_fake_disk(fake), &other, &problem), STORAGE_FOREIGN,
                   "belongs to node 3 and not to node 4");
    other.node = 3;
    other.cluster = (struct id){1, 1};
    assert_problem(store_open(&store, disk_fake_disk(fake), &other, &problem), STORAGE_FOREIGN,
                   "belongs to cluster");
    other.cluster = (struct id){0, 0};
    assert_done(store_open(&store, disk_fake_disk(fake), &other, &problem));
    struct store second;
    assert_problem(store_open(&second, disk_fake_disk(fake), &options, &problem), STORAGE_LOCKED,
                   "in use");
    store_close(&store);
    assert_done(store_open(&second, disk_fake_disk(fake), &options, &problem));
    store_close(&second);
    disk_fake_free(fake);
}

/* ---- parts that do not fit ---- */

/* A node that has lived for a while: votes, entries in several segments, snapshots. */
static struct node *lived(void)
{
    struct node *n = calloc(1, sizeof(*n));
    struct problem problem;
    node_init(n, 99);
    assert_done(node_open(n, &problem));
    while (snapshots_newest(n->store.snapshots) == NULL || log_first(n->store.log) < 20 ||
           n->now.log.last < n->now.snapshot_index + 20)
        assert_done(node_step(n, &problem));
    assert_done(log_seal(n->store.log, &problem));
    node_close(n);
    disk_fake_settle(n->fake);
    return n;
}

static void newest_snapshot_name(const struct node *n, char *name, size_t size)
{
    snprintf(name, size, "snapshot-%012llu-%06llu", (unsigned long long)n->now.snapshot_index,
             (unsigned long long)n->now.snapshot_term);
}

static void parts_that_are_gone_are_named(void **state)
{
    (void)state;
    struct problem problem;
    struct node *n = lived();
    char name[64];
    newest_snapshot_name(n, name, sizeof(name));
    struct node *copy = node_copy(n, 1);
    assert_true(disk_fake_remove(copy->fake, "meta"));
    assert_problem(node_open(copy, &problem), STORAGE_CORRUPT, "meta is missing, but ");
    node_free(copy);
    copy = node_copy(n, 1);
    assert_true(disk_fake_remove(copy->fake, name));
    assert_problem(node_open(copy, &problem), STORAGE_CORRUPT, "and there is no snapshot");
    node_free(copy);
    copy = node_copy(n, 1);
    for (unsigned number = 1; number < 100; number++) {
        char segment[32];
        snprintf(segment, sizeof(segment), "log-%012u", number);
        disk_fake_remove(copy->fake, segment);
    }
    assert_problem(node_open(copy, &problem), STORAGE_CORRUPT, "the log is missing");
    node_free(copy);
    node_free(n);
}

static void an_older_copy_of_the_meta_file_is_named(void **state)
{
    (void)state;
    struct problem problem;
    struct disk_fake *fake = disk_fake_new(1);
    struct store store;
    assert_done(store_open(&store, disk_fake_disk(fake), &options, &problem));
    assert_done(meta_save_vote(&store.meta, 4, 1, &problem));
    uint64_t size;
    uint8_t older[8192];
    memcpy(older, disk_fake_file(fake, "meta", &size), sizeof(older));
    assert_done(meta_save_vote(&store.meta, 5, 1, &problem));
    struct log_entry entry = {.term = 5, .type = 1, .data = slice_of("hello")};
    assert_done(log_append(store.log, 1, &entry, 1, &problem));
    store_close(&store);
    disk_fake_put(fake, "meta", older, sizeof(older));
    assert_problem(store_open(&store, disk_fake_disk(fake), &options, &problem), STORAGE_CORRUPT,
                   "meta says term 4, but there are entries of term 5");
    disk_fake_free(fake);
}

static void a_log_that_the_snapshot_has_overtaken_starts_anew(void **state)
{
    (void)state;
    struct problem problem;
    for (int conflict = 0; conflict < 3; conflict++) {
        struct disk_fake *fake = disk_fake_new(1);
        struct store store;
        assert_done(store_open(&store, disk_fake_disk(fake), &options, &problem));
        assert_done(meta_save_vote(&store.meta, 5, 1, &problem));
        struct log_entry entries[10];
        for (int i = 0; i < 10; i++)
            entries[i] = (struct log_entry){.term = 3, .type = 1, .data = slice_of("hello")};
        assert_done(log_append(store.log, 1, entries, 10, &problem));
        /* Behind the end; another entry in the same place; the same entry. */
        uint64_t index = conflict == 0 ? 12 : 7;
        uint64_t term = conflict == 2 ? 3 : 4;
        assert_done(put_snapshot(store.snapshots, index, term, &problem));
        store_close(&store);
        /* Not before every byte of the snapshot is known to be sound. */
        char name[64];
        snprintf(name, sizeof(name), "snapshot-%012llu-%06llu", (unsigned long long)index,
                 (unsigned long long)term);
        disk_fake_flip(fake, name, 300, 1);
        if (conflict < 2) {
            for (int again = 0; again < 2; again++)
                assert_problem(store_open(&store, disk_fake_disk(fake), &options, &problem),
                               STORAGE_CORRUPT, name);
        }
        disk_fake_flip(fake, name, 300, 1);
        assert_done(store_open(&store, disk_fake_disk(fake), &options, &problem));
        assert_int_equal(log_first(store.log), conflict == 2 ? 1 : index + 1);
        assert_int_equal(log_last(store.log), conflict == 2 ? 10 : index);
        store_close(&store);
        disk_fake_free(fake);
    }
}

/* ---- any bit of any file ---- */

static void visit_name(void *ctx, const char *name)
{
    char(*names)[64] = ctx;
    while (**names != '\0')
        names++;
    snprintf(*names, sizeof(*names), "%s", name);
}

static void a_flipped_bit_in_any_file_is_named_or_harmless(void **state)
{
    (void)state;
    struct problem problem;
    struct node *n = lived();
    char names[32][64] = {{0}};
    assert_done(disk_list(disk_fake_disk(n->fake), visit_name, names, &problem));
    uint64_t named = 0, harmless = 0;
    for (size_t i = 0; names[i][0] != '\0'; i++) {
        uint64_t size;
        assert_non_null(disk_fake_file(n->fake, names[i], &size));
        for (uint64_t at = 0; at < size; at += 23) {
            struct node *copy = node_copy(n, at);
            disk_fake_flip(copy->fake, names[i], at, (unsigned)(at % 8));
            enum storage_status status = node_open(copy, &problem);
            if (status == STORAGE_OK && snapshots_newest(copy->store.snapshots) != NULL)
                status = snapshots_verify_newest(copy->store.snapshots, &problem);
            if (status == STORAGE_OK) {
                if (!facts_match(copy, &copy->now))
                    fail_msg("a flip at %llu of %s was loaded", (unsigned long long)at, names[i]);
                harmless++;
            } else {
                if (status != STORAGE_CORRUPT || strstr(problem.text, names[i]) == NULL)
                    fail_msg("a flip at %llu of %s gives \"%s\"", (unsigned long long)at, names[i],
                             problem.text);
                named++;
            }
            node_free(copy);
        }
    }
    printf("           %llu flips named, %llu harmless\n", (unsigned long long)named,
           (unsigned long long)harmless);
    node_free(n);
}

/* ---- for real ---- */

static void remove_name(void *ctx, const char *name)
{
    struct problem problem;
    disk_unlink(ctx, name, &problem);
}

static void a_folder_of_the_machine_belongs_to_one_process(void **state)
{
    (void)state;
    struct problem problem;
    char path[] = "/tmp/holdfast-test-XXXXXX";
    assert_non_null(mkdtemp(path));
    char folder[64];
    snprintf(folder, sizeof(folder), "%s/node", path);
    struct disk *disk;
    assert_done(disk_posix_new(folder, &disk, &problem));
    struct store store;
    assert_done(store_open(&store, disk, &options, &problem));
    assert_done(meta_save_vote(&store.meta, 1, 3, &problem));
    struct log_entry entry = {.term = 1, .type = 1, .data = slice_of("hello")};
    for (uint64_t index = 1; index <= 500; index++)
        assert_done(log_append(store.log, index, &entry, 1, &problem));
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct disk *same;
        struct store second;
        char pid[32];
        snprintf(pid, sizeof(pid), "(pid %ld)", (long)getppid());
        bool refused = disk_posix_new(folder, &same, &problem) == STORAGE_OK &&
                       store_open(&second, same, &options, &problem) == STORAGE_LOCKED &&
                       strstr(problem.text, pid) != NULL && strstr(problem.text, folder) != NULL;
        _exit(refused ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    store_close(&store);
    assert_done(store_open(&store, disk, &options, &problem));
    assert_int_equal(log_last(store.log), 500);
    assert_int_equal(store.meta.state.vote, 3);
    uint64_t room;
    assert_done(disk_room(disk, &room, &problem));
    assert_true(room > 0);
    store_close(&store);
    assert_done(disk_list(disk, remove_name, disk, &problem));
    disk_posix_free(disk);
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(rmdir(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_crash_point_of_a_node_leaves_what_was_acknowledged),
        cmocka_unit_test(many_lives_lose_and_invent_nothing),
        cmocka_unit_test(a_new_folder_gets_its_identity_and_keeps_it),
        cmocka_unit_test(parts_that_are_gone_are_named),
        cmocka_unit_test(an_older_copy_of_the_meta_file_is_named),
        cmocka_unit_test(a_log_that_the_snapshot_has_overtaken_starts_anew),
        cmocka_unit_test(a_flipped_bit_in_any_file_is_named_or_harmless),
        cmocka_unit_test(a_folder_of_the_machine_belongs_to_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
