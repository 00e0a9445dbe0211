/* Tests of the folder as a whole: who may open it, and whether its parts fit together. Crashes are
 * in test_storage_store_crash.c. */
#include "storage_node.h"

#include "storage/disk_posix.h"
#include "temporary.h"

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

static void a_folder_of_the_machine_belongs_to_one_process(void **state)
{
    (void)state;
    struct problem problem;
    const char *path = temporary_folder(NULL);
    char folder[320];
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
    uint64_t space;
    assert_done(disk_space(disk, &space, &problem));
    assert_true(space > 0);
    store_close(&store);
    disk_posix_free(disk);
    temporary_remove(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_folder_gets_its_identity_and_keeps_it),
        cmocka_unit_test(parts_that_are_gone_are_named),
        cmocka_unit_test(an_older_copy_of_the_meta_file_is_named),
        cmocka_unit_test(a_log_that_the_snapshot_has_overtaken_starts_anew),
        cmocka_unit_test(a_flipped_bit_in_any_file_is_named_or_harmless),
        cmocka_unit_test(a_folder_of_the_machine_belongs_to_one_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
