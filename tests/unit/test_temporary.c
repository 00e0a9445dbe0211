/* The folders that the other tests work in (tests/support/temporary.h) are gone afterwards, also
 * when a test failed. */
#include "base_testing.h"

#include <sys/stat.h>

#include "temporary.h"

static bool exists(const char *path)
{
    struct stat stat_buffer;
    return stat(path, &stat_buffer) == 0;
}

static void fill(const char *folder)
{
    char path[320];
    snprintf(path, sizeof(path), "%s/inner", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/inner/file", folder);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

static void a_folder_is_removed_with_all_in_it(void **state)
{
    (void)state;
    const char *one = temporary_folder(NULL);
    const char *two = temporary_folder(one);
    char kept[320];
    snprintf(kept, sizeof(kept), "%s", one);
    assert_int_equal(strncmp(two, one, strlen(one)), 0);
    fill(two);
    temporary_remove(two);
    assert_true(exists(one));
    fill(one);
    temporary_remove(one);
    assert_false(exists(kept));
}

/* A program that ends in the middle of its test, and a child that has nothing to do with it. */
static void what_is_left_goes_with_the_process_that_made_it(void **state)
{
    (void)state;
    const char *ours = temporary_folder(NULL);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        const char *left = temporary_folder(NULL);
        fill(left);
        bool is_sent = write(ends[1], left, strlen(left) + 1) > 0;
        exit(is_sent && exists(left) ? 0 : 1);
    }
    close(ends[1]);
    char left[320] = "";
    assert_true(read(ends[0], left, sizeof(left)) > 0);
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_false(exists(left));
    assert_true(exists(ours));
    temporary_remove(ours);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_is_removed_with_all_in_it),
        cmocka_unit_test(what_is_left_goes_with_the_process_that_made_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
