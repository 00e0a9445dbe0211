/* Between fork and _exit the code may only read memory and write one file: a lock that another
 * thread held is never released in the child. */
#include "node/snapshot/snapshot_child.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/snapshot.h"
#include "node/snapshot/child_descriptors.h"
#include "storage/disk_posix.h"

enum {
    PAUSE_MIN_MS = 1000,
    PAUSE_MAX_MS = 60000,
    EXIT_FAILED = 1,
    EXIT_FULL = 2,
    EXIT_ORPHAN = 3,
    PIECE_BYTES = 1 << 20, /* the child syncs and pauses after each piece */
    GIVE_WAY_MAX_NS = 20000000,
};

enum snapshot_child_phase { IDLE, WRITING, NAMING, PAUSING };

struct snapshot_child {
    struct snapshot_child_options options;
    enum snapshot_child_phase phase;
    uv_signal_t signal;
    uv_timer_t pause;
    pid_t pid;
    struct snapshot_output *output;
    uint64_t index;
    uint64_t bytes; /* of the file */
    uint64_t started_ms;
    uint32_t pause_ms;
    bool cancelled; /* while the log thread names the file */
    bool stopped;
    struct pinned_snapshot {
        uint64_t index;
        uint64_t term;
    } newest, previous; /* `previous` is kept: a follower may be about to fetch it */
    uint64_t term;
};

/* The syncs of the log wait for the child's writes. So the child pauses after each piece for as
 * long as it took: the log has half of the disk time. */
struct child_writer {
    struct snapshot_output *output;
    size_t since_pause;
    uint64_t began_ns;
};

static uint64_t monotonic_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void pause_after_piece(struct child_writer *w)
{
    uint64_t took_ns = monotonic_ns() - w->began_ns;
    struct timespec pause = {
        .tv_nsec = took_ns < GIVE_WAY_MAX_NS ? (long)took_ns : (long)GIVE_WAY_MAX_NS,
    };
    (void)nanosleep(&pause, NULL);
    w->since_pause = 0;
    w->began_ns = monotonic_ns();
}

static bool put(void *ctx, const void *data, size_t len)
{
    struct problem problem;
    struct child_writer *w = ctx;
    enum storage_status status = snapshot_output_put(w->output, data, len, &problem);
    if (status != STORAGE_OK) {
        _exit(status == STORAGE_FULL ? EXIT_FULL : EXIT_FAILED);
    }
    w->since_pause += len;
    if (w->since_pause >= PIECE_BYTES) {
        pause_after_piece(w);
    }
    return true;
}

static _Noreturn void child(struct snapshot_output *output, const struct core *core, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(EXIT_ORPHAN);
    }
    (void)prctl(PR_SET_NAME, "snapshot");
    (void)setpriority(PRIO_PROCESS, 0, 10); /* requests have priority */
    child_descriptors_close(disk_posix_descriptor(snapshot_output_file(output)));
    struct problem problem;
    struct child_writer writing = {.output = output, .began_ns = monotonic_ns()};
    if (!snapshot_write(core, put, &writing)) {
        _exit(EXIT_FAILED);
    }
    enum storage_status status = snapshot_output_finish(output, &problem);
    _exit(status == STORAGE_OK ? 0 : status == STORAGE_FULL ? EXIT_FULL : EXIT_FAILED);
}

static void abort_output(struct snapshot_child *s)
{
    snapshot_output_abort(s->output);
    s->output = NULL;
}

static void on_pause_over(uv_timer_t *timer)
{
    struct snapshot_child *s = timer->data;
    s->phase = IDLE;
    s->options.on_failed(s->options.ctx);
}

static void fail(struct snapshot_child *s, const char *why)
{
    journal_note(s->options.journal, WARN, SNAPSHOT, "snapshot_failed",
                 JOURNAL_NUMBER("index", s->index), JOURNAL_TEXT("reason", why),
                 JOURNAL_NUMBER("retry_ms", s->pause_ms));
    s->phase = PAUSING;
    uv_timer_start(&s->pause, on_pause_over, s->pause_ms, 0);
    s->pause_ms = s->pause_ms * 2 < PAUSE_MAX_MS ? s->pause_ms * 2 : PAUSE_MAX_MS;
}

static enum storage_status name_file(void *ctx, struct problem *problem)
{
    struct snapshot_child *s = ctx;
    struct snapshot_output *output = s->output;
    s->output = NULL;
    enum storage_status status = snapshot_output_commit(output, problem);
    if (status != STORAGE_OK) {
        return status;
    }
    struct snapshots *all = s->options.store->snapshots;
    s->bytes = snapshots_newest_bytes(all);
    if (s->previous.index != 0) {
        snapshots_unpin(all, s->previous.index, s->previous.term);
    }
    s->previous = s->newest;
    s->newest = (struct pinned_snapshot){s->index, s->term};
    if (!snapshots_pin(all, s->newest.index, s->newest.term)) {
        s->newest = (struct pinned_snapshot){0, 0};
    }
    return snapshots_prune(all, problem);
}

static void on_named(void *ctx, enum storage_status status, const struct problem *problem)
{
    struct snapshot_child *s = ctx;
    if (s->stopped) {
        return;
    }
    if (s->cancelled) {
        s->cancelled = false;
        s->phase = IDLE;
        s->options.on_failed(s->options.ctx);
        return;
    }
    if (status != STORAGE_OK) {
        fail(s, problem->text);
        return;
    }
    s->pause_ms = PAUSE_MIN_MS;
    s->phase = IDLE;
    journal_note(s->options.journal, INFO, SNAPSHOT, "snapshot_taken",
                 JOURNAL_NUMBER("index", s->index), JOURNAL_NUMBER("bytes", s->bytes),
                 JOURNAL_NUMBER("ms", uv_now(s->options.loop) - s->started_ms));
    s->options.on_taken(s->options.ctx, s->index, s->bytes);
}

static void on_ended(struct snapshot_child *s, int status)
{
    s->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        s->phase = NAMING;
        logger_run(s->options.logger, name_file, on_named, s);
        return;
    }
    abort_output(s);
    fail(s, WIFSIGNALED(status)                ? "the child was killed"
            : WEXITSTATUS(status) == EXIT_FULL ? "the disk is full"
                                               : "the child could not write");
}

static void on_signal(uv_signal_t *signal, int number)
{
    (void)number;
    struct snapshot_child *s = signal->data;
    int status;
    if (s->pid > 0 && waitpid(s->pid, &status, WNOHANG) == s->pid) {
        on_ended(s, status);
    }
}

void snapshot_child_take(struct snapshot_child *s, struct id cluster, const struct core *core,
                         const struct replica_snapshot *about)
{
    hf_assert(s->phase == IDLE);
    struct snapshot_info info = {.cluster = cluster,
                                 .index = about->index,
                                 .term = about->term,
                                 .configuration_index = about->members_index,
                                 .configuration = about->members};
    struct problem problem;
    s->index = about->index;
    s->term = about->term;
    s->started_ms = uv_now(s->options.loop);
    enum storage_status status =
        snapshot_output_begin(s->options.store->snapshots, &info, 0, &s->output, &problem);
    if (status != STORAGE_OK) {
        s->output = NULL;
        fail(s, problem.text);
        return;
    }
    pid_t parent = getpid();
    uint64_t before_us = uv_hrtime() / 1000;
    pid_t pid = fork();
    if (pid == 0) {
        child(s->output, core, parent);
    }
    if (pid < 0) {
        abort_output(s);
        fail(s, uv_strerror(uv_translate_sys_error(errno)));
        return;
    }
    s->pid = pid;
    s->phase = WRITING;
    journal_note(s->options.journal, INFO, SNAPSHOT, "snapshot_started",
                 JOURNAL_NUMBER("index", s->index), JOURNAL_NUMBER("pid", (uint64_t)pid),
                 JOURNAL_NUMBER("fork_us", uv_hrtime() / 1000 - before_us));
}

static void kill_child(struct snapshot_child *s)
{
    if (s->pid > 0) {
        (void)kill(s->pid, SIGKILL);
        while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR) {
        }
        s->pid = 0;
        abort_output(s);
    }
}

void snapshot_child_cancel(struct snapshot_child *s)
{
    if (s->phase == NAMING) {
        s->cancelled = true;
        return;
    }
    if (s->phase == IDLE) {
        return;
    }
    kill_child(s);
    uv_timer_stop(&s->pause);
    s->phase = IDLE;
    s->options.on_failed(s->options.ctx);
}

bool snapshot_child_is_busy(const struct snapshot_child *s)
{
    return s->phase != IDLE;
}

bool snapshot_child_has_failed(const struct snapshot_child *s)
{
    return s->phase == PAUSING;
}

struct snapshot_child *snapshot_child_new(const struct snapshot_child_options *options)
{
    struct snapshot_child *s = memory_alloc(options->memory, sizeof(*s));
    memset(s, 0, sizeof(*s));
    s->options = *options;
    s->pause_ms = PAUSE_MIN_MS;
    uv_timer_init(options->loop, &s->pause);
    uv_signal_init(options->loop, &s->signal);
    s->pause.data = s;
    s->signal.data = s;
    uv_signal_start(&s->signal, on_signal, SIGCHLD);
    return s;
}

void snapshot_child_stop(struct snapshot_child *s)
{
    s->stopped = true;
    kill_child(s);
    uv_close((uv_handle_t *)&s->pause, NULL);
    uv_close((uv_handle_t *)&s->signal, NULL);
}

void snapshot_child_free(struct snapshot_child *s)
{
    if (s != NULL) {
        memory_free(s->options.memory, s, sizeof(*s));
    }
}
