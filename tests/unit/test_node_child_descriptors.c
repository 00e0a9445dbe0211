/* What a forked child closes, on kernels with close_range(2) and without, with /proc and without.
 * Each case is a child of the test's, for which a filter (seccomp(2)) forbids what is to be
 * missing.
 */
#include "base_testing.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/snapshot/child_descriptors.h"

enum { NOT_FILTERED = 90, STILL_OPEN = 91, NOT_KEPT = 92 };

/* Lets these two calls fail from now on; a number that no call has is for one only. */
static bool forbid(int first, int second, int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)first, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)second, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

static int child(int keep, int first, int second, int error)
{
    struct rlimit limit = {1024, 1024};
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (dup2(0, keep) != keep)
        return NOT_KEPT;
    for (int i = 0; i < 600; i += 7) /* more than one listing holds */
        (void)fcntl(0, F_DUPFD, i);
    (void)dup2(0, 1023);
    if (first >= 0 && !forbid(first, second, error))
        return NOT_FILTERED;
    child_descriptors_close(keep);
    for (int i = 0; i < 1024; i++)
        if (i != keep && fcntl(i, F_GETFD) >= 0)
            return STILL_OPEN;
    return fcntl(keep, F_GETFD) >= 0 ? 0 : NOT_KEPT;
}

static void assert_closed(int keep, int first, int second, int error)
{
    int status;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(child(keep, first, second, error));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void all_but_one_are_closed(void **state)
{
    (void)state;
    assert_closed(7, -1, -1, 0);
    assert_closed(500, -1, -1, 0);
}

static void they_are_closed_by_a_kernel_without_close_range(void **state)
{
    (void)state;
    assert_closed(7, SYS_close_range, SYS_close_range, ENOSYS);
    assert_closed(700, SYS_close_range, SYS_close_range, EPERM);
}

static void they_are_closed_where_descriptors_cannot_be_listed_either(void **state)
{
    (void)state;
    assert_closed(7, SYS_close_range, SYS_openat, EPERM);
    assert_closed(1023, SYS_close_range, SYS_getdents64, EPERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_but_one_are_closed),
        cmocka_unit_test(they_are_closed_by_a_kernel_without_close_range),
        cmocka_unit_test(they_are_closed_where_descriptors_cannot_be_listed_either),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
