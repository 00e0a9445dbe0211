/* The guard: whatever becomes of the wrapper, the command and all its descendants are dead in time.
 *
 * Each command holds the writing end of a pipe, and so does everything that it starts: the end of
 * the file is the moment when all of them are dead, whatever they did to hide. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/guard.h"
#include "in_time.h"
#include "transport/clock.h"

/* SHORT_MS, TERM_MS and KILL_MS are multiplied by the scale where the deadline comes. */
enum { SHORT_MS = 1000, TERM_MS = 300, KILL_MS = 100, LONG_MS = 120000, PATIENCE_MS = 100000 };

struct world {
    struct guard guard;
    struct guard_plan plan;
    char *arguments[4];
    char script[512];
    char path[16];
    char option[4];
    sigset_t mask;
    int life; /* the reading end */
    int64_t deadline_ms;
};

/* A guard for `sh -c SCRIPT`, idle. The script's descriptor 9 is the pipe. */
static void begin(struct world *w, const char *script, int scale)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(dup2(ends[1], 9), 9); /* inherited */
    *w = (struct world){.life = ends[0]};
    (void)snprintf(w->script, sizeof(w->script), "%s", script);
    (void)snprintf(w->path, sizeof(w->path), "/bin/sh");
    (void)snprintf(w->option, sizeof(w->option), "-c");
    w->arguments[0] = w->path;
    w->arguments[1] = w->option;
    w->arguments[2] = w->script;
    sigemptyset(&w->mask);
    w->plan = (struct guard_plan){.path = w->path,
                                  .arguments = w->arguments,
                                  .lock = "some/name",
                                  .terminal = -1,
                                  .mask = &w->mask,
                                  .term_ms = TERM_MS * scale,
                                  .kill_ms = KILL_MS * scale};
    assert_true(guard_start(&w->guard, &w->plan));
    (void)close(ends[1]);
    (void)close(9);
}

static void say(struct world *w, enum guard_word word, int value, int64_t deadline_ms)
{
    struct guard_message m = {
        .word = (int32_t)word, .value = value, .deadline_ms = deadline_ms, .token = 4096};
    guard_send(&w->guard, &m);
}

static struct guard_message hear(struct world *w)
{
    struct guard_message m;
    struct pollfd p = {w->guard.fd, POLLIN, 0};
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    assert_int_equal(guard_receive(&w->guard, &m), 1);
    return m;
}

/* Guard and standby are gone, or go now: the standby closes its end after its last message. */
static void expect_closed(struct world *w)
{
    struct guard_message m;
    struct pollfd p = {w->guard.fd, POLLIN, 0};
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    assert_int_equal(guard_receive(&w->guard, &m), -1);
}

static void start_until(struct world *w, const char *script, int64_t for_ms, int scale)
{
    begin(w, script, scale);
    w->deadline_ms = clock_boot_ms() + for_ms * scale;
    say(w, GUARD_START, 0, w->deadline_ms);
    assert_int_equal(hear(w).word, GUARD_STARTED);
}

static pid_t guard_of(const struct world *w)
{
    return atomic_load(&w->guard.shared->guard);
}

static void start(struct world *w, const char *script)
{
    start_until(w, script, LONG_MS, 1);
}

static int64_t kill_at_ms(const struct world *w)
{
    return w->deadline_ms - w->plan.kill_ms;
}

static int64_t term_at_ms(const struct world *w)
{
    return kill_at_ms(w) - w->plan.term_ms;
}

/* One line that the command writes to the pipe. False: there is none, all of them are dead. */
static bool read_line(struct world *w, char *text, size_t size)
{
    size_t len = 0;
    while (len + 1 < size && (len == 0 || text[len - 1] != '\n')) {
        struct pollfd p = {w->life, POLLIN, 0};
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        ssize_t n = read(w->life, text + len, 1);
        if (n == 0) {
            return false;
        }
        assert_int_equal(n, 1);
        len++;
    }
    text[len - 1] = '\0';
    return true;
}

static void expect_line(struct world *w, const char *line)
{
    char text[128];
    assert_true(read_line(w, text, sizeof(text)));
    assert_string_equal(text, line);
}

/* What the command says before that moment, when the guard does the next thing to it. False: the
 * command was too slow. */
static bool says_before(struct world *w, const char *line, int64_t end_ms)
{
    char text[128];
    if (read_line(w, text, sizeof(text)) && strcmp(text, line) == 0 && clock_boot_ms() < end_ms) {
        return true;
    }
    assert_true(clock_boot_ms() >= end_ms);
    return false;
}

/* Waits for the end of all of them and says when it was. */
static int64_t expect_all_dead(struct world *w)
{
    char ignored[256];
    for (;;) {
        struct pollfd p = {w->life, POLLIN, 0};
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        if (read(w->life, ignored, sizeof(ignored)) == 0) {
            return clock_boot_ms();
        }
    }
}

static int expect_exit(struct world *w)
{
    struct guard_message m = hear(w);
    assert_int_equal(m.word, GUARD_EXITED);
    assert_int_equal(m.pid, 0);
    return m.value;
}

/* All are dead, and not later than promised. */
static bool dead_in_time(struct world *w)
{
    return expect_all_dead(w) <= w->deadline_ms;
}

static void end(struct world *w)
{
    if (w->guard.fd >= 0) {
        guard_close(&w->guard);
    }
    (void)close(w->life);
}

/* For a test that is to be tried again: what it began comes to its end. */
static bool late(struct world *w)
{
    (void)expect_all_dead(w);
    end(w);
    return false;
}

static void the_exit_code_and_the_environment_pass_through(void **state)
{
    struct world w;
    start(&w, "echo $HOLDFAST_LOCK $HOLDFAST_TOKEN >&9; exit 7");
    expect_line(&w, "some/name 4096");
    int status = expect_exit(&w);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    end(&w);
}

static void death_by_a_signal_is_reported(void **state)
{
    struct world w;
    start(&w, "kill -USR1 $$");
    int status = expect_exit(&w);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    end(&w);
}

static void signals_reach_the_whole_group(void **state)
{
    struct world w;
    /* The child speaks, so both are ready for the signal. */
    start(&w, "trap 'echo got it >&9; exit 3' USR2; (echo up >&9; exec sleep 60) & wait");
    expect_line(&w, "up");
    say(&w, GUARD_SIGNAL, SIGUSR2, 0);
    expect_line(&w, "got it");
    int status = expect_exit(&w);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    (void)expect_all_dead(&w); /* the sleep got the signal too */
    end(&w);
}

static bool term_comes_with_time_to_clean_up(int scale)
{
    struct world w;
    start_until(&w, "trap 'echo cleaning >&9; exit 0' TERM; sleep 60 & echo up >&9; wait", SHORT_MS,
                scale);
    if (!says_before(&w, "up", term_at_ms(&w))) {
        return late(&w);
    }
    if (!says_before(&w, "cleaning", kill_at_ms(&w))) {
        return late(&w);
    }
    assert_true(clock_boot_ms() >= term_at_ms(&w));
    assert_int_equal(hear(&w).word, GUARD_ENDING);
    (void)expect_exit(&w);
    bool is_in_time = dead_in_time(&w);
    end(&w);
    return is_in_time;
}

static void at_the_deadline_comes_term_with_time_to_clean_up(void **state)
{
    in_time(term_comes_with_time_to_clean_up);
}

static bool who_ignores_term_is_killed(int scale)
{
    struct world w;
    start_until(&w, "trap '' TERM; echo up >&9; while :; do sleep 0.05; done", SHORT_MS, scale);
    if (!says_before(&w, "up", term_at_ms(&w))) {
        return late(&w);
    }
    int64_t dead_ms = expect_all_dead(&w);
    assert_true(dead_ms >= kill_at_ms(&w));
    assert_int_equal(hear(&w).word, GUARD_ENDING);
    int status = expect_exit(&w);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    end(&w);
    return dead_ms <= w.deadline_ms;
}

static void who_ignores_term_is_killed_before_the_deadline(void **state)
{
    in_time(who_ignores_term_is_killed);
}

static bool descendants_die_in_time(int scale)
{
    struct world w;
    start_until(&w,
                "trap '' TERM; setsid sh -c 'setsid sh -c \"sleep 60 & sleep 60\" & sleep 60' & "
                "(setsid setsid sleep 60 &) ; echo up >&9; sleep 60",
                SHORT_MS, scale);
    if (!says_before(&w, "up", term_at_ms(&w))) {
        return late(&w);
    }
    bool is_in_time = dead_in_time(&w);
    end(&w);
    return is_in_time;
}

static void descendants_that_left_the_group_die_too(void **state)
{
    in_time(descendants_die_in_time);
}

static void a_command_that_dies_of_term_takes_its_family_along(void **state)
{
    struct world w;
    start(&w, "(trap '' TERM; exec sleep 60) & echo up >&9; wait");
    expect_line(&w, "up");
    say(&w, GUARD_STOP, 0, 0);
    int status = expect_exit(&w);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    (void)expect_all_dead(&w);
    end(&w);
}

static bool a_confirmation_moves_the_deadline(int scale)
{
    struct world w;
    char script[96];
    (void)snprintf(script, sizeof(script), "echo up >&9; sleep %d; echo alive >&9", 2 * scale);
    start_until(&w, script, SHORT_MS, scale);
    if (!says_before(&w, "up", term_at_ms(&w))) {
        return late(&w);
    }
    say(&w, GUARD_DEADLINE, 0, clock_boot_ms() + LONG_MS);
    if (clock_boot_ms() >= term_at_ms(&w)) {
        return late(&w);
    }
    expect_line(&w, "alive"); /* behind the first deadline */
    assert_true(clock_boot_ms() > w.deadline_ms);
    int status = expect_exit(&w);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    end(&w);
    return true;
}

static void confirmations_move_the_deadline(void **state)
{
    in_time(a_confirmation_moves_the_deadline);
}

static bool a_confirmation_comes_after_term(int scale)
{
    struct world w;
    start_until(&w, "trap 'echo term >&9' TERM; echo up >&9; while :; do sleep 0.05; done",
                SHORT_MS, scale);
    if (!says_before(&w, "up", term_at_ms(&w))) {
        return late(&w);
    }
    if (!says_before(&w, "term", kill_at_ms(&w))) {
        return late(&w);
    }
    say(&w, GUARD_DEADLINE, 0, clock_boot_ms() + LONG_MS);
    bool is_in_time = dead_in_time(&w);
    end(&w);
    return is_in_time;
}

static void a_confirmation_after_term_changes_nothing(void **state)
{
    in_time(a_confirmation_comes_after_term);
}

static bool a_stopped_command_is_ended(int scale)
{
    struct world w;
    start_until(&w, "trap 'echo term >&9; exit 0' TERM; echo up >&9; kill -STOP $$; sleep 60",
                SHORT_MS, scale);
    if (!says_before(&w, "up", term_at_ms(&w))) {
        return late(&w);
    }
    struct guard_message m = hear(&w);
    if (m.word == GUARD_ENDING) { /* TERM came before it had stopped itself */
        assert_true(clock_boot_ms() >= term_at_ms(&w));
        return late(&w);
    }
    assert_int_equal(m.word, GUARD_PAUSED);
    assert_int_equal(m.value, SIGSTOP);
    if (!says_before(&w, "term", kill_at_ms(&w))) {
        return late(&w);
    }
    bool is_in_time = dead_in_time(&w);
    end(&w);
    return is_in_time;
}

static void a_stopped_command_is_ended_as_well(void **state)
{
    in_time(a_stopped_command_is_ended);
}

static void a_stopped_command_goes_on_when_the_shell_says_so(void **state)
{
    struct world w;
    start(&w, "kill -TSTP $$; echo again >&9");
    assert_int_equal(hear(&w).word, GUARD_PAUSED);
    say(&w, GUARD_RESUME, 0, 0);
    expect_line(&w, "again");
    (void)expect_exit(&w);
    end(&w);
}

static void when_the_wrapper_is_gone_the_command_is_ended(void **state)
{
    struct world w;
    start(&w, "trap '' TERM; echo up >&9; while :; do sleep 0.05; done");
    expect_line(&w, "up");
    int64_t gone_ms = clock_boot_ms();
    guard_close(&w.guard);
    assert_true(expect_all_dead(&w) >= gone_ms + TERM_MS);
    w.guard.fd = -1;
    end(&w);
}

static void when_the_guard_is_killed_the_command_dies(void **state)
{
    struct world w;
    struct guard_message m;
    start(&w, "echo up >&9; exec sleep 60");
    expect_line(&w, "up");
    assert_int_equal(kill(guard_of(&w), SIGKILL), 0);
    (void)expect_all_dead(&w);
    m = hear(&w);
    assert_int_equal(m.word, GUARD_REPLACED);
    assert_int_equal(m.value, 0);
    assert_int_equal(m.pid, 0);
    expect_closed(&w);
    end(&w);
}

static void the_guard_ignores_what_stops_a_job(void **state)
{
    struct world w;
    start(&w, "echo up >&9; sleep 2; exit 5");
    expect_line(&w, "up");
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGPIPE, SIGUSR1};
    pid_t guard = guard_of(&w);
    assert_true(guard > 0); /* 0 would be this test's own group */
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        assert_int_equal(kill(guard, signals[i]), 0);
        assert_int_equal(kill(w.guard.standby, signals[i]), 0);
    }
    assert_int_equal(getpgid(guard), guard);
    assert_int_equal(getpgid(w.guard.standby), w.guard.standby);
    int status = expect_exit(&w);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 5);
    end(&w);
}

static void a_stopped_guard_does_not_stop_the_wrapper(void **state)
{
    struct world w;
    start(&w, "echo up >&9; sleep 60");
    expect_line(&w, "up");
    assert_int_equal(kill(guard_of(&w), SIGSTOP), 0);
    for (int i = 0; i < 5000; i++) { /* more than any socket holds; it would wait for ever */
        say(&w, GUARD_DEADLINE, 0, clock_boot_ms() + LONG_MS);
    }
    assert_int_equal(kill(guard_of(&w), SIGCONT), 0);
    guard_close(&w.guard);
    (void)expect_all_dead(&w);
    w.guard.fd = -1;
    end(&w);
}

/* Makes a daemon of itself again and again; N bounds what a test that fails leaves behind. */
#define REDAEMONIZE                                                                             \
    "export N=3000 R='[ $N -gt 0 ] && N=$((N-1)) setsid sh -c \"$R\" &'; eval \"$R\"; echo up " \
    ">&9; "                                                                                     \
    "sleep 60"

static void when_the_guard_is_killed_the_standby_ends_the_descendants(void **state)
{
    struct world w;
    start(&w, REDAEMONIZE);
    expect_line(&w, "up");
    assert_int_equal(kill(guard_of(&w), SIGKILL), 0);
    (void)expect_all_dead(&w);
    assert_int_equal(hear(&w).word, GUARD_REPLACED);
    end(&w);
}

static void when_wrapper_and_guard_are_gone_the_standby_ends_the_descendants(void **state)
{
    struct world w;
    start(&w, REDAEMONIZE);
    expect_line(&w, "up");
    assert_int_equal(kill(guard_of(&w), SIGKILL), 0);
    guard_close(&w.guard);
    (void)expect_all_dead(&w);
    end(&w);
}

static bool a_stopped_guard_is_replaced(int scale)
{
    struct world w;
    start_until(&w, REDAEMONIZE, SHORT_MS, scale);
    assert_int_equal(kill(guard_of(&w), SIGSTOP), 0);
    if (!says_before(&w, "up", term_at_ms(&w))) {
        return late(&w);
    }
    int64_t dead_ms = expect_all_dead(&w);
    assert_true(dead_ms >= kill_at_ms(&w));
    struct guard_message m = hear(&w);
    assert_int_equal(m.word, GUARD_REPLACED);
    assert_int_equal(m.value, 1);
    end(&w);
    return dead_ms <= w.deadline_ms;
}

static void a_guard_that_is_stopped_is_replaced_before_the_deadline(void **state)
{
    in_time(a_stopped_guard_is_replaced);
}

static void a_deadline_that_comes_nearer_reaches_the_standby(void **state)
{
    struct world w;
    start(&w, REDAEMONIZE);
    expect_line(&w, "up");
    assert_int_equal(kill(guard_of(&w), SIGSTOP), 0);
    say(&w, GUARD_STOP, 0, clock_boot_ms() + SHORT_MS);
    (void)expect_all_dead(&w);
    assert_true(clock_boot_ms() < w.deadline_ms);
    end(&w);
}

static void when_the_standby_is_killed_the_guard_ends_the_command(void **state)
{
    struct world w;
    start(&w, "trap 'echo term >&9; exit 0' TERM; echo up >&9; while :; do sleep 0.05; done");
    expect_line(&w, "up");
    assert_int_equal(kill(w.guard.standby, SIGKILL), 0);
    expect_line(&w, "term");
    struct guard_message m = hear(&w);
    assert_int_equal(m.word, GUARD_ENDING);
    assert_int_equal(m.value, 1);
    (void)expect_exit(&w);
    (void)expect_all_dead(&w);
    end(&w);
}

static void a_stopped_standby_holds_nobody_up(void **state)
{
    struct world w;
    start(&w, "exit 4");
    assert_int_equal(kill(w.guard.standby, SIGSTOP), 0);
    int status = expect_exit(&w);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 4);
    end(&w); /* waits for it */
}

static void what_cannot_be_run_is_reported_with_the_reason(void **state)
{
    struct world w;
    begin(&w, "", 1);
    guard_close(&w.guard);
    (void)close(w.life);
    w.plan.path = "/no/such/program";
    assert_true(guard_start(&w.guard, &w.plan));
    say(&w, GUARD_START, 0, clock_boot_ms() + LONG_MS);
    struct guard_message m = hear(&w);
    assert_int_equal(m.word, GUARD_NOT_RUN);
    assert_int_equal(m.value, ENOENT);
    guard_close(&w.guard);
}

static void an_idle_guard_goes_with_its_wrapper(void **state)
{
    struct world w;
    begin(&w, "echo never >&9", 1);
    guard_close(&w.guard); /* returns when it is dead */
    (void)expect_all_dead(&w);
    w.guard.fd = -1;
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exit_code_and_the_environment_pass_through),
        cmocka_unit_test(death_by_a_signal_is_reported),
        cmocka_unit_test(signals_reach_the_whole_group),
        cmocka_unit_test(at_the_deadline_comes_term_with_time_to_clean_up),
        cmocka_unit_test(who_ignores_term_is_killed_before_the_deadline),
        cmocka_unit_test(descendants_that_left_the_group_die_too),
        cmocka_unit_test(a_command_that_dies_of_term_takes_its_family_along),
        cmocka_unit_test(confirmations_move_the_deadline),
        cmocka_unit_test(a_confirmation_after_term_changes_nothing),
        cmocka_unit_test(a_stopped_command_is_ended_as_well),
        cmocka_unit_test(a_stopped_command_goes_on_when_the_shell_says_so),
        cmocka_unit_test(when_the_wrapper_is_gone_the_command_is_ended),
        cmocka_unit_test(when_the_guard_is_killed_the_command_dies),
        cmocka_unit_test(the_guard_ignores_what_stops_a_job),
        cmocka_unit_test(a_stopped_guard_does_not_stop_the_wrapper),
        cmocka_unit_test(when_the_guard_is_killed_the_standby_ends_the_descendants),
        cmocka_unit_test(when_wrapper_and_guard_are_gone_the_standby_ends_the_descendants),
        cmocka_unit_test(a_guard_that_is_stopped_is_replaced_before_the_deadline),
        cmocka_unit_test(a_deadline_that_comes_nearer_reaches_the_standby),
        cmocka_unit_test(when_the_standby_is_killed_the_guard_ends_the_command),
        cmocka_unit_test(a_stopped_standby_holds_nobody_up),
        cmocka_unit_test(what_cannot_be_run_is_reported_with_the_reason),
        cmocka_unit_test(an_idle_guard_goes_with_its_wrapper),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
