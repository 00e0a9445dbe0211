/* The guard process: messages of the wrapper, death of children, the deadline. guard.h has the
 * states. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
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

enum guard_state { IDLE, RUNNING, ENDING, KILLING };

enum {
    KILL_AGAIN_MS = 20, /* descendants become our children generation by generation */
    UNDEAD_MS = 10000,  /* a process that survives KILL so long hangs in the kernel: report it */
};

struct guarding {
    const struct guard_plan *plan;
    enum guard_state state;
    struct guard_shared *shared;
    int wrapper; /* socket; -1: gone */
    int standby; /* readable if gone; -1: handled */
    int signals;
    int timer;
    pid_t child;
    int64_t deadline_ms;
    int64_t kill_ms;    /* ENDING: time of KILL */
    int64_t give_up_ms; /* KILLING */
};

static void report(const struct guarding *g, enum guard_word word, int value, int64_t pid)
{
    struct guard_message message = {.word = (int32_t)word, .value = value, .pid = pid};
    if (g->wrapper >= 0) {
        (void)!send(g->wrapper, &message, sizeof(message), MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

static int64_t term_at_ms(const struct guarding *g)
{
    return g->deadline_ms - g->plan->term_ms - g->plan->kill_ms;
}

static void set_timer(const struct guarding *g)
{
    int64_t at_ms = 0;
    switch (g->state) {
    case IDLE:
        break;
    case RUNNING:
        at_ms = term_at_ms(g);
        break;
    case ENDING:
        at_ms = g->kill_ms;
        break;
    case KILLING:
        at_ms = clock_boot_ms() + KILL_AGAIN_MS;
        break;
    }
    /* Zero would disarm the timer; the past fires at once. */
    at_ms = g->state != IDLE && at_ms < 1 ? 1 : at_ms;
    struct itimerspec when = {.it_value = {at_ms / 1000, at_ms % 1000 * 1000000}};
    hf_assert(timerfd_settime(g->timer, TFD_TIMER_ABSTIME, &when, NULL) == 0);
}

static _Noreturn void finish(const struct guarding *g, int status, pid_t undead)
{
    guard_cgroup_remove(g->plan->cgroup);
    report(g, GUARD_EXITED, status, undead);
    _exit(0);
}

static int reap(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

static void begin_ending(struct guarding *g, int64_t latest_ms)
{
    if (g->state != RUNNING) {
        return;
    }
    int64_t kill_ms = clock_boot_ms() + g->plan->term_ms;
    g->state = ENDING;
    g->kill_ms = kill_ms < latest_ms ? kill_ms : latest_ms;
    (void)kill(-g->child, SIGTERM);
    (void)kill(-g->child, SIGCONT);
}

static void begin_killing(struct guarding *g)
{
    g->state = KILLING;
    g->give_up_ms = clock_boot_ms() + UNDEAD_MS;
}

/* Sends KILL until all are dead or UNDEAD_MS have passed. */
static void continue_killing(struct guarding *g)
{
    pid_t alive = guard_child_kill_all(g->child, g->plan->cgroup);
    if (alive == 0) {
        finish(g, reap(g->child), 0);
    }
    if (clock_boot_ms() >= g->give_up_ms) {
        finish(g, SIGKILL, alive);
    }
}

static void start(struct guarding *g, const struct guard_message *m)
{
    g->child = guard_child_start(g->plan, g->shared, m->token, m->value == 1);
    if (g->child < 0) {
        report(g, GUARD_NOT_RUN, errno, 0);
        _exit(0);
    }
    g->deadline_ms = m->deadline_ms;
    g->state = RUNNING;
    report(g, GUARD_STARTED, 0, g->child);
}

static void on_message(struct guarding *g, const struct guard_message *m)
{
    switch (m->word) {
    case GUARD_START:
        if (g->state == IDLE) {
            start(g, m);
        }
        break;
    case GUARD_DEADLINE:
        g->deadline_ms = m->deadline_ms;
        break;
    case GUARD_STOP:
        begin_ending(g, INT64_MAX);
        break;
    case GUARD_SIGNAL:
        if (g->state == RUNNING || g->state == ENDING) {
            (void)kill(-g->child, m->value);
        }
        break;
    case GUARD_RESUME:
        if (g->state == RUNNING) {
            if (m->value == 1 && g->plan->terminal >= 0) {
                (void)tcsetpgrp(g->plan->terminal, g->child);
            }
            (void)kill(-g->child, SIGCONT);
        }
        break;
    default:
        break;
    }
}

/* All messages, and the end of the wrapper. */
static void on_wrapper(struct guarding *g)
{
    struct guard_message message;
    ssize_t got;
    do {
        got = recv(g->wrapper, &message, sizeof(message), MSG_DONTWAIT);
        if (got == (ssize_t)sizeof(message)) {
            on_message(g, &message);
        }
    } while (got == (ssize_t)sizeof(message) || (got < 0 && errno == EINTR));
    if (got < 0 && errno == EAGAIN) {
        return;
    }
    if (g->state == IDLE) {
        _exit(0);
    }
    /* The lock is not renewed any more; it is held until the deadline. */
    (void)close(g->wrapper);
    g->wrapper = -1;
    begin_ending(g, g->deadline_ms - g->plan->kill_ms);
}

/* Without a standby, descendants that left the command would survive the guard's death: end the
 * command. */
static void on_standby(struct guarding *g)
{
    (void)close(g->standby);
    g->standby = -1;
    if (g->state == RUNNING) {
        begin_ending(g, g->deadline_ms - g->plan->kill_ms);
        report(g, GUARD_ENDING, 1, 0);
    }
}

/* One change of state of the command; false: none. */
static bool check_child(struct guarding *g)
{
    siginfo_t info = {.si_pid = 0};
    if (waitid(P_PID, (id_t)g->child, &info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT) != 0 ||
        info.si_pid != g->child) {
        return false;
    }
    if (info.si_code == CLD_STOPPED) {
        /* Consume the state: it is reported once. */
        (void)waitid(P_PID, (id_t)g->child, &info, WSTOPPED | WNOHANG);
        report(g, GUARD_PAUSED, info.si_status, 0);
        return true;
    }
    if (g->state == RUNNING) {
        /* It ended by itself: its background processes may continue. */
        finish(g, reap(g->child), 0);
    }
    if (g->state == ENDING) {
        begin_killing(g); /* descendants must not survive it */
    }
    return false;
}

/* The command ended or stopped, or an orphan ended. */
static void on_children(struct guarding *g)
{
    struct signalfd_siginfo ignored;
    while (read(g->signals, &ignored, sizeof(ignored)) > 0) {
    }
    while (g->state != IDLE && check_child(g)) {
    }
    if (g->state == KILLING) {
        continue_killing(g);
    }
}

static void on_timer(struct guarding *g)
{
    uint64_t ignored;
    (void)!read(g->timer, &ignored, sizeof(ignored));
    if (g->state == RUNNING && clock_boot_ms() >= term_at_ms(g)) {
        begin_ending(g, g->deadline_ms - g->plan->kill_ms);
        report(g, GUARD_ENDING, 0, 0);
    } else if (g->state == ENDING && clock_boot_ms() >= g->kill_ms) {
        begin_killing(g);
    }
    if (g->state == KILLING) {
        continue_killing(g);
    }
}

static void prepare(struct guarding *g)
{
    sigset_t all, children;
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_NAME, "holdfast-guard");
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    (void)sigemptyset(&children);
    (void)sigaddset(&children, SIGCHLD);
    (void)signal(SIGCHLD, SIG_DFL); /* an inherited SIG_IGN would reap the child */
    g->signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    g->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    hf_assert(g->signals >= 0 && g->timer >= 0);
}

_Noreturn void guard_main(int fd, int standby, struct guard_shared *shared,
                          const struct guard_plan *plan)
{
    struct guarding g = {.plan = plan, .shared = shared, .wrapper = fd, .standby = standby};
    prepare(&g);
    for (;;) {
        set_timer(&g);
        struct pollfd fds[] = {{g.signals, POLLIN, 0},
                               {g.timer, POLLIN, 0},
                               {g.wrapper, POLLIN, 0},
                               {g.standby, POLLIN, 0}};
        if (poll(fds, 4, -1) < 0) {
            continue;
        }
        /* Messages first: a later deadline takes effect before the timer. */
        if (g.wrapper >= 0 && fds[2].revents != 0) {
            on_wrapper(&g);
        }
        if (g.standby >= 0 && fds[3].revents != 0) {
            on_standby(&g);
        }
        if (fds[0].revents != 0) {
            on_children(&g);
        }
        if (fds[1].revents != 0) {
            on_timer(&g);
        }
    }
}
