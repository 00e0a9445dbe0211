/* Tests of the memory that a process may use: limits of control groups. */
#include "base_testing.h"

#include <sys/stat.h>

#include "server/usable_memory.h"
#include "temporary.h"

#define MIB (UINT64_C(1) << 20)

static const char *root;

static void write_file(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void make_folder(const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    assert_int_equal(mkdir(path, 0700), 0);
}

static uint64_t limit_of(const char *membership)
{
    char path[512];
    write_file("membership", membership);
    snprintf(path, sizeof(path), "%s/membership", root);
    return cgroup_memory(path, root);
}

static void the_smallest_limit_on_the_way_up_counts(void **state)
{
    (void)state;
    make_folder("slice");
    make_folder("slice/unit");
    write_file("slice/memory.max", "268435456\n");
    write_file("slice/unit/memory.max", "max\n");
    assert_true(limit_of("0::/slice/unit\n") == 256 * MIB);
    assert_true(limit_of("12:memory:/other\n0::/slice\n") == 256 * MIB);
    write_file("slice/unit/memory.max", "1048576\n");
    assert_true(limit_of("0::/slice/unit\n") == MIB);
    assert_true(limit_of("0::/\n") == UINT64_MAX);
    write_file("memory.max", "524288\n");
    assert_true(limit_of("0::/slice/unit\n") == MIB / 2);
}

static void without_a_limit_the_machine_counts(void **state)
{
    (void)state;
    assert_true(limit_of("3:memory:/only/v1\n") == UINT64_MAX);
    assert_true(cgroup_memory("/does/not/exist", root) == UINT64_MAX);
    uint64_t machine = usable_memory("/does/not/exist", root);
    assert_true(machine > MIB && machine < UINT64_MAX);
    write_file("memory.max", "1048576\n");
    char path[512];
    write_file("membership", "0::/\n");
    snprintf(path, sizeof(path), "%s/membership", root);
    assert_true(usable_memory(path, root) == MIB);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_smallest_limit_on_the_way_up_counts),
        cmocka_unit_test(without_a_limit_the_machine_counts),
    };
    root = temporary_folder(NULL);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    temporary_remove(root);
    return failed;
}
