/* The list of system calls: what a node does works behind it, what it never does fails or ends it.
 * Each case is a child process, because the list cannot be left. */
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/sandbox.h"

enum { FINE = 0, NOT_ENTERED = 90, WRONG = 91 };

static volatile sig_atomic_t refused_count;

static void count_refused(void *ctx)
{
    (void)ctx;
    refused_count = refused_count + 1;
}

/* The wait status of a child that enters the list and then does `what`. */
static int in_sandbox(int (*what)(void))
{
    pid_t pid = fork();
    if (pid == 0) {
        char problem[SANDBOX_PROBLEM];
        sandbox_prepare();
        if (!sandbox_enter(count_refused, NULL, problem)) {
            fprintf(stderr, "%s\n", problem);
            _exit(NOT_ENTERED);
        }
        _exit(what());
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void assert_exits(int status, int code)
{
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

static void assert_killed(int status)
{
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSYS);
}

static int execute(void)
{
    char *const arguments[] = {(char[]){"true"}, NULL};
    execv("/bin/true", arguments);
    return WRONG;
}

static int execute_by_descriptor(void)
{
    char *const none[] = {NULL};
    syscall(SYS_execveat, -1, "/bin/true", none, none, 0);
    return WRONG;
}

static int trace(void)
{
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    return WRONG;
}

/* Not on the list, and refused for the lack of arguments where it is made. */
static int unknown_call(void)
{
    return syscall(SYS_add_key, NULL, NULL, NULL, 0, 0) == -1 ? errno : FINE;
}

static void executing_and_tracing_end_the_process(void **state)
{
    (void)state;
    assert_killed(in_sandbox(execute));
    assert_killed(in_sandbox(execute_by_descriptor));
    assert_killed(in_sandbox(trace));
}

static void an_unknown_call_fails_with_enosys(void **state)
{
    (void)state;
    assert_exits(in_sandbox(unknown_call), ENOSYS);
}

static int report_each_call_once(void)
{
    char name[SANDBOX_NAME];
    if (sandbox_next_refused(name) || unknown_call() != ENOSYS || unknown_call() != ENOSYS ||
        refused_count != 1 || !sandbox_next_refused(name) || strcmp(name, "add_key") != 0) {
        return WRONG;
    }
    if (sandbox_next_refused(name) || unknown_call() != ENOSYS || sandbox_next_refused(name)) {
        return WRONG;
    }
    return syscall(SYS_swapoff, NULL) == -1 && errno == ENOSYS && sandbox_next_refused(name) &&
                   strcmp(name, "swapoff") == 0 && refused_count == 2
               ? FINE
               : WRONG;
}

static int report_the_call_of_a_child(void)
{
    char name[SANDBOX_NAME];
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(unknown_call());
    }
    return waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == ENOSYS &&
                   sandbox_next_refused(name) && strcmp(name, "add_key") == 0
               ? FINE
               : WRONG;
}

static int send_the_signal(void)
{
    kill(getpid(), SIGSYS);
    return WRONG;
}

static void refused_calls_are_reported_once_each(void **state)
{
    (void)state;
    assert_exits(in_sandbox(report_each_call_once), FINE);
    assert_exits(in_sandbox(report_the_call_of_a_child), FINE);
    assert_killed(in_sandbox(send_the_signal));
}

static int memory_is_never_writable_and_executable(void)
{
    int anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    void *both = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, anonymous, -1, 0);
    if (both != MAP_FAILED || errno != ENOSYS) {
        return WRONG;
    }
    void *data = mmap(NULL, 4096, PROT_READ | PROT_WRITE, anonymous, -1, 0);
    if (data == MAP_FAILED || mprotect(data, 4096, PROT_READ | PROT_EXEC) == 0 || errno != ENOSYS) {
        return WRONG;
    }
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, anonymous, -1, 0) == MAP_FAILED ? WRONG : FINE;
}

static int namespaces_and_other_protocols_are_refused(void)
{
    if (syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL) != -1 ||
        errno != ENOSYS) {
        return WRONG;
    }
    if (unshare(CLONE_NEWUSER) == 0 || errno != ENOSYS) {
        return WRONG;
    }
    return socket(AF_PACKET, SOCK_RAW, 0) != -1 || errno != ENOSYS ? WRONG : FINE;
}

static void arguments_are_restricted(void **state)
{
    (void)state;
    assert_exits(in_sandbox(memory_is_never_writable_and_executable), FINE);
    assert_exits(in_sandbox(namespaces_and_other_protocols_are_refused), FINE);
}

static void *do_nothing(void *argument)
{
    return argument;
}

static int resolve(void)
{
    struct addrinfo *found = NULL;
    int error = getaddrinfo("localhost", "80", NULL, &found);
    if (error == 0) {
        freeaddrinfo(found);
    }
    /* Without a resolver: any answer will do, as long as the process lives. */
    found = NULL;
    if (getaddrinfo("does-not-exist.invalid", "80", NULL, &found) == 0) {
        freeaddrinfo(found);
    }
    return error == 0 ? FINE : WRONG;
}

static int fork_a_child(void)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_NAME, "snapshot");
        (void)setpriority(PRIO_PROCESS, 0, 10);
        _exit(FINE);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : WRONG;
}

static int start_a_thread(void)
{
    pthread_t thread;
    return pthread_create(&thread, NULL, do_nothing, NULL) == 0 && pthread_join(thread, NULL) == 0
               ? FINE
               : WRONG;
}

static int abort_with_its_own_signal(void)
{
    abort();
}

static int without_refusal(int result)
{
    char name[SANDBOX_NAME];
    return result == FINE && sandbox_next_refused(name) ? WRONG : result;
}

static int resolve_on_the_list(void)
{
    return without_refusal(resolve());
}

static int fork_on_the_list(void)
{
    return without_refusal(fork_a_child());
}

static int thread_on_the_list(void)
{
    return without_refusal(start_a_thread());
}

static void what_a_node_does_is_on_the_list(void **state)
{
    (void)state;
    assert_exits(in_sandbox(resolve_on_the_list), FINE);
    assert_exits(in_sandbox(fork_on_the_list), FINE);
    assert_exits(in_sandbox(thread_on_the_list), FINE);
    int status = in_sandbox(abort_with_its_own_signal);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static int to_thread[2];
static int from_thread[2];

static void *call_later(void *argument)
{
    char byte;
    int result = read(to_thread[0], &byte, 1) == 1 ? unknown_call() : WRONG;
    ssize_t written = write(from_thread[1], &result, sizeof(result));
    (void)written;
    return argument;
}

static int call_in_the_thread(void)
{
    int result = WRONG;
    ssize_t written = write(to_thread[1], "x", 1);
    return written == 1 && read(from_thread[0], &result, sizeof(result)) == sizeof(result) ? result
                                                                                           : WRONG;
}

static void threads_that_run_already_are_in_it(void **state)
{
    (void)state;
    assert_int_equal(pipe(to_thread), 0);
    assert_int_equal(pipe(from_thread), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char problem[SANDBOX_PROBLEM];
        pthread_t thread;
        sandbox_prepare();
        if (pthread_create(&thread, NULL, call_later, NULL) != 0 ||
            !sandbox_enter(count_refused, NULL, problem)) {
            _exit(NOT_ENTERED);
        }
        _exit(call_in_the_thread());
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_exits(status, ENOSYS);
}

static int is_dumpable(void)
{
    return prctl(PR_GET_DUMPABLE) == 1 ? 1 : 0;
}

static void core_files_follow_the_limit_of_the_process(void **state)
{
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_CORE, &before), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_CORE, &none), 0);
    assert_exits(in_sandbox(is_dumpable), 0);
    if (before.rlim_max > 0) {
        struct rlimit all = {.rlim_cur = before.rlim_max, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_CORE, &all), 0);
        assert_exits(in_sandbox(is_dumpable), 1);
    }
    assert_int_equal(setrlimit(RLIMIT_CORE, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(executing_and_tracing_end_the_process),
        cmocka_unit_test(an_unknown_call_fails_with_enosys),
        cmocka_unit_test(refused_calls_are_reported_once_each),
        cmocka_unit_test(arguments_are_restricted),
        cmocka_unit_test(what_a_node_does_is_on_the_list),
        cmocka_unit_test(threads_that_run_already_are_in_it),
        cmocka_unit_test(core_files_follow_the_limit_of_the_process),
    };
    if (!sandbox_is_built()) {
        printf("a build with sanitizers has no list of system calls\n");
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
