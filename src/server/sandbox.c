/* The list of system calls by libseccomp. Names that the architecture or the library does not know
 * are left out. Arguments are restricted where a call has uses that a node never needs. */
#include "server/sandbox.h"

#include <errno.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1 /* si_code of a refused call; not in glibc's headers of Debian 12 */
#endif

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* glibc names its memory with it */
#endif

/* clang-format off */
static const char *const allowed[] = {
    /* files: the log, snapshots, certificates, settings, the names of hosts */
    "open", "openat", "openat2", "close", "close_range", "read", "readv", "pread64", "preadv", "preadv2",
    "write", "writev", "pwrite64", "pwritev", "pwritev2", "lseek", "stat", "lstat", "fstat", "fstat64",
    "newfstatat", "fstatat64", "statx", "statfs", "fstatfs", "access", "faccessat", "faccessat2",
    "readlink", "readlinkat", "getdents64", "getcwd", "rename", "renameat", "renameat2", "unlink",
    "unlinkat", "mkdir", "mkdirat", "rmdir", "link", "linkat", "chmod", "fchmod", "fchmodat", "umask",
    "ftruncate", "fallocate", "fsync", "fdatasync", "sync_file_range", "fadvise64", "flock", "fcntl",
    "dup", "dup2", "dup3", "pipe", "pipe2", "sendfile",
    /* the log by kernel AIO (decision 19) */
    "io_setup", "io_submit", "io_getevents", "io_pgetevents", "io_cancel", "io_destroy",
    /* the event loop; inotify for changed certificates */
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_wait", "epoll_pwait", "epoll_pwait2", "poll",
    "ppoll", "select", "pselect6", "eventfd", "eventfd2", "timerfd_create", "timerfd_settime",
    "timerfd_gettime", "inotify_init", "inotify_init1", "inotify_add_watch", "inotify_rm_watch",
    /* sockets; `socket` itself is below */
    "socketpair", "bind", "listen", "accept", "accept4", "connect", "getsockname", "getpeername",
    "getsockopt", "setsockopt", "shutdown", "sendto", "recvfrom", "sendmsg", "recvmsg", "sendmmsg",
    "recvmmsg",
    /* memory; mmap and mprotect are below */
    "brk", "munmap", "mremap", "madvise", "mlock", "mlock2", "munlock", "msync", "mincore", "membarrier",
    /* threads, and the child that writes a snapshot; `clone` is below */
    "fork", "vfork", "wait4", "waitid", "exit", "exit_group", "kill", "tgkill", "tkill", "futex",
    "futex_waitv", "set_robust_list", "get_robust_list", "set_tid_address", "rseq", "sched_yield",
    "sched_getaffinity", "sched_getparam", "sched_getscheduler", "getcpu", "arch_prctl",
    "getpriority", "setpriority",
    /* signals */
    "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "rt_sigpending", "rt_sigsuspend",
    "rt_sigtimedwait", "sigaltstack", "restart_syscall", "pause",
    /* time, limits, who we are */
    "clock_gettime", "clock_getres", "clock_nanosleep", "nanosleep", "gettimeofday", "time",
    "getrlimit", "setrlimit", "prlimit64", "getrusage", "sysinfo", "uname", "times", "getrandom",
    "getpid", "getppid", "gettid", "getpgrp", "getpgid", "getsid", "getuid", "geteuid", "getgid",
    "getegid", "getresuid", "getresgid", "getgroups", "capget",
};

static const char *const fatal[] = {"execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev"};

struct restricted_call {
    const char *name;
    struct scmp_arg_cmp condition;
};

#define IS(argument, value) {(argument), SCMP_CMP_EQ, (value), 0}
#define MASKED(argument, mask, value) {(argument), SCMP_CMP_MASKED_EQ, (mask), (value)}
#define NAMESPACES (CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET)

/* A call is allowed if one of its rows applies. */
static const struct restricted_call restricted[] = {
    {"socket", IS(0, AF_UNIX)}, /* nscd, resolved, a Redis on this machine */
    {"socket", IS(0, AF_INET)},
    {"socket", IS(0, AF_INET6)},
    {"socket", IS(0, AF_NETLINK)}, /* getaddrinfo reads the addresses of the machine */
    {"clone", MASKED(0, NAMESPACES, 0)},
    /* Never writable and executable. Modules that find names of hosts are loaded late, so executable
     * it may be. */
    {"mmap", MASKED(2, PROT_EXEC, 0)},
    {"mmap", MASKED(2, PROT_EXEC | PROT_WRITE, PROT_EXEC)},
    {"mprotect", MASKED(2, PROT_EXEC, 0)},
    {"prctl", IS(0, PR_SET_PDEATHSIG)},
    {"prctl", IS(0, PR_SET_NAME)},
    {"prctl", IS(0, PR_GET_NAME)},
    {"prctl", IS(0, PR_SET_VMA)},
    {"prctl", IS(0, PR_GET_DUMPABLE)},
    {"ioctl", IS(1, FIONBIO)},
    {"ioctl", IS(1, FIOCLEX)},
    {"ioctl", IS(1, FIONREAD)},
    {"ioctl", IS(1, TCGETS)},
    {"ioctl", IS(1, TIOCGWINSZ)},
};
/* clang-format on */

bool sandbox_is_built(void)
{
#if defined(__SANITIZE_ADDRESS__)
    return false;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
    return false;
#else
    return true;
#endif
#else
    return true;
#endif
}

void sandbox_prepare(void)
{
    struct rlimit core;
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (sandbox_is_built() && getrlimit(RLIMIT_CORE, &core) == 0 && core.rlim_cur == 0) {
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
}

static int add_rule(scmp_filter_ctx filter, uint32_t action, const char *name,
                    const struct scmp_arg_cmp *condition)
{
    int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR) {
        return 0;
    }
    int result =
        seccomp_rule_add_array(filter, action, number, condition != NULL ? 1 : 0, condition);
    /* EACCES: the action is the default one. */
    return result == -EACCES ? 0 : result;
}

static int add_rules(scmp_filter_ctx filter)
{
    int result = 0;
    for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]) && result == 0; i++) {
        result = add_rule(filter, SCMP_ACT_ALLOW, allowed[i], NULL);
    }
    for (size_t i = 0; i < sizeof(restricted) / sizeof(restricted[0]) && result == 0; i++) {
        result = add_rule(filter, SCMP_ACT_ALLOW, restricted[i].name, &restricted[i].condition);
    }
    for (size_t i = 0; i < sizeof(fatal) / sizeof(fatal[0]) && result == 0; i++) {
        result = add_rule(filter, SCMP_ACT_KILL_PROCESS, fatal[i], NULL);
    }
    /* Its flags are in memory, where a filter does not see them. The C library uses clone then. */
    return result == 0 ? add_rule(filter, SCMP_ACT_ERRNO(ENOSYS), "clone3", NULL) : result;
}

static int load(scmp_filter_ctx filter)
{
    int result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (result == 0) {
        result = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a tree, not a list */
    }
    if (result == 0) {
        result = add_rules(filter);
    }
    return result == 0 ? seccomp_load(filter) : result;
}

/* By number. Shared with children, because the one that writes a snapshot has no log. */
enum { REFUSED_MAX = 1024, REFUSED_NEVER = 0, REFUSED_NEW, REFUSED_REPORTED };

static struct {
    _Atomic uint8_t *calls; /* REFUSED_MAX of them */
    void (*on_refused)(void *ctx);
    void *ctx;
} refused;

static void set_result(ucontext_t *context, int result)
{
#if defined(__x86_64__)
    context->uc_mcontext.gregs[REG_RAX] = result;
#elif defined(__aarch64__)
    context->uc_mcontext.regs[0] = (unsigned long long)(long long)result;
#else
#error "set the result of a system call in a signal handler"
#endif
}

/* The kernel did not make the call; what the handler leaves in the register is its result. */
static void on_bad_call(int number, siginfo_t *info, void *context)
{
    if (info->si_code != SYS_SECCOMP) { /* `kill -SYS` by somebody */
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    uint32_t call = (uint32_t)info->si_syscall;
    uint8_t expected = REFUSED_NEVER;
    set_result(context, -ENOSYS);
    if (call < REFUSED_MAX &&
        atomic_compare_exchange_strong(&refused.calls[call], &expected, REFUSED_NEW) &&
        refused.on_refused != NULL) {
        refused.on_refused(refused.ctx);
    }
}

bool sandbox_next_refused(char name[SANDBOX_NAME])
{
    for (uint32_t i = 0; i < REFUSED_MAX && refused.calls != NULL; i++) {
        if (atomic_load(&refused.calls[i]) == REFUSED_NEW) {
            atomic_store(&refused.calls[i], REFUSED_REPORTED);
            char *known = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, (int)i);
            if (known != NULL) {
                snprintf(name, SANDBOX_NAME, "%s", known);
            } else {
                snprintf(name, SANDBOX_NAME, "%u", i);
            }
            free(known);
            return true;
        }
    }
    return false;
}

static int catch_bad_calls(void)
{
    struct sigaction action = {.sa_sigaction = on_bad_call, .sa_flags = SA_SIGINFO | SA_RESTART};
    void *calls =
        mmap(NULL, REFUSED_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (calls == MAP_FAILED || sigaction(SIGSYS, &action, NULL) != 0) {
        return -errno;
    }
    refused.calls = calls;
    return 0;
}

bool sandbox_enter(void (*on_refused)(void *ctx), void *ctx, char problem[SANDBOX_PROBLEM])
{
    if (!sandbox_is_built()) {
        return true;
    }
    refused.on_refused = on_refused;
    refused.ctx = ctx;
    int result = catch_bad_calls();
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_TRAP);
    if (result == 0) {
        result = filter == NULL ? -ENOMEM : load(filter);
    }
    if (filter != NULL) {
        seccomp_release(filter);
    }
    if (result != 0) {
        snprintf(problem, SANDBOX_PROBLEM,
                 "the kernel does not accept the list of system calls: %s; `sandbox = off` starts "
                 "the node without it",
                 strerror(-result));
    }
    return result == 0;
}
