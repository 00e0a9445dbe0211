/* Start and end of a wrapped command, see wrap.h; wrap_run.c is between them. */
#include "cli/wrap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "cli/api.h"
#include "cli/exits.h"
#include "cli/human.h"
#include "cli/say.h"
#include "cli/show_graph.h"
#include "transport/clock.h"

enum {
    HEARING_MS = 1000, /* to learn of a forced loss; part of the default lock-delay */
    LOOK_MS = 1000,
    COMMAND_TEXT = 256,
    TTL_MAX_MS = 86400000,
};

/* For the command, for job control, and PIPE, which must not end us. */
static const int our_signals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,  SIGUSR2,
                                  SIGALRM, SIGTSTP, SIGCONT, SIGTTOU, SIGWINCH, SIGPIPE};

bool wrap_check(struct wrap_options *o)
{
    if (o->ttl_ms < 100 || o->ttl_ms > TTL_MAX_MS) {
        cli_say("--ttl: must be from 100ms to 24h");
        return false;
    }
    if (o->kill_after_ms == 0) {
        o->kill_after_ms = o->ttl_ms / 6 < 5000 ? o->ttl_ms / 6 : 5000;
    }
    if (o->kill_after_ms > o->ttl_ms / 2) {
        cli_say("--kill-after: must be at most half of the TTL, because TERM is sent that long "
                "before the lock ends");
        return false;
    }
    if (o->conflict > 255) {
        cli_say("-E: an exit code must be from 0 to 255");
        return false;
    }
    if (o->status_fd != 0 && (o->status_fd > INT32_MAX || fcntl((int)o->status_fd, F_GETFD) < 0)) {
        cli_say("--status-fd: descriptor %" PRIu64 " is not open; add for example 3>status",
                o->status_fd);
        return false;
    }
    if (o->max_hold_ms != 0 &&
        (o->max_hold_ms < LIMIT_TTL_MIN_MS || o->max_hold_ms > LIMIT_HELD_MAX_MS)) {
        cli_say("--max-hold: must be from 100ms to 31 days (744h)");
        return false;
    }
    return cli_trace_check(&o->trace);
}

static int64_t kill_ms(const struct wrap_options *o)
{
    int64_t part_ms = (int64_t)o->kill_after_ms / 4;
    return part_ms < 20 ? 20 : part_ms > 500 ? 500 : part_ms;
}

static int fail_system(const char *what)
{
    cli_say("%s: %s", what, strerror(errno));
    return EXIT_OURS;
}

/* {"host":...,"pid":...,"user":...,"command":...}, for lists and refusals. */
static void write_metadata(const struct wrap *w, struct buffer *out)
{
    char actor[256];
    char command[COMMAND_TEXT] = "";
    size_t len = 0;
    struct json_writer j;
    api_actor(actor, sizeof(actor));
    for (char **word = w->program != NULL ? w->program->arguments : NULL;
         word != NULL && *word != NULL && len < sizeof(command); word++) {
        len += (size_t)snprintf(command + len, sizeof(command) - len, "%s%s", len > 0 ? " " : "",
                                *word);
    }
    json_writer_init(&j, out);
    json_write_open(&j, '{');
    json_put_text(&j, "user", actor);
    json_put_u64(&j, "pid", (uint64_t)getpid());
    json_put_text(&j, "command", command);
    json_write_close(&j);
    buffer_append_byte(out, 0);
}

static void on_event(hf_client *client, const struct hf_event *e, void *arg);

static int begin_client(struct wrap *w)
{
    struct hf_options options = HF_OPTIONS;
    struct buffer metadata;
    char actor[256];
    char id[300];
    api_actor(actor, sizeof(actor));
    (void)snprintf(id, sizeof(id), "%.200s/%d", actor, (int)getpid());
    buffer_init(&metadata, memory_system(), 4096);
    write_metadata(w, &metadata);
    options.client_id = id;
    options.metadata = (const char *)buffer_bytes(&metadata).data;
    options.session_ttl_ms = (uint32_t)w->o->ttl_ms;
    options.call_timeout_ms = (uint32_t)w->o->timeout_ms;
    options.own_loop = true;
    options.on_event = on_event;
    options.arg = w;
    options.ca = w->o->security.ca;
    options.cert = w->o->security.certificate;
    options.key = w->o->security.key;
    options.server_name = w->o->security.server_name;
    options.token_file = w->o->security.token_file;
    options.tenant = w->o->security.tenant;
    int error = hf_client_open(&w->client, w->o->endpoints, &options);
    buffer_close(&metadata);
    if (error != 0) {
        cli_say("%s", hf_last_error());
        return error == HF_ERR_INVALID ? EXIT_USAGE : EXIT_OURS;
    }
    return 0;
}

int wrap_begin(struct wrap *w, const struct wrap_options *o, struct program *program)
{
    sigset_t ours;
    *w = (struct wrap){.o = o, .program = program, .signals = -1, .guard = {.fd = -1}};
    (void)sigemptyset(&ours);
    for (size_t i = 0; i < sizeof(our_signals) / sizeof(our_signals[0]); i++) {
        (void)sigaddset(&ours, our_signals[i]);
    }
    if (o->status_fd != 0) {
        (void)fcntl((int)o->status_fd, F_SETFD, FD_CLOEXEC);
    }
    (void)sigprocmask(SIG_BLOCK, &ours, &w->old_mask);
    w->signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);
    if (w->signals < 0) {
        return fail_system("signalfd");
    }
    terminal_open(&w->terminal);
    if (program != NULL) {
        /* Children of a killed guard and standby become ours, and we end them. */
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
        bool has_cgroup = guard_cgroup_make(&w->cgroup);
        if (!has_cgroup && o->is_verbose) {
            cli_say("%s: cannot create a cgroup (%s); descendants that leave the process group are "
                    "found one by one",
                    o->what, strerror(errno));
        }
        w->plan = (struct guard_plan){.path = program->path,
                                      .arguments = program->arguments,
                                      .lock = o->names,
                                      .terminal = w->terminal.fd,
                                      .mask = &w->old_mask,
                                      .term_ms = (int64_t)o->kill_after_ms,
                                      .kill_ms = kill_ms(o),
                                      .cgroup = has_cgroup ? &w->cgroup : NULL};
        if (!guard_start(&w->guard, &w->plan)) {
            return fail_system("fork");
        }
    }
    return begin_client(w);
}

void wrap_lock_options(const struct wrap *w, struct hf_lock_options *options)
{
    uint64_t delay_ms = w->o->lock_delay_ms;
    if (delay_ms == 0) {
        delay_ms = w->o->kill_after_ms + (uint64_t)kill_ms(w->o) + HEARING_MS;
    }
    options->ttl_ms = (uint32_t)w->o->ttl_ms;
    options->lock_delay_ms = (uint32_t)delay_ms;
    options->max_hold_ms = (uint32_t)w->o->max_hold_ms;
    options->trace = w->o->trace;
}

static void remember_holder(struct wrap *w)
{
    struct hf_holder holder = {.size = sizeof(holder)};
    char span[HUMAN_TEXT];
    if (hf_last_holder(&holder) != 0 || holder.client_id[0] == '\0') {
        return;
    }
    w->knows_holder = true;
    (void)snprintf(w->refusal, sizeof(w->refusal), "held by %.200s for %s, %u waiting%s%s",
                   holder.client_id,
                   human_span(holder.held_for_ms > 0 ? (uint64_t)holder.held_for_ms : 0, span),
                   holder.queue_length, holder.trace[0] != '\0' ? ", trace " : "", holder.trace);
}

void wrap_done(hf_client *client, int error, hf_lock *lock, void *arg)
{
    struct wrap *w = arg;
    w->is_answered = true;
    w->error = error;
    w->lock = error == 0 ? lock : NULL;
    if (error != 0) {
        (void)snprintf(w->refusal, sizeof(w->refusal), "%s", hf_last_error());
        if (error == HF_ERR_HELD || error == HF_ERR_TIMEOUT) {
            remember_holder(w);
        }
    }
}

void wrap_query_holder(struct wrap *w)
{
    struct cli_common common = {w->o->endpoints, LOOK_MS, false, w->o->security};
    struct api api;
    struct api_answer answer;
    if (w->knows_holder || !api_init(&api, &common)) {
        return;
    }
    api.is_quiet = true;
    if (show_graph_query(&api, slice_of(w->o->first), &answer) != 0) {
        return;
    }
    const struct json_t *holder = json_tree_at(json_tree_get(answer.tree, "holders"), 0);
    struct slice client = json_tree_text(json_tree_get(holder, "client_id"));
    struct slice trace = json_tree_text(json_tree_get(holder, "trace"));
    char since[HUMAN_TEXT];
    if (client.len > 0) {
        (void)snprintf(w->refusal, sizeof(w->refusal), "held by %.*s since %s, %u waiting%s%.*s",
                       (int)client.len, (const char *)client.data,
                       human_time(json_tree_text(json_tree_get(holder, "since")), since),
                       (unsigned)json_tree_u64(json_tree_get(answer.tree, "queue_length"), 0),
                       trace.len > 0 ? ", trace " : "", (int)trace.len, (const char *)trace.data);
    }
    api_answer_close(&answer);
}

static void on_event(hf_client *client, const struct hf_event *e, void *arg)
{
    struct wrap *w = arg;
    switch (e->type) {
    case HF_EVENT_LOST:
        if (!w->is_lost) {
            const char *loss = w->lock != NULL ? hf_lock_loss(w->lock) : "";
            const char *text = e->text != NULL ? e->text : "";
            w->is_lost = true;
            (void)snprintf(w->loss, sizeof(w->loss), "%s", loss[0] != '\0' ? loss : text);
            (void)snprintf(w->words, sizeof(w->words), "%s",
                           strcmp(text, w->loss) != 0 ? text : "");
        }
        break;
    case HF_EVENT_SAFE:
        w->is_hold_over = false;
        break;
    case HF_EVENT_JEOPARDY:
        w->is_hold_over = e->text != NULL && strcmp(e->text, "max_hold") == 0;
        if (w->is_hold_over && w->o->is_verbose) {
            cli_say("%s: --max-hold ends in %" PRId64 " ms", w->o->what, e->safe_for_ms);
        } else if (w->o->is_verbose) {
            cli_say("%s: no confirmation from the cluster; still held for %" PRId64 " ms",
                    w->o->what, e->safe_for_ms);
        }
        break;
    case HF_EVENT_REVOKE_REQUESTED:
        w->revoked_ms = clock_boot_ms() + (e->deadline_ms > 0 ? e->deadline_ms : 0);
        cli_say("%s: an operator revokes it in %" PRId64 " ms: %s", w->o->what, e->deadline_ms,
                e->text != NULL ? e->text : "");
        break;
    default:
        break;
    }
}

static void write_status(const struct wrap *w, bool is_acquired, uint64_t token)
{
    struct buffer out;
    struct json_writer j;
    if (w->o->status_fd == 0) {
        return;
    }
    buffer_init(&out, memory_system(), 8192);
    json_writer_init(&j, &out);
    json_write_open(&j, '{');
    json_put_bool(&j, "acquired", is_acquired);
    json_write_key(&j, "token");
    if (is_acquired) {
        json_write_u64(&j, token);
    } else {
        json_write_null(&j);
    }
    json_put_bool(&j, "lost", w->is_lost);
    json_write_key(&j, "child_exit");
    if (w->is_over && w->run_error == 0) {
        json_write_u64(&j, (uint64_t)(WIFEXITED(w->child_status)
                                          ? WEXITSTATUS(w->child_status)
                                          : EXIT_SIGNAL + WTERMSIG(w->child_status)));
    } else {
        json_write_null(&j);
    }
    json_put_text(&j, "reason",
                  w->is_lost       ? w->loss
                  : w->error != 0  ? hf_error_name(w->error)
                  : w->caught != 0 ? "signal"
                                   : "ok");
    json_write_close(&j);
    buffer_append_byte(&out, '\n');
    (void)!write((int)w->o->status_fd, buffer_bytes(&out).data, buffer_len(&out));
    buffer_close(&out);
}

/* A loss that the release reports counts. */
static void release(struct wrap *w)
{
    if (w->lock == NULL || w->is_lost) {
        return;
    }
    int error = hf_release(w->lock);
    w->lock = NULL;
    if (error == HF_ERR_LOST) {
        w->is_lost = true;
        w->lost_in_linger = w->is_lingering;
        (void)snprintf(w->loss, sizeof(w->loss), "expired");
    } else if (error != 0) {
        char span[HUMAN_TEXT];
        cli_say("%s could not be released (%s); it expires in %s at the latest", w->o->what,
                hf_last_error(), human_span(w->o->ttl_ms, span));
    }
}

static int exit_code(const struct wrap *w)
{
    if (w->lost_in_linger) {
        cli_say("%s was lost (%s%s%s) after the command had ended, before --linger was over",
                w->o->what, w->loss, w->words[0] != '\0' ? ": " : "", w->words);
    } else if (w->is_lost) {
        cli_say("%s was lost (%s%s%s)%s", w->o->what, w->loss, w->words[0] != '\0' ? ": " : "",
                w->words, w->is_over ? " while the command ran; the command was killed" : "");
        return EXIT_LOST;
    }
    if (w->run_error != 0) {
        cli_say("%s: %s", w->program->path, strerror(w->run_error));
        return w->run_error == ENOENT ? EXIT_NO_COMMAND : EXIT_CANNOT_RUN;
    }
    if (w->caught != 0 && !w->is_lingering) {
        cli_say("%s: released after a signal (%s)", w->o->what, strsignal(w->caught));
        return EXIT_SIGNAL + w->caught;
    }
    return WIFEXITED(w->child_status) ? WEXITSTATUS(w->child_status)
                                      : EXIT_SIGNAL + WTERMSIG(w->child_status);
}

/* ^C must reach the whole job, also a script that runs us, which ends only if we die of SIGINT.
 * Only the command's group received it: send it to our group and die of it. */
static void share_interrupt(const struct wrap *w)
{
    bool was_interrupted =
        w->caught == SIGINT || (w->is_over && !w->is_lost && WIFSIGNALED(w->child_status) &&
                                WTERMSIG(w->child_status) == SIGINT);
    if (!was_interrupted || !terminal_is_ours(&w->terminal)) {
        return;
    }
    sigset_t interrupt;
    (void)sigemptyset(&interrupt);
    (void)sigaddset(&interrupt, SIGINT);
    (void)signal(SIGINT, SIG_DFL);
    (void)kill(0, SIGINT);
    (void)sigprocmask(SIG_UNBLOCK, &interrupt, NULL);
}

int wrap_end(struct wrap *w, int code)
{
    bool is_acquired = w->lock != NULL;
    uint64_t token = is_acquired ? hf_lock_token(w->lock) : 0;
    if (w->guard.fd >= 0) {
        guard_close(&w->guard);
    }
    guard_cgroup_remove(w->plan.cgroup);
    release(w);
    if (code == 0 && is_acquired) {
        code = exit_code(w);
    }
    write_status(w, is_acquired, token);
    if (w->client != NULL) {
        struct hf_client_stats stats = {.size = sizeof(stats)};
        bool is_connected = hf_client_stats(w->client, &stats) == 0 && stats.is_connected;
        /* Do not wait for an unreachable cluster: the TTL frees the locks. */
        if (is_connected) {
            hf_client_close(w->client);
        } else {
            hf_client_abandon(w->client);
        }
    }
    if (w->signals >= 0) {
        (void)close(w->signals);
    }
    share_interrupt(w);
    return code;
}
