/* Waits for the lock, then for the command (wrap.h): sends deadlines to the guard, forwards
 * signals, handles job control. Only the guard ensures that the command is dead in time. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/exits.h"
#include "cli/guard_child.h"
#include "cli/members.h"
#include "cli/say.h"
#include "cli/wrap.h"
#include "transport/clock.h"

enum {
    CLIENT_FDS = 16,
    LOOK_PARTS = 20, /* confirmations to the guard every TTL / 20, at least every LOOK_MAX_MS */
    LOOK_MAX_MS = 1000,
    UNDEAD_MS = 10000,
    MARGIN_PARTS = 10,  /* the lock is kept for TTL / 10 after the guard was killed */
    ELECTION_MS = 1000, /* longer than an election */
    STATE_MS = 1000,    /* timeout of query_state */
};

static void send_to_guard(const struct wrap *w, enum guard_word word, int value,
                          int64_t deadline_ms)
{
    struct guard_message m = {.word = (int32_t)word, .value = value, .deadline_ms = deadline_ms};
    if (w->guard.fd < 0) {
        return; /* no guard */
    }
    if (word == GUARD_START) {
        m.token = hf_lock_token(w->lock);
    }
    guard_send(&w->guard, &m);
}

/* Until when the lock is certainly held. The clock is read first: a pause between the two lines
 * makes the result too early, never too late. */
static int64_t held_until_ms(const struct wrap *w)
{
    int64_t now_ms = clock_boot_ms();
    int64_t until_ms = now_ms + hf_lock_safe_for_ms(w->lock);
    return w->revoked_ms != 0 && w->revoked_ms < until_ms ? w->revoked_ms : until_ms;
}

static void confirm(struct wrap *w)
{
    int64_t until_ms = held_until_ms(w);
    if (!w->is_lost && until_ms != w->reported_ms) {
        send_to_guard(w, GUARD_DEADLINE, 0, until_ms);
        w->reported_ms = until_ms;
    }
    if (w->is_lost && !w->was_notified) {
        send_to_guard(w, GUARD_STOP, 0, clock_boot_ms() + w->plan.term_ms + w->plan.kill_ms);
        w->was_notified = true;
    }
}

static void lose_guard(struct wrap *w)
{
    w->lost_guard = true;
    w->is_lost = true;
    (void)snprintf(w->loss, sizeof(w->loss), "its guard was killed");
}

static void lose_by_deadline(struct wrap *w)
{
    w->is_lost = true;
    (void)snprintf(w->loss, sizeof(w->loss), "%s",
                   w->revoked_ms != 0 ? "revoked"
                   : w->is_hold_over  ? "max_hold"
                                      : "unconfirmed");
}

static void warn_of_undead(int64_t pid)
{
    if (pid != 0) {
        cli_say("process %" PRId64 " could not be killed: it hangs in the kernel", pid);
    }
}

/* Guard and standby were killed. The command died with the guard; its descendants may live, as
 * children of this process, a sub-reaper: kills them as the guard would. */
static void replace_both(struct wrap *w)
{
    int64_t give_up_ms = clock_boot_ms() + UNDEAD_MS;
    pid_t leader = atomic_load(&w->guard.shared->child);
    pid_t alive;
    while ((alive = guard_child_kill_all(leader, w->plan.cgroup)) != 0 &&
           clock_boot_ms() < give_up_ms) {
        struct timespec pause = {0, 10000000};
        (void)nanosleep(&pause, NULL);
    }
    warn_of_undead(alive);
    w->is_over = true;
    w->child_status = SIGKILL;
    lose_guard(w);
}

/* A descendant may have acted until now, and its writes may reach the resource later: keep the
 * session and the lock for a part of the TTL. */
static void keep_margin(struct wrap *w)
{
    int64_t end_ms = clock_boot_ms() + (int64_t)w->o->ttl_ms / MARGIN_PARTS;
    guard_close(&w->guard);
    while (clock_boot_ms() < end_ms) {
        wrap_turn(w, clock_left_ms(end_ms));
    }
}

static void on_paused(struct wrap *w, int signal)
{
    bool wants_terminal = signal == SIGTTIN || signal == SIGTTOU;
    if (signal == SIGSTOP) {
        return; /* by an explicit SIGSTOP: keep the lock */
    }
    if (wants_terminal && terminal_is_ours(&w->terminal)) {
        send_to_guard(w, GUARD_RESUME, 1, 0);
        return;
    }
    terminal_take(&w->terminal, w->child, true);
    if (!terminal_stop_job()) {
        send_to_guard(w, GUARD_RESUME, 1, 0);
    }
    /* The shell sends SIGCONT. */
}

static void on_guard(struct wrap *w)
{
    struct guard_message m;
    int got;
    while (!w->is_over && (got = guard_receive(&w->guard, &m)) != 0) {
        if (got < 0) {
            replace_both(w);
            return;
        }
        switch (m.word) {
        case GUARD_STARTED:
            w->child = (pid_t)m.pid;
            break;
        case GUARD_NOT_RUN:
            w->run_error = m.value;
            w->is_over = true;
            break;
        case GUARD_PAUSED:
            on_paused(w, m.value);
            break;
        case GUARD_ENDING:
            w->was_notified = true;
            if (m.value == 1) {
                lose_guard(w);
            } else {
                lose_by_deadline(w);
            }
            break;
        case GUARD_EXITED:
            w->is_over = true;
            w->child_status = m.value;
            warn_of_undead(m.pid);
            break;
        case GUARD_REPLACED:
            w->is_over = true;
            w->child_status = SIGKILL;
            w->lost_guard = true;
            warn_of_undead(m.pid);
            if (!w->is_lost && m.value == 0) {
                lose_guard(w);
            } else if (!w->is_lost) {
                lose_by_deadline(w);
            }
            break;
        default:
            break;
        }
    }
}

static void on_signal(struct wrap *w, int signal)
{
    if (signal == SIGPIPE || signal == SIGTTOU) {
        return;
    }
    if (!w->has_started || w->is_lingering) {
        if (signal == SIGTSTP) {
            (void)kill(getpid(), SIGSTOP);
        } else if (signal != SIGCONT && signal != SIGWINCH && w->caught == 0) {
            w->caught = signal;
        }
    } else if (signal == SIGCONT) {
        send_to_guard(w, GUARD_RESUME, terminal_is_ours(&w->terminal) ? 1 : 0, 0);
    } else {
        send_to_guard(w, GUARD_SIGNAL, signal, 0);
    }
}

static void on_signals(struct wrap *w)
{
    struct signalfd_siginfo info;
    while (read(w->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        on_signal(w, (int)info.ssi_signo);
    }
}

void wrap_turn(struct wrap *w, int most_ms)
{
    struct pollfd fds[2 + CLIENT_FDS];
    int client_ms = -1;
    fds[0] = (struct pollfd){w->signals, POLLIN, 0};
    fds[1] = (struct pollfd){w->guard.fd, POLLIN, 0}; /* poll ignores -1 */
    int count = hf_client_pollfds(w->client, fds + 2, CLIENT_FDS, &client_ms);
    int wait_ms = client_ms >= 0 && (most_ms < 0 || client_ms < most_ms) ? client_ms : most_ms;
    if (poll(fds, 2 + (nfds_t)(count < CLIENT_FDS ? count : CLIENT_FDS), wait_ms) < 0) {
        return;
    }
    if (fds[0].revents != 0) {
        on_signals(w);
    }
    hf_client_process(w->client);
    if (w->guard.fd >= 0 && fds[1].revents != 0) {
        on_guard(w);
    }
}

/* `problem` gets the message if no endpoint answered. */
static enum members_state query_state(const struct wrap *w, char *problem, size_t size)
{
    struct cli_common common = {w->o->endpoints, STATE_MS, false, w->o->security};
    struct api api;
    if (!api_init(&api, &common)) {
        return MEMBERS_SERVING; /* continue as before */
    }
    enum members_state state = members_state(&api);
    api_problem(&api, problem, size);
    return state;
}

static int fail_unreached(const struct wrap *w, enum members_state state, const char *problem)
{
    switch (state) {
    case MEMBERS_IDLE:
        cli_say("%s: %s%s" MEMBERS_NO_MAJORITY " (see `holdfast status`)", w->o->what, problem,
                problem[0] != '\0' ? "; " : "");
        break;
    case MEMBERS_UNREACHED:
        cli_say("%s: %s; " API_NOBODY_THERE, w->o->what, problem);
        break;
    case MEMBERS_SERVING:
    default:
        cli_say("%s: %s; `holdfast status` shows the state of the cluster", w->o->what, problem);
        break;
    }
    return EXIT_UNREACHABLE;
}

static int refuse(struct wrap *w)
{
    char problem[sizeof(w->refusal)];
    enum members_state state;
    switch (w->error) {
    case HF_ERR_DENIED:
        cli_say("%s: %s", w->o->what, w->refusal);
        return EXIT_DENIED;
    case HF_ERR_INVALID:
        cli_say("%s: %s", w->o->what, w->refusal);
        return EXIT_USAGE;
    case HF_ERR_UNREACHABLE:
    case HF_ERR_UNKNOWN:
    case HF_ERR_LOST:
    case HF_ERR_PROTOCOL:
        state = query_state(w, problem, sizeof(problem));
        return fail_unreached(
            w, state, state == MEMBERS_IDLE && w->error == HF_ERR_UNREACHABLE ? "" : w->refusal);
    case HF_ERR_MEMORY:
    case HF_ERR_SYSTEM:
        cli_say("%s: %s", w->o->what, w->refusal);
        return EXIT_OURS;
    default:
        if (w->error == HF_ERR_HELD || w->error == HF_ERR_TIMEOUT) {
            wrap_query_holder(w);
        }
        cli_say("%s was not acquired (%s): %s; `holdfast show` has details", w->o->what,
                hf_error_name(w->error), w->refusal);
        return (int)w->o->conflict;
    }
}

static void withdraw(struct wrap *w, hf_call *call)
{
    if (!w->is_answered) {
        hf_call_cancel(call);
        hf_client_process(w->client);
    }
}

/* A client that does not wait for the lock does not wait for a majority either. Called every
 * ELECTION_MS. The exit code if the cluster does not serve, or 0. */
static int give_up_early(struct wrap *w, hf_call *call)
{
    char problem[sizeof(w->refusal)];
    enum members_state state = query_state(w, problem, sizeof(problem));
    hf_client_process(w->client); /* the answer may have arrived */
    if (state == MEMBERS_SERVING || w->is_answered) {
        return 0;
    }
    withdraw(w, call);
    w->error = HF_ERR_UNREACHABLE;
    return fail_unreached(w, state, state == MEMBERS_IDLE ? "" : problem);
}

int wrap_wait(struct wrap *w, hf_call *call)
{
    int64_t look_ms = clock_boot_ms() + ELECTION_MS;
    hf_client_process(w->client);
    while (!w->is_answered && w->caught == 0) {
        int64_t left_ms = look_ms - clock_boot_ms();
        wrap_turn(w, !w->o->is_impatient ? -1 : left_ms > 0 ? (int)left_ms : 0);
        if (w->o->is_impatient && !w->is_answered && w->caught == 0 && clock_boot_ms() >= look_ms) {
            int code = give_up_early(w, call);
            if (code != 0) {
                return code;
            }
            look_ms = clock_boot_ms() + ELECTION_MS;
        }
    }
    if (w->caught != 0) {
        withdraw(w, call);
        cli_say("%s: ended by a signal (%s) before the command ran", w->o->what,
                strsignal(w->caught));
        return EXIT_SIGNAL + w->caught;
    }
    return w->error == 0 ? 0 : refuse(w);
}

/* A signal or a revocation ends it; after a loss there is nothing to keep. */
static void linger(struct wrap *w, int look_ms)
{
    int64_t end_ms = clock_boot_ms() + (int64_t)w->o->linger_ms;
    guard_close(&w->guard);
    w->is_lingering = true;
    while (w->caught == 0 && !w->is_lost && w->revoked_ms == 0 && clock_boot_ms() < end_ms) {
        int left_ms = clock_left_ms(end_ms);
        wrap_turn(w, left_ms < look_ms ? left_ms : look_ms);
        if (!w->is_lost && hf_lock_check(w->lock) != 0) {
            lose_by_deadline(w);
        }
    }
    w->lost_in_linger = w->is_lost;
}

void wrap_run(struct wrap *w)
{
    uint64_t look_ms = w->o->ttl_ms / LOOK_PARTS;
    int most_ms = look_ms < LOOK_MAX_MS ? (int)look_ms : LOOK_MAX_MS;
    if (w->program == NULL) {
        while (w->caught == 0 && !w->is_lost) {
            wrap_turn(w, most_ms);
            w->is_lost |= hf_lock_check(w->lock) != 0;
        }
        return;
    }
    if (w->is_lost) {
        return;
    }
    w->has_started = true;
    w->reported_ms = held_until_ms(w);
    send_to_guard(w, GUARD_START, terminal_to_give(&w->terminal) ? 1 : 0, w->reported_ms);
    while (!w->is_over) {
        wrap_turn(w, most_ms);
        if (!w->is_over) {
            confirm(w);
        }
    }
    terminal_take(&w->terminal, w->child, WIFSIGNALED(w->child_status));
    if (w->lost_guard) {
        keep_margin(w);
    } else if (w->o->linger_ms != 0 && !w->is_lost && w->run_error == 0) {
        linger(w, most_ms);
    }
}
