/* `holdfast acquire NAME...`: a lock for a script that cannot be the child of `holdfast lock`. The lock
 * has no process: it lasts for its TTL, or until `holdfast renew` and `holdfast release`.
 *
 *     request ──answer──▶ granted ──waited──▶ renewed once, for a deadline that counts (S5.1)
 *        │  ▲                 └───at once───────────┴──▶ printed
 *        │  └── no answer: the same request with the same id, to the next endpoint (S7.1)
 *        └── signal, or given up: withdrawn with `cancel` (S7.5) */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/commands.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/lease.h"
#include "cli/lock_flags.h"
#include "cli/members.h"
#include "cli/say.h"
#include "client/deadline.h"
#include "transport/clock.h"
#include "transport/wait.h"

enum {
    TURN_MS =
        10000, /* a node that does not answer for so long is left; the place in the queue stays */
    PAUSE_MS = 100,     /* after all endpoints failed */
    STATE_MS = 1000,    /* to look whether the cluster serves */
    WITHDRAW_MS = 2000, /* to withdraw the request at the end */
};

struct acquire_settings {
    struct cli_common common;
    struct lock_flags lock;
    uint64_t ttl_ms; /* 0: the session's, else LEASE_TTL_MS */
    uint64_t lock_delay_ms;
    uint64_t max_hold_ms;
    uint64_t conflict;
    const char *session;
    const char *client;
    const char *request_id;
    const char *trace;
};

const struct flag acquire_options[] = {
    LOCK_FLAGS_OPTIONS(struct acquire_settings, lock),
    {"ttl", 't',
     FLAG_DURATION_IN(struct acquire_settings, ttl_ms, LIMIT_TTL_MIN_MS, LIMIT_TTL_MAX_MS),
     "DURATION",
     "time from the last confirmation to the end of the lock (default: 30s, or the session's)"},
    {"session", 0, FLAG_TEXT(struct acquire_settings, session), "SESSION",
     "session that holds the lock, \"\" for none (default: $HOLDFAST_SESSION)"},
    {"lock-delay", 0,
     FLAG_DURATION_IN(struct acquire_settings, lock_delay_ms, 0, LIMIT_DELAY_MAX_MS), "DURATION",
     "time after a loss before it can be acquired (default: 0)"},
    {"max-hold", 0, FLAG_DURATION_IN(struct acquire_settings, max_hold_ms, 0, LIMIT_HELD_MAX_MS),
     "DURATION", "longest time it is held, even while it is renewed (default: no limit)"},
    {"conflict-exit-code", 'E', FLAG_NUMBER_IN(struct acquire_settings, conflict, 1, 255), "CODE",
     "exit code if it is not acquired, not 0 (default: 75)"},
    LOCK_TIER_OPTION(struct acquire_settings, lock),
    {"detect-deadlock", 0, FLAG_SWITCH(struct acquire_settings, lock.detect_deadlock), NULL,
     "with a session: fail instead of waiting if waiting would be a deadlock"},
    {"client", 0, FLAG_TEXT_SET(struct acquire_settings, client), "ID",
     "client id shown to others (default: USER@HOST/PID, with the PID of the calling process)"},
    {"request-id", 0, FLAG_TEXT_SET(struct acquire_settings, request_id), "ID",
     "repeat with the same ID after a crash of the script to get the same lock, not a second one"},
    {"trace", 0, FLAG_TEXT(struct acquire_settings, trace), "TRACEPARENT",
     "W3C traceparent shown with the holder, \"\" for none (default: $TRACEPARENT)"},
    CLI_COMMON_OPTIONS(struct acquire_settings),
    FLAGS_END,
};

struct acquire_run {
    const struct acquire_settings *o;
    const char *what; /* the names, for messages */
    char **names;
    int count;
    char client[LEASE_CLIENT];
    char request_id[LIMIT_REQUEST_ID + 1];
    struct api api;
    struct buffer target;
    int signals;          /* signalfd */
    int64_t begun_ms;     /* the first sending */
    bool may_be_executed; /* a request was sent and not answered */
};

/* ---- the request ---- */

static void write_target(struct acquire_run *a)
{
    if (a->count > 1) {
        buffer_append_text(&a->target, "/api/v1/multilock/acquire");
    } else {
        buffer_append_text(&a->target, "/api/v1/locks/");
        http_escape(&a->target, slice_of(a->names[0]), true);
        buffer_append_text(&a->target, "/acquire");
    }
    buffer_append_byte(&a->target, 0);
}

static void write_mode(const struct lock_flags *lock, struct json_writer *w)
{
    if (lock->limit != 0) {
        json_put_text(w, "mode", "semaphore");
        json_put_u64(w, "limit", lock->limit);
        json_put_u64(w, "permits", lock->permits != 0 ? lock->permits : 1);
    } else if (lock->is_shared) {
        json_put_text(w, "mode", "shared");
    }
    if (lock->is_fast) {
        json_put_text(w, "tier", "efficiency");
    }
    if (lock->detect_deadlock) {
        json_put_bool(w, "detect_deadlock", true);
    }
}

static int64_t wait_ms(const struct acquire_run *a)
{
    return a->o->lock.no_wait                 ? 0
           : a->o->lock.wait_ms == UINT64_MAX ? -1
                                              : (int64_t)a->o->lock.wait_ms;
}

static void write_body(const struct acquire_run *a, bool cancels, struct buffer *body)
{
    const struct acquire_settings *o = a->o;
    struct json_writer w;
    json_writer_init(&w, body);
    json_write_open(&w, '{');
    if (a->count > 1) {
        json_put_open(&w, "names", '[');
        for (int i = 0; i < a->count; i++) {
            json_write_string(&w, slice_of(a->names[i]));
        }
        json_write_close(&w);
    }
    if (o->session[0] != '\0') {
        json_put_text(&w, "session_id", o->session);
    } else {
        json_put_text(&w, "client_id", a->client);
    }
    if (o->ttl_ms != 0 || o->session[0] == '\0') {
        json_put_u64(&w, "ttl_ms", o->ttl_ms != 0 ? o->ttl_ms : LEASE_TTL_MS);
    }
    json_put_i64(&w, "wait_timeout_ms", wait_ms(a));
    json_put_text(&w, "request_id", a->request_id);
    write_mode(&o->lock, &w);
    if (o->lock_delay_ms != 0) {
        json_put_u64(&w, "lock_delay_ms", o->lock_delay_ms);
    }
    if (o->max_hold_ms != 0) {
        json_put_u64(&w, "max_hold_ms", o->max_hold_ms);
    }
    if (o->trace != NULL && o->trace[0] != '\0') {
        json_put_text(&w, "trace", o->trace);
    }
    lease_put_metadata(o->request_id, &w);
    if (cancels) {
        json_put_bool(&w, "cancel", true);
    }
    json_write_close(&w);
}

static int call(struct acquire_run *a, bool cancels, uint64_t timeout_ms, struct api_answer *answer)
{
    struct buffer body;
    buffer_init(&body, memory_system(), 1 << 20);
    write_body(a, cancels, &body);
    struct cli_request request = {"POST", (const char *)buffer_bytes(&a->target).data,
                                  buffer_bytes(&body), API_REPEAT};
    a->api.timeout_ms = timeout_ms;
    int code = api_call(&a->api, &request, answer);
    a->may_be_executed |= a->api.may_be_executed;
    buffer_close(&body);
    return code;
}

/* So that a lock that is granted later has no holder who does not know of it. */
static void withdraw(struct acquire_run *a)
{
    struct api_answer answer;
    transport_interrupt_by(-1);
    if (a->may_be_executed && call(a, true, WITHDRAW_MS, &answer) == 0) {
        api_answer_close(&answer);
    }
}

/* ---- waiting ---- */

/* The signal that came, or 0. */
static int caught(const struct acquire_run *a)
{
    struct signalfd_siginfo info;
    return read(a->signals, &info, sizeof(info)) == (ssize_t)sizeof(info) ? (int)info.ssi_signo : 0;
}

static bool is_served(const struct acquire_run *a)
{
    struct api api = a->api;
    api.timeout_ms = STATE_MS;
    return members_state(&api) == MEMBERS_SERVING;
}

static int give_up(struct acquire_run *a)
{
    char problem[1400];
    char span[HUMAN_TEXT];
    uint64_t ttl_ms = a->o->ttl_ms != 0 ? a->o->ttl_ms : LEASE_TTL_MS;
    api_problem(&a->api, problem, sizeof(problem));
    withdraw(a);
    cli_say("%s: %s%s; `holdfast status` shows the state of the cluster", a->what, problem,
            a->api.status == 0 && a->may_be_executed ? "; it may have been acquired" : "");
    if (a->api.status == 0 && a->may_be_executed) {
        cli_say(
            "a repetition with --request-id %s gets the same lock; else it ends after %s at the "
            "latest",
            a->request_id, human_span(ttl_ms, span));
    }
    return EXIT_UNREACHABLE;
}

/* One attempt that is not over after the time of the wait has an endpoint that does not answer. */
static uint64_t turn_ms(const struct acquire_run *a, int64_t left_ms)
{
    int64_t most_ms = (int64_t)TURN_MS * a->api.count;
    return (uint64_t)(left_ms < most_ms ? left_ms : most_ms);
}

/* 0, and the answer of the service; else the exit code, and the problem is printed. */
static int request(struct acquire_run *a, struct api_answer *answer)
{
    int64_t timeout_ms = (int64_t)a->o->common.timeout_ms;
    int64_t end_ms = wait_ms(a) < 0 ? INT64_MAX : a->begun_ms + wait_ms(a) + timeout_ms;
    int64_t served_ms = a->begun_ms; /* when the cluster was last known to serve */
    for (;;) {
        int64_t left_ms = end_ms - clock_boot_ms();
        int code = call(a, false, turn_ms(a, left_ms > PAUSE_MS ? left_ms : PAUSE_MS), answer);
        int signal = code != 0 ? caught(a) : 0;
        if (signal != 0) {
            withdraw(a);
            cli_say("%s: ended by a signal (%s) before it was acquired", a->what,
                    strsignal(signal));
            return EXIT_SIGNAL + signal;
        }
        if (code != EXIT_UNREACHABLE || (a->api.status != 0 && a->api.status != 504)) {
            return code;
        }
        int64_t now_ms = clock_boot_ms();
        if (now_ms - served_ms >= timeout_ms && is_served(a)) {
            served_ms = now_ms;
        }
        if (now_ms >= end_ms || now_ms - served_ms >= timeout_ms) {
            return give_up(a);
        }
        struct timespec pause = {0, PAUSE_MS * 1000000L};
        (void)nanosleep(&pause, NULL);
    }
}

/* ---- the answer ---- */

static int fail_refused(const struct acquire_run *a, int code)
{
    code = lease_fail(&a->api, a->what, code);
    return code == EXIT_FAILED && (a->api.status == 409 || a->api.status == 429)
               ? (int)a->o->conflict
               : code;
}

static int fail_not_acquired(const struct acquire_run *a, const struct json_t *tree)
{
    const struct json_t *holder = json_tree_get(tree, "holder");
    struct slice reason = json_tree_text(json_tree_get(tree, "reason"));
    struct slice client = json_tree_text(json_tree_get(holder, "client_id"));
    struct slice trace = json_tree_text(json_tree_get(holder, "trace"));
    unsigned waiting = (unsigned)json_tree_u64(json_tree_get(tree, "queue_length"), 0);
    char since[HUMAN_TEXT];
    char who[400] = "it is not held by anyone that is shown";
    if (client.len > 0) {
        (void)snprintf(who, sizeof(who), "held by %.*s since %s, %u waiting%s%.*s", (int)client.len,
                       (const char *)client.data,
                       human_time(json_tree_text(json_tree_get(holder, "since")), since), waiting,
                       trace.len > 0 ? ", trace " : "", (int)trace.len, (const char *)trace.data);
    }
    cli_say("%s was not acquired (%.*s): %s; `holdfast show` has details", a->what, (int)reason.len,
            (const char *)reason.data, who);
    return (int)a->o->conflict;
}

static int fail_lost(const struct acquire_run *a, const struct json_t *tree)
{
    struct slice reason = json_tree_text(json_tree_get(tree, "reason"));
    cli_say("%s was acquired and lost again (%.*s) before this command could print it; a longer "
            "--ttl gives it more time",
            a->what, (int)reason.len, (const char *)reason.data);
    return EXIT_LOST;
}

/* A grant after a wait counts only from a renewal that was sent after it arrived (S5.1). */
static int confirm(struct acquire_run *a, const struct lease *lease, const struct json_t *tree,
                   int64_t *until_ms)
{
    struct api_answer answer;
    uint64_t waited_ms = json_tree_u64(json_tree_get(tree, "waited_ms"), 0);
    *until_ms = lease_until_ms(a->begun_ms, tree);
    if (waited_ms == 0) {
        return 0;
    }
    int64_t renewed_ms = *until_ms;
    a->api.timeout_ms = a->o->common.timeout_ms;
    int code = lease_renew(&a->api, lease, 0, &renewed_ms, &answer);
    if (code == EXIT_LOST) {
        code = fail_lost(a, answer.tree);
        api_answer_close(&answer);
        return code;
    }
    if (code == 0) {
        api_answer_close(&answer);
        *until_ms = renewed_ms;
    }
    /* Not confirmed: the earlier deadline holds, and the script renews before it acts. */
    return 0;
}

/* max_hold counts from the grant, which was not before the first sending and the reported wait. */
static int64_t within_hold(const struct acquire_run *a, const struct json_t *tree, int64_t until_ms)
{
    struct life hold = {a->begun_ms + (int64_t)json_tree_u64(json_tree_get(tree, "waited_ms"), 0),
                        (int64_t)a->o->max_hold_ms};
    int64_t end_ms = life_safe_until(hold);
    return hold.ttl_ms != 0 && end_ms < until_ms ? end_ms : until_ms;
}

static void print_shell(const struct acquire_run *a, const char *lease, uint64_t token,
                        const struct json_t *tree, int64_t until_ms)
{
    char number[24];
    const struct json_t *slot = json_tree_get(tree, "slot");
    (void)snprintf(number, sizeof(number), "%" PRIu64, token);
    shell_put("HOLDFAST_LOCK", a->what);
    shell_put("HOLDFAST_TOKEN", number);
    shell_put("HOLDFAST_LEASE", lease);
    shell_put_until("HOLDFAST_UNTIL", until_ms);
    if (slot != NULL) {
        (void)snprintf(number, sizeof(number), "%" PRIu64, json_tree_u64(slot, 0));
        shell_put("HOLDFAST_SLOT", number);
    }
    printf("export HOLDFAST_LOCK HOLDFAST_TOKEN HOLDFAST_LEASE HOLDFAST_UNTIL%s\n",
           slot != NULL ? " HOLDFAST_SLOT" : "");
}

static void print_json(const struct acquire_run *a, const char *lease, uint64_t token,
                       const struct json_t *tree, int64_t until_ms)
{
    struct buffer out;
    struct json_writer w;
    const struct json_t *slot = json_tree_get(tree, "slot");
    int64_t left_ms = until_ms - clock_boot_ms();
    buffer_init(&out, memory_system(), 1 << 20);
    json_writer_init(&w, &out);
    json_write_open(&w, '{');
    json_put_bool(&w, "acquired", true);
    json_put_open(&w, "names", '[');
    for (int i = 0; i < a->count; i++) {
        json_write_string(&w, slice_of(a->names[i]));
    }
    json_write_close(&w);
    json_put_u64(&w, "fencing_token", token);
    json_put_text(&w, "lease", lease);
    json_put_string(&w, "tier", json_tree_text(json_tree_get(tree, "tier")));
    if (slot != NULL) {
        json_put_u64(&w, "slot", json_tree_u64(slot, 0));
    }
    json_put_u64(&w, "waited_ms", json_tree_u64(json_tree_get(tree, "waited_ms"), 0));
    json_put_i64(&w, "until_ms", until_ms);
    json_put_i64(&w, "safe_for_ms", left_ms > 0 ? left_ms : 0);
    json_write_close(&w);
    buffer_append_byte(&out, '\n');
    (void)fwrite(buffer_bytes(&out).data, 1, buffer_len(&out), stdout);
    buffer_close(&out);
}

static int finish(struct acquire_run *a, const struct json_t *tree)
{
    char text[LEASE_TEXT];
    struct api_answer answer;
    struct lease lease = {.token = json_tree_u64(json_tree_get(tree, "fencing_token"), 0)};
    struct slice id = json_tree_text(json_tree_get(tree, "lease_id"));
    int64_t until_ms = 0;
    (void)snprintf(lease.id, sizeof(lease.id), "%.*s", (int)id.len, (const char *)id.data);
    (void)snprintf(text, sizeof(text), "hf1.%" PRIu64 ".%s", lease.token, lease.id);
    int code = confirm(a, &lease, tree, &until_ms);
    if (code != 0) {
        return code;
    }
    until_ms = within_hold(a, tree, until_ms);
    if (a->o->common.json) {
        print_json(a, text, lease.token, tree, until_ms);
    } else {
        print_shell(a, text, lease.token, tree, until_ms);
    }
    if (shell_flush()) {
        return 0;
    }
    cli_say("%s: the output could not be written; the lock is released", a->what);
    if (lease_release(&a->api, &lease, &answer) == 0) {
        api_answer_close(&answer);
    }
    return EXIT_OURS;
}

static int run(struct acquire_run *a)
{
    struct api_answer answer;
    a->begun_ms = clock_boot_ms();
    int code = request(a, &answer);
    if (code == EXIT_UNREACHABLE || code >= EXIT_SIGNAL || code == EXIT_OURS) {
        return code;
    }
    if (code != 0) {
        return fail_refused(a, code);
    }
    if (json_tree_true(json_tree_get(answer.tree, "acquired"))) {
        code = finish(a, answer.tree);
    } else {
        if (a->o->common.json) {
            api_print_json(&answer);
        }
        code = fail_not_acquired(a, answer.tree);
    }
    api_answer_close(&answer);
    return code;
}

/* Only while the request is under way: afterwards the lock belongs to the script. */
static bool begin_signals(struct acquire_run *a)
{
    sigset_t ours;
    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, SIGHUP);
    (void)sigaddset(&ours, SIGINT);
    (void)sigaddset(&ours, SIGTERM);
    (void)sigaddset(&ours, SIGPIPE); /* an output that is gone is an error of fflush */
    (void)sigprocmask(SIG_BLOCK, &ours, NULL);
    (void)sigdelset(&ours, SIGPIPE);
    a->signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    transport_interrupt_by(a->signals);
    return a->signals >= 0;
}

static int begin(const struct acquire_settings *o, struct flag_words *words)
{
    static char joined[LOCK_NAMES_TEXT];
    struct acquire_run a = {
        .o = o, .what = joined, .names = words->items, .count = words->count, .signals = -1};
    lock_flags_join(joined, sizeof(joined), words->items, words->count);
    lease_client(o->client, o->request_id, a.client);
    if (o->request_id != NULL) {
        (void)snprintf(a.request_id, sizeof(a.request_id), "%s", o->request_id);
    } else {
        api_request_id(a.request_id);
    }
    if (!api_init(&a.api, &o->common)) {
        return EXIT_USAGE;
    }
    if (!begin_signals(&a)) {
        cli_say("signalfd: %m");
        return EXIT_OURS;
    }
    a.api.is_quiet = true;
    buffer_init(&a.target, memory_system(), API_TARGET);
    write_target(&a);
    int code = run(&a);
    buffer_close(&a.target);
    (void)close(a.signals);
    return code;
}

static int read_and_run(struct acquire_settings *o, int count, char **arguments)
{
    struct flag_words words;
    if (!flags_read("acquire", acquire_options, FLAGS_ANY_ORDER, count, arguments, o, &words)) {
        return EXIT_USAGE;
    }
    if (o->session == NULL) {
        o->session = getenv("HOLDFAST_SESSION");
    }
    o->session = o->session != NULL ? o->session : "";
    if (o->request_id != NULL && strlen(o->request_id) > LIMIT_REQUEST_ID) {
        cli_say("--request-id: at most %d characters are allowed", LIMIT_REQUEST_ID);
        return EXIT_USAGE;
    }
    bool is_good = lock_flags_check("acquire", &o->lock) &&
                   lock_flags_check_names("acquire", &o->lock, words.count) &&
                   cli_trace_check(&o->trace);
    return is_good ? begin(o, &words) : EXIT_USAGE;
}

int acquire_main(int count, char **arguments)
{
    struct acquire_settings o = {
        .common = CLI_COMMON_DEFAULT, .lock = LOCK_FLAGS_DEFAULT, .conflict = EXIT_NOT_ACQUIRED};
    int code = read_and_run(&o, count, arguments);
    if (code != 0 && !o.common.json) {
        shell_put_failure(code);
    }
    return code;
}
