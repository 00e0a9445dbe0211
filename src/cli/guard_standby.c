/* The standby: the parent of the guard, ends the command if the guard cannot. See guard.h.
 *
 *     WAITING ──the guard exited──▶ gone
 *        │
 *        │ the guard was killed, possibly by the standby because it missed the deadline
 *        ▼
 *     KILLING ──all are dead, or one hangs in the kernel──▶ sends REPLACED, gone */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/panic.h"
#include "cli/guard_cgroup.h"
#include "cli/guard_child.h"
#include "transport/clock.h"

enum {
    KILL_AGAIN_MS = 20, /* as in guard_main.c */
    UNDEAD_MS = 10000,
};

struct standby {
    const struct guard_plan *plan;
    struct guard_shared *shared;
    int wrapper; /* the guard's socket */
    int wake;
    int signals;
    int timer;
    pid_t guard;
    bool has_missed; /* the guard missed the deadline */
    bool is_killing;
    int64_t give_up_ms;
};

/* When the standby kills what the guard has not ended. */
static int64_t act_at_ms(const struct standby *s)
{
    return atomic_load(&s->shared->deadline_ms) - s->plan->kill_ms / 2;
}

static bool has_started(const struct standby *s)
{
    return atomic_load(&s->shared->deadline_ms) != 0;
}

static void set_timer(const struct standby *s)
{
    int64_t at_ms = 0;
    if (s->is_killing) {
        at_ms = clock_boot_ms() + KILL_AGAIN_MS;
    } else if (has_started(s)) {
        at_ms = act_at_ms(s) > 0 ? act_at_ms(s) : 1; /* zero would disarm it */
    }
    struct itimerspec when = {.it_value = {at_ms / 1000, at_ms % 1000 * 1000000}};
    hf_assert(timerfd_settime(s->timer, TFD_TIMER_ABSTIME, &when, NULL) == 0);
}

static _Noreturn void leave(const struct standby *s)
{
    guard_cgroup_remove(s->plan->cgroup);
    _exit(0);
}

static void continue_killing(const struct standby *s)
{
    pid_t alive = guard_child_kill_all(atomic_load(&s->shared->child), s->plan->cgroup);
    if (alive == 0 || clock_boot_ms() >= s->give_up_ms) {
        struct guard_message message = {
            .word = GUARD_REPLACED, .value = s->has_missed ? 1 : 0, .pid = alive};
        (void)!send(s->wrapper, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
        leave(s);
    }
}

/* Children of a dead guard are the standby's. */
static void check_guard(struct standby *s)
{
    int status = 0;
    if (s->is_killing || waitpid(s->guard, &status, WNOHANG) != s->guard) {
        return;
    }
    if (WIFEXITED(status)) {
        leave(s); /* the guard has ended the command, or had none, and reported it */
    }
    s->is_killing = true;
    s->give_up_ms = clock_boot_ms() + UNDEAD_MS;
}

static void on_timer(struct standby *s)
{
    uint64_t ignored;
    (void)!read(s->timer, &ignored, sizeof(ignored));
    if (!s->is_killing && has_started(s) && clock_boot_ms() >= act_at_ms(s)) {
        /* The guard is stopped or hangs. Its death makes its children ours. */
        s->has_missed = true;
        guard_cgroup_kill(s->plan->cgroup);
        (void)kill(s->guard, SIGKILL);
    }
}

static void prepare(struct standby *s)
{
    sigset_t all, children;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_NAME, "hf-standby"); /* not found by `pkill holdfast` */
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)sigemptyset(&children);
    (void)sigaddset(&children, SIGCHLD);
    (void)signal(SIGCHLD, SIG_DFL);
    s->signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    s->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    hf_assert(s->signals >= 0 && s->timer >= 0);
}

static void start_guard(struct standby *s)
{
    int alive[2];
    hf_assert(pipe2(alive, O_CLOEXEC) == 0);
    s->guard = fork();
    if (s->guard == 0) {
        (void)close(alive[1]);
        guard_main(s->wrapper, alive[0], s->shared, s->plan);
    }
    (void)close(alive[0]); /* the other end is open until the standby ends */
    if (s->guard < 0) {
        _exit(0); /* the wrapper finds the socket closed */
    }
    atomic_store(&s->shared->guard, s->guard);
}

_Noreturn void guard_standby(int fd, int wake, struct guard_shared *shared,
                             const struct guard_plan *plan)
{
    struct standby s = {.plan = plan, .shared = shared, .wrapper = fd, .wake = wake};
    prepare(&s);
    start_guard(&s);
    for (;;) {
        set_timer(&s);
        struct pollfd fds[] = {{s.signals, POLLIN, 0}, {s.timer, POLLIN, 0}, {s.wake, POLLIN, 0}};
        if (poll(fds, 3, -1) < 0) {
            continue;
        }
        struct signalfd_siginfo info;
        uint64_t ignored;
        while (read(s.signals, &info, sizeof(info)) > 0) {
        }
        (void)!read(s.wake, &ignored, sizeof(ignored));
        check_guard(&s);
        if (fds[1].revents != 0) {
            on_timer(&s);
        }
        if (s.is_killing) {
            continue_killing(&s);
        }
    }
}
